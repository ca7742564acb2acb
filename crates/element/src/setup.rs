//! The state that elements share while a graph is configured: names, threads, services, the list of
//! elements.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use flow::{CoreStates, Key, KeyHasher, KnownFlows, Plain, TableError};

use crate::ElementId;
use crate::class::Class;
use crate::context::secret;
use crate::names::Names;
use crate::steering::Spreading;

/// The number of tickets of a task that runs as often as most others. Tasks run in proportion to their
/// tickets (stride scheduling).
pub const TICKETS_OF_ONE: u32 = 1024;

/// The state of a graph that is being configured. The engine makes one for each worker and lends it to each
/// element in turn, through [`crate::Args`].
#[derive(Default)]
pub struct Setup {
    /// The names that the configuration gives to addresses and ports.
    pub names: Names,
    /// The threads to which the configuration assigns elements, by the elements' numbers.
    pub threads: BTreeMap<ElementId, usize>,
    /// The name and class of each element, by the element's number.
    pub elements: Vec<(String, &'static Class)>,
    /// The number of each element, by the element's name.
    pub by_name: HashMap<String, ElementId>,
    /// The number of packets that a source makes per call if its argument BURST is not given; `None` for
    /// Click's own defaults.
    pub burst: Option<usize>,
    /// The relative frequencies of tasks. Each entry has a compound, the name of an element or compound
    /// inside it whose frequency it sets, and the number of tickets.
    pub schedule: Vec<(String, String, u32)>,
    /// The number of the worker to which this copy of the graph belongs, from 0.
    pub worker: usize,
    /// The number of workers, each of which has a copy of the graph.
    pub workers: usize,
    /// The objects that the copies of the graph share.
    pub common: Arc<Common>,
    /// The policy by which packets of one flow are spread over workers. `None` if all packets of a flow go
    /// to one worker.
    pub spreading: Option<Arc<dyn Spreading>>,
    /// The files that elements have read while they were configured. Reports list them.
    pub inputs: Vec<PathBuf>,
    services: Services,
}

/// The objects that the copies of a graph share, one for each type and element.
#[derive(Default)]
pub struct Common(Mutex<Services>);

type Services = HashMap<(TypeId, ElementId), Arc<dyn Any + Send + Sync>>;

impl Common {
    /// Returns the object of type `T` that the copies of an element share. The first copy that asks makes it
    /// by `make`.
    pub fn get_or_make<T: Any + Send + Sync>(&self, element: ElementId, make: impl FnOnce() -> T) -> Arc<T> {
        let mut all = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let found = all.get(&(TypeId::of::<T>(), element)).cloned();
        found.and_then(|any| any.downcast().ok()).unwrap_or_else(|| {
            let made = Arc::new(make());
            all.insert((TypeId::of::<T>(), element), Arc::clone(&made) as Arc<dyn Any + Send + Sync>);
            made
        })
    }
}

/// An object that the workers' copies of an element share as long as they need equal objects, such as a
/// large table that is only read. If a copy is configured again, it may need another object; an object is
/// freed when no copy uses it. The copies get the same `Same` by [`Common::get_or_make`].
#[derive(Debug)]
pub struct Same<T>(Mutex<Weak<T>>);

impl<T> Default for Same<T> {
    fn default() -> Same<T> {
        Same(Mutex::new(Weak::new()))
    }
}

impl<T> Same<T> {
    /// Returns the object that a copy has made last, if it is still in use and `is_same` returns true for it:
    /// it equals the object that would be made from `of`. Otherwise makes a new object by `make`. Copies that
    /// call this at the same time wait for each other, so that the second copy finds the object of the first.
    pub fn get_or_make<S>(
        &self,
        of: S,
        is_same: impl FnOnce(&T, &S) -> bool,
        make: impl FnOnce(S) -> T,
    ) -> Arc<T> {
        let mut latest = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        latest.upgrade().filter(|there| is_same(there, &of)).unwrap_or_else(|| {
            let made = Arc::new(make(of));
            *latest = Arc::downgrade(&made);
            made
        })
    }
}

impl Setup {
    /// Makes the state for a graph without elements and with one worker. `burst` is the number of packets
    /// that a source makes per call if its argument BURST is not given; `None` for Click's own defaults.
    pub fn new(burst: Option<usize>) -> Setup {
        Setup { burst, workers: 1, ..Setup::default() }
    }

    /// True if packets of one flow are spread over several workers.
    pub fn is_spread(&self) -> bool {
        self.workers > 1 && self.spreading.is_some()
    }

    /// Returns this worker's handle on the flow states that an element has at all workers, and the hash
    /// function of the keys. Each worker has room for the states of `capacity` flows.
    ///
    /// If the copy of an element is replaced, the new copy gets a new handle, and so do the copies at other
    /// workers when they are replaced. Until all are replaced, old and new copies do not find each other's
    /// flows.
    pub fn flow_states<K, V>(
        &self,
        element: ElementId,
        capacity: usize,
    ) -> Result<(CoreStates<K, V>, KeyHasher), TableError>
    where
        K: Key + Any + Send + Sync,
        V: Plain + Any + Send + Sync,
    {
        /// The handles on the flow states of one element that no worker has taken yet, by the worker's
        /// number, and the hash function of the keys.
        type Ends<K, V> = (Mutex<Vec<Option<CoreStates<K, V>>>>, KeyHasher);
        // The seed of the hash function is secret, so that an attacker cannot choose keys that collide.
        let make = || (Mutex::default(), KeyHasher::new(secret()));
        let all: Arc<Ends<K, V>> = self.common.get_or_make(element, make);
        let mut ends = all.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(mut end) = ends.get_mut(self.worker).and_then(Option::take) {
                end.set_known(self.known());
                return Ok((end, all.1.clone()));
            }
            *ends =
                CoreStates::new(self.workers.max(self.worker + 1), capacity)?.into_iter().map(Some).collect();
        }
    }

