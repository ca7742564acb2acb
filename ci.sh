#!/bin/bash
# Everything that has to be right before a change is taken in. Needs cargo alone, and no root; tests that want more (root,
# tshark, DPDK, captures from outside) skip and say so.
#
#   ./ci.sh               all parts
#   ./ci.sh core features these parts; there are also lints and live
#   ./ci.sh --quick       format, lints, and the tests inside of the crates
#
# Each part ends with a line that has its time, its budget on two cores, and what was skipped. With CI_STRICT=1 a part that
# skips something fails.
set -euo pipefail
cd "$(dirname "$0")"

# Nothing here is built twice: what the compiler would keep for the next build is disk space alone.
export CARGO_INCREMENTAL=0
# Panics name their line without tables of lines, which take time at each compilation and at each of a hundred links.
export CARGO_PROFILE_DEV_DEBUG=0
# The tests in release mode are run here, not measured: they need not be optimised across crates.
export CARGO_PROFILE_RELEASE_LTO=off
export CARGO_PROFILE_RELEASE_DEBUG=0

log=$(mktemp)
beside=
trap 'rm -f "$log"; [ -z "$beside" ] || kill -- "-$beside" 2>/dev/null || true' EXIT
summary=()

# Runs a command, shows its output, and keeps it for the list of what was skipped.
step() {
    echo
    echo "== $* =="
    local start=$SECONDS
    "$@" 2>&1 | tee -a "$log"
    echo "== $((SECONDS - start)) s =="
}

# Compiles in the background what later steps run, at the lowest priority: it gets the time of cores that the steps before
# leave idle. A later step waits for it by cargo's lock, and shows what is wrong with it.
build_beside() {
    # With job control, the job has a process group of its own, which is killed when the script ends.
    set -m
    RUSTFLAGS="--cfg loom" nice -n 19 \
        cargo test --release -p tidegate-flow --test states --target-dir target/loom --no-run >/dev/null 2>&1 </dev/null &
    beside=$!
    set +m
}

# test_programs ARGUMENTS: runs the test programs that `cargo test ARGUMENTS` would run, two at a time, because many of them
# use one core for most of their time. Shows the output of each when it ends. The variable `jobs` is the
# number of programs that run at a time, if it is not two.
test_programs() {
    local folder list
    folder=$(mktemp -d)
    list=$folder/list
    cargo test --no-run "$@"
    # A line for each program: the folder of its package, where it has to be started, and its path.
    cargo test --no-run --message-format=json "$@" 2>/dev/null |
        sed -n 's|.*"manifest_path":"\([^"]*\)/Cargo.toml".*"overflow_checks":[a-z]*,"test":true}.*"executable":"\([^"]*\)".*|\1 \2|p' >"$list"
    [ -s "$list" ] || return 1
    export folder
    # shellcheck disable=SC2016
    xargs -a "$list" -P "${jobs:-2}" -n 2 bash -c '
        name=$(basename "$1")
        cd "$0" && CARGO_MANIFEST_DIR=$0 "$1" --show-output >"$folder/$name" 2>&1
        code=$?
        flock "$folder/list" cat - "$folder/$name" <<<"   Running $1"
        [ $code = 0 ] || { echo "exit code $code" >>"$folder/$name"; echo "$name" >>"$folder/failed"; }
    '
    if [ -e "$folder/failed" ]; then
        # The output of failed programs comes last, where a reader of a long log looks first. A program that ended
        # before its list of failures is shown by its last lines.
        local name
        while read -r name; do
            echo "== failed: $name =="
            if grep -q '^failures:' "$folder/$name"; then
                # `head` would end the script: the pipe breaks, and pipefail makes that an error.
                sed -n '/^failures:/,$p' "$folder/$name" | tail -200
            else
                tail -50 "$folder/$name"
            fi
        done <"$folder/failed"
        echo "failed: $(paste -sd " " "$folder/failed")"
        return 1
    fi
    rm -r "$folder"
}

skipped() {
    echo "skipped: $*" | tee -a "$log"
}

