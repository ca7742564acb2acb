//! The applications of uninterpreted functions: choices of elements, lengths and packets that only an
//! element knows. Each application has a number; equal numbers mean equal values.
//!
//! A number represents one value for each input packet. Two applications of a function share a number if
//! their arguments are equal for each input packet that belongs to both; for other input packets the
//! arguments may differ. So the result does not depend on how the paths of a chain partition the input
//! packets, nor on packets that no path contains. Sharing numbers also keeps diagrams small.

use std::cell::RefCell;
use std::collections::HashMap;

use element::effects::Field;

use super::diagrams::{Bit, Diagrams, Term};
use super::packet::PacketModel;

/// The applications of functions to packets that are followed from one output, in all compared chains.
#[derive(Default)]
pub struct Functions {
    /// The applications, by function. The key is a term without `bits`: only the name and the number
    /// arguments of the function.
    known: RefCell<HashMap<Term, Vec<Applied>>>,
}

/// The applications of a function that share one number, because their arguments are equal.
struct Applied {
    /// The fields that the function reads.
    reads: Vec<Field>,
    /// The condition on the input packets for which the function is applied.
    condition: Bit,
    /// For each symbolic packet that the function is applied to: the condition on the input packets. The
    /// conditions need not be disjoint.
    to: Vec<(Bit, PacketModel)>,
}

impl Functions {
    /// Returns the term for the value of `function`, which reads the fields `reads` of `packet`, for the
    /// input packets of `condition`. If `in_header` is true, bytes of the network header count only as far
    /// as the header reaches. If the arguments agree with an earlier application, the term is the same;
    /// else it is new.
    pub fn value(
        &self,
        d: &Diagrams,
        function: Term,
        reads: &[Field],
        in_header: bool,
        condition: &Bit,
        packet: &PacketModel,
    ) -> Term {
        let mut known = self.known.borrow_mut();
        let all = known.entry(function.clone()).or_default();
        // Numbers of applications to some of the same input packets are tried first, so that the function has
        // one value for these packets.
        let meets = |applied: &Applied| d.overlap(&applied.condition, condition);
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|&number| !meets(&all[number]));
        let agrees = |number: &usize| all[*number].agrees(d, reads, in_header, condition, packet);
        let number = order.into_iter().find(agrees).unwrap_or_else(|| {
            all.push(Applied { reads: reads.to_vec(), condition: d.no(), to: Vec::new() });
            all.len() - 1
        });
        all[number].add(d, condition, packet);
        let mut value = function;
        value.numbers.push(number as i64);
        value
    }
}

impl Applied {
    /// True if an application under this number can include the packets of `condition`: the function reads
    /// the same fields, and the arguments are equal for every input packet of `condition` to which the
    /// function is already applied.
    fn agrees(
        &self,
        d: &Diagrams,
        reads: &[Field],
        in_header: bool,
        condition: &Bit,
        packet: &PacketModel,
    ) -> bool {
        self.reads == reads
            && self.to.iter().all(|(other, to)| {
                let both = d.and(other, condition);
                d.is_never(&both) || PacketModel::look_the_same(d, &both, [to, packet], reads, in_header)
            })
    }

    fn add(&mut self, d: &Diagrams, condition: &Bit, packet: &PacketModel) {
        self.condition = d.or(&self.condition, condition);
        match self.to.iter_mut().find(|(_, to)| to == packet) {
            Some((other, _)) => *other = d.or(other, condition),
            None => self.to.push((condition.clone(), packet.clone())),
        }
    }
}
