//! The packets of a batch grouped by class, so that the operation of a class is applied to all of its
//! packets at once.

use packet::BATCH_CAPACITY;

/// The packets of a batch, grouped by class as linked lists.
pub struct Groups {
    /// By class: the first packet of its list.
    first: Vec<u16>,
    /// By packet: the next packet of the same class.
    next: [u16; BATCH_CAPACITY],
    /// The classes that have packets.
    classes: Vec<u32>,
    /// The packets of the class that was taken last.
    pub places: Vec<u8>,
    /// The packets of that class that the operation has refused.
    pub refused: Vec<u8>,
}

/// The end of a linked list.
const NONE: u16 = u16::MAX;

impl Default for Groups {
    fn default() -> Groups {
        Groups {
            first: Vec::new(),
            next: [NONE; BATCH_CAPACITY],
            classes: Vec::with_capacity(BATCH_CAPACITY),
            places: Vec::with_capacity(BATCH_CAPACITY),
            refused: Vec::with_capacity(BATCH_CAPACITY),
        }
    }
}

impl Groups {
    /// Groups packets by class. `most` is the number of classes. Packets that are left to the elements are
    /// in no group. Returns the number of packets in groups.
    pub fn sort(&mut self, classes: &[u32], most: usize) -> usize {
        self.first.resize(most, NONE);
        let mut grouped = 0;
        // Packets are prepended to their lists, so in reverse order each list ends up in order.
        for (place, &class) in classes.iter().enumerate().rev() {
            let Some(first) = self.first.get_mut(class as usize) else { continue };
            if *first == NONE {
                self.classes.push(class);
            }
            self.next[place % BATCH_CAPACITY] = std::mem::replace(first, place as u16);
            grouped += 1;
        }
        grouped
    }

    /// Moves the packets of a group into `places`. Returns the class, or `None` if no group is left.
    pub fn take(&mut self) -> Option<u32> {
        let class = self.classes.pop()?;
        self.places.clear();
        let mut place = std::mem::replace(&mut self.first[class as usize], NONE);
        while place != NONE {
            self.places.push(place as u8);
            place = self.next[usize::from(place) % BATCH_CAPACITY];
        }
        Some(class)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::interpreter::OTHERWISE;

    proptest! {
        #[test]
        fn all_packets_are_in_the_group_of_their_class(
            batches in proptest::collection::vec(proptest::collection::vec(0u32..7, 0..BATCH_CAPACITY), 1..4),
        ) {
            let mut groups = Groups::default();
            for classes in batches {
                let classes: Vec<u32> =
                    classes.into_iter().map(|class| if class == 6 { OTHERWISE } else { class }).collect();
                let grouped = groups.sort(&classes, 6);
                prop_assert_eq!(grouped, classes.iter().filter(|class| **class != OTHERWISE).count());
                let mut found = vec![OTHERWISE; classes.len()];
                while let Some(class) = groups.take() {
                    prop_assert!(groups.places.is_sorted() && !groups.places.is_empty());
                    for place in &groups.places {
                        found[usize::from(*place)] = class;
                    }
                }
                prop_assert_eq!(found, classes);
            }
        }
    }
}
