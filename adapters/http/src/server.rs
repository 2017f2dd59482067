//! Serves a router on a listener. `axum::serve` lets a client take for ever to send its headers or to read its answers;
//! this does not.
//!
//! **Invariant:** every connection is a task of the process, and none outlives `serve`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::response::Response;
use handover_outbox::Tasks;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::util::{MapRequest, MapResponse};

use crate::edge::Limits;
use crate::stall::{Attended, Progress};

/// How long accepting pauses when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Serves until `stop`, then lets the requests in flight finish for as long as `limits.drain`.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    tasks: &Tasks,
    stop: CancellationToken,
    limits: &Limits,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    let slots = Arc::new(Semaphore::new(limits.connections as usize));
    let cut = CancellationToken::new();
    tracing::info!(%address, "serving");
    loop {
        let accepted = async {
            let slot = Arc::clone(&slots).acquire_owned().await.map_err(io::Error::other)?;
            Ok::<_, io::Error>((slot, listener.accept().await?))
        };
        let (slot, (stream, peer)) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = accepted => match accepted {
                Ok(accepted) => accepted,
                Err(error) if is_the_clients(&error) => continue,
                Err(error) => {
                    tracing::error!(%error, "cannot accept connections");
                    // The result tells whether to stop; the loop asks itself.
                    let _ = timeout(ACCEPT_PAUSE, stop.cancelled()).await;
                    continue;
                }
            },
        };
        let connection = connection(
            (stream, peer),
            router.clone(),
            (limits.clone(), Arc::clone(&slots)),
            stop.clone(),
            cut.clone(),
        );
        drop(tasks.spawn(async move {
            connection.await;
            drop(slot);
        }));
    }
    drop(listener);
    if timeout(limits.drain, all_closed(&slots, limits)).await.is_err() {
        tracing::warn!(drain = ?limits.drain, "requests in flight are cut off");
        cut.cancel();
        all_closed(&slots, limits).await;
    }
    Ok(())
}

async fn all_closed(slots: &Semaphore, limits: &Limits) {
    // An error would mean that the semaphore was closed, which nobody does.
    let _ = slots.acquire_many(limits.connections).await;
}

/// Serves one connection to its end, or until it is cut.
async fn connection(
    (stream, peer): (TcpStream, SocketAddr),
    router: Router,
    (limits, slots): (Limits, Arc<Semaphore>),
    stop: CancellationToken,
    cut: CancellationToken,
) {
    let progress = Progress::new();
    let (requested, answering) = (progress.clone(), progress.clone());
    let service = MapRequest::new(router, move |mut request: Request<Incoming>| {
        requested.requested();
        request.extensions_mut().insert(ConnectInfo(peer));
        request
    });
    let service =
        MapResponse::new(service, move |response: Response| response.map(|body| answering.answering(body)));
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // The stream has these limits: hyper knows one for a head and for the idle time before it.
        .header_read_timeout(None)
        .max_buf_size(limits.header_bytes)
        .serve_connection(
            TokioIo::new(Attended::new(stream, progress, &limits, slots)),
            TowerToHyperService::new(service),
        );
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        biased;
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                () = cut.cancelled() => return,
            }
        }
        ended = connection.as_mut() => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// The client was gone before we took its connection.
fn is_the_clients(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset
    )
}
