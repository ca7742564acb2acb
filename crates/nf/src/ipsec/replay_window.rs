//! The protection against replayed packets (RFC 4303, section 3.4.3): a window over sequence numbers.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of bits in the window, and so the largest number of sequence numbers that it covers.
const BITS: u32 = u32::BITS;
/// The number of largest sequence numbers after which the first number is accepted again: the sender has used
/// nearly all numbers.
const LAST_NUMBERS: u32 = 1 << 16;

/// The reason for which a sequence number is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No sender uses the number 0.
    Zero,
    /// The number lies before the window.
    Old,
    /// A packet with this number has come before.
    Seen,
}

/// The sequence numbers that have been accepted, in one word that several workers can change.
pub(super) struct ReplayWindow(AtomicU64);

/// The state of a window, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    /// The largest number that was accepted.
    largest: u32,
    /// The numbers that were accepted: bit n for the number `largest - n`.
    seen: u32,
}

impl State {
    fn unpack(word: u64) -> State {
        State { largest: (word >> 32) as u32, seen: word as u32 }
    }

    fn pack(self) -> u64 {
        u64::from(self.largest) << 32 | u64::from(self.seen)
    }

    /// Returns the state after a packet with this number. `first` is the first number of the association, and
    /// `width` is the number of latest numbers that the window covers.
    fn after(self, number: u32, first: u32, width: u32) -> Result<State, Refusal> {
        if number == 0 {
            return Err(Refusal::Zero);
        }
        let has_ended =
            self.largest > u32::MAX - LAST_NUMBERS && self.largest - first.min(self.largest) > LAST_NUMBERS;
        if number == first && has_ended {
            return Ok(State { largest: number, seen: 1 });
        }
        if number > self.largest {
            let distance = number - self.largest;
            let seen = if distance < width { self.seen << distance | 1 } else { 1 };
            return Ok(State { largest: number, seen });
        }
        let distance = self.largest - number;
        if distance >= width {
            return Err(Refusal::Old);
        }
        match self.seen & 1 << distance {
            0 => Ok(State { seen: self.seen | 1 << distance, ..self }),
            _ => Err(Refusal::Seen),
        }
    }
}

impl ReplayWindow {
    /// Makes a window that has accepted nothing, for an association with this first number.
    pub(super) fn new(first: u32) -> ReplayWindow {
        ReplayWindow(AtomicU64::new(State { largest: first, seen: 0 }.pack()))
    }

    /// Accepts a sequence number, which is then refused if it comes again.
    pub(super) fn accept(&self, number: u32, first: u32, width: u8) -> Result<(), Refusal> {
        let width = u32::from(width).clamp(1, BITS);
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let after = State::unpack(word).after(number, first, width)?.pack();
            match self.0.compare_exchange_weak(word, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => word = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::collections::HashSet;

    use proptest::prelude::*;

    #[test]
    fn the_first_number_comes_once() {
        for width in [0, 1, 32, 255] {
            let window = ReplayWindow::new(300);
            assert_eq!(window.accept(300, 300, width), Ok(()), "{width}");
            assert_eq!(window.accept(300, 300, width), Err(Refusal::Seen), "{width}");
            assert_eq!(window.accept(0, 300, width), Err(Refusal::Zero), "{width}");
            assert_eq!(window.accept(301, 300, width), Ok(()), "{width}");
            // A replay of the first packet does not open the window again.
            let refusal = if width < 2 { Refusal::Old } else { Refusal::Seen };
            assert_eq!(window.accept(300, 300, width), Err(refusal), "{width}");
        }
    }

    #[test]
    fn numbers_start_again_only_at_their_end() {
        let window = ReplayWindow::new(5);
        assert_eq!(window.accept(u32::MAX / 2, 5, 32), Ok(()));
        assert_eq!(window.accept(5, 5, 32), Err(Refusal::Old));
        assert_eq!(window.accept(u32::MAX, 5, 32), Ok(()));
        assert_eq!(window.accept(5, 5, 32), Ok(()));
        assert_eq!(window.accept(5, 5, 32), Err(Refusal::Seen));
        assert_eq!(window.accept(6, 5, 32), Ok(()));
        // An association with few numbers does not start again: its first number would always be accepted.
        let short = ReplayWindow::new(u32::MAX - 10);
        assert_eq!(short.accept(u32::MAX - 10, u32::MAX - 10, 32), Ok(()));
        assert_eq!(short.accept(u32::MAX, u32::MAX - 10, 32), Ok(()));
        assert_eq!(short.accept(u32::MAX - 10, u32::MAX - 10, 32), Err(Refusal::Seen));
    }

    proptest! {
        #[test]
        fn accepts_each_number_in_the_window_once(numbers in prop::collection::vec(1u32..200, 0..300), width: u8) {
            let window = ReplayWindow::new(1);
            let width_used = u32::from(width).clamp(1, 32);
            let (mut largest, mut seen) = (1, HashSet::new());
            for number in numbers {
                let expected = if number + width_used <= largest {
                    Err(Refusal::Old)
                } else if !seen.insert(number) {
                    Err(Refusal::Seen)
                } else {
                    Ok(())
                };
                prop_assert_eq!(window.accept(number, 1, width), expected, "{}", number);
                largest = largest.max(number);
            }
        }
    }
}
