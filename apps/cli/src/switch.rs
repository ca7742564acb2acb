//! The options of `tidegate synthesize` for an OpenFlow switch that does a part of the work, upstream of
//! the software.

use clap::ValueEnum;
use lang::Graph;
use program::chain::Chain;
use synthesizer::compose::{Region, Synthesis};
use synthesizer::insert::insert;
use synthesizer::openflow::behind::{number_ports, take_tags};
use synthesizer::openflow::{Division, Options, RangeForm, Refusal};

/// The arguments of `synthesize` about an OpenFlow switch.
#[derive(clap::Args)]
#[command(next_help_heading = "With an upstream switch")]
pub(crate) struct Switch {
    /// With `--emit click`: write the configuration of the software downstream of the switch
    ///
    /// The switch has the rules of `--emit openflow` with the same options.
    #[arg(long)]
    behind_switch: bool,
    /// The switch's ports for each source, in the order of the sources
    ///
    /// Packets arrive at IN, and the software is connected to OUT. For one port per class, write
    /// IN:OUT+OUT=INTERFACE+...; each INTERFACE is one of the software.
    #[arg(
        long, value_name = "IN:OUT", default_value = "1:2", value_delimiter = ',',
        value_parser = ports, allow_hyphen_values = true
    )]
    switch_ports: Vec<Ports>,
    /// The way in which the switch matches ranges of ports
    #[arg(long, value_enum, default_value_t = Ranges::Fewest)]
    openflow_ranges: Ranges,
    /// Let the switch drop the packets that the software would drop
    ///
    /// The rules for packets without IP options then apply to all packets.
    #[arg(long)]
    openflow_discard: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Ranges {
    /// The way that needs fewer flows
    Fewest,
    /// Prefixes
    Prefix,
    /// Bits of metadata, which tables before the rules set
    Metadata,
}

/// The ports of the switch for one source.
#[derive(Clone)]
struct Ports {
    from: String,
    /// The switch's ports towards the software: one port, or one port for each class of packets.
    to: Vec<String>,
    /// The software's network interfaces that are connected to the ports in `to`, in order. The first port in
    /// `to` has no entry: it leads to the source's own interface.
    interfaces: Vec<String>,
}

fn ports(text: &str) -> Result<Ports, String> {
    let wrong = || "two ports with a colon between them, and more as +PORT=INTERFACE".to_string();
    let (from, rest) = text.split_once(':').ok_or_else(wrong)?;
    let mut parts = rest.split('+');
    let mut ports = Ports {
        from: from.into(),
        to: vec![parts.next().unwrap_or_default().into()],
        interfaces: Vec::new(),
    };
    for part in parts {
        let (port, interface) = part.split_once('=').ok_or_else(wrong)?;
        ports.to.push(port.into());
        ports.interfaces.push(interface.into());
    }
    let is_whole = !ports.to.iter().chain(&ports.interfaces).chain([&ports.from]).any(String::is_empty);
    is_whole.then_some(ports).ok_or_else(wrong)
}

impl Switch {
    /// True if the user wants the configuration of the software downstream of the switch.
    pub(crate) fn is_in_front(&self) -> bool {
        self.behind_switch
    }

    /// Returns the flow entries of the OpenFlow switch for each region as text, with a comment about each
    /// region whose program cannot be divided between switch and software.
    ///
    /// # Errors
    /// If no region has flow entries: the reasons.
    pub(crate) fn flows(&self, chain: &Chain, synthesis: &Synthesis) -> Result<String, String> {
        let (mut text, mut refused) = (String::new(), String::new());
        for (region, division) in synthesis.regions.iter().zip(self.divide(chain, synthesis)) {
            let name = chain.nodes[region.from.0].title();
            match division {
                Ok((division, _)) => text += &format!("# after {name}\n{}", division.flows()),
                Err(why) => refused += &format!("# after {name}: not for the switch: {why}\n"),
            }
        }
        match text.is_empty() {
            true => Err(refused.replace("# ", "").trim().into()),
            false => Ok(text + &refused),
        }
    }

    /// Returns the configuration of the software downstream of the switch. The program of each divided region
    /// continues from the class that the switch has found. A region that cannot be divided keeps its whole
    /// program.
    pub(crate) fn behind(&self, graph: &Graph, chain: &Chain, synthesis: &Synthesis) -> Graph {
        let mut divided = synthesis.clone();
        let mut fronts = Vec::new();
        for (number, (region, division)) in
            divided.regions.iter_mut().zip(self.divide(chain, synthesis)).enumerate()
        {
            if let Ok((division, interfaces)) = division {
                region.program = division.software_program();
                fronts.push((number, interfaces));
            }
        }
        let first = graph.elements.len();
        let mut graph = insert(graph, chain, &divided);
        for (number, interfaces) in fronts {
            match &interfaces[..] {
                [] => take_tags(&mut graph, first + number),
                interfaces => number_ports(&mut graph, first + number, interfaces),
            }
        }
        graph
    }

    /// Divides the program of each region between switch and software. Each result has the division, and the
    /// software's interfaces besides that of the source, to which the switch sends further classes of
    /// packets. An error is the reason why the region is not divided.
    fn divide(&self, chain: &Chain, synthesis: &Synthesis) -> Vec<Result<(Division, Vec<String>), String>> {
        let mut ports = self.switch_ports.iter().cloned();
        let mut table = 0u8;
        let divide = |region: &Region| {
            if !region.program.is_certain {
                return Err(Refusal::Layout.to_string());
            }
            let Ports { from, to, interfaces } = ports.next().ok_or("--switch-ports has no ports for it")?;
            if to.len() > 1 && chain.nodes[region.from.0].inputs > 0 {
                return Err(
                    "its packets do not come directly from an interface, which one port per class needs"
                        .into(),
                );
            }
            let ranges = match self.openflow_ranges {
                Ranges::Fewest => RangeForm::Fewest,
                Ranges::Prefix => RangeForm::Prefix,
                Ranges::Metadata => RangeForm::Metadata,
            };
            let options = Options { from, to, first_table: table, ranges, discards: self.openflow_discard };
            let division = Division::new(&region.program, &options).map_err(|why| why.to_string())?;
            table += division.tables();
            Ok((division, interfaces))
        };
        synthesis.regions.iter().map(divide).collect()
    }
}
