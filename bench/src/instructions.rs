//! Drives packets through benchmarks without measuring time, so that instructions can be counted (callgrind)
//! or a profile can be made.

use engine::{Inspector, Worker};

use crate::floor::Floor;
use crate::forwarding::{EDIT, FORWARD, QUEUE, TEE};
use crate::frames::{Start, trains};
use crate::functions::{FUNCTIONS_FLOWS, functions, functions_behind};
use crate::juggling::counted;
use crate::reframing::REFRAMER;
use crate::runner::{drive, worker, worker_of, worker_with};
use crate::slicing::SLICER;
use crate::synthesis::{Form, Traffic, form_of};
use crate::trains::{LENGTH, TOGETHER, reframer};
use crate::translation::NAT;
use crate::{Settings, monitoring};

/// Drives `packets` packets through a benchmark's chain, any other chain, or the floor, without measuring
/// time, to count instructions and to profile. In a benchmark with short-lived flows, `packets` only matters
/// if it is 0: otherwise each flow sends all of its packets. `in_memory` is the number of packets in memory;
/// by default it is small.
///
/// # Errors
/// If there is no such benchmark, or if the chain is invalid or stops the driver.
pub fn drive_only(name: &str, packets: usize, in_memory: Option<usize>) -> Result<(), String> {
    let in_memory = in_memory.unwrap_or(Settings::SMALL.packets);
    let mut start = Start::Frame;
    let chain = match name {
        "floor" => {
            Floor::new(in_memory, 64).map_err(|e| e.to_string())?.measure(packets);
            return Ok(());
        }
        "forward" => FORWARD,
        // `forward` in a run that other threads can watch, although none does.
        "forward-watched" => {
            return drive_to_the_end(monitoring::watched(in_memory, Inspector::new(1))?, packets);
        }
        "edit" => EDIT,
        "tee" => TEE,
        "queue" => QUEUE,
        "reframer" => REFRAMER,
        "nat" => {
            start = Start::Ethernet;
            NAT
        }
        // Parking and joining payloads of UDP or TCP, in frames of 1024 bytes.
        "slicer" | "slicer-tcp" => {
            let start = if name == "slicer" { Start::Frame } else { Start::Tcp };
            return drive_to_the_end(worker(in_memory, 1024, start, SLICER)?, packets);
        }
        // A name such as `chain-16` means the chain of the benchmark `chain`, with packets of a flow in runs
        // of 16. A name such as `chain-16-1000000` also gives the number of flows.
        name if let Some((slf, flows)) = chain_of(name) => {
            let packets_in_memory = in_memory.max(flows * slf);
            let flows = (flows, slf);
            let worker = worker_with(packets_in_memory, flows, 64, Start::Ethernet, &functions())?;
            return drive_to_the_end(worker, packets);
        }
        // The chain of the benchmark `trains`, without a Reframer (`trains`) and with a Reframer
        // (`trains-held`). The tool that counts instructions makes the program so slow that the packets of a
        // train arrive within 8 ms instead of 64 µs, so the Reframer holds for 8 ms.
        "trains" | "trains-held" => {
            let front = if name == "trains" { String::new() } else { reframer("8ms") };
            let frames = trains(FUNCTIONS_FLOWS * LENGTH, FUNCTIONS_FLOWS, (LENGTH, TOGETHER));
            let worker = worker_of(&frames, Start::Ethernet, &functions_behind(&front))?;
            return drive_to_the_end(worker, packets);
        }
        // A name with an arrow is a chain, for example to examine a single element. A number and a colon may
        // stand in front (`16: Null -> Discard`): the packets then come in runs of this number of packets of
        // one flow.
        chain if chain.contains("->") => match in_runs(chain) {
            None => chain,
            Some((slf, chain)) => {
                let flows = (CHAIN_FLOWS, slf);
                let worker = worker_with(CHAIN_FLOWS * slf, flows, 64, start, chain)?;
                return drive_to_the_end(worker, packets);
            }
        },
        name if let Some(worker) = counted(name, in_memory) => return drive_to_the_end(worker?, packets),
        other => {
            let form =
                form_of(other).ok_or_else(|| format!("no benchmark '{other}' to count instructions of"))?;
            return match form {
                Form::Lasting(worker) => drive_to_the_end(worker(in_memory)?, packets),
                Form::Passing(worker) => drive_passing(worker()?, packets),
            };
        }
    };
    drive_to_the_end(worker(in_memory, 64, start, chain)?, packets)
}

/// The number of flows of a chain whose packets come in runs: so small that all flows have come before the
/// packets that `bench/instructions` counts.
const CHAIN_FLOWS: usize = 1000;

/// Parses a name such as `16: Null -> Discard`. Returns the number of packets of a flow in a row (the SLF),
/// and the chain. `None` for a chain without this number.
fn in_runs(name: &str) -> Option<(usize, &str)> {
    let (slf, chain) = name.split_once(':')?;
    Some((slf.trim().parse().ok()?, chain))
}

/// Parses a name such as `chain-16` or `chain-16-1000000`. Returns the number of packets of a flow in a row
/// (the SLF), and the number of flows.
fn chain_of(name: &str) -> Option<(usize, usize)> {
    let mut numbers = name.strip_prefix("chain-")?.split('-').map(|number| number.parse().ok());
    let (slf, flows) = (numbers.next()??, numbers.next());
    Some((slf, flows.unwrap_or(Some(FUNCTIONS_FLOWS))?))
}

/// Drives a worker through all packets of its short-lived flows. If `packets` is 0, it drives only the
/// packets of the first round, which are dropped ahead of the chain.
fn drive_passing((mut worker, traffic): (Worker, Traffic), packets: usize) -> Result<(), String> {
    traffic.skip(&mut worker)?;
    if packets > 0 {
        traffic.drive(&mut worker)?;
        println!("{} packets", traffic.per_run());
    }
    worker.finish().map_err(|errors| errors.join("; "))
}

fn drive_to_the_end(mut worker: Worker, packets: usize) -> Result<(), String> {
    drive(&mut worker, packets)?;
    worker.finish().map_err(|errors| errors.join("; "))
}
