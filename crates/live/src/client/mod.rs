//! The client: one exchange at a time on each connection, stamped at the socket, every way to end named.
//!
//! It retries nothing. A request that met a connection which the server had closed while idle, and of which no byte was
//! written, goes to the next connection: nothing was tried.

mod answer;
mod connect;
mod connection;
mod control;
mod pool;
mod wire;

pub use connect::ClientError;
pub(crate) use control::{Control, Document};

use crate::call::Call;
use crate::clock::Clock;
use crate::observation::{self, ConnectFault, Ending, Observation};
use crate::stream::{BodyEnd, Wanted};
use crate::target::{Protocol, Route, Target, Transport};
use acb_types::Nanos;
use answer::Answer;
use connect::{Connector, NoConnection, remedy};
use connection::Connection;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Method, Request, Response, Uri};
use pool::Pool;
use std::error::Error;
use std::future::{Future, pending};
use std::time::Duration;

/// How a client keeps its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// A connection that was idle for longer is closed, not used. The default, 4 s, is less than the 5 s after which uvicorn,
    /// under vLLM and SGLang, closes it from the other side, at times just as the next request is written.
    pub idle_limit_ns: Nanos,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self { idle_limit_ns: Nanos::from_millis(4000) }
    }
}

/// A client of one target. Share it by reference: it holds as many connections as it had requests in flight at once.
pub struct Client {
    target: Target,
    options: ClientOptions,
    clock: Clock,
    connector: Connector,
    headers: HeaderMap,
    pool: Pool,
}

/// What an exchange has come to, kept outside of it so that a timeout or a cancellation loses nothing.
struct Progress {
    observation: Observation,
    answer: Option<Answer>,
}

/// How an exchange was over.
enum Over {
    /// In the body of an answer.
    Body(BodyEnd),
    /// Before there was one.
    Before(Ending),
}

impl Client {
    /// A client, without a connection yet.
    ///
    /// # Errors
    /// When TLS is wanted and no certificate authority is known, or those given are not readable.
    pub fn new(target: Target, options: ClientOptions, clock: Clock) -> Result<Self, ClientError> {
        let connector = Connector::new(&target, clock)?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if target.protocol == Protocol::Http1 {
            headers.insert(HOST, target.authority.clone());
        }
        headers.extend(target.headers.iter().map(|(name, secret)| (name.clone(), secret.value().clone())));
        Ok(Self { target, options, clock, connector, headers, pool: Pool::default() })
    }

    /// Where it sends.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Sends a call and reads its answer to the end.
    pub async fn exchange(&self, call: Call) -> Observation {
        self.exchange_unless(call, pending()).await
    }

    /// As [`Client::exchange`], given up when `cancelled` is ready; what came until then is kept.
    ///
    /// To give up, and to time out, is to close the connection: an engine stops generating when it sees that.
    pub async fn exchange_unless(&self, call: Call, cancelled: impl Future<Output = ()>) -> Observation {
        self.exchange_telling(call, cancelled, || ()).await
    }

    /// As [`Client::exchange_unless`]; `first_token` is called as soon as the first token has been read.
    pub async fn exchange_telling(
        &self,
        call: Call,
        cancelled: impl Future<Output = ()>,
        first_token: impl FnOnce(),
    ) -> Observation {
        let bound = Duration::from_nanos(call.timeout_ns.0);
        let mut progress = Progress::new(self.clock.now());
        let over = tokio::select! {
            biased;
            over = self.run(call, &mut progress, first_token) => over,
            () = cancelled => Over::given_up(&progress, BodyEnd::Cancelled, Ending::Cancelled),
            () = tokio::time::sleep(bound) => Over::given_up(&progress, BodyEnd::TimedOut, Ending::TimedOut),
        };
        self.finish(progress, over)
    }

    async fn run(&self, call: Call, progress: &mut Progress, first_token: impl FnOnce()) -> Over {
        let text = call.text;
        let (mut connection, response) = match self.send(call, &mut progress.observation).await {
            Ok(sent) => sent,
            Err(ending) => return Over::Before(ending),
        };
        progress.head(&response, &connection);
        let answer = progress.answer.insert(Answer::of(&response, text));
        let end = read_body(&mut connection, response.into_body(), answer, first_token).await;
        if matches!(end, BodyEnd::Closed(_)) {
            self.pool.put(connection, self.clock.now());
        }
        Over::Body(end)
    }

