//! The rules by which load balancers choose a server for a new flow.

use element::Timestamp;
use element::args::Args;
use element::class::ArgInfo;
use flow::FiveTupleKey;
use wire::FiveTuple;

use super::maglev::{self, Maglev, flow_hash};

/// The rule by which a server is chosen for a flow (argument LB_MODE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Takes the active servers in turn.
    InTurn,
    /// Takes the active servers in turn, and servers with less load more often.
    Weighted,
    /// Takes the server with the lowest load.
    Least,
    /// Takes, of two servers that the flow's hash selects, the server with the lower load.
    OfTwo,
    /// Takes a server by a hash. If `consistent`, few flows change their server when the active servers
    /// change.
    Hash { of: Hashed, consistent: bool },
}

/// The input of the hash that selects a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hashed {
    Flow,
    Addresses,
    /// The aggregate annotation of the packet for which a server is chosen.
    Aggregate,
}

impl Mode {
    fn parse(text: &str) -> Option<Mode> {
        let hash = |of, consistent| Mode::Hash { of, consistent };
        Some(match text {
            // Weighted round robin (`wrr`) has equal weights, because there is no handler to set them.
            "rr" | "wrr" => Mode::InTurn,
            "awrr" => Mode::Weighted,
            "least" => Mode::Least,
            "pow2" => Mode::OfTwo,
            "hash" | "hash_crc" => hash(Hashed::Flow, false),
            "hash_ip" => hash(Hashed::Addresses, false),
            "hash_agg" => hash(Hashed::Aggregate, false),
            "maglev" => hash(Hashed::Flow, true),
            "cst_hash_agg" => hash(Hashed::Aggregate, true),
            _ => return None,
        })
    }

    /// True if the choice of a server depends on earlier choices or on the load of servers, and not only on
    /// the packet.
    pub(super) fn counts(self) -> bool {
        !matches!(self, Mode::Hash { .. })
    }

    /// True if the choice of a server depends on the aggregate annotation of the packet.
    pub(super) fn reads_aggregate(self) -> bool {
        matches!(self, Mode::Hash { of: Hashed::Aggregate, .. })
    }
}

/// The unit in which the load of servers is compared (argument LST_MODE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    Connections,
    Packets,
    Bytes,
    /// The load that a user or script has written to the handler `load`.
    Told,
}

impl Metric {
    fn parse(text: &str) -> Option<Metric> {
        Some(match text {
            "conn" => Metric::Connections,
            "packets" => Metric::Packets,
            "bytes" => Metric::Bytes,
            "cpu" => Metric::Told,
            _ => return None,
        })
    }
}

/// The load of one server: its connections now, the packets and bytes that it got so far, and the load
/// `told` by the handler `load`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) connections: u64,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) told: u64,
}

impl Load {
    fn of(&self, metric: Metric) -> u64 {
        match metric {
            Metric::Connections => self.connections,
            Metric::Packets => self.packets,
            Metric::Bytes => self.bytes,
            Metric::Told => self.told,
        }
    }
}

/// The arguments about the choice of a server, which do not change while the element runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) mode: Mode,
    metric: Metric,
    /// The number of entries of the consistent hashing table (CST_BUCKETS).
    pub(super) places: usize,
    /// The time between two computations of weights (AWRR_TIME).
    interval: Timestamp,
    /// The argument AWRR_ALPHA: 0 if weights depend on the load fully; 1 if they do not depend on it, except
    /// that servers without load have the largest weight.
    alpha: f64,
}

/// The arguments about the choice of a server, which all load balancers have.
pub(super) const ARGS: [ArgInfo; 6] = [
    ArgInfo::keyword("LB_MODE", "mode", "rr"),
    ArgInfo::keyword("LST_MODE", "metric", "conn"),
    ArgInfo::keyword("CST_BUCKETS", "unsigned", "65537"),
    ArgInfo::keyword("AWRR_TIME", "milliseconds", "100"),
    ArgInfo::keyword("AWRR_ALPHA", "real", "0"),
    ArgInfo::keyword("FORCE_TRACK_LOAD", "bool", "false"),
];

