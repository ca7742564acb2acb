#!/bin/bash
# Everything that has to be right before a change is taken in. Needs cargo alone, and no root; tests that want
# more (root, tshark, DPDK, captures from outside) say that they skip.
set -euo pipefail
cd "$(dirname "$0")"

# Nothing here is built twice: what the compiler would keep for the next build is disk space alone.
export CARGO_INCREMENTAL=0

step() {
    echo
    echo "== $* =="
    local start=$SECONDS
    "$@"
    echo "== $((SECONDS - start)) s =="
}

step cargo fmt --all --check
step cargo clippy --workspace --all-targets -- -D warnings
step cargo test --workspace
RUSTDOCFLAGS="-D warnings" step cargo doc --workspace --no-deps

# Synthesized chains as machine code.
step cargo clippy --workspace --all-targets --features tidegate/machine-code -- -D warnings
step cargo test -p tidegate-runtime -p tidegate-synthesizer --features tidegate-runtime/machine-code --lib --test chains --test leases --test synthesis --test openflow

# Ports of DPDK, where it is installed (apt-get install libdpdk-dev pkg-config gcc).
if pkg-config --exists libdpdk 2>/dev/null; then
    step cargo clippy --workspace --all-targets --features tidegate/dpdk -- -D warnings
    step cargo test -p tidegate-device --features dpdk
    step cargo test -p tidegate --features dpdk --test live_dpdk
    RUSTDOCFLAGS="-D warnings" step cargo doc -p tidegate-device --features dpdk --no-deps
else
    echo "libdpdk is not installed: its ports are neither built nor tested"
fi

# The main job as the README has it, with the optimised build.
step cargo run --release -- run configs/quickstart.click
rm -f quickstart-out.pcap

# Elements from outside of the repository, as its example has them.
step cargo run --release -p tidegate-own-nf -- run examples/own-nf/firewall.click LIMIT=20 --threads 2 --steering spray
step cargo run --release -p tidegate-own-nf -- run examples/own-nf/nat.click --threads 2 --steering spray
rm -f firewall-out.pcap nat-out.pcap

# Every order in which two cores can meet over a flow's state.
RUSTFLAGS="--cfg loom" step cargo test --release -p tidegate-flow --test states --target-dir target/loom

# Undefined behaviour in the crates with unsafe code that an interpreter can run; no part of stable Rust.
if cargo miri --version >/dev/null 2>&1; then
    MIRIFLAGS="-Zmiri-disable-isolation" step cargo miri test -p tidegate-packet -p tidegate-flow --lib
else
    echo "miri is not installed: skipped"
fi

echo
echo "all good"
