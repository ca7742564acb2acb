//! The handlers of FromDPDKDevice and ToDPDKDevice that query and change a running port. Their names are
//! FastClick's.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use element::Cx;
use element::args::{ArgType, Scope, parse_integer};
use wire::ethernet::MacAddr;

use super::ports::Port;
use super::sys::{port, start};

/// The value of a read handler; an error is a text for the user.
type Answer = Result<String, String>;

/// The read handlers of a port. Handlers with a parameter get it as `param`: the number of a queue, or the
/// name of a counter.
///
/// # Errors
/// If there is no such queue or counter, or DPDK reports an error for which the handler has no value.
impl Port {
    pub(super) fn device(&self) -> Answer {
        Ok(self.number.to_string())
    }

    pub(super) fn driver(&self) -> Answer {
        Ok(self.info.driver.clone())
    }

    pub(super) fn mac(&self) -> Answer {
        let mac = port::mac(self.number).map_err(start::reason)?;
        Ok(MacAddr(mac).to_string().replace('-', ":"))
    }

    pub(super) fn mtu(&self) -> Answer {
        Ok(port::mtu(self.number).map_or("<error>".into(), |mtu| mtu.to_string()))
    }

    fn link(&self) -> port::Link {
        port::link(self.number).unwrap_or_default()
    }

    pub(super) fn carrier(&self) -> Answer {
        Ok(truth(self.link().is_up))
    }

    pub(super) fn duplex(&self) -> Answer {
        let link = self.link();
        Ok(if link.is_up { truth(link.is_full_duplex) } else { "-1".into() })
    }

    pub(super) fn autoneg(&self) -> Answer {
        Ok(truth(self.link().is_negotiated))
    }

    pub(super) fn speed(&self) -> Answer {
        Ok(self.link().speed.to_string())
    }

    pub(super) fn nb_rx_queues(&self) -> Answer {
        Ok(self.rx.to_string())
    }

    pub(super) fn nb_tx_queues(&self) -> Answer {
        Ok(self.tx.to_string())
    }

    pub(super) fn nb_rx_desc(&self) -> Answer {
        Ok(self.rx_descriptors.to_string())
    }

    fn counts(&self) -> Result<port::Counts, String> {
        port::counts(self.number).map_err(start::reason)
    }

    pub(super) fn hw_count(&self) -> Answer {
        Ok(self.counts()?.in_packets.to_string())
    }

    pub(super) fn hw_bytes(&self) -> Answer {
        Ok(self.counts()?.in_bytes.to_string())
    }

    pub(super) fn hw_dropped(&self) -> Answer {
        Ok(self.counts()?.missed.to_string())
    }

    pub(super) fn hw_errors(&self) -> Answer {
        Ok(self.counts()?.in_errors.to_string())
    }

    pub(super) fn nombufs(&self) -> Answer {
        Ok(self.counts()?.no_buffers.to_string())
    }

    pub(super) fn tx_count(&self) -> Answer {
        Ok(self.counts()?.out_packets.to_string())
    }

    pub(super) fn tx_bytes(&self) -> Answer {
        Ok(self.counts()?.out_bytes.to_string())
    }

    pub(super) fn tx_errors(&self) -> Answer {
        Ok(self.counts()?.out_errors.to_string())
    }

    pub(super) fn xstats(&self, param: &str) -> Answer {
        extended(self.number, param)
    }

    pub(super) fn queue_count(&self, param: &str) -> Answer {
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

    pub(super) fn queue_packets(&self, param: &str) -> Answer {
        of_queue(&self.counts()?.queue_packets, param)
    }

    pub(super) fn queue_bytes(&self, param: &str) -> Answer {
        of_queue(&self.counts()?.queue_bytes, param)
    }

    pub(super) fn rss_reta(&self) -> Answer {
        let queues = port::reta(self.number, self.info.reta_size);
        Ok(queues.iter().map(|queue| format!("{queue} ")).collect())
    }

    pub(super) fn rss_reta_size(&self) -> Answer {
        Ok(self.info.reta_size.to_string())
    }

    pub(super) fn rss_key(&self) -> Answer {
        Ok(crate::rss_key::word(self.has_secret_key.load(Ordering::Relaxed)).into())
    }
}

/// The write handlers of a port.
///
/// # Errors
/// If the value is not valid, or DPDK refuses it.
impl Port {
    pub(super) fn add_mac(&self, cx: &Cx<'_>, value: &str) -> Result<(), String> {
        let mac = read_mac(&cx.place(), value)?;
        port::set_mac(self.number, mac.0, port::Mac::Add).map_err(start::reason)
    }

    pub(super) fn remove_mac(&self, cx: &Cx<'_>, value: &str) -> Result<(), String> {
        let mac = read_mac(&cx.place(), value)?;
        port::set_mac(self.number, mac.0, port::Mac::Remove).map_err(start::reason)
    }

    pub(super) fn max_rss(&self, _cx: &Cx<'_>, value: &str) -> Result<(), String> {
        let queues = index(value).filter(|&queues| (1..=usize::from(self.rx)).contains(&queues));
        let queues = queues.ok_or("Not a valid integer")? as u16;
        port::set_reta(self.number, queues, self.info.reta_size).map_err(start::reason)
    }
}

/// Returns a truth value in FastClick's format.
fn truth(value: bool) -> String {
    u8::from(value).to_string()
}

/// Returns the count of the queue whose number is `param`; of queue 0 if `param` is no number.
fn of_queue(counts: &[u64], param: &str) -> Answer {
    Ok(counts.get(index(param).unwrap_or(0)).ok_or("no such queue")?.to_string())
}

fn index(text: &str) -> Option<usize> {
    parse_integer(text.trim()).ok().and_then(|n| usize::try_from(n).ok())
}

/// Returns the driver's additional counters, one per line; or, if `name` is not empty, the value of the
/// counter with this name.
fn extended(number: u16, name: &str) -> Answer {
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
