//! Elements of FastClick's contexts (MiddleClick), in which one element classifies packets for all elements
//! downstream. Here each element classifies the packets itself.

pub mod ctx_dispatcher;
pub mod ctx_manager;
pub mod ip_in;
pub mod ip_out;
mod rules;