    /// Sends the request on an idle connection or a new one, and waits for the head of its answer.
    async fn send(
        &self,
        call: Call,
        observation: &mut Observation,
    ) -> Result<(Connection, Response<Incoming>), Ending> {
        let mut request = self.request(call);
        loop {
            let mut connection = self.connection(observation).await?;
            let sent = connection.send(request).await;
            observation.sent_ns = connection.stamps.written();
            let mut error = match sent {
                Ok(response) => return Ok((connection, response)),
                Err(error) => error,
            };
            match error.take_message() {
                Some(unsent) if observation.connection == observation::Connection::Reused => request = unsent,
                _ => return Err(self.no_answer(&error.into_error())),
            }
        }
    }

    async fn connection(&self, observation: &mut Observation) -> Result<Connection, Ending> {
        let begun_ns = self.clock.now();
        while let Some(mut connection) = self.pool.take(begun_ns, self.options.idle_limit_ns) {
            if connection.is_usable().await {
                observation.connection = observation::Connection::Reused;
                return Ok(connection);
            }
        }
        let made = self.connector.connect().await;
        let connecting_ns = self.clock.now().since(begun_ns);
        match made {
            Ok(connection) => {
                observation.connection = observation::Connection::New { connecting_ns };
                Ok(connection)
            }
            Err(NoConnection { fault, message }) => {
                Err(Ending::ConnectError { fault, message: message.into() })
            }
        }
    }

    fn request(&self, call: Call) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(call.body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri(call.path);
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        headers.extend(call.headers);
        request
    }

    fn uri(&self, path: PathAndQuery) -> Uri {
        let path = match &*self.target.base_path {
            "" => path,
            base => format!("{base}{path}").parse().expect("a path after a path is a path"),
        };
        let mut parts = hyper::http::uri::Parts::default();
        parts.path_and_query = Some(path);
        if self.target.protocol == Protocol::Http2 {
            let tls = matches!(self.target.route, Route::Tcp { transport: Transport::Tls, .. });
            parts.scheme = Some(if tls { Scheme::HTTPS } else { Scheme::HTTP });
            let authority = Authority::try_from(self.target.authority.as_bytes());
            parts.authority = Some(authority.expect("a target's authority was read from a URL"));
        }
        Uri::from_parts(parts).expect("scheme and authority stand or fall together")
    }

    /// The ending when a connection gave an error instead of an answer's head.
    fn no_answer(&self, error: &hyper::Error) -> Ending {
        let words = chain(error);
        if error.is_parse() {
            return Ending::ParseError {
                message: format!("{}: the answer is no HTTP: {words}", self.target).into(),
            };
        }
        let fault = ConnectFault::ClosedBeforeAnswer;
        Ending::ConnectError { fault, message: format!("{}: {words}: {}", self.target, remedy(fault)).into() }
    }

    fn finish(&self, progress: Progress, over: Over) -> Observation {
        let Progress { mut observation, answer } = progress;
        match (over, answer) {
            (Over::Body(end), Some(answer)) => answer.finish(end, &mut observation),
            (Over::Body(_), None) => unreachable!("a body has its reader"),
            (Over::Before(ending), _) => observation.ending = ending,
        }
        observation.ended_ns = observation.closed_ns.unwrap_or_else(|| self.clock.now());
        if !self.target.headers.is_empty() {
            observation.redact(|text| self.target.redact(text));
        }
        observation
    }
}

impl Progress {
    fn new(begun_ns: Nanos) -> Self {
        Self { observation: Observation::begun(begun_ns), answer: None }
    }

    fn head(&mut self, response: &Response<Incoming>, connection: &Connection) {
        self.observation.status = Some(response.status().as_u16());
        self.observation.headers_ns = connection.stamps.read();
        self.observation.simulated = response.headers().contains_key("x-acb-simulated");
    }
}

impl Over {
    fn given_up(progress: &Progress, in_body: BodyEnd, before: Ending) -> Self {
        if progress.answer.is_some() { Self::Body(in_body) } else { Self::Before(before) }
    }
}

async fn read_body(
    connection: &mut Connection,
    mut body: Incoming,
    answer: &mut Answer,
    first_token: impl FnOnce(),
) -> BodyEnd {
    let mut untold = Some(first_token);
    loop {
        let frame = connection.drive(body.frame()).await;
        let at = connection.stamps.read().expect("an answer's head was read");
        match frame {
            None => return BodyEnd::Closed(at),
            Some(Err(error)) => return BodyEnd::Broken(chain(&error).into()),
            Some(Ok(frame)) => {
                let Some(piece) = frame.data_ref() else { continue };
                let wanted = answer.read(at, piece);
                if answer.has_token()
                    && let Some(tell) = untold.take()
                {
                    tell();
                }
                if wanted == Wanted::Nothing {
                    return BodyEnd::Broken("the rest was not wanted".into());
                }
            }
        }
    }
}

/// An error with its causes: the first words of an HTTP error alone say little.
fn chain(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}
