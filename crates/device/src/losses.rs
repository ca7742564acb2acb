//! Reports to the user that an element at a device or socket drops packets, without a message for each
//! packet.

use std::fmt::Arguments;

use element::{Cx, DropReason, Timestamp};

/// The shortest time between two messages about the same drop reason, until the end of the run.
const PAUSE: Timestamp = Timestamp(10_000_000_000);
/// The largest number of drop reasons of an element. Further reasons are not reported.
const MOST_REASONS: usize = 8;

/// The packets that an element has dropped, by drop reason. The first packet of each reason is reported if
/// the caller gives a text. Later, the number of packets is reported at intervals of at least ten seconds,
/// and at the end of the run.
#[derive(Debug, Default)]
pub(crate) struct Losses([Option<Loss>; MOST_REASONS]);

/// The number of packets that were dropped for one reason.
#[derive(Clone, Copy, Debug)]
struct Loss {
    why: DropReason,
    packets: u64,
    /// `told` is the value of `packets` in the last message about this drop reason, and `at` is the time of
    /// that message.
    told: u64,
    at: Timestamp,
}

/// The last failure of an element, so that a failure that lasts is reported once.
#[derive(Debug)]
pub(crate) struct LastFailure<T>(Option<(T, Timestamp)>);

impl<T> Default for LastFailure<T> {
    fn default() -> LastFailure<T> {
        LastFailure(None)
    }
}

impl<T: PartialEq> LastFailure<T> {
    /// Notes a failure of kind `what` at `now`. Returns true if it is to be reported: it is the first one, or
    /// the last failure was of another kind or at least ten seconds ago.
    pub(crate) fn is_new(&mut self, what: T, now: Timestamp) -> bool {
        let is_new = self.0.as_ref().is_none_or(|(last, at)| *last != what || now - *at >= PAUSE);
        self.0 = Some((what, now));
        is_new
    }

    /// Forgets the last failure, so that the next one is reported.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }
}

impl Losses {
    /// Counts dropped packets with their drop reason, and reports them if a message is due. `device` is the
    /// name in messages. `text` says what is wrong with the first packet and what to do. `text` is `None` if
    /// another message has reported the cause, for example that an interface is down.
    #[cold]
    pub(crate) fn count(
        &mut self,
        cx: &mut Cx<'_>,
        device: &str,
        (why, packets): (DropReason, usize),
        text: Option<Arguments<'_>>,
    ) {
        let (now, packets) = (cx.now(), packets as u64);
        let is_its = |loss: &&mut Option<Loss>| loss.is_none_or(|loss| loss.why == why);
        let Some(place) = self.0.iter_mut().find(is_its) else { return };
        let Some(loss) = place else {
            *place = Some(Loss { why, packets, told: packets, at: now });
            if let Some(text) = text {
                cx.warn(format_args!("{device}: {text}; such packets are dropped and counted"));
            }
            return;
        };
        loss.packets += packets;
        if now - loss.at >= PAUSE {
            (loss.told, loss.at) = (loss.packets, now);
            cx.warn(format_args!("{device}: {} packets so far were dropped: {why}", loss.packets));
        }
    }

    /// Reports, at the end of a run, the number of packets of each reason for which packets have been
    /// dropped since the last message.
    pub(crate) fn end(&mut self, cx: &mut Cx<'_>, device: &str) {
        for loss in self.0.iter_mut().flatten().filter(|loss| loss.packets > loss.told) {
            loss.told = loss.packets;
            cx.warn(format_args!("{device}: {} packets in all were dropped: {}", loss.packets, loss.why));
        }
    }
}

#[cfg(test)]
mod tests {
    use element::{Class, Effects, Element};
    use testkit::TestRun;

    use super::*;

    const SECOND: Timestamp = Timestamp(1_000_000_000);

    /// An element that counts three packets per second as dropped for one reason, and a single packet for
    /// another reason.
    #[derive(Default)]
    struct Loser {
        losses: Losses,
        seconds: u32,
    }

    impl Element for Loser {
        fn effects(&self) -> Effects {
            Effects::none()
        }

        fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
            cx.set_timer(0, cx.now() + SECOND);
            self.losses.count(cx, "eth0", (DropReason::InterfaceDown, 1), None);
            Ok(())
        }

        fn timer(&mut self, cx: &mut Cx<'_>, _token: u32) {
            self.losses.count(cx, "eth0", (DropReason::TooShort, 3), Some(format_args!("it is short")));
            self.seconds += 1;
            match self.seconds {
                25 => cx.stop(),
                _ => cx.set_timer(0, cx.now() + SECOND),
            }
        }

        fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
            self.losses.end(cx, "eth0");
            Ok(())
        }
    }

    static LOSER: Class =
        Class { name: "Loser", ports: "0/0", build: |_| Ok(Box::new(Loser::default())), ..Class::DEFAULT };

    #[test]
    fn a_failure_that_lasts_is_reported_once() {
        let mut last = LastFailure::default();
        let told: Vec<i64> = (0..60)
            .filter(|&n| !(20..=40).contains(&n))
            .filter(|&n| last.is_new(5, Timestamp::from_secs(n)))
            .collect();
        assert_eq!(told, [0, 41]);
        assert!(last.is_new(6, Timestamp::from_secs(59)) && last.is_new(5, Timestamp::from_secs(59)));
        last.clear();
        assert!(last.is_new(5, Timestamp::from_secs(59)));
    }

    #[test]
    fn the_first_packet_is_told_and_then_their_number_now_and_then() {
        static CLASSES: &[&Class] = &[&LOSER];
        let run = TestRun { classes: CLASSES, ..TestRun::default() };
        let outcome = run.text("l :: Loser", &[]).unwrap();
        let said: Vec<&str> = outcome.messages.lines().collect();
        let expected = [
            "l :: Loser: eth0: it is short; such packets are dropped and counted",
            "l :: Loser: eth0: 33 packets so far were dropped: too short",
            "l :: Loser: eth0: 63 packets so far were dropped: too short",
            "l :: Loser: eth0: 75 packets in all were dropped: too short",
        ];
        assert_eq!(said, expected);
    }
}
