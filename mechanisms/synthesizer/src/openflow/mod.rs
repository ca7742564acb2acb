//! The part of a program that a switch can answer, as OpenFlow 1.3 flows (SNF paper, "Hardware-accelerated SNF").
//!
//! A switch asks about addresses, ports, protocol and DSCP; it does not know lengths, TTLs or checksums. So it puts into a
//! program the answers that it has ([`pipeline`]), and sends each packet on with a number in a VLAN tag, its *switch class*, or by the class's own port.
//! The number says what is left to be asked, and the software goes on from there ([`behind`]). Rules stay rules, the first one
//! with the highest priority ([`cube`], [`flow`]); ranges of ports become prefixes or bits of metadata ([`ranges`]).
//!
//! Invariants:
//! - Only untagged IPv4 packets that are no fragments, and of which the switch has found the fields, have a class of their
//!   own. All others are of the class [`REST`], and the software asks all of the program.
//! - The software looks itself whether a packet is laid out as the switch takes it to be: an Ethernet header and an IPv4
//!   header without options. It believes the switch for such packets only, because the program knows no others with ports at
//!   the place where it asks for them.
//! - Where a switch cannot tell whether a rule holds, packets that it may hold for are of class [`REST`].
//!
//! A switch shows fields that a packet does not have as zero (ovs-fields(7)). Packets with all of them zero are of class
//! [`REST`] too.

pub mod behind;
pub mod cube;
pub mod flow;
pub mod pipeline;
pub mod ranges;

use std::fmt;

use crate::compose::diagram::Diagram;
use crate::program::{Next, Program};
use pipeline::Pipeline;

/// The switch class of packets that only the software knows anything about; others have higher numbers.
pub const REST: u16 = 1;

/// Numbers that a VLAN tag has for classes (IEEE 802.1Q keeps 0 and 4095).
pub const MOST_CLASSES: usize = 4094;

/// How ranges of ports are matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RangeForm {
    /// In whichever way there are fewer flows.
    #[default]
    Fewest,
    /// As prefixes.
    Prefix,
    /// As bits of metadata, set by two tables.
    Metadata,
}

/// What there is to know about the switch.
#[derive(Clone, Debug)]
pub struct Options {
    /// The port where packets come in.
    pub from: String,
    /// The port that leads to the software, where packets have the number of their class in a VLAN tag. Or several: one for
    /// each class, that of [`REST`] first, and no tags.
    pub to: Vec<String>,
    /// The first table.
    pub first_table: u8,
    /// How ranges of ports are matched.
    pub ranges: RangeForm,
    /// Whether the switch drops what the software would drop if the packet has no IP options. With options, and where the
    /// length is wrong, it is dropped as well then, whatever the software does with such packets.
    pub discards: bool,
}

impl Options {
    /// Whether a class is told by the port, not by a tag.
    pub fn is_by_port(&self) -> bool {
        self.to.len() > 1
    }

    /// How many classes there can be, [`REST`] among them.
    fn most_classes(&self) -> usize {
        if self.is_by_port() { self.to.len() } else { MOST_CLASSES }
    }

    /// The instructions that send a packet to the software as one of a class.
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

/// Why a program is not for a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It does not begin at a source of whole Ethernet frames.
    Layout,
    /// There is nothing in it that a switch can answer.
    Nothing,
    /// It would take more tables than there are.
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

/// A program divided between a switch and software.
pub struct Division {
    diagram: Diagram,
    pipeline: Pipeline,
    program: Program,
    whole: Next,
    is_by_port: bool,
}

/// The flows of a program, a line for each, behind comments about what they are.
///
/// # Errors
/// Why it is not for a switch.
pub fn write(program: &Program, options: &Options) -> Result<String, Refusal> {
    Ok(Division::new(program, options)?.flows())
}

impl Division {
    /// Divides a program.
    ///
    /// # Errors
    /// Why it is not for a switch.
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

    /// The flows, a line for each, behind comments about what they are.
    pub fn flows(&self) -> String {
        let Pipeline { flows, notes, .. } = &self.pipeline;
        let notes = notes.iter().map(|note| format!("# {note}\n"));
        notes.chain(flows.iter().map(|flow| format!("{flow}\n"))).collect()
    }

    /// How many switch classes there are, [`REST`] among them.
    pub fn classes(&self) -> usize {
        self.pipeline.classes.len() + 1
    }

    /// How many tables there are.
    pub fn tables(&self) -> u8 {
        self.pipeline.tables
    }
}