impl Rule {
    /// Reads the arguments [`ARGS`]. Reports unknown modes and values out of range.
    pub(super) fn read(args: &mut Args<'_>) -> Rule {
        let text = args.value::<String>("LB_MODE");
        let mode = Mode::parse(&text).unwrap_or_else(|| {
            args.error(format!("LB_MODE: unknown mode '{text}'"));
            Mode::InTurn
        });
        let text = args.value::<String>("LST_MODE");
        let metric = Metric::parse(&text).unwrap_or_else(|| {
            args.error(format!("LST_MODE: unknown metric '{text}'"));
            Metric::Connections
        });
        let places = maglev::places(args);
        let interval = Timestamp(i64::from(args.value::<u32>("AWRR_TIME").max(1)) * 1_000_000);
        let alpha = args.value::<f64>("AWRR_ALPHA");
        if !(0.0..=1.0).contains(&alpha) {
            args.error("AWRR_ALPHA: must be between 0 and 1");
        }
        // FastClick's argument FORCE_TRACK_LOAD is accepted but has no effect, because loads are always
        // counted.
        let _ = args.value::<bool>("FORCE_TRACK_LOAD");
        Rule { mode, metric, places, interval, alpha }
    }
}

/// The smallest and the largest weight of a server, where 10 is the weight at average load.
const WEIGHTS: (f64, f64) = (2.0, 30.0);

/// The state of the rules that take servers in turn. A reload keeps it, because otherwise the servers at the
/// start of the list would get more flows with each reload.
#[derive(Clone, Default)]
pub(super) struct Turns {
    /// The number at which the search for the next server in turn starts: one more than the number of the
    /// server that was chosen last.
    next: u16,
    /// At the index of each server's number: its weight, and the credit that it has collected, in units of
    /// weight.
    weights: Vec<(i64, i64)>,
}

/// The servers that can be chosen now, and the state of the rule by which a server is chosen.
pub(super) struct Choice {
    pub(super) rule: Rule,
    /// The numbers of the active servers, in ascending order.
    active: Vec<u16>,
    turns: Turns,
    /// The time of the last computation of weights; `None` if they must be computed for the next flow.
    weighed: Option<Timestamp>,
    table: Maglev,
}

impl Choice {
    pub(super) fn new(rule: Rule) -> Choice {
        let (active, turns) = (Vec::new(), Turns::default());
        Choice { rule, active, turns, weighed: None, table: Maglev::default() }
    }

    /// Returns the state of the rules that take servers in turn. The balancer that replaces this one in a
    /// reload continues with it.
    pub(super) fn turns(&self) -> Turns {
        self.turns.clone()
    }

    /// Continues with `turns`, the state that another balancer had. `numbers` has, for each server of that
    /// balancer, the server's number in this balancer; `None` for a server that this balancer does not have.
    pub(super) fn continue_turns(&mut self, turns: &Turns, numbers: &[Option<u16>]) {
        // The server that would have been next may have been removed. Then the next server is the first of
        // the remaining servers after it.
        let (before, after) = numbers.split_at(numbers.len().min(usize::from(turns.next)));
        self.turns.next = after.iter().chain(before).copied().flatten().next().unwrap_or(0);
        for (number, weight) in numbers.iter().zip(&turns.weights) {
            let own = number.and_then(|number| self.turns.weights.get_mut(usize::from(number)));
            own.into_iter().for_each(|own| *own = *weight);
        }
    }

    /// Returns the number of active servers.
    pub(super) fn len(&self) -> usize {
        self.active.len()
    }

    /// Sets the active servers: their numbers, in ascending order, and their names, which consistent hashing
    /// uses.
    pub(super) fn set_active(&mut self, active: &[(u16, String)]) {
        self.active = active.iter().map(|&(number, _)| number).collect();
        let most = active.iter().map(|&(number, _)| usize::from(number) + 1).max().unwrap_or(0);
        if self.turns.weights.len() < most {
            self.turns.weights.resize(most, (1, 0));
        }
        self.weighed = None;
        if let Mode::Hash { consistent: true, .. } = self.rule.mode {
            let names: Vec<(u16, &[u8])> = active.iter().map(|(n, name)| (*n, name.as_bytes())).collect();
            self.table = Maglev::new(self.rule.places, &names);
        }
    }

