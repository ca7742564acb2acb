//! Linear combinations: whole numbers that are computed from values in packets, such as `14 + 4 * header
//! length`.

use std::fmt;

/// A whole number that depends on a packet: a constant plus multiples of variables, or of some bits of
/// variables. `T` is the kind of variable: a field of a packet in the declarations of elements, a question
/// about a packet in synthesized programs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Linear<T> {
    /// The constant part.
    pub constant: i64,
    /// The factor, the variable and the mask of each term. The mask selects bits of the variable's value.
    /// These bits are shifted down, so that the lowest selected bit has the value one ([`masked`]).
    pub terms: Vec<(i64, T, u128)>,
}

/// Returns the number zero.
impl<T> Default for Linear<T> {
    fn default() -> Linear<T> {
        Linear::constant(0)
    }
}

impl<T> Linear<T> {
    /// Makes a number that does not depend on the packet.
    pub const fn constant(constant: i64) -> Linear<T> {
        Linear { constant, terms: Vec::new() }
    }

    /// Makes the number that is the value of a variable.
    pub fn of(variable: T) -> Linear<T> {
        Linear::constant(0).plus(1, variable, u128::MAX)
    }

    /// Adds a multiple of some bits of a variable. A term with a factor of zero is kept, too, because the
    /// number exists only for packets that have the variable.
    #[must_use]
    pub fn plus(mut self, factor: i64, variable: T, mask: u128) -> Linear<T> {
        self.terms.push((factor, variable, mask));
        self
    }

    /// Adds a constant; the sum saturates.
    #[must_use]
    pub fn plus_constant(mut self, more: i64) -> Linear<T> {
        self.constant = self.constant.saturating_add(more);
        self
    }

    /// Returns the variables of all terms, in their order.
    pub fn variables(&self) -> impl Iterator<Item = &T> {
        self.terms.iter().map(|(_, variable, _)| variable)
    }

    /// Returns the number if it does not depend on the packet; `None` if it has terms.
    pub fn known(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// Computes the number. `value` gives the value of each variable that occurs. The result saturates
    /// instead of wrapping around.
    pub fn value(&self, mut value: impl FnMut(&T) -> u128) -> i64 {
        self.terms.iter().fold(self.constant, |sum, (factor, variable, mask)| {
            let bits = masked(value(variable), *mask);
            sum.saturating_add(factor.saturating_mul(i64::try_from(bits).unwrap_or(i64::MAX)))
        })
    }
}

impl<T: Clone + Ord> Linear<T> {
    /// Adds `factor` times another number. Each term of `other` is added to the term with equal variable and
    /// mask, if there is one. Terms with factor zero vanish, and terms are sorted. So sums that are equal as
    /// numbers are also equal as values of this type, unless `self` has two terms with equal variable and
    /// mask.
    #[must_use]
    pub fn plus_times(mut self, factor: i64, other: &Linear<T>) -> Linear<T> {
        self.constant = self.constant.saturating_add(other.constant.saturating_mul(factor));
        for (more, variable, mask) in &other.terms {
            let more = more.saturating_mul(factor);
            match self.terms.iter_mut().find(|(_, other, bits)| other == variable && bits == mask) {
                Some((here, ..)) => *here = here.saturating_add(more),
                None => self.terms.push((more, variable.clone(), *mask)),
            }
        }
        self.terms.retain(|(factor, ..)| *factor != 0);
        self.terms.sort_by(|a, b| (&a.1, a.2).cmp(&(&b.1, b.2)));
        self
    }
}

/// Formats the number as `14+4*VARIABLE&0xf`: the constant, then each term with its factor and, if it does
/// not have all bits, its mask.
impl<T: fmt::Display> fmt::Display for Linear<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.constant)?;
        for (factor, variable, mask) in &self.terms {
            let sign = if *factor < 0 { "" } else { "+" };
            write!(f, "{sign}{factor}*{variable}")?;
            if *mask != u128::MAX {
                write!(f, "&{mask:#x}")?;
            }
        }
        Ok(())
    }
}

/// Returns the bits of a number under a mask, shifted down so that the lowest bit of the mask has the value
/// one. Returns zero for an empty mask.
pub fn masked(value: u128, mask: u128) -> u128 {
    if mask == 0 { 0 } else { (value & mask) >> mask.trailing_zeros() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_have_one_form() {
        let one = Linear::of('b').plus(2, 'a', 0x0f).plus_constant(3);
        let sum = Linear::constant(1).plus_times(2, &one).plus_times(-1, &Linear::of('b'));
        assert_eq!(sum, Linear { constant: 7, terms: vec![(4, 'a', 0x0f), (1, 'b', u128::MAX)] });
        assert_eq!(one.clone().plus_times(-1, &one), Linear::constant(0));
        assert_eq!(sum.to_string(), "7+4*a&0xf+1*b");
        assert_eq!((sum.known(), Linear::<char>::constant(5).known()), (None, Some(5)));
        assert_eq!(sum.value(|variable| if *variable == 'a' { 0x23 } else { 10 }), 7 + 4 * 3 + 10);
        assert_eq!(Linear::of('x').plus_constant(i64::MAX).value(|_| u128::MAX), i64::MAX);
        assert_eq!((masked(0x45, 0xf0), masked(0x45, 0)), (4, 0));
    }
}
