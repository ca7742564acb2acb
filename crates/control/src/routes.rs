//! The answer to each path.

use std::time::{Instant, SystemTime};

use element::{CallOrigin, FileScope, Rights};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes};
use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde::Serialize;

use crate::About;
use crate::api::{self, ClassPage, Drops, ElementPage, Graph, Report, Value};
use crate::families::{self, View};
use crate::guard::{Guard, Refusal};
use crate::limits::HttpLimits;
use crate::process::Process;
use crate::questions::{NoAnswer, Questions};
use crate::text::Format;

/// The page at `/`.
const PAGE: &str = include_str!("page.html");
/// The page may use nothing but itself and this server.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Everything that answers need.
pub(crate) struct Site {
    pub(crate) about: About,
    pub(crate) questions: Questions,
    pub(crate) guard: Guard,
    pub(crate) limits: HttpLimits,
    pub(crate) started: SystemTime,
    /// The instant at which the server began to serve.
    pub(crate) begun: Instant,
}

/// An answer: status, type and text.
struct Answer {
    status: StatusCode,
    kind: &'static str,
    text: String,
    /// The methods that the path allows, if the method of the request is not among them.
    allow: Option<&'static str>,
}

const JSON: &str = "application/json";

impl Answer {
    fn new(status: StatusCode, kind: &'static str, text: String) -> Answer {
        Answer { status, kind, text, allow: None }
    }

