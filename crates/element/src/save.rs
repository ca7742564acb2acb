//! State on disk: the form in which elements write their state, so that a later run continues with it.
//!
//! A class declares which parts of its state survive a restart ([`StatePart::on_disk`](crate::StatePart)) and
//! the version of their form ([`Class::saved_form`](crate::Class::saved_form)). An element writes entries
//! into pieces ([`StateWriter`]), each of a bounded length, between batches of packets. It reads them again
//! at the start of a later run ([`SavedState`]). An entry is never divided between pieces.
//!
//! Numbers are little-endian. A time is in nanoseconds since 1970, by the clock of the run.

use std::fmt;
use std::net::IpAddr;

use packet::Timestamp;
use wire::FiveTuple;

/// The length in bytes at which a piece is full. The last entry may make the piece longer.
pub const PIECE: usize = 16 << 10;

/// The writer of one piece of the state of an element.
#[derive(Debug, Default)]
pub struct StateWriter {
    bytes: Vec<u8>,
}

macro_rules! numbers {
    ($($name:ident),+) => {
        impl StateWriter {
            $(
                #[doc = concat!("Writes a number of the type `", stringify!($name), "`.")]
                pub fn $name(&mut self, number: $name) {
                    self.bytes.extend(number.to_le_bytes());
                }
            )+
        }

        impl StateReader<'_> {
            $(
                #[doc = concat!("Reads a number of the type `", stringify!($name), "`.")]
                ///
                /// # Errors
                /// If the piece has too few bytes left.
                pub fn $name(&mut self) -> Result<$name, Damaged> {
                    self.array().map($name::from_le_bytes)
                }
            )+
        }
    };
}

numbers!(u8, u16, u32, u64, i64);

impl StateWriter {
    /// True if the piece is full: no further entry is to be written.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= PIECE
    }

    /// Returns the bytes of the piece.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes bytes without their number, so the reader has to know how many they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes a text with its length. Of a text longer than 65,535 bytes, only the characters within the
    /// first 65,535 bytes are written.
    pub fn text(&mut self, text: &str) {
        let mut end = text.len().min(usize::from(u16::MAX));
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.u16(end as u16);
        self.raw(&text.as_bytes()[..end]);
    }

    /// Writes a time.
    pub fn time(&mut self, time: Timestamp) {
        self.i64(time.0);
    }

    /// Writes a five-tuple.
    pub fn five_tuple(&mut self, tuple: &FiveTuple) {
        match (tuple.source(), tuple.destination()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                self.u8(4);
                self.raw(&source.octets());
                self.raw(&destination.octets());
            }
            (source, destination) => {
                let octets = |address| match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                    IpAddr::V6(address) => address.octets(),
                };
                self.u8(6);
                self.raw(&octets(source));
                self.raw(&octets(destination));
            }
        }
        self.u16(tuple.source_port());
        self.u16(tuple.destination_port());
        self.u8(tuple.protocol());
    }
}

/// The error that saved state cannot be read. The text says what is wrong, without capital letter and full
/// stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged(pub &'static str);

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Damaged {}

/// The numbers of entries that an element has read ([`Element::load_state`](crate::Element::load_state)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The number of saved entries with which the element continues. Copies at several workers may count the
    /// same entry.
    pub taken: u64,
    /// The number of taken entries that another worker may have taken, too, because packets of the entry may
    /// come to several workers.
    pub shared: u64,
    /// The number of saved entries that have expired and are not taken.
    pub ended: u64,
    /// The number of saved entries that do not fit the element's arguments or have no room.
    pub refused: u64,
}

impl Loaded {
    /// Adds the numbers `more`, of another worker's copy of the element.
    pub fn add(&mut self, more: Loaded) {
        self.taken += more.taken;
        self.shared += more.shared;
        self.ended += more.ended;
        self.refused += more.refused;
    }
}

/// The state that the copies of one element at all workers saved in an earlier run, for an element with the
/// same name and class.
#[derive(Clone, Debug)]
pub struct SavedState<'a> {
    pieces: &'a [Vec<u8>],
    /// The time at which the state is read, by the clock of the run that reads it.
    now: Timestamp,
    /// The number of nanoseconds that is subtracted from each saved time, because the clock was put back
    /// since the state was saved.
    back: i64,
}

impl<'a> SavedState<'a> {
    /// Makes the state from pieces that were written at the time `saved` and are read at the time `now`. If
    /// `now` is earlier, the clock was put back: entries are then as old as when they were written.
    pub fn new(pieces: &'a [Vec<u8>], saved: Timestamp, now: Timestamp) -> SavedState<'a> {
        SavedState { pieces, now, back: saved.0.saturating_sub(now.0).max(0) }
    }

    /// Reads all entries by `read`, and passes each to `take`. All entries are read once before the first is
    /// passed to `take`, so that damaged bytes leave the element as it was.
    ///
    /// # Errors
    /// If `read` fails for any entry, or reads no byte.
    pub fn each<T>(
        &self,
        read: impl Fn(&mut StateReader<'_>) -> Result<T, Damaged>,
        mut take: impl FnMut(T),
    ) -> Result<(), Damaged> {
        for is_last in [false, true] {
            for piece in self.pieces {
                let mut reader = StateReader { rest: piece, now: self.now, back: self.back };
                while !reader.rest.is_empty() {
                    let before = reader.rest.len();
                    let entry = read(&mut reader)?;
                    if reader.rest.len() == before {
                        return Err(Damaged("an entry is empty"));
                    }
                    if is_last {
                        take(entry);
                    }
                }
            }
        }
        Ok(())
    }
}

/// The bytes of a piece that are left to be read.
#[derive(Clone, Debug)]
pub struct StateReader<'a> {
    rest: &'a [u8],
    now: Timestamp,
    back: i64,
}

impl<'a> StateReader<'a> {
    /// Reads `length` bytes.
    ///
    /// # Errors
    /// If the piece has too few bytes left.
    pub fn raw(&mut self, length: usize) -> Result<&'a [u8], Damaged> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Damaged("an entry is cut"))?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Reads bytes into an array.
    ///
    /// # Errors
    /// If the piece has too few bytes left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(Damaged("an entry is cut"))?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// Reads a text and its length.
    ///
    /// # Errors
    /// If the piece has too few bytes left, or the bytes are no text.
    pub fn text(&mut self) -> Result<&'a str, Damaged> {
        let length = self.u16()?;
        let bytes = self.raw(length.into())?;
        std::str::from_utf8(bytes).map_err(|_| Damaged("a text is not UTF-8"))
    }

