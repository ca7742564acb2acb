//! The queues whose lengths determine what an element does (RED, CoDel, Unqueue2): the queues that its
//! argument QUEUES names, or else the nearest queues upstream or downstream.

use std::sync::Arc;

use element::{Args, Cx, ElementId};

use super::fifo::Occupancy;

/// The queues that an element watches: their names, with their [`Occupancy`], which tells the numbers of
/// packets in them.
#[derive(Default)]
pub(crate) struct Watched {
    named: Vec<ElementId>,
    found: Vec<(String, Arc<Occupancy>)>,
}

impl Watched {
    /// Parses element names that are separated by spaces. A name without an element is reported to `args`.
    /// If there are no names, [`find`](Self::find) looks up the nearest queues.
    pub(crate) fn read(args: &mut Args<'_>, names: &str) -> Watched {
        let mut named = Vec::new();
        for name in names.split_whitespace() {
            match args.place().element(name) {
                Some(id) => named.push(id),
                None => args.error(format!("no element named '{name}'")),
            }
        }
        Watched { named, found: Vec::new() }
    }

    /// Looks up the named queues or, without names, the nearest queues: downstream if `downstream` is true,
    /// otherwise upstream.
    ///
    /// # Errors
    /// If a named element is not a queue, or if there are no queues.
    pub(crate) fn find(&mut self, cx: &Cx<'_>, downstream: bool) -> Result<(), String> {
        self.find_any(cx, downstream)?;
        if self.found.is_empty() { Err("no nearby Queues".into()) } else { Ok(()) }
    }

    /// Looks up the queues like [`find`](Self::find), but it is not an error if there are none.
    pub(crate) fn find_any(&mut self, cx: &Cx<'_>, downstream: bool) -> Result<(), String> {
        if self.named.is_empty() {
            let nearest = cx.graph().nearest_services(downstream);
            let named = |(id, queue)| (cx.graph().name_of(id).to_string(), queue);
            self.found = nearest.into_iter().map(named).collect();
        }
        for &id in &self.named {
            let service = cx.graph().service(id);
            let name = cx.graph().name_of(id);
            let service = service.ok_or_else(|| format!("'{name}' is not a Storage element"))?;
            self.found.push((name.to_string(), service));
        }
        Ok(())
    }

    /// Returns the number of packets for which each of the queues has room; `usize::MAX` if there are no
    /// queues.
    pub(crate) fn room(&self) -> usize {
        self.found.iter().map(|(_, queue)| queue.room()).min().unwrap_or(usize::MAX)
    }

    /// Returns the number of packets in all queues together.
    pub(crate) fn length(&self) -> usize {
        self.found.iter().map(|(_, queue)| queue.get()).sum()
    }

    /// Returns the names of the queues, one per line.
    pub(crate) fn list(&self) -> String {
        self.names().map(|name| format!("{name}\n")).collect()
    }

    /// Returns the names of the queues.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.found.iter().map(|(name, _)| name.as_str())
    }
}
