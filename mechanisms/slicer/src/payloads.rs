//! What elements that slice and elements that splice share: a worker's payloads, the key of tokens, and counts.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use element::args::Bandwidth;
use element::histogram::Histogram;
use element::{Args, Cx, Timestamp};
use packet::{Pool, SLOT_STRIDE};

use crate::headers::Headers;
use crate::table::{MOST, SWEEP, Table};
use crate::token::{Place, Seal, TOGETHER, TOKEN};

/// Bytes from which packets are worth slicing (NFSlicer paper, section III-C).
pub(crate) const THRESHOLD: u32 = 500;

/// What a table is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Settings {
    /// Unless it follows from the two below.
    pub(crate) entries: Option<u32>,
    pub(crate) turns: u32,
    /// How long a payload waits at least before it goes; 0 for as long as its turns last.
    pub(crate) timeout: Timestamp,
    /// Whether sliced packets are marked.
    pub(crate) marks: bool,
    pub(crate) line_rate: Bandwidth,
    pub(crate) service_time: Timestamp,
}

impl Settings {
    pub(crate) const DEFAULT: Settings = Settings {
        entries: None,
        turns: 10,
        timeout: Timestamp(5_000_000_000),
        marks: true,
        line_rate: Bandwidth(1_250_000_000),
        service_time: Timestamp(1_000_000),
    };

    /// As many packets as are worth slicing can come while one is served.
    pub(crate) fn entries(&self) -> usize {
        let Bandwidth(rate) = self.line_rate;
        let packets = u128::from(rate / u64::from(THRESHOLD)) * self.service_time.0.max(0) as u128;
        let entries = self.entries.map_or(packets.div_ceil(1_000_000_000), u128::from);
        entries.clamp(1, MOST as u128) as usize
    }

    /// A time in parts of the time-out.
    pub(crate) fn stamp(&self, time: Timestamp) -> u32 {
        (time.0 / (self.timeout.0 / PARTS).max(1)) as u32
    }

    /// How often the table is looked at for payloads that have waited for too long, a part of it at a time.
    fn interval(&self, entries: usize) -> Timestamp {
        let parts = 4 * entries.div_ceil(SWEEP).max(1) as i64;
        Timestamp((self.timeout.0 / parts).max(1_000))
    }
}

/// Into how many parts the time-out is divided, by which the age of payloads is told.
const PARTS: i64 = 16;
/// When the table is first looked at after it was empty; later it is less often, up to [`Settings::interval`]. A run whose
/// packets have all come back does not go on for the sake of this.
const FIRST_LOOK: Timestamp = Timestamp(1_000_000);
/// How much later than it should a timer may run before it is taken to belong to an element that is gone.
const LATE: Timestamp = Timestamp(1_000_000_000);
/// No time at which the table is to be looked at.
const NEVER: Timestamp = Timestamp(i64::MIN);
/// Sliced packets that have not come back, before it is said that few do.
const MANY: u64 = 1_000;

/// The service: the payloads of one worker.
pub(crate) struct Payloads {
    pub(crate) settings: Settings,
    common: Arc<Common>,
    state: Mutex<State>,
}

/// What the workers have in common.
#[derive(Default)]
struct Common {
    seal: OnceLock<Seal>,
}

/// What elements of one worker work on, one after the other.
pub(crate) struct State {
    pub(crate) table: Table,
    pub(crate) counts: Counts,
    /// Missing until the run begins.
    pub(crate) seal: Option<Seal>,
    /// Whether sliced packets may have kept a part of their payload.
    pub(crate) leaves_rest: bool,
    /// The time of the batch, as [`Settings::stamp`] has it.
    pub(crate) stamp: u32,
    /// When the table is looked at for payloads that have waited for too long, and how long that is after the last time.
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

    /// What stands where a packet would have its token, if there can be one of ours.
    #[inline]
    pub(crate) fn token_in(&self, data: &[u8], headers: &Headers) -> Option<[u8; TOKEN]> {
        let payload = headers.payload_length();
        if payload != TOKEN && !(payload > TOKEN && self.leaves_rest) {
            return None;
        }
        data.get(headers.payload.into()..)?.first_chunk().copied()
    }

    /// What it says.
    #[inline]
    pub(crate) fn opens(&self, data: &[u8], headers: &Headers) -> Option<Place> {
        self.seal.as_ref()?.open(self.token_in(data, headers)?)
    }

    /// The token of the next payload in an entry.
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
        // In the next round it is another one.
        *used = at + 1;
        tokens.get(at).copied()
    }
}

/// Tokens that are made ahead, of neighbouring entries.
#[derive(Default)]
struct Ahead {
    first: u32,
    used: usize,
    count: usize,
    tokens: [[u8; TOKEN]; TOGETHER],
}

/// What became of packets.
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
    has_told: bool,
}

impl Counts {
    /// Sliced packets of which nothing has come back while their payloads waited, or later.
    pub(crate) fn missing(&self) -> u64 {
        self.expired.saturating_sub(self.late)
    }
}

impl Payloads {
    /// Those of the element that is being built.
    pub(crate) fn new(args: &Args<'_>, settings: Settings) -> Arc<Payloads> {
        let common = args.setup.common.get_or_make(args.id(), Common::default);
        let state = Mutex::new(State::new(Table::new(settings.entries(), settings.turns)));
        Arc::new(Payloads { settings, common, state })
    }

    /// Gets the key of tokens: one that nobody knows, or the same one in all runs that are repeatable.
    ///
    /// # Errors
    /// If the operating system has no random numbers; or the table would take too much memory.
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
            // Whoever comes first: all workers read each other's tokens.
            state.seal = Some(self.common.seal.get_or_init(|| Seal::new(key)).clone());
        }
        Ok(())
    }

    /// For the work on one batch. Only elements of one worker do that, so nobody waits.
    pub(crate) fn open(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the time of a batch. Where time is that of captures, payloads that have waited for too long go: it passes with
    /// packets then, and not because something waits for it.
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

    /// Otherwise has the table looked at by a timer of this element, while payloads wait.
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

    /// Lets payloads go that have waited for too long.
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
            && !std::mem::replace(&mut state.counts.has_told, true)
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

    /// At the end: payloads that nobody fetches any more.
    pub(crate) fn close(&self, pool: &mut Pool) {
        self.open().table.clear().for_each(|parked| pool.free(parked.packet));
    }

    /// For whoever goes on in place of this element.
    pub(crate) fn take_state(&self) -> State {
        std::mem::replace(&mut *self.open(), State::new(Table::new(1, 1)))
    }

    /// For whoever cannot go on with them.
    pub(crate) fn give_up(pool: &mut Pool, mut state: State) {
        state.table.clear().for_each(|parked| pool.free(parked.packet));
    }

    /// Goes on with the payloads of another one; those that there is no entry for any more go.
    pub(crate) fn put_state(&self, cx: &mut Cx<'_>, mut before: State) {
        let mut state = self.open();
        let gone = before.table.resize(self.settings.entries(), self.settings.turns);
        gone.into_iter().for_each(|parked| cx.pool().free(parked.packet));
        before.leaves_rest |= state.leaves_rest;
        before.ahead = Ahead::default();
        // The time-out may be another one now, and who looked is gone.
        let now = self.settings.stamp(cx.now());
        before.table.all_mut().for_each(|parked| parked.stamp = now);
        before.due = NEVER;
        *state = before;
        self.watch(&mut state, cx);
    }
}
