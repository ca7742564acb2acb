#!/bin/bash
# Everything that has to be right before a change is taken in. Needs cargo alone, and no root; tests that want
# more (root, tshark, captures from outside) say that they skip.
set -euo pipefail
cd "$(dirname "$0")"

step() {
    echo
    echo "== $* =="
    "$@"
}

step cargo fmt --all --check
step cargo clippy --workspace --all-targets -- -D warnings
step cargo test --workspace
RUSTDOCFLAGS="-D warnings" step cargo doc --workspace --no-deps

# The main job as the README has it, with the optimised build.
step cargo run --release -- run configs/quickstart.click
rm -f quickstart-out.pcap

# Undefined behaviour in the crates with unsafe code that an interpreter can run; no part of stable Rust.
if cargo miri --version >/dev/null 2>&1; then
    MIRIFLAGS="-Zmiri-disable-isolation" step cargo miri test -p tidegate-packet -p tidegate-flow --lib
else
    echo "miri is not installed: skipped"
fi

echo
echo "all good"
