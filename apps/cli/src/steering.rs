//! The options of `run` about the distribution of packets over workers: `--steering` and the options that
//! belong to it.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::numbers::whole;
use clap::ValueEnum;
use element::effects::StateAccess;
use element::obstacles::to_spraying;
use element::steering::Spreading;
use element::{Setup, Timestamp};
use engine::{Configured, ElementWorkers, Placement, Plan};
use sprayer::{Classes, Policy, SpreadSettings};

/// The arguments of `run` about steering.
#[derive(Clone, clap::Args)]
#[command(next_help_heading = "Workers")]
pub(crate) struct Steering {
    /// The way in which packets are distributed over workers
    #[arg(long, value_enum, default_value_t = Way::Rss)]
    steering: Way,
    /// The number of workers that a flow is spread over; 0 for all
    ///
    /// The workers are chosen by the flow's addresses and ports.
    #[arg(
        long, value_name = "N", default_value_t = 0,
        value_parser = whole(0..=u16::MAX), allow_negative_numbers = true
    )]
    spray_cores: u16,
    /// With `--steering flowlet`: the pause after which a flow may move to another worker [default: 500us]
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    flowlet_gap: Option<Duration>,
    /// The order in which packets of a spread flow leave
    #[arg(long, value_enum, default_value_t = Order::None)]
    order: Order,
    /// UDP ports whose datagrams are spread, too, such as 4789,5000-5999
    ///
    /// Datagrams are spread if either end has such a port.
    #[arg(long, value_name = "PORTS", value_delimiter = ',', value_parser = parse_ports, allow_hyphen_values = true)]
    spray_udp: Vec<RangeInclusive<u16>>,
    /// UDP ports whose datagrams are spread as QUIC
    ///
    /// Datagrams are spread if either end has such a port. Packets that open a connection are recognised.
    #[arg(long, value_name = "PORTS", value_delimiter = ',', value_parser = parse_ports, allow_hyphen_values = true)]
    spray_quic: Vec<RangeInclusive<u16>>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    /// Send each flow to one worker, by the hash that interfaces use, too
    Rss,
    /// Send the packets of each TCP connection to all workers in turn; packets that open or close it go to
    /// one worker
    Spray,
    /// Send the bursts of each TCP connection to all workers in turn
    Flowlet,
    /// Like `rss`, but also spread large TCP connections of a worker that is busier than the others
    Auto,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    /// Packets leave as soon as a worker has processed them
    None,
    /// Packets leave from one worker in the order of their arrival; it waits at most 10 ms for a packet
    /// from an interface
    Keep,
}

/// The default of `--flowlet-gap`.
const GAP: Duration = Duration::from_micros(500);

/// Parses a port, or a range of ports such as 5000-5999.
fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(first..=last),
        _ => Err("give ports from 1 to 65535, such as 443 or 5000-5999".into()),
    }
}

/// Parses a time with a unit, such as 500us. Only 0 needs no unit.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let nanoseconds = match &text[digits..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "" if text == "0" => 1,
        _ => 0,
    };
    let number: Option<u64> = text[..digits].parse().ok().filter(|_| nanoseconds > 0);
    let time = number.and_then(|number| number.checked_mul(nanoseconds)).filter(|&time| time < 1 << 62);
    time.map(Duration::from_nanos).ok_or_else(|| "give a number and a unit, such as 500us or 2ms".into())
}

impl Steering {
    /// Checks that each option fits the value of `--steering`.
    ///
    /// # Errors
    /// If an option needs another value of `--steering`: the message for the user.
    pub(crate) fn check(&self) -> Result<(), String> {
        let spreads = self.steering != Way::Rss;
        let wrong = [
            (self.flowlet_gap.is_some() && self.steering != Way::Flowlet, "--flowlet-gap", "flowlet"),
            (self.order == Order::Keep && !spreads, "--order keep", "spray, flowlet or auto"),
            (self.spray_cores > 0 && !spreads, "--spray-cores", "spray, flowlet or auto"),
            (!self.spray_udp.is_empty() && !spreads, "--spray-udp", "spray, flowlet or auto"),
            (!self.spray_quic.is_empty() && !spreads, "--spray-quic", "spray, flowlet or auto"),
        ];
        match wrong.into_iter().find(|(is_wrong, ..)| *is_wrong) {
            Some((_, option, way)) => Err(format!("{option} is for --steering {way}")),
            None => Ok(()),
        }
    }

    /// Returns the settings by which packets of one flow are spread over workers, or `None` with `rss`, which
    /// keeps flows whole.
    pub(crate) fn spreading(&self) -> Option<Arc<dyn Spreading>> {
        let policy = match self.steering {
            Way::Rss => return None,
            Way::Spray => Policy::Spray,
            Way::Flowlet => {
                let gap = self.flowlet_gap.unwrap_or(GAP);
                Policy::Flowlets(Timestamp(gap.as_nanos() as i64))
            }
            Way::Auto => Policy::Auto,
        };
        let classes = Classes { udp_ports: self.spray_udp.clone(), quic_ports: self.spray_quic.clone() };
        let keeps_order = self.order == Order::Keep;
        Some(
            SpreadSettings { policy, workers_per_flow: self.spray_cores.into(), classes, keeps_order }
                .spreading(),
        )
    }

    /// Returns a message about the elements that prevent spreading the packets of each flow, or `None` if no
    /// element prevents it. With `rss` and `auto` the result is always `None`: with `auto`, flows stay whole
    /// upstream of such elements.
    pub(crate) fn refusal(&self, plan: &Plan, configured: &Configured) -> Option<String> {
        if !matches!(self.steering, Way::Spray | Way::Flowlet) {
            return None;
        }
        let Setup { workers, .. } = configured.setup;
        let places = Placement::new(plan, &configured.effects, &configured.setup, workers).places;
        let all = configured.effects.iter().enumerate().zip(places);
        // An element that runs on a single worker gets all packets there, whatever the steering. So only
        // elements that run on the worker that owns a flow (`Owner`) can prevent spreading.
        let flows = all.filter(|(_, place)| *place == ElementWorkers::Owner);
        let written = flows.filter_map(|((id, effects), _)| {
            to_spraying(effects)?;
            let blocks = |access| matches!(access, StateAccess::EveryPacket | StateAccess::Connection);
            let state = effects.state.iter().find(|state| blocks(state.access))?;
            let name = plan.declaration(id);
            Some(format!(
                "{name}: its state '{}' needs every packet of a flow at one worker; `--steering auto` leaves flows whole \
                 there, `--steering rss` everywhere",
                state.table
            ))
        });
        let lines: Vec<_> = written.collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_numbers_and_ranges() {
        assert_eq!(parse_ports("443"), Ok(443..=443));
        assert_eq!(parse_ports("1-65535"), Ok(1..=65535));
        for bad in ["", "0", "5-", "-5", "6-5", "65536", "1-2-3", "http"] {
            assert!(parse_ports(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(parse_time("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(parse_time("0ns"), Ok(Duration::ZERO));
        for bad in ["", "5", "us", "5 us", "-1s", "99999999999999999999s", "5h"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }
}
