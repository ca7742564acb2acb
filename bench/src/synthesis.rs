//! The benchmark `synthesizer`: the cost of chains of elements (the original), and of their synthesized
//! forms.

mod lifetimes;

use std::io::Write;
use std::path::Path;

use ::classify::filter::action;
use element::ports::Processing;
use engine::{Options, Plan, Worker};
use jit::EXISTS;
use program::chain::Chain;
use program::machine_code::MachineCode;
use synthesizer::compose::walk::PathLimits;
use synthesizer::compose::{Synthesis, synthesize};
use synthesizer::insert::insert;
use synthesizer::longest_path::lengths;

use crate::frames::Start;

use crate::runner::{
    BURST, Contender, configured, drive, measure_in_turns, registry, running, text_in_bursts,
};
use crate::serde_params::Param;
use crate::{Row, Settings, classify, open_loop};
pub(crate) use lifetimes::Traffic;

/// The numbers of network functions in a row that are measured.
const FUNCTIONS: [usize; 6] = [1, 2, 4, 6, 8, 10];

/// The chain (ten routers in a row) whose work also exists as one element written by hand (`by_hand.rs`): the
/// kind and the number of its functions.
const BY_HAND: (Kind, usize) = (Kind::Routers, 10);

/// The number of packets per flow after which synthesized programs handle nearly all flows themselves.
const LASTING: usize = 300;

/// A rule in ClassBench's form that matches UDP packets of all addresses.
const ANY_UDP: &str = "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x11/0xFF";

/// The number of flows of the traffic for all chains but the provider's.
const FLOWS: usize = 1_000;

/// Measures all chains, with a row for each form of a chain: the original, synthesized, and further forms,
/// such as written by hand. With `--rules`, measures only the provider's chain with these rules.
pub(crate) fn run(settings: &Settings) -> Result<Vec<Row>, String> {
    if let Some(path) = &settings.rules {
        let (rules, patterns) = rules_of(path)?;
        return behind_rules(settings, &rules, &patterns);
    }
    let mut rows = Vec::new();
    for kind in [Kind::Routers, Kind::Translators] {
        for n in FUNCTIONS {
            let case = Case::in_a_row(kind, n);
            let mut contenders = case.contenders(settings.packets)?;
            if (kind, n) == BY_HAND {
                contenders.push((case.params("by-hand"), case.by_hand(settings.packets)?));
            }
            rows.extend(case.measure(settings, contenders)?);
        }
    }
    rows.extend(Case::motivating().rows(settings)?);
    for case in [Case::small_firewall(), Case::firewall(250)] {
        rows.extend(case.rows(settings)?);
    }
    for count in [250, 10_000] {
        let patterns = classify::made(count);
        rows.extend(behind_rules(settings, &alternately(&patterns), &patterns)?);
    }
    let passing = [Case::made(250, 250), Case::firewall(250), Case::translator()];
    rows.extend(lifetimes::rows(settings, &passing)?);
    Ok(rows)
}

/// Measures the provider's chain with traffic that matches every rule: once with one flow for each rule, and
/// once with as many flows as there are packets in memory, so that packets of one flow are far apart.
/// `patterns` are the rules without their actions.
fn behind_rules(settings: &Settings, rules: &[String], patterns: &[String]) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for flows in [rules.len(), settings.packets] {
        rows.extend(Case::provider(rules, patterns, flows).rows(settings)?);
    }
    Ok(rows)
}

/// Returns rules of IPFilter, which alternately permit and deny these patterns.
fn alternately(patterns: &[String]) -> Vec<String> {
    let actions = ["allow", "deny"].into_iter().cycle();
    patterns.iter().zip(actions).map(|(pattern, action)| format!("{action} {pattern}")).collect()
}

/// The kind of the functions of a chain that has several equal functions in a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Routers,
    Translators,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Routers => "routers",
            Kind::Translators => "translators",
        }
    }
}

/// A function that creates a worker for one form of a chain, distinguished by the traffic that the worker
/// gets.
pub(crate) enum Form {
    /// Traffic of long-lived flows. The argument is the number of packets in memory.
    Lasting(Box<dyn FnOnce(usize) -> Result<Worker, String>>),
    /// Traffic of short-lived flows. The function also returns this traffic.
    Passing(Box<dyn FnOnce() -> Result<(Worker, Traffic), String>>),
}

