//! # ToHost
//! Passes frames to the machine's own network stack, over the TAP interface of a FromHost.
//!
//! The machine takes only frames that are sent to the interface's Ethernet address, to a group, or to all
//! hosts.
//!
//! ## Usage
//! `ToHost(DEVNAME)`
//!
//! ## Arguments
//! - `DEVNAME`: the interface, which a FromHost creates.
//!
//! ## Handlers
//! - `dev_name`: the name of the interface.
//! - `drops`: frames that could not be written to the interface.
//!
//! ## Example
//! ```click
//! FromHost(fake, 192.0.2.1/24) -> Discard;
//! FromDump(capture.pcap) -> ToHost(fake)
//! ```
//!
//! ## See also
//! FromHost, KernelTap

use std::sync::Arc;
use std::sync::atomic::Ordering;

use element::class::ArgInfo;
use element::effects::{Case, Field, Filter, Support, Target};
use element::{Batch, Class, Cx, DropReason, Effects, Element, Handler, StatePart, manual};

use super::host::Transmitter;
use super::host_interface::HostInterface;
use super::sys::tun::Tun;

/// The element class ToHost.
pub static CLASS: Class = Class {
    name: "ToHost",
    ports: "1/0",
    processing: "h",
    manual: manual!("to_host.rs"),
    args: &[ArgInfo::required("DEVNAME", "interface")],
    table: &HANDLERS,
    state: &[StatePart::kept("counts", &["drops"])],
    // No samples for the generic tests, because the element needs an interface. Tests between network
    // namespaces cover its behaviour.
    samples: &[],
    build: |args| {
        let name: String = args.required("DEVNAME");
        args.finish()?;
        Ok(Box::new(ToHost {
            name,
            transmitter: Transmitter::default(),
            interface: None,
            tun: None,
            changes: 0,
        }))
    },
    ..Class::DEFAULT
};

struct ToHost {
    name: String,
    transmitter: Transmitter,
    /// The interface that a FromHost of this worker has created, found when the element is initialized.
    interface: Option<Arc<HostInterface>>,
    /// The open file of the interface. The interface has another file after it was removed and created
    /// again.
    tun: Option<Arc<Tun>>,
    /// The value of the interface's `changes` when `push` last fetched the file; 0 before the first time. If
    /// it differs, the file is fetched again.
    changes: u32,
}

impl Element for ToHost {
    fn effects(&self) -> Effects {
        let sent = Effects::cases(vec![Case::new(Filter::TRUE, Target::Send)]);
        Effects {
            support: Support { offloads: Some(-14), ..Support::default() },
            ..sent.observing(&[Field::Length, Field::Payload])
        }
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.transmitter.start(cx);
        let elements = 0..cx.place().elements();
        let mut interfaces = elements.filter_map(|id| cx.graph().service::<HostInterface>(id));
        self.interface =
            interfaces.find(|interface| interface.name == self.name && interface.get().is_some());
        self.tun = self.interface.as_ref().and_then(|interface| interface.get());
        let name = &self.name;
        let here = if cx.worker().1 > 1 { ", on the same thread (StaticThreadSched)" } else { "" };
        let missing =
            || format!("ToHost({name}) requires an initialized FromHost with the same dev_name{here}");
        self.tun.is_some().then_some(()).ok_or_else(missing)
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: Batch) -> Option<Batch> {
        if let Some(interface) = &self.interface {
            let changes = interface.changes.load(Ordering::Acquire);
            if changes != self.changes {
                (self.tun, self.changes) = (interface.get(), changes);
            }
        }
        match &self.tun {
            Some(tun) => self.transmitter.send(cx, tun, true, batch),
            None => cx.drop_all(batch, DropReason::NotConnected),
        }
        None
    }

    fn close(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.transmitter.end(cx, &self.name);
        self.tun = None;
        Ok(())
    }

    element::keeps!(transmitter.drops);
}

const HANDLERS: &[Handler<ToHost>] =
    &[Handler::get("dev_name", |e| e.name.clone()), Handler::count("drops", |e| e.transmitter.drops)];

#[cfg(test)]
mod tests {
    use testkit::TestRun;

    #[test]
    fn somebody_has_to_make_the_interface() {
        let errors = TestRun::default().text("Idle -> ToHost(fake)", &[]).unwrap_err();
        assert!(
            errors.contains("ToHost(fake) requires an initialized FromHost with the same dev_name"),
            "{errors}"
        );
    }
}
