//! Frames for tests of programs: frames that match the rules of a program, damaged frames, and a machine
//! that runs a program on a frame.
#![allow(dead_code, reason = "each test program uses a part")]

use classify::Tree;
use classify::filter::{Condition, HeaderLayer, HeaderSlices, Test};
use element::{Base, Packet, Timestamp};
use packet::{Annotations, Pool};
use program::machine_code::MachineCode;
use program::question::Question;
use program::{Exit, OrderedRules, Program};
use runtime::graph::OTHERWISE;
use runtime::interpreter::{Interpreter, Scratch};
use wire::checksum::Sum;

const NETWORK: usize = 14;
const TRANSPORT: usize = 34;

/// Returns an Ethernet frame with an IPv4 header and random addresses and ports.
pub(crate) fn random_frame(random: &mut fastrand::Rng) -> Vec<u8> {
    let length = TRANSPORT + 20 + random.usize(..40);
    let mut frame: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(length).collect();
    // The Ethernet destination is a unicast address, so that elements accept the frame.
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[20..22].fill(0);
    frame[22] = [1, 2, 64, 255][random.usize(..4)];
    frame[23] = [1, 6, 17, 17, 6, 132, 47][random.usize(..7)];
    // The upper four bits of this byte (data offset) are the length of a TCP header in words of 32 bits.
    frame[TRANSPORT + 12] = 0x50;
    finish(&mut frame);
    frame
}

/// Sets the total length and the checksum of the frame's IPv4 header to the right values.
pub(crate) fn finish(frame: &mut [u8]) {
    let total = (frame.len() - NETWORK) as u16;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    let length = usize::from(frame[14] & 15) * 4;
    frame[24..26].fill(0);
    let sum = Sum::new().bytes(&frame[NETWORK..(NETWORK + length).min(frame.len())]).checksum();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// Returns a random frame in which some bytes are answers at the borders of ranges of the program's
/// questions.
pub(crate) fn at_borders(program: &Program, random: &mut fastrand::Rng) -> Vec<u8> {
    let mut frame = random_frame(random);
    for node in &program.nodes {
        let Question::Bytes { offset, length: length @ 1..=4 } = node.question else { continue };
        let (offset, length) = (offset as usize, usize::from(length));
        // The bytes up to the header length field (offset 14) determine the layout of the packet, so they
        // stay as they are.
        if random.bool() || offset < 15 {
            continue;
        }
        let (last, _) = node.parts[random.usize(..node.parts.len())];
        let number = (last as u32).wrapping_add(random.u32(..2)).to_be_bytes();
        frame[offset..offset + length].copy_from_slice(&number[4 - length..]);
    }
    if random.u8(..8) != 0 {
        // Most frames are made unfragmented.
        frame[20..22].fill(0);
    }
    finish(&mut frame);
    frame
}

/// Returns a frame for which a rule of a list is the first one that holds; `None` if 400 attempts find no
/// such frame.
pub(crate) fn of_rule(list: &OrderedRules, rule: usize, random: &mut fastrand::Rng) -> Option<Vec<u8>> {
    for _ in 0..400 {
        let mut frame = random_frame(random);
        let condition = &list.rules[rule].condition;
        // The bytes for one part of a condition may overwrite the bytes for another part. They are written
        // twice, so that all parts hold more often.
        for _ in 0..2 {
            satisfy(condition, true, &mut frame, random);
        }
        frame[TRANSPORT + 12] = 0x50;
        finish(&mut frame);
        if frame[12..15] == [8, 0, 0x45] && holds(condition, &frame) && first(list, &frame) == Some(rule) {
            return Some(frame);
        }
    }
    None
}

/// Returns the index of the first rule of a list that holds for a frame, by testing one rule after the
/// other.
pub(crate) fn first(list: &OrderedRules, frame: &[u8]) -> Option<usize> {
    list.rules.iter().position(|rule| holds(&rule.condition, frame))
}

fn holds(condition: &Condition, frame: &[u8]) -> bool {
    let from = |start: usize| frame.get(start..).unwrap_or_default();
    let headers = HeaderSlices { mac: frame, network: from(NETWORK), transport: from(TRANSPORT) };
    condition.holds(&|test: &Test| test.holds(&headers))
}

fn satisfy(condition: &Condition, positive: bool, frame: &mut [u8], random: &mut fastrand::Rng) {
    match condition {
        Tree::Constant(_) => {}
        Tree::Leaf(test) => set(test, test.outside != positive, frame, random),
        Tree::Not(inner) => satisfy(inner, !positive, frame, random),
        Tree::All(parts) | Tree::Any(parts) if matches!(condition, Tree::All(_)) == positive => {
            // The bytes for parts with alternatives are written first. So the bytes for the other parts,
            // which have no alternative, may overwrite them.
            let has_choice = |part: &&Condition| !matches!(part, Tree::Leaf(_));
            parts.iter().filter(has_choice).for_each(|part| satisfy(part, positive, frame, random));
            parts
                .iter()
                .filter(|part| !has_choice(part))
                .for_each(|part| satisfy(part, positive, frame, random));
        }
        Tree::All(parts) | Tree::Any(parts) => {
            satisfy(&parts[random.usize(..parts.len())], positive, frame, random)
        }
        Tree::Choose(parts) => {
            let way = random.bool();
            satisfy(&parts[0], way, frame, random);
            satisfy(&parts[if way { 1 } else { 2 }], positive, frame, random);
        }
    }
}

/// Writes a number to the bytes that a test reads. The number is inside or outside of the test's range, and
/// often at its border.
fn set(test: &Test, inside: bool, frame: &mut [u8], random: &mut fastrand::Rng) {
    let start = match test.header {
        HeaderLayer::Mac => 0,
        HeaderLayer::Network => NETWORK,
        HeaderLayer::Transport => TRANSPORT,
    } + usize::from(test.offset);
    let Some(bytes) = frame.get_mut(start..start + usize::from(test.length)) else { return };
    let number = match (inside, random.u8(..3)) {
        (true, 0) => test.low,
        (true, 1) => test.high,
        (true, _) => random.u32(test.low..=test.high),
        (false, 0) => test.low.wrapping_sub(1),
        (false, 1) => test.high.wrapping_add(1),
        (false, _) => random.u32(..),
    };
    let old = bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte));
    let new = (old & !test.mask | number & test.mask).to_be_bytes();
    bytes.copy_from_slice(&new[4 - usize::from(test.length)..]);
}

