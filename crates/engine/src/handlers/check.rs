//! Finds handler calls in arguments whose handler does not exist, or cannot be read or written as the call
//! does, before anything runs.

use element::args::Scope;
use element::class::{ANY_HANDLER, Access};
use element::{Call, Class, Element, ElementId, PlannedCall};
use lang::{Diagnostic, Severity, nearest};

use crate::configure::Configured;
use crate::handlers;
use crate::plan::Plan;
use crate::problem::Problem;

impl Plan {
    /// Returns a problem for each planned handler call of an element that cannot succeed: an error if every
    /// run makes the call, otherwise a warning.
    pub fn unknown_calls(&self, configured: &Configured) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (id, element) in configured.elements.iter().enumerate() {
            let of_types = self.calls_by_type(id);
            for call in of_types.into_iter().chain(element.planned_calls()) {
                if let Some((text, hint)) = self.what_is_wrong(configured, id, &call) {
                    let severity = if call.is_certain { Severity::Error } else { Severity::Warning };
                    let mut diagnostic = Diagnostic::error(self.argument_span(id, Some(call.argument)), text);
                    (diagnostic.severity, diagnostic.hint) = (severity, Some(hint));
                    problems.push(Problem {
                        context: Some(format!("'{}'", self.declaration(id))),
                        context_span: Some(self.graph.elements[id].span),
                        diagnostic,
                    });
                }
            }
        }
        problems
    }

    /// Returns the handler calls in keyword arguments whose declared type is a handler call.
    fn calls_by_type(&self, id: ElementId) -> Vec<PlannedCall> {
        let class = self.classes[id];
        let arguments = lang::args::split(&self.graph.elements[id].config).into_iter().enumerate();
        let call = |(argument, given): (usize, lang::args::Arg)| {
            let (name, value) = given.text.split_once(char::is_whitespace)?;
            let text = match class.arg(name)?.ty {
                "HANDLER [VALUE]" => value.trim(),
                // Without a handler, the argument means the graph's `stop`, which always exists.
                "N HANDLER [VALUE]" => value.trim().split_once(char::is_whitespace)?.1.trim(),
                _ => return None,
            };
            Some(PlannedCall { text: text.to_string(), writes: true, is_certain: false, argument })
        };
        arguments.filter_map(call).collect()
    }

    /// Returns the message about a planned call that cannot succeed, and a hint. Returns `None` if the
    /// handler exists and allows the access.
    fn what_is_wrong(
        &self,
        configured: &Configured,
        id: ElementId,
        planned: &PlannedCall,
    ) -> Option<(String, String)> {
        let find = |id: ElementId, name: &str| {
            handlers::find(self.classes[id], Some(&*configured.elements[id]), self.has_task(id), name)
        };
        let place = Scope::new(&configured.setup, id);
        let own = |name: &str| find(id, name).map(|_| id);
        let call = match Call::of_configuration(&planned.text, &place, own) {
            Ok(call) => call,
            Err(reason) => {
                let names = configured.setup.elements.iter().map(|(name, _)| name.as_str());
                let word = planned.text.split('.').next().unwrap_or_default();
                let hint = nearest(word, names).map(|near| format!("did you mean '{near}'?"));
                return Some((reason, hint.unwrap_or_else(|| "write ELEMENT.HANDLER".into())));
            }
        };
        let access = match call.element {
            Some(id) => find(id, &call.handler),
            None => handlers::of_graph(&call.handler),
        };
        let (fits, kind) = match access {
            Some(access) if planned.writes => (access.write, "write"),
            Some(access) => (access.read, "read"),
            None => (false, if planned.writes { "write" } else { "read" }),
        };
        if fits {
            return None;
        }
        let name = match call.element {
            Some(id) => format!("{}.{}", self.graph.elements[id].name, call.handler),
            None => call.handler.clone(),
        };
        let known = call.element.map(|id| handler_names(self.classes[id], &*configured.elements[id]));
        let near = known.as_ref().and_then(|known| nearest(&call.handler, known.iter().map(String::as_str)));
        let hint = match (near, call.element) {
            (Some(near), _) => format!("did you mean '{near}'?"),
            (None, Some(id)) => format!("`tidegate elements {}` shows the handlers", self.classes[id].name),
            (None, None) => "write ELEMENT.HANDLER".into(),
        };
        Some((format!("no '{name}' {kind} handler"), hint))
    }
}

/// Returns the names with which a misspelt handler is compared: the handlers of the element's class, and
/// handlers that depend on its arguments, without the handlers that every element has.
fn handler_names(class: &Class, element: &dyn Element) -> Vec<String> {
    let own =
        class.own_handlers(element).into_iter().filter(|(name, _): &(String, Access)| name != ANY_HANDLER);
    class.each_handler().map(|handler| handler.name.to_string()).chain(own.map(|(name, _)| name)).collect()
}
