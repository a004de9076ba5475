//! The model behind HTTP in the OpenAI dialect, so that everything that loads servers can load it: one sequence at a time, greedy.

use crate::error::LocalError;
use crate::generate::{Ends, LocalModel, Stop};
use crate::wire::{Ask, completion_event, failure, listing, usage_event, whole_completion};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited, combinators::UnsyncBoxBody};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Largest body of a request, bytes.
const LARGEST_BODY: usize = 16 << 20;

/// A model that answers on ports of this machine; it ends with the process.
pub struct LocalServer {
    addrs: Vec<SocketAddr>,
}

/// One request in the queue of the thread that computes.
struct Job {
    prompt: Vec<u32>,
    adapter: Option<String>,
    most: usize,
    ends: Ends,
    out: UnboundedSender<Piece>,
}

/// What the computing thread says of a request.
enum Piece {
    /// Text of one token, maybe empty.
    Text(String),
    /// The end: tokens out, and why.
    End(usize, Stop),
    /// It could not be computed.
    Failed(String),
}

/// What every request needs.
struct Shared {
    name: String,
    adapters: Vec<String>,
    positions: usize,
    /// Tokens of texts are made here, beside the thread that computes.
    tokens: tokenizers::Tokenizer,
    jobs: Sender<Job>,
}

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

impl LocalServer {
    /// Serves copies of a model, one for each port of 127.0.0.1 (0: any free one); `name` is the base model's.
    ///
    /// # Errors
    /// When the model can't be loaded, or a port or a thread can't be had.
    pub fn launch(
        load: impl Fn() -> Result<LocalModel, LocalError>,
        name: &str,
        ports: &[u16],
    ) -> Result<Self, LocalError> {
        let mut addrs = Vec::with_capacity(ports.len());
        for &port in ports {
            addrs.push(replica(load()?, name, port).map_err(|source| LocalError::Serve { port, source })?);
        }
        Ok(Self { addrs })
    }

    /// Where it answers, in the order of the ports.
    #[must_use]
    pub fn addrs(&self) -> &[SocketAddr] {
        &self.addrs
    }
}

fn replica(model: LocalModel, name: &str, port: u16) -> std::io::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    let addr = listener.local_addr()?;
    let (jobs, queue) = channel();
    let shared = Arc::new(Shared {
        name: name.to_owned(),
        adapters: model.adapters().map(str::to_owned).collect(),
        positions: model.positions(),
        tokens: model.tokenizer().clone(),
        jobs,
    });
    std::thread::Builder::new().name("acb-local-model".to_owned()).spawn(move || compute(&model, &queue))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("acb-local-http".to_owned()).spawn(move || {
        runtime.block_on(async {
            if let Ok(listener) = TcpListener::from_std(listener) {
                accept(listener, shared).await;
            }
        });
    })?;
    Ok(addr)
}

/// Serves the queue in order, until nobody can add to it.
fn compute(model: &LocalModel, queue: &Receiver<Job>) {
    while let Ok(Job { prompt, adapter, most, ends, out }) = queue.recv() {
        let (mut tokens, mut said) = (Vec::new(), 0);
        let told = |token| {
            tokens.push(token);
            let text = model.decode(&tokens).unwrap_or_default();
            // A character that is not whole yet waits for its other tokens.
            let whole = if text.ends_with(char::REPLACEMENT_CHARACTER) { said } else { text.len() };
            let piece = text.get(said..whole).unwrap_or_default().to_owned();
            said = said.max(whole);
            out.send(Piece::Text(piece)).is_ok()
        };
        let last = match model.generate(&prompt, adapter.as_deref(), (most, ends), told) {
            Ok(answer) => Piece::End(answer.tokens.len(), answer.stop),
            Err(error) => Piece::Failed(error.to_string()),
        };
        // The client may be gone.
        let _ = out.send(last);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors: the next connection that closes frees one.
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let shared = Arc::clone(&shared);
                async move { Ok::<_, Infallible>(handle(&shared, request).await) }
            });
            // A client that goes away ends its connection, and its answer at the next token.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn handle(shared: &Shared, request: Request<Incoming>) -> Answer {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/health") => whole(StatusCode::OK, String::new()),
        (&Method::GET, "/v1/models") => whole(StatusCode::OK, listing(&shared.name, &shared.adapters)),
        (&Method::POST, "/v1/completions") => completion(shared, request).await,
        (_, path) => {
            let told =
                format!("{path}: not here; GET /v1/models, POST /v1/completions (no chat: no templates)");
            whole(StatusCode::NOT_FOUND, failure(&told))
        }
    }
}

