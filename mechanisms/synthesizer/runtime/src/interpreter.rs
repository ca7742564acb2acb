//! The interpreter: finds the class of each packet of a batch, and holds the operations of the classes.
//!
//! Rule lists are evaluated together for all packets of a batch that have reached them. No memory is
//! allocated per batch, except for new trails and machine code.

use element::Packet;
use packet::BATCH_CAPACITY;

use crate::flow_cache::{FlowCache, RowLayout, count};
use crate::graph::{CompiledGraph, OTHERWISE};
use crate::groups::Groups;
use crate::operation::Operation;
use crate::trail::{Found, Trails};
use program::machine_code::MachineCode;
use program::{Exit, Program};

/// A compiled program, ready to run. It finds the classes of packets, and holds the operations of the
/// classes.
pub struct Interpreter {
    /// The decision graph that finds the classes, with the residual programs of flows.
    pub(super) graph: CompiledGraph,
    /// The compiled operation of each class.
    operations: Vec<Operation>,
    machine_code: MachineCode,
}

/// The working memory for the packets of a batch. All of it is overwritten by the next batch, except for
/// the trails.
pub struct Scratch {
    /// The class of each packet of the batch, or [`OTHERWISE`].
    pub classes: Vec<u32>,
    waiting: Vec<(u8, u32)>,
    answers: Vec<u32>,
    trails: Trails,
    /// The rules that matched, to be counted: the index of the packet in the batch, of the list, and of the
    /// rule in the list.
    pub held: Vec<(u8, u32, u32)>,
    /// The packets of the batch grouped by class.
    pub groups: Groups,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            classes: Vec::with_capacity(BATCH_CAPACITY),
            waiting: Vec::with_capacity(BATCH_CAPACITY),
            answers: Vec::with_capacity(BATCH_CAPACITY),
            trails: Trails::default(),
            held: Vec::with_capacity(BATCH_CAPACITY),
            groups: Groups::default(),
        }
    }
}

impl Interpreter {
    /// Compiles a program. `is_seen(output, byte)` returns true if any element downstream of the output reads
    /// the annotation byte; annotations that no element reads are not written.
    ///
    /// # Errors
    /// If the program is not valid ([`program::validate`]).
    pub fn new(program: &Program, is_seen: &dyn Fn(usize, u8) -> bool) -> Result<Interpreter, String> {
        program::validate(program)?;
        jit::prepare(program.machine_code);
        let mut operations = Vec::with_capacity(program.classes.len());
        let row_layout = RowLayout::new(program);
        let leased = |step, offset| row_layout.place_of(program, step, offset);
        for class in &program.classes {
            let is_seen = |byte| match class.exit {
                Exit::Output(output) => is_seen(output, byte),
                Exit::Drop(_) => false,
            };
            operations.push(Operation::new(class, &is_seen, &leased));
        }
        Ok(Interpreter { graph: CompiledGraph::new(program), operations, machine_code: program.machine_code })
    }

    /// Writes the class of each packet to `scratch.classes`, and the rules of lists that matched to
    /// `scratch.held`. With `flows`, packets of known flows run through their flow's residual program; the
    /// flows must have been looked up for this batch ([`FlowCache::find`]). With `None`, all packets run
    /// through the whole program.
    pub fn classify(&self, packets: &[Packet], flows: Option<&FlowCache>, scratch: &mut Scratch) {
        let Scratch { classes, waiting, answers, trails, held, .. } = scratch;
        classes.clear();
        classes.resize(packets.len(), OTHERWISE);
        waiting.clear();
        held.clear();
        trails.keep(self.graph.forgotten());
        let graph = &self.graph;
        let places = packets.iter().zip(0..=u8::MAX);
        match flows {
            None => {
                let laid_out = places.filter(|(packet, _)| graph.is_laid_out(packet));
                trails.begin(0, graph.start()).extend(laid_out.map(|(_, place)| place));
            }
            Some(flows) => {
                for ((packet, place), row_head) in places.zip(flows.row_heads()) {
                    // A packet that has a key has passed the test for the program's layout
                    // ([`FlowCache::find`]).
                    match flows.start(row_head.residual()) {
                        Some(at) => trails.add(row_head.residual() + 1, at, place),
                        None if graph.is_laid_out(packet) => trails.add(0, graph.start(), place),
                        None => {}
                    }
                }
            }
        }
        let machine_code = self.machine_code;
        trails.follow(graph, &mut Found { packets, flows, classes, waiting, held, machine_code });
        // Packets that wait at the same rule list are looked up together. Each pass of the loop evaluates one
        // list; packets that then reach another list wait there.
        while let Some(&(_, node)) = waiting.first() {
            let Some((list, rules)) = graph.list_of(node) else { break };
            answers.clear();
            let is_here =
                |(_, other): &&(u8, u32)| graph.list_of(*other).is_some_and(|(other, _)| other == list);
            let mut places = waiting.iter().filter(is_here).map(|(place, _)| *place);
            let here = waiting.iter().filter(is_here).map(|(place, _)| &packets[usize::from(*place)]);
            rules.first_of_each(here, |rule, outcome| {
                held.extend(places.next().map(|place| (place, list, rule)));
                answers.push(outcome);
            });
            let mut answers = answers.iter();
            waiting.retain_mut(|(place, node)| {
                if graph.list_of(*node).is_none_or(|(other, _)| other != list) {
                    return true;
                }
                let Some(answer) = answers.next() else { return false };
                let packet = &packets[usize::from(*place)];
                let known = flows.and_then(|flows| flows.known((*place).into()));
                let next = graph.after(*node, *answer);
                let mut counted =
                    |list| count(known, list, &mut |list, rule| held.push((*place, list, rule)));
                match graph.follow(next, packet, &mut counted) {
                    Ok(class) => {
                        classes[usize::from(*place)] = class;
                        false
                    }
                    Err(further) => {
                        *node = further;
                        true
                    }
                }
            });
        }
    }

    /// Returns the operation of a class; `None` if there is no such class. `packets` is the number of packets
    /// to which the operation will be applied: machine code is made once this has happened to many packets.
    #[inline]
    pub fn operation(&mut self, class: u32, packets: usize) -> Option<&Operation> {
        let operation = self.operations.get_mut(class as usize)?;
        operation.count(packets, self.machine_code);
        Some(operation)
    }
}
