//! The declaration of translators' effects: which packets are changed, in which fields, with which values.

use classify::IntervalSet;
use element::effects::{
    Action, Case, DST_IP, Depends, Effects, Field, Filter, FlowMarks, HeaderKind, Leaves, Number, Predicate,
    State, StateAccess, Support, Target, Value, wire_field,
};
use element::{Base, DropReason};
use wire::{ip_protocol, ipv4};

use crate::aggregate::AGGREGATE;
use crate::editing::{annotation, bytes, is_marked, needs, rest_from, when, within};

use super::desk::Translation;
use super::flavour::{Flavour, TCP_SUMMED};
use super::mapper::Choice;
use super::pattern::Outputs;
use super::spec::Spec;

/// The name under which the mappings are declared as state.
const TABLE: &str = "mappings";

const IDENTIFIER: Field = Field::Bytes { base: Base::Transport, offset: 4, length: 2 };

/// The first and the last value that source address, source port, destination address and destination port
/// can get. `None` means that the field is not changed.
type Values = [Option<(u32, u32)>; 4];

/// The ranges of a mapping whose values are not known: any value in each field.
const ANY: Values = [Some((0, u32::MAX)), Some((0, 0xffff)), Some((0, u32::MAX)), Some((0, 0xffff))];

/// A class of packets whose rewriting changes the same fields. The packets match `when`. `ports` is true if
/// their ports or identifier change, and `summed` lists the headers whose checksums are updated.
struct Shape {
    when: Filter,
    ports: bool,
    summed: Vec<HeaderKind>,
}

fn is_protocol(protocol: u8) -> Filter {
    Predicate::equals(wire_field::IP_PROTOCOL, protocol.into())
}

fn reaches(bytes: usize) -> Filter {
    Predicate::at_most(Number::constant(bytes as i64), rest_from(Base::Transport))
}

/// Returns the filter for packets whose transport header starts at least 20 bytes after the start of the IP
/// header.
fn has_transport_after_header() -> Filter {
    let end = Number::of(Field::HeaderOffset(Base::Network)).plus_constant(ipv4::Header::LEN as i64);
    Predicate::at_most(end, Number::of(Field::HeaderOffset(Base::Transport)))
}

fn is_first() -> Filter {
    within(wire_field::IP_FRAGMENT, ipv4::FRAGMENT_OFFSET.into(), 0, 0)
}

/// Returns the filter for packets of the protocols that are translated, except for later fragments, which
/// have no ports.
fn is_meant(flavour: Flavour) -> Filter {
    let protocols = flavour.protocols().iter().map(|&protocol| is_protocol(protocol)).collect();
    Filter::All(vec![Filter::Any(protocols), is_first()])
}

/// Returns the filter for packets, among packets that match [`is_meant`], with enough bytes from the
/// transport header on to be translated. The transport header must not overlap the first 20 bytes of the IP
/// header. ICMP messages must be a translated query or its reply.
fn is_readable(flavour: Flavour) -> Filter {
    let mut all = vec![has_transport_after_header(), reaches(flavour.least())];
    if flavour.is_ping() {
        let kind = |kind: u8| Predicate::equals(bytes(Base::Transport, 0, 1), kind.into());
        let queries = flavour.queries().iter();
        all.push(Filter::Any(queries.flat_map(|&(query, reply)| [kind(query), kind(reply)]).collect()));
    }
    Filter::All(all)
}