/// Damages a frame at random, or changes it so that a switch parses it differently from a program.
pub(crate) fn damage(frame: &mut Vec<u8>, random: &mut fastrand::Rng) {
    match random.u8(..12) {
        0 => frame.truncate(random.usize(..frame.len())),
        1 => {
            // IP options move the ports to another offset.
            let options = 4 * random.usize(1..=10);
            let bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(options).collect();
            frame.splice(TRANSPORT..TRANSPORT, bytes);
            frame[14] = 0x45 + (options / 4) as u8;
            finish(frame);
        }
        2 => frame[20..22].copy_from_slice(&[[0x20, 0], [0, 1], [0x20, 9], [0x40, 0]][random.usize(..4)]),
        3 => drop(frame.splice(12..12, [0x81, 0, 0, random.u8(..6)])),
        4 => frame[12..14].copy_from_slice(&[[0x86, 0xdd], [8, 6], [0, 46], [0x88, 0xa8]][random.usize(..4)]),
        5 => frame[16..18].copy_from_slice(&[random.u8(..3), random.u8(..)]),
        6 => frame[14] = random.u8(..),
        7 => {
            // The IPv4 header follows an LLC and SNAP header.
            let length = (frame.len() - 12) as u16;
            let [high, low] = length.to_be_bytes();
            drop(frame.splice(12..12, [high, low, 0xaa, 0xaa, 3, 0, 0, 0]));
        }
        8 => frame.extend(std::iter::repeat_n(0, random.usize(..300))),
        9 => frame[34..38].fill(0),
        10 => {
            frame.truncate(TRANSPORT + random.usize(..20));
            finish(frame);
        }
        _ => {
            let place = random.usize(..frame.len());
            frame[place] = random.u8(..);
        }
    }
}

/// An interpreter that runs a program on frames one by one.
pub(crate) struct Machine {
    pool: Pool,
    runner: Interpreter,
    program: Program,
    scratch: Scratch,
}

/// The result of a program for a frame: the output or drop reason, and, for a frame that is not dropped, its
/// bytes, header marks, annotations and packet type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) bytes: Vec<u8>,
    headers: [Option<isize>; 3],
    annotations: Vec<u8>,
    kind: u8,
    pub(crate) exit: Exit,
}

impl Machine {
    pub(crate) fn new(program: Program) -> Machine {
        let program = Program { machine_code: MachineCode::Now, ..program };
        let runner = Interpreter::new(&program, &|_, _| true).unwrap();
        Machine { pool: Pool::new(64 << 20).unwrap(), runner, program, scratch: Scratch::default() }
    }

    /// Runs the program on a frame. With a `number`, the program is that of the software after a switch:
    /// the number is in the VLAN annotation, and the network header is marked at the offset that the
    /// program assumes, as if a tag had been removed.
    pub(crate) fn run(&mut self, frame: &[u8], number: Option<u16>) -> Fate {
        let mut packet = self.pool.packet(frame).unwrap();
        packet.set_offset(Base::Mac, Some(0));
        if let Some(number) = number {
            packet.set_offset(Base::Network, self.program.layout[1].map(|place| place as isize));
            let place = Annotations::VLAN_TCI;
            packet.annotations_mut().bytes_mut()[place..place + 2].copy_from_slice(&number.to_be_bytes());
        }
        let mut packets = [packet];
        self.runner.classify(&packets, None, &mut self.scratch);
        let class = self.scratch.classes[0];
        assert_ne!(class, OTHERWISE);
        let (mut places, mut refused) = (vec![0], Vec::new());
        let operation = self.runner.operation(class, 1).unwrap();
        operation.carry_out(&mut packets, &mut places, None, Timestamp::default(), &mut refused);
        assert!(refused.is_empty());
        let [packet] = packets;
        let exit = self.program.classes[class as usize].exit;
        let fate = match exit {
            // The contents of a dropped packet do not matter, so they are not compared.
            Exit::Drop(_) => {
                Fate { bytes: Vec::new(), headers: [None; 3], annotations: Vec::new(), kind: 0, exit }
            }
            Exit::Output(_) => seen(&packet, exit),
        };
        self.pool.free(packet);
        fate
    }
}

fn seen(packet: &Packet, exit: Exit) -> Fate {
    Fate {
        bytes: packet.data().to_vec(),
        headers: [Base::Mac, Base::Network, Base::Transport].map(|base| packet.offset(base)),
        annotations: packet.annotations().bytes().to_vec(),
        kind: packet.kind() as u8,
        exit,
    }
}
