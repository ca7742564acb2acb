//! The messages of a run, for elements that pass them on to clients.
//!
//! Each element that passes messages on has a [`Feed`], which keeps the latest messages. The code that writes
//! a message to the operator also puts it into the feeds ([`Chatter::say`]). While there is no feed, this
//! costs one comparison per message.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// The largest number of bytes that a feed keeps, as in Click. A reader that falls further behind misses
/// bytes.
pub const MOST_KEPT: usize = 500_000;

/// The name of the channel to which all messages go that name no other channel.
pub const DEFAULT_CHANNEL: &str = "default";

/// The feeds of a run. All workers have the same.
#[derive(Default)]
pub struct Chatter {
    /// The feeds of elements that may still exist.
    feeds: RwLock<Vec<Weak<Feed>>>,
    /// True if there has been a feed.
    is_heard: AtomicBool,
}

/// The latest messages of one channel.
pub struct Feed {
    channel: String,
    /// True if messages of the channel also go to standard error.
    is_shown: AtomicBool,
    /// True while the feed keeps messages: it has readers.
    is_open: AtomicBool,
    log: Mutex<Log>,
    /// Becomes readable if there are new messages.
    news: EventFd,
}

/// The bytes of messages that a feed keeps. Bytes are counted from 0, since the feed was made.
#[derive(Default)]
struct Log {
    bytes: VecDeque<u8>,
    /// The number of the first byte that is kept.
    start: u64,
}

/// The bytes that a reader wants are no longer kept, because the reader was too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FellBehind;

impl Log {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl Write for Log {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Of a text that is too long by itself, the end is kept.
        let kept = &text.as_bytes()[text.len().saturating_sub(MOST_KEPT)..];
        let gone = (self.bytes.len() + kept.len()).saturating_sub(MOST_KEPT);
        self.bytes.drain(..gone);
        self.bytes.extend(kept);
        self.start += (gone + text.len() - kept.len()) as u64;
        Ok(())
    }
}

impl Feed {
    /// Makes a feed of a channel that keeps no messages yet. If `is_shown` is true, messages of the channel
    /// also go to standard error.
    ///
    /// # Errors
    /// If the process has no file descriptor left.
    pub fn new(channel: &str, is_shown: bool) -> std::io::Result<Feed> {
        let news = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        let (is_open, log) = Default::default();
        Ok(Feed { channel: channel.into(), is_shown: is_shown.into(), is_open, log, news })
    }

    /// Begins or ends to keep messages. A feed that keeps none has no memory.
    pub fn set_open(&self, is_open: bool) {
        self.is_open.store(is_open, Ordering::Relaxed);
        if !is_open {
            let mut log = self.lock();
            *log = Log { bytes: VecDeque::new(), start: log.end() };
        }
    }

    /// Returns the channel whose messages the feed gets.
    pub fn channel(&self) -> &str {
        &self.channel
    }

    /// Decides if messages of the channel also go to standard error.
    pub fn set_shown(&self, is_shown: bool) {
        self.is_shown.store(is_shown, Ordering::Relaxed);
    }

    /// Returns the file that becomes readable if there are new messages.
    pub fn news(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }

    /// Makes the file [`news`](Self::news) unreadable until there are further messages. The reader does so
    /// before it reads.
    pub fn take_note(&self) {
        // The file has nothing to read if another message has not come meanwhile.
        let _ = self.news.read();
    }

    /// Returns the number of the byte after the last message.
    pub fn end(&self) -> u64 {
        self.lock().end()
    }

