//! # ExactPaintSwitch
//! Sends each packet to the output that is mapped to its paint annotation.
//!
//! The first MAP names the paint of the packets for output 0, the second the paint for output 1, and so on.
//! Packets with another paint go to the output DEFAULT, or are dropped.
//!
//! ## Usage
//! `ExactPaintSwitch([ANNO, MAP p, MAP p, ...])`
//!
//! ## Arguments
//! - `ANNO`: the annotation to read, by name or offset.
//! - `DEFAULT`: the output for packets with another paint; -1 to drop them.
//! - `MAP`: a paint, 0 to 255; may be given several times.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> Paint(17) -> s :: ExactPaintSwitch(MAP 6, MAP 17);
//! s[0] -> Discard; s[1] -> Discard
//! ```
//!
//! ## See also
//! PaintSwitch, Paint

use element::args::{AnnotationOffset, read_value};
use element::class::ArgInfo;
use element::effects::{Case, Field, Filter, Predicate, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Packet, manual};

use crate::sorting::Sorter;

/// The element class `ExactPaintSwitch`.
pub static CLASS: Class = Class {
    name: "ExactPaintSwitch",
    ports: "1/1-",
    processing: "h/h",
    manual: manual!("exact_paint_switch.rs"),
    args: &[
        ArgInfo::positional("ANNO", "annotation", "PAINT"),
        ArgInfo::keyword("DEFAULT", "int", "-1"),
        ArgInfo::keyword("MAP", "0-255", ""),
    ],
    samples: &["", "20, MAP 6, MAP 17 -> 1/2", "DEFAULT 2, MAP 0, MAP 9 -> 1/3"],
    reconfigures: true,
    build: |args| {
        let AnnotationOffset::<1>(place) = args.value("ANNO");
        let default = args.value::<i32>("DEFAULT");
        let mut paints: Vec<u8> = Vec::new();
        args.each_of("MAP", |args, text| match read_value("MAP", text, &args.place()) {
            Ok(paint) => paints.push(paint),
            Err(complaint) => args.error(complaint),
        });
        if default >= args.outputs() as i32 {
            args.error("Default port cannot be higher than the number of ports!");
        }
        args.finish()?;
        let mut map = [usize::try_from(default).ok(); 256];
        for (output, &paint) in paints.iter().enumerate() {
            map[usize::from(paint)] = Some(output);
        }
        Ok(Box::new(ExactPaintSwitch { place, map, sorter: Sorter::new(args.outputs()) }))
    },
    ..Class::DEFAULT
};

struct ExactPaintSwitch {
    place: usize,
    /// The output of each paint; `None` drops the packet.
    map: [Option<usize>; 256],
    sorter: Sorter,
}

impl Element for ExactPaintSwitch {
    fn effects(&self) -> Effects {
        let field = Field::Annotation { offset: self.place as u8, length: 1 };
        let cases = self.map.iter().enumerate().map(|(paint, &output)| {
            let target = match output.filter(|&output| output < self.sorter.outputs()) {
                Some(output) => Target::Output(output),
                None => Target::Drop(DropReason::NoOutput),
            };
            Case::new(Predicate::equals(field.clone(), paint as u128), target)
        });
        let rest = Case::new(Filter::TRUE, Target::Drop(DropReason::NoOutput));
        Effects::cases(cases.chain([rest]).collect())
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        let (place, map) = (self.place, &self.map);
        let paint = |packet: &Packet| packet.annotations().u8(place);
        self.sorter.send_by(cx, batch, |_, packet| paint(packet), |paint| map[usize::from(paint)].into())
    }
}
