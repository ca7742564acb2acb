//! Handler calls that wait for a count.

use std::sync::Arc;

use element::args::parse_integer;
use element::{Call, Class, Cx};

/// A call that is made once when a count is reached.
pub(crate) struct Trigger {
    /// The count.
    pub(crate) at: u64,
    pub(crate) call: Arc<Call>,
    /// Whether it has still to be made.
    pub(crate) armed: bool,
}

impl Trigger {
    /// Reads `N HANDLER [VALUE]`; `unsigned` is the text for what is no number. A handler without an element is the
    /// element's own if its class has it.
    pub(crate) fn parse(text: &str, unsigned: &str, cx: &Cx<'_>, class: &Class) -> Result<Trigger, String> {
        let (count, call) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), "stop"));
        let at = parse_integer(count).ok().and_then(|n| u64::try_from(n).ok()).ok_or(unsigned)?;
        let own = |name: &str| class.handlers.iter().any(|h| h.name == name).then_some(cx.id());
        Ok(Trigger { at, call: Arc::new(Call::parse(call, cx, own)?), armed: true })
    }

    /// The call, if the count has just come to `now` by `step`.
    pub(crate) fn check(trigger: &mut Option<Trigger>, now: u64, step: u64) -> Option<Arc<Call>> {
        let trigger = trigger.as_mut()?;
        if !trigger.armed || now < trigger.at || trigger.at <= now - step {
            return None;
        }
        trigger.armed = false;
        Some(Arc::clone(&trigger.call))
    }

    /// The call, if it has not been made yet and the count is at least as large as it should be.
    pub(crate) fn check_above(trigger: &mut Option<Trigger>, now: u64) -> Option<Arc<Call>> {
        let trigger = trigger.as_mut().filter(|trigger| trigger.armed && now >= trigger.at)?;
        trigger.armed = false;
        Some(Arc::clone(&trigger.call))
    }
}
