//! `tidegate synthesize` for a switch and for the software behind it.

use clap::ValueEnum;
use lang::Graph;
use synthesizer::compose::{Stretch, Synthesis};
use synthesizer::insert::insert;
use synthesizer::model::chain::Chain;
use synthesizer::openflow::behind::take_tags;
use synthesizer::openflow::{Division, Options, RangeForm, Refusal};

/// What there is to say about a switch.
#[derive(clap::Args)]
#[command(next_help_heading = "With a switch in front")]
pub(crate) struct Switch {
    /// With `--emit click`: the configuration of the software behind a switch that has the rules of `--emit openflow`, with
    /// the same options
    #[arg(long)]
    behind_switch: bool,
    /// The switch's ports for each source, in their order: where packets come in, and where the software is
    #[arg(long, value_name = "IN:OUT", default_value = "1:2", value_delimiter = ',', value_parser = ports)]
    switch_ports: Vec<(String, String)>,
    /// How the switch matches ranges of ports
    #[arg(long, value_enum, default_value_t = Ranges::Fewest)]
    openflow_ranges: Ranges,
    /// Let the switch drop what the software would drop; what it says of packets without IP options goes for all packets
    /// then
    #[arg(long)]
    openflow_discard: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Ranges {
    /// In whichever way there are fewer flows
    Fewest,
    /// As prefixes
    Prefix,
    /// As bits of metadata that tables before the rules set
    Metadata,
}

fn ports(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((from, to)) if !from.is_empty() && !to.is_empty() => Ok((from.into(), to.into())),
        _ => Err("two ports with a colon between them".into()),
    }
}

impl Switch {
    /// Whether what is wanted is the software behind a switch.
    pub(crate) fn is_in_front(&self) -> bool {
        self.behind_switch
    }

    /// The flows for each source, and why there are none for others.
    ///
    /// # Errors
    /// There are none at all.
    pub(crate) fn flows(&self, chain: &Chain, synthesis: &Synthesis) -> Result<String, String> {
        let (mut text, mut refused) = (String::new(), String::new());
        for (stretch, division) in synthesis.stretches.iter().zip(self.divide(synthesis)) {
            let name = chain.nodes[stretch.from.0].title();
            match division {
                Ok(division) => text += &format!("# behind {name}\n{}", division.flows()),
                Err(why) => refused += &format!("# behind {name}: not for the switch: {why}\n"),
            }
        }
        match text.is_empty() {
            true => Err(refused.replace("# ", "").trim().into()),
            false => Ok(text + &refused),
        }
    }

    /// The configuration of the software.
    pub(crate) fn behind(&self, graph: &Graph, chain: &Chain, synthesis: &Synthesis) -> Graph {
        let mut divided = synthesis.clone();
        let mut fronts = Vec::new();
        for (number, (stretch, division)) in
            divided.stretches.iter_mut().zip(self.divide(synthesis)).enumerate()
        {
            if let Ok(division) = division {
                stretch.program = division.program();
                fronts.push(number);
            }
        }
        let first = graph.elements.len();
        let mut graph = insert(graph, chain, &divided);
        fronts.into_iter().for_each(|number| take_tags(&mut graph, first + number));
        graph
    }

    /// Each stretch, divided between switch and software, or why it is not.
    fn divide(&self, synthesis: &Synthesis) -> Vec<Result<Division, String>> {
        let mut ports = self.switch_ports.iter().cloned();
        let mut table = 0u8;
        let divide = |stretch: &Stretch| {
            if !stretch.program.is_certain {
                return Err(Refusal::Layout.to_string());
            }
            let (from, to) = ports.next().ok_or("--switch-ports has none for it")?;
            let ranges = match self.openflow_ranges {
                Ranges::Fewest => RangeForm::Fewest,
                Ranges::Prefix => RangeForm::Prefix,
                Ranges::Metadata => RangeForm::Metadata,
            };
            let options = Options { from, to, first_table: table, ranges, discards: self.openflow_discard };
            let division = Division::new(&stretch.program, &options).map_err(|why| why.to_string())?;
            table += division.tables();
            Ok(division)
        };
        synthesis.stretches.iter().map(divide).collect()
    }
}
