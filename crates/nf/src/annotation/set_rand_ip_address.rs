//! # SetRandIPAddress
//! Sets the destination address annotation to a random address of a prefix.
//!
//! ## Usage
//! `SetRandIPAddress(PREFIX [, LIMIT])`
//!
//! ## Arguments
//! - `PREFIX`: the prefix; a single address is a prefix of one address.
//! - `LIMIT`: the number of random addresses that are drawn at the start, from which each packet's address is
//!   then chosen. If it is not positive, an address is drawn for each packet.
//!
//! ## Example
//! ```click
//! InfiniteSource(LIMIT 1) -> SetRandIPAddress(10.0.0.0/8, 100) -> Discard
//! ```
//!
//! ## See also
//! SetIPAddress, StoreIPAddress

use element::args::Ipv4Prefix;
use element::class::ArgInfo;
use element::effects::{Action, DST_IP, Depends, Value};
use element::{Batch, Class, Cx, Effects, Element, Random, manual};

use crate::editing::otherwise;

/// The element class `SetRandIPAddress`.
pub static CLASS: Class = Class {
    name: "SetRandIPAddress",
    manual: manual!("set_rand_ip_address.rs"),
    args: &[ArgInfo::required("PREFIX", "prefix"), ArgInfo::positional("LIMIT", "integer", "-1")],
    samples: &["10.0.0.0/8", "10.0.0.0/8, 5", "1.2.3.4"],
    build: |args| {
        let prefix: Option<Ipv4Prefix> = args.get("PREFIX");
        let limit = args.value::<i32>("LIMIT");
        let Some(prefix) = prefix else { return crate::editing::missing(args, "PREFIX") };
        if limit > MOST {
            args.too_large("LIMIT", MOST);
        }
        args.finish()?;
        Ok(Box::new(SetRandIpAddress { prefix, limit: limit.max(0) as usize, drawn: Vec::new() }))
    },
    ..Class::DEFAULT
};

/// The maximum LIMIT, because the addresses that are drawn at the start stay in memory, with 4 bytes each.
const MOST: i32 = 1 << 24;

struct SetRandIpAddress {
    prefix: Ipv4Prefix,
    limit: usize,
    drawn: Vec<[u8; 4]>,
}

/// Returns a random address of the prefix, in network byte order.
fn draw(prefix: &Ipv4Prefix, random: &mut Random) -> [u8; 4] {
    let mut drawn = [0; 4];
    random.fill(&mut drawn);
    (prefix.network().to_bits() | u32::from_be_bytes(drawn) & !prefix.mask.to_bits()).to_be_bytes()
}

impl Element for SetRandIpAddress {
    fn effects(&self) -> Effects {
        let (first, last) = (self.prefix.network().to_bits(), self.prefix.broadcast().to_bits());
        let set = classify::IntervalSet::one(first.into(), last.into());
        let choice = Action::Set(DST_IP, Value::Choose { set, key: Vec::new() });
        Effects::cases(vec![otherwise(vec![choice])]).depending_on(Depends::Random)
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let random = cx.random();
        self.drawn = (0..self.limit).map(|_| draw(&self.prefix, random)).collect();
        Ok(())
    }

    fn process(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        let random = cx.random();
        for packet in batch.iter_mut() {
            let address = match self.drawn.len() {
                0 => draw(&self.prefix, random),
                n => self.drawn[random.between(0, n as u32 - 1) as usize],
            };
            packet.set_destination(address);
        }
    }
}
