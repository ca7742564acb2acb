//! The state of an interface from the view of an element that sends to it: the longest frame, the ability
//! to send, and the messages to the user.

use std::fmt::Arguments;
use std::io;

use element::{Cx, DropReason, Interest, Timestamp};
use libc::c_int;

use super::awaited::{Awaited, is_awaited};
use super::sys::link;
use super::sys::news::News;
use super::{Gone, LOOK_AGAIN, cannot};
use crate::losses::Losses;
use crate::reason;

/// The first and the longest time to wait for an interface that takes nothing.
const LEAST_PAUSE: Timestamp = Timestamp(20_000);
const LONGEST_PAUSE: Timestamp = Timestamp(1_000_000);
/// The time for which an interface takes nothing before its carrier is checked.
const STUCK: Timestamp = Timestamp(100_000_000);
/// The interval between checks for a larger MTU of the interface.
const LOOK: Timestamp = Timestamp(1_000_000_000);
/// The length in bytes of an Ethernet header with a VLAN tag, which the MTU does not include.
const LINK_HEADER: usize = 18;

/// An interface to send to.
#[derive(Debug)]
pub(crate) struct OutLink {
    pub(crate) device: String,
    /// The name in the configuration.
    wanted: String,
    /// The index of the interface; another interface of the same name has another index.
    index: c_int,
    gone: Gone,
    /// True from the time when the interface was found to be removed until there is another interface.
    is_gone: bool,
    /// The time of the last look for another interface.
    looked_again: Timestamp,
    /// Set while another interface of the name is awaited.
    awaited: Option<Awaited>,
    /// The kernel's messages about interfaces; without them, failures to send show a removal.
    news: Option<News>,
    losses: Losses,
    /// The length of the longest frame in bytes, and its upper limit even if the interface allows more.
    longest: usize,
    most: usize,
    /// The time of the last check of the length.
    looked: Timestamp,
    pause: Timestamp,
    /// True if nothing can be sent at the moment, for longer than a pause.
    pub(crate) is_down: bool,
    /// The time since which the interface has taken nothing.
    stuck: Option<Timestamp>,
    /// The error number of the last reported failure, which is not repeated.
    told: Option<i32>,
    /// True if the interface had a carrier, and the time when that was checked.
    is_connected: bool,
    asked: Timestamp,
}

impl OutLink {
    pub(crate) fn new(device: String, most: usize, gone: Gone) -> OutLink {
        OutLink {
            wanted: device.clone(),
            device,
            index: 0,
            gone,
            is_gone: false,
            looked_again: Timestamp::ZERO,
            awaited: None,
            news: None,
            losses: Losses::default(),
            longest: 0,
            most,
            looked: Timestamp::ZERO,
            pause: LEAST_PAUSE,
            is_down: false,
            stuck: None,
            told: None,
            is_connected: true,
            asked: Timestamp::ZERO,
        }
    }

    /// Finds the interface, and returns its index.
    ///
    /// # Errors
    /// If there is no interface of the name.
    pub(crate) fn find(&mut self) -> io::Result<c_int> {
        let index = link::index(&self.wanted).or_else(|_| link::index(&self.device))?;
        self.device = link::name_of(index).unwrap_or_else(|_| self.wanted.clone());
        self.index = index;
        Ok(index)
    }

    /// Finds the interface when an element starts, and returns its index. Returns `None` if the element
    /// replaces an element that waits for an interface of this name; the element then continues to wait.
    ///
    /// # Errors
    /// If there is no interface of the name.
    pub(crate) fn find_first(&mut self, cx: &mut Cx<'_>, token: u32) -> Result<Option<c_int>, String> {
        // Before the search, so that no event between both is missed.
        self.news = News::open().ok();
        if let Some(news) = &self.news {
            cx.files()
                .watch(token, news.socket(), Interest::Aside)
                .map_err(|error| cannot(&self.device, "poll", &error))?;
        }
        match self.find() {
            Ok(index) => Ok(Some(index)),
            Err(_) if cx.is_heir() && is_awaited(&self.wanted) && self.gone == Gone::Wait => {
                (self.is_gone, self.is_down) = (true, true);
                self.awaited = Some(Awaited::new(&self.wanted));
                Ok(None)
            }
            Err(error) => Err(cannot(&self.device, "SIOCGIFINDEX", &error)),
        }
    }

    /// Takes the kernel's messages about interfaces. Returns true if there were any: the next look for
    /// another interface is then not delayed.
    pub(crate) fn hears_news(&mut self) -> bool {
        let heard = self.news.as_ref().is_some_and(|news| news.take(self.index).something);
        if heard {
            self.looked_again = Timestamp::ZERO;
        }
        heard
    }

    /// Returns the index of the interface.
    pub(crate) fn index(&self) -> c_int {
        self.index
    }

    /// Updates the name if the interface was renamed.
    #[cold]
    fn rename(&mut self, cx: &mut Cx<'_>) {
        if let Ok(name) = link::name_of(self.index)
            && name != self.device
        {
            cx.note(format_args!("{}: is called {name} now", self.device));
            self.device = name;
        }
    }

