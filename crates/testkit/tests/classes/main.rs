//! Tests of what all classes declare, and of what their manuals say: ports, arguments, defaults, capacities,
//! examples.

mod arguments;
mod capacities;
mod defaults;
mod manual;
mod ports;
