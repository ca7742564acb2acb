//! Running programs: the classes of a batch of packets, then their operations.
//!
//! Questions are flat arrays, rule lists are compiled ([`classify::filter::Matcher`]) and asked for all packets of a batch
//! that have come to them at once. Nothing is allocated per batch.

use classify::filter::{Headers, Matcher};
use element::{Base, Packet, Timestamp};
use packet::{Annotations, BATCH_CAPACITY, PacketKind};
use wire::LinkType;
use wire::checksum::{Delta, Sum as OnesSum, ipv4_valid};

use super::question::{Question, Sum};
use super::{Checksum, Class, Next, Node, Program, Value, Write};
use crate::compose::packet::{IPV4, IPV4_SUM, Place};
use crate::verify::run::kind_of;

/// The bytes that values other than constants may take in one class.
const MOST_MOVED: usize = 64;

/// A program, ready to run. Workers share it.
pub struct Runner {
    layout: [Option<isize>; 3],
    needs_link: bool,
    is_certain: bool,
    nodes: Vec<Compiled>,
    /// Of all nodes: the last answer of each range, and where it leads.
    ends: Vec<u64>,
    nexts: Vec<Next>,
    /// For each question about a byte: which of its ranges each value is in.
    tables: Vec<[u8; 256]>,
    /// Questions that are not asked often, as they are, and those with answers of more than 64 bits.
    others: Vec<Question>,
    wide: Vec<Node>,
    start: Next,
    lists: Vec<RuleList>,
    /// What has to be done for each class.
    operations: Vec<Operation>,
}

/// A question as it is asked. Nodes are small, and all of one kind: what a packet's way costs is waiting for one after the
/// other.
#[derive(Clone, Copy, Debug)]
struct Compiled {
    ask: Ask,
    /// Where its ranges start, and how many there are; for a byte a table says which one.
    first: u32,
    count: u32,
    table: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Byte(u16),
    Half(u16),
    Word(u16),
    Length,
    Kind,
    /// One byte of the annotations.
    Annotation(u8),
    /// One of the other questions.
    Other(u32),
    /// One whose answers have more than 64 bits.
    Wide(u32),
    List(u32),
}

/// The way that a packet has taken, as ranges that are looked at without waiting for each other: the next packet is likely
/// to take the same one.
#[derive(Clone, Debug, Default)]
pub struct Trail {
    steps: Vec<TrailStep>,
    /// Where it leads.
    end: Next,
    /// Packets that have left it since it was made.
    left: u32,
}

#[derive(Clone, Copy, Debug)]
struct TrailStep {
    node: u32,
    ask: Ask,
    low: u64,
    span: u64,
}

/// Packets that leave a trail before it is made anew.
const MOST_LEFT: u32 = 64;

struct RuleList {
    matcher: Matcher,
    headers: [usize; 2],
    end: Option<Sum>,
    outcomes: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
struct Operation {
    start: i32,
    front: i32,
    end: Option<Sum>,
    headers: Vec<(Base, Option<i32>)>,
    kind: Option<PacketKind>,
    port: Option<u8>,
    framed: bool,
    stamped: bool,
    writes: Vec<Write>,
    annotations: Vec<Write>,
    /// Whether a value is made from what came in.
    moves: bool,
    checksum: Option<Checksum>,
    /// Bytes that the packet has to have in its first slot.
    needs: usize,
}

/// What a class number stands for where packets are left to the elements themselves.
pub const OTHERWISE: u32 = u32::MAX;

/// What is needed while a batch is classified; nothing of it is kept.
pub struct Scratch {
    /// The class of each packet.
    pub classes: Vec<u32>,
    waiting: Vec<(u8, u32)>,
    answers: Vec<u32>,
    trail: Trail,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            classes: Vec::with_capacity(BATCH_CAPACITY),
            waiting: Vec::with_capacity(BATCH_CAPACITY),
            answers: Vec::with_capacity(BATCH_CAPACITY),
            trail: Trail::default(),
        }
    }
}

