//! Stride scheduling (Waldspurger and Weihl, 1995): clients take turns in proportion to their tickets.
//!
//! A client is an input or an output. The client with the lowest *pass* has the next turn, and its pass
//! then advances by its *stride*, which is inversely proportional to its tickets.

use element::Args;

/// The stride of a client with one ticket. The stride of a client with N tickets is an Nth of it.
const STRIDE: u32 = 1 << 16;
/// The maximum number of tickets of a client; with more, strides would be too coarse.
const MOST_TICKETS: u32 = 1 << 15;

struct Client {
    pass: u32,
    stride: u32,
    tickets: u32,
}

/// The clients of a scheduler or switch, one per port, and the order of their next turns.
pub(crate) struct Stride {
    clients: Vec<Client>,
    /// The indices of the clients (ports) that have tickets, ordered by their passes. The client at index 0
    /// has the lowest pass, and the next turn.
    order: Vec<usize>,
}

impl Stride {
    /// Parses the arguments, one number of tickets per port, and reports errors to `args`. `ports` is the
    /// number of ports; `kind` is "input" or "output".
    pub(crate) fn read(args: &mut Args<'_>, ports: usize, kind: &str) -> Stride {
        let (mut given, mut tickets) = (0, Vec::new());
        args.each_of_rest(|args, i, text| {
            given += 1;
            let number = element::args::parse_integer(text).ok().and_then(|n| i32::try_from(n).ok());
            match number {
                None => args.error(format!("argument {i} should be number of tickets (integer)")),
                Some(n) if n < 0 => args.error(format!("argument {i} (number of tickets) must be >= 0")),
                Some(n) if n as u32 > MOST_TICKETS => {
                    // Click says "input" about outputs, too.
                    args.warn(format!("input {i}, tickets reduced to {MOST_TICKETS}"));
                    tickets.push(MOST_TICKETS);
                }
                Some(n) => tickets.push(n as u32),
            }
        });
        crate::patterns::check_count(args, (given, "number"), (ports, kind));
        Stride::new(&tickets)
    }

    fn new(tickets: &[u32]) -> Stride {
        let stride = |&tickets: &u32| STRIDE.checked_div(tickets).unwrap_or(0);
        let client = |t| Client { pass: stride(t), stride: stride(t), tickets: *t };
        let mut all = Stride {
            clients: tickets.iter().map(client).collect(),
            order: Vec::with_capacity(tickets.len()),
        };
        // The first port is inserted last: a client is inserted ahead of clients with the same pass, so the
        // first port gets the first turn.
        for i in (0..tickets.len()).rev().filter(|&i| tickets[i] > 0) {
            all.insert(i);
        }
        all
    }

    /// Inserts a client into the order of the next turns, ahead of all clients with the same or a higher
    /// pass.
    fn insert(&mut self, client: usize) {
        let pass = self.clients[client].pass;
        // Passes wrap around at 2^32, so the sign of their difference decides which of two passes is later.
        let later = |other: &usize| self.clients[*other].pass.wrapping_sub(pass) as i32 >= 0;
        let place = self.order.iter().position(later).unwrap_or(self.order.len());
        self.order.insert(place, client);
    }

    /// Calls `ask` for one client (port) after another, in the order of their turns, until it returns a
    /// value. Returns that value, or `None` if it returned none for any client. The pass of each client that
    /// was asked advances by its stride, so a client without a value loses its turn.
    pub(crate) fn next<T>(&mut self, mut ask: impl FnMut(usize) -> Option<T>) -> Option<T> {
        let mut asked = 0;
        let mut found = None;
        while found.is_none() && asked < self.order.len() {
            let client = self.order[asked];
            found = ask(client);
            let client = &mut self.clients[client];
            client.pass = client.pass.wrapping_add(client.stride);
            asked += 1;
        }
        // The clients that were asked are inserted again by their new passes. All of them are first moved to
        // the end of the order, so that no memory is needed; then each is removed there, and inserted among
        // the clients ahead of it.
        self.order.rotate_left(asked);
        let rest = self.order.len() - asked;
        for k in 0..asked {
            let client = self.order.remove(rest + k);
            let pass = self.clients[client].pass;
            let later = |other: &usize| self.clients[*other].pass.wrapping_sub(pass) as i32 >= 0;
            let place = self.order[..rest + k].iter().position(later).unwrap_or(rest + k);
            self.order.insert(place, client);
        }
        found
    }

