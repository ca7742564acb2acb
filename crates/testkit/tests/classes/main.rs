//! Tests of what all classes declare, and of what their manuals say: ports, arguments, defaults, capacities,
//! examples.

mod arguments;
mod capacities;
mod defaults;
mod facts;
mod manual;
mod names;
mod ports;