/// Returns the form of a chain that has this name on the command line; None if no form has it. Names are such
/// as `routers-10` (the original), `routers-10-synthesized` and `routers-10-tables` (synthesized without
/// machine code).
///
/// Other chains are `translators-N`, `translator-0`, `firewall-RULES` (a small firewall for 0),
/// `provider-RULES` and `motivating-0`. With short-lived flows, 300 at a time with 4 packets each, names
/// are such as `provider-250-300x4` and `provider-250-300x4-synthesized`.
pub(crate) fn form_of(name: &str) -> Option<Form> {
    if name == "routers-10-by-hand" {
        let by_hand = |packets| Case::in_a_row(BY_HAND.0, BY_HAND.1).by_hand(packets);
        return Some(Form::Lasting(Box::new(by_hand)));
    }
    // Machine code is compiled immediately and not after some packets, so that each run executes the same
    // instructions.
    let ways = [("-synthesized", MachineCode::Now), ("-tables", MachineCode::Never)];
    let found =
        ways.into_iter().find_map(|(suffix, making)| Some((name.strip_suffix(suffix)?, Some(making))));
    let (name, making) = found.unwrap_or((name, None));
    let mut parts = name.split('-');
    let (kind, count, traffic) = (parts.next()?, parts.next().unwrap_or("0"), parts.next());
    let count = count.parse().ok()?;
    let case = match kind {
        "routers" => Case::in_a_row(Kind::Routers, count),
        "translators" => Case::in_a_row(Kind::Translators, count),
        "translator" => Case::translator(),
        "provider" => Case::made(count, count),
        "firewall" if count == 0 => Case::small_firewall(),
        "firewall" => Case::firewall(count),
        "motivating" => Case::motivating(),
        _ => return None,
    };
    if let Some(traffic) = traffic {
        let traffic = Traffic::read(traffic)?;
        return Some(Form::Passing(Box::new(move || {
            let forms = traffic.forms(&case)?;
            Ok((forms.worker(making)?, traffic))
        })));
    }
    Some(Form::Lasting(Box::new(move |packets| case.forms(packets)?.worker(making))))
}

/// A chain to be measured, and its traffic.
pub(crate) struct Case {
    name: &'static str,
    /// The name of the parameter that counts functions or rules, and its value.
    count: (&'static str, usize),
    /// The elements between the source of packets and the exit.
    pub(crate) chain: String,
    /// The number of flows. If there are patterns, each pattern is matched by about the same number of flows,
    /// and packets come in random order. Without patterns, neighbouring packets are of different flows.
    flows: usize,
    patterns: Vec<String>,
    pub(crate) frame: usize,
    pub(crate) burst: usize,
}

impl Case {
    fn new(name: &'static str, count: (&'static str, usize), chain: String) -> Case {
        Case { name, count, chain, flows: FLOWS, patterns: Vec::new(), frame: 64, burst: BURST }
    }

    /// Creates a case of `n` routers or `n` translators in a row.
    pub(crate) fn in_a_row(kind: Kind, n: usize) -> Case {
        let function = if kind == Kind::Routers { router } else { translator };
        let chain: Vec<String> = (0..n).map(function).collect();
        Case::new(kind.name(), ("functions", n), chain.join(" -> Cable -> "))
    }

    /// Creates a case of one translator, with flows from random addresses.
    pub(crate) fn translator() -> Case {
        let patterns = vec![ANY_UDP.into()];
        Case { patterns, ..Case::new("translator", ("functions", 1), translator(0)) }
    }

