//! Elements that change the length and contents of packets, regardless of headers.

pub mod clipboard;
pub mod move_data;
pub mod pad;
pub mod resize;
pub mod store_anno;
pub mod store_data;
pub mod store_timestamp;
pub mod truncate;
pub mod truncate_fcs;
