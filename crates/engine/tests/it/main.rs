//! Tests of whole runs: starts and ends, timers, several workers, changes of running configurations, and
//! what elements do for each other (flow marks, stand-ins).

mod ends;
mod flow_marks;
mod hotconfig;
mod recompose;
mod reconfigure;
mod reload;
mod stand_ins;
mod starts;
mod timers;
mod workers;
