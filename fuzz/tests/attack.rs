//! A small random attack on the synthesizer and the verifier, as an ordinary test; `bench/nightly` runs a
//! large one.

use std::time::Duration;

use fuzz::attack::{Settings, Unseen, attack};

#[test]
fn random_configurations_do_the_same_with_programs() {
    let settings = Settings {
        seed: 1,
        chains: 300,
        pairs: 60,
        proof: Duration::from_millis(200),
        comparison: Duration::from_secs(1),
        nodes: Some(1 << 20),
        jobs: std::thread::available_parallelism().map_or(2, |cores| cores.get().min(4)),
        show: 1,
        only: None,
    };
    let outcome = attack(settings, &Unseen);
    println!("{}", outcome.table());
    assert_eq!(outcome.shortfalls(), [""; 0]);
    assert!(outcome.is_clean(), "{}\n{}", outcome.shown.join("\n"), outcome.table());
}
