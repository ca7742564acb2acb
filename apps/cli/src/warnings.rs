//! The warnings about the running configuration, so that a reload shows only warnings that are new.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::Problem;
use lang::Severity;

/// The warnings about the running configuration, without their lines and columns: a warning stays the same if
/// lines are added above it.
pub(crate) struct Warnings(Mutex<Counts>);

/// The number of warnings for each context (the element) and message.
type Counts = BTreeMap<(Option<String>, String), usize>;

/// Returns the context and the message of a warning, and `None` for an error.
fn key(problem: &Problem) -> Option<(Option<String>, String)> {
    let diagnostic = &problem.diagnostic;
    (diagnostic.severity != Severity::Error).then(|| (problem.context.clone(), diagnostic.message.clone()))
}

fn count(problems: &[Problem]) -> Counts {
    problems.iter().filter_map(key).fold(Counts::new(), |mut counts, key| {
        *counts.entry(key).or_default() += 1;
        counts
    })
}

impl Warnings {
    /// Takes the warnings among the problems of the configuration that a run starts with.
    pub(crate) fn of(problems: &[Problem]) -> Warnings {
        Warnings(Mutex::new(count(problems)))
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the warnings that the running configuration has from the problems of another configuration.
    /// Returns all warnings of the other configuration, for [`replace`](Self::replace).
    pub(crate) fn remove_known(&self, problems: &mut Vec<Problem>) -> Counts {
        let all = count(problems);
        let mut known = self.lock().clone();
        problems.retain(|problem| match key(problem).and_then(|key| known.get_mut(&key)) {
            Some(left @ 1..) => {
                *left -= 1;
                false
            }
            _ => true,
        });
        all
    }

    /// Replaces the warnings, because another configuration runs now. Returns the warnings of the previous
    /// configuration.
    pub(crate) fn replace(&self, by: Counts) -> Counts {
        std::mem::replace(&mut *self.lock(), by)
    }
}

#[cfg(test)]
mod tests {
    use lang::{Diagnostic, Span};

    use super::*;

    fn problems(texts: &[&str], severity: Severity) -> Vec<Problem> {
        let problem = |text: &&str| {
            let mut diagnostic = Diagnostic::error(Span::default(), (*text).to_string());
            diagnostic.severity = severity;
            Problem::new(diagnostic)
        };
        texts.iter().map(problem).collect()
    }

    #[test]
    fn only_new_warnings_are_left() {
        let warnings = Warnings::of(&problems(&["a", "b"], Severity::Warning));
        let mut next = problems(&["a", "c", "a"], Severity::Warning);
        let all = warnings.remove_known(&mut next);
        let left: Vec<&str> = next.iter().map(|problem| problem.diagnostic.message.as_str()).collect();
        assert_eq!(left, ["c", "a"], "the second of two equal warnings is new");
        let before = warnings.replace(all);
        let mut same = problems(&["a", "a", "c"], Severity::Warning);
        warnings.remove_known(&mut same);
        assert!(same.is_empty());
        // The new configuration could not be initialised, so that the old configuration and its warnings are
        // restored.
        warnings.replace(before);
        let mut first = problems(&["b", "c"], Severity::Warning);
        warnings.remove_known(&mut first);
        assert_eq!(first.len(), 1);
        let mut errors = problems(&["a"], Severity::Error);
        warnings.remove_known(&mut errors);
        assert_eq!(errors.len(), 1, "an error is no known warning");
    }
}
