//! The messages by which bridges find a tree (IEEE 802.1D-1998, clause 9): configuration messages, and
//! notifications that the tree has changed.

use element::Timestamp;
use wire::MacAddr;

/// The length in bytes of a frame with a message: the shortest frame that Ethernet carries.
pub(super) const FRAME: usize = 60;
/// The address of all bridges.
const ALL_BRIDGES: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0];
/// The bytes after the length field: the LLC header of bridges, and the protocol's number and version.
const PREFIX: [u8; 6] = [0x42, 0x42, 3, 0, 0, 0];
/// The offset of the type in a frame, after addresses, length and [`PREFIX`].
const TYPE: usize = 14 + PREFIX.len();
/// The type of a notification.
const NOTIFICATION: u8 = 0x80;
/// The flags of a configuration message: the tree has changed, and a notification was received.
const CHANGED: u8 = 0x01;
const ACKNOWLEDGED: u8 = 0x80;
/// The number of units in a second; times in messages are multiples of 1/256 s.
const PER_SECOND: i64 = 256;
const NANOSECONDS: i64 = 1_000_000_000;

/// The offer of a bridge to lead to the root. The less is the better: the root counts first, then the cost of
/// the way, the bridge and its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Offer {
    pub(super) root: u64,
    pub(super) cost: u32,
    pub(super) bridge: u64,
    pub(super) port: u16,
}

impl Offer {
    /// The worst offer, which stands for none.
    pub(super) const NONE: Offer = Offer { root: u64::MAX, cost: u16::MAX as u32, bridge: u64::MAX, port: 0 };
}

/// A configuration message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Configuration {
    pub(super) offer: Offer,
    /// True if the tree has changed not long ago.
    pub(super) is_changed: bool,
    /// The time since the root has sent the message on which this one is based.
    pub(super) age: Timestamp,
    pub(super) timing: Timing,
}

/// The times that the root sets for all bridges, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timing {
    pub(super) max_age: u16,
    pub(super) hello: u16,
    pub(super) forward_delay: u16,
}

impl Timing {
    /// The times that the standard recommends.
    pub(super) const USUAL: Timing = Timing { max_age: 20, hello: 2, forward_delay: 15 };
}

/// A message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A configuration message, and true if it acknowledges a notification.
    Configuration(Configuration, bool),
    Notification,
}

impl Message {
    /// Reads the message in a frame. `None` if the frame has none, or not all of it.
    pub(super) fn parse(frame: &[u8]) -> Option<Message> {
        if frame.get(14..TYPE)? != PREFIX {
            return None;
        }
        let (&kind, rest) = frame.get(TYPE..)?.split_first()?;
        match kind {
            NOTIFICATION => return Some(Message::Notification),
            0 => {}
            _ => return None,
        }
        let (&flags, rest) = rest.split_first()?;
        let (root, rest) = rest.split_first_chunk()?;
        let (cost, rest) = rest.split_first_chunk()?;
        let (bridge, rest) = rest.split_first_chunk()?;
        let (port, rest) = rest.split_first_chunk()?;
        let mut times = rest.get(..8)?.chunks_exact(2).map(|time| u16::from_be_bytes([time[0], time[1]]));
        let mut time = || times.next().unwrap_or_default();
        let age = Timestamp(i64::from(time()) * NANOSECONDS / PER_SECOND);
        let mut seconds = || time() / PER_SECOND as u16;
        let configuration = Configuration {
            offer: Offer {
                root: u64::from_be_bytes(*root),
                cost: u32::from_be_bytes(*cost),
                bridge: u64::from_be_bytes(*bridge),
                port: u16::from_be_bytes(*port),
            },
            is_changed: flags & CHANGED != 0,
            age,
            timing: Timing { max_age: seconds(), hello: seconds(), forward_delay: seconds() },
        };
        Some(Message::Configuration(configuration, flags & ACKNOWLEDGED != 0))
    }

