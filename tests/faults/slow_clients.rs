//! Thousands of connections that send half a header or half a body and then wait. The server closes them in time, and
//! their effect on other clients is small.

use std::time::{Duration, Instant};

use handover_tests::client::Api;
use handover_tests::process::Server;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::figures::{percentile, summary};
use crate::fresh;

const CONNECTIONS: usize = 2_000;
/// Maximum time until slow clients are disconnected, on an otherwise idle machine.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
const BODIES_WITHIN: Duration = Duration::from_secs(30);

/// Raises the limit of open files for the connections of this test.
fn allow_files() {
    let allowed = getrlimit(Resource::Nofile);
    let enough = allowed.maximum.is_none_or(|most| most > 3 * CONNECTIONS as u64);
    assert!(enough, "a hard limit of {:?} open files is too low for this test", allowed.maximum);
    setrlimit(Resource::Nofile, Rlimit { current: allowed.maximum, ..allowed }).unwrap();
}

/// Sends requests one after another, 100 per second. Returns their latencies. Runs on its own thread, so that the slow
/// clients in this process do not add to the measured latency.
async fn latencies(server: &Server, during: Duration) -> Vec<Duration> {
    let api = Api::of(server);
    let requests = async move {
        let mut took = Vec::new();
        // The first request also opens the connection.
        assert_eq!(api.get(1, "/api/v1/products?limit=1").await.unwrap().status, 200);
        let mut tick = tokio::time::interval(Duration::from_millis(10));
        let begun = Instant::now();
        while begun.elapsed() < during {
            tick.tick().await;
            let sent = Instant::now();
            assert_eq!(api.get(1, "/api/v1/products?limit=1").await.unwrap().status, 200);
            took.push(sent.elapsed());
        }
        took
    };
    let on_own_thread = || Builder::new_current_thread().enable_all().build().unwrap().block_on(requests);
    tokio::task::spawn_blocking(on_own_thread).await.unwrap()
}

/// Opens connections, 1,000 per second, that send this text and then wait. Returns how long each was open, and the text
/// it received. They are opened gradually, because opening them all at once would take CPU time from the server.
async fn open_and_wait(server: &Server, text: &str) -> Vec<(Duration, String)> {
    let address = server.base().trim_start_matches("http://");
    let mut connections = JoinSet::new();
    let mut tick = tokio::time::interval(Duration::from_millis(1));
    for _ in 0..CONNECTIONS {
        tick.tick().await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let opened = Instant::now();
        connections.spawn(async move {
            let mut received = String::new();
            // An error means that the server reset the connection, which ends the connection as a close does.
            let _ =
                tokio::time::timeout(BODIES_WITHIN * 2, stream.read_to_string(&mut received)).await.unwrap();
            (opened.elapsed(), received)
        });
    }
    connections.join_all().await
}

fn longest(connections: &[(Duration, String)]) -> Duration {
    connections.iter().map(|(open, _)| *open).max().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: measures when slow connections end, and the latency of other clients"]
async fn slow_clients_are_disconnected_in_time_and_at_most_double_p99_of_others() {
    allow_files();
    let (_folder, launch) = fresh();
    let server = launch.start().unwrap();
    let api = Api::of(&server);
    api.list_product(1, "a lamp").await.unwrap().value();
    latencies(&server, Duration::from_secs(1)).await;
    let mut before = latencies(&server, Duration::from_secs(4)).await;
    let half_a_header = "GET /api/v1/products HTTP/1.1\r\nHost: handover\r\nX-Half: ";
    let half_a_body = format!(
        "POST /api/v1/products HTTP/1.1\r\nHost: handover\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{\"title\":",
        api.token(2)
    );
    let holding =
        async { tokio::join!(open_and_wait(&server, half_a_header), open_and_wait(&server, &half_a_body)) };
    let (mut during, (headers, bodies)) =
        tokio::join!(latencies(&server, HEADERS_WITHIN + Duration::from_secs(2)), holding);
    println!("{CONNECTIONS} connections with half a header end within {:.1?}", longest(&headers));
    println!("{CONNECTIONS} connections with half a body end within {:.1?}", longest(&bodies));
    println!(
        "latency of other clients before: {}; meanwhile: {}",
        summary(&mut before),
        summary(&mut during)
    );
    assert!(longest(&headers) <= HEADERS_WITHIN, "{:?}", longest(&headers));
    assert!(longest(&bodies) <= BODIES_WITHIN, "{:?}", longest(&bodies));
    let slow = bodies.iter().filter(|(_, received)| received.starts_with("HTTP/1.1 408 ")).count();
    assert_eq!(
        slow, CONNECTIONS,
        "each connection must get a 408 response; the first received {:?}",
        bodies[0].1
    );
    let bound = percentile(&mut before, 99) * 2;
    assert!(
        percentile(&mut during, 99) <= bound,
        "p99 is {:?}, must not exceed {bound:?}",
        percentile(&mut during, 99)
    );
    server.terminate(Duration::from_secs(10)).unwrap();
}