impl Runner {
    /// Compiles a program. `is_read` says of an annotation byte whether anybody looks at it.
    ///
    /// # Errors
    /// What no packet can have done to it.
    pub fn new(program: &Program, is_read: &dyn Fn(u8) -> bool) -> Result<Runner, String> {
        let mut runner = Runner {
            layout: program.layout.map(|place| place.map(|place| place as isize)),
            needs_link: program.needs_link,
            is_certain: program.is_certain,
            nodes: Vec::with_capacity(program.nodes.len()),
            ends: Vec::new(),
            nexts: Vec::new(),
            tables: Vec::new(),
            others: Vec::new(),
            wide: Vec::new(),
            start: program.start,
            lists: Vec::with_capacity(program.lists.len()),
            operations: Vec::with_capacity(program.classes.len()),
        };
        for node in &program.nodes {
            let first = runner.ends.len() as u32;
            for &(last, next) in &node.parts {
                runner.ends.push(u64::try_from(last).unwrap_or(u64::MAX));
                runner.nexts.push(next);
            }
            let place = |offset: i32| u16::try_from(offset).ok();
            let ask = match &node.question {
                Question::Bytes { offset, length } if *length > 8 || place(*offset).is_none() => {
                    if *offset < 0 {
                        return Err(format!("question {}: in front of the packet", node.question));
                    }
                    runner.wide.push(node.clone());
                    Ask::Wide(runner.wide.len() as u32 - 1)
                }
                Question::Annotation { length, .. } if *length > 8 => {
                    runner.wide.push(node.clone());
                    Ask::Wide(runner.wide.len() as u32 - 1)
                }
                Question::Bytes { offset, length: 1 } => Ask::Byte(*offset as u16),
                Question::Bytes { offset, length: 2 } => Ask::Half(*offset as u16),
                Question::Bytes { offset, length: 4 } => Ask::Word(*offset as u16),
                Question::Length => Ask::Length,
                Question::Kind => Ask::Kind,
                Question::Annotation { offset, length: 1 } => Ask::Annotation(*offset),
                Question::List(list) => Ask::List(*list),
                other => {
                    runner.others.push(other.clone());
                    Ask::Other(runner.others.len() as u32 - 1)
                }
            };
            let table = runner.tables.len() as u32;
            if let Ask::Byte(_) = ask {
                let part = |value: usize| {
                    node.parts.partition_point(|(last, _)| *last < value as u128).min(node.parts.len() - 1)
                        as u8
                };
                runner.tables.push(std::array::from_fn(part));
            }
            runner.nodes.push(Compiled { ask, first, count: node.parts.len() as u32, table });
        }
        for list in &program.lists {
            let [network, transport] = list.headers.map(usize::try_from);
            let (Ok(network), Ok(transport)) = (network, transport) else {
                return Err("a list of rules about headers in front of the packet".into());
            };
            let conditions: Vec<_> = list.rules.iter().map(|rule| rule.condition.clone()).collect();
            runner.lists.push(RuleList {
                matcher: Matcher::new(&conditions),
                headers: [network, transport],
                end: list.end.clone(),
                outcomes: list.rules.iter().map(|rule| rule.outcome).collect(),
            });
        }
        for (number, class) in program.classes.iter().enumerate() {
            let operation = Operation::new(class, is_read).map_err(|why| format!("c{number}: {why}"))?;
            runner.operations.push(operation);
        }
        Ok(runner)
    }

