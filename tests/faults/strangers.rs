//! Thousands of connections that only hold on: half a header, half a body. They end in time, and who is served meanwhile
//! hardly notices.

use std::time::{Duration, Instant};

use handover_tests::client::Api;
use handover_tests::process::Server;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::figures::{percentile, shown};
use crate::fresh;

const STRANGERS: usize = 2_000;
/// What is promised of a quiet machine.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
const BODIES_WITHIN: Duration = Duration::from_secs(30);

/// As many files as the connections of this test take.
fn allow_files() {
    let allowed = getrlimit(Resource::Nofile);
    let enough = allowed.maximum.is_none_or(|most| most > 3 * STRANGERS as u64);
    assert!(enough, "a hard limit of {:?} open files is too low for this test", allowed.maximum);
    setrlimit(Resource::Nofile, Rlimit { current: allowed.maximum, ..allowed }).unwrap();
}

/// One request after another, 100 a second; how long each took. On a thread of its own: what the strangers cost this
/// process is not to count as what they cost the server.
async fn served(server: &Server, during: Duration) -> Vec<Duration> {
    let api = Api::of(server);
    let asking = async move {
        let mut took = Vec::new();
        // The first one of a client also connects.
        assert_eq!(api.get(1, "/api/v1/products?limit=1").await.unwrap().status, 200);
        let (mut tick, begun) = (tokio::time::interval(Duration::from_millis(10)), Instant::now());
        while begun.elapsed() < during {
            tick.tick().await;
            let asked = Instant::now();
            assert_eq!(api.get(1, "/api/v1/products?limit=1").await.unwrap().status, 200);
            took.push(asked.elapsed());
        }
        took
    };
    let alone = || Builder::new_current_thread().enable_all().build().unwrap().block_on(asking);
    tokio::task::spawn_blocking(alone).await.unwrap()
}

/// Opens so many connections, 1,000 a second, that send this and no more; how long each was open, and what it was told
/// at the end. What is asked is what they cost while they hold on: opened at once, it is this process that takes the
/// cores from the server.
async fn hold_on(server: &Server, text: &str) -> Vec<(Duration, String)> {
    let address = server.base().trim_start_matches("http://");
    let mut strangers = JoinSet::new();
    let mut tick = tokio::time::interval(Duration::from_millis(1));
    for _ in 0..STRANGERS {
        tick.tick().await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let opened = Instant::now();
        strangers.spawn(async move {
            let mut told = String::new();
            // A reset is an end too.
            let _ = tokio::time::timeout(BODIES_WITHIN * 2, stream.read_to_string(&mut told)).await.unwrap();
            (opened.elapsed(), told)
        });
    }
    strangers.join_all().await
}

/// The longest of them.
fn longest(held: &[(Duration, String)]) -> Duration {
    held.iter().map(|(open, _)| *open).max().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: measures how soon thousands of connections end, and latency beside them"]
async fn connections_that_only_hold_on_end_in_time_and_hold_up_nobody() {
    allow_files();
    let (_folder, launch) = fresh();
    let server = launch.start().unwrap();
    let api = Api::of(&server);
    api.list_product(1, "a lamp").await.unwrap().value();
    served(&server, Duration::from_secs(1)).await;
    let mut before = served(&server, Duration::from_secs(4)).await;
    let half_a_header = "GET /api/v1/products HTTP/1.1\r\nHost: handover\r\nX-Half: ";
    let half_a_body = format!(
        "POST /api/v1/products HTTP/1.1\r\nHost: handover\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{\"title\":",
        api.token(2)
    );
    let holding = async { tokio::join!(hold_on(&server, half_a_header), hold_on(&server, &half_a_body)) };
    let (mut during, (headers, bodies)) =
        tokio::join!(served(&server, HEADERS_WITHIN + Duration::from_secs(2)), holding);
    println!("{STRANGERS} with half a header end within {:.1?}", longest(&headers));
    println!("{STRANGERS} with half a body end within {:.1?}", longest(&bodies));
    println!("before: {}; meanwhile: {}", shown(&mut before), shown(&mut during));
    assert!(longest(&headers) <= HEADERS_WITHIN, "{:?}", longest(&headers));
    assert!(longest(&bodies) <= BODIES_WITHIN, "{:?}", longest(&bodies));
    let slow = bodies.iter().filter(|(_, told)| told.starts_with("HTTP/1.1 408 ")).count();
    assert_eq!(slow, STRANGERS, "each is told why, for example {:?}", bodies[0].1);
    let bound = percentile(&mut before, 99) * 2;
    assert!(percentile(&mut during, 99) <= bound, "{:?} and not {bound:?}", percentile(&mut during, 99));
    server.terminate(Duration::from_secs(10)).unwrap();
}
