//! The state that slicing and splicing elements share: the parked payloads of a worker, the cipher of
//! tokens, and counts.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use element::args::Bandwidth;
use element::histogram::Log2Histogram;
use element::{Args, Cx, Timestamp};
use packet::{Pool, SLOT_STRIDE};

use crate::headers::Headers;
use crate::table::{MOST, ParkedPayloads, SWEEP};
use crate::token::{PayloadPlace, TOGETHER, TOKEN, TokenCipher};

/// The default minimum length in bytes of packets that are worth slicing (NFSlicer paper, section III-C).
pub(crate) const THRESHOLD: u32 = 500;

/// The settings of a table, from the arguments of PayloadTable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Settings {
    /// The number of entries of the table; `None` for `auto`: the number then follows from line rate and
    /// service time.
    pub(crate) entries: Option<u32>,
    pub(crate) turns: u32,
    /// The time after which a payload expires (TIMEOUT). If it is 0, a payload expires only by TTL: when the
    /// rotation over the entries of the table has found its entry in use that many times.
    pub(crate) timeout: Timestamp,
    /// True if sliced packets are marked by their DSCP.
    pub(crate) marks: bool,
    pub(crate) line_rate: Bandwidth,
    pub(crate) service_time: Timestamp,
}

impl Settings {
    /// Returns the number of entries. If it is not configured, this is the number of packets of
    /// [`THRESHOLD`] bytes that can arrive at the line rate during the service time. The result is limited
    /// to the range from 1 to [`MOST`].
    pub(crate) fn entries(&self) -> usize {
        let Bandwidth(rate) = self.line_rate;
        let packets = u128::from(rate / u64::from(THRESHOLD)) * self.service_time.0.max(0) as u128;
        let entries = self.entries.map_or(packets.div_ceil(1_000_000_000), u128::from);
        entries.clamp(1, MOST as u128) as usize
    }

    /// Returns a time in units of a sixteenth of the time-out, modulo 2^32, for the stamps of payloads.
    pub(crate) fn stamp(&self, time: Timestamp) -> u32 {
        (time.0 / (self.timeout.0 / PARTS).max(1)) as u32
    }

    /// Returns the interval between two checks for expired payloads. Each check covers [`SWEEP`] of the
    /// `entries`, so that the whole table is checked four times per time-out.
    fn interval(&self, entries: usize) -> Timestamp {
        let parts = 4 * entries.div_ceil(SWEEP).max(1) as i64;
        Timestamp((self.timeout.0 / parts).max(1_000))
    }
}

/// The number of units of time per time-out; payload ages are measured in these units.
const PARTS: i64 = 16;
/// The interval until the first check after the table was empty. Later intervals double, up to
/// [`Settings::interval`]. The first interval is short, so that a run ends soon once all packets have
/// returned.
const FIRST_LOOK: Timestamp = Timestamp(1_000_000);
/// The time by which a check may be overdue. If it is more, the timer is taken to have belonged to an
/// element that no longer exists.
const LATE: Timestamp = Timestamp(1_000_000_000);
/// The value of `due` if no check is due.
const NEVER: Timestamp = Timestamp(i64::MIN);
/// The number of missing packets from which on a message may warn that most sliced packets do not return.
const MANY: u64 = 1_000;

/// The service that PayloadTable publishes: the payloads of one worker.
pub(crate) struct Payloads {
    pub(crate) settings: Settings,
    common: Arc<Common>,
    state: Mutex<State>,
}

/// The state that the tables of all workers share.
#[derive(Default)]
struct Common {
    cipher: OnceLock<TokenCipher>,
}

/// The state of one worker, which its elements use one after the other.
pub(crate) struct State {
    pub(crate) table: ParkedPayloads,
    pub(crate) counts: Counts,
    /// The cipher of tokens; `None` until the run begins.
    pub(crate) cipher: Option<TokenCipher>,
    /// True if a slicing element leaves a part of payloads in packets, so that the payload of a sliced packet
    /// may be longer than its token.
    pub(crate) leaves_rest: bool,
    /// True if packets that leave work to a device have been parked.
    pub(crate) has_unfinished: bool,
    /// True if large segments are cut before they are sliced, because one has returned in a tunnel.
    pub(crate) cuts_large: bool,
    /// The time of the current batch, in the units of [`Settings::stamp`].
    pub(crate) stamp: u32,
    /// The time of the next check for expired payloads, and the interval between the last check and that
    /// check.
    due: Timestamp,
    interval: Timestamp,
    ahead: Ahead,
}

impl State {
    fn new(table: ParkedPayloads) -> State {
        State {
            table,
            counts: Counts::default(),
            cipher: None,
            leaves_rest: false,
            has_unfinished: false,
            cuts_large: false,
            stamp: 0,
            due: NEVER,
            interval: FIRST_LOOK,
            ahead: Ahead::default(),
        }
    }

    /// Returns the bytes at the start of the payload, if their number allows that they are a token: exactly
    /// [`TOKEN`] bytes, or more if slicing leaves a part of payloads.
    #[inline]
    pub(crate) fn token_in(&self, data: &[u8], headers: &Headers) -> Option<[u8; TOKEN]> {
        let payload = headers.payload_length();
        if payload != TOKEN && !(payload > TOKEN && self.leaves_rest) {
            return None;
        }
        data.get(headers.payload.into()..)?.first_chunk().copied()
    }

