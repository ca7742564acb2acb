//! Remote procedure calls over TCP connections between two machines, through a network of elements
//! (Juggler, sections 5.1.2, 5.2.1 and 5.3.2).

use std::io::Result;
use std::net::SocketAddr;
use std::time::Duration;

use lab::{Answered, Calls};

use super::{Line, PORT, Program, RIGHT};

/// A testbed for remote procedure calls: a calling machine, a network of elements, and an answering machine.
pub(crate) struct Calling {
    program: Program,
}

impl Calling {
    pub(crate) fn new() -> Result<Calling> {
        Ok(Calling { program: Program::new()? })
    }

    /// Sends remote procedure calls of several kinds at the same time, for `time`. Requests pass the elements
    /// of `network` on their way to the answering machine; answers pass no elements but queues. Returns the
    /// latencies of each kind of calls.
    pub(crate) fn measure(&self, network: &str, kinds: &[Calls], time: Duration) -> Result<Vec<Answered>> {
        let line = Line::of_ordinary_frames()?;
        let [left, right] = ["left", "right"].map(|interface| self.program.receive(interface));
        let config = format!(
            "{left} -> {network} -> Queue(4000) -> ToDevice(right); {right} -> Queue(4000) -> ToDevice(left)"
        );
        let _running = self.program.run(&line.between, &["--busy-poll"], &config)?;
        lab::calls(&line.left, &line.right, SocketAddr::from((RIGHT, PORT)), kinds, time)
    }
}
