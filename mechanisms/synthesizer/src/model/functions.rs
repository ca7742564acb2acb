//! Functions of which nothing is known but what they are applied to, as numbers: choices, lengths, packets that an element
//! makes.
//!
//! A number stands for one value for each packet that came in. So the same number may be that of a function applied to one
//! thing for some packets and to something else for others: for packets of which there are two applications, these have to
//! be to the same. It does not matter then in which parts packets come, in one chain and in another one, nor what they would
//! be if they were other packets than those that come. And the fewer numbers there are, the smaller are diagrams.

use std::cell::RefCell;
use std::collections::HashMap;

use element::effects::Field;

use super::diagrams::{Bit, Diagrams, Term};
use super::packet::Packet;

/// Those that are applied to packets that start at one place, in all chains that are compared.
#[derive(Default)]
pub struct Functions {
    /// By the function, to which no bits belong.
    known: RefCell<HashMap<Term, Vec<Applied>>>,
}

/// What one number stands for.
struct Applied {
    /// What the function looks at.
    reads: Vec<Field>,
    /// For which packets that came in.
    condition: Bit,
    /// What these have become where the function is applied.
    to: Vec<(Bit, Packet)>,
}

impl Functions {
    /// The value of a function that looks at these fields of a packet, for packets of a condition; of the network header
    /// perhaps only as far as it reaches.
    pub fn value(
        &self,
        d: &Diagrams,
        function: Term,
        reads: &[Field],
        in_header: bool,
        condition: &Bit,
        packet: &Packet,
    ) -> Term {
        let mut known = self.known.borrow_mut();
        let all = known.entry(function.clone()).or_default();
        // One that is already applied to some of these packets goes before one that is free.
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
    /// Whether it is applied to the same wherever it is already applied to packets of the condition.
    fn agrees(
        &self,
        d: &Diagrams,
        reads: &[Field],
        in_header: bool,
        condition: &Bit,
        packet: &Packet,
    ) -> bool {
        self.reads == reads
            && self.to.iter().all(|(other, to)| {
                let both = d.and(other, condition);
                d.is_never(&both) || Packet::look_the_same(d, &both, [to, packet], reads, in_header)
            })
    }

    fn add(&mut self, d: &Diagrams, condition: &Bit, packet: &Packet) {
        self.condition = d.or(&self.condition, condition);
        match self.to.iter_mut().find(|(_, to)| to == packet) {
            Some((other, _)) => *other = d.or(other, condition),
            None => self.to.push((condition.clone(), packet.clone())),
        }
    }
}