    /// Chooses one of the active servers for a flow; `None` if there is none. If `is_remembered` is false,
    /// other packets of the flow may have been, or will be, balanced without a stored connection. Rules that
    /// depend on earlier choices or on load are then replaced by a hash of the flow.
    pub(super) fn pick(
        &mut self,
        key: &FiveTupleKey,
        aggregate: impl Fn() -> u32,
        load: impl Fn(u16) -> Load,
        is_remembered: bool,
        now: Timestamp,
    ) -> Option<u16> {
        let mode = match self.rule.mode {
            mode if mode.counts() && !is_remembered => Mode::Hash { of: Hashed::Flow, consistent: false },
            mode => mode,
        };
        let metric = self.rule.metric;
        let amount = |number: u16| load(number).of(metric);
        match mode {
            Mode::InTurn => {
                let behind = self.active.partition_point(|&number| number < self.turns.next);
                let server = *self.active.get(behind).or(self.active.first())?;
                self.turns.next = server + 1;
                Some(server)
            }
            Mode::Weighted => {
                if self.weighed.is_none_or(|then| now - then >= self.rule.interval || now < then) {
                    self.weighed = Some(now);
                    self.weigh(amount);
                }
                self.next_weighted()
            }
            Mode::Least => self.active.iter().copied().min_by_key(|&number| amount(number)),
            Mode::OfTwo => {
                let hash = flow_hash(key);
                let n = self.active.len();
                let first = place(hash, n);
                // The second server differs from the first, unless there is only one.
                let second = (first + 1 + place(spread(hash), n.saturating_sub(1))) % n.max(1);
                let both = [first, second].map(|place| self.active.get(place).copied());
                both.into_iter().flatten().min_by_key(|&number| amount(number))
            }
            Mode::Hash { of, consistent } => {
                let hash = match of {
                    Hashed::Flow => flow_hash(key),
                    Hashed::Addresses => flow_hash(&without_ports(key)),
                    // Consecutive aggregate numbers must not all select the same server.
                    Hashed::Aggregate => spread(aggregate()),
                };
                match consistent {
                    true => self.table.server(hash),
                    false => self.active.get(place(hash, self.active.len())).copied(),
                }
            }
        }
    }

    /// Computes the weights of the active servers: 10 at average load, more at lower load, within
    /// [`WEIGHTS`]. As in FastClick, a server without load gets the largest weight, whatever AWRR_ALPHA
    /// is. `amount` returns the load of a server.
    fn weigh(&mut self, amount: impl Fn(u16) -> u64) {
        let Choice { active, turns: Turns { weights, .. }, rule, .. } = self;
        let total: f64 = active.iter().map(|&number| amount(number) as f64).sum();
        let average = total / active.len().max(1) as f64;
        for &number in &*active {
            let own = amount(number) as f64;
            let weight = match own {
                0.0 => WEIGHTS.1,
                own => 10.0 * average / ((1.0 - rule.alpha) * own + rule.alpha * average),
            };
            weights[usize::from(number)].0 = weight.clamp(WEIGHTS.0, WEIGHTS.1) as i64;
        }
    }

    /// Returns the next server by smooth weighted round robin. Each active server gets credit equal to its
    /// weight; the server with the most credit is chosen and pays the sum of all weights.
    fn next_weighted(&mut self) -> Option<u16> {
        let Choice { active, turns: Turns { weights, .. }, .. } = self;
        let mut total = 0;
        for &number in &*active {
            let (weight, behind) = &mut weights[usize::from(number)];
            *behind += *weight;
            total += *weight;
        }
        // Of servers with equal credit, the first must be chosen; `max_by_key` returns the last, so the
        // order is reversed.
        let server = active.iter().copied().rev().max_by_key(|&number| weights[usize::from(number)].1)?;
        weights[usize::from(server)].1 -= total;
        Some(server)
    }
}

/// Maps a hash evenly to an index below `n`; returns 0 if `n` is 0.
fn place(hash: u32, n: usize) -> usize {
    ((u64::from(hash) * n as u64) >> 32) as usize
}

/// Mixes the bits of a hash by a multiplication, so that its high bits depend on all its bits.
fn spread(hash: u32) -> u32 {
    hash.wrapping_mul(0x9e37_79b1)
}

