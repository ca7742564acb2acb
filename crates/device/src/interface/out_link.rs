//! An interface from the view of an element that sends to it: its longest frame, whether it can send, its
//! removal and return, and the messages to the user about all this. ToDevice and ToXDP use it.

use std::fmt::Arguments;
use std::io;

use element::{Cx, DropReason, Interest, Timestamp};
use libc::c_int;

use super::awaited::{Awaited, is_awaited};
use super::sys::link;
use super::sys::news::News;
use super::{Gone, LOOK_AGAIN, cannot};
use crate::losses::{LastFailure, Losses};
use crate::reason;

/// The first (`LEAST_PAUSE`) and the longest time (`LONGEST_PAUSE`) to wait before the next attempt to send,
/// while the interface takes no packets.
const LEAST_PAUSE: Timestamp = Timestamp(20_000);
const LONGEST_PAUSE: Timestamp = Timestamp(1_000_000);
/// The time for which an interface may take nothing before its carrier is checked; also the time between two
/// calls of `is_connected` that check the carrier.
const STUCK: Timestamp = Timestamp(100_000_000);
/// The time after which the MTU is read again if a packet is too long for the MTU that is known.
const LOOK: Timestamp = Timestamp(1_000_000_000);
/// The length in bytes of an Ethernet header with a VLAN tag, which the MTU does not include.
const LINK_HEADER: usize = 18;