    /// Reads a time. If the clock was put back since the state was saved, the time is put back by as much. A
    /// time later than now becomes now, so that a wrong clock keeps no entry for ever.
    ///
    /// # Errors
    /// If the piece has too few bytes left.
    pub fn time(&mut self) -> Result<Timestamp, Damaged> {
        let time = self.i64()?.saturating_sub(self.back);
        // The lower limit keeps differences of times within 64 bits.
        Ok(Timestamp(time.min(self.now.0).max(i64::MIN / 4)))
    }

    /// Reads a truth value: a byte that is 0 (false) or 1 (true).
    ///
    /// # Errors
    /// If the byte has another value, or the piece has no byte left.
    pub fn bool(&mut self) -> Result<bool, Damaged> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Damaged("a value is neither true nor false")),
        }
    }

    /// Reads a five-tuple.
    ///
    /// # Errors
    /// If the piece has too few bytes left, or the version of IP is unknown.
    pub fn five_tuple(&mut self) -> Result<FiveTuple, Damaged> {
        let version = self.u8()?;
        if version == 4 {
            let [source, destination] = [self.array::<4>()?, self.array::<4>()?];
            let (source_port, destination_port, protocol) = (self.u16()?, self.u16()?, self.u8()?);
            return Ok(FiveTuple::v4(
                (source.into(), source_port),
                (destination.into(), destination_port),
                protocol,
            ));
        }
        if version != 6 {
            return Err(Damaged("the IP version of a flow is unknown"));
        }
        let [source, destination] = [self.array::<16>()?, self.array::<16>()?];
        let (source_port, destination_port, protocol) = (self.u16()?, self.u16()?, self.u8()?);
        Ok(FiveTuple::v6((source.into(), source_port), (destination.into(), destination_port), protocol))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn entries_come_back() {
        let tuples = [
            FiveTuple::v4(([10, 0, 0, 1].into(), 7), ([10, 0, 0, 2].into(), 8), 6),
            FiveTuple::v6(([1; 16].into(), 9), ([2; 16].into(), 10), 17),
        ];
        let pieces: Vec<Vec<u8>> = tuples
            .iter()
            .map(|tuple| {
                let mut out = StateWriter::default();
                out.five_tuple(tuple);
                out.text("näme");
                out.time(Timestamp(50));
                out.into_bytes()
            })
            .collect();
        let read = |now: i64| {
            let state = SavedState::new(&pieces, Timestamp(100), Timestamp(now));
            let mut all = Vec::new();
            let entry = |reader: &mut StateReader<'_>| {
                Ok((reader.five_tuple()?, reader.text()?.to_string(), reader.time()?.0))
            };
            state.each(entry, |entry| all.push(entry)).unwrap();
            all
        };
        let [a, b] = tuples;
        assert_eq!(read(1000), [(a, "näme".to_string(), 50), (b, "näme".to_string(), 50)]);
        // The clock was put back from 100 ns to 40 ns: the entries are still 50 ns old.
        assert_eq!(read(40)[0].2, -10);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let mut out = StateWriter::default();
        out.text(&"ä".repeat(40_000));
        let pieces = [out.into_bytes()];
        let state = SavedState::new(&pieces, Timestamp(0), Timestamp(0));
        let mut lengths = Vec::new();
        state.each(|reader| Ok(reader.text()?.len()), |length| lengths.push(length)).unwrap();
        assert_eq!(lengths, [65_534]);
    }

    #[test]
    fn nothing_is_taken_of_damaged_state() {
        let mut out = StateWriter::default();
        (0..5).for_each(|number| out.u32(number));
        let pieces = [out.into_bytes(), vec![1, 2, 3]];
        let state = SavedState::new(&pieces, Timestamp(0), Timestamp(0));
        let mut taken = 0;
        assert_eq!(state.each(|reader| reader.u32(), |_| taken += 1), Err(Damaged("an entry is cut")));
        assert_eq!(state.each(|_| Ok(()), |()| taken += 1), Err(Damaged("an entry is empty")));
        assert_eq!(taken, 0);
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in any::<i64>()) {
            let pieces = [bytes];
            let state = SavedState::new(&pieces, Timestamp(at), Timestamp(7));
            let _ = state.each(
                |reader| Ok((reader.five_tuple()?, reader.text()?.len(), reader.bool()?, reader.time()?)),
                |(.., time)| assert!(time.0 <= 7),
            );
        }
    }
}