    /// Creates a case of a firewall with four rules and a few other elements.
    pub(crate) fn small_firewall() -> Case {
        let chain = "CheckIPHeader(14) -> IPFilter(deny src net 192.168.0.0/16, deny tcp && dst port 23,
            deny udp && dst port 1900, allow all) -> DecIPTTL -> EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2)";
        let patterns = vec![ANY_UDP.into()];
        Case { patterns, ..Case::new("small-firewall", ("rules", 4), chain.into()) }
    }

    /// Creates a case of a firewall with `count` generated rules and the forwarding elements of a router.
    pub(crate) fn firewall(count: usize) -> Case {
        let patterns = classify::made(count);
        let chain = firewall(&alternately(&patterns));
        Case { patterns, ..Case::new("firewall", ("rules", count), chain) }
    }

    /// Creates the case of the SNF paper's motivating example.
    pub(crate) fn motivating() -> Case {
        Case::new("motivating", ("functions", 3), motivating())
    }

    /// Creates a case of the provider's chain with these rules. The traffic has `flows` flows that match
    /// the patterns.
    pub(crate) fn provider(rules: &[String], patterns: &[String], flows: usize) -> Case {
        let patterns = patterns.to_vec();
        Case { flows, patterns, ..Case::new("provider", ("rules", rules.len()), provider(rules)) }
    }

    /// Creates a case as [`provider`](Self::provider) does, with `count` generated rules that alternately
    /// permit and deny.
    pub(crate) fn made(count: usize, flows: usize) -> Case {
        let patterns = classify::made(count);
        Case::provider(&alternately(&patterns), &patterns, flows)
    }

    /// Returns the case with frames of `frame` bytes and with bursts of `burst` packets.
    pub(crate) fn of(self, frame: usize, burst: usize) -> Case {
        Case { frame, burst, ..self }
    }

    pub(crate) fn params(&self, form: &'static str) -> Vec<(&'static str, Param)> {
        let (counted, count) = self.count;
        vec![
            ("chain", Param::Word(self.name)),
            (counted, Param::Number(count as u64)),
            ("flows", Param::Number(self.flows as u64)),
            ("form", Param::Word(form)),
        ]
    }

    /// Returns the original and the synthesized configuration, with `packets` packets in memory.
    pub(crate) fn forms(&self, packets: usize) -> Result<Forms, String> {
        let chain = format!("{} -> BenchmarkExit", self.chain);
        self.behind(packets, |frames| text_in_bursts(frames, Start::Frame, self.burst, &chain))
    }

    fn behind(&self, packets: usize, text: impl FnOnce(&str) -> String) -> Result<Forms, String> {
        self.with_patterns(|patterns| {
            let (flows, frame) = (self.flows, self.frame);
            text(&match self.patterns.is_empty() {
                true => format!("BenchmarkFrames({packets}, {flows}, {frame})"),
                false => format!("BenchmarkHeaders({packets}, {patterns}, {frame}, {flows})"),
            })
        })
    }

    /// Returns the original and the synthesized configuration. `text` receives the name of a file with the
    /// case's patterns, from which a source draws headers, and returns the text of the original
    /// configuration.
    pub(crate) fn with_patterns(&self, text: impl FnOnce(&str) -> String) -> Result<Forms, String> {
        let mut file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        file.write_all(self.patterns.join("\n").as_bytes()).map_err(|error| error.to_string())?;
        let original = text(&file.path().display().to_string());
        let synthesized = synthesized(original.clone(), MachineCode::default())?;
        Ok(Forms { texts: [("original", original), ("synthesized", synthesized)], _patterns: file })
    }

    /// Returns the original and the synthesized configuration, with packets that arrive at a rate, and with
    /// an element `latency` at the end that measures their latency.
    pub(crate) fn metered(&self, packets: usize) -> Result<Forms, String> {
        let chain = format!("{} -> latency :: BenchmarkLatency -> BenchmarkExit", self.chain);
        self.behind(packets, |frames| open_loop::text(frames, Start::Frame, self.burst, &chain))
    }

    /// Returns two numbers: the elements on the longest path of the original, and the tests and operations on
    /// the longest path of the program that replaces these elements.
    pub(crate) fn operations(&self) -> Result<[usize; 2], String> {
        let text = self.forms(1)?.texts[0].1.clone();
        let lengths = composed(text, MachineCode::default(), |_, chain, synthesis| {
            let all = synthesis.regions.iter().filter_map(|region| lengths(chain, &region.program));
            all.max().map(|[elements, questions]| [elements, questions + 1])
        });
        lengths?.ok_or_else(|| "nothing was composed".into())
    }

    /// Returns a worker for each form. If machine code is available, there is also a worker whose program
    /// uses tables only.
    pub(crate) fn contenders(&self, packets: usize) -> Result<Vec<Contender>, String> {
        let Forms { texts, _patterns } = self.forms(packets)?;
        let mut texts = texts.to_vec();
        if EXISTS {
            texts.push(("tables", synthesized(texts[0].1.clone(), MachineCode::Never)?));
        }
        let contender = |(form, text)| Ok((self.params(form), running(text, Options::default())?));
        texts.into_iter().map(contender).collect()
    }

    /// Returns a worker for a chain of the one element that does the work of ten routers and is written by
    /// hand.
    fn by_hand(&self, packets: usize) -> Result<Worker, String> {
        let frames = format!("BenchmarkFrames({packets}, {}, {})", self.flows, self.frame);
        let chain = "BenchmarkTenRouters -> BenchmarkExit";
        running(text_in_bursts(&frames, Start::Frame, self.burst, chain), Options::default())
    }

    /// Measures a row for each form of the case. The forms are measured alternately.
    fn rows(&self, settings: &Settings) -> Result<Vec<Row>, String> {
        self.measure(settings, self.contenders(settings.packets)?)
    }

    /// Measures the contenders alternately and returns their rows. Unless the run is small, each flow gets
    /// [`LASTING`] packets before, so that programs handle nearly all flows.
    fn measure(&self, settings: &Settings, mut contenders: Vec<Contender>) -> Result<Vec<Row>, String> {
        if settings.repeats > 1 {
            for (_, worker) in &mut contenders {
                drive(worker, LASTING * self.flows)?;
            }
        }
        measure_in_turns("synthesizer", settings, self.frame, contenders)
    }
}