    /// Looks for another interface of the name after the removal, at most once per `LOOK_AGAIN`. Returns
    /// its index.
    #[cold]
    pub(crate) fn find_again(&mut self, cx: &mut Cx<'_>) -> Option<c_int> {
        if cx.now() - self.looked_again < LOOK_AGAIN {
            return None;
        }
        self.looked_again = cx.now();
        let before = self.index;
        let found = self.find().ok();
        // An interface that has come back in between was removed nevertheless.
        if self.gone == Gone::Stop && before != self.index {
            self.is_gone = true;
            self.say(cx, format_args!("{}", self.gone.text()));
            cx.stop();
            return None;
        }
        let was_gone = std::mem::replace(&mut self.is_gone, found.is_none());
        if was_gone != self.is_gone {
            match self.is_gone {
                true => self.say(cx, format_args!("{}", self.gone.text())),
                false => cx.note(format_args!("{}: is there again", self.device)),
            }
        }
        if self.is_gone && self.gone == Gone::Stop {
            cx.stop();
        }
        self.awaited = if self.is_gone { Some(Awaited::new(&self.wanted)) } else { None };
        found
    }

    /// Reports the number of dropped packets at the end.
    ///
    /// # Errors
    /// If the interface was removed and the run had to end.
    pub(crate) fn end(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.losses.end(cx, &self.device);
        (self.awaited, self.news) = (None, None);
        self.gone.end(&self.device, self.is_gone)
    }

    /// Counts dropped packets, and notifies the user. `length` is the length of the first packet in bytes.
    #[cold]
    pub(crate) fn count_lost(&mut self, cx: &mut Cx<'_>, (why, packets): (DropReason, usize), length: usize) {
        let (device, longest, loss) = (&self.device, self.longest, (why, packets));
        match why {
            DropReason::TooLarge => self.losses.count(
                cx,
                device,
                loss,
                Some(format_args!(
                    "a frame of {length} bytes is too long: it carries {longest} (MTU and Ethernet header)"
                )),
            ),
            DropReason::TooShort => {
                let text = format_args!("a packet of {length} bytes is too short for a frame");
                self.losses.count(cx, device, loss, Some(text));
            }
            DropReason::SendQueueFull => {
                let text = format_args!("its send queue is full; put a Queue upstream to hold packets");
                self.losses.count(cx, device, loss, Some(text));
            }
            DropReason::NoBuffer => {
                let text = format_args!("there is no free slot for a copy of a packet; --memory gives more");
                self.losses.count(cx, device, loss, Some(text));
            }
            // The state of the interface, or the system's error, has been reported already.
            _ => self.losses.count(cx, device, loss, None),
        }
    }

    /// Updates the length of the longest frame from the interface's MTU.
    pub(crate) fn look(&mut self, now: Timestamp) {
        self.looked = now;
        if let Ok(mtu) = link::mtu(&self.device) {
            self.longest = (mtu + LINK_HEADER).min(self.most);
        }
    }

    /// True if the interface carries frames of this length.
    #[inline]
    pub(crate) fn carries(&mut self, now: Timestamp, length: usize) -> bool {
        if length > self.longest && now - self.looked > LOOK {
            self.look(now);
        }
        length <= self.longest
    }

    /// Warns the user.
    pub(crate) fn say(&self, cx: &mut Cx<'_>, text: Arguments<'_>) {
        cx.warn(format_args!("{}: {text}", self.device));
    }

    /// Reports a failure to the user, unless it is the same as the last failure.
    pub(crate) fn tell(&mut self, cx: &mut Cx<'_>, error: &io::Error) {
        if self.told != error.raw_os_error() {
            self.told = error.raw_os_error();
            self.say(cx, format_args!("{}", reason(error)));
        }
    }

    /// Registers that the interface takes nothing. Returns true if it may take something soon. For some
    /// time the interface is taken as busy; after that, its carrier is checked.
    pub(crate) fn may_recover(&mut self, cx: &mut Cx<'_>) -> bool {
        let since = *self.stuck.get_or_insert(cx.now());
        if self.is_down {
            return false;
        }
        if cx.now() - since < STUCK {
            return true;
        }
        self.rename(cx);
        if self.has_carrier() {
            return true;
        }
        self.cut(cx);
        false
    }

    /// True if the interface has a carrier, or had a carrier a tenth of a second ago. For senders through a
    /// queueing discipline: the queueing discipline of an interface without carrier takes everything and
    /// sends nothing.
    pub(crate) fn is_connected(&mut self, cx: &mut Cx<'_>) -> bool {
        if cx.now() - self.asked > STUCK {
            self.asked = cx.now();
            self.rename(cx);
            // An interface that is down is reported by the failure to send.
            self.is_connected = self.has_carrier() || !link::is_up(&self.device).unwrap_or(false);
            if !self.is_connected && !self.is_down {
                self.cut(cx);
            }
        }
        self.is_connected
    }

    /// Registers that the interface has no carrier.
    #[cold]
    fn cut(&mut self, cx: &mut Cx<'_>) {
        self.is_down = true;
        self.say(cx, format_args!("has no carrier: the other end is not connected"));
    }

    /// True if the interface has a carrier.
    pub(crate) fn has_carrier(&self) -> bool {
        link::has_carrier(&self.device).unwrap_or(true)
    }

    /// Returns the time to wait now; it doubles each time, up to a limit.
    pub(crate) fn next_pause(&mut self) -> Timestamp {
        let pause = self.pause;
        self.pause = (pause + pause).min(LONGEST_PAUSE);
        pause
    }

    /// Registers that packets have been sent again.
    pub(crate) fn recover(&mut self, cx: &mut Cx<'_>) {
        (self.pause, self.stuck) = (LEAST_PAUSE, None);
        if std::mem::take(&mut self.is_down) {
            self.told = None;
            cx.note(format_args!("{}: sends again", self.device));
        }
    }
}
