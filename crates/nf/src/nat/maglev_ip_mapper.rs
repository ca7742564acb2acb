//! # MaglevIPMapper
//! Lets translators choose among several patterns by consistent hashing, for example to balance load.
//!
//! A translator that names this element in an input's specification calls it for each new flow. The flow's
//! addresses and ports select an entry of a table, and so a pattern (Eisenbud et al., "Maglev", NSDI 2016).
//! The numbers of entries per pattern differ by one at most; when a pattern is removed or added, few entries
//! of the other patterns change; and several translators of one class with the same patterns choose the same,
//! in whatever order the patterns are given. Flows that have a mapping keep it. Flows for whose pattern there
//! is no free port are dropped, and so are all new flows while no pattern is active.
//!
//! ## Usage
//! `MaglevIPMapper(PATTERN FOUTPUT ROUTPUT, ... [, KEYWORDS])`
//!
//! ## Arguments
//! - `PATTERN`: a pattern, or the name of one, and the outputs for the flow and its reply, as in IPRewriter.
//! - `CST_BUCKETS`: the number of entries of the table, rounded up to a prime number; use at least 100
//!   times the number of patterns.
//!
//! ## Handlers
//! - `servers`: a line for each pattern: its number, `active` or `inactive`, entries in the table, pattern.
//! - `nb_total_servers`: the number of patterns.
//! - `nb_active_servers`: the number of patterns that new flows can get.
//! - `add_server`: makes a pattern active, by its number.
//! - `remove_server`: makes a pattern inactive: new flows do not get it.
//!
//! ## Example
//! ```click
//! balancer :: MaglevIPMapper(- - 10.0.0.1 80 0 1, - - 10.0.0.2 80 0 1);
//! InfiniteSource(LIMIT 9) -> MarkIPHeader -> rw :: IPRewriter(balancer); rw[0] -> Discard; rw[1] -> Discard
//! ```
//!
//! ## See also
//! IPRewriter, RoundRobinIPMapper, SourceIPHashMapper, FlowIPLoadBalancer, IPRewriterPatterns

use std::any::Any;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use element::args::{ArgType, Args};
use element::class::{ArgInfo, ConfigurePhase};
use element::{Class, Cx, Effects, Element, Handler, Invalid, StatePart, manual};

use super::mapper::{self, Choice, Mapper};
use crate::balance::maglev::{Maglev, places};

/// The element class `MaglevIPMapper`.
pub static CLASS: Class = Class {
    name: "MaglevIPMapper",
    ports: "0/0",
    manual: manual!("maglev_ip_mapper.rs"),
    args: &[ArgInfo::rest("PATTERN", "pattern"), ArgInfo::keyword("CST_BUCKETS", "unsigned", "65537")],
    table: &HANDLERS,
    phase: ConfigurePhase::Service,
    state: &[StatePart::kept("inactive servers", &["servers", "nb_active_servers"])],
    samples: &["- - 10.0.0.1 80 0 1, - - 10.0.0.2 80 0 1"],
    build,
    ..Class::DEFAULT
};

fn build(args: &mut Args<'_>) -> Result<Box<dyn Element>, Invalid> {
    let places = places(args);
    let texts = args.rest();
    match texts.len() {
        0 => args.error("no patterns given"),
        1 => args.warn("only one pattern given"),
        n if n >= places.min(usize::from(u16::MAX)) => args.error("too many patterns"),
        _ => {}
    }
    let targets = mapper::targets(args, &texts);
    args.finish()?;
    // Consistent hashing uses the text of the pattern as its name. So the choice depends neither on the order
    // of the arguments, nor on the names by which patterns are given.
    let names = targets.iter().flatten().map(|target| target.pattern.to_string()).collect::<Vec<_>>();
    let active = vec![true; names.len()];
    let table = Mutex::new(table(places, &names, &active));
    let mapper = mapper::publish(args, "MaglevIPMapper", targets, Choice::Consistent(table))?;
    Ok(Box::new(MaglevIpMapper { mapper, places, names, active }))
}

fn table(places: usize, names: &[String], active: &[bool]) -> Maglev {
    let numbered = names.iter().zip(active).enumerate();
    let servers: Vec<(u16, &[u8])> = numbered
        .filter(|(_, (_, active))| **active)
        .map(|(number, (name, _))| (number as u16, name.as_bytes()))
        .collect();
    Maglev::new(places, &servers)
}

struct MaglevIpMapper {
    mapper: Arc<Mapper>,
    places: usize,
    names: Vec<String>,
    active: Vec<bool>,
}

/// The state that a mapper hands to the mapper that replaces it when the configuration changes: the texts
/// of the inactive patterns.
struct Inactive(Vec<String>);

impl MaglevIpMapper {
    /// Locks and returns the table by which patterns are chosen for new flows.
    fn current(&self) -> Option<MutexGuard<'_, Maglev>> {
        match &self.mapper.choice {
            Choice::Consistent(current) => Some(current.lock().unwrap_or_else(PoisonError::into_inner)),
            _ => None,
        }
    }

    fn update_choice(&mut self) {
        let fresh = table(self.places, &self.names, &self.active);
        if let Some(mut current) = self.current() {
            *current = fresh;
        }
    }
}

impl Element for MaglevIpMapper {
    fn effects(&self) -> Effects {
        Effects::none()
    }

    fn take_state(&mut self) -> Option<Box<dyn Any + Send>> {
        let inactive = self.names.iter().zip(&self.active).filter(|(_, active)| !**active);
        Some(Box::new(Inactive(inactive.map(|(name, _)| name.clone()).collect())))
    }

    fn put_state(&mut self, _cx: &mut Cx<'_>, state: Box<dyn Any + Send>) -> Result<(), String> {
        let Inactive(names) = *state.downcast().map_err(|_| "not the state of a MaglevIPMapper")?;
        for (name, active) in self.names.iter().zip(&mut self.active) {
            *active = !names.contains(name);
        }
        self.update_choice();
        Ok(())
    }
}

const HANDLERS: &[Handler<MaglevIpMapper>] = &[
    Handler::get("servers", |e| {
        let mut text = String::new();
        let shares = e.current().map(|table| table.shares(e.names.len())).unwrap_or_default();
        let rows = e.names.iter().zip(&e.active).zip(shares).enumerate();
        for (number, ((name, active), places)) in rows {
            let state = if *active { "active" } else { "inactive" };
            let _ = writeln!(text, "{number} {state} {places} {name}");
        }
        text
    }),
    Handler::get("nb_total_servers", |e| e.names.len().to_string()),
    Handler::get("nb_active_servers", |e| e.active.iter().filter(|active| **active).count().to_string()),
    Handler::set("add_server", |e, cx, value| e.set_active(cx, value, true)),
    Handler::set("remove_server", |e, cx, value| e.set_active(cx, value, false)),
];

impl MaglevIpMapper {
    fn set_active(&mut self, cx: &Cx<'_>, number: &str, active: bool) -> Result<(), String> {
        let number = usize::parse(number, &cx.place()).map_err(|_| "expected number of a pattern")?;
        *self.active.get_mut(number).ok_or("no pattern has this number")? = active;
        self.update_choice();
        Ok(())
    }
}
