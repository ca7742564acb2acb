//! A fuzz target for the text form of synthesized programs.

use std::cell::RefCell;

use element::{Base, Packet, Timestamp};
use lang::args::split;
use packet::Pool;
use program::{Program, declare, text};
use runtime::groups::Groups;
use runtime::interpreter::{Interpreter, Scratch};
use testkit::chains::{Read, compare_within, try_read};

/// The number of outputs of the program's element.
const OUTPUTS: usize = 2;

/// The maximum number of diagram nodes with which the verifier tries to prove a program.
const MOST_NODES: usize = 1 << 10;

thread_local! {
    static POOL: RefCell<Pool> = RefCell::new(pool());
}

fn pool() -> Pool {
    let mut pool = Pool::new(64 << 20).expect("there is memory for a pool");
    pool.use_annotations(true);
    pool
}

/// Parses the lines of a program, separated by commas. A program that is accepted is written and read back,
/// declared as an element, and run on the packet after the first zero byte of the input. If it can be run,
/// the verifier compares it with a Switch.
pub fn program(data: &[u8]) {
    let end = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
    let (given, frame) = (String::from_utf8_lossy(&data[..end]), data.get(end + 1..).unwrap_or_default());
    let program = match read(&given) {
        Ok(program) => program,
        Err(why) => return assert!(!why.is_empty()),
    };
    let written = text::write(&program);
    match read(&written) {
        Ok(again) => assert_eq!(text::write(&again), written),
        Err(why) => panic!("{written} is not read back: {why}"),
    }
    assert!(!declare::effects(&program).cases.is_empty());
    if run(&program, frame) {
        prove(&written);
    }
}

fn read(given: &str) -> Result<Program, String> {
    let lines: Vec<String> = split(given).into_iter().map(|arg| arg.text).collect();
    text::read(&lines, OUTPUTS)
}

/// Runs a program on a packet with the program's layout, whole and cut to 40 bytes. Returns false if the
/// program cannot be run.
fn run(program: &Program, frame: &[u8]) -> bool {
    let mut interpreter = match Interpreter::new(program, &|_, _| true) {
        Ok(interpreter) => interpreter,
        Err(why) => {
            assert!(!why.is_empty());
            return false;
        }
    };
    POOL.with_borrow_mut(|pool| {
        let frames = [frame, &frame[..frame.len().min(40)]];
        let mut packets: Vec<Packet> = frames.into_iter().filter_map(|frame| pool.packet(frame)).collect();
        for packet in &mut packets {
            for (base, place) in [Base::Mac, Base::Network, Base::Transport].into_iter().zip(program.layout) {
                packet.set_offset(base, place.map(|place| place as isize));
            }
        }
        let mut scratch = Scratch::default();
        interpreter.classify(&packets, None, &mut scratch);
        let Scratch { classes, groups, .. } = &mut scratch;
        groups.sort(classes, program.classes.len());
        while let Some(class) = groups.take() {
            let Groups { places, refused, .. } = &mut *groups;
            if let Some(operation) = interpreter.operation(class, places.len()) {
                operation.carry_out(&mut packets, places, None, Timestamp(0), refused);
            }
        }
        packets.drain(..).for_each(|packet| pool.free(packet));
    });
    true
}

/// Has the verifier compare a program with a Switch that sends all packets to output 0; any verdict is right.
fn prove(written: &str) {
    let read = [format!("Synthesized({written})"), "Switch(0)".into()].map(|element| configuration(&element));
    if let [Ok(program), Ok(other)] = read {
        compare_within(MOST_NODES, &program, &other);
    }
}

/// Configures a graph with an element that has [`OUTPUTS`] outputs.
fn configuration(element: &str) -> Result<Read, String> {
    let ends = "s[0] -> ToDump(a.pcap); s[1] -> ToDump(b.pcap);";
    try_read(&format!("FromDump(in.pcap) -> s :: {element}; {ends}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds;

    /// The seeds in their original form, without a replaced number, are programs that run and can be
    /// compared.
    #[test]
    fn seeds_are_programs() {
        for text in seeds::PROGRAMS {
            let program = read(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert!(Interpreter::new(&program, &|_, _| true).is_ok(), "{text}");
            assert!(configuration(&format!("Synthesized({text})")).is_ok(), "{text}");
        }
        assert!(configuration("Switch(0)").is_ok());
    }
}
