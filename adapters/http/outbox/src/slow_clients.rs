//! Timeouts of a connection for slow clients: receiving a request head, being idle, and sending a response. Also writes the
//! envelope of responses to requests that reach no route.

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

use crate::early_refusal;
use crate::limits::Limits;

/// Phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    /// The client sends a request head; a new connection starts in this phase.
    Head,
    /// The client sends a body, or the server processes the request or sends the response. The router has timeouts for
    /// body and request.
    Response,
    /// The connection is idle between two requests.
    Idle,
}

/// Phase of a connection, shared by its stream and its service. The phase is tracked here because hyper has a single
/// timeout for the idle time and the head that follows it.
#[derive(Clone)]
pub(crate) struct Progress(Arc<AtomicU8>);

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress(Arc::new(AtomicU8::new(Phase::Head as u8)))
    }

    fn phase(&self) -> Phase {
        match self.0.load(Ordering::Acquire) {
            0 => Phase::Head,
            1 => Phase::Response,
            _ => Phase::Idle,
        }
    }

    fn enter(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Release);
    }

    /// Records that a request head is complete.
    pub(crate) fn head_received(&self) {
        self.enter(Phase::Response);
    }

    /// Wraps a response body; the connection becomes idle when the body is dropped.
    pub(crate) fn track_response(&self, body: Body) -> TrackedBody {
        TrackedBody { body, progress: self.clone() }
    }
}

/// A response body that sets the phase of its connection when it is dropped.
pub(crate) struct TrackedBody {
    body: Body,
    progress: Progress,
}

impl hyper::body::Body for TrackedBody {
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

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.progress.enter(Phase::Idle);
    }
}

/// A stream with timeouts. It fails if a request head does not arrive in time, or if the client does not read the response.
/// An idle connection is closed after the idle timeout, or earlier if other connections wait for a connection slot.
pub(crate) struct TimedStream {
    stream: TcpStream,
    progress: Progress,
    limits: Limits,
    slots: Arc<Semaphore>,
    /// The wait for data from the client; `None` while the stream does not wait for data.
    read_wait: Option<ReadWait>,
    /// Timer of a pending write to the client; `None` while no write is pending.
    write_timeout: Option<Pin<Box<Sleep>>>,
    /// The rest of a response that replaces one of the HTTP library.
    early_refusal: Option<Bytes>,
}

/// State of the wait for data from the client.
struct ReadWait {
    phase: Phase,
    since: Instant,
    step: Pin<Box<Sleep>>,
}

impl TimedStream {
    pub(crate) fn new(
        stream: TcpStream,
        progress: Progress,
        limits: &Limits,
        slots: Arc<Semaphore>,
    ) -> TimedStream {
        TimedStream {
            stream,
            progress,
            limits: limits.clone(),
            slots,
            read_wait: None,
            write_timeout: None,
            early_refusal: None,
        }
    }

    /// Becomes ready when the connection must be closed: when the timeout of this phase has expired, or earlier if the
    /// connection is idle and no slot is free. The slots are checked once per step; a step is as long as the head
    /// timeout.
    fn poll_read_timeout(&mut self, phase: Phase, context: &mut Context<'_>) -> Poll<()> {
        let step = self.limits.header_read;
        let limit = if phase == Phase::Head { step } else { self.limits.idle };
        if self.read_wait.as_ref().is_none_or(|wait| wait.phase != phase) {
            let first = sleep(step.min(limit));
            self.read_wait = Some(ReadWait { phase, since: Instant::now(), step: first });
        }
        let Some(wait) = &mut self.read_wait else { return Poll::Pending };
        loop {
            ready!(wait.step.as_mut().poll(context));
            let left = limit.saturating_sub(wait.since.elapsed());
            if left.is_zero() || self.slots.available_permits() == 0 {
                return Poll::Ready(());
            }
            wait.step = sleep(step.min(left));
        }
    }

    /// Writes the replacement of these bytes, if they are a response to a request that reaches no route; `None` if they are
    /// not. Ready when the whole replacement is written.
    fn poll_early_refusal(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Option<Poll<io::Result<usize>>> {
        if self.early_refusal.is_none() && self.progress.phase() != Phase::Response {
            self.early_refusal = early_refusal::with_envelope(bytes);
        }
        let mut left = self.early_refusal.take()?;
        let written = loop {
            if left.is_empty() {
                return Some(Poll::Ready(Ok(bytes.len())));
            }
            match Pin::new(&mut self.stream).poll_write(context, &left) {
                Poll::Ready(Ok(0)) => break Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => left = left.slice(count..),
                other @ (Poll::Ready(Err(_)) | Poll::Pending) => break other,
            }
        };
        self.early_refusal = Some(left);
        Some(self.with_write_timeout(context, written))
    }

    /// Fails a pending write when the write timeout has expired; resets the timeout after a write.
    fn with_write_timeout<T>(
        &mut self,
        context: &mut Context<'_>,
        write: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if write.is_ready() {
            self.write_timeout = None;
            return write;
        }
        let limit = self.limits.response_write;
        let timeout = self.write_timeout.get_or_insert_with(|| sleep(limit));
        ready!(timeout.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

#[allow(clippy::disallowed_methods, reason = "socket timeouts use tokio's timer, not the `Clock`")]
fn sleep(time: Duration) -> Pin<Box<Sleep>> {
    Box::pin(tokio::time::sleep(time))
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let phase = self.progress.phase();
        if phase == Phase::Response {
            self.read_wait = None;
            return read;
        }
        if read.is_ready() {
            if phase == Phase::Idle && buffer.filled().len() > before {
                self.read_wait = None;
                self.progress.enter(Phase::Head);
            }
            return read;
        }
        ready!(self.poll_read_timeout(phase, context));
        // An idle connection ends with end of file, which hyper does not report as an error.
        Poll::Ready(if phase == Phase::Idle { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) })
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(write) = self.poll_early_refusal(context, bytes) {
            return write;
        }
        let write = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.with_write_timeout(context, write)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // The library writes its own responses in one slice.
        if let [bytes] = slices
            && let Some(write) = self.poll_early_refusal(context, bytes)
        {
            return write;
        }
        let write = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.with_write_timeout(context, write)
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
