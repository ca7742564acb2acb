//! The server: a thread that accepts connections and serves HTTP/1 on them, within limits.
//!
//! A connection on which no request has become complete for [`HttpLimits::silence`] is closed, whether its
//! client sends nothing, sends a request very slowly, or does not read the answer. If there are
//! [`HttpLimits::connections`] connections, a new one takes the place of the connection that has been silent
//! for longest, so that clients that hold connections open do not keep a scraper out.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use element::background;
use engine::Inspector;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, LocalSet, spawn_local};
use tokio::time::sleep;

use crate::guard::Guard;
use crate::limits::HttpLimits;
use crate::questions::Questions;
use crate::routes::Site;
use crate::{About, HttpAddress, Token};

/// The time to wait after the system has refused a connection, for example for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// A server that is bound to its address but does not serve yet. Connections wait.
pub struct HttpServer {
    listener: StdListener,
    address: SocketAddr,
    guard: Guard,
    limits: HttpLimits,
}

/// A server that serves. It stops when this value is dropped.
pub struct Running {
    inspector: Inspector,
    _stop: oneshot::Sender<()>,
}

impl HttpServer {
    /// Binds the address. `names` are further names of this host in requests; `token` lets clients write
    /// handlers.
    ///
    /// # Errors
    /// If the address cannot be bound: a message for the user.
    pub fn bind(
        address: &HttpAddress,
        names: &[String],
        token: Option<Token>,
        limits: HttpLimits,
    ) -> Result<HttpServer, String> {
        let shown = |sockets: &[SocketAddr]| sockets.first().map(ToString::to_string).unwrap_or_default();
        let failed = |error: io::Error| format!("{}: {error}", shown(&address.sockets));
        let listener = StdListener::bind(&address.sockets[..]).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let names: Vec<String> = names.iter().chain(&address.name).cloned().collect();
        Ok(HttpServer { listener, address: bound, guard: Guard::new(&names, token), limits })
    }

    /// Returns the address that the server is bound to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts the thread that serves. `started` is the start of the program.
    ///
    /// # Errors
    /// If the system has no room for a further thread.
    pub fn start(self, inspector: Inspector, about: About, started: SystemTime) -> io::Result<Running> {
        let HttpServer { listener, guard, limits, .. } = self;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let asked = inspector.clone();
        background::spawn("http", move || {
            let questions = Questions::new(asked, limits.request);
            let site = Rc::new(Site { about, questions, guard, limits, started, begun: Instant::now() });
            let local = LocalSet::new();
            runtime.block_on(local.run_until(async move {
                let accept = async {
                    match TcpListener::from_std(listener) {
                        Ok(listener) => accept_all(listener, site).await,
                        Err(_) => std::future::pending().await,
                    }
                };
                either(accept, stopped).await;
            }));
        })?;
        Ok(Running { inspector, _stop: stop })
    }
}

impl Drop for Running {
    /// Refuses further questions to the workers, and has the thread end.
    fn drop(&mut self) {
        self.inspector.close();
    }
}

/// Waits until one of two futures is ready.
async fn either(first: impl Future, second: impl Future) {
    let (mut first, mut second) = (std::pin::pin!(first), std::pin::pin!(second));
    std::future::poll_fn(|cx| {
        let is_ready = first.as_mut().poll(cx).is_ready() || second.as_mut().poll(cx).is_ready();
        if is_ready { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// The times of one connection.
struct Client {
    /// The instant at which the connection began, or its last request was answered.
    last: Cell<Instant>,
    /// True while a request is being answered.
    is_served: Cell<bool>,
}

/// The connections that are open, by a number that increases.
type Clients = Rc<RefCell<BTreeMap<u64, (Rc<Client>, AbortHandle)>>>;

async fn accept_all(listener: TcpListener, site: Rc<Site>) {
    let clients: Clients = Rc::default();
    for number in 0.. {
        let stream = loop {
            match listener.accept().await {
                Ok((stream, _)) => break stream,
                Err(_) => sleep(PAUSE).await,
            }
        };
        if clients.borrow().len() >= site.limits.connections && !close_silent(&clients) {
            continue;
        }
        let client = Rc::new(Client { last: Cell::new(Instant::now()), is_served: Cell::new(false) });
        let task = {
            let (site, client, clients) = (Rc::clone(&site), Rc::clone(&client), Rc::clone(&clients));
            spawn_local(async move {
                let limits = site.limits;
                either(serve(stream, site, Rc::clone(&client)), watch(&client, limits.silence)).await;
                clients.borrow_mut().remove(&number);
            })
        };
        clients.borrow_mut().insert(number, (client, task.abort_handle()));
    }
}

/// Closes the connection that has been silent for longest. Returns false if requests are being answered on
/// all connections.
fn close_silent(clients: &Clients) -> bool {
    let mut clients = clients.borrow_mut();
    let silent = clients.iter().filter(|(_, (client, _))| !client.is_served.get());
    let Some(number) = silent.min_by_key(|(_, (client, _))| client.last.get()).map(|(&number, _)| number)
    else {
        return false;
    };
    if let Some((_, task)) = clients.remove(&number) {
        task.abort();
    }
    true
}

/// Waits until a connection has been silent for too long.
async fn watch(client: &Client, silence: Duration) {
    loop {
        let silent = if client.is_served.get() { Duration::ZERO } else { client.last.get().elapsed() };
        match silence.checked_sub(silent) {
            None | Some(Duration::ZERO) => return,
            Some(left) => sleep(left).await,
        }
    }
}

/// Serves a connection until its end.
async fn serve(stream: TcpStream, site: Rc<Site>, client: Rc<Client>) {
    // Answers are written at once, so they need not wait to be combined.
    let _ = stream.set_nodelay(true);
    let head = site.limits.head;
    let service = service_fn(|request| {
        let (site, client) = (Rc::clone(&site), Rc::clone(&client));
        async move {
            client.is_served.set(true);
            let response = site.answer(request).await;
            client.is_served.set(false);
            client.last.set(Instant::now());
            Ok::<_, Infallible>(response)
        }
    });
    // An error means that the client has sent no HTTP, or has gone.
    let _ = http1::Builder::new().max_buf_size(head).serve_connection(TokioIo::new(stream), service).await;
}
