//! The texts of handlers that show mappings.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use element::args::{ArgType, IpPort};
use element::{Cx, Timestamp};

use super::Rewriter;
use crate::nat::flavour::Flavour;
use crate::nat::pattern::words;
use crate::nat::spaces::ONLY;
use crate::nat::store::{Written, space};
use crate::nat::tuple::Tuple;

impl Rewriter {
    /// Returns the text of a handler that lists mappings, the newest mapping first, with a line for each
    /// direction of a mapping; a mapping whose flow is its own reply gets a single line. `which` selects the
    /// mappings of one space, such as UDP; `None` selects all.
    pub(super) fn table(&self, cx: &Cx<'_>, which: Option<u32>) -> String {
        let mut text = String::new();
        for written in self.store(cx).written(self.home.owner, which).iter().rev() {
            // A mapping that is its own reply has one key, so it gets one line, in the direction of
            // replies.
            let directions = if written.is_own_reply { &[true][..] } else { &[true, false] };
            for &is_reply in directions {
                self.line(&mut text, written, is_reply, cx.now());
            }
        }
        text
    }

    fn line(&self, text: &mut String, written: &Written, is_reply: bool, now: Timestamp) {
        let [there, back] = written.tuples;
        let (from, other) = if is_reply { (back, there) } else { (there, back) };
        let to = other.reversed();
        let ip = Ipv4Addr::from_bits;
        let _ = match self.desk.flavour {
            Flavour::Address => write!(text, "{} => {}", ip(from.source), ip(to.source)),
            Flavour::Pair => {
                let pair = |t: Tuple| format!("({}, {})", ip(t.source), ip(t.destination));
                write!(text, "{} => {}", pair(from), pair(to))
            }
            Flavour::Ping { .. } => {
                let triple =
                    |t: Tuple| format!("({}, {}, {})", ip(t.source), ip(t.destination), t.source_port);
                write!(text, "{} => {}", triple(from), triple(to))
            }
            _ => write!(text, "{from} => {to}"),
        };
        if let Some(moved) = written.shifts.as_ref().map(|shifts| shifts.of(is_reply).last() as i32)
            && moved != 0
        {
            let _ = write!(text, " seq {moved:+}");
        }
        let [forward, reply] = written.outputs;
        let outputs = if is_reply { format!("{forward} *{reply}") } else { format!("*{forward} {reply}") };
        let left = (written.expiry - now.0 + 500_000_000).div_euclid(1_000_000_000);
        let _ = writeln!(text, " [{outputs}] i{} exp{left}", written.input);
    }

    /// Returns the new addresses and ports of the flow `SADDR SPORT DADDR DPORT` in `text`, or an empty
    /// text if it has no mapping. The error says which word is missing or wrong.
    pub(super) fn look_up(&self, cx: &Cx<'_>, text: &str) -> Result<String, String> {
        let words = words(text);
        let names = ["SADDR", "SPORT", "DADDR", "DPORT"];
        if words.len() > names.len() {
            return Err("too many arguments".into());
        }
        let word = |n: usize| words.get(n).ok_or_else(|| format!("{}: required argument missing", names[n]));
        let place = cx.place();
        let address = |n: usize| Ipv4Addr::parse(word(n)?, &place).map_err(|e| format!("{}: {e}", names[n]));
        let port = |n: usize| {
            let port = IpPort::<{ wire::ip_protocol::TCP }>::parse(word(n)?, &place);
            port.map(|IpPort(port)| port).map_err(|e| format!("{}: {e}", names[n]))
        };
        let tuple = Tuple {
            source: address(0)?.to_bits(),
            source_port: port(1)?,
            destination: address(2)?.to_bits(),
            destination_port: port(3)?,
        };
        let found = self.store(cx).find(tuple, space(self.home.owner, ONLY));
        Ok(found.map_or(String::new(), |change| {
            let ip = Ipv4Addr::from_bits;
            let Tuple { source, source_port, destination, destination_port } = change.to;
            format!("{} {source_port} {} {destination_port}", ip(source), ip(destination))
        }))
    }
}
