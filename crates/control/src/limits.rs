//! The limits of clients.

use std::time::Duration;

/// The limits of clients.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// The most connections.
    pub connections: usize,
    /// The longest time without a complete request on a connection.
    pub silence: Duration,
    /// The longest time for the answer to a request.
    pub request: Duration,
    /// The longest time for a handler of the graph that is written, such as `reload`.
    pub reload: Duration,
    /// The most bytes of the head of a request; at least 8192.
    pub head: usize,
    /// The most bytes of the value of a handler.
    pub body: usize,
}

impl Default for HttpLimits {
    fn default() -> HttpLimits {
        HttpLimits {
            connections: 64,
            silence: Duration::from_secs(60),
            request: Duration::from_secs(5),
            reload: Duration::from_secs(60),
            head: 16 << 10,
            body: 256 << 10,
        }
    }
}
