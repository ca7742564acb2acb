//! The HTTP server of `tidegate run --http`: metrics and an interface in JSON.

use std::path::PathBuf;
use std::time::SystemTime;

use control::{About, HttpAddress, HttpLimits, HttpServer, Running, Token};
use engine::Inspector;

use crate::{elements, origin};

/// The options of the HTTP server.
#[derive(clap::Args)]
pub(crate) struct HttpOptions {
    /// Serve metrics for Prometheus, a page and JSON over HTTP: PORT, on the loopback address, or HOST:PORT
    ///
    /// With port 0, the system chooses a port. Reading needs no password, so let only machines connect that
    /// may read all handlers (docs/http.md).
    #[arg(long, value_name = "ADDR", help_heading = "Control", allow_hyphen_values = true)]
    http: Option<HttpAddress>,
    /// A further name by which clients know this machine; may be given several times
    ///
    /// A request is answered if it names an address, `localhost`, the name of this machine, or the host of
    /// --http. Others are refused, because they come from pages of other sites.
    #[arg(long, value_name = "NAME", help_heading = "Control", requires = "http")]
    http_name: Vec<String>,
    /// Let HTTP clients that have the token in this file write handlers
    ///
    /// Only the owner may have access to the file (`chmod 600`).
    #[arg(long, value_name = "TOKENFILE", help_heading = "Control", requires = "http")]
    http_write: Option<PathBuf>,
}

/// A server that is bound to its address, and its access to the workers.
pub(crate) struct Http {
    server: HttpServer,
    inspector: Inspector,
    started: SystemTime,
}

impl HttpOptions {
    /// Reads the token of clients that may write, if there is one.
    ///
    /// # Errors
    /// If the file cannot be read, or others have access to it: the message for the user.
    pub(crate) fn token(&self) -> Result<Option<Token>, String> {
        let token = self.http_write.as_deref().map(Token::read).transpose();
        token.map_err(|error| format!("--http-write {error}"))
    }

    /// Binds the address, if the options ask for a server.
    ///
    /// # Errors
    /// If the address cannot be used: the message for the user.
    pub(crate) fn bind(&self, token: Option<Token>, inspector: &Inspector) -> Result<Option<Http>, String> {
        let Some(address) = &self.http else { return Ok(None) };
        let server = HttpServer::bind(address, &self.http_name, token, HttpLimits::default());
        let server = server.map_err(|error| format!("--http {error}"))?;
        Ok(Some(Http { server, inspector: inspector.clone(), started: SystemTime::now() }))
    }
}

impl Http {
    /// Starts to serve, and says where. The server stops when the returned value is dropped.
    ///
    /// # Errors
    /// If the system has no room for a further thread: the message for the user.
    pub(crate) fn start(self, configuration: &str) -> Result<Running, String> {
        let address = self.server.address();
        let build = origin::program();
        let about = About {
            version: build.version,
            commit: build.commit,
            configuration: configuration.to_string(),
            manual: elements::page,
        };
        let running = self.server.start(self.inspector, about, self.started);
        let running = running.map_err(|error| format!("--http: {}", crate::reason(&error)))?;
        crate::tell(format_args!("metrics and JSON at http://{address}/"));
        Ok(running)
    }
}
