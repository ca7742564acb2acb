//! What elements share while a graph is being built: names, threads, services, the list of elements.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use flow::{CoreStates, Key, KeyHasher, Known, Plain, TableError};

use crate::ElementId;
use crate::class::Class;
use crate::context::secret;
use crate::names::Names;
use crate::steering::Spreading;

/// Tickets that stand for running as often as others.
pub const TICKETS_OF_ONE: u32 = 1024;

/// The state of a graph under construction. The engine makes one per worker and lends it to each element in
/// turn, through [`crate::Args`].
#[derive(Default)]
pub struct Setup {
    /// Addresses with names.
    pub names: Names,
    /// Threads that elements were assigned to.
    pub threads: BTreeMap<ElementId, usize>,
    /// Names and classes of all elements, by number.
    pub elements: Vec<(String, &'static Class)>,
    /// Elements' numbers by name.
    pub by_name: HashMap<String, ElementId>,
    /// Packets that a source makes per call when its BURST is not given; `None` for Click's own defaults.
    pub burst: Option<usize>,
    /// How often tasks run in relation to others: the compound in which that was said, the element or compound
    /// inside it, and its tickets.
    pub schedule: Vec<(String, String, u32)>,
    /// Which worker's copy of the graph this is, from 0.
    pub worker: usize,
    /// How many workers there are, each with a copy.
    pub workers: usize,
    /// What the copies share.
    pub common: Arc<Common>,
    /// How packets of one flow are spread over workers, if they are.
    pub spreading: Option<Arc<dyn Spreading>>,
    /// Files that elements have read while they were configured; reports name these.
    pub inputs: Vec<PathBuf>,
    services: Services,
}

/// What the workers' copies of a graph share: objects by type and element.
#[derive(Default)]
pub struct Common(Mutex<Services>);

type Services = HashMap<(TypeId, ElementId), Arc<dyn Any + Send + Sync>>;

impl Common {
    /// The object of type `T` of an element: the first copy that asks makes it.
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

/// What the workers' copies of an element have in common for as long as they need the same, such as a large table that is
/// only read. It goes when the last of them has something else. An element gets it by [`Common::get_or_make`].
#[derive(Debug)]
pub struct Same<T>(Mutex<Weak<T>>);

impl<T> Default for Same<T> {
    fn default() -> Same<T> {
        Same(Mutex::new(Weak::new()))
    }
}

impl<T> Same<T> {
    /// What another copy has made, if it is what would be made `of` this; else something new. Copies that ask meanwhile
    /// wait for it.
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
    /// A graph without elements yet.
    pub fn new(burst: Option<usize>) -> Setup {
        Setup { burst, workers: 1, ..Setup::default() }
    }

    /// Whether packets of one flow come to several workers.
    pub fn is_spread(&self) -> bool {
        self.workers > 1 && self.spreading.is_some()
    }

    /// The end of flow states that this worker's copy of an element has of those of all copies, with the hash function of their
    /// keys. Each worker has room for so many flows.
    ///
    /// A copy that takes the place of another one of its worker gets a new one, and so do those at other workers when
    /// their turn comes; until then each of the two kinds finds nothing of the other's.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn flow_states<K, V>(
        &self,
        element: ElementId,
        capacity: usize,
    ) -> Result<(CoreStates<K, V>, KeyHasher), TableError>
    where
        K: Key + Any + Send + Sync,
        V: Plain + Any + Send + Sync,
    {
        /// The ends that no worker has taken yet.
        type Ends<K, V> = (Mutex<Vec<Option<CoreStates<K, V>>>>, KeyHasher);
        // Whoever wants keys to collide does not know the hash function.
        let make = || (Mutex::default(), KeyHasher::new(secret()));
        let all: Arc<Ends<K, V>> = self.common.get_or_make(element, make);
        let mut ends = all.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(mut end) = ends.get_mut(self.worker).and_then(Option::take) {
                end.tell(self.known());
                return Ok((end, all.1.clone()));
            }
            *ends =
                CoreStates::new(self.workers.max(self.worker + 1), capacity)?.into_iter().map(Some).collect();
        }
    }

    /// The flows that are found in [`flow_states`](Self::flow_states) of any element and any worker.
    pub fn known(&self) -> Arc<Known> {
        self.common.get_or_make(0, Known::default)
    }

    /// The element that `name` means inside the compound `scope` (empty, or ending in a slash): the innermost
    /// one.
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

    /// The tickets of an element's task. What was said of the element itself in the outermost compound counts;
    /// what was said of compounds that it stands in further out multiplies it.
    pub fn tickets(&self, element: &str) -> u32 {
        let mut tickets = u64::from(TICKETS_OF_ONE);
        let mut scope = scope_of(element);
        loop {
            let here = self.schedule.iter().filter(|(compound, ..)| compound == scope);
            let of_element = here.filter_map(|(_, name, tickets)| {
                let rest = element.strip_prefix(scope)?.strip_prefix(name.as_str())?;
                (rest.is_empty() || rest.starts_with('/')).then_some((rest.len(), *tickets))
            });
            // The nearest name counts; of two that are the same, the last one.
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

    /// Offers `service` to other elements under the number of the element that has it.
    pub fn publish<T: Any + Send + Sync>(&mut self, element: ElementId, service: Arc<T>) {
        self.services.insert((TypeId::of::<T>(), element), service);
    }

    /// The service of type `of` that an element has published.
    pub fn service_of(&self, element: ElementId, of: TypeId) -> Option<Arc<dyn Any + Send + Sync>> {
        self.services.get(&(of, element)).cloned()
    }

    /// The service of type `T` that an element has published.
    pub fn service<T: Any + Send + Sync>(&self, element: ElementId) -> Option<Arc<T>> {
        self.service_of(element, TypeId::of::<T>()).and_then(|service| service.downcast().ok())
    }
}

/// The compound that an element stands in: its name up to and with the last slash.
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