/// The texts of the original and the synthesized configuration of a chain, each with the name of its form.
/// The file of patterns must exist until workers for the configurations are initialized, because a source
/// reads it.
pub(crate) struct Forms {
    pub(crate) texts: [(&'static str, String); 2],
    pub(crate) _patterns: tempfile::NamedTempFile,
}

impl Forms {
    /// Returns a worker for the original chain if `making` is None, or else for the synthesized chain.
    /// `making` says when machine code is compiled.
    fn worker(self, making: Option<MachineCode>) -> Result<Worker, String> {
        let Forms { texts: [(_, original), _], _patterns } = self;
        let text = match making {
            Some(making) => synthesized(original, making)?,
            None => original,
        };
        running(text, Options::default())
    }
}

/// Returns the synthesized form of a configuration, as text.
pub(crate) fn synthesized(text: String, making: MachineCode) -> Result<String, String> {
    composed(text, making, |plan, chain, synthesis| lang::flatten(&insert(&plan.graph, chain, synthesis)))
}

/// Synthesizes a configuration and returns the value that `of` computes from the plan, the chain and the
/// synthesis.
fn composed<T>(
    text: String,
    making: MachineCode,
    of: impl FnOnce(&Plan, &Chain, &Synthesis) -> T,
) -> Result<T, String> {
    let (plan, mut copies) = configured(text, 1, None, &registry())?;
    let only = copies.pop().ok_or("no worker")?;
    let effects: Vec<_> =
        plan.classes.iter().zip(&only.effects).map(|(class, effects)| Some((*class, effects))).collect();
    let chain = Chain::new(&plan.graph, &effects);
    let is_pushed = |(node, output): (usize, usize)| {
        plan.outputs.get(node).and_then(|outputs| outputs.get(output)) == Some(&Processing::Push)
    };
    let synthesis = synthesize(&chain, &PathLimits::default(), &is_pushed).with_machine_code(making);
    Ok(of(&plan, &chain, &synthesis))
}

/// Returns the elements of router `n` of the SNF paper's evaluation, which forwards packets by RFC 1812
/// without checking their headers.
fn router(n: usize) -> String {
    let (own, next) = (n + 1, n + 2);
    format!(
        "rx{n} :: Counter -> Strip(14) -> MarkIPHeader -> GetIPAddress(16) -> rt{n} :: RadixIPLookup(
            10.{own}.0.1 0, 10.{own}.0.255 0, 10.{own}.0.0/32 0, 10.{next}.0.1 0, 10.{next}.0.255 0, 10.{next}.0.0/32 0,
            10.{own}.0.0/24 1, 10.{next}.0.0/24 2, 0.0.0.0/0 2);
        rt{n}[0], rt{n}[1] => Discard, Discard;
        rt{n}[2] -> DropBroadcasts -> IPGWOptions(10.{next}.0.1) -> FixIPSrc(10.{next}.0.1) -> DecIPTTL -> IPFragmenter(9000)
            -> EtherEncap(0x0800, 2:0:0:0:{n}:1, 2:0:0:0:{n}:2) -> tx{n} :: Counter"
    )
}

/// Returns the elements of translator `n`: it translates addresses and ports, and forwards as a router.
fn translator(n: usize) -> String {
    format!(
        "rx{n} :: Counter -> Strip(14) -> MarkIPHeader -> IPRewriter(pattern 192.0.{n}.1 1024-65535 - - 0 0) -> {}",
        forwarding(n)
    )
}

/// Returns the chain that the element written by hand replaces.
#[cfg(test)]
pub(crate) fn ten_routers() -> String {
    Case::in_a_row(BY_HAND.0, BY_HAND.1).chain
}

/// Returns the chain of the SNF paper's motivating example (Figure 5): a translator, a firewall for UDP,
/// and a balancer over two servers.
fn motivating() -> String {
    let out = |n: usize| {
        format!(
            "DecIPTTL -> IPFragmenter(9000) -> EtherEncap(0x0800, 2:0:0:0:{n}:1, 2:0:0:0:{n}:2) -> tx{n} :: Counter"
        )
    };
    format!(
        "rx0 :: Counter -> Strip(14) -> MarkIPHeader -> kinds :: IPClassifier(udp, tcp, -);
        rw :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0, pattern 192.0.2.1 1024-65535 - - 0 0, drop);
        kinds[0], kinds[1], kinds[2] => [0] rw, [1] rw, [2] rw;
        servers :: RoundRobinIPMapper(- - 198.51.100.1 - 0 0, - - 198.51.100.2 - 0 0);
        rw -> GetIPAddress(16) -> rt :: RadixIPLookup(192.0.2.1 0, 10.0.0.0/24 1, 0.0.0.0/0 2);
        rt[0], rt[1] => Discard, Discard;
        rt[2] -> DropBroadcasts -> FixIPSrc(192.0.2.1) -> {}
        -> Cable -> rx1 :: Counter -> Strip(14) -> MarkIPHeader
        -> filter :: IPFilter(allow src net 192.0.2.0/24 && udp, deny all) -> {}
        -> Cable -> rx2 :: Counter -> Strip(14) -> MarkIPHeader
        -> balance :: IPRewriter(servers) -> {}",
        out(0),
        out(1),
        out(2)
    )
}