/// The state of an interface to which an element sends.
#[derive(Debug)]
pub(crate) struct OutLink {
    pub(crate) device: String,
    /// The interface's name in the configuration. `device` is its present name, after it was renamed.
    wanted: String,
    /// The interface's index in the kernel. If the interface is removed, another interface of the same name
    /// gets another index.
    index: c_int,
    gone: Gone,
    /// True from the time when the interface was found to be removed until another interface with the
    /// configured or the last name has been found.
    is_gone: bool,
    /// The time of the last search for another interface with the configured or the last name of the removed
    /// interface.
    looked_again: Timestamp,
    /// The registration that this element waits for another interface with the configured name; `None` while
    /// there is an interface.
    awaited: Option<Awaited>,
    /// The socket with the kernel's messages about interfaces. Without it, a removal is only noticed when
    /// sending fails.
    news: Option<News>,
    losses: Losses,
    /// `longest` is the length in bytes of the longest frame that can be sent: the longest that the interface
    /// carries, but at most `most`, the limit of the element.
    longest: usize,
    most: usize,
    /// The time when the MTU was last read.
    looked: Timestamp,
    pause: Timestamp,
    /// True if the interface cannot send: it is down, has no carrier, or was removed. Packets are dropped,
    /// not held.
    pub(crate) is_down: bool,
    /// The time since which the interface has taken nothing; `None` if it takes packets.
    stuck: Option<Timestamp>,
    /// The error number of the last failure. It is forgotten when an interface that was down sends again.
    failure: LastFailure<Option<i32>>,
    /// `is_connected` is true if the interface had a carrier at the last check; `asked` is the time of that
    /// check.
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
            failure: LastFailure::default(),
            is_connected: true,
            asked: Timestamp::ZERO,
        }
    }

    /// Finds the interface by its configured or its last name, and returns its index.
    ///
    /// # Errors
    /// If there is no interface of these names.
    pub(crate) fn find(&mut self) -> io::Result<c_int> {
        let index = link::index(&self.wanted).or_else(|_| link::index(&self.device))?;
        self.device = link::name_of(index).unwrap_or_else(|_| self.wanted.clone());
        self.index = index;
        Ok(index)
    }

    /// Finds the interface when an element is initialized, and returns its index. Watches for the kernel's
    /// messages about interfaces with the token `token`. Returns `None` if this element replaces an element
    /// that waits for an interface of this name (GONE wait); it then continues to wait.
    ///
    /// # Errors
    /// If there is no interface of the name, or the messages cannot be watched.
    pub(crate) fn find_first(&mut self, cx: &mut Cx<'_>, token: u32) -> Result<Option<c_int>, String> {
        // Opened ahead of the search, so that no change after the search is missed.
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

    /// Takes the kernel's messages about interfaces. Returns true if there were any; then the next
    /// [`find_again`](Self::find_again) searches without delay.
    pub(crate) fn hears_news(&mut self) -> bool {
        let heard = self.news.as_ref().is_some_and(|news| news.take(self.index).something);
        if heard {
            self.looked_again = Timestamp::ZERO;
        }
        heard
    }

    /// Returns the index of the interface, or of the removed interface.
    pub(crate) fn index(&self) -> c_int {
        self.index
    }

    /// Follows a new name of the interface, and reports it.
    #[cold]
    fn rename(&mut self, cx: &mut Cx<'_>) {
        if let Ok(name) = link::name_of(self.index)
            && name != self.device
        {
            cx.note(format_args!("{}: is called {name} now", self.device));
            self.device = name;
        }
    }

    /// Looks for an interface with the configured or the last name, after a removal or at a message of the
    /// kernel, and returns its index. Returns `None` if there is none, if the last search was less than
    /// [`LOOK_AGAIN`] ago, or if the interface was removed, with GONE stop. Reports the removal and the
    /// return once each; with GONE stop, a removal stops the run.
    #[cold]
    pub(crate) fn find_again(&mut self, cx: &mut Cx<'_>) -> Option<c_int> {
        if cx.now() - self.looked_again < LOOK_AGAIN {
            return None;
        }
        self.looked_again = cx.now();
        let before = self.index;
        let found = self.find().ok();
        // With GONE stop, the run ends even if there is another interface with one of these names already.
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

    /// Ends the element's use of the interface, and reports the number of dropped packets.
    ///
    /// # Errors
    /// If the interface was removed, with GONE stop.
    pub(crate) fn end(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.losses.end(cx, &self.device);
        (self.awaited, self.news) = (None, None);
        self.gone.end(&self.device, self.is_gone)
    }

    /// Counts dropped packets and reports them to the user. The first packet gets no message if another
    /// message has reported the cause. `length` is the length of the first packet in bytes, for the message.
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
            // Without a text, because another message has reported the cause: the state of the interface or
            // the system's error.
            _ => self.losses.count(cx, device, loss, None),
        }
    }

    /// Computes the length of the longest frame from the interface's present MTU.
    pub(crate) fn look(&mut self, now: Timestamp) {
        self.looked = now;
        if let Ok(mtu) = link::mtu(&self.device) {
            self.longest = (mtu + LINK_HEADER).min(self.most);
        }
    }

    /// True if the interface carries frames of this length in bytes. Reads the MTU again if the frame is too
    /// long and the last reading was more than a second ago.
    #[inline]
    pub(crate) fn carries(&mut self, now: Timestamp, length: usize) -> bool {
        if length > self.longest && now - self.looked > LOOK {
            self.look(now);
        }
        length <= self.longest
    }

    /// Warns the user, in a message that begins with the interface's name.
    pub(crate) fn say(&self, cx: &mut Cx<'_>, text: Arguments<'_>) {
        cx.warn(format_args!("{}: {text}", self.device));
    }

    /// Reports a failure to the user, unless the last failure had the same error number and was less than ten
    /// seconds ago.
    pub(crate) fn tell(&mut self, cx: &mut Cx<'_>, error: &io::Error) {
        if self.failure.is_new(error.raw_os_error(), cx.now()) {
            self.say(cx, format_args!("{}", reason(error)));
        }
    }

    /// Registers that the interface has taken nothing in an attempt to send. Returns true if it may only be
    /// busy, so that packets can wait. Returns false if the interface is down: after a tenth of a second
    /// without progress, its carrier is checked.
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

    /// True if the interface had a carrier, was down, or could not be queried when it was last checked, at
    /// most a tenth of a second ago. Senders through the queueing discipline need this: without a carrier,
    /// the queueing discipline takes all packets and sends none.
    pub(crate) fn is_connected(&mut self, cx: &mut Cx<'_>) -> bool {
        if cx.now() - self.asked > STUCK {
            self.asked = cx.now();
            self.rename(cx);
            // An interface that is down counts as connected: sending to it fails, and that failure is
            // reported.
            self.is_connected = self.has_carrier() || !link::is_up(&self.device).unwrap_or(false);
            if !self.is_connected && !self.is_down {
                self.cut(cx);
            }
        }
        self.is_connected
    }

    /// Marks the interface as down, and reports that it has no carrier.
    #[cold]
    fn cut(&mut self, cx: &mut Cx<'_>) {
        self.is_down = true;
        self.say(cx, format_args!("has no carrier: the other end is not connected"));
    }

    /// True if the interface has a carrier, or if this cannot be found out.
    pub(crate) fn has_carrier(&self) -> bool {
        link::has_carrier(&self.device).unwrap_or(true)
    }

    /// Returns the time to wait before the next attempt to send. The time doubles with each call, up to a
    /// limit, until [`recover`](Self::recover).
    pub(crate) fn next_pause(&mut self) -> Timestamp {
        let pause = self.pause;
        self.pause = (pause + pause).min(LONGEST_PAUSE);
        pause
    }

    /// Registers that packets have been sent. If the interface was down, reports that it sends again.
    pub(crate) fn recover(&mut self, cx: &mut Cx<'_>) {
        (self.pause, self.stuck) = (LEAST_PAUSE, None);
        if std::mem::take(&mut self.is_down) {
            self.failure.clear();
            cx.note(format_args!("{}: sends again", self.device));
        }
    }
}