# part NAME MINUTES: runs the function of this name.
part() {
    local start=$SECONDS
    : >"$log"
    "$1"
    local minutes=$(((SECONDS - start + 30) / 60)) skips line
    skips=$(sed -n 's/^skipped: //p' "$log" | sort -u | paste -sd ';' | sed 's/;/; /g')
    line="$1: $minutes min of $2"
    [ "$minutes" -le "$2" ] || line+=" (over budget)"
    [ -z "$skips" ] || line+=", skipped: $skips"
    summary+=("$line")
    echo
    echo "== $line =="
    [ -z "$skips" ] || [ "${CI_STRICT:-0}" != 1 ] || exit 1
}

# The tests of the crates, by name of the test program: those that talk to interfaces are called live_*. live_dpdk has its own
# step: cargo refuses a pattern that matches a test whose feature is off.
not_live=(--test '[!l]*' --test 'l[!i]*' --test 'li[!v]*')
live=(--test live --test 'live_[!d]*')

lints() {
    step cargo fmt --all --check
    step cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" step cargo doc --workspace --no-deps
}

core() {
    build_beside
    step test_programs --workspace --lib --bins --examples "${not_live[@]}"
    step cargo test --workspace --doc

    # The main job as the README has it, and elements from outside of the repository, as its example has them. These programs
    # have been built for the tests above. bench/nightly builds them optimised, which takes as long as all of these steps.
    step cargo run -- run configs/quickstart.click
    rm -f quickstart-out.pcap
    step cargo run -p tidegate-own-nf -- run examples/own-nf/firewall.click LIMIT=20 --threads 2 --steering spray
    step cargo run -p tidegate-own-nf -- run examples/own-nf/nat.click --threads 2 --steering spray
    rm -f firewall-out.pcap nat-out.pcap

    # Every order in which two cores can meet over a flow's state.
    RUSTFLAGS="--cfg loom" step cargo test --release -p tidegate-flow --test states --target-dir target/loom

    # Undefined behaviour in the crates with unsafe code that an interpreter can run; no part of stable Rust.
    if cargo miri --version >/dev/null 2>&1; then
        MIRIFLAGS="-Zmiri-disable-isolation" step cargo miri test -p tidegate-packet -p tidegate-flow --lib
    else
        skipped "miri is not installed"
    fi
}

live() {
    step cargo test --workspace "${live[@]}" -- --show-output
}

# What the default build does not have: synthesized chains as machine code and, where DPDK is installed (apt-get install
# libdpdk-dev pkg-config gcc), its ports. Both are built together, because each alone has nearly the same crates built again.
# The packages need together the same features of all dependencies as the whole workspace does; otherwise cargo would compile
# nearly all crates again.
features() {
    local features=tidegate/machine-code
    local packages=(-p tidegate -p tidegate-device -p tidegate-jit -p tidegate-runtime -p tidegate-synthesizer)
    local tests=(--lib --test chains --test leases --test synthesis --test openflow)
    if pkg-config --exists libdpdk 2>/dev/null; then
        features+=,tidegate/dpdk
        tests+=(--test files --test sockets --test umem --test live_dpdk)
        RUSTDOCFLAGS="-D warnings" step cargo doc -p tidegate-device --features dpdk --no-deps
    else
        skipped "libdpdk is not installed"
    fi
    step cargo clippy "${packages[@]}" --all-targets --features "$features" -- -D warnings
    jobs=1 step test_programs "${packages[@]}" --features "$features" "${tests[@]}"
}

quick() {
    step cargo fmt --all --check
    step cargo clippy --workspace -- -D warnings
    step cargo test --workspace --exclude tidegate-bench --exclude tidegate-fuzz --lib
}

parts=("$@")
[ $# -gt 0 ] || parts=(lints core features live)
for name in "${parts[@]}"; do
    case $name in
    lints) part lints 4 ;;
    core) part core 25 ;;
    features) part features 8 ;;
    live) part live 8 ;;
    --quick) part quick 5 ;;
    *)
        echo "there is no part '$name': lints, core, features, live, --quick"
        exit 2
        ;;
    esac
done

echo
printf '%s\n' "${summary[@]}" "all good"
