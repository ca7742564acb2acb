//! The assignment of a port's queues to the elements of a graph, and the settings that the elements want.

use wire::ethernet::MacAddr;

use super::Wanted;

/// The number of descriptors of a queue if NDESC is 0 or not given.
const DESCRIPTORS: u16 = 1024;

/// The queues of an element at a port.
#[derive(Clone, Debug)]
pub(super) struct Share {
    pub(super) wanted: Wanted,
    /// The number of the element's copies: one for each worker, or 1 if the element runs at one worker only.
    pub(super) copies: usize,
    pub(super) first: u16,
    pub(super) queues: u16,
}

impl Share {
    /// Returns the numbers of the queues that a copy sets up: the element's queues with the indexes `copy`,
    /// `copy` + `copies`, and so on.
    pub(super) fn queues_of(&self, copy: usize) -> impl Iterator<Item = u16> + use<> {
        let first = self.first;
        (0..self.queues).skip(copy).step_by(self.copies).map(move |queue| first + queue)
    }

    fn has(&self, queue: u16) -> bool {
        (self.first..self.first + self.queues).contains(&queue)
    }
}

/// The queues of a port that the elements of one graph use, and their settings.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    pub(super) all: Vec<Share>,
    /// The numbers of receive queues and of send queues that the port needs for the elements: one more than
    /// the highest number of a queue that an element uses.
    pub(super) used: [u16; 2],
}

/// The settings of a port and of its receive queues that a reload cannot change while the port runs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fixed {
    /// The first queue, the number of queues and the number of copies of each element that receives.
    queues: Vec<(u16, u16, usize)>,
    descriptors: u16,
    promiscuous: bool,
    keeps_key: bool,
    mac: Option<MacAddr>,
    mtu: Option<u16>,
    spread: Option<u16>,
}

impl Shares {
    /// Assigns queues to the elements with these requirements, in this order; each has the given number of
    /// copies. `most` has the numbers of receive queues and of send queues of the port named `name`.
    ///
    /// # Errors
    /// If the port has too few queues, or two elements receive from one queue.
    pub(super) fn assign(
        name: &str,
        most: [u16; 2],
        elements: impl Iterator<Item = (Wanted, usize)>,
    ) -> Result<Shares, String> {
        let mut next = [0u16; 2];
        let mut all: Vec<Share> = Vec::new();
        for (wanted, copies) in elements.filter(|(_, copies)| *copies > 0) {
            let side = usize::from(wanted.sends);
            // Without N_QUEUES, an element has one queue if QUEUE is given, and one queue per copy otherwise,
            // within MINQUEUES and MAXQUEUES.
            let usual = if wanted.queue.is_some() { 1 } else { copies as u16 };
            let queues =
                wanted.queues.unwrap_or(usual.clamp(wanted.least, wanted.most.max(wanted.least))).max(1);
            let mut first = wanted.queue.unwrap_or(next[side]);
            if first >= most[side] && wanted.sends && wanted.queue.is_none() {
                // No send queue is left after the queues that have been assigned. The element begins with
                // queue 0, and shares queues with elements that have been assigned before if they have the
                // same ones.
                first = 0;
            }
            let there = most[side].saturating_sub(first);
            if there == 0 || wanted.queues.is_some_and(|queues| queues > there) {
                let what = if wanted.sends { "send" } else { "receive" };
                return Err(format!("{name} has {} {what} queues, which is not enough", most[side]));
            }
            let queues = queues.min(there);
            next[side] = next[side].max(first + queues);
            all.push(Share { wanted, copies, first, queues });
        }
        for queue in 0..next[0] {
            let receives = |share: &&Share| !share.wanted.sends && share.has(queue);
            if all.iter().filter(receives).count() > 1 {
                return Err(format!("{name}: two elements receive from queue {queue}"));
            }
        }
        Ok(Shares { all, used: next })
    }

    fn of_side(&self, sends: bool) -> impl Iterator<Item = &Share> {
        self.all.iter().filter(move |share| share.wanted.sends == sends)
    }

    /// True if an element receives from this queue, or with `sends`, sends to it.
    pub(super) fn takes(&self, sends: bool, queue: u16) -> bool {
        self.of_side(sends).any(|share| share.has(queue))
    }

    /// Returns the number of descriptors of each send queue (`sends` true) or receive queue: the largest
    /// NDESC, or 1024 if all are 0.
    pub(super) fn descriptors(&self, sends: bool) -> u16 {
        let wanted = self.of_side(sends).map(|share| share.wanted.descriptors);
        wanted.max().filter(|&n| n > 0).unwrap_or(DESCRIPTORS)
    }

    pub(super) fn wanted(&self) -> impl Iterator<Item = &Wanted> {
        self.all.iter().map(|share| &share.wanted)
    }

    fn fixed(&self) -> Fixed {
        Fixed {
            queues: self.of_side(false).map(|share| (share.first, share.queues, share.copies)).collect(),
            descriptors: self.descriptors(false),
            promiscuous: self.wanted().any(|wanted| wanted.promiscuous),
            keeps_key: self.wanted().any(|wanted| wanted.keeps_key),
            mac: self.wanted().find_map(|wanted| wanted.mac),
            mtu: self.wanted().find_map(|wanted| wanted.mtu),
            spread: self.wanted().find_map(|wanted| wanted.spread),
        }
    }

    /// Checks that the elements of a new graph, with these shares, can continue with a port that was opened
    /// for the elements in `opened`, with `senders` send queues.
    ///
    /// # Errors
    /// If the new elements receive with other settings than those in `opened`, or send to more queues or with
    /// other numbers of descriptors. The text lists the arguments that cannot change.
    pub(super) fn can_continue(&self, opened: &Shares, senders: u16) -> Result<(), &'static str> {
        if self.of_side(false).next().is_some() && self.fixed() != opened.fixed() {
            return Err(
                "the queues, workers, NDESC, PROMISC, MAC, MTU, MAX_RSS or RSS_KEY of FromDPDKDevice",
            );
        }
        let is_same = || self.descriptors(true) == opened.descriptors(true);
        let is_sent = |shares: &Shares| shares.of_side(true).next().is_some();
        if self.used[1] > senders || (is_sent(self) && is_sent(opened) && !is_same()) {
            return Err("the number of queues or NDESC of ToDPDKDevice");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(elements: &[(Wanted, usize)]) -> Shares {
        Shares::assign("port", [4, 2], elements.iter().cloned()).unwrap()
    }

    #[test]
    fn what_is_received_cannot_change_and_senders_may_go() {
        let receiver = Wanted { least: 1, most: 128, ..Wanted::default() };
        let sender = Wanted { sends: true, ..receiver.clone() };
        let opened = shares(&[(receiver.clone(), 2), (sender.clone(), 2)]);
        assert_eq!(opened.used, [2, 2]);
        for (elements, can) in [
            (vec![(receiver.clone(), 2), (sender.clone(), 2)], true),
            (vec![(receiver.clone(), 2)], true),
            (vec![(sender.clone(), 2), (sender.clone(), 2)], true),
            (vec![(receiver.clone(), 1), (sender.clone(), 2)], false),
            (vec![(Wanted { mtu: Some(1400), ..receiver.clone() }, 2)], false),
            (vec![(Wanted { descriptors: 256, ..sender.clone() }, 2)], false),
        ] {
            assert_eq!(shares(&elements).can_continue(&opened, 2).is_ok(), can, "{elements:?}");
        }
        assert!(opened.can_continue(&opened, 1).is_err());
    }
}
