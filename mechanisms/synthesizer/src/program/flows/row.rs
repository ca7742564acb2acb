//! The values that packets of a leased flow get, which are stored next to the flow's key.

use crate::compose::packet::Place;
use crate::program::{Class, Program};

/// Bytes beside a flow's key: what is known of the flow, then values.
pub const ROW: usize = REST + 20;

/// Bytes of them that are not values.
pub(super) const REST: usize = 4;

/// How many steps packets have passed when they come to one.
fn depth(program: &Program, step: u16) -> usize {
    let before = |step: u16| program.steps.get(usize::from(step)).and_then(|step| step.after);
    std::iter::successors(before(step), |step| before(*step)).count()
}

/// The values that stand with a flow, in order: how many steps packets have passed before, and the place of the byte among the
/// step's. Of steps that packets pass at the same place, one counts for each flow.
pub struct Used(pub(super) Vec<(usize, u8)>);

impl Used {
    /// The values that classes write; those with the longest ways have them first, as far as there is room.
    pub fn new(program: &Program) -> Used {
        let mut classes: Vec<&Class> = program.classes.iter().collect();
        classes.sort_by_key(|class| std::cmp::Reverse(class.path.len()));
        let mut used = Vec::new();
        for class in classes {
            let mut more = values_of(program, class);
            more.retain(|value| !used.contains(value));
            if REST + used.len() + more.len() <= ROW {
                used.extend(more);
            }
        }
        used.sort_unstable();
        Used(used)
    }

    /// Where a byte of the values of a step stands, if there is room for it.
    pub fn place_of(&self, program: &Program, step: u16, offset: u8) -> Option<u8> {
        let value = (depth(program, step), offset);
        self.0.binary_search(&value).ok().map(|place| (REST + place) as u8)
    }

    /// Whether there is room for all that a class writes.
    pub fn has_room(&self, program: &Program, class: &Class) -> bool {
        values_of(program, class).iter().all(|value| self.0.binary_search(value).is_ok())
    }
}

/// The values that a class writes, each once.
fn values_of(program: &Program, class: &Class) -> Vec<(usize, u8)> {
    let mut used = Vec::new();
    for write in &class.writes {
        if let Some((Place::Leased(step, offset), length)) = write.value.from() {
            let depth = depth(program, step);
            used.extend((0..length).map(|more| (depth, offset.saturating_add(more as u8))));
        }
    }
    used.sort_unstable();
    used.dedup();
    used
}
