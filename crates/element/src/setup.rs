//! What elements share while a graph is being built: names, threads, services, the list of elements.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::ElementId;
use crate::class::Class;
use crate::names::Names;

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
    services: HashMap<(TypeId, ElementId), Arc<dyn Any + Send + Sync>>,
}

impl Setup {
    /// A graph without elements yet.
    pub fn new(burst: Option<usize>) -> Setup {
        Setup { burst, ..Setup::default() }
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
