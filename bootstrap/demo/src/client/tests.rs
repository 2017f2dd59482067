//! How the client repeats requests.

use std::net::SocketAddr;

use marketplace_wiring::config::Secret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::*;

/// A server that gives these responses, one per connection. Returns its address, and the requests that it received.
async fn server(responses: &'static [(&'static str, &'static str)]) -> (SocketAddr, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let requests = tokio::spawn(async move {
        let mut requests = Vec::new();
        for (status, body) in responses {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = String::new();
            while !request.ends_with('}') {
                let mut bytes = [0; 4096];
                let read = stream.read(&mut bytes).await.unwrap();
                assert!(read > 0, "the request is incomplete: {request}");
                request.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
            }
            requests.push(request);
            let length = body.len();
            let response =
                format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
            stream.write_all(response.as_bytes()).await.unwrap();
        }
        requests
    });
    (address, requests)
}

fn api(address: SocketAddr) -> Api {
    let secrets = Secrets {
        jwt: Some(Secret::new("0123456789abcdef0123456789abcdef")),
        gateway: Secret::new("whsec_MDEyMzQ1Njc4OWFiY2RlZg=="),
    };
    Api::sign_in(address, &secrets, &[UserId::try_from(1).unwrap()], UserId::try_from(2).unwrap()).unwrap()
}

#[tokio::test]
async fn request_is_repeated_with_the_same_key_until_its_outcome_is_known() {
    let (address, requests) = server(&[
        ("503 Service Unavailable", r#"{"code":"C0001"}"#),
        ("503 Service Unavailable", r#"{"code":"C0002"}"#),
        ("409 Conflict", r#"{"code":"A0409"}"#),
    ])
    .await;
    let api = api(address);
    let order = api.cancel(UserId::try_from(1).unwrap(), OrderId::try_from(7).unwrap()).await.unwrap();
    assert!(order.is_conflict(), "{order:?}");
    assert_eq!(api.retried_requests(), 2);
    let requests = requests.await.unwrap();
    assert!(requests[0].contains("x-idempotency-key: demo-1"), "{}", requests[0]);
    assert_eq!(requests, [requests[0].as_str(); 3]);
}