fn shapes(flavour: Flavour) -> Vec<Shape> {
    let shape = |when, ports, more: &[HeaderKind]| {
        let summed = [HeaderKind::Ipv4].iter().chain(more).copied().collect();
        Shape { when, ports, summed }
    };
    if flavour.is_ping() {
        return vec![shape(Filter::TRUE, true, &[HeaderKind::Icmp])];
    }
    let has_ports = flavour.has_ports();
    let whole = |protocol, least| {
        let behind = is_protocol(protocol).and([reaches(least)]);
        if has_ports {
            behind
        } else {
            behind.and([is_first(), is_marked(Base::Transport), has_transport_after_header()])
        }
    };
    let mut shapes = vec![shape(whole(ip_protocol::TCP, TCP_SUMMED), has_ports, &[HeaderKind::Tcp])];
    if flavour != Flavour::Tcp {
        shapes.push(shape(whole(ip_protocol::UDP, flavour.least()), has_ports, &[HeaderKind::Udp]));
    }
    // No transport checksum is updated in all other packets, such as packets of other protocols, and TCP
    // segments that end before their checksum.
    shapes.push(shape(Filter::TRUE, flavour == Flavour::Udp, &[]));
    shapes
}

/// Returns the fields by which a packet's mapping is found, and on which the choice of a new port or
/// address depends.
fn key(flavour: Flavour) -> Vec<Field> {
    let mut key = vec![wire_field::IP_SRC, wire_field::IP_DST];
    match flavour {
        Flavour::Address | Flavour::Pair => {}
        Flavour::Ping { .. } => key.extend([bytes(Base::Transport, 0, 1), IDENTIFIER]),
        _ => key.extend([wire_field::IP_PROTOCOL, wire_field::SRC_PORT, wire_field::DST_PORT]),
    }
    key
}

/// Returns the writes to a packet of the class `shape`, if its new addresses and ports are in the ranges
/// `values`: addresses, ports or identifier, and the annotations that the translator sets.
fn actions(desk: &Translation, shape: &Shape, values: Values, is_reply: bool) -> Vec<Action> {
    let flavour = desk.flavour;
    let [source, source_port, destination, destination_port] = values;
    let key = key(flavour);
    let chosen = |(low, high): (u32, u32), width: usize| {
        if low == high {
            return Value::Constant(low.to_be_bytes()[4 - width..].to_vec());
        }
        Value::Choose { set: IntervalSet::one(low.into(), high.into()), key: key.clone() }
    };
    let mut actions = Vec::new();
    let mut set = |field: &Field, range: Option<(u32, u32)>, width| {
        actions.extend(range.map(|range| Action::Set(field.clone(), chosen(range, width))));
    };
    set(&wire_field::IP_SRC, source, 4);
    set(&wire_field::IP_DST, destination, 4);
    if shape.ports && flavour.is_ping() {
        set(&IDENTIFIER, source_port, 2);
    } else if shape.ports {
        set(&wire_field::SRC_PORT, source_port, 2);
        set(&wire_field::DST_PORT, destination_port, 2);
    }
    if desk.sets_next_hop && (flavour != Flavour::Address || is_reply) {
        match destination {
            Some(range) => set(&DST_IP, Some(range), 4),
            None => actions.push(Action::Set(DST_IP, Value::Copy(wire_field::IP_DST))),
        }
    }
    if let Some(offset) = desk.reply_annotation.filter(|_| is_reply) {
        let any = IntervalSet::one(0, 0xff);
        let mut key = key.clone();
        key.push(annotation(offset, 1));
        actions.push(Action::Set(annotation(offset, 1), Value::Choose { set: any, key }));
    }
    if desk.sets_aggregate {
        let set = IntervalSet::one(0, u32::MAX.into());
        actions.push(Action::Set(AGGREGATE, Value::Choose { set, key }));
    }
    actions
}