    /// Makes a frame with the message, from this address.
    pub(super) fn frame(&self, source: MacAddr) -> [u8; FRAME] {
        let mut frame = [0; FRAME];
        frame[..6].copy_from_slice(&ALL_BRIDGES);
        frame[6..12].copy_from_slice(&source.0);
        frame[14..TYPE].copy_from_slice(&PREFIX);
        // The length of the LLC header and the message.
        frame[13] = match self {
            Message::Configuration(..) => 38,
            Message::Notification => 7,
        };
        let Message::Configuration(configuration, acknowledges) = self else {
            frame[TYPE] = NOTIFICATION;
            return frame;
        };
        let Configuration { offer, is_changed, age, timing } = configuration;
        let age = (age.0 * PER_SECOND / NANOSECONDS).clamp(0, u16::MAX.into()) as u16;
        let units = |seconds: u16| seconds.saturating_mul(PER_SECOND as u16);
        let times = [age, units(timing.max_age), units(timing.hello), units(timing.forward_delay)];
        let flags = if *is_changed { CHANGED } else { 0 } | if *acknowledges { ACKNOWLEDGED } else { 0 };
        frame[TYPE + 1] = flags;
        let fields: [&[u8]; 4] = [
            &offer.root.to_be_bytes(),
            &offer.cost.to_be_bytes(),
            &offer.bridge.to_be_bytes(),
            &offer.port.to_be_bytes(),
        ];
        let words = times.map(u16::to_be_bytes);
        let fields = fields.into_iter().chain(words.iter().map(|word| &word[..]));
        let mut rest = &mut frame[TYPE + 2..];
        for field in fields {
            let (place, behind) = rest.split_at_mut(field.len());
            place.copy_from_slice(field);
            rest = behind;
        }
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    #[test]
    fn frames_have_the_bytes_of_the_standard() {
        let source = MacAddr([0, 2, 3, 4, 5, 6]);
        let offer =
            Offer { root: 0x8000_0002_0304_0506, cost: 19, bridge: 0x8000_0002_0304_0507, port: 0x8001 };
        let age = Timestamp::from_secs(1);
        let configuration = Configuration { offer, is_changed: true, age, timing: Timing::USUAL };
        let frame = Message::Configuration(configuration, false).frame(source);
        let expected = [
            1, 0x80, 0xc2, 0, 0, 0, 0, 2, 3, 4, 5, 6, 0, 38, 0x42, 0x42, 3, 0, 0, 0, 0, 1, 0x80, 0, 0, 2, 3,
            4, 5, 6, 0, 0, 0, 19, 0x80, 0, 0, 2, 3, 4, 5, 7, 0x80, 1, 1, 0, 20, 0, 2, 0, 15, 0, 0, 0, 0, 0,
            0, 0, 0, 0,
        ];
        assert_eq!(frame[..], expected[..]);
        let frame = Message::Notification.frame(source);
        assert_eq!(frame[12..21], [0, 7, 0x42, 0x42, 3, 0, 0, 0, 0x80]);
    }

    proptest! {
        #[test]
        fn messages_are_read_as_written(
            root: u64, cost: u32, bridge: u64, port: u16, is_changed: bool, acknowledges: bool, age in 0u16..,
            max_age in 0u16..256, hello in 0u16..256, forward_delay in 0u16..256,
        ) {
            let configuration = Configuration {
                offer: Offer { root, cost, bridge, port },
                is_changed,
                age: Timestamp(i64::from(age) * NANOSECONDS / PER_SECOND),
                timing: Timing { max_age, hello, forward_delay },
            };
            let message = Message::Configuration(configuration, acknowledges);
            let frame = message.frame(MacAddr([2; 6]));
            prop_assert_eq!(Message::parse(&frame), Some(message));
            for length in 0..52 {
                prop_assert_eq!(Message::parse(&frame[..length]), None, "{}", length);
            }
        }

        #[test]
        fn no_frame_panics(frame in prop::collection::vec(any::<u8>(), 0..70)) {
            let _ = Message::parse(&frame);
            let mut bridge = Message::Notification.frame(MacAddr([2; 6])).to_vec();
            bridge.splice(TYPE.., frame);
            let _ = Message::parse(&bridge);
        }
    }
}
