//! Handler calls that an element makes when one of its counts reaches a number, as configured with
//! arguments such as COUNT_CALL.

use std::sync::Arc;

use element::args::parse_integer;
use element::{Call, Class, Cx};

/// A handler call that is made once, when a count has reached `at`.
pub(crate) struct Trigger {
    /// The count at which the call is made.
    pub(crate) at: u64,
    pub(crate) call: Arc<Call>,
    /// True if the call concerns other elements: it neither stops the driver, nor writes a handler of the
    /// element itself.
    pub(crate) is_foreign: bool,
    /// True until the call is made. The element can arm the trigger again.
    pub(crate) armed: bool,
}

impl Trigger {
    /// Parses `N HANDLER [VALUE]`; N alone means `N stop`. A handler name without an element is the
    /// element's own handler if its class has one with this name.
    ///
    /// # Errors
    /// The text `unsigned` if N is not a number; otherwise the reason why the handler cannot be called.
    pub(crate) fn parse(text: &str, unsigned: &str, cx: &Cx<'_>, class: &Class) -> Result<Trigger, String> {
        let (count, call) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), "stop"));
        let at = parse_integer(count).ok().and_then(|n| u64::try_from(n).ok()).ok_or(unsigned)?;
        let own = |name: &str| class.each_handler().any(|h| h.name == name).then_some(cx.id());
        let call = Call::parse(call, cx, own)?;
        let is_stop = call.element.is_none() && call.handler == "stop";
        let is_foreign = !is_stop && call.element != Some(cx.id());
        Ok(Trigger { at, call: Arc::new(call), is_foreign, armed: true })
    }

    /// Returns the count at which a trigger has made its call; `None` if it has not. The element that
    /// replaces this element in a reload passes the count to [`skip`](Self::skip).
    pub(crate) fn spent(trigger: &Option<Trigger>) -> Option<u64> {
        trigger.as_ref().filter(|trigger| !trigger.armed).map(|trigger| trigger.at)
    }

    /// Disarms a trigger for the count `spent`, because the element that is replaced in a reload has already
    /// made the call at this count.
    pub(crate) fn skip(trigger: &mut Option<Trigger>, spent: Option<u64>) {
        if let Some(trigger) = trigger.as_mut().filter(|trigger| Some(trigger.at) == spent) {
            trigger.armed = false;
        }
    }

    /// Returns the call if it has not been made yet and the last increment of the count, by `step` to `now`,
    /// has taken the count from below `at` to `at` or more. A count that was already beyond `at` when the
    /// trigger was set makes no call.
    pub(crate) fn check(trigger: &mut Option<Trigger>, now: u64, step: u64) -> Option<Arc<Call>> {
        let trigger = trigger.as_mut()?;
        if !trigger.armed || now < trigger.at || trigger.at <= now - step {
            return None;
        }
        trigger.armed = false;
        Some(Arc::clone(&trigger.call))
    }

    /// Returns the call if it has not been made yet and the count `now` is at least `at`. Unlike in
    /// [`check`](Self::check), the count may have been beyond `at` when the trigger was set.
    pub(crate) fn check_above(trigger: &mut Option<Trigger>, now: u64) -> Option<Arc<Call>> {
        let trigger = trigger.as_mut().filter(|trigger| trigger.armed && now >= trigger.at)?;
        trigger.armed = false;
        Some(Arc::clone(&trigger.call))
    }
}
