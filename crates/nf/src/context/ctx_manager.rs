//! # CTXManager
//! Passes packets unchanged.
//!
//! In FastClick, the element classifies packets once for all elements downstream, and keeps memory per flow
//! for them. Here, CTXDispatcher classifies packets itself, and elements that keep state of flows have flow
//! tables of their own. So the element has nothing to do, and its arguments have no effect. Its variants in
//! FastClick have this class, too.
//!
//! ## Usage
//! `CTXManager([AGGCACHE, RESERVE, KEYWORDS])`
//!
//! ## Arguments
//! - `AGGCACHE`, `CACHESIZE`, `CACHERINGSIZE`, `AGGTRUST`: accepted; settings of FastClick's cache of flows.
//! - `RESERVE`: accepted; bytes for each flow.
//! - `BUILDER`, `NOCUT`, `EARLYDROP`, `ORDERED`, `OPTIMIZE`: accepted; settings of FastClick's
//!   classification.
//! - `CONTEXT`: the header with which packets start, `ETHER` or `NONE`; without effect.
//! - `CLEAN_TIMER`, `RELEASE`: accepted; the time after which FastClick removes flows.
//! - `VERBOSE`, `VERBOSE_FCB`: accepted.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> CTXManager(CACHESIZE 65536) -> c :: CTXDispatcher(12/0800, -);
//! c[0] -> Discard; c[1] -> Discard
//! ```
//!
//! ## See also
//! CTXDispatcher, FlowIPManager

use element::class::ArgInfo;
use element::{Class, Effects, Element, manual};

/// The element class `CTXManager`.
pub static CLASS: Class = Class {
    name: "CTXManager",
    aliases: &["CTXDPDKBuilderManager", "CTXDPDKCacheManager", "CTXDPDKManager", "FlowClassifier"],
    processing: "h",
    manual: manual!("ctx_manager.rs"),
    args: &[
        ArgInfo::positional("AGGCACHE", "bool", "false"),
        ArgInfo::positional("RESERVE", "int", "0"),
        ArgInfo::keyword("CACHESIZE", "int", "4096"),
        ArgInfo::keyword("CACHERINGSIZE", "int", "8"),
        ArgInfo::keyword("BUILDER", "int", "1"),
        ArgInfo::keyword("AGGTRUST", "bool", "false"),
        ArgInfo::keyword("VERBOSE", "int", "0"),
        ArgInfo::keyword("VERBOSE_FCB", "int", "0"),
        ArgInfo::keyword("CONTEXT", "ETHER or NONE", "ETHER"),
        ArgInfo::keyword("CLEAN_TIMER", "int", "5000"),
        ArgInfo::keyword("EARLYDROP", "bool", "true"),
        ArgInfo::keyword("ORDERED", "bool", "true"),
        ArgInfo::keyword("NOCUT", "bool", "false"),
        ArgInfo::keyword("OPTIMIZE", "bool", "true"),
        ArgInfo::keyword("RELEASE", "bool", "true"),
    ],
    samples: &["", "AGGCACHE false, CACHESIZE 65536, VERBOSE 1, CONTEXT NONE"],
    build: |args| {
        for name in ["AGGCACHE", "AGGTRUST", "EARLYDROP", "ORDERED", "NOCUT", "OPTIMIZE", "RELEASE"] {
            args.value::<bool>(name);
        }
        for name in ["RESERVE", "CACHERINGSIZE", "BUILDER", "VERBOSE", "VERBOSE_FCB", "CLEAN_TIMER"] {
            args.value::<i32>(name);
        }
        let size: i32 = args.value("CACHESIZE");
        if u32::try_from(size).is_ok_and(|size| size > 0 && !size.is_power_of_two()) {
            args.error_as("CACHESIZE: must be a power of 2", "Chache size must be a power of 2 !");
        }
        let context: String = args.value("CONTEXT");
        if !["ETHER", "NONE"].contains(&&context[..]) {
            args.error_as("CONTEXT: expected ETHER or NONE", format!("Invalid context {context} !"));
        }
        args.finish()?;
        Ok(Box::new(CtxManager))
    },
    ..Class::DEFAULT
};

struct CtxManager;

impl Element for CtxManager {
    fn effects(&self) -> Effects {
        Effects::pass()
    }
}