    /// Finds the class of each packet. `count` hears which rule of which list was the first that holds.
    pub fn classify(&self, packets: &[Packet], scratch: &mut Scratch, mut count: impl FnMut(usize, usize)) {
        let Scratch { classes, waiting, answers, trail } = scratch;
        classes.clear();
        waiting.clear();
        for (place, packet) in (0..=u8::MAX).zip(packets) {
            let class = match self.is_laid_out(packet) {
                true => match self.follow_trail(trail, packet) {
                    Ok(class) => class,
                    Err(node) => {
                        waiting.push((place, node));
                        OTHERWISE
                    }
                },
                false => OTHERWISE,
            };
            classes.push(class);
        }
        // Packets that wait for rules: those at the same list are looked up together.
        while let Some(&(_, node)) = waiting.first() {
            let Some((list, rules)) = self.list_of(node) else { break };
            let RuleList { matcher, headers, end, outcomes } = rules;
            answers.clear();
            let is_here =
                |(_, other): &&(u8, u32)| self.list_of(*other).is_some_and(|(other, _)| other == list);
            let here = waiting.iter().filter(is_here).map(|(place, _)| &packets[usize::from(*place)]);
            let here = here.map(|packet| split(packet, *headers, end.as_ref()));
            matcher.first_of_each(here, None, |rule| {
                let rule = rule.unwrap_or(outcomes.len().saturating_sub(1));
                count(list, rule);
                answers.push(outcomes.get(rule).copied().unwrap_or_default());
            });
            let mut answers = answers.iter();
            waiting.retain_mut(|(place, node)| {
                if self.list_of(*node).is_none_or(|(other, _)| other != list) {
                    return true;
                }
                let Some(answer) = answers.next() else { return false };
                let packet = &packets[usize::from(*place)];
                let node_of_list = &self.nodes[*node as usize];
                match self
                    .follow(self.leads(node_of_list, self.part(node_of_list, u64::from(*answer))), packet)
                {
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

    fn list_of(&self, node: u32) -> Option<(usize, &RuleList)> {
        match self.nodes.get(node as usize)?.ask {
            Ask::List(list) => Some((list as usize, self.lists.get(list as usize)?)),
            _ => None,
        }
    }

    #[inline]
    fn is_laid_out(&self, packet: &Packet) -> bool {
        let [link, network, transport] = self.layout;
        self.is_certain
            || packet.offset(Base::Network) == network
                && packet.offset(Base::Transport) == transport
                && (!self.needs_link || packet.offset(Base::Mac) == link)
    }

    /// As [`follow`](Self::follow) from the start, along the way of an earlier packet as far as it goes.
    #[inline]
    fn follow_trail(&self, trail: &mut Trail, packet: &Packet) -> Result<u32, u32> {
        let data = packet.data();
        let other = trail.steps.iter().find(|step| {
            let answer = match step.ask {
                Ask::Other(number) => answer(&self.others[number as usize], packet) as u64,
                ask => plain(ask, data, packet),
            };
            answer.wrapping_sub(step.low) > step.span
        });
        match other {
            None if !trail.steps.is_empty() => match trail.end {
                Next::Class(class) => Ok(class),
                Next::Node(_) => self.follow(trail.end, packet),
            },
            None => self.lay_trail(trail, packet),
            Some(step) => {
                let node = step.node;
                trail.left += 1;
                if trail.left > MOST_LEFT {
                    return self.lay_trail(trail, packet);
                }
                self.follow(Next::Node(node), packet)
            }
        }
    }

    /// As [`follow`](Self::follow) from the start, and notes the way.
    #[cold]
    fn lay_trail(&self, trail: &mut Trail, packet: &Packet) -> Result<u32, u32> {
        let data = packet.data();
        trail.steps.clear();
        trail.left = 0;
        let mut next = self.start;
        while let Next::Node(number) = next {
            let node = &self.nodes[number as usize];
            let answer = match node.ask {
                Ask::Other(number) => answer(&self.others[number as usize], packet) as u64,
                Ask::Wide(_) | Ask::List(_) => break,
                ask => plain(ask, data, packet),
            };
            let part = self.part(node, answer);
            let place = node.first as usize + part;
            let low = if part == 0 { 0 } else { self.ends[place - 1] + 1 };
            trail.steps.push(TrailStep { node: number, ask: node.ask, low, span: self.ends[place] - low });
            next = self.nexts[place];
        }
        trail.end = next;
        self.follow(next, packet)
    }

    /// Asks questions until there is a class, or a list of rules, which is left open.
    fn follow(&self, mut next: Next, packet: &Packet) -> Result<u32, u32> {
        let data = packet.data();
        loop {
            let number = match next {
                Next::Class(class) => return Ok(class),
                Next::Node(number) => number,
            };
            let node = &self.nodes[number as usize];
            let answer = match node.ask {
                Ask::Other(number) => answer(&self.others[number as usize], packet) as u64,
                Ask::Wide(wide) => {
                    let node = &self.wide[wide as usize];
                    next = node.next(answer(&node.question, packet));
                    continue;
                }
                Ask::List(_) => return Err(number),
                ask => plain(ask, data, packet),
            };
            next = self.leads(node, self.part(node, answer));
        }
    }

    /// Which range of a node an answer is in.
    #[inline]
    fn part(&self, node: &Compiled, answer: u64) -> usize {
        if let Ask::Byte(_) = node.ask {
            return self.tables[node.table as usize][answer as usize & 0xff].into();
        }
        let (first, count) = (node.first as usize, node.count as usize);
        let ends = &self.ends[first..first + count];
        match count {
            0..=8 => ends.iter().take(count - 1).filter(|end| **end < answer).count(),
            _ => ends.partition_point(|end| *end < answer).min(count - 1),
        }
    }

    #[inline]
    fn leads(&self, node: &Compiled, part: usize) -> Next {
        self.nexts[node.first as usize + part]
    }

    /// Does to a packet what its class says. False, and nothing done, where its first slot lacks the bytes or the room.
    #[inline]
    #[must_use]
    pub fn operate(&self, class: u32, packet: &mut Packet, now: Timestamp) -> bool {
        match self.operations.get(class as usize) {
            Some(operation) => operation.carry_out(packet, now),
            None => false,
        }
    }
}

/// The answer to one of the questions that are asked often.
#[inline(always)]
fn plain(ask: Ask, data: &[u8], packet: &Packet) -> u64 {
    match ask {
        Ask::Byte(offset) => match data.get(usize::from(offset)) {
            Some(byte) => u64::from(*byte),
            None => slow(packet, offset, 1),
        },
        Ask::Half(offset) => match data.get(usize::from(offset)..usize::from(offset) + 2) {
            Some(bytes) => u64::from(u16::from_be_bytes([bytes[0], bytes[1]])),
            None => slow(packet, offset, 2),
        },
        Ask::Word(offset) => match data.get(usize::from(offset)..usize::from(offset) + 4) {
            Some(bytes) => u64::from(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
            None => slow(packet, offset, 4),
        },
        Ask::Kind => packet.kind() as u64,
        Ask::Annotation(offset) => {
            packet.annotations().bytes().get(usize::from(offset)).map_or(0, |byte| u64::from(*byte))
        }
        _ => packet.len() as u64,
    }
}

/// The headers of a packet that is laid out as a list expects.
#[inline]
fn split<'p>(packet: &'p Packet, headers: [usize; 2], end: Option<&Sum>) -> Headers<'p> {
    let mut data = packet.data();
    if let Some(end) = end {
        let end = usize::try_from(value(end, packet)).unwrap_or(0);
        data = &data[..end.min(data.len())];
    }
    let [network, transport] = headers.map(|start| data.get(start..).unwrap_or_default());
    Headers { mac: data, network, transport }
}

/// Bytes that do not all lie in the first slot; zero if they are not there.
#[cold]
fn slow(packet: &Packet, offset: u16, length: usize) -> u64 {
    let mut bytes = [0; 8];
    match packet.read_at(offset.into(), &mut bytes[8 - length..]) {
        found if found == length => u64::from_be_bytes(bytes),
        _ => 0,
    }
}

/// The answer to any question but that of a list.
fn answer(question: &Question, packet: &Packet) -> u128 {
    match question {
        Question::Length => packet.len() as u128,
        Question::Kind => packet.kind() as u128,
        Question::Bytes { offset, length } => {
            let mut bytes = [0; 16];
            let length = usize::from(*length).min(16);
            let Ok(offset) = usize::try_from(*offset) else { return 0 };
            match packet.read_at(offset, &mut bytes[16 - length..]) {
                found if found == length => u128::from_be_bytes(bytes),
                _ => 0,
            }
        }
        Question::Annotation { offset, length } => {
            let bytes = packet.annotations().bytes().iter().skip((*offset).into()).take((*length).into());
            bytes.fold(0, |number, &byte| number << 8 | u128::from(byte))
        }
        Question::AtLeastZero(sum) => u128::from(value(sum, packet) >= 0),
        Question::RightChecksum { offset } => {
            let header = usize::try_from(*offset).ok().and_then(|start| packet.data().get(start..));
            u128::from(header.is_some_and(is_right))
        }
        Question::List(_) => 0,
    }
}

/// Whether the checksum of an IPv4 header is right, as far as its own length says that it reaches.
fn is_right(header: &[u8]) -> bool {
    let length = header.first().map_or(0, |first| usize::from(first & 15) * 4);
    header.get(..length).is_some_and(ipv4_valid)
}

fn value(sum: &Sum, packet: &Packet) -> i64 {
    sum.value(|question| answer(question, packet))
}

impl Operation {
    fn new(class: &Class, is_read: &dyn Fn(u8) -> bool) -> Result<Operation, String> {
        let mut operation = Operation {
            start: class.start,
            front: class.front(),
            port: class.port,
            framed: class.framed,
            stamped: class.stamped,
            ..Operation::default()
        };
        operation.end.clone_from(&class.end);
        operation.checksum.clone_from(&class.checksum);
        for (base, header) in [Base::Mac, Base::Network, Base::Transport].into_iter().zip(class.headers) {
            operation.headers.extend(header.map(|place| (base, place.map(|place| place - class.start))));
        }
        if let Some(kind) = class.kind {
            operation.kind = Some(kind_of(kind));
        }
        let reach = |place: Place, length: usize| match place {
            Place::Byte(place) => i64::from(place) + length as i64,
            Place::Annotation(_) => 0,
        };
        let mut needs = i64::from(class.start);
        let mut moved = 0;
        for write in &class.writes {
            needs = needs.max(reach(write.place, write.value.length()));
            let from = match &write.value {
                Value::Constant(_) => None,
                Value::Copy(from, length) | Value::Plus(from, length, _) => {
                    Some((*from, usize::from(*length)))
                }
                Value::Masked(from, ..) => Some((*from, 1)),
            };
            if let Some((from, length)) = from {
                needs = needs.max(reach(from, length));
                moved += length;
                if matches!(from, Place::Byte(place) if place < 0) {
                    return Err("it reads in front of the packet".into());
                }
            }
            match write.place {
                Place::Byte(_) => operation.writes.push(write.clone()),
                Place::Annotation(place) => {
                    let places = place..place.saturating_add(write.value.length() as u8);
                    if usize::from(places.end) > Annotations::SIZE {
                        return Err("it writes behind the annotations".into());
                    }
                    match &write.value {
                        // Of constants only what somebody looks at is written.
                        Value::Constant(bytes) => {
                            let read = places.zip(bytes).filter(|(place, _)| is_read(*place));
                            for (place, byte) in read {
                                add_byte(&mut operation.annotations, place, *byte);
                            }
                        }
                        _ if places.into_iter().any(is_read) => operation.annotations.push(write.clone()),
                        _ => {}
                    }
                }
            }
        }
        operation.moves = moved > 0;
        if moved > MOST_MOVED {
            return Err("it moves too many bytes".into());
        }
        if let Some(Checksum::Updated { header, .. } | Checksum::Recomputed { header }) = &class.checksum {
            if *header < class.front() {
                return Err("it sums up what is not in the packet".into());
            }
            needs = needs.max(i64::from(header + IPV4));
        }
        if let Some(Checksum::Updated { header, words }) = &class.checksum
            && (words.len() > Words::default().len()
                || words.iter().any(|word| !(0..IPV4).contains(&(word - header)) || (word - header) % 2 != 0))
        {
            return Err("it sums up what is not in the header".into());
        }
        operation.needs = usize::try_from(needs).unwrap_or(0);
        Ok(operation)
    }

    #[inline]
    fn carry_out(&self, packet: &mut Packet, now: Timestamp) -> bool {
        let Operation { start, front, writes, annotations, checksum, .. } = self;
        let (start, front) = (*start, *front);
        if packet.data().len() < self.needs || packet.headroom() < front.unsigned_abs() as usize {
            return false;
        }
        // What is read is what came in: first all of it, then writes.
        let mut moved = [0; MOST_MOVED];
        let mut used = 0;
        if self.moves {
            for write in writes.iter().chain(annotations) {
                used += gather(&write.value, packet, &mut moved[used..]);
            }
        }
        let old = match checksum {
            Some(Checksum::Updated { words, .. }) => words_of(packet, words, 0),
            _ => Words::default(),
        };
        let end = self.end.as_ref().map(|sum| value(sum, packet));
        // What lies in front of the packet afterwards is written before it is taken off.
        let is_longer = packet.unstrip(front.unsigned_abs() as usize);
        debug_assert!(is_longer, "that there is room was asked before");
        let data = packet.data_mut();
        let mut used = 0;
        for Write { place, value } in writes {
            let Place::Byte(place) = place else { continue };
            let place = (place - front) as usize;
            let to = &mut data[place..place + value.length()];
            match value {
                Value::Constant(bytes) => put(to, bytes),
                value => {
                    put(to, &moved[used..used + value.length()]);
                    used += value.length();
                }
            }
        }
        match checksum {
            Some(Checksum::Updated { header, words }) => {
                let new = words_of(packet, words, front);
                let pairs = old.into_iter().zip(new).take(words.len());
                let change = pairs.fold(Delta::default(), |sum, (old, new)| sum + Delta::u16(old, new));
                let place = (header + IPV4_SUM - front) as usize;
                let sum = &mut packet.data_mut()[place..place + 2];
                let new = change.apply(u16::from_be_bytes([sum[0], sum[1]]));
                sum.copy_from_slice(&new.to_be_bytes());
            }
            Some(Checksum::Recomputed { header }) => {
                let first = (header - front) as usize;
                let place = first + IPV4_SUM as usize;
                let data = packet.data_mut();
                data[place..place + 2].fill(0);
                let sum = OnesSum::new().bytes(&data[first..first + IPV4 as usize]).checksum().to_be_bytes();
                data[place..place + 2].copy_from_slice(&sum);
            }
            None => {}
        }
        let is_shorter = packet.strip((start - front) as usize);
        debug_assert!(is_shorter, "that there are so many bytes was asked before");
        if let Some(end) = end {
            packet.truncate(usize::try_from(end - i64::from(start)).unwrap_or(0));
        }
        for (base, place) in &self.headers {
            packet.set_offset(*base, place.map(|place| place as isize));
        }
        if let Some(kind) = self.kind {
            packet.set_kind(kind);
        }
        if let Some(port) = self.port {
            packet.set_port(port);
        }
        if self.framed {
            packet.set_link(LinkType::Ethernet.number());
        }
        if self.stamped {
            packet.set_time(now);
        }
        for Write { place, value } in annotations {
            let Place::Annotation(place) = place else { continue };
            let place = usize::from(*place);
            let to = &mut packet.annotations_mut().bytes_mut()[place..place + value.length()];
            match value {
                Value::Constant(bytes) => put(to, bytes),
                value => {
                    put(to, &moved[used..used + value.length()]);
                    used += value.length();
                }
            }
        }
        true
    }
}

/// Adds a constant byte to writes of annotations, behind the last one if it follows that.
fn add_byte(writes: &mut Vec<Write>, place: u8, byte: u8) {
    if let Some(Write { place: Place::Annotation(first), value: Value::Constant(bytes) }) = writes.last_mut()
        && usize::from(*first) + bytes.len() == usize::from(place)
    {
        return bytes.push(byte);
    }
    writes.push(Write { place: Place::Annotation(place), value: Value::Constant(vec![byte]) });
}

/// Copies a few bytes; both have one length. A call to copy them would cost more than they do.
#[inline(always)]
fn put(to: &mut [u8], from: &[u8]) {
    match (to, from) {
        ([to], [from]) => *to = *from,
        (to, from) if from.len() == 4 && to.len() == 4 => {
            if let Some(bytes) = from.first_chunk::<4>() {
                to.copy_from_slice(bytes);
            }
        }
        (to, from) if (8..=16).contains(&from.len()) && to.len() == from.len() => {
            let behind = from.len() - 8;
            let (Some(first), Some(last)) = (from.first_chunk::<8>(), from.last_chunk::<8>()) else { return };
            to[..8].copy_from_slice(first);
            to[behind..].copy_from_slice(last);
        }
        (to, from) => to.copy_from_slice(from),
    }
}

/// Puts what a value is made from into `to`; constants need no room there.
#[inline]
fn gather(value: &Value, packet: &Packet, to: &mut [u8]) -> usize {
    match value {
        Value::Constant(_) => 0,
        Value::Copy(from, length) => {
            let length = usize::from(*length);
            put(&mut to[..length], bytes_at(packet, *from, length));
            length
        }
        Value::Plus(from, length, plus) => {
            let length = usize::from(*length);
            if length == 1 {
                to[0] = bytes_at(packet, *from, 1)[0].wrapping_add(*plus as u8);
                return 1;
            }
            let mut number = [0; 8];
            number[8 - length..].copy_from_slice(bytes_at(packet, *from, length));
            let sum = u64::from_be_bytes(number).wrapping_add(*plus as u64).to_be_bytes();
            to[..length].copy_from_slice(&sum[8 - length..]);
            length
        }
        Value::Masked(from, and, or) => {
            to[0] = bytes_at(packet, *from, 1)[0] & and | or;
            1
        }
    }
}

/// Bytes of a packet that has them.
#[inline]
fn bytes_at(packet: &Packet, place: Place, length: usize) -> &[u8] {
    match place {
        Place::Byte(place) => &packet.data()[place as usize..place as usize + length],
        Place::Annotation(place) => {
            &packet.annotations().bytes()[usize::from(place)..usize::from(place) + length]
        }
    }
}

/// Words of a header, as many as it can have.
type Words = [u16; IPV4 as usize / 2];

/// The words that a checksum has to account for.
#[inline]
fn words_of(packet: &Packet, words: &[i32], start: i32) -> Words {
    let data = packet.data();
    let mut values = Words::default();
    for (value, word) in values.iter_mut().zip(words) {
        let place = (word - start) as usize;
        *value = u16::from_be_bytes([data[place], data[place + 1]]);
    }
    values
}
