//! # RandomBitErrors
//! Changes each bit of each packet with a given probability.
//!
//! In packets that are longer than a slot, only the bytes in the first slot are changed.
//!
//! ## Usage
//! `RandomBitErrors(P [, KIND, ACTIVE])`
//!
//! ## Arguments
//! - `P`: the probability with which each bit is changed.
//! - `KIND`: the change: `flip` inverts a bit, `set` makes it one, `clear` makes it zero.
//! - `ACTIVE`: if false, packets pass unchanged.
//!
//! ## Handlers
//! - `p_bit_error`: the probability.
//! - `error_kind`: the change: `flip`, `set` or `clear`.
//! - `active`: true if bits are changed.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 10) -> RandomBitErrors(0.001) -> Discard
//! ```
//!
//! ## See also
//! RandomSample

use element::args::ArgType;
use element::class::ArgInfo;
use element::effects::{Action, Case, Depends, Field, Filter, Target, Value};
use element::{Batch, Class, Cx, Effects, Element, Handler, Random, manual};

use crate::fixed;

/// The element class `RandomBitErrors`.
pub static CLASS: Class = Class {
    name: "RandomBitErrors",
    manual: manual!("random_bit_errors.rs"),
    args: &[
        ArgInfo::required("P", "probability"),
        ArgInfo::positional("KIND", "flip, set or clear", "flip"),
        ArgInfo::positional("ACTIVE", "bool", "true"),
    ],
    table: &HANDLERS,
    samples: &["0.01", "1, set", "0.5, clear, false"],
    reconfigures: true,
    build: |args| {
        let p: f64 = args.required("P");
        let kind: String = args.value::<String>("KIND");
        let active = args.value::<bool>("ACTIVE");
        args.finish()?;
        let kind = Kind::parse(&kind);
        if let Err(reason) = &kind {
            args.error(reason.clone());
        }
        if !(0.0..=1.0).contains(&p) {
            args.error("drop probability must be between 0 and 1");
        } else if fixed::quantize(p, BITS) == 0 {
            args.warn("zero bit error probability (underflow?)");
        }
        args.finish()?;
        let probability = fixed::quantize(p, BITS);
        Ok(Box::new(RandomBitErrors { probability, kind: kind.unwrap_or(Kind::Flip), active }))
    },
    ..Class::DEFAULT
};

const BITS: u32 = 28;

#[derive(Clone, Copy)]
enum Kind {
    Flip,
    Set,
    Clear,
}

impl Kind {
    fn parse(text: &str) -> Result<Kind, String> {
        match text.trim() {
            "flip" | "" => Ok(Kind::Flip),
            "set" => Ok(Kind::Set),
            "clear" => Ok(Kind::Clear),
            other => Err(format!("bad action '{other}' (must be 'set', 'clear', or 'flip')")),
        }
    }

    fn change(self, byte: &mut u8, bit: u8) {
        match self {
            Kind::Flip => *byte ^= bit,
            Kind::Set => *byte |= bit,
            Kind::Clear => *byte &= !bit,
        }
    }
}

struct RandomBitErrors {
    /// The probability with which each bit is changed, times 2^28.
    probability: u64,
    kind: Kind,
    active: bool,
}

/// Applies `kind` to each bit of `data` with probability `p`. Draws the distance from one changed bit to the
/// next, and not a random number per bit, because most bits do not change.
fn change(data: &mut [u8], p: f64, kind: Kind, random: &mut Random) {
    let bits = data.len() * 8;
    let scale = (1.0 - p).ln();
    let mut at = 0;
    loop {
        // The number of unchanged bits up to the next changed bit, drawn at random from a geometric
        // distribution.
        let right = if p >= 1.0 { 0.0 } else { ((1.0 - random.f64()).ln() / scale).floor() };
        if right >= (bits - at) as f64 {
            return;
        }
        at += right as usize;
        kind.change(&mut data[at / 8], 0x80 >> (at % 8));
        at += 1;
    }
}

impl Element for RandomBitErrors {
    fn effects(&self) -> Effects {
        let noise = Value::Pure { name: "bit errors", reads: vec![Field::Payload, Field::Length] };
        let case = Case::new(Filter::TRUE, Target::Output(0)).with(Action::Set(Field::Payload, noise));
        Effects::cases(vec![case]).depending_on(Depends::Random).depending_on(Depends::Handler)
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        if !self.active || self.probability == 0 {
            return;
        }
        let p = self.probability as f64 / (1u64 << BITS) as f64;
        for packet in batch.iter_mut() {
            change(packet.data_mut(), p, self.kind, cx.random());
        }
    }
}

const HANDLERS: &[Handler<RandomBitErrors>] = &[
    Handler::argument(
        "p_bit_error",
        "P",
        |e| fixed::show(e.probability, BITS),
        |e, cx, value| {
            let p = f64::parse(value, &cx.place()).map_err(|reason| format!("P: {reason}"))?;
            if !(0.0..=1.0).contains(&p) {
                return Err("drop probability must be between 0 and 1".into());
            }
            e.probability = fixed::quantize(p, BITS);
            Ok(())
        },
    ),
    Handler::argument(
        "error_kind",
        "KIND",
        |e| match e.kind {
            Kind::Flip => "flip".into(),
            Kind::Set => "set".into(),
            Kind::Clear => "clear".into(),
        },
        |e, _, value| {
            e.kind = Kind::parse(value)?;
            Ok(())
        },
    ),
    Handler::data(
        "active",
        |e| e.active.to_string(),
        |e, cx, value| {
            e.active = bool::parse(value, &cx.place()).map_err(|reason| format!("ACTIVE: {reason}"))?;
            Ok(())
        },
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_change_as_often_as_they_should() {
        let mut random = Random::new(3);
        for p in [0.001, 0.1, 0.5, 0.9] {
            let mut data = vec![0; 100_000];
            change(&mut data, p, Kind::Flip, &mut random);
            let ones: u32 = data.iter().map(|b: &u8| b.count_ones()).sum();
            let expected = 800_000.0 * p;
            // The allowed deviation: five standard deviations of the number of changed bits.
            let margin = 5.0 * (expected * (1.0 - p)).sqrt();
            assert!((f64::from(ones) - expected).abs() < margin, "{p}: {ones}");
        }
        let mut data = [0, 0x55, 0xff];
        change(&mut data, 1.0, Kind::Flip, &mut random);
        assert_eq!(data, [0xff, 0xaa, 0]);
        change(&mut data, 1.0, Kind::Set, &mut random);
        assert_eq!(data, [0xff; 3]);
        change(&mut data, 1.0, Kind::Clear, &mut random);
        assert_eq!(data, [0; 3]);
        change(&mut [], 0.5, Kind::Flip, &mut random);
    }
}