/// Returns the effects of a translator. The cases are, in order: packets that cannot be translated, packets
/// with a mapping, packets to a port of an inside host (with independent filtering), and new flows by input.
pub(super) fn effects(desk: &Translation) -> Effects {
    let flavour = desk.flavour;
    let mut cases = vec![needs(HeaderKind::Ipv4)];
    if flavour.has_ports() {
        let others = |what: Filter| {
            let inputs = desk.specs.iter().enumerate();
            inputs.map(move |(input, spec)| {
                Case::new(what.clone().not(), unmapped(spec, DropReason::Unsuitable)).on(input)
            })
        };
        cases.extend(others(is_meant(flavour)));
        let unmarked = is_marked(Base::Transport).not();
        cases.push(Case::new(unmarked, Target::Drop(DropReason::NoHeader)));
        cases.extend(others(is_readable(flavour)));
    }
    let mut changing = |when: &Filter, input: Option<usize>, values: Values, is_reply: bool, to: Target| {
        for shape in shapes(flavour) {
            let mut case = Case::new(when.clone().and([shape.when.clone()]), to).updating(&shape.summed);
            (case.input, case.actions) = (input, actions(desk, &shape, values, is_reply));
            cases.push(case);
        }
    };
    let somewhere = if desk.outputs == 1 { Target::Output(0) } else { Target::SomeOutput };
    changing(&Filter::Leaf(Predicate::State { table: TABLE, hit: true }), None, ANY, true, somewhere);
    let key = key(flavour);
    for (input, spec) in desk.specs.iter().enumerate() {
        if let (true, Spec::Drop | Spec::Pass(_)) = (desk.sharing.filters_independently, spec) {
            let Case { when, .. } = when("is for a port of an inside host", &key, somewhere);
            changing(&when, Some(input), ANY, true, somewhere);
        }
    }
    let mut rest = Vec::new();
    for (input, spec) in desk.specs.iter().enumerate() {
        let refused = |about, reason| when(about, &key, Target::Drop(reason)).on(input);
        let full = || refused("there is no room for a mapping", DropReason::TableFull);
        let used = || refused("all ports or addresses are in use", DropReason::NoFreePort);
        let odd = || refused("the pattern is not for this element", DropReason::NoMapping);
        if flavour.is_ping() {
            let reply =
                |&(_, reply): &(u8, u8)| Predicate::equals(bytes(Base::Transport, 0, 1), reply.into());
            let replies = Filter::Any(flavour.queries().iter().map(reply).collect());
            rest.push((vec![Case::new(replies, unmapped(spec, DropReason::NoMapping)).on(input)], None));
        }
        if desk.needs_syn {
            let syn = u128::from(wire::tcp::flags::SYN);
            let opens = Filter::All(vec![reaches(14), within(bytes(Base::Transport, 13, 1), syn, syn, syn)]);
            let other = is_protocol(ip_protocol::TCP).and([opens.not()]);
            rest.push((vec![Case::new(other, unmapped(spec, DropReason::NoMapping)).on(input)], None));
        }
        let (values, to) = match spec {
            Spec::Drop | Spec::Pass(_) => {
                let case = Case::new(Filter::TRUE, unmapped(spec, DropReason::NoMapping)).on(input);
                rest.push((vec![case], None));
                continue;
            }
            Spec::Keep(Outputs { forward, .. }) => {
                rest.push((vec![full()], Some((input, [None; 4], Target::Output(*forward)))));
                continue;
            }
            Spec::Pattern(target) => (target.pattern.values(), Target::Output(target.outputs.forward)),
            Spec::Mapper(_) => (ANY, somewhere),
        };
        rest.push((vec![used(), odd(), full()], Some((input, values, to))));
    }
    for (before, case) in rest {
        cases.extend(before);
        let Some((input, values, to)) = case else { continue };
        for shape in shapes(flavour) {
            let case = Case::new(shape.when.clone(), to).updating(&shape.summed).on(input);
            cases.push(Case { actions: actions(desk, &shape, values, false), ..case });
        }
    }
    let inside = |table, more: &[Field]| {
        let key = [&[wire_field::IP_SRC], more].concat();
        State { table, key, both_directions: false, access: StateAccess::Connection }
    };
    let sharing = desk.sharing;
    let mut states =
        vec![State { table: TABLE, key, both_directions: true, access: StateAccess::Connection }];
    if sharing.is_independent {
        states.push(inside("ends inside", &[wire_field::IP_PROTOCOL, wire_field::SRC_PORT]));
    }
    if sharing.most_of_one > 0 {
        states.push(inside("subscribers", &[]));
    }
    // A flow mark names one direction of a mapping. The packets with one mark must have one five-tuple. This
    // is so only if TCP and UDP have separate mappings.
    let marks =
        if matches!(flavour, Flavour::Both | Flavour::Tcp) { FlowMarks::Gives } else { FlowMarks::None };
    let mut effects = Effects {
        state: states,
        support: Support { marks, finds_runs: true, ..Support::default() },
        ..Effects::cases(cases)
    };
    let chooses_home = !desk.is_helped
        && desk.specs.iter().all(|spec| match spec {
            Spec::Drop | Spec::Pass(_) | Spec::Keep(_) => true,
            Spec::Pattern(target) => target.pattern.chooses_port(),
            Spec::Mapper(mapper) => mapper.targets.iter().all(|target| target.pattern.chooses_port()),
        });
    effects.leaves = if chooses_home { Leaves::AtHome } else { Leaves::Here };
    // An FTPPortMapper (helper) makes mappings at one worker, so the packets of a flow must not be spread
    // over workers if the translator has a helper. ICMPPingRewriter needs no such exception, although it does
    // not find mappings of other workers: ICMP queries always come to the worker of their flow.
    effects.finds_state = flavour.has_ports() && !desk.is_helped;
    effects.support.leases = leases(desk);
    effects = effects.depending_on(Depends::Time).depending_on(Depends::Handler);
    if desk.sets_aggregate {
        effects = effects.depending_on(Depends::Counter);
    }
    for what in chances(desk) {
        effects = effects.depending_on(what);
    }
    // These fields give the length of the payload and the TCP flags. They change the time-out of a mapping,
    // but neither the packet's rewriting nor its output.
    let lasting = [wire_field::IP_LENGTH, wire_field::IP_VERSION_IHL, bytes(Base::Transport, 12, 2)];
    if matches!(flavour, Flavour::Both | Flavour::Tcp) { effects.observing(&lasting) } else { effects }
}

