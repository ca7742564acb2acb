//! A table of routes with longest-prefix match. It also keeps the line that each route has in the table that
//! users see.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::net::Ipv4Addr;
use std::sync::Arc;

use classify::IntervalSet;
use classify::prefixes::{Address, MAX_VALUE, Prefix, PrefixEntry, PrefixTable};
use element::Args;
use element::setup::Same;

use super::route::{Hop, Route};

/// The rule that chooses the line of a new route in the table that users see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    /// The first free line. A route that replaces another route takes the other's line.
    FirstFree,
    /// The line that was freed last. A route that replaces another route takes a free line before the line of
    /// the replaced route is freed, so the new line differs from the old line.
    LastFreed,
}

/// The reason for which a route was not added to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused<A = u32, G = Ipv4Addr> {
    /// The table already has a route for the prefix of the route that was to be added: this one.
    Exists(Route<A, G>),
    /// The table has no number left for another next hop: there are too many different next hops.
    Full,
}

/// A table of routes. The workers' copies of an element share one table as long as their routes are equal
/// (see [`share`](Self::share)).
#[derive(Clone)]
pub(super) struct RouteTable<A = u32, G = Ipv4Addr> {
    /// The prefixes of all routes. The value of each is the number of its next hop, and its note is the
    /// number of its line in the table that users see.
    prefixes: PrefixTable<A>,
    /// The next hops by number, each with the number of routes that use it.
    hops: Vec<(Hop<G>, u32)>,
    numbers: HashMap<Hop<G>, u32>,
    unused: Vec<u32>,
    lines: Vec<Option<Prefix<A>>>,
    listing: Listing,
    /// The free lines in the table that users see, each with a rank; the line with the lowest rank is used
    /// first.
    free: BTreeSet<(u64, u32)>,
    freed: u64,
}

impl<A: Address, G: Copy + Eq + Hash> RouteTable<A, G> {
    pub(super) fn new(listing: Listing) -> RouteTable<A, G> {
        RouteTable {
            prefixes: PrefixTable::new(),
            hops: Vec::new(),
            numbers: HashMap::new(),
            unused: Vec::new(),
            lines: Vec::new(),
            listing,
            free: BTreeSet::new(),
            freed: 0,
        }
    }

    /// Returns the table of another copy of the element if it has the same routes, otherwise this table. An
    /// element that changes a shared table must first make a copy of its own (`Arc::make_mut`).
    pub(super) fn share(self, args: &Args<'_>) -> Arc<RouteTable<A, G>>
    where
        A: Send + Sync + 'static,
        G: Send + Sync + 'static,
    {
        let same = args.setup.common.get_or_make(args.id(), Same::<RouteTable<A, G>>::default);
        same.get_or_make(self, |there, own| own.routes().eq(there.routes()), |own| own)
    }

    /// Looks up the longest routes for a batch of addresses. Writes the number of the next hop for each
    /// address to `numbers`, or `None` if there is no route. It is called for every batch of packets.
    #[inline]
    pub(super) fn lookup_batch(&self, addresses: &[A], numbers: &mut [Option<u32>]) {
        self.prefixes.lookup_batch(addresses, numbers);
    }

    /// Returns the next hop with this number; `None` if the number has never been used.
    #[inline]
    pub(super) fn hop(&self, number: u32) -> Option<&Hop<G>> {
        self.hops.get(number as usize).map(|(hop, _)| hop)
    }

    /// Returns the next hop of the longest route for an address; `None` if there is no route.
    pub(super) fn lookup(&self, address: A) -> Option<Hop<G>> {
        self.prefixes.lookup(address).and_then(|number| self.hop(number)).copied()
    }

    /// Returns the route for exactly this prefix; `None` if there is none.
    pub(super) fn get(&self, prefix: Prefix<A>) -> Option<Route<A, G>> {
        let hop = *self.hop(self.prefixes.get(prefix)?.value)?;
        Some(Route { prefix, hop })
    }

    /// Adds a route. If there is a route for the same prefix, it is replaced and returned with `replace`;
    /// without `replace`, this is an error.
    pub(super) fn add(
        &mut self,
        route: Route<A, G>,
        replace: bool,
    ) -> Result<Option<Route<A, G>>, Refused<A, G>> {
        let before = self.get(route.prefix);
        if let Some(before) = before
            && !replace
        {
            return Err(Refused::Exists(before));
        }
        let value = self.hold(route.hop).ok_or(Refused::Full)?;
        let line = match self.prefixes.get(route.prefix) {
            Some(entry) if self.listing == Listing::FirstFree => entry.note,
            _ => self.free.pop_first().map_or(self.lines.len() as u32, |(_, line)| line),
        };
        let replaced = self.prefixes.insert(route.prefix, PrefixEntry { value, note: line });
        if let Some(entry) = replaced {
            self.release(entry.value);
            if entry.note != line {
                self.free_line(entry.note);
            }
        }
        match self.lines.get_mut(line as usize) {
            Some(place) => *place = Some(route.prefix),
            None => self.lines.push(Some(route.prefix)),
        }
        Ok(before)
    }

    /// Removes the route for the prefix of `asked`, and returns it. Nothing is removed, and the result is
    /// `None`, if there is no such route or if its next hop differs from the next hop of `asked`.
    /// [`Hop::ANY_OUTPUT`] matches any next hop.
    pub(super) fn remove(&mut self, asked: Route<A, G>) -> Option<Route<A, G>> {
        let found = self.get(asked.prefix)?;
        if asked.hop.output != Hop::<G>::ANY_OUTPUT && asked.hop != found.hop {
            return None;
        }
        let entry = self.prefixes.remove(asked.prefix)?;
        self.release(entry.value);
        self.free_line(entry.note);
        Some(found)
    }

    /// Returns an empty table with the same rule for the lines of new routes ([`Listing`]).
    pub(super) fn cleared(&self) -> RouteTable<A, G> {
        RouteTable::new(self.listing)
    }

    /// True if the table has never had a route.
    pub(super) fn is_new(&self) -> bool {
        self.lines.is_empty()
    }

    /// Returns all routes in the order of their lines in the table that users see.
    pub(super) fn routes(&self) -> impl Iterator<Item = Route<A, G>> + '_ {
        self.lines.iter().flatten().filter_map(|&prefix| self.get(prefix))
    }

