//! The network functions of a chain: their graphs, and the elements that are their interfaces.

use element::Registry;
use element::class::ArgKind;
use element::ports::ranges;
use lang::{Graph, GraphElement};

use super::prop::Word;

/// A network function: its name, its graph, and its interfaces.
pub(super) struct Function {
    pub(super) name: Word,
    pub(super) graph: Graph,
    pub(super) devices: Vec<Device>,
    /// True if the configuration was found and has no errors, so that all of its interfaces are known.
    pub(super) is_whole: bool,
}

/// An element that receives packets from an interface, or sends packets to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    /// The index of the element in the function's graph.
    pub(super) element: usize,
    pub(super) interface: String,
    pub(super) sends: bool,
}

/// The elements of a function that send to one interface, and those that receive from it, by their index in
/// the function's graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) senders: Vec<usize>,
    pub(super) receivers: Vec<usize>,
}

impl Function {
    /// Returns the elements of the function at the interface `name`; `None` if there are none. Names that
    /// differ only by a prefix such as `netmap:` on one side are equal.
    pub(super) fn interface(&self, name: &str) -> Option<Interface> {
        let mut found = Interface::default();
        for device in self.devices.iter().filter(|device| is_same(&device.interface, name)) {
            let list = if device.sends { &mut found.senders } else { &mut found.receivers };
            list.push(device.element);
        }
        (found != Interface::default()).then_some(found)
    }

    /// Returns the names of the function's interfaces, in the order of their first elements.
    pub(super) fn interfaces(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for device in &self.devices {
            if !names.contains(&device.interface.as_str()) {
                names.push(&device.interface);
            }
        }
        names
    }

    /// True if any output of an element, from output number `from` on, is connected.
    pub(super) fn is_connected(&self, element: usize, from: usize) -> bool {
        let leads = |port: (usize, usize)| port.0 == element && port.1 >= from;
        self.graph.connections.iter().any(|connection| leads(connection.from))
    }
}

/// Returns the elements of a graph that send to interfaces or receive from them, in the order of the graph.
pub(super) fn devices(graph: &Graph, registry: &Registry) -> Vec<Device> {
    let device = |(number, element): (usize, &GraphElement)| {
        let sends = sends(&element.class, registry)?;
        let interface = interface(element, registry)?;
        Some(Device { element: number, interface, sends })
    };
    graph.elements.iter().enumerate().filter_map(device).collect()
}

/// Returns true if the elements of a class send to an interface, false if they receive from one, `None` if
/// neither. An interface class declares queues to the outside, and its first argument is the name of an
/// interface.
fn sends(class: &str, registry: &Registry) -> Option<bool> {
    let Some(class) = registry.get(class) else {
        // The name of an unknown class, such as FromNetmapDevice, tells if its elements send or receive. An
        // element at a joined interface is replaced, so its class need not exist.
        let is = |start: &str| class.starts_with(start) && class.ends_with("Device");
        return if is("To") { Some(true) } else { is("From").then_some(false) };
    };
    let first = class.args.first()?;
    let names_interface = first.kind == ArgKind::Required && ["interface", "port"].contains(&first.ty);
    let (inputs, _) = ranges(class.ports, 0)?;
    (names_interface && class.notes.has_queues).then_some(inputs.most > 0)
}

/// Returns the name of the interface that an element receives from or sends to: its first argument, by
/// position or by keyword. Returns `None` if it is empty.
fn interface(element: &GraphElement, registry: &Registry) -> Option<String> {
    let args = lang::args::split(&element.config);
    let keyword = registry.get(&element.class).and_then(|class| class.args.first()).map(|arg| arg.name);
    let named = args.iter().find_map(|arg| {
        let (word, value) = arg.text.split_once(char::is_whitespace)?;
        (Some(word) == keyword).then_some(value)
    });
    let text = named.or(args.first().map(|arg| arg.text.as_str()))?;
    Some(lang::args::unquote(text.trim())).filter(|name| !name.is_empty())
}

/// True if two names mean the same interface: they are equal, or equal without the driver prefix of one of
/// them.
fn is_same(one: &str, other: &str) -> bool {
    one == other || bare(one) == other || one == bare(other)
}

/// Returns an interface name without its driver prefix: `e0` for `netmap:e0`.
fn bare(name: &str) -> &str {
    match name.split_once(':') {
        Some((kind, rest)) if !kind.is_empty() && kind.bytes().all(|b| b.is_ascii_alphabetic()) => rest,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use lang::{Options, Sources, parse};

    use super::*;

    #[test]
    fn devices_are_found_by_what_their_classes_say() {
        let text = "FromDevice(netmap:e0, SNAPLEN 9) -> Queue -> ToDevice(BURST 1, DEVNAME \"e1\");
            FromDPDKDevice(0000:04:00.0) -> ToDPDKDevice(0); FromNetmapDevice(e2) -> ToNetmapDevice(e2);
            FromXDP(e3) -> ToXDP(e4); FromDump(x) -> ToDump(y); KernelTap(1.0.0.1/8) -> FromDevice; FromHost(e5) -> ToHost(e5)";
        let mut sources = Sources::new();
        let id = sources.add("t", text);
        let (graph, _) = parse(&mut sources, id, &Options::default());
        let devices = devices(&graph, &testkit::registry());
        let shown = |device: &Device| format!("{}{}", if device.sends { ">" } else { "<" }, device.interface);
        assert_eq!(
            devices.iter().map(shown).collect::<Vec<_>>(),
            ["<netmap:e0", ">e1", "<0000:04:00.0", ">0", "<e2", ">e2", "<e3", ">e4"]
        );
    }

    #[test]
    fn names_are_the_same_with_and_without_their_driver() {
        assert!(is_same("netmap:e0", "e0") && is_same("e0", "netmap:e0") && is_same("e0", "e0"));
        assert!(!is_same("netmap:e0", "dpdk:e0") && !is_same("e0:1", "1") && !is_same(":e0", "e0"));
    }
}
