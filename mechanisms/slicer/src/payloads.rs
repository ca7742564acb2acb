//! The state that slicing and splicing elements share: the payloads of a worker, the key of tokens, and
//! counts.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use element::args::Bandwidth;
use element::histogram::Histogram;
use element::{Args, Cx, Timestamp};
use packet::{Pool, SLOT_STRIDE};

use crate::headers::Headers;
use crate::table::{MOST, SWEEP, Table};
use crate::token::{Place, TOGETHER, TOKEN, TokenCipher};

/// The minimum length in bytes of packets that are worth slicing (NFSlicer paper, section III-C).
pub(crate) const THRESHOLD: u32 = 500;

/// The settings of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Settings {
    /// The number of entries; `None` if it follows from line rate and service time.
    pub(crate) entries: Option<u32>,
    pub(crate) turns: u32,
    /// The minimum time that a payload waits before it expires; 0 for as long as its turns last.
    pub(crate) timeout: Timestamp,
    /// True if sliced packets are marked.
    pub(crate) marks: bool,
    pub(crate) line_rate: Bandwidth,
    pub(crate) service_time: Timestamp,
}

impl Settings {
    /// Returns the number of entries: by default, the number of packets worth slicing that can arrive while
    /// a packet is served.
    pub(crate) fn entries(&self) -> usize {
        let Bandwidth(rate) = self.line_rate;
        let packets = u128::from(rate / u64::from(THRESHOLD)) * self.service_time.0.max(0) as u128;
        let entries = self.entries.map_or(packets.div_ceil(1_000_000_000), u128::from);
        entries.clamp(1, MOST as u128) as usize
    }

    /// Returns a time in units of a part of the time-out.
    pub(crate) fn stamp(&self, time: Timestamp) -> u32 {
        (time.0 / (self.timeout.0 / PARTS).max(1)) as u32
    }

    /// Returns the interval at which the table is checked for expired payloads, a part of it at a time.
    fn interval(&self, entries: usize) -> Timestamp {
        let parts = 4 * entries.div_ceil(SWEEP).max(1) as i64;
        Timestamp((self.timeout.0 / parts).max(1_000))
    }
}

/// The number of parts of the time-out, the units in which the age of payloads is measured.
const PARTS: i64 = 16;
/// The time of the first check after the table was empty. The interval grows later, up to
/// [`Settings::interval`]. A run whose packets have all returned does not continue because of this timer.
const FIRST_LOOK: Timestamp = Timestamp(1_000_000);
/// The delay beyond which a timer is taken to belong to an element that no longer exists.
const LATE: Timestamp = Timestamp(1_000_000_000);
/// The value of a time at which no check is due.
const NEVER: Timestamp = Timestamp(i64::MIN);
/// The number of missing packets from which on a message may report that few return.
const MANY: u64 = 1_000;

/// The service: the payloads of one worker.
pub(crate) struct Payloads {
    pub(crate) settings: Settings,
    common: Arc<Common>,
    state: Mutex<State>,
}

/// The state that all workers share.
#[derive(Default)]
struct Common {
    seal: OnceLock<TokenCipher>,
}

/// The state that the elements of one worker use, one after the other.
pub(crate) struct State {
    pub(crate) table: Table,
    pub(crate) counts: Counts,
    /// The cipher of tokens; absent until the run begins.
    pub(crate) seal: Option<TokenCipher>,
    /// True if sliced packets may have kept a part of their payload.
    pub(crate) leaves_rest: bool,
    /// The time of the current batch, in the units of [`Settings::stamp`].
    pub(crate) stamp: u32,
    /// The time of the next check for expired payloads, and the interval since the last check.
    due: Timestamp,
    interval: Timestamp,
    ahead: Ahead,
}

impl State {
    fn new(table: Table) -> State {
        State {
            table,
            counts: Counts::default(),
            seal: None,
            leaves_rest: false,
            stamp: 0,
            due: NEVER,
            interval: FIRST_LOOK,
            ahead: Ahead::default(),
        }
    }

