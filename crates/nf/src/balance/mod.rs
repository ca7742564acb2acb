//! Load balancers: elements that choose a server or an output for each flow.

mod balancer;
mod choice;
mod elsewhere;
pub mod flow_ip_load_balancer;
pub mod flow_ip_load_balancer_reverse;
pub mod flow_ip_manager;
pub mod flow_l2_load_balancer;
pub mod flow_switch;
mod headers;
pub(crate) mod maglev;
mod notices;
mod slots;