async fn completion(shared: &Shared, request: Request<Incoming>) -> Answer {
    let Ok(body) = Limited::new(request.into_body(), LARGEST_BODY).collect().await else {
        return refused("the body broke off, or is larger than 16 MiB");
    };
    let ask = match Ask::read(&body.to_bytes()) {
        Ok(ask) => ask,
        Err(message) => return refused(&message),
    };
    let adapter = match &ask.model {
        model if *model == shared.name => None,
        model if shared.adapters.contains(model) => Some(model.clone()),
        model => {
            let told = format!(
                "model \"{model}\" is not here; {} and its adapters {:?} are",
                shared.name, shared.adapters
            );
            return whole(StatusCode::NOT_FOUND, failure(&told));
        }
    };
    let prompt = match ask.tokens(&shared.tokens) {
        Ok(prompt) => prompt,
        Err(message) => return refused(&message),
    };
    if prompt.is_empty() || prompt.len() + ask.most > shared.positions {
        let most = shared.positions;
        return refused(&format!(
            "{} prompt tokens and {} asked for; the model takes 1 to {most}",
            prompt.len(),
            ask.most
        ));
    }
    let (out, pieces) = unbounded_channel();
    let count = prompt.len();
    let ends = if ask.ignore_eos { Ends::Ignored } else { Ends::Obeyed };
    if shared.jobs.send(Job { prompt, adapter, most: ask.most, ends, out }).is_err() {
        return whole(StatusCode::INTERNAL_SERVER_ERROR, failure("the thread that computes has ended"));
    }
    match ask.stream {
        true => streamed(ask.model, count, pieces),
        false => collected(ask.model, count, pieces).await,
    }
}

/// One event per token, then the counts, then the mark of the end.
fn streamed(model: String, prompt: usize, pieces: UnboundedReceiver<Piece>) -> Answer {
    let body = Events { model, prompt, pieces, over: false };
    let mut answer = Response::new(body.boxed_unsync());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    answer
}

/// The body of a streamed answer.
struct Events {
    model: String,
    prompt: usize,
    pieces: UnboundedReceiver<Piece>,
    over: bool,
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.over {
            return Poll::Ready(None);
        }
        let Poll::Ready(piece) = self.pieces.poll_recv(context) else { return Poll::Pending };
        self.over = !matches!(piece, Some(Piece::Text(_)));
        let (model, prompt) = (&self.model, self.prompt);
        let text = match piece {
            Some(Piece::Text(text)) => completion_event(model, &text, None),
            Some(Piece::End(tokens, stop)) => {
                completion_event(model, "", Some(stop))
                    + &usage_event(model, (prompt, tokens))
                    + "data: [DONE]\n\n"
            }
            Some(Piece::Failed(message)) => format!("data: {}\n\n", failure(&message)),
            None => return Poll::Ready(None),
        };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(text)))))
    }
}

async fn collected(model: String, prompt: usize, mut pieces: UnboundedReceiver<Piece>) -> Answer {
    let mut text = String::new();
    while let Some(piece) = pieces.recv().await {
        match piece {
            Piece::Text(more) => text += &more,
            Piece::End(tokens, stop) => {
                return whole(StatusCode::OK, whole_completion(&model, &text, stop, (prompt, tokens)));
            }
            Piece::Failed(message) => return whole(StatusCode::INTERNAL_SERVER_ERROR, failure(&message)),
        }
    }
    whole(StatusCode::INTERNAL_SERVER_ERROR, failure("the thread that computes has ended"))
}

fn refused(message: &str) -> Answer {
    whole(StatusCode::BAD_REQUEST, failure(message))
}

fn whole(status: StatusCode, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)).boxed_unsync());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
