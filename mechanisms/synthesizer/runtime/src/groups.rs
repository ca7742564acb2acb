//! The packets of a batch grouped by class, so that the operation of a class is applied to all of its
//! packets at once.

use packet::BATCH_CAPACITY;

/// The packets of a batch, grouped by class: for each class, a linked list of packet indices. The groups
/// are taken one by one.
pub struct Groups {
    /// By class: the index in the batch of the first packet of the class's list, or `NONE`.
    first: Vec<u16>,
    /// By packet: the index of the next packet of the same class, or `NONE`.
    next: [u16; BATCH_CAPACITY],
    /// The classes that have packets and have not been taken yet.
    classes: Vec<u32>,
    /// The indices in the batch of the packets of the class that was taken last ([`take`](Self::take)), in
    /// ascending order.
    pub places: Vec<u8>,
    /// The indices in the batch of packets of the class that was taken last that the class's operation has
    /// refused.
    pub refused: Vec<u8>,
}

/// The end of a linked list of packets, or an empty list.
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
    /// Groups the packets of a batch by class. `classes` has the class of each packet, `most` is the number
    /// of classes. Packets with the class number `most` or a higher one are left to the elements, and are in
    /// no group. Returns the number of packets in groups.
    pub fn sort(&mut self, classes: &[u32], most: usize) -> usize {
        self.first.resize(most, NONE);
        let mut grouped = 0;
        // Each packet is prepended to its list. The packets are visited in reverse order, so each list is
        // in ascending order.
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

    /// Takes a group: moves the indices of its packets into `places`, and returns its class. Returns `None`
    /// if no group is left.
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
    use crate::graph::OTHERWISE;

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
