//! The OpenFlow back end: the part of a program that a switch can execute, as OpenFlow 1.3 flow entries (SNF
//! paper, "Hardware-accelerated SNF"). In the names of this module, *flow* means a flow entry of a switch.
//!
//! A switch matches addresses, ports, protocol, DSCP and ECN. It does not know lengths, times to live or
//! checksums. So it evaluates those questions of a program that it can answer ([`pipeline`]). It forwards
//! each packet with a number, its *switch class*: in a VLAN tag, or by the class's own port. The number
//! selects the residual program, which the software runs ([`behind`]). The rules of a list become flow
//! entries; the entries of the first rule have the highest priority ([`cube`], [`flow`]). Ranges of ports
//! become prefixes or bits of metadata ([`ranges`]).
//!
//! Invariants:
//! - Only untagged IPv4 packets that are no fragments, and whose fields the switch has parsed, have a class
//!   of their own. All others are of the class [`REST`], and the software runs the whole program for them.
//! - The software verifies that a packet has the layout that the switch assumes: an Ethernet header and an
//!   IPv4 header without options. It trusts the switch for these packets only, because the residual
//!   programs read ports at that offset.
//! - If a switch cannot decide a rule, packets for which the rule may hold are of class [`REST`].
//!
//! In a switch, fields that a packet does not have are zero (ovs-fields(7)). So packets whose protocol and
//! addresses are all zero, and packets whose ports are both zero, are of class [`REST`], too.

pub mod behind;
pub mod cube;
pub mod flow;
pub mod pipeline;
pub mod ranges;

use std::fmt;

use crate::compose::diagram::Diagram;
use pipeline::Pipeline;
use program::{Next, Program};

/// The switch class of packets for which the software runs the whole program. The classes with residual
/// programs have the numbers from 2 on.
pub const REST: u16 = 1;

/// The number of switch classes that a VLAN tag can distinguish (IEEE 802.1Q reserves 0 and 4095).
pub const MOST_CLASSES: usize = 4094;

/// The form in which a switch matches ranges of ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RangeForm {
    /// The form, prefixes or metadata, with which the switch answers more questions of the program; if both
    /// answer as many, the form with fewer flow entries. Both forms are tried.
    #[default]
    Fewest,
    /// A flow entry for each prefix that the range consists of, so usually several entries for a range.
    Prefix,
    /// A single flow entry for each range that has a bit of the metadata. A table for source ports, or one
    /// for destination ports, sets this bit in packets whose port is in the range. Ranges without a bit
    /// become prefixes.
    Metadata,
}

/// The parameters of the switch, and of its connection to the software.
#[derive(Clone, Debug)]
pub struct Options {
    /// The switch's port at which packets arrive.
    pub from: String,
    /// The ports that lead to the software. With a single port, packets have the number of their class in a
    /// VLAN tag. With several ports, each class has a port and packets have no tag; the first port is for
    /// [`REST`].
    pub to: Vec<String>,
    /// The number of the first table that the flow entries use.
    pub first_table: u8,
    /// The form in which ranges of ports are matched.
    pub ranges: RangeForm,
    /// True if the switch may drop packets whose residual program drops them. The switch cannot see IP
    /// options and wrong lengths. So it treats such packets like others, and may drop packets that the
    /// software would not.
    pub discards: bool,
}

impl Options {
    /// True if the port at which a packet reaches the software determines its class; false if a tag does.
    pub fn is_by_port(&self) -> bool {
        self.to.len() > 1
    }

    /// Returns the maximum number of switch classes, including [`REST`].
    fn most_classes(&self) -> usize {
        if self.is_by_port() { self.to.len() } else { MOST_CLASSES }
    }

    /// Returns the instructions that send a packet of the class `class` to the software: with a tag, or by
    /// the port of the class. For a class without a port, returns the instructions that drop the packet.
    fn sending(&self, class: u16) -> String {
        match &self.to[..] {
            [port] => flow::tagged(class, port),
            ports => match ports.get(usize::from(class) - 1) {
                Some(port) => format!("output:{port}"),
                None => "drop".into(),
            },
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            from: "1".into(),
            to: vec!["2".into()],
            first_table: 0,
            ranges: RangeForm::Fewest,
            discards: false,
        }
    }
}

/// The reason why no part of a program can be given to a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The program does not begin at a source of whole Ethernet frames, so the switch would not know the
    /// offsets of packet headers.
    Layout,
    /// The program has no question that an OpenFlow switch can answer.
    Nothing,
    /// The program needs more tables than a switch has.
    Tables,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Layout => "it does not begin with whole Ethernet frames from a source",
            Refusal::Nothing => "it asks nothing that a switch can answer",
            Refusal::Tables => "it takes more than 254 tables",
        })
    }
}

/// A program that is divided between a switch and the software that receives the switch's packets.
pub struct Division {
    diagram: Diagram,
    pipeline: Pipeline,
    program: Program,
    whole: Next,
    is_by_port: bool,
}

/// Returns the flow entries for the part of a program that a switch executes: one per line, after comments
/// that describe them.
///
/// # Errors
/// If the program is not suitable for a switch.
pub fn write(program: &Program, options: &Options) -> Result<String, Refusal> {
    Ok(Division::new(program, options)?.flows())
}

impl Division {
    /// Divides a program between a switch and the software. Of the permitted forms of ranges, the form is
    /// used with which the switch answers the most questions, and of equal forms the form with the fewest
    /// flow entries.
    ///
    /// # Errors
    /// If the program is not suitable for a switch.
    pub fn new(program: &Program, options: &Options) -> Result<Division, Refusal> {
        if program.layout != [Some(0), None, None] || !program.is_certain {
            return Err(Refusal::Layout);
        }
        let forms = match options.ranges {
            RangeForm::Fewest => vec![false, true],
            RangeForm::Prefix => vec![false],
            RangeForm::Metadata => vec![true],
        };
        let mut best = Err(Refusal::Nothing);
        for by_metadata in forms {
            let mut diagram = Diagram::default();
            let mut program = program.clone();
            let whole = diagram.load(&program.nodes, program.start);
            match Pipeline::new(&mut diagram, whole, &mut program, options, by_metadata) {
                Ok(pipeline) => {
                    let is_by_port = options.is_by_port();
                    let division = Division { diagram, pipeline, program, whole, is_by_port };
                    if best.as_ref().is_ok_and(|best: &Division| best.pipeline.is_better(&division.pipeline))
                    {
                        continue;
                    }
                    best = Ok(division);
                }
                Err(refusal) => best = best.map_err(|_| refusal),
            }
        }
        best
    }

    /// Returns the flow entries for the switch: one per line, after comments that describe them.
    pub fn flows(&self) -> String {
        let Pipeline { flows, notes, .. } = &self.pipeline;
        let notes = notes.iter().map(|note| format!("# {note}\n"));
        notes.chain(flows.iter().map(|flow| format!("{flow}\n"))).collect()
    }

    /// Returns the number of switch classes, including [`REST`].
    pub fn classes(&self) -> usize {
        self.pipeline.classes.len() + 1
    }

    /// Returns the number of tables that the flow entries use.
    pub fn tables(&self) -> u8 {
        self.pipeline.tables
    }
}