    /// Decodes the token of a packet with these headers; `None` if it has no valid token.
    #[inline]
    pub(crate) fn valid_token(&self, data: &[u8], headers: &Headers) -> Option<PayloadPlace> {
        self.cipher.as_ref()?.decrypt(self.token_in(data, headers)?)
    }

    /// Returns the token for the next payload in the entry `index`; `None` before the run begins. The tokens
    /// of the following entries are computed in the same call of the cipher, for later use.
    #[inline]
    pub(crate) fn token_of(&mut self, worker: u8, index: u32) -> Option<[u8; TOKEN]> {
        let Ahead { first, used, count, tokens } = &mut self.ahead;
        let mut at = index.wrapping_sub(*first) as usize;
        if !(*used..*count).contains(&at) {
            let mut places = [PayloadPlace { worker, index, generation: 0 }; TOGETHER];
            *count = 0;
            for (place, generation) in places.iter_mut().zip(self.table.next_generations(index)) {
                *place = PayloadPlace { worker, index: index + *count as u32, generation };
                *count += 1;
            }
            *tokens = self.cipher.as_ref()?.encrypt(places);
            (*first, at) = (index, 0);
        }
        // The token is not used again: when the rotation over the entries of the table returns to this entry,
        // the generation, which the token contains, is another number.
        *used = at + 1;
        tokens.get(at).copied()
    }
}

/// Tokens of adjacent entries that are computed in advance: `tokens[n]` is for entry `first + n`, and
/// tokens from `used` to before `count` may be used.
#[derive(Default)]
struct Ahead {
    first: u32,
    used: usize,
    count: usize,
    tokens: [[u8; TOKEN]; TOGETHER],
}

/// Counts of packets by their fate; the manual of PayloadTable explains each.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) sliced: u64,
    pub(crate) large: u64,
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
    pub(crate) occupancy: Log2Histogram,
    has_warned: bool,
}

impl Counts {
    /// Returns the number of sliced packets of which nothing has returned: payloads that have expired,
    /// minus headers that returned late.
    pub(crate) fn missing(&self) -> u64 {
        self.expired.saturating_sub(self.late)
    }
}

impl Payloads {
    /// Creates the payloads of one worker for the element that is being built, with a table of the
    /// configured size.
    pub(crate) fn new(args: &Args<'_>, settings: Settings) -> Arc<Payloads> {
        let common = args.setup.common.get_or_make(args.id(), Common::default);
        let state = Mutex::new(State::new(ParkedPayloads::new(settings.entries(), settings.turns)));
        Arc::new(Payloads { settings, common, state })
    }

    /// Sets the key that encrypts tokens, which stand for parked payloads in sliced packets. The key is equal
    /// for all workers: unpredictable, or fixed if the run must be repeatable.
    ///
    /// # Errors
    /// If the operating system has no random numbers, there are more than 256 workers, or the table could
    /// take more than half of the packet memory.
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
        if state.cipher.is_none() {
            let mut key = [7; 16];
            if !cx.is_repeatable() {
                getrandom::fill(&mut key).map_err(|error| format!("no random numbers: {error}"))?;
            }
            // The first worker that starts sets the key for all, so that each worker can read the tokens of
            // the others.
            state.cipher = Some(self.common.cipher.get_or_init(|| TokenCipher::new(key)).clone());
        }
        Ok(())
    }

    /// Locks the state for the work on one batch or handler. Only the elements of one worker do so, so the
    /// lock is always free.
    pub(crate) fn open(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the time of the batch. Under the trace clock, time passes with packets and not by timers, so
    /// payloads that have waited for too long expire here.
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

    /// Starts the timer of the calling element, which checks for expired payloads, if payloads wait and no
    /// timer runs. Does nothing without TIMEOUT, and under the trace clock, whose time is that of the packets
    /// in the captures: [`pass_time`](Self::pass_time) then does the check.
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

    /// Handles the timer: removes payloads that have waited for too long, and sets the timer again if
    /// payloads wait. Warns once if most sliced packets do not return.
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
            cx.messages().message(format_args!(
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

    /// Frees all payloads when the run has ended.
    pub(crate) fn close(&self, pool: &mut Pool) {
        self.open().table.clear().for_each(|parked| pool.free(parked.packet));
    }

    /// Takes the state out, for a new instance of this element. An empty state remains.
    pub(crate) fn take_state(&self) -> State {
        std::mem::replace(&mut *self.open(), State::new(ParkedPayloads::new(1, 1)))
    }

    /// Frees the payloads in a state that the new instance cannot use.
    pub(crate) fn give_up(pool: &mut Pool, mut state: State) {
        state.table.clear().for_each(|parked| pool.free(parked.packet));
    }

    /// Takes over the state of the previous instance. Payloads whose entries the new table does not have
    /// are freed.
    pub(crate) fn put_state(&self, cx: &mut Cx<'_>, mut before: State) {
        let mut state = self.open();
        let gone = before.table.resize(self.settings.entries(), self.settings.turns);
        gone.into_iter().for_each(|parked| cx.pool().free(parked.packet));
        before.leaves_rest |= state.leaves_rest;
        before.ahead = Ahead::default();
        before.cuts_large = false;
        // Payloads get a new stamp, because the units of time may have changed with TIMEOUT. The timer of
        // the previous instance no longer exists.
        let now = self.settings.stamp(cx.now());
        before.table.all_mut().for_each(|parked| parked.stamp = now);
        before.due = NEVER;
        *state = before;
        self.watch(&mut state, cx);
    }
}