    /// Returns the bytes at the place of a token, if the packet may have one.
    #[inline]
    pub(crate) fn token_in(&self, data: &[u8], headers: &Headers) -> Option<[u8; TOKEN]> {
        let payload = headers.payload_length();
        if payload != TOKEN && !(payload > TOKEN && self.leaves_rest) {
            return None;
        }
        data.get(headers.payload.into()..)?.first_chunk().copied()
    }

    /// Decodes the token of a packet; `None` if it has no valid token.
    #[inline]
    pub(crate) fn opens(&self, data: &[u8], headers: &Headers) -> Option<Place> {
        self.seal.as_ref()?.open(self.token_in(data, headers)?)
    }

    /// Returns the token of the next payload in an entry.
    #[inline]
    pub(crate) fn token_of(&mut self, worker: u8, index: u32) -> Option<[u8; TOKEN]> {
        let Ahead { first, used, count, tokens } = &mut self.ahead;
        let mut at = index.wrapping_sub(*first) as usize;
        if !(*used..*count).contains(&at) {
            let mut places = [Place { worker, index, generation: 0 }; TOGETHER];
            *count = 0;
            for (place, generation) in places.iter_mut().zip(self.table.next_generations(index)) {
                *place = Place { worker, index: index + *count as u32, generation };
                *count += 1;
            }
            *tokens = self.seal.as_ref()?.close(places);
            (*first, at) = (index, 0);
        }
        // A token is used once: in the next round the entry has another one.
        *used = at + 1;
        tokens.get(at).copied()
    }
}

/// Tokens of adjacent entries that are computed in advance.
#[derive(Default)]
struct Ahead {
    first: u32,
    used: usize,
    count: usize,
    tokens: [[u8; TOKEN]; TOGETHER],
}

/// The counts of packets by fate.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) sliced: u64,
    pub(crate) small: u64,
    pub(crate) long: u64,
    pub(crate) unsuitable: u64,
    pub(crate) occupied: u64,
    pub(crate) no_buffer: u64,
    pub(crate) remarked: u64,
    pub(crate) foreign: u64,
    pub(crate) spliced: u64,
    pub(crate) tunnelled: u64,
    pub(crate) expired: u64,
    pub(crate) late: u64,
    pub(crate) repeated: u64,
    pub(crate) no_token: u64,
    pub(crate) changed: u64,
    pub(crate) hidden: u64,
    pub(crate) unmarked: u64,
    pub(crate) quoted: u64,
    pub(crate) unrestored: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_crossed: u64,
    pub(crate) occupancy: Histogram,
    has_warned: bool,
}

impl Counts {
    /// Returns the number of sliced packets of which nothing has returned, neither while their payloads
    /// waited nor later.
    pub(crate) fn missing(&self) -> u64 {
        self.expired.saturating_sub(self.late)
    }
}

impl Payloads {
    /// Creates the payloads of the element that is being built.
    pub(crate) fn new(args: &Args<'_>, settings: Settings) -> Arc<Payloads> {
        let common = args.setup.common.get_or_make(args.id(), Common::default);
        let state = Mutex::new(State::new(Table::new(settings.entries(), settings.turns)));
        Arc::new(Payloads { settings, common, state })
    }

    /// Sets the key of tokens: an unpredictable key, or a fixed key in runs that are repeatable.
    ///
    /// # Errors
    /// If the operating system has no random numbers, there are more than 256 workers, or the table would
    /// take too much memory.
    pub(crate) fn start(&self, cx: &mut Cx<'_>) -> Result<(), String> {
        if cx.worker().1 > 1 << 8 {
            return Err("tokens have room for 256 workers".into());
        }
        let mut state = self.open();
        let (entries, slots) = (state.table.capacity(), cx.pool().stats().limit);
        if entries > slots / 2 {
            return Err(format!(
                "ENTRIES {entries}: payloads may take half of the packet memory, {} entries of {SLOT_STRIDE} bytes; give \
                 fewer, or more --memory",
                slots / 2
            ));
        }
        if state.seal.is_none() {
            let mut key = [7; 16];
            if !cx.is_repeatable() {
                getrandom::fill(&mut key).map_err(|error| format!("no random numbers: {error}"))?;
            }
            // The first worker sets the key: all workers read each other's tokens.
            state.seal = Some(self.common.seal.get_or_init(|| TokenCipher::new(key)).clone());
        }
        Ok(())
    }

