//! Annotations as arguments: by offset, by Click's names, and by names that a configuration declares.

use packet::Annotations;

use super::{ArgType, Scope, not_a, parse_integer};

/// Returns offset and size in bytes of the annotation that Click calls `name`; `None` for other names.
fn known_annotation(name: &str) -> Option<(usize, usize)> {
    Some(match name {
        "DST_IP" => (Annotations::DST_IP, 4),
        "DST_IP6" => (Annotations::DST_IP, 16),
        "PAINT" => (Annotations::PAINT, 1),
        "ICMP_PARAMPROB" => (Annotations::ICMP_PARAM, 1),
        "FIX_IP_SRC" => (Annotations::FIX_IP_SRC, 1),
        "VLAN_TCI" => (Annotations::VLAN_TCI, 2),
        "AGGREGATE" | "FWD_RATE" | "MISC_IP" => (Annotations::AGGREGATE, 4),
        "EXTRA_PACKETS" | "REV_RATE" => (Annotations::EXTRA_PACKETS, 4),
        "EXTRA_LENGTH" => (Annotations::EXTRA_LENGTH, 4),
        "FIRST_TIMESTAMP" => (Annotations::FIRST_TIMESTAMP, 8),
        "PACKET_NUMBER" | "IPSEC_SPI" => (32, 4),
        "SEQUENCE_NUMBER" => (36, 4),
        "PERFCTR" => (40, 8),
        _ => return None,
    })
}

/// An annotation of any size. It is written as a number, as Click's name of the annotation, or as a name that
/// an AnnotationInfo declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnyAnnotation {
    /// The offset in bytes.
    pub offset: usize,
    /// The size in bytes; 0 if the text says only where the annotation is.
    pub size: usize,
}

impl AnyAnnotation {
    /// True if `text` is an annotation without any declaration: a number, or Click's name.
    pub fn is_known(text: &str) -> bool {
        let number = parse_integer(text).ok().and_then(|number| usize::try_from(number).ok());
        known_annotation(text).is_some() || number.is_some_and(|offset| offset < Annotations::SIZE)
    }
}

impl ArgType for AnyAnnotation {
    fn parse(text: &str, place: &Scope<'_>) -> Result<Self, String> {
        let text = text.trim();
        let named = known_annotation(text).or_else(|| place.setup.names.annotation(place.scope(), text));
        let (offset, size) = match named {
            Some(found) => found,
            None => (usize::parse(text, place)?, 0),
        };
        if offset < Annotations::SIZE {
            Ok(AnyAnnotation { offset, size })
        } else {
            Err(not_a(text, "an annotation"))
        }
    }
}

/// The offset in bytes of an annotation of `SIZE` bytes, which is written like [`AnyAnnotation`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnnotationOffset<const SIZE: usize>(pub usize);

impl<const SIZE: usize> ArgType for AnnotationOffset<SIZE> {
    fn parse(text: &str, place: &Scope<'_>) -> Result<Self, String> {
        let bad = || {
            let last = Annotations::SIZE - SIZE;
            let plural = if SIZE == 1 { "" } else { "s" };
            let what = format!(
                "an annotation of {SIZE} byte{plural}; write its name, or its offset from 0 to {last}"
            );
            not_a(text, &what)
        };
        let AnyAnnotation { offset, size } = AnyAnnotation::parse(text, place).map_err(|_| bad())?;
        let fits = (size == SIZE || size == 0) && offset + SIZE <= Annotations::SIZE;
        if fits { Ok(AnnotationOffset(offset)) } else { Err(bad()) }
    }
}