fn without_ports(key: &FiveTupleKey) -> FiveTupleKey {
    use std::net::IpAddr::{V4, V6};
    let tuple = key.tuple();
    let plain = match (tuple.source(), tuple.destination()) {
        (V4(source), V4(destination)) => FiveTuple::v4((source, 0), (destination, 0), 0),
        (V6(source), V6(destination)) => FiveTuple::v6((source, 0), (destination, 0), 0),
        _ => return *key,
    };
    FiveTupleKey::new(&plain, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u16) -> FiveTupleKey {
        FiveTupleKey::new(&FiveTuple::v4(([10, 0, 0, 1].into(), n), ([10, 0, 0, 2].into(), 80), 6), 0)
    }

    fn choice(mode: Mode, metric: Metric, servers: u16) -> Choice {
        let rule = Rule { mode, metric, places: 251, interval: Timestamp(100_000_000), alpha: 0.0 };
        let mut choice = Choice::new(rule);
        let names: Vec<(u16, String)> = (0..servers).map(|n| (n, n.to_string())).collect();
        choice.set_active(&names);
        choice
    }

    /// Chooses servers for this number of flows at the time `at`, with constant loads of three servers.
    /// Returns the number of flows that each server got.
    fn shares(choice: &mut Choice, loads: [u64; 3], flows: u16, at: i64) -> [u32; 3] {
        let mut shares = [0; 3];
        for n in 0..flows {
            let load = |number: u16| Load { bytes: loads[usize::from(number)], ..Load::default() };
            let server = choice.pick(&key(n), || 0, load, true, Timestamp(at)).unwrap();
            shares[usize::from(server)] += 1;
        }
        shares
    }

    #[test]
    fn weights_follow_the_load() {
        let mut choice = choice(Mode::Weighted, Metric::Bytes, 3);
        assert_eq!(shares(&mut choice, [0; 3], 90, 0), [30; 3]);
        // A server's weight is ten times the average load divided by the server's load, rounded down. Loads
        // of 75, 150 and 225 give weights of 20, 10 and 6, but only when AWRR_TIME (100 ms) has passed since
        // weights were last computed.
        assert_eq!(shares(&mut choice, [50, 100, 200], 90, 99_999_999), [30; 3]);
        assert_eq!(shares(&mut choice, [75, 150, 225], 72, 100_000_000), [40, 20, 12]);
    }

    #[test]
    fn of_two_the_one_with_less_load() {
        let mut choice = choice(Mode::OfTwo, Metric::Bytes, 3);
        let [a, b, c] = shares(&mut choice, [1, 2, 3], 3000, 0);
        // Of each pair of servers, the server with less load is chosen. Server a, with the least load, is in
        // two of three pairs; server c must never be chosen.
        assert!(c == 0 && (1800..2200).contains(&a) && a + b == 3000, "{a} {b}");
        let mut alone = self::choice(Mode::OfTwo, Metric::Bytes, 1);
        assert_eq!(shares(&mut alone, [9, 0, 0], 5, 0), [5, 0, 0]);
        let mut nobody = self::choice(Mode::OfTwo, Metric::Bytes, 0);
        assert_eq!(nobody.pick(&key(1), || 0, |_| Load::default(), true, Timestamp(0)), None);
    }

    /// The servers of the first balancer are 0, 1 and 2. In the second, server 1 is missing, servers 0 and 2
    /// have changed places, and server 2 is new.
    #[test]
    fn turns_go_on_with_other_servers() {
        let numbers = [Some(1), None, Some(0)];
        for (chosen, next) in [(1, 0), (2, 0), (3, 1)] {
            let mut first = choice(Mode::InTurn, Metric::Bytes, 3);
            shares(&mut first, [0; 3], chosen, 0);
            let mut second = choice(Mode::InTurn, Metric::Bytes, 3);
            second.continue_turns(&first.turns(), &numbers);
            let server = second.pick(&key(1), || 0, |_| Load::default(), true, Timestamp(0));
            assert_eq!(server, Some(next), "{chosen}");
        }
        // If a reload comes after each flow, servers get the same shares by weight as without reloads.
        let mut now = choice(Mode::Weighted, Metric::Bytes, 3);
        let mut all = [0; 3];
        for _ in 0..72 {
            let before = now.turns();
            now = choice(Mode::Weighted, Metric::Bytes, 3);
            now.continue_turns(&before, &[Some(0), Some(1), Some(2)]);
            let got = shares(&mut now, [75, 150, 225], 1, 0);
            all = [0, 1, 2].map(|n| all[n] + got[n]);
        }
        assert_eq!(all, [40, 20, 12]);
    }

    #[test]
    fn flows_of_the_same_hosts_go_to_one_server() {
        let mut choice = choice(Mode::Hash { of: Hashed::Addresses, consistent: false }, Metric::Bytes, 3);
        let shares = shares(&mut choice, [0; 3], 100, 0);
        assert!(shares.contains(&100), "{shares:?}");
    }
}
