//! What elements that send to an interface know of it: how long its frames may be, whether it takes any, and what the user
//! has been told.

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

/// How long to wait for an interface that takes nothing: at first, and at most.
const LEAST_PAUSE: Timestamp = Timestamp(20_000);
const LONGEST_PAUSE: Timestamp = Timestamp(1_000_000);
/// How long an interface takes nothing before it may be that nobody is at its other end.
const STUCK: Timestamp = Timestamp(100_000_000);
/// How often to look whether the longest packet of the interface has become longer.
const LOOK: Timestamp = Timestamp(1_000_000_000);
/// An Ethernet header with a VLAN tag, which no MTU counts.
const LINK_HEADER: usize = 18;

/// An interface to send to.
#[derive(Debug)]
pub(crate) struct OutLink {
    pub(crate) device: String,
    /// The name that was asked for.
    wanted: String,
    /// Its number; another one of the same name has another.
    index: c_int,
    gone: Gone,
    /// True from when it was found to be removed until there is another one.
    is_gone: bool,
    /// When that was last looked at.
    looked_again: Timestamp,
    /// As long as another one is waited for.
    awaited: Option<Awaited>,
    /// What the kernel says of interfaces; without, whoever sends finds out.
    news: Option<News>,
    losses: Losses,
    /// Bytes of the longest frame, and what it is at most whatever the interface says.
    longest: usize,
    most: usize,
    /// When that was last looked at.
    looked: Timestamp,
    pause: Timestamp,
    /// Whether nothing is sent at the moment, for longer than a pause.
    pub(crate) is_down: bool,
    /// Since when the interface has taken nothing.
    stuck: Option<Timestamp>,
    /// The last failure that was told: the same one is not told again.
    told: Option<i32>,
    /// Whether somebody was at the other end, and when that was asked.
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

    /// Finds the interface; its number.
    ///
    /// # Errors
    /// There is none of the name.
    pub(crate) fn find(&mut self) -> io::Result<c_int> {
        let index = link::index(&self.wanted).or_else(|_| link::index(&self.device))?;
        self.device = link::name_of(index).unwrap_or_else(|_| self.wanted.clone());
        self.index = index;
        Ok(index)
    }

    /// Finds the interface when an element starts; its number. `None` where the element takes the place of another one
    /// that waits for an interface of this name, and goes on waiting.
    ///
    /// # Errors
    /// There is none of the name.
    pub(crate) fn find_first(&mut self, cx: &mut Cx<'_>, token: u32) -> Result<Option<c_int>, String> {
        // Before the look, so that nothing happens in between that nobody hears of.
        self.news = News::open().ok();
        if let Some(news) = &self.news {
            cx.watch(token, news.socket(), Interest::Aside)
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

    /// Hears what the kernel says of interfaces. True if it has said something, after which a look for another
    /// interface waits for nothing.
    pub(crate) fn hears_news(&mut self) -> bool {
        let heard = self.news.as_ref().is_some_and(|news| news.take(self.index).something);
        if heard {
            self.looked_again = Timestamp::ZERO;
        }
        heard
    }

    /// The number of the interface.
    pub(crate) fn index(&self) -> c_int {
        self.index
    }

    /// Finds out whether the interface has got another name.
    #[cold]
    fn rename(&mut self, cx: &mut Cx<'_>) {
        if let Ok(name) = link::name_of(self.index)
            && name != self.device
        {
            cx.note(format_args!("{}: is called {name} now", self.device));
            self.device = name;
        }
    }

    /// The interface was removed. Finds another one of its name; its number. As long as there is none, this is looked at now and
    /// then only.
    #[cold]
    pub(crate) fn find_again(&mut self, cx: &mut Cx<'_>) -> Option<c_int> {
        if cx.now() - self.looked_again < LOOK_AGAIN {
            return None;
        }
        self.looked_again = cx.now();
        let before = self.index;
        let found = self.find().ok();
        // One that was removed and is there again was removed all the same.
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

    /// Says at the end how many packets were dropped.
    ///
    /// # Errors
    /// The interface was removed, and the run had to end.
    pub(crate) fn end(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        self.losses.end(cx, &self.device);
        (self.awaited, self.news) = (None, None);
        self.gone.end(&self.device, self.is_gone)
    }

    /// Counts packets that are dropped, of which the first one has so many bytes, and tells the user.
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
                let text = format_args!("its send queue is full; a Queue in front lets packets wait");
                self.losses.count(cx, device, loss, Some(text));
            }
            DropReason::NoBuffer => {
                let text = format_args!("there is no free slot for a copy of a packet; --memory gives more");
                self.losses.count(cx, device, loss, Some(text));
            }
            // What has become of the interface, or what the system says, is told already.
            _ => self.losses.count(cx, device, loss, None),
        }
    }

    /// Asks how long frames may be.
    pub(crate) fn look(&mut self, now: Timestamp) {
        self.looked = now;
        if let Ok(mtu) = link::mtu(&self.device) {
            self.longest = (mtu + LINK_HEADER).min(self.most);
        }
    }

    /// Whether the interface carries frames of this length.
    #[inline]
    pub(crate) fn carries(&mut self, now: Timestamp, length: usize) -> bool {
        if length > self.longest && now - self.looked > LOOK {
            self.look(now);
        }
        length <= self.longest
    }

    /// Tells the user something.
    pub(crate) fn say(&self, cx: &mut Cx<'_>, text: Arguments<'_>) {
        cx.warn(format_args!("{}: {text}", self.device));
    }

    /// Tells the user of a failure, unless it was the last one too.
    pub(crate) fn tell(&mut self, cx: &mut Cx<'_>, error: &io::Error) {
        if self.told != error.raw_os_error() {
            self.told = error.raw_os_error();
            self.say(cx, format_args!("{}", reason(error)));
        }
    }

    /// The interface takes nothing. Whether it may take something soon: for a while it is only busy, and then there may be
    /// nobody at the other end.
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

    /// Whether somebody is at the other end, or was a tenth of a second ago. For who sends through a queueing discipline:
    /// that of an interface without carrier takes everything and sends nothing.
    pub(crate) fn is_connected(&mut self, cx: &mut Cx<'_>) -> bool {
        if cx.now() - self.asked > STUCK {
            self.asked = cx.now();
            self.rename(cx);
            // Of one that is down sending itself says so.
            self.is_connected = self.has_carrier() || !link::is_up(&self.device).unwrap_or(false);
            if !self.is_connected && !self.is_down {
                self.cut(cx);
            }
        }
        self.is_connected
    }

    /// Nobody is at the other end.
    #[cold]
    fn cut(&mut self, cx: &mut Cx<'_>) {
        self.is_down = true;
        self.say(cx, format_args!("has no carrier: nobody is at the other end"));
    }

    /// Whether somebody is at the other end.
    pub(crate) fn has_carrier(&self) -> bool {
        link::has_carrier(&self.device).unwrap_or(true)
    }

    /// How long to wait now; longer each time.
    pub(crate) fn next_pause(&mut self) -> Timestamp {
        let pause = self.pause;
        self.pause = (pause + pause).min(LONGEST_PAUSE);
        pause
    }

    /// Something was sent again.
    pub(crate) fn recover(&mut self, cx: &mut Cx<'_>) {
        (self.pause, self.stuck) = (LEAST_PAUSE, None);
        if std::mem::take(&mut self.is_down) {
            self.told = None;
            cx.note(format_args!("{}: sends again", self.device));
        }
    }
}
