//! The argument RSS_KEY: the key by which an interface spreads packets over its queues.
//!
//! The default keys of interfaces are publicly known, so that an attacker can send all flows to one queue.
//! A secret key prevents that as far as the hash does, which is linear (`flow::rss`).

use element::Args;

const WORDS: [&str; 2] = ["own", "secret"];

/// True if the argument says that the interface is to keep its own key.
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

/// Returns the argument's word for a secret key or the interface's own key.
pub(crate) fn word(is_secret: bool) -> &'static str {
    WORDS[usize::from(is_secret)]
}

/// Returns the message that an interface does not accept a secret key.
pub(crate) fn refusal(interface: &str, reason: &str) -> String {
    format!(
        "{interface}: spreads packets over its queues by its own key, which may be publicly known: the interface does \
         not accept a secret key ({reason})"
    )
}