    /// Copies bytes from the byte with the number `from` on. Returns the number of bytes that were copied: 0
    /// if there are no further messages.
    ///
    /// # Errors
    /// If these bytes are no longer kept.
    pub fn read(&self, from: u64, to: &mut [u8]) -> Result<usize, FellBehind> {
        let log = self.lock();
        let skipped = from.checked_sub(log.start).ok_or(FellBehind)?;
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX).min(log.bytes.len());
        let count = to.len().min(log.bytes.len() - skipped);
        to.iter_mut().zip(log.bytes.range(skipped..skipped + count)).for_each(|(to, from)| *to = *from);
        Ok(count)
    }

    fn say(&self, text: fmt::Arguments<'_>) {
        if !self.is_open.load(Ordering::Relaxed) {
            return;
        }
        // Writing to the log cannot fail. The counter of the file is full only if it is never read.
        let _ = self.lock().write_fmt(text);
        let _ = self.news.write(1);
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Chatter {
    /// Adds a feed, which gets all messages of its channel from now on. The feed is removed when its last
    /// other owner drops it.
    pub fn add(&self, feed: &Arc<Feed>) {
        let mut feeds = self.feeds.write().unwrap_or_else(PoisonError::into_inner);
        feeds.retain(|there| there.strong_count() > 0);
        feeds.push(Arc::downgrade(feed));
        self.is_heard.store(true, Ordering::Relaxed);
    }

    /// Puts a message into all feeds of a channel. Returns true if the message also goes to standard error:
    /// all messages of the channel [`DEFAULT_CHANNEL`] do, and those of other channels if a feed asks for it.
    pub fn say(&self, channel: &str, text: fmt::Arguments<'_>) -> bool {
        let mut is_shown = channel == DEFAULT_CHANNEL;
        if self.is_heard.load(Ordering::Relaxed) {
            let feeds = self.feeds.read().unwrap_or_else(PoisonError::into_inner);
            for feed in feeds.iter().filter_map(Weak::upgrade).filter(|feed| feed.channel == channel) {
                is_shown |= feed.is_shown.load(Ordering::Relaxed);
                feed.say(text);
            }
        }
        is_shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    fn read(feed: &Feed, from: u64) -> Result<String, FellBehind> {
        let mut bytes = vec![0; 2 * MOST_KEPT];
        let length = feed.read(from, &mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    #[test]
    fn messages_go_to_the_feeds_of_their_channel() {
        let chatter = Chatter::default();
        assert!(chatter.say("default", format_args!("early")));
        assert!(!chatter.say("other", format_args!("early")));
        let [own, other] = [("default", false), ("other", true)].map(|(channel, is_shown)| {
            let feed = Arc::new(Feed::new(channel, is_shown).unwrap());
            chatter.add(&feed);
            feed
        });
        chatter.say("default", format_args!("unread"));
        own.set_open(true);
        other.set_open(true);
        assert!(chatter.say("default", format_args!("one {}\n", 1)));
        assert!(chatter.say("other", format_args!("two\n")));
        assert!(!chatter.say("third", format_args!("three\n")));
        assert_eq!((read(&own, 0), read(&other, 0)), (Ok("one 1\n".into()), Ok("two\n".into())));
        assert_eq!(
            (read(&own, 4), read(&own, 6), read(&own, 99)),
            (Ok("1\n".into()), Ok("".into()), Ok("".into()))
        );
        // A feed that is closed forgets all messages, and one without an owner is removed.
        own.set_open(false);
        assert_eq!((read(&own, 0), own.end()), (Err(FellBehind), 6));
        drop(other);
        assert!(!chatter.say("other", format_args!("four\n")));
    }

    #[test]
    fn a_slow_reader_falls_behind_and_costs_no_more_memory() {
        let feed = Feed::new("default", false).unwrap();
        feed.set_open(true);
        for number in 0..200_000 {
            feed.say(format_args!("message {number}\n"));
        }
        assert_eq!(feed.lock().bytes.len(), MOST_KEPT);
        assert_eq!(read(&feed, 0), Err(FellBehind));
        let end = feed.end();
        assert_eq!(read(&feed, end - 15), Ok("message 199999\n".into()));
        feed.say(format_args!("{}", "x".repeat(MOST_KEPT + 7)));
        assert_eq!(feed.end(), end + MOST_KEPT as u64 + 7);
        assert_eq!(read(&feed, end + 6), Err(FellBehind));
        assert_eq!(read(&feed, end + 7).map(|text| text.len()), Ok(MOST_KEPT));
    }

    proptest! {
        #[test]
        fn readers_get_what_was_said(texts in prop::collection::vec("[a-z]{0,40}", 0..60), step in 1usize..50) {
            let feed = Feed::new("default", false).unwrap();
            feed.set_open(true);
            let (mut heard, mut bytes, mut position) = (String::new(), vec![0; step], 0);
            for text in &texts {
                feed.say(format_args!("{text}"));
                let count = feed.read(position, &mut bytes).unwrap();
                position += count as u64;
                heard.extend(bytes[..count].iter().map(|&byte| char::from(byte)));
            }
            while let Ok(count @ 1..) = feed.read(position, &mut bytes) {
                position += count as u64;
                heard.extend(bytes[..count].iter().map(|&byte| char::from(byte)));
            }
            prop_assert_eq!(heard, texts.concat());
        }
    }
}
