//! # IPRewriterPatterns
//! Gives names to patterns of IPRewriter and related translators.
//!
//! Translators that use the same name share the pattern, and so the position from which `#` continues. A
//! name is known in the compound that contains this element, and in the compounds inside it.
//!
//! ## Usage
//! `IPRewriterPatterns(NAME SADDR SPORT DADDR DPORT, ...)`
//!
//! ## Arguments
//! - `NAME`: a name, and the pattern that it means.
//!
//! ## Example
//! ```click
//! IPRewriterPatterns(out 192.0.2.1 1024-65535 - -); InfiniteSource(LIMIT 9) -> MarkIPHeader -> rw ::
//! IPRewriter(pattern out 0 1); rw[0] -> Discard; rw[1] -> Discard
//! ```
//!
//! ## See also
//! IPRewriter, TCPRewriter, UDPRewriter, IPAddrRewriter, RoundRobinIPMapper

use std::sync::Arc;

use element::class::{ArgInfo, ConfigurePhase};
use element::{Class, manual};

use super::mapper::Silent;
use super::pattern::{Named, Names, Pattern, all_names, words};

/// The element class `IPRewriterPatterns`.
pub static CLASS: Class = Class {
    name: "IPRewriterPatterns",
    ports: "0/0",
    manual: manual!("ip_rewriter_patterns.rs"),
    args: &[ArgInfo::rest("NAME", "name pattern")],
    phase: ConfigurePhase::Information,
    samples: &["", "a 1.0.0.1 1024-2000# - -, b 1.0.0.0/24 -"],
    build: |args| {
        let element = args.name();
        let others = all_names(args.setup);
        let mut names = Names::default();
        args.each_of_rest(|args, _, text| {
            let words = words(text);
            let Some((name, pattern)) = words.split_first() else { return };
            let named = Named { place: args.place(), element: &element, names: &others };
            let is_known = named.get(name).is_some() || names.0.iter().any(|(known, _)| known == name);
            let found = match is_known {
                true => Err(format!("pattern '{name}' already defined")),
                false => match pattern {
                    [other] => own_or_others(&names, &named, other),
                    _ => Pattern::parse(pattern, &named.place).map(Arc::new),
                },
            };
            match found {
                Ok(pattern) => names.0.push((name.clone(), pattern)),
                Err(error) => args.error(error),
            }
        });
        args.finish()?;
        args.setup.publish(args.id(), Arc::new(names));
        Ok(Box::new(Silent))
    },
    ..Class::DEFAULT
};

/// Returns the pattern with this name, defined by an earlier argument of this element, or else by another
/// element. The error says that the name is unknown.
fn own_or_others(own: &Names, named: &Named<'_>, name: &str) -> Result<Arc<Pattern>, String> {
    let known = own.0.iter().find(|(known, _)| known == name);
    let found = known.map(|(_, pattern)| Arc::clone(pattern)).or_else(|| named.get(name));
    found.ok_or_else(|| format!("no such pattern '{name}'"))
}
