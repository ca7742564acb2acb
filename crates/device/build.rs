//! Compiles and links `src/dpdk/sys/shim.c` if the feature `dpdk` is enabled. Otherwise does nothing.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "dpdk")]
    dpdk();
}

/// Compiles the C file that wraps DPDK's packet functions, which are inline functions in C, and links
/// DPDK's libraries.
#[cfg(feature = "dpdk")]
fn dpdk() {
    const SHIM: &str = "src/dpdk/sys/shim.c";
    println!("cargo::rerun-if-changed={SHIM}");
    let found = pkg_config::Config::new().atleast_version("21.11").cargo_metadata(false).probe("libdpdk");
    let library = found.unwrap_or_else(|error| {
        panic!("the feature `dpdk` needs DPDK 21.11 or later (apt-get install libdpdk-dev pkg-config gcc): {error}")
    });
    // The flags that the crate `pkg-config` does not pass on: `-include rte_config.h`, and the flags that
    // choose the oldest processor for which DPDK was built.
    let flags = std::process::Command::new("pkg-config").args(["--cflags-only-other", "libdpdk"]).output();
    let flags = flags.map(|output| output.stdout).unwrap_or_default();
    let mut build = cc::Build::new();
    for flag in String::from_utf8_lossy(&flags).split_whitespace() {
        build.flag(flag);
    }
    build.file(SHIM).includes(&library.include_paths).define("ALLOW_EXPERIMENTAL_API", None).opt_level(3);
    build.compile("tidegate_dpdk");
    for path in &library.link_paths {
        println!("cargo::rustc-link-search=native={}", path.display());
    }
    // DPDK loads its drivers at run time, so only these libraries are linked.
    for name in ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_eal"] {
        println!("cargo::rustc-link-lib=dylib={name}");
    }
}
