//! Mixes of frame sizes.

use std::fmt;
use std::str::FromStr;

use fastrand::Rng;

/// The length in bytes of the shortest Ethernet frame, without its check sequence.
pub const SHORTEST: u16 = 60;
/// The length in bytes of the longest generated frame, a jumbo frame.
pub const LONGEST: u16 = 9216;

/// A mix of frame sizes: each frame has one of these sizes, with a probability proportional to the weight
/// of the size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeMix {
    /// The sizes in bytes, each with the sum of its weight and the weights before it.
    sizes: Vec<(u16, u32)>,
}

impl SizeMix {
    /// The simple IMIX, as text for [`str::parse`]: of twelve frames, 7 have 60 bytes, 4 have 590 and 1 has
    /// 1514 (64, 594 and 1518 with check sequence).
    pub const IMIX: &'static str = "60:7,590:4,1514:1";

    /// Draws the size of a frame in bytes.
    #[inline]
    pub(super) fn draw(&self, random: &mut Rng) -> u16 {
        let all = self.sizes.last().map_or(1, |size| size.1);
        let drawn = random.u32(..all);
        self.sizes.iter().find(|size| drawn < size.1).map_or(SHORTEST, |size| size.0)
    }
}

/// The error for text that is not a mix of sizes. Holds the part of the text that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeMixError(String);

impl fmt::Display for SizeMixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not a frame size of {SHORTEST} to {LONGEST} bytes with a weight; write sizes such as \
             60:7,590:4,1514:1, or imix",
            self.0
        )
    }
}

impl std::error::Error for SizeMixError {}

/// Parses `SIZE[:WEIGHT],...` or `imix`. A size without a weight has weight 1.
impl FromStr for SizeMix {
    type Err = SizeMixError;

    fn from_str(text: &str) -> Result<SizeMix, SizeMixError> {
        let text = if text.eq_ignore_ascii_case("imix") { SizeMix::IMIX } else { text };
        let (mut sizes, mut sum) = (Vec::new(), 0u32);
        for part in text.split(',') {
            let wrong = || SizeMixError(part.to_string());
            let (size, weight) = part.split_once(':').unwrap_or((part, "1"));
            let size: u16 = size.trim().parse().map_err(|_| wrong())?;
            let weight: u16 = weight.trim().parse().map_err(|_| wrong())?;
            if !(SHORTEST..=LONGEST).contains(&size) || weight == 0 {
                return Err(wrong());
            }
            sum = sum.checked_add(weight.into()).ok_or_else(wrong)?;
            sizes.push((size, sum));
        }
        Ok(SizeMix { sizes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_read_and_drawn_by_weight() {
        let mix: SizeMix = "imix".parse().unwrap();
        assert_eq!(mix.sizes, [(60, 7), (590, 11), (1514, 12)]);
        let mut random = Rng::with_seed(1);
        let drawn: Vec<u16> = (0..12_000).map(|_| mix.draw(&mut random)).collect();
        let count = |size| drawn.iter().filter(|other| **other == size).count();
        assert!((6_700..7_300).contains(&count(60)) && (800..1_200).contains(&count(1514)));
        assert_eq!("1000".parse::<SizeMix>().unwrap().sizes, [(1000, 1)]);
        for wrong in ["", "59", "9217", "60:0", "60:", "60,,70", "a:1", "-60"] {
            assert!(wrong.parse::<SizeMix>().is_err(), "{wrong}");
        }
    }
}
