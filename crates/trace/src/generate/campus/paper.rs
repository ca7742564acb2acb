//! The numbers that the Reframer paper gives for its trace of a campus, each with its figure or section.

/// The paper's numbers for one direction of the trace. RX is from the Internet to the campus, TX the other
/// direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PaperFacts {
    /// The number of packets (section 3, trace statistics).
    pub packets: f64,
    /// The mean size of a packet in bytes (section 3, trace statistics).
    pub mean_packet_bytes: f64,
    /// The number of TCP flows (Figure 6).
    pub tcp_flows: f64,
    /// The mean number of packets of a TCP flow (Figure 6).
    pub mean_flow_packets: f64,
    /// The number of packets of the largest TCP flow (Figure 6). The smallest flow has one packet.
    pub largest_flow_packets: f64,
    /// The share of the packets of a flow, after its first, that follow a packet of another flow (Figure 7a).
    pub behind_another: f64,
}

/// The length of the trace in seconds: 28 minutes (section 3, trace statistics).
pub const SECONDS: f64 = 28.0 * 60.0;

/// The direction from the Internet to the campus.
pub const RX: PaperFacts = PaperFacts {
    packets: 378e6,
    mean_packet_bytes: 882.82,
    tcp_flows: 4e6,
    mean_flow_packets: 63.0,
    largest_flow_packets: 29e6,
    behind_another: 0.6,
};

/// The direction from the campus to the Internet.
pub const TX: PaperFacts = PaperFacts {
    packets: 420e6,
    mean_packet_bytes: 1069.43,
    tcp_flows: 2e6,
    mean_flow_packets: 137.0,
    largest_flow_packets: 68e6,
    behind_another: 0.75,
};

/// The mean SLF over 1 to 32 parts of the trace that are played at the same time (section 5.1).
pub const SLF: f64 = 1.2;
/// The mean SLF behind a Reframer, as pairs of the time in microseconds for which the Reframer holds packets,
/// and the SLF (section 5.1).
pub const SLF_BEHIND: [(u64, f64); 3] = [(16, 1.9), (64, 2.9), (128, 3.3)];
/// The numbers of parts of the trace that are played at the same time (section 5.1).
pub const WINDOWS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// The third quartile of the number of packets of a flow within 32 microseconds: RX from the first cloud, TX
/// to the second cloud (section 3.2, Figure 9).
pub const BATCH_32_US: [u64; 2] = [6, 4];

/// The largest number of packets of one flow that come within one of the time windows of Figure 23 (section
/// 3.2).
pub const LARGEST_BATCH: u64 = 300;

/// The smallest factor by which sorting packets by flow lowers the number of flow switches (Figure 8).
pub const FEWER_SWITCHES: f64 = 5.0;

/// The largest median in microseconds of the time between two packets of a flow that can be called "a few
/// tens" (Figure 7b).
pub const TEMPORAL_DISTANCE_US: f64 = 50.0;

/// An address of a cloud (Table 1). Pairs are for RX and TX.
#[derive(Debug, Clone, Copy)]
pub struct Server {
    /// The number of flows.
    pub flows: [u32; 2],
    /// The mean number of packets of a flow.
    pub mean: [f64; 2],
    /// The median of the number of packets of a flow.
    pub median: [u32; 2],
    /// The number of packets of the largest flow.
    pub max: [u32; 2],
}

const fn server(flows: [u32; 2], mean: [f64; 2], median: [u32; 2], max: [u32; 2]) -> Server {
    Server { flows, mean, median, max }
}

/// The addresses of the first cloud (Table 1).
pub const CLOUD_1: [Server; 10] = [
    server([20_039, 19_985], [54.08, 47.45], [16, 16], [221_594, 87_131]),
    server([5_433, 5_384], [19.11, 14.92], [15, 13], [157, 92]),
    server([4_748, 4_741], [51.58, 42.55], [15, 15], [32_540, 43_500]),
    server([4_564, 4_567], [37.18, 52.62], [16, 16], [19_168, 38_515]),
    server([3_805, 4_245], [1397.09, 187.12], [29, 8], [217_309, 57_392]),
    server([4_000, 4_155], [13.63, 12.83], [10, 12], [2_775, 831]),
    server([3_958, 3_980], [9.63, 13.48], [8, 11], [394, 663]),
    server([3_759, 3_759], [318.38, 258.30], [10, 11], [33_356, 33_403]),
    server([3_159, 3_154], [21.89, 28.86], [10, 14], [279, 310]),
    server([2_984, 2_996], [22.48, 39.76], [28, 56], [228, 238]),
];

/// The addresses of the second cloud (Table 1).
pub const CLOUD_2: [Server; 15] = [
    server([19_762, 19_776], [137.07, 165.77], [10, 10], [764_636, 1_615_124]),
    server([18_103, 18_120], [44.42, 19.26], [10, 10], [42_637, 17_929]),
    server([15_945, 15_967], [68.71, 39.33], [11, 11], [92_210, 68_306]),
    server([11_150, 11_168], [62.86, 105.09], [10, 10], [121_520, 255_327]),
    server([9_235, 9_207], [119.08, 110.75], [20, 21], [7_665, 9_129]),
    server([8_803, 8_828], [265.83, 521.57], [10, 10], [587_496, 1_353_933]),
    server([5_879, 5_897], [67.54, 51.44], [14, 15], [13_422, 12_448]),
    server([4_993, 5_330], [77.05, 42.93], [11, 12], [18_137, 7_248]),
    server([4_479, 4_499], [198.77, 116.08], [15, 16], [37_459, 16_625]),
    server([3_775, 3_785], [75.43, 57.22], [16, 17], [8_287, 4_371]),
    server([3_362, 3_369], [306.51, 235.40], [15, 17], [22_311, 19_614]),
    server([3_279, 3_355], [493.11, 1501.01], [19, 18], [1_409_104, 4_905_771]),
    server([3_144, 3_152], [33.87, 23.20], [10, 11], [2_617, 867]),
    server([3_078, 3_113], [47.82, 28.69], [14, 15], [7_922, 2_952]),
    server([2_868, 2_864], [83.18, 59.26], [12, 12], [22_045, 9_143]),
];
