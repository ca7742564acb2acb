//! Sources of generated packets, and ReplayUnqueue, which sends packets from memory repeatedly.

mod fast_flows;
pub mod fast_tcp_flows;
pub mod fast_udp_flows;
pub mod fast_udp_source;
pub mod infinite_source;
pub mod random_source;
pub mod rated_source;
pub mod replay_unqueue;
pub mod timed_source;

use std::sync::Arc;

use element::args::{Bytes, Raw};
use element::{Args, Call, Class, Cx};

/// The default of DATA, as in Click, because users compare printed packets.
const DEFAULT_DATA: &str = "\"Random bullshit in a packet, at least 64 bytes long. Well, now it is.\"";

/// The bytes of a source's packets, from the arguments DATA and LENGTH.
struct Data {
    /// DATA, as configured or written to the handler `data`.
    given: Vec<u8>,
    /// The length of packets in bytes, to which the data is repeated or cut; `None` for the length of the
    /// data.
    length: Option<usize>,
    /// The bytes of each packet, computed from the data and the length.
    bytes: Vec<u8>,
}

impl Data {
    fn new(given: Vec<u8>, length: Option<usize>) -> Data {
        let mut data = Data { given, length, bytes: Vec::new() };
        data.update();
        data
    }

    /// Parses DATA, LENGTH and its deprecated name DATASIZE. LENGTH takes precedence; if it is too large,
    /// an error is reported to `args`.
    fn read(args: &mut Args<'_>) -> Data {
        let Bytes(given) = args.value("DATA");
        let (length, older): (i64, Option<i64>) = (args.value("LENGTH"), args.get("DATASIZE"));
        let length = older.filter(|_| !args.was_given("LENGTH")).unwrap_or(length);
        let length = usize::try_from(length).ok();
        if length.is_some_and(|n| n > packet::MAX_PACKET) {
            args.too_large("LENGTH", packet::MAX_PACKET);
            return Data::new(given, None);
        }
        Data::new(given, length)
    }

    /// Returns the value of the handler `data`: the data as configured.
    fn show(&self) -> String {
        String::from_utf8_lossy(&self.given).into_owned()
    }

    /// Returns the value of the handler `length`: the length as configured, or -1 for the length of the
    /// data.
    fn show_length(&self) -> String {
        self.length.map_or("-1".into(), |n| n.to_string())
    }

    /// Sets the data to the value that was written to the handler `data`, in which no character is special.
    fn set_given(&mut self, value: &str) {
        self.given = value.into();
        self.update();
    }

    /// Sets the length of packets in bytes, at most [`packet::MAX_PACKET`]; a negative length means the
    /// length of the data.
    fn set_length(&mut self, given: i64) {
        self.length = usize::try_from(given).ok().map(|n| n.min(packet::MAX_PACKET));
        self.update();
    }

    fn update(&mut self) {
        let length = self.length.unwrap_or(self.given.len());
        let fill = if self.given.is_empty() { &[0][..] } else { &self.given };
        self.bytes = fill.iter().copied().cycle().take(length).collect();
    }
}

/// The actions of a source that has reached its limit: it stops the driver (STOP) or calls a handler
/// (END_CALL).
#[derive(Default)]
struct AtEnd {
    /// END_CALL as configured, which `initialize` parses into `call`.
    text: Option<String>,
    stop: bool,
    call: Option<Arc<Call>>,
    /// True if the source has stopped the driver or called the handler. InfiniteSource and RatedSource set
    /// this to false when they make packets again; a TimedSource stops the driver only once.
    done: bool,
}

impl AtEnd {
    /// Parses STOP and, if `has_call` is true, END_CALL. Giving both is an error.
    fn read(args: &mut Args<'_>, has_call: bool) -> AtEnd {
        let stop = args.value::<bool>("STOP");
        let text = if has_call { args.get::<Raw>("END_CALL").map(|Raw(text)| text) } else { None };
        if stop && text.is_some() {
            args.error("END_CALL and STOP are mutually exclusive");
        }
        AtEnd { text, stop, ..AtEnd::default() }
    }

    /// Parses END_CALL, now that all elements exist. `class` is the class of the source: a handler name
    /// without an element means the source's own handler, if `class` has it.
    fn initialize(&mut self, cx: &Cx<'_>, class: &Class) -> Result<(), String> {
        if let Some(text) = &self.text {
            let own = |name: &str| class.each_handler().any(|h| h.name == name).then_some(cx.id());
            self.call = Some(Arc::new(Call::parse(text, cx, own)?));
        }
        Ok(())
    }

    /// True if a handler is called.
    fn calls(&self) -> bool {
        self.text.is_some()
    }

    /// Stops the driver (STOP) or calls the handler (END_CALL), unless this has been done since packets were
    /// made last. The handler is called after the packets that have been emitted are processed.
    fn reached(&mut self, cx: &mut Cx<'_>) {
        if std::mem::replace(&mut self.done, true) {
            return;
        }
        if self.stop {
            cx.stop();
        }
        if let Some(call) = &self.call {
            cx.handlers().call_later(call);
        }
    }
}

/// Converts a limit from user input: a negative number means no limit.
fn limit_of(given: i64) -> u64 {
    u64::try_from(given).unwrap_or(u64::MAX)
}

/// Converts a limit for handlers: -1 means no limit.
fn show_limit(limit: u64) -> String {
    i64::try_from(limit).unwrap_or(-1).to_string()
}

/// Stops the task of a push source that has taken over the state of the source that it replaces in a reload,
/// if that source had reached its limit (`is_done`).
fn rest_if(cx: &mut Cx<'_>, is_done: bool) {
    if is_done && cx.graph().output_is_push(0) {
        cx.unschedule();
    }
}
