//! Counters of an element that another element replaces.

use packet::DropReason;

use super::Counters;
use crate::effects::{Case, Target};

impl Counters {
    /// Counts `packets` packets that another element processed in place of this element, according to `case`
    /// of its declaration. `outputs` is the number of outputs of this element.
    pub fn pass(&mut self, case: &Case, outputs: usize, packets: u64) {
        self.arrived += packets;
        match case.to {
            Target::Output(output) | Target::Hold(output) if output >= outputs => {
                self.drop(case.otherwise, packets);
            }
            Target::AllOutputs | Target::SomeOutput if outputs == 0 => {
                self.drop(DropReason::NoOutput, packets);
            }
            Target::Output(_) | Target::Hold(_) | Target::SomeOutput => self.emitted += packets,
            Target::AllOutputs => {
                self.made += packets * (outputs as u64 - 1);
                self.emitted += packets * outputs as u64;
            }
            Target::Drop(reason) => self.drop(reason, packets),
            Target::Send => self.sent += packets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::Filter;

    #[test]
    fn packets_are_counted_as_their_case_says() {
        let counted = |to, outputs| {
            let mut counters = Counters::default();
            counters.pass(&Case::new(Filter::TRUE, to).or_drop(DropReason::NoMatch), outputs, 3);
            assert_eq!(counters.balance(), 0, "{to:?}");
            assert_eq!(counters.arrived, 3);
            (counters.emitted, counters.sent, counters.drops)
        };
        assert_eq!(counted(Target::Output(1), 2), (3, 0, Vec::new()));
        assert_eq!(counted(Target::Output(1), 1), (0, 0, vec![(DropReason::NoMatch, 3)]));
        assert_eq!(counted(Target::AllOutputs, 2), (6, 0, Vec::new()));
        assert_eq!(counted(Target::AllOutputs, 0), (0, 0, vec![(DropReason::NoOutput, 3)]));
        assert_eq!(
            counted(Target::Drop(DropReason::TtlExpired), 1),
            (0, 0, vec![(DropReason::TtlExpired, 3)])
        );
        assert_eq!(counted(Target::Send, 0), (0, 3, Vec::new()));
    }
}
