//! A connection whose other end has to send what it began, and to take what it asked for.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use hyper::body::{Bytes, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep};

use crate::edge::Limits;

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    /// The rest of the head of a request; on a new connection all of it.
    Head,
    /// The end of a request, its body included: the router has limits of its own.
    Answer,
    /// Another request.
    Next,
}

/// The phase of a connection, known to its stream and to its service. hyper has one limit for a head and for the time before it.
#[derive(Clone)]
pub(crate) struct Progress(Arc<AtomicU8>);

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress(Arc::new(AtomicU8::new(Phase::Head as u8)))
    }

    fn phase(&self) -> Phase {
        match self.0.load(Ordering::Acquire) {
            0 => Phase::Head,
            1 => Phase::Answer,
            _ => Phase::Next,
        }
    }

    fn enter(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Release);
    }

    /// A head is complete.
    pub(crate) fn requested(&self) {
        self.enter(Phase::Answer);
    }

    /// The answer, whose end is the end of the request.
    pub(crate) fn answering(&self, body: Body) -> Answering {
        Answering { body, progress: self.clone() }
    }
}

/// The body of an answer.
pub(crate) struct Answering {
    body: Body,
    progress: Progress,
}

impl hyper::body::Body for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.progress.enter(Phase::Next);
    }
}

/// A stream that fails when a head takes too long to arrive, or when it can write nothing for too long: somebody asks and does
/// not read. It ends when no other request comes: early, when other connections wait for this one's place.
pub(crate) struct Attended {
    stream: TcpStream,
    progress: Progress,
    limits: Limits,
    slots: Arc<Semaphore>,
    /// Runs while nothing arrives.
    waiting: Option<Waiting>,
    /// Runs while nothing can be written.
    stalled: Option<Pin<Box<Sleep>>>,
}

/// A wait for the client.
struct Waiting {
    phase: Phase,
    since: Instant,
    step: Pin<Box<Sleep>>,
}

impl Attended {
    pub(crate) fn new(
        stream: TcpStream,
        progress: Progress,
        limits: &Limits,
        slots: Arc<Semaphore>,
    ) -> Attended {
        Attended { stream, progress, limits: limits.clone(), slots, waiting: None, stalled: None }
    }

    /// Waits as long as this phase lasts at most, in steps of the limit for a head.
    fn waited(&mut self, phase: Phase, context: &mut Context<'_>) -> Poll<()> {
        let step = self.limits.header_read;
        let limit = if phase == Phase::Head { step } else { self.limits.idle };
        if self.waiting.as_ref().is_none_or(|waiting| waiting.phase != phase) {
            let first = sleep(step.min(limit));
            self.waiting = Some(Waiting { phase, since: Instant::now(), step: first });
        }
        let Some(waiting) = &mut self.waiting else { return Poll::Pending };
        loop {
            ready!(waiting.step.as_mut().poll(context));
            let left = limit.saturating_sub(waiting.since.elapsed());
            if left.is_zero() || self.slots.available_permits() == 0 {
                return Poll::Ready(());
            }
            waiting.step = sleep(step.min(left));
        }
    }

    /// Forgets the wait once something was written, and ends it when it takes too long.
    fn timed<T>(&mut self, context: &mut Context<'_>, write: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.stalled = None;
            return write;
        }
        let limit = self.limits.answer_taken;
        let stalled = self.stalled.get_or_insert_with(|| sleep(limit));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

#[allow(clippy::disallowed_methods, reason = "how long a socket is full or empty is of this machine's time")]
fn sleep(time: Duration) -> Pin<Box<Sleep>> {
    Box::pin(tokio::time::sleep(time))
}

impl AsyncRead for Attended {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let phase = self.progress.phase();
        if phase == Phase::Answer {
            self.waiting = None;
            return read;
        }
        if read.is_ready() {
            if phase == Phase::Next && buffer.filled().len() > before {
                self.waiting = None;
                self.progress.enter(Phase::Head);
            }
            return read;
        }
        ready!(self.waited(phase, context));
        // To hyper the end of the stream is the end of an idle connection, and no error.
        Poll::Ready(if phase == Phase::Next { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) })
    }
}

impl AsyncWrite for Attended {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.timed(context, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.timed(context, write)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
