//! Tests programs of chains with loops, and of a translator in both directions. Each program must be proven
//! by itself, and the proof must fail for programs with an error.

use element::DropReason;
use program::{Exit, Program, WrittenValue};
use synthesizer::compose::walk::PathLimits;
use synthesizer::compose::{Region, Synthesis, synthesize};
use synthesizer::insert::insert;
use testkit::chains::{Read, Runner, read, try_read};
use verify::equivalence::{Comparison, Conclusion, Options, verify, verify_programs};

/// A router whose ICMP messages take the same way as the packets that they are about. PaintTee copies some
/// packets, and IPFragmenter makes new packets.
const ROUTER: &str = "in :: FromDump(x.pcap); out :: ToDump(y.pcap); back :: ToDump(z.pcap);
in -> Strip(14) -> Paint(1) -> CheckIPHeader -> GetIPAddress(16) -> rt :: RadixIPLookup(10.0.0.0/8 0, 192.0.2.0/24 1, 0.0.0.0/0 2);
rt[0] -> DropBroadcasts -> tee :: PaintTee(2) -> options :: IPGWOptions(10.0.0.1) -> FixIPSrc(10.0.0.1) -> ttl :: DecIPTTL
    -> size :: IPFragmenter(1500) -> EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2) -> out;
rt[1] -> DecIPTTL -> SetIPDSCP(10) -> Paint(3) -> EtherEncap(0x0800, 2:0:0:0:1:1, 2:0:0:0:1:2) -> back;
tee[1] -> ICMPError(10.0.0.1, redirect, host) -> errors :: Counter -> SetIPDSCP(48) -> rt;
options[1] -> ICMPError(10.0.0.1, parameterproblem) -> errors;
ttl[1] -> ICMPError(10.0.0.1, timeexceeded) -> errors;
size[1] -> ICMPError(10.0.0.1, unreachable, needfrag) -> errors;
rt[2] -> ICMPError(10.0.0.1, unreachable, net) -> errors;";

fn compose(chain: &Read) -> Synthesis {
    let limits = PathLimits { least: Some(2), ..PathLimits::default() };
    synthesize(&chain.chain, &limits, &|(node, output)| chain.pushed[node][output])
}

fn insert_programs(chain: &Read, synthesis: &Synthesis) -> Read {
    read(&lang::flatten(&insert(&chain.graph, &chain.chain, synthesis)))
}

/// Returns the verdict of the verifier with few diagram nodes. If a program is not proven by itself, the
/// proof of the whole chain would take too long.
fn verdict(chain: &Read, other: &Read) -> Conclusion {
    let options = Options { reasons: true, deadline: None };
    let mut runner = Runner { reads: [chain, other] };
    verify([&chain.chain, &other.chain], options, Some(1 << 15), &mut runner).verdict
}

#[test]
fn programs_on_circles_are_proven() {
    let chain = read(ROUTER);
    let synthesis = compose(&chain);
    let other = insert_programs(&chain, &synthesis);
    let verdict = verdict(&chain, &other);
    assert!(matches!(verdict, Conclusion::Equivalent), "{verdict:?}");
    // The element must be replaced in two regions: in the region for incoming packets, and in the region for
    // ICMP messages that the router makes.
    let passed = |name: &str| {
        let is_it = |node: &usize| chain.chain.nodes[*node].name == name;
        synthesis.regions.iter().filter(|region| region.passed.iter().any(is_it)).count()
    };
    assert!(passed("rt") >= 2 && passed("ttl") >= 2 && passed("size") >= 2, "{synthesis:#?}");
}

/// Returns copies of a region's program with one error each, and a description of the error. Of the classes
/// with an output, only classes whose packets leave the region are changed. (Packets that are handed over to
/// an element of the region may be dropped there, or their checksums recomputed, and a hand-over to an
/// earlier element is harmless.)
fn spoiled(region: &Region) -> Vec<(String, Program)> {
    let program = &region.program;
    let leaves = |output: &usize| !region.passed.contains(&region.outputs[*output].0);
    let after = |output: usize| (1..program.outputs).map(move |n| (output + n) % program.outputs);
    let mut all = Vec::new();
    let mut change = |what: String, change: &dyn Fn(&mut Program)| {
        let mut other = program.clone();
        change(&mut other);
        all.push((what, other));
    };
    for (number, class) in program.classes.iter().enumerate() {
        let name = |what: &str| format!("class {number}: {what}");
        match class.exit {
            Exit::Output(output) => {
                let Some(other) = after(output).find(leaves).filter(|_| leaves(&output)) else { continue };
                change(name("elsewhere"), &|program| program.classes[number].exit = Exit::Output(other));
                change(name("dropped"), &|program| {
                    program.classes[number].exit = Exit::Drop(DropReason::Denied)
                });
            }
            Exit::Drop(_) => {
                change(name("other reason"), &|program| {
                    program.classes[number].exit = Exit::Drop(DropReason::TableFull)
                });
                change(name("not dropped"), &|program| program.classes[number].exit = Exit::Output(0));
                continue;
            }
        }
        for (place, write) in class.writes.iter().enumerate() {
            change(name(&format!("{write:?} missing")), &|program| {
                drop(program.classes[number].writes.remove(place))
            });
            change(name(&format!("{write:?} changed")), &|program| match &mut program.classes[number].writes
                [place]
                .value
            {
                WrittenValue::Constant(bytes) => bytes[0] ^= 4,
                WrittenValue::Copy(_, length) => *length -= 1,
                WrittenValue::Plus(_, _, more) => *more += 1,
                WrittenValue::Masked(_, _, set) => *set ^= 4,
            });
        }
        if class.checksum.is_some() {
            change(name("no checksum"), &|program| program.classes[number].checksum = None);
        }
        change(name("marked elsewhere"), &|program| program.classes[number].headers[1] = Some(Some(2)));
        change(name("not marked"), &|program| program.classes[number].headers[2] = Some(None));
        change(name("of a type"), &|program| program.classes[number].kind = Some(3));
    }
    change("otherwise".into(), &|program| program.otherwise = (program.otherwise + 1) % program.outputs);
    all
}

