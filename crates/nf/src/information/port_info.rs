//! # PortInfo
//! Gives names to TCP and UDP ports.
//!
//! Names can be used in filters, in the compound element where they are declared and inside it. They take
//! precedence over the names that are known everywhere. Text after `#` is a comment.
//!
//! ## Usage
//! `PortInfo(NAME PORT[/PROTOCOL] [NAME ...], ...)`
//!
//! ## Arguments
//! - `NAME`: a name, its port, `/tcp` or `/udp` if the name is for one protocol only, and further names of
//!   the same port.
//!
//! ## Example
//! ```click
//! PortInfo(metrics 9100/tcp node-exporter);
//! InfiniteSource(LIMIT 1) -> c :: IPClassifier(dst tcp port metrics, -) -> Discard; c[1] -> Discard
//! ```
//!
//! ## See also
//! AddressInfo, IPClassifier

use element::args::parse_integer;
use element::class::{ArgInfo, ConfigurePhase};
use element::setup::scope_of;
use element::{Class, Effects, Element, manual};
use wire::ip_protocol;

/// The element class `PortInfo`.
pub static CLASS: Class = Class {
    name: "PortInfo",
    ports: "0/0",
    manual: manual!("port_info.rs"),
    args: &[ArgInfo::rest("NAME", "name port ...")],
    phase: ConfigurePhase::Information,
    samples: &["", "a 1234/udp b, c 99"],
    build: |args| {
        let scope = scope_of(&args.name()).to_string();
        args.each_of_rest(|args, _, text| {
            let text = text.split('#').next().unwrap_or_default();
            let words: Vec<&str> = text.split_whitespace().collect();
            let [name, port, more @ ..] = &words[..] else {
                if !words.is_empty() {
                    args.error("expected 'NAME PORT/PROTO'");
                }
                return;
            };
            let (port, protocol) = port.split_once('/').unwrap_or((port, ""));
            let Some(port) = parse_integer(port).ok().and_then(|port| u16::try_from(port).ok()) else {
                args.error("expected 'NAME PORT/PROTO'");
                return;
            };
            let protocols: &[u8] = match protocol.to_ascii_lowercase().as_str() {
                "" => &[ip_protocol::TCP, ip_protocol::UDP],
                "tcp" | "6" => &[ip_protocol::TCP],
                "udp" | "17" => &[ip_protocol::UDP],
                // A name for another protocol is accepted, but has no effect, because filters know only
                // ports of TCP and UDP.
                _ => &[],
            };
            for (name, &protocol) in
                more.iter().chain([name]).flat_map(|n| protocols.iter().map(move |p| (n, p)))
            {
                args.setup.names.set_port(&scope, name, protocol, port);
            }
        });
        args.finish()?;
        Ok(Box::new(PortInfo))
    },
    ..Class::DEFAULT
};

struct PortInfo;

impl Element for PortInfo {
    fn effects(&self) -> Effects {
        Effects::none()
    }
}
