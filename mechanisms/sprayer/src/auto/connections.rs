//! Finds the approximately largest connections by counting sampled packets in memory of fixed size.
//!
//! The table has lines of a few entries (*places*) each; a connection's flow number selects its line. A
//! packet of a connection without an entry decrements the smallest count of its line. An entry whose count
//! would reach zero is taken over by that connection (Boyer and Moore's majority vote, line by line). So a
//! connection with a large part of the packets of its line keeps its entry, whatever the number of other
//! connections.

/// The number of lines in the table, and of entries per line.
const LINES: usize = 64;
const PLACES: usize = 4;
/// The number of counted packets after which all counts are halved, so that old packets lose their weight.
const MEMORY: u32 = 512;
/// The hysteresis of the choice of connections to spread: a connection that is spread already stays so until
/// larger such connections of its owner have this multiple of the fraction of packets that is wanted.
const SLACK: f32 = 1.25;

/// An entry of the table: a connection by its flow number, its count and its owner. `is_chosen` is true if
/// the connection is spread over workers.
#[derive(Clone, Copy, Default)]
struct Place {
    number: u32,
    /// The count of its packets, which packets of other connections and [`MEMORY`] decrease; 0 if the entry
    /// is free.
    count: u32,
    owner: u16,
    is_chosen: bool,
}

#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line([Place; PLACES]);

/// The table of connections of sampled packets.
pub(super) struct Connections {
    lines: Vec<Line>,
    /// The number of sampled packets of each owner; `total` is their sum over all owners. All counts are
    /// halved after every [`MEMORY`] packets.
    counted: Vec<u32>,
    total: u32,
    /// The number of entries whose connection is chosen, that is, spread over workers.
    chosen: usize,
    /// The entries of one owner as (line, entry), in the order in which [`choose`](Self::choose) considers
    /// them; kept only to reuse the memory.
    order: Vec<(u16, u16)>,
}

impl Connections {
    /// Creates an empty table for connections of `owners` workers.
    pub(super) fn new(owners: usize) -> Connections {
        Connections {
            lines: vec![Line::default(); LINES],
            counted: vec![0; owners],
            total: 0,
            chosen: 0,
            order: Vec::with_capacity(LINES * PLACES),
        }
    }

    /// Counts a sampled packet of the connection with flow number `number`, which `owner` owns. If the
    /// packet may not be spread, it counts only for the owner.
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

    /// Returns the part of all counted packets that belong to this owner, from 0 to 1.
    pub(super) fn share_of(&self, owner: usize) -> f32 {
        self.counted.get(owner).map_or(0.0, |&counted| counted as f32 / self.total.max(1) as f32)
    }

    /// Chooses the largest connections of an owner, until they have the part `wanted` of its packets.
    /// Connections that are already chosen come first, so that the choice is stable. Returns the part of
    /// the owner's packets that the chosen connections have, from 0 to 1.
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

    /// True if any connection of any owner is chosen.
    #[inline]
    pub(super) fn are_chosen(&self) -> bool {
        self.chosen > 0
    }

    /// Returns the worker that owns the connection with this flow number; `None` unless the connection is
    /// chosen to be spread over workers.
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