    /// Locks the state for the work on one batch. Only elements of one worker do so, so there is no
    /// contention.
    pub(crate) fn open(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the time of the batch. Under the trace clock, payloads that have waited for too long expire
    /// here: time then passes with packets, not by timers.
    #[inline]
    pub(crate) fn pass_time(&self, state: &mut State, cx: &mut Cx<'_>) {
        let stamp = self.settings.stamp(cx.now());
        if stamp != state.stamp {
            state.stamp = stamp;
            if cx.follows_captures() && self.settings.timeout > Timestamp::ZERO {
                self.sweep(state, cx, usize::MAX);
            }
        }
    }

    /// Starts the timer of this element, which checks for expired payloads, if payloads wait and no timer
    /// runs. Not needed under the trace clock.
    #[inline]
    pub(crate) fn watch(&self, state: &mut State, cx: &mut Cx<'_>) {
        let is_watched = state.table.waiting() == 0 || state.due + LATE >= cx.now();
        if !is_watched && self.settings.timeout > Timestamp::ZERO && !cx.follows_captures() {
            state.interval = FIRST_LOOK.min(self.settings.interval(state.table.capacity()));
            self.look_later(state, cx);
        }
    }

    #[cold]
    fn look_later(&self, state: &mut State, cx: &mut Cx<'_>) {
        state.due = cx.now() + state.interval;
        cx.set_timer(0, state.due);
    }

    /// Removes payloads that have waited for too long, and restarts the timer.
    pub(crate) fn look(&self, cx: &mut Cx<'_>) {
        let mut state = self.open();
        let state = &mut *state;
        self.sweep(state, cx, SWEEP);
        state.due = NEVER;
        if state.table.waiting() > 0 {
            state.interval =
                (state.interval + state.interval).min(self.settings.interval(state.table.capacity()));
            self.look_later(state, cx);
        }
        let missing = state.counts.missing();
        if missing >= MANY
            && missing > state.counts.spliced
            && !std::mem::replace(&mut state.counts.has_warned, true)
        {
            let name = cx.name().to_string();
            cx.message(format_args!(
                "{name}: most sliced packets have not come back: the network function drops them, or hides them (encrypts, \
                 compresses or reads them); it should get such packets whole\n"
            ));
        }
    }

    #[cold]
    fn sweep(&self, state: &mut State, cx: &mut Cx<'_>, most: usize) {
        let (now, pool) = (self.settings.stamp(cx.now()), cx.pool());
        state.table.sweep((now, PARTS as u32), most, |parked| {
            state.counts.expired += 1;
            pool.free(parked.packet);
        });
    }

    /// Frees all payloads at the end of a run.
    pub(crate) fn close(&self, pool: &mut Pool) {
        self.open().table.clear().for_each(|parked| pool.free(parked.packet));
    }

    /// Returns the state for a successor of this element.
    pub(crate) fn take_state(&self) -> State {
        std::mem::replace(&mut *self.open(), State::new(Table::new(1, 1)))
    }

    /// Frees the payloads of a predecessor whose state cannot be used.
    pub(crate) fn give_up(pool: &mut Pool, mut state: State) {
        state.table.clear().for_each(|parked| pool.free(parked.packet));
    }

    /// Takes over the payloads of a predecessor; payloads for which there is no entry any more are freed.
    pub(crate) fn put_state(&self, cx: &mut Cx<'_>, mut before: State) {
        let mut state = self.open();
        let gone = before.table.resize(self.settings.entries(), self.settings.turns);
        gone.into_iter().for_each(|parked| cx.pool().free(parked.packet));
        before.leaves_rest |= state.leaves_rest;
        before.ahead = Ahead::default();
        // The time-out may have changed, and the timer of the predecessor no longer exists.
        let now = self.settings.stamp(cx.now());
        before.table.all_mut().for_each(|parked| parked.stamp = now);
        before.due = NEVER;
        *state = before;
        self.watch(&mut state, cx);
    }
}
