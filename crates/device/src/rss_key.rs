//! The argument RSS_KEY of elements that receive: the key of the hash by which an interface spreads packets
//! over its receive queues.
//!
//! The default keys of many interfaces are publicly known, so that an attacker can choose addresses and ports
//! that send all flows to one queue. A secret key prevents the attack only in part: the hash is linear, so
//! that some relations between hashes are known without the key (`flow::rss`).

use element::Args;

const WORDS: [&str; 2] = ["own", "secret"];

/// True if RSS_KEY is `own`: the interface keeps the key that it has. Any word but `own` and `secret` is
/// registered as an error of the arguments, and gives false.
pub(crate) fn is_kept(args: &mut Args<'_>) -> bool {
    match args.value::<String>("RSS_KEY").as_str() {
        "secret" => false,
        "own" => true,
        other => {
            args.error(format!("RSS_KEY: secret or own expected, not \"{other}\""));
            false
        }
    }
}

/// Returns the value of the handler `rss_key`: `secret` if the interface uses a secret key, `own` if it
/// uses the key that it had before.
pub(crate) fn word(is_secret: bool) -> &'static str {
    WORDS[usize::from(is_secret)]
}

/// Returns the warning that an interface refused a secret key and therefore keeps its own. `interface` is
/// its name; `reason` is the system's error.
pub(crate) fn refusal(interface: &str, reason: &str) -> String {
    format!(
        "{interface}: spreads packets over its queues by its own key, which may be publicly known: the interface does \
         not accept a secret key ({reason})"
    )
}
