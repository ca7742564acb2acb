//! How packets come to workers: `--steering` and what belongs to it.

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use element::effects::Access;
use element::steering::Spreading;
use element::{Setup, Timestamp};
use engine::{Configured, Place, Placement, Plan};
use sprayer::{Classes, Policy, Settings};

/// Arguments of `run`.
#[derive(clap::Args)]
pub(crate) struct Steering {
    /// How packets come to workers
    #[arg(long, value_enum, default_value_t = Way::Rss)]
    steering: Way,
    /// Workers that one flow is spread over, chosen by its addresses and ports; 0 for all
    #[arg(long, value_name = "N", default_value_t = 0)]
    spray_cores: u16,
    /// With `--steering flowlet`: the pause after which a flow may go on at another worker, such as 500us
    #[arg(long, value_name = "TIME", default_value = "500us", value_parser = parse_time)]
    flowlet_gap: Duration,
    /// Whether packets that are spread leave in order
    #[arg(long, value_enum, default_value_t = Order::None)]
    order: Order,
    /// UDP ports, of either end, whose datagrams may be spread too
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    spray_udp: Vec<u16>,
    /// The same for QUIC, whose packets that open connections are told apart
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    spray_quic: Vec<u16>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    /// Each flow to one worker, by the hash that interfaces use too
    Rss,
    /// Packets of each TCP connection to all workers in turn; those that open and close it to one
    Spray,
    /// Bursts of each TCP connection to all workers in turn
    Flowlet,
    /// Large TCP connections as with spray, others as with rss
    Auto,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    /// As each worker is done with them
    None,
    /// In the order in which they came, at one worker; nobody waits longer than 10 ms for a packet
    Keep,
}

/// A time such as 500us.
fn parse_time(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let nanoseconds = match &text[digits..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => 0,
    };
    let number: Option<u64> = text[..digits].parse().ok().filter(|_| nanoseconds > 0);
    let time = number.and_then(|number| number.checked_mul(nanoseconds)).filter(|&time| time < 1 << 62);
    time.map(Duration::from_nanos).ok_or_else(|| "give a number and a unit, such as 500us or 2ms".into())
}

impl Steering {
    /// How packets of one flow are spread, if they are.
    pub(crate) fn spreading(&self) -> Option<Arc<dyn Spreading>> {
        let policy = match self.steering {
            Way::Rss => return None,
            Way::Spray => Policy::Spray,
            Way::Flowlet => Policy::Flowlets(Timestamp(self.flowlet_gap.as_nanos() as i64)),
            Way::Auto => Policy::Auto,
        };
        let classes = Classes { udp_ports: self.spray_udp.clone(), quic_ports: self.spray_quic.clone() };
        let keeps_order = self.order == Order::Keep;
        Some(Settings { policy, cores: self.spray_cores.into(), classes, keeps_order }.spreading())
    }

    /// What is in the way of spreading the packets of each flow, with the elements' names. Where only large flows are spread,
    /// flows stay whole in front of such elements.
    pub(crate) fn refusal(&self, plan: &Plan, configured: &Configured) -> Option<String> {
        if !matches!(self.steering, Way::Spray | Way::Flowlet) {
            return None;
        }
        let Setup { workers, .. } = configured.setup;
        let places = Placement::new(plan, &configured.effects, &configured.setup, workers).places;
        let all = configured.effects.iter().enumerate().zip(places);
        // Where an element has one place, all packets go there anyway.
        let flows = all.filter(|((_, effects), place)| *place == Place::Owner && !effects.is_spread);
        let written = flows.filter_map(|((id, effects), _)| {
            let blocks = |access| matches!(access, Access::EveryPacket | Access::Connection);
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
    fn times_have_units() {
        assert_eq!(parse_time("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(parse_time("0ns"), Ok(Duration::ZERO));
        for bad in ["", "5", "us", "5 us", "-1s", "99999999999999999999s", "5h"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }
}