    /// Returns the set of the flows that are in the [`flow_states`](Self::flow_states) of any element at
    /// any worker. Workers use it to recognize packets of unknown flows.
    pub fn known(&self) -> Arc<KnownFlows> {
        self.common.get_or_make(0, KnownFlows::default)
    }

    /// Returns the number of the element that `name` means inside the compound `scope` (empty, or with a
    /// slash at the end). Of several elements of this name in the compound and the compounds around it, it
    /// is the innermost; `None` if there is none.
    pub fn find(&self, scope: &str, name: &str) -> Option<ElementId> {
        let mut scope = scope;
        loop {
            if let Some(&id) = self.by_name.get(&format!("{scope}{name}")) {
                return Some(id);
            }
            if scope.is_empty() {
                return None;
            }
            let inner = scope.trim_end_matches('/');
            scope = inner.rfind('/').map_or("", |slash| &inner[..=slash]);
        }
    }

    /// Returns the number of tickets of the task of `element`, [`TICKETS_OF_ONE`] if nothing sets it. Of
    /// the compounds around it that set tickets for the element itself, the outermost counts. Compounds
    /// still further out may set tickets for a compound that contains the element: each of these settings
    /// multiplies the tickets, by its number divided by [`TICKETS_OF_ONE`].
    pub fn tickets(&self, element: &str) -> u32 {
        let mut tickets = u64::from(TICKETS_OF_ONE);
        let mut scope = scope_of(element);
        loop {
            let here = self.schedule.iter().filter(|(compound, ..)| compound == scope);
            let of_element = here.filter_map(|(_, name, tickets)| {
                let rest = element.strip_prefix(scope)?.strip_prefix(name.as_str())?;
                (rest.is_empty() || rest.starts_with('/')).then_some((rest.len(), *tickets))
            });
            // If several settings in one compound apply to the element, the setting with the longest name
            // counts; of settings with equal names, the last.
            match of_element.rev().min_by_key(|&(behind, _)| behind) {
                Some((0, own)) => tickets = own.into(),
                Some((_, factor)) => tickets = tickets * u64::from(factor) / u64::from(TICKETS_OF_ONE),
                None => {}
            }
            if scope.is_empty() {
                return u32::try_from(tickets).unwrap_or(u32::MAX);
            }
            scope = scope_of(scope.trim_end_matches('/'));
        }
    }

    /// Publishes a service of an element: other elements find it by the element's number and the type `T`.
    /// It replaces an earlier service of the same type and element.
    pub fn publish<T: Any + Send + Sync>(&mut self, element: ElementId, service: Arc<T>) {
        self.services.insert((TypeId::of::<T>(), element), service);
    }

    /// Returns the service of type `of` that an element has published; `None` if there is none.
    pub fn service_of(&self, element: ElementId, of: TypeId) -> Option<Arc<dyn Any + Send + Sync>> {
        self.services.get(&(of, element)).cloned()
    }

    /// Returns the service of type `T` that an element has published; `None` if there is none.
    pub fn service<T: Any + Send + Sync>(&self, element: ElementId) -> Option<Arc<T>> {
        self.service_of(element, TypeId::of::<T>()).and_then(|service| service.downcast().ok())
    }
}

/// Returns the compound that contains an element: the element's name up to and including the last slash, or
/// an empty text for an element outside of all compounds.
pub fn scope_of(name: &str) -> &str {
    name.rfind('/').map_or("", |slash| &name[..=slash])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_what_is_the_same() {
        let common = Common::default();
        let share = |number: u32| {
            let same = common.get_or_make(7, Same::<u32>::default);
            same.get_or_make(number, |there, number| there == number, |number| number)
        };
        let [one, other] = [share(1), share(1)];
        assert!(Arc::ptr_eq(&one, &other));
        let [two, three] = [share(2), share(2)];
        assert!(*two == 2 && Arc::ptr_eq(&two, &three));
        let weak = Arc::downgrade(&two);
        drop((two, three));
        assert!(weak.upgrade().is_none(), "nobody needs it");
        assert_eq!((*share(2), *one), (2, 1));
    }

    #[test]
    fn outer_tickets_multiply_or_replace_inner_ones() {
        let setup = |entries: &[(&str, &str, u32)]| Setup {
            schedule: entries.iter().map(|&(at, name, n)| (at.into(), name.into(), n)).collect(),
            ..Setup::default()
        };
        let inner = ("c/", "i", 512);
        assert_eq!(setup(&[]).tickets("c/i"), 1024);
        assert_eq!(setup(&[inner]).tickets("c/i"), 512);
        assert_eq!(setup(&[inner, ("", "c", 4096)]).tickets("c/i"), 2048);
        assert_eq!(setup(&[inner, ("", "c", 4096), ("", "c/i", 10_752)]).tickets("c/i"), 10_752);
        assert_eq!(setup(&[inner, ("", "c", 4096)]).tickets("c/other"), 4096);
        assert_eq!(setup(&[("", "c", 4096), ("", "c", 2048)]).tickets("c/other"), 2048);
        assert_eq!(setup(&[inner, ("", "c", 4096)]).tickets("cd"), 1024);
    }
}
