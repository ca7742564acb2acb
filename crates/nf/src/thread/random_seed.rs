//! # RandomSeed
//! Sets the seed of the random number generator.
//!
//! With a seed, elements get the numbers of the C library's generator (random(3)), as in Click: the same seed
//! gives the same choices, such as those of RandomSample and RandomSwitch, and the same ports of translators.
//! Do not use the element where ports must be unpredictable. With several workers, the elements of one
//! worker get these numbers. A reload ends the seed, unless the new configuration has one.
//!
//! ## Usage
//! `RandomSeed([SEED])`
//!
//! ## Arguments
//! - `SEED`: the seed. Without it, the seed is random, and the generator is the program's own.
//!
//! ## Handlers
//! - `seed`: the configured seed. Writing an empty value sets a random seed.
//!
//! ## Example
//! ```click
//! RandomSeed(7); InfiniteSource(LIMIT 9) -> RandomSample(0.5) -> Discard
//! ```
//!
//! ## See also
//! RandomSample, RandomSwitch

use element::args::ArgType;
use element::class::{ArgInfo, ConfigurePhase};
use element::{Class, Cx, Effects, Element, Handler, manual};

/// The element class `RandomSeed`.
pub static CLASS: Class = Class {
    name: "RandomSeed",
    ports: "0/0",
    manual: manual!("random_seed.rs"),
    args: &[ArgInfo::positional("SEED", "unsigned", "")],
    table: &HANDLERS,
    phase: ConfigurePhase::Information,
    samples: &["3"],
    build: |args| {
        let seed = args.get("SEED");
        args.finish()?;
        Ok(Box::new(RandomSeed { seed }))
    },
    ..Class::DEFAULT
};

struct RandomSeed {
    seed: Option<u32>,
}

impl RandomSeed {
    fn apply(&self, cx: &mut Cx<'_>) {
        match self.seed {
            Some(seed) => cx.random().seed(seed),
            None => cx.random().seed_randomly(),
        }
    }
}

impl Element for RandomSeed {
    fn effects(&self) -> Effects {
        Effects::none()
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.apply(cx);
        Ok(())
    }
}

const HANDLERS: &[Handler<RandomSeed>] = &[Handler::data(
    "seed",
    |e| e.seed.map_or(String::new(), |seed| seed.to_string()),
    |e, cx, value| {
        e.seed = match value.trim() {
            "" => None,
            text => Some(u32::parse(text, &cx.place()).map_err(|reason| format!("SEED: {reason}"))?),
        };
        e.apply(cx);
        Ok(())
    },
)];
