//! The state that elements share while a graph is built: names, threads, services, the list of elements.

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

/// The number of tickets of a task that runs as often as others.
pub const TICKETS_OF_ONE: u32 = 1024;

/// The state of a graph under construction. The engine makes one per worker and lends it to each element in
/// turn, through [`crate::Args`].
#[derive(Default)]
pub struct Setup {
    /// The addresses that have names.
    pub names: Names,
    /// The threads that elements are assigned to.
    pub threads: BTreeMap<ElementId, usize>,
    /// The names and classes of all elements, by number.
    pub elements: Vec<(String, &'static Class)>,
    /// The numbers of elements, by name.
    pub by_name: HashMap<String, ElementId>,
    /// The packets that a source makes per call if its BURST is not given; `None` for Click's own defaults.
    pub burst: Option<usize>,
    /// The relative frequencies of tasks: the compound that sets a frequency, the element or compound
    /// inside it, and its tickets.
    pub schedule: Vec<(String, String, u32)>,
    /// The worker to which this copy of the graph belongs, from 0.
    pub worker: usize,
    /// The number of workers, each with a copy.
    pub workers: usize,
    /// The objects that the copies share.
    pub common: Arc<Common>,
    /// The way in which packets of one flow are spread over workers, if they are.
    pub spreading: Option<Arc<dyn Spreading>>,
    /// The files that elements have read while they were configured, for reports.
    pub inputs: Vec<PathBuf>,
    services: Services,
}

/// The objects that the workers' copies of a graph share, by type and element.
#[derive(Default)]
pub struct Common(Mutex<Services>);

type Services = HashMap<(TypeId, ElementId), Arc<dyn Any + Send + Sync>>;

impl Common {
    /// Returns the object of type `T` of an element. The first copy that asks makes it.
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

/// An object that the workers' copies of an element share as long as they need the same object, such as a
/// large table that is only read. It is freed when the last copy uses another object. An element gets the
/// `Same` by [`Common::get_or_make`].
#[derive(Debug)]
pub struct Same<T>(Mutex<Weak<T>>);

impl<T> Default for Same<T> {
    fn default() -> Same<T> {
        Same(Mutex::new(Weak::new()))
    }
}

impl<T> Same<T> {
    /// Returns the object that another copy has made, if `is_same` says that it equals the object that
    /// would be made from `of`; otherwise makes a new object. Other copies that ask at the same time wait
    /// for it.
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
    /// Makes the state for a graph without elements.
    pub fn new(burst: Option<usize>) -> Setup {
        Setup { burst, workers: 1, ..Setup::default() }
    }

    /// True if packets of one flow come to several workers.
    pub fn is_spread(&self) -> bool {
        self.workers > 1 && self.spreading.is_some()
    }

    /// Returns this worker's part of the flow states that all copies of an element share, with the hash
    /// function of their keys. Each worker has room for `capacity` flows.
    ///
    /// A copy that replaces another copy of the same worker gets a new part, and so do the copies of other
    /// workers when they are replaced. Until then the old and the new copies do not find each other's
    /// flows.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn flow_states<K, V>(
        &self,
        element: ElementId,
        capacity: usize,
    ) -> Result<(CoreStates<K, V>, KeyHasher), TableError>
    where
        K: Key + Any + Send + Sync,
        V: Plain + Any + Send + Sync,
    {
        /// The parts that no worker has taken yet, and the hash function.
        type Ends<K, V> = (Mutex<Vec<Option<CoreStates<K, V>>>>, KeyHasher);
        // The hash function is secret, so that an attacker cannot choose keys that collide.
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

    /// Returns the flows that are in the [`flow_states`](Self::flow_states) of any element and any worker.
    pub fn known(&self) -> Arc<Known> {
        self.common.get_or_make(0, Known::default)
    }

    /// Returns the element that `name` means inside the compound `scope` (empty, or with a slash at the
    /// end): the innermost element of that name.
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

    /// Returns the tickets of an element's task. The outermost compound that sets tickets for the element
    /// itself counts; settings of compounds further out, for compounds that contain the element, multiply
    /// these tickets.
    pub fn tickets(&self, element: &str) -> u32 {
        let mut tickets = u64::from(TICKETS_OF_ONE);
        let mut scope = scope_of(element);
        loop {
            let here = self.schedule.iter().filter(|(compound, ..)| compound == scope);
            let of_element = here.filter_map(|(_, name, tickets)| {
                let rest = element.strip_prefix(scope)?.strip_prefix(name.as_str())?;
                (rest.is_empty() || rest.starts_with('/')).then_some((rest.len(), *tickets))
            });
            // The longest name that matches counts; of two equal names, the last.
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

    /// Offers `service` to other elements under the number of the element that publishes it.
    pub fn publish<T: Any + Send + Sync>(&mut self, element: ElementId, service: Arc<T>) {
        self.services.insert((TypeId::of::<T>(), element), service);
    }

    /// Returns the service of type `of` that an element has published.
    pub fn service_of(&self, element: ElementId, of: TypeId) -> Option<Arc<dyn Any + Send + Sync>> {
        self.services.get(&(of, element)).cloned()
    }

    /// Returns the service of type `T` that an element has published.
    pub fn service<T: Any + Send + Sync>(&self, element: ElementId) -> Option<Arc<T>> {
        self.service_of(element, TypeId::of::<T>()).and_then(|service| service.downcast().ok())
    }
}

/// Returns the compound that contains an element: the element's name up to and including the last slash.
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