/// Returns the filter for packets of leased flows that must still come to the translator, because they may
/// change the mapping: TCP segments with SYN, FIN or RST, and TCP segments that end before their checksum.
/// Returns `None` if the translator leases no flows.
fn leases(desk: &Translation) -> Option<Filter> {
    use wire::tcp::flags::{FIN, RST, SYN};
    let flavour = desk.flavour;
    if !matches!(flavour, Flavour::Both | Flavour::Tcp | Flavour::Udp) || desk.is_helped {
        return None;
    }
    // With a reply annotation or an aggregate, flows are not leased, because a lease does not contain the
    // value.
    if desk.reply_annotation.is_some() || desk.sets_aggregate {
        return None;
    }
    let flags = within(bytes(Base::Transport, 13, 1), (FIN | RST | SYN).into(), 0, 0);
    let tcp = is_protocol(ip_protocol::TCP);
    Some(tcp.and([Filter::All(vec![reaches(TCP_SUMMED), flags]).not()]))
}

/// Returns the target of packets that get no mapping: the output of the specification `pass`, or a drop for
/// `reason` with any other specification.
fn unmapped(spec: &Spec, reason: DropReason) -> Target {
    match spec {
        Spec::Pass(output) => Target::Output(*output),
        _ => Target::Drop(reason),
    }
}

/// Returns the dependencies of the choice of addresses and ports on anything but the packet: on a counter for
/// ascending values and for patterns in turn, on random numbers for other choices from a range.
fn chances(desk: &Translation) -> Vec<Depends> {
    let mut all = Vec::new();
    let mut add = |what| {
        if !all.contains(&what) {
            all.push(what);
        }
    };
    for spec in &desk.specs {
        let targets = match spec {
            Spec::Pattern(target) => std::slice::from_ref(target),
            Spec::Mapper(mapper) => {
                if let Choice::InTurn(_) = mapper.choice {
                    add(Depends::Counter);
                }
                &mapper.targets[..]
            }
            _ => &[],
        };
        for target in targets.iter().filter(|target| target.pattern.more > 0) {
            add(if target.pattern.sequential { Depends::Counter } else { Depends::Random });
        }
    }
    all
}