/// Returns the elements by which router `n` forwards packets, after the look-up of the route.
fn forwarding(n: usize) -> String {
    format!(
        "DropBroadcasts -> IPGWOptions(192.0.{n}.1) -> FixIPSrc(192.0.{n}.1) -> DecIPTTL -> IPFragmenter(9000)
        -> EtherEncap(0x0800, 2:0:0:0:{n}:1, 2:0:0:0:{n}:2) -> tx{n} :: Counter"
    )
}

/// Returns the chain of a firewall with these rules, which forwards as a router.
fn firewall(rules: &[String]) -> String {
    format!(
        "rx :: Counter -> Strip(14) -> MarkIPHeader -> rules :: IPFilter({}, deny all) -> {}",
        rules.join(", "),
        forwarding(0)
    )
}

/// Returns the provider's chain of the SNF paper (Figure 9), in the outbound direction: firewall, router,
/// translator.
fn provider(rules: &[String]) -> String {
    format!(
        "rx0 :: Counter -> Strip(14) -> MarkIPHeader -> rules :: IPFilter({}, deny all) -> {}
        -> Cable -> rx1 :: Counter -> Strip(14) -> MarkIPHeader -> GetIPAddress(16)
        -> rt :: RadixIPLookup(204.152.0.0/16 0, 0.0.0.0/0 0) -> {}
        -> Cable -> rx2 :: Counter -> Strip(14) -> MarkIPHeader
        -> IPRewriter(pattern 192.0.2.9 1024-65535 - - 0 0, MAPPING_CAPACITY 1000000) -> {}",
        rules.join(", "),
        forwarding(0),
        forwarding(1),
        forwarding(2)
    )
}

/// Returns the rules of a file, with actions, and their patterns, without actions. From a `.click` file, it
/// takes the rules of the IPFilter with the most rules. Other files are in ClassBench's form, and their
/// rules alternately permit and deny.
fn rules_of(path: &Path) -> Result<(Vec<String>, Vec<String>), String> {
    if path.extension().is_some_and(|extension| extension == "click") {
        let rules = classify::largest_filter(path)?;
        let patterns = rules.iter().map(|rule| action(rule).1.trim().to_string()).collect();
        return Ok((rules, patterns));
    }
    let rules = classify::read(path)?;
    Ok((alternately(&rules), rules))
}