    /// Returns each next hop with the set of addresses whose packets take it.
    pub(super) fn sets(&self) -> impl Iterator<Item = (Hop<G>, IntervalSet)> + '_ {
        self.prefixes.sets().into_iter().filter_map(|(number, set)| Some((*self.hop(number)?, set)))
    }

    fn hold(&mut self, hop: Hop<G>) -> Option<u32> {
        if let Some(&number) = self.numbers.get(&hop) {
            self.hops[number as usize].1 += 1;
            return Some(number);
        }
        let number = match self.unused.pop() {
            Some(number) => number,
            None => u32::try_from(self.hops.len()).ok().filter(|&n| n <= MAX_VALUE)?,
        };
        match self.hops.get_mut(number as usize) {
            Some(place) => *place = (hop, 1),
            None => self.hops.push((hop, 1)),
        }
        self.numbers.insert(hop, number);
        Some(number)
    }

    fn release(&mut self, number: u32) {
        let (hop, routes) = &mut self.hops[number as usize];
        *routes -= 1;
        if *routes == 0 {
            self.numbers.remove(hop);
            self.unused.push(number);
        }
    }

    fn free_line(&mut self, line: u32) {
        self.freed += 1;
        let rank = match self.listing {
            Listing::FirstFree => u64::from(line),
            Listing::LastFreed => u64::MAX - self.freed,
        };
        self.free.insert((rank, line));
        self.lines[line as usize] = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    fn route(net: u8, output: i32) -> Route {
        let hop = Hop { gateway: Ipv4Addr::UNSPECIFIED, output };
        Route { prefix: Prefix::new(u32::from(net) << 24, 8), hop }
    }

    fn shown(table: &RouteTable) -> Vec<(u32, i32)> {
        table.routes().map(|r| (r.prefix.first() >> 24, r.hop.output)).collect()
    }

    #[test]
    fn lines_are_used_again() {
        for (listing, expected) in [
            (Listing::FirstFree, vec![(6, 0), (7, 0), (3, 9), (4, 0)]),
            // Route 3 is replaced: the new route takes the line of the removed route 1, and the old line of
            // route 3 becomes free. Of the free lines it was freed last, so route 6 takes it. Route 7 takes
            // the line of route 2.
            (Listing::LastFreed, vec![(3, 9), (7, 0), (6, 0), (4, 0)]),
        ] {
            let mut table = RouteTable::new(listing);
            for net in 1..=4 {
                assert_eq!(table.add(route(net, 0), false), Ok(None));
            }
            assert_eq!(table.remove(route(2, 1)), None);
            assert_eq!(table.remove(route(2, -1)), Some(route(2, 0)));
            assert_eq!(table.remove(route(1, 0)), Some(route(1, 0)));
            assert_eq!(table.add(route(3, 9), false), Err(Refused::Exists(route(3, 0))));
            assert_eq!(table.add(route(3, 9), true), Ok(Some(route(3, 0))));
            table.add(route(6, 0), false).unwrap();
            table.add(route(7, 0), true).unwrap();
            assert_eq!(shown(&table), expected, "{listing:?}");
        }
    }

    proptest! {
        #[test]
        fn changes_do_what_they_say(changes in prop::collection::vec((0u8..6, 0i32..4, 0u8..3), 0..80), last: bool) {
            let listing = if last { Listing::LastFreed } else { Listing::FirstFree };
            let mut table = RouteTable::new(listing);
            let mut model: HashMap<u8, i32> = HashMap::new();
            for (net, output, what) in changes {
                let before = model.get(&net).copied();
                let before_route = before.map(|output| route(net, output));
                match what {
                    0 => {
                        let result = table.add(route(net, output), false);
                        prop_assert_eq!(result, before_route.map_or(Ok(None), |r| Err(Refused::Exists(r))));
                        model.entry(net).or_insert(output);
                    }
                    1 => {
                        prop_assert_eq!(table.add(route(net, output), true), Ok(before_route));
                        model.insert(net, output);
                    }
                    _ => {
                        let same = before == Some(output);
                        prop_assert_eq!(table.remove(route(net, output)), before_route.filter(|_| same));
                        if same {
                            model.remove(&net);
                        }
                    }
                }
                let mut listed = shown(&table);
                listed.sort_unstable();
                let mut expected: Vec<_> = model.iter().map(|(&net, &output)| (u32::from(net), output)).collect();
                expected.sort_unstable();
                prop_assert_eq!(listed, expected);
                for net in 0..6 {
                    let hop = table.lookup(u32::from(net) << 24 | 77);
                    prop_assert_eq!(hop.map(|hop| hop.output), model.get(&net).copied());
                }
                // Numbers of next hops and lines are used again after removals. So there are never more
                // numbers or lines than were in use at one time.
                prop_assert_eq!(table.numbers.len() + table.unused.len(), table.hops.len());
                prop_assert_eq!(table.lines.len(), model.len() + table.free.len());
            }
        }
    }
}