    /// The number of clients, one per port.
    pub(crate) fn clients(&self) -> usize {
        self.clients.len()
    }

    pub(crate) fn tickets(&self, client: usize) -> u32 {
        self.clients[client].tickets
    }

    /// Sets the tickets of a client to a value that was written. A number above `MOST_TICKETS` is reduced to
    /// it. A client with 0 tickets has no more turns.
    ///
    /// # Errors
    /// If the value is negative or not a signed 32-bit integer.
    pub(crate) fn write_tickets(&mut self, client: usize, value: &str) -> Result<(), String> {
        let number = element::args::parse_integer(value).ok().and_then(|n| i32::try_from(n).ok());
        let number = number.ok_or("tickets value must be integer")?;
        let tickets = u32::try_from(number).map_err(|_| "number of tickets must be >= 0")?.min(MOST_TICKETS);
        let before = self.clients[client].tickets;
        let stride = STRIDE.checked_div(tickets).unwrap_or(0);
        (self.clients[client].tickets, self.clients[client].stride) = (tickets, stride);
        if tickets == 0 {
            self.order.retain(|&other| other != client);
        } else if before == 0 {
            let first = self.order.first().map(|&first| self.clients[first].pass);
            self.clients[client].pass = first.map_or(0, |pass| pass.wrapping_add(stride));
            self.insert(client);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn turns(stride: &mut Stride, n: usize) -> Vec<usize> {
        (0..n).filter_map(|_| stride.next(Some)).collect()
    }

    #[test]
    fn turns_are_in_proportion_to_tickets_and_ties_go_to_the_first_port() {
        let mut stride = Stride::new(&[1, 1, 2]);
        assert_eq!(turns(&mut stride, 4), [2, 2, 0, 1]);
        let mut counts = [0; 3];
        turns(&mut stride, 4000).into_iter().for_each(|client| counts[client] += 1);
        assert_eq!(counts, [1000, 1000, 2000]);
    }

    #[test]
    fn who_has_nothing_is_passed_over_in_this_round_only() {
        let mut stride = Stride::new(&[4, 1]);
        let mut asked = Vec::new();
        let found = stride.next(|client| {
            asked.push(client);
            (client == 1).then_some(())
        });
        assert_eq!((found, asked), (Some(()), vec![0, 1]));
        assert_eq!(stride.next::<()>(|_| None), None);
    }

    #[test]
    fn tickets_can_be_changed() {
        let mut stride = Stride::new(&[1, 0]);
        assert_eq!(turns(&mut stride, 3), [0, 0, 0]);
        assert_eq!(stride.write_tickets(1, "1"), Ok(()));
        assert_eq!(stride.write_tickets(0, "0"), Ok(()));
        assert_eq!(turns(&mut stride, 2), [1, 1]);
        assert_eq!(stride.tickets(0), 0);
        assert!(stride.write_tickets(1, "-1").is_err());
    }

    proptest! {
        /// Takes 500 turns with random tickets. The number of turns of each client differs from its
        /// proportional share by less than the number of clients plus 2.
        #[test]
        fn nobody_runs_ahead(tickets in prop::collection::vec(1u32..50, 1..6)) {
            let mut stride = Stride::new(&tickets);
            let mut taken = vec![0u64; tickets.len()];
            for client in turns(&mut stride, 500) {
                taken[client] += 1;
            }
            let total: u64 = tickets.iter().map(|&t| u64::from(t)).sum();
            for (n, t) in taken.iter().zip(&tickets) {
                let fair = 500.0 * f64::from(*t) / total as f64;
                prop_assert!((*n as f64 - fair).abs() < 2.0 + tickets.len() as f64, "{taken:?} of {tickets:?}");
            }
        }
    }
}
