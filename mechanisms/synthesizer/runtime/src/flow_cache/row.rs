//! The row of a flow: the bytes that are stored in its table entry next to its key. They are the row head (4
//! bytes), and the values that stateful elements write to packets of a leased flow.

use jit::ROW;
use program::location::ByteLocation;
use program::{Program, TrafficClass};

/// The number of bytes of the row head, which precede the values.
pub(super) const HEAD_LENGTH: usize = 4;

/// Returns the number of steps that precede a step on its path.
fn depth(program: &Program, step: u16) -> usize {
    let before = |step: u16| program.steps.get(usize::from(step)).and_then(|step| step.after);
    std::iter::successors(before(step), |step| before(*step)).count()
}

/// The selection and order of the leased values that are stored in a row. Each byte is identified by the
/// number of steps that precede its step on the path, and by its index among the values of that step; the
/// bytes are in ascending order. Alternative steps with the same number of predecessors share the space,
/// because a flow passes only one of them.
pub struct RowLayout(pub(super) Vec<(usize, u8)>);

impl RowLayout {
    /// Selects the leased values that the classes of a program write. If the row has no room for all, the
    /// values of classes with longer paths take precedence, because these classes save more.
    pub fn new(program: &Program) -> RowLayout {
        let mut classes: Vec<&TrafficClass> = program.classes.iter().collect();
        classes.sort_by_key(|class| std::cmp::Reverse(class.path.len()));
        let mut used = Vec::new();
        for class in classes {
            let mut more = values_of(program, class);
            more.retain(|value| !used.contains(value));
            if HEAD_LENGTH + used.len() + more.len() <= ROW {
                used.extend(more);
            }
        }
        used.sort_unstable();
        RowLayout(used)
    }

    /// Returns the index in the row of a byte of a step's values; `None` if the byte is not stored.
    pub fn place_of(&self, program: &Program, step: u16, offset: u8) -> Option<u8> {
        let value = (depth(program, step), offset);
        self.0.binary_search(&value).ok().map(|place| (HEAD_LENGTH + place) as u8)
    }

    /// True if all leased values that a class writes are stored in the row. Otherwise packets of the class
    /// cannot bypass the elements on a lease.
    pub fn has_room(&self, program: &Program, class: &TrafficClass) -> bool {
        values_of(program, class).iter().all(|value| self.0.binary_search(value).is_ok())
    }
}

/// Returns the bytes of leased values that a class writes, in ascending order and without duplicates. Each
/// byte is identified by the number of steps that precede its step on the path, and by its index among the
/// values of that step.
fn values_of(program: &Program, class: &TrafficClass) -> Vec<(usize, u8)> {
    let mut used = Vec::new();
    for write in &class.writes {
        if let Some((ByteLocation::Leased(step, offset), length)) = write.value.from() {
            let depth = depth(program, step);
            used.extend((0..length).map(|more| (depth, offset.saturating_add(more as u8))));
        }
    }
    used.sort_unstable();
    used.dedup();
    used
}
