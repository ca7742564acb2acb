//! Replacements for the modules of DPDK in a program that is built without the feature `dpdk`. Every
//! attempt to open a port fails, and the types of open ports have no values.

use std::convert::Infallible;
use std::sync::Arc;

use element::{Cx, Packet, Setup};
use nix::sys::eventfd::EventFd;
use packet::Pool;

use super::{Refused, RunningDpdk, RxReport, Wanted};

const REASON: &str = "this program has been built without DPDK; `cargo build --release --features dpdk` builds it with it \
                      (Debian: apt-get install libdpdk-dev pkg-config gcc)";

/// Fails, because the program has been built without DPDK.
///
/// # Errors
/// Always. The message tells how to build a program with DPDK.
pub fn start(_arguments: &[String]) -> Result<RunningDpdk, String> {
    Err(REASON.into())
}

#[derive(Default)]
pub(super) struct Ports;

impl Ports {
    pub(super) fn of(_setup: &Setup) -> Arc<Ports> {
        Arc::new(Ports)
    }

    pub(super) fn expect(&self, _setup: &Setup, _wanted: &Wanted) {}

    pub(super) fn set_buffers(&self, _buffers: u32) {}

    pub(super) fn pools(&self, _pool: &mut Pool) -> Vec<(String, usize)> {
        Vec::new()
    }

    pub(super) fn receive(&self, _cx: &mut Cx<'_>, _wanted: &Wanted) -> Result<Receiver, Refused> {
        Err(Refused::Failed(REASON.into()))
    }

    pub(super) fn send(&self, _cx: &mut Cx<'_>, _wanted: &Wanted) -> Result<Transmitter, Refused> {
        Err(Refused::Failed(REASON.into()))
    }
}

/// The state of a copy of an element whose port was removed, which cannot exist without DPDK.
pub(super) struct Away(Infallible);

/// The result of an attempt to open a removed port again.
#[expect(dead_code, reason = "there are no ports")]
pub(super) enum Look<T> {
    Back(T),
    Away(Away, Option<String>),
}

impl Away {
    pub(super) fn receive_again(self, _cx: &mut Cx<'_>, _wanted: &Wanted) -> Look<Receiver> {
        match self.0 {}
    }

    pub(super) fn send_again(self, _cx: &mut Cx<'_>, _wanted: &Wanted) -> Look<Transmitter> {
        match self.0 {}
    }

    pub(super) fn close(self, _cx: &mut Cx<'_>) {
        match self.0 {}
    }
}

/// Defines functions of a port that return the values of read handlers. They are never called, because there
/// are no ports.
macro_rules! reads {
    ($($name:ident)*) => {
        $(pub(super) fn $name(&self) -> Result<String, String> {
            match self.0 {}
        })*
    };
}

pub(super) struct Port(Infallible);

impl Port {
    pub(super) fn is_gone(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn says_gone(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn says_back(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn ring(&self, _bell: &Arc<EventFd>) {
        match self.0 {}
    }

    reads! {
        device driver mac mtu carrier duplex autoneg speed nb_rx_queues nb_tx_queues nb_rx_desc
        hw_count hw_bytes hw_dropped hw_errors nombufs tx_count tx_bytes tx_errors rss_reta
        rss_reta_size rss_key
    }

    pub(super) fn xstats(&self, _param: &str) -> Result<String, String> {
        match self.0 {}
    }

    pub(super) fn queue_count(&self, _param: &str) -> Result<String, String> {
        match self.0 {}
    }

    pub(super) fn queue_packets(&self, _param: &str) -> Result<String, String> {
        match self.0 {}
    }

    pub(super) fn queue_bytes(&self, _param: &str) -> Result<String, String> {
        match self.0 {}
    }

    pub(super) fn add_mac(&self, _cx: &Cx<'_>, _value: &str) -> Result<(), String> {
        match self.0 {}
    }

    pub(super) fn remove_mac(&self, _cx: &Cx<'_>, _value: &str) -> Result<(), String> {
        match self.0 {}
    }

    pub(super) fn max_rss(&self, _cx: &Cx<'_>, _value: &str) -> Result<(), String> {
        match self.0 {}
    }
}

pub(super) struct Receiver(Infallible);

impl Receiver {
    pub(super) fn port(&self) -> &Port {
        match self.0 {}
    }

    pub(super) fn leave(self, _cx: &mut Cx<'_>) -> Away {
        match self.0 {}
    }

    pub(super) fn remark(&self) -> Option<String> {
        match self.0 {}
    }

    pub(super) fn receive(
        &mut self,
        _cx: &mut Cx<'_>,
        _most: usize,
        _show: impl FnMut(&mut Cx<'_>, Packet, RxReport, u16),
    ) -> Option<usize> {
        match self.0 {}
    }

    pub(super) fn drain(&self) {
        match self.0 {}
    }

    pub(super) fn close(self, _cx: &mut Cx<'_>) {
        match self.0 {}
    }
}

pub(super) struct Transmitter(Infallible);

impl Transmitter {
    pub(super) fn port(&self) -> &Port {
        match self.0 {}
    }

    pub(super) fn leave(self, _cx: &mut Cx<'_>) -> Away {
        match self.0 {}
    }

    pub(super) fn longest(&self) -> usize {
        match self.0 {}
    }

    pub(super) fn waiting(&self) -> usize {
        match self.0 {}
    }

    pub(super) fn copied(&self) -> u64 {
        match self.0 {}
    }

    pub(super) fn put(&mut self, _pool: &mut Pool, _packet: Packet) -> Result<(), Packet> {
        match self.0 {}
    }

    pub(super) fn flush(&mut self, _pool: &mut Pool) -> usize {
        match self.0 {}
    }

    pub(super) fn take_back(&mut self, _pool: &mut Pool) -> Option<Packet> {
        match self.0 {}
    }

    pub(super) fn drain(&self) {
        match self.0 {}
    }

    pub(super) fn close(self, _cx: &mut Cx<'_>) {
        match self.0 {}
    }
}