/// The divisor that selects errors: the test tries one of every five. If a program is not proven by itself,
/// the verifier tries further proofs, which are slow.
const ONE_OF: usize = 5;

#[test]
fn whatever_is_wrong_with_a_program_is_noticed() {
    let chain = read(ROUTER);
    let synthesis = compose(&chain);
    let (mut missed, mut tried) = (Vec::new(), 0);
    for number in 0..synthesis.regions.len() {
        let all = spoiled(&synthesis.regions[number]);
        for (what, program) in all.into_iter().skip(7 * number).step_by(ONE_OF) {
            let mut other = synthesis.clone();
            other.regions[number].program = program;
            let Ok(other) = try_read(&lang::flatten(&insert(&chain.graph, &chain.chain, &other))) else {
                continue;
            };
            tried += 1;
            if matches!(verdict(&chain, &other), Conclusion::Equivalent) {
                missed.push(format!("{number}: {what}"));
            }
        }
    }
    assert!(missed.is_empty() && tried > 20, "{tried}: {missed:#?}");
}

/// A translator that packets pass in both directions, each downstream of a firewall.
const TRANSLATOR: &str = "in :: FromDump(x.pcap); net :: FromDump(y.pcap);
nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 1, drop);
in -> CheckIPHeader(14) -> IPFilter(deny dst port 22, allow all) -> DecIPTTL -> [0] nat[0] -> SetIPDSCP(3)
    -> EtherRewrite(1:1:1:1:1:1, 2:2:2:2:2:2) -> out :: ToDump(z.pcap);
net -> CheckIPHeader(14) -> IPFilter(deny src port 25, allow all) -> DecIPTTL -> [1] nat[1]
    -> EtherRewrite(3:3:3:3:3:3, 4:4:4:4:4:4) -> back :: ToDump(w.pcap);";

/// Inserts a single program of a synthesis, and returns the outcome of its proof; `None` if the
/// configuration is not valid.
fn alone(chain: &Read, synthesis: &Synthesis, number: usize) -> Option<Comparison> {
    let one = Synthesis { regions: vec![synthesis.regions[number].clone()], ..Synthesis::default() };
    let other = try_read(&lang::flatten(&insert(&chain.graph, &chain.chain, &one))).ok()?;
    let options = Options { reasons: true, deadline: None };
    let mut runner = Runner { reads: [chain, &other] };
    Some(verify_programs([&chain.chain, &other.chain], options, Some(1 << 20), &mut runner))
}

#[test]
fn programs_that_lease_flows_are_proven() {
    let chain = read(TRANSLATOR);
    let synthesis = compose(&chain);
    let leases = synthesis.regions.iter().filter(|region| !region.program.steps.is_empty()).count();
    assert_eq!(leases, 2, "{:?}", synthesis.regions);
    for number in 0..synthesis.regions.len() {
        let outcome = alone(&chain, &synthesis, number).unwrap();
        assert!(matches!(outcome.verdict, Conclusion::Equivalent), "{number}: {outcome:?}");
    }
}

#[test]
fn whatever_is_wrong_with_a_program_that_leases_flows_is_noticed() {
    let chain = read(TRANSLATOR);
    let synthesis = compose(&chain);
    let (mut missed, mut tried) = (Vec::new(), 0);
    for number in 0..synthesis.regions.len() {
        // Two kinds of errors are left out, because they have no effect in this chain: no element reads the
        // packet type, and no packet arrives at DecIPTTL without an IP header.
        let unseen = |what: &str| {
            let class: Option<usize> = what.split([' ', ':']).nth(1).and_then(|number| number.parse().ok());
            let exit = class.map(|class| synthesis.regions[number].program.classes[class].exit);
            what.ends_with("of a type") || exit == Some(Exit::Drop(DropReason::NoHeader))
        };
        for (what, program) in spoiled(&synthesis.regions[number]) {
            let mut other = synthesis.clone();
            other.regions[number].program = program;
            if unseen(&what) {
                continue;
            }
            let Some(outcome) = alone(&chain, &other, number) else { continue };
            tried += 1;
            if matches!(outcome.verdict, Conclusion::Equivalent) {
                missed.push(format!("{number}: {what}"));
            }
        }
    }
    assert!(missed.is_empty() && tried > 20, "{tried}: {missed:#?}");
}
