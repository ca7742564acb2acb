//! Tests of elements that keep state for flows: aggregates, statistics, reassembly, and floods of flows.

mod aggregates;
mod floods;
mod flow_statistics;
mod reassembly;
mod runs;
