//! The largest connections, roughly, in memory that does not grow with their number.
//!
//! Places by the flow's number, a few to a line. A packet of a connection that has none takes one from the smallest there; what gets to
//! nothing gives its place away (Boyer and Moore's majority vote, line by line). So a large connection keeps its place
//! whatever else comes.

/// Lines of so many places.
const LINES: usize = 64;
const PLACES: usize = 4;
/// Counts are halved when so many packets have been counted.
const MEMORY: u32 = 512;
/// A connection that has been chosen stays so until the others have so many times what is wanted.
const SLACK: f32 = 1.25;

/// What is known of one connection.
#[derive(Clone, Copy, Default)]
struct Place {
    number: u32,
    /// Packets counted; none if the place is free.
    count: u32,
    owner: u16,
    is_chosen: bool,
}

#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line([Place; PLACES]);

/// Connections that packets have been counted of.
pub(super) struct Connections {
    lines: Vec<Line>,
    /// Packets counted of each owner, and in all.
    counted: Vec<u32>,
    total: u32,
    /// Connections that are chosen.
    chosen: usize,
    /// Places of an owner, in the order of choice.
    order: Vec<(u16, u16)>,
}

impl Connections {
    /// Of so many owners.
    pub(super) fn new(owners: usize) -> Connections {
        Connections {
            lines: vec![Line::default(); LINES],
            counted: vec![0; owners],
            total: 0,
            chosen: 0,
            order: Vec::with_capacity(LINES * PLACES),
        }
    }

    /// Counts a packet of an owner, and that of its connection if it may be spread.
    #[inline]
    pub(super) fn count(&mut self, number: u32, owner: usize, may_be_spread: bool) {
        if self.total >= MEMORY {
            self.halve();
        }
        self.total += 1;
        if let Some(counted) = self.counted.get_mut(owner) {
            *counted += 1;
        }
        if !may_be_spread {
            return;
        }
        let Line(places) = &mut self.lines[line_of(number)];
        if let Some(place) = places.iter_mut().find(|place| place.number == number && place.count > 0) {
            place.count += 1;
        } else if let Some(smallest) = places.iter_mut().min_by_key(|place| place.count) {
            match smallest.count {
                0 | 1 => {
                    self.chosen -= usize::from(smallest.is_chosen);
                    *smallest = Place { number, count: 1, owner: owner as u16, is_chosen: false };
                }
                _ => smallest.count -= 1,
            }
        }
    }

    #[cold]
    fn halve(&mut self) {
        for place in self.lines.iter_mut().flat_map(|Line(places)| places) {
            place.count /= 2;
            if place.count == 0 {
                self.chosen -= usize::from(place.is_chosen);
                place.is_chosen = false;
            }
        }
        self.counted.iter_mut().for_each(|counted| *counted /= 2);
        self.total = self.counted.iter().sum();
    }

    /// The part of all packets that belong to an owner.
    pub(super) fn share_of(&self, owner: usize) -> f32 {
        self.counted.get(owner).map_or(0.0, |&counted| counted as f32 / self.total.max(1) as f32)
    }

    /// Chooses an owner's largest connections, until they have so much of its packets; those that are chosen already come
    /// first. How much of its packets they have.
    pub(super) fn choose(&mut self, owner: usize, wanted: f32) -> f32 {
        let all = self.counted.get(owner).map_or(0, |&counted| counted).max(1) as f32;
        self.order.clear();
        for (line, Line(places)) in self.lines.iter().enumerate() {
            let of_owner = |place: &Place| place.count > 0 && usize::from(place.owner) == owner;
            let own = (0..PLACES).filter(|&place| of_owner(&places[place]));
            self.order.extend(own.map(|place| (line as u16, place as u16)));
        }
        let lines = &mut self.lines;
        let place = |&(line, place): &(u16, u16)| lines[usize::from(line)].0[usize::from(place)];
        self.order.sort_unstable_by_key(|at| (!place(at).is_chosen, u32::MAX - place(at).count));
        let mut sum = 0.0;
        for &(line, place) in &self.order {
            let place = &mut lines[usize::from(line)].0[usize::from(place)];
            let enough = if place.is_chosen { SLACK * wanted } else { wanted };
            let is_chosen = wanted > 0.0 && sum < enough;
            self.chosen = self.chosen + usize::from(is_chosen) - usize::from(place.is_chosen);
            place.is_chosen = is_chosen;
            sum += if is_chosen { place.count as f32 / all } else { 0.0 };
        }
        sum.min(1.0)
    }

    /// Whether any are chosen.
    #[inline]
    pub(super) fn are_chosen(&self) -> bool {
        self.chosen > 0
    }

    /// The owner of the connection with this number, if it is chosen.
    #[inline]
    pub(super) fn chosen(&self, number: u32) -> Option<usize> {
        let Line(places) = &self.lines[line_of(number)];
        let place = places.iter().find(|place| place.number == number && place.is_chosen)?;
        Some(usize::from(place.owner))
    }
}

#[inline]
fn line_of(number: u32) -> usize {
    number as usize % LINES
}