    fn json(value: &impl Serialize) -> Answer {
        match serde_json::to_string(value) {
            Ok(text) => Answer::new(StatusCode::OK, JSON, text),
            Err(error) => Answer::error(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }

    fn error(status: StatusCode, error: &str) -> Answer {
        let text = serde_json::to_string(&api::Error { error }).unwrap_or_default();
        Answer::new(status, JSON, text)
    }

    fn not_found(what: &str) -> Answer {
        Answer::error(StatusCode::NOT_FOUND, &format!("there is no {what}"))
    }
}

impl From<NoAnswer> for Answer {
    fn from(reason: NoAnswer) -> Answer {
        match reason {
            NoAnswer::Late => Answer::error(StatusCode::GATEWAY_TIMEOUT, "a worker has not answered in time"),
            NoAnswer::Refused => {
                Answer::error(StatusCode::SERVICE_UNAVAILABLE, "the run is ending, or too many requests wait")
            }
        }
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Answer {
        let (status, text) = match refusal {
            Refusal::Malformed => (StatusCode::BAD_REQUEST, "a request needs one header Host"),
            Refusal::Host => {
                (StatusCode::MISDIRECTED_REQUEST, "the request is for another host; see --http-name")
            }
            Refusal::Origin => (StatusCode::FORBIDDEN, "pages of other origins may not ask here"),
            Refusal::ReadOnly => (StatusCode::FORBIDDEN, "nothing can be written; see --http-write"),
            Refusal::Token => (StatusCode::UNAUTHORIZED, "the token is missing or wrong"),
        };
        Answer::error(status, text)
    }
}

/// The answer of a handler: its value, or its error.
impl From<Result<String, String>> for Answer {
    fn from(result: Result<String, String>) -> Answer {
        match result {
            Ok(value) => Answer::json(&Value { value: &value }),
            Err(error) if error.starts_with("no ") => Answer::error(StatusCode::NOT_FOUND, &error),
            Err(error) => Answer::error(StatusCode::BAD_REQUEST, &error),
        }
    }
}

impl Site {
    /// Answers a request.
    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes> + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let is_head = request.method() == Method::HEAD;
        let answer = match self.guard.check(request.uri(), request.headers()) {
            Err(refusal) => refusal.into(),
            Ok(()) => self.route(request).await.unwrap_or_else(|answer| answer),
        };
        let Answer { status, kind, text, allow } = answer;
        let body = if is_head { Bytes::new() } else { Bytes::from(text) };
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        let mut set = |name, value| drop(headers.insert(name, HeaderValue::from_static(value)));
        set(CONTENT_TYPE, kind);
        set(CACHE_CONTROL, "no-store");
        set(X_CONTENT_TYPE_OPTIONS, "nosniff");
        set(X_FRAME_OPTIONS, "DENY");
        set(REFERRER_POLICY, "no-referrer");
        set(CONTENT_SECURITY_POLICY, POLICY);
        if status == StatusCode::UNAUTHORIZED {
            set(WWW_AUTHENTICATE, "Bearer");
        }
        if let Some(allow) = allow {
            set(ALLOW, allow);
        }
        response
    }

    async fn route<B>(&self, request: Request<B>) -> Result<Answer, Answer>
    where
        B: Body<Data = Bytes> + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        let bad_path = || Answer::error(StatusCode::BAD_REQUEST, "the path is not valid UTF-8");
        let parts = head.uri.path().split('/').skip(1).map(decoded).collect::<Option<Vec<String>>>();
        let parts = parts.ok_or_else(bad_path)?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (element, handler) = match parts[..] {
            ["api", "elements", element, "handlers", handler] => (Some(element), handler),
            ["api", "handlers", handler] => (None, handler),
            _ => {
                return match head.method {
                    Method::GET | Method::HEAD => self.get(&parts, &head.headers).await,
                    _ => Err(wrong_method("GET, HEAD")),
                };
            }
        };
        match head.method {
            Method::GET | Method::HEAD => {
                let param = decoded(head.uri.query().unwrap_or_default()).ok_or_else(bad_path)?;
                self.read(element, handler, &param, &head.headers).await
            }
            Method::POST => {
                self.guard.check_write(&head.headers)?;
                let too_large = |_| Answer::error(StatusCode::PAYLOAD_TOO_LARGE, "the value is too long");
                let body = Limited::new(body, self.limits.body).collect();
                let late = |_| Answer::error(StatusCode::REQUEST_TIMEOUT, "the value has not come in time");
                let body = tokio::time::timeout(self.limits.request, body).await.map_err(late)?;
                let value = String::from_utf8(body.map_err(too_large)?.to_bytes().to_vec());
                let not_text = |_| Answer::error(StatusCode::BAD_REQUEST, "the value is not valid UTF-8");
                let value = value.map_err(not_text)?;
                let limit = if element.is_none() { self.limits.reload } else { self.limits.request };
                let rights = Rights { files: FileScope::Nowhere, origin: CallOrigin::Anybody };
                Ok(self.questions.write(element, handler, &value, rights, limit).await?.into())
            }
            _ => Err(wrong_method("GET, HEAD, POST")),
        }
    }

    async fn get(&self, parts: &[&str], headers: &HeaderMap) -> Result<Answer, Answer> {
        match parts {
            [""] => Ok(Answer::new(StatusCode::OK, "text/html; charset=utf-8", PAGE.into())),
            ["metrics"] => {
                let accept = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
                let format = Format::accepted(&accept.collect::<Vec<_>>().join(","));
                let snapshot = self.questions.snapshot().await?;
                let (about, process, started) = (&self.about, &Process::read(), self.started);
                let text = families::render(&View { snapshot: &snapshot, about, process, started }, format);
                Ok(Answer::new(StatusCode::OK, format.content_type(), text))
            }
            ["api", "graph"] => Ok(Answer::json(&Graph::new(&*self.questions.snapshot().await?))),
            ["api", "report"] => {
                let (made, snapshot) = self.questions.dated_snapshot().await?;
                let seconds = made.duration_since(self.begun).as_secs_f64();
                let writable = self.guard.can_write();
                Ok(Answer::json(&Report::new(&self.about, &snapshot, writable, seconds)))
            }
            ["api", "drops"] => Ok(Answer::json(&Drops::new(&*self.questions.snapshot().await?))),
            ["api", "workers"] => Ok(Answer::json(&self.questions.snapshot().await?.workers)),
            ["api", "handlers"] => {
                let list = self.questions.read(None, "handlers", "").await?;
                let list = list.map_err(|error| Answer::error(StatusCode::BAD_REQUEST, &error))?;
                Ok(Answer::json(&api::handlers(&list)))
            }
            ["api", "elements", name] => self.element(name).await,
            ["api", "classes", name] => {
                let snapshot = self.questions.snapshot().await?;
                let class = snapshot.plan.classes.iter().find(|class| class.name == *name);
                let class = class.ok_or_else(|| Answer::not_found("class of this name in the graph"))?;
                Ok(Answer::json(&ClassPage::new(&self.about, class)))
            }
            _ => Err(Answer::not_found("such path; see docs/http.md")),
        }
    }

    async fn element(&self, name: &str) -> Result<Answer, Answer> {
        let snapshot = self.questions.snapshot().await?;
        let id = snapshot.plan.graph.find(name);
        let id = id.ok_or_else(|| Answer::not_found("element of this name"))?;
        let mut texts = Vec::new();
        for handler in ["config", "handlers"] {
            let text = self.questions.read(Some(name), handler, "").await?;
            texts.push(text.map_err(|error| Answer::error(StatusCode::NOT_FOUND, &error))?);
        }
        let (class, handlers) = (snapshot.plan.classes[id].name, api::handlers(&texts[1]));
        Ok(Answer::json(&ElementPage { name, class, config: &texts[0], handlers }))
    }

    /// Reads a handler. A parameter, and the handlers of scripts, can make a read change the graph, so they
    /// need the token.
    async fn read(
        &self,
        element: Option<&str>,
        handler: &str,
        param: &str,
        headers: &HeaderMap,
    ) -> Result<Answer, Answer> {
        let snapshot = self.questions.snapshot().await?;
        let id = element.and_then(|name| snapshot.plan.graph.find(name));
        let runs_script = engine::runs_script(&snapshot.plan, id, handler, param);
        // A parameter of the graph's handlers says what they read.
        let needs_token = runs_script || (!param.is_empty() && element.is_some());
        if needs_token {
            self.guard.check_write(headers)?;
        }
        Ok(self.questions.read(element, handler, param).await?.into())
    }
}

fn wrong_method(allow: &'static str) -> Answer {
    let text = format!("this path takes the methods {allow}");
    Answer { allow: Some(allow), ..Answer::error(StatusCode::METHOD_NOT_ALLOWED, &text) }
}

/// Decodes the `%XX` of a path or query. Returns `None` if the result is not valid UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).filter(|_| *first == b'%').and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded() {
        for (text, expected) in
            [("a%2Fb", "a/b"), ("%", "%"), ("%4", "%4"), ("%zz", "%zz"), ("%C3%B6", "ö"), ("", "")]
        {
            assert_eq!(decoded(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(decoded("%ff"), None);
    }
}
