//! The example routers: what RFCs ask of them, packet by packet, on `configs/router.click` and `configs/router6.click`
//! as they are. `docs/router.md` has the table of requirements.

mod captures;
mod ipv4;
mod ipv6;
mod net;
mod random;
