//! The list of all benchmarks.

use crate::{
    Row, Settings, balancing, classify, devices, elements, ethernet, floor, forwarding, functions, juggling,
    language, locality, lpm, meters, monitoring, offloading, reframing, reloading, routing, slicing, soak,
    spraying, synthesis, timers, trains, translation, workers,
};

/// A benchmark, as listed in [`ALL`].
pub struct Benchmark {
    /// The name on the command line and in rows.
    pub name: &'static str,
    /// The measured quantity, as text for lists.
    pub about: &'static str,
    /// Runs the benchmark and returns its rows.
    pub run: fn(&Settings) -> Result<Vec<Row>, String>,
}

/// Returns the names of the benchmarks that use an option of the command line; empty for other options.
pub fn takers(option: &str) -> &'static [&'static str] {
    match option {
        "--rules" => &["classify", "firewall", "synthesizer"],
        "--routes" => &["lpm"],
        "--asked" => &["classify", "lpm", "juggler"],
        "--minutes" | "--capacity" => &["soak"],
        _ => &[],
    }
}

/// The benchmarks of [`ALL`] that run the program `tidegate`. The tests of the program run them; the tests of
/// this crate run the other benchmarks.
pub const OF_PROGRAM: [&str; 5] = ["devices", "connections", "reordering", "boundary", "soak"];

/// All benchmarks, in the order in which they are listed and run.
pub const ALL: &[Benchmark] = &[
    Benchmark {
        name: "floor",
        about: "packets from memory, headers read, slots given back",
        run: floor::run,
    },
    Benchmark { name: "floor-copy", about: "the floor with a copy of each packet", run: floor::run_copies },
    Benchmark { name: "floor-layout", about: "the floor with other slot layouts", run: floor::run_layouts },
    Benchmark {
        name: "forward",
        about: "Classifier, CheckIPHeader, Counter, Discard",
        run: forwarding::forward,
    },
    Benchmark {
        name: "edit",
        about: "forward + DecIPTTL, SetTimestamp, EtherRewrite",
        run: forwarding::edit,
    },
    Benchmark {
        name: "working-sets",
        about: "forward and edit with 20 MB to 1 GB of packets",
        run: forwarding::working_sets,
    },
    Benchmark {
        name: "monitoring",
        about: "forward, without and with a scraper of metrics",
        run: monitoring::run,
    },
    Benchmark { name: "tee", about: "a copy of each packet", run: forwarding::tee },
    Benchmark { name: "queue", about: "through a Queue and an Unqueue", run: forwarding::queue },
    Benchmark { name: "nat", about: "IPRewriter, with flows that it knows", run: translation::run },
    Benchmark { name: "router", about: "CheckIPHeader, route look-up, DecIPTTL", run: routing::router },
    Benchmark {
        name: "router-flows",
        about: "the router with 200 routes, over 1 to 1M flows",
        run: routing::router_flows,
    },
    Benchmark { name: "meter", about: "meters by rate and by colour", run: meters::run },
    Benchmark { name: "l2", about: "EtherMirror; EtherSwitch, there and back", run: ethernet::run },
    Benchmark {
        name: "balancer",
        about: "FlowIPLoadBalancer, with flows that it knows",
        run: balancing::run,
    },
    Benchmark {
        name: "chain",
        about: "router, translator, firewall, statistics: packets of one in a row, Reframer upstream",
        run: functions::run,
    },
    Benchmark {
        name: "trains",
        about: "the chain with packets of flows that send trains, without and with a Reframer in it",
        run: trains::run,
    },
    Benchmark {
        name: "offload",
        about: "the chain of `trains` on two workers: a Reframer on one of them (--offload), or none",
        run: offloading::run,
    },
    Benchmark {
        name: "workers",
        about: "forward and the chain on one worker and on two, from an InMemoryNic; handing packets over",
        run: workers::run,
    },
    Benchmark {
        name: "sprayer",
        about: "one connection and several, each at one worker or spread over two, with work per packet",
        run: spraying::run,
    },
    Benchmark {
        name: "classify",
        about: "the first of many rules for headers that match them, alone (--rules FILE)",
        run: classify::run,
    },
    Benchmark {
        name: "firewall",
        about: "CheckIPHeader, IPFilter with every other rule a permission, 64 bytes and 1 KiB (--rules FILE)",
        run: classify::run_firewall,
    },
    Benchmark {
        name: "lpm",
        about: "the longest prefix for addresses, alone (--routes FILE)",
        run: lpm::run,
    },
    Benchmark {
        name: "reframer",
        about: "through a Reframer: number of flows, packets of one in a row",
        run: reframing::run,
    },
    Benchmark {
        name: "juggler",
        about: "TCP of one flow and of 256, in order and reordered",
        run: juggling::run,
    },
    Benchmark {
        name: "slicer",
        about: "Slice and Splice in sequence, over sizes of packets",
        run: slicing::run,
    },
    Benchmark {
        name: "synthesizer",
        about: "chains of routers, translators, a provider's with many rules: as they are and synthesized (--rules FILE)",
        run: synthesis::run,
    },
    Benchmark {
        name: "boundary",
        about: "through a network function in another namespace, whole and sliced (needs root, ip, ethtool)",
        run: devices::run_boundary,
    },
    Benchmark {
        name: "locality",
        about: "per-flow state larger than the caches, after Reframer, Batcher and neither (takes minutes)",
        run: locality::run,
    },
    Benchmark {
        name: "devices",
        about: "packets and one TCP flow (cubic) through each device, compared with other switches (needs root, ip, \
                ethtool)",
        run: devices::run,
    },
    Benchmark {
        name: "connections",
        about: "TCP (cubic) through a translator whose workers share connections, or do not (needs root, ip, ethtool)",
        run: devices::run_connections,
    },
    Benchmark {
        name: "reordering",
        about: "TCP over paths that reorder, and elements before the receiver (needs root, ip, ethtool)",
        run: devices::run_reordering,
    },
    Benchmark {
        name: "timers",
        about: "how long packets are held for 64 us: idle, at several rates, and with a busy source",
        run: timers::run,
    },
    Benchmark {
        name: "reload",
        about: "how long workers stand still while the graph is replaced under load",
        run: reloading::run,
    },
    Benchmark {
        name: "soak",
        about: "memory of each element with a table, full and under a flood (--minutes N, --capacity N)",
        run: soak::run,
    },
    Benchmark { name: "elements", about: "each element alone, with frames of 64 bytes", run: elements::run },
    Benchmark { name: "lang-10k", about: "parse and flatten 10,000 elements", run: language::run },
];
