//! The handlers of FromDPDKDevice and ToDPDKDevice that query and change a running port. Their names are
//! FastClick's.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use element::Cx;
use element::args::{ArgType, Scope, parse_integer};
use wire::ethernet::MacAddr;

use super::ports::Port;
use super::sys::{port, start};

impl Port {
    /// Returns the value of the read handler `name` of the port. `param` is the number of a queue or the
    /// name of a counter, for the handlers that take one.
    ///
    /// # Errors
    /// If there is no such handler, queue or counter, or DPDK reports an error.
    pub(super) fn read(&self, name: &str, param: &str) -> Result<String, String> {
        let number = self.number;
        let link = || port::link(number).unwrap_or_default();
        let counts = || port::counts(number).map_err(start::reason);
        let truth = |value: bool| u8::from(value).to_string();
        Ok(match name {
            "device" => number.to_string(),
            "driver" => self.info.driver.clone(),
            "carrier" => truth(link().is_up),
            "duplex" => {
                if link().is_up {
                    truth(link().is_full_duplex)
                } else {
                    "-1".into()
                }
            }
            "autoneg" => truth(link().is_negotiated),
            "speed" => link().speed.to_string(),
            "mac" => port::mac(number)
                .map(|bytes| MacAddr(bytes).to_string().replace('-', ":"))
                .map_err(start::reason)?,
            "mtu" => port::mtu(number).map_or("<error>".into(), |mtu| mtu.to_string()),
            "nb_rx_queues" => self.rx.to_string(),
            "nb_tx_queues" => self.tx.to_string(),
            "nb_rx_desc" => self.rx_descriptors.to_string(),
            "rss_reta_size" => self.info.reta_size.to_string(),
            "rss_reta" => {
                port::reta(number, self.info.reta_size).iter().map(|queue| format!("{queue} ")).collect()
            }
            "rss_key" => crate::rss_key::word(self.has_secret_key.load(Ordering::Relaxed)).into(),
            "hw_count" => counts()?.in_packets.to_string(),
            "hw_bytes" => counts()?.in_bytes.to_string(),
            "hw_dropped" => counts()?.missed.to_string(),
            "hw_errors" => counts()?.in_errors.to_string(),
            "nombufs" => counts()?.no_buffers.to_string(),
            "tx_count" => counts()?.out_packets.to_string(),
            "tx_bytes" => counts()?.out_bytes.to_string(),
            "tx_errors" => counts()?.out_errors.to_string(),
            "queue_packets" | "queue_bytes" => {
                let counts = counts()?;
                let all = if name == "queue_bytes" { counts.queue_bytes } else { counts.queue_packets };
                let queue = index(param).unwrap_or(0);
                all.get(queue).ok_or("no such queue")?.to_string()
            }
            "queue_count" => self.queue_count(param)?,
            "xstats" => extended(number, param)?,
            _ => return Err(format!("'{name}' is not a read handler")),
        })
    }

    fn queue_count(&self, param: &str) -> Result<String, String> {
        if !param.is_empty() {
            let queue = index(param).filter(|&queue| queue < usize::from(self.rx)).ok_or("no such queue")?;
            return Ok(port::queue_count(self.number, queue as u16).to_string());
        }
        let mut text = String::new();
        for queue in 0..self.rx {
            let _ = writeln!(text, "Queue {queue}: {}", port::queue_count(self.number, queue));
        }
        Ok(text)
    }

    /// Executes the write handler `name` of the port with a value: `add_mac`, `remove_mac` or `max_rss`.
    ///
    /// # Errors
    /// If the value is not valid, or DPDK refuses it.
    pub(super) fn write(&self, cx: &Cx<'_>, name: &str, value: &str) -> Result<(), String> {
        let done = match name {
            "add_mac" => port::set_mac(self.number, read_mac(&cx.place(), value)?.0, port::Mac::Add),
            "remove_mac" => port::set_mac(self.number, read_mac(&cx.place(), value)?.0, port::Mac::Remove),
            _ => {
                let queues = index(value).filter(|&queues| (1..=usize::from(self.rx)).contains(&queues));
                let queues = queues.ok_or("Not a valid integer")? as u16;
                port::set_reta(self.number, queues, self.info.reta_size)
            }
        };
        done.map_err(start::reason)
    }
}

fn index(text: &str) -> Option<usize> {
    parse_integer(text.trim()).ok().and_then(|n| usize::try_from(n).ok())
}

/// Returns the driver's additional counters, one per line; or, if `name` is not empty, the value of the
/// counter with this name.
fn extended(number: u16, name: &str) -> Result<String, String> {
    let all = port::extended(number).map_err(start::reason)?;
    if name.is_empty() {
        let lines =
            all.iter().enumerate().map(|(number, (name, value))| format!("{name}[{number}] = {value}\n"));
        return Ok(lines.collect());
    }
    let found = all.iter().find(|(other, _)| other == name);
    found.map(|(_, value)| value.to_string()).ok_or_else(|| format!("no count is called '{name}'"))
}

/// Parses an Ethernet address that a user writes to a handler.
fn read_mac(place: &Scope<'_>, text: &str) -> Result<MacAddr, String> {
    MacAddr::parse(text.trim(), place).map_err(|_| format!("Invalid MAC address {text}"))
}
