//! How the client repeats requests.

use std::net::SocketAddr;

use handover_runtime::config::Secret;
use handover_runtime::tokens::TokenSecrets;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// Serves one connection per response, and returns the requests.
async fn serve(listener: TcpListener, responses: [(&str, &str); 3]) -> Vec<String> {
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
}

fn api(address: SocketAddr) -> Api {
    let secrets = Secrets {
        tokens: TokenSecrets {
            current: Some(Secret::new("0123456789abcdef0123456789abcdef")),
            previous: None,
            verifies: &["tokens"],
        },
        gateway: Secret::new("whsec_MDEyMzQ1Njc4OWFiY2RlZg=="),
        previous_gateway: None,
    };
    Api::sign_in(address, &secrets, &[UserId::try_from(1).unwrap()], UserId::try_from(2).unwrap()).unwrap()
}

#[tokio::test]
async fn request_is_repeated_with_the_same_key_until_its_outcome_is_known() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let api = api(listener.local_addr().unwrap());
    let responses = [
        ("503 Service Unavailable", r#"{"code":"C0001"}"#),
        ("503 Service Unavailable", r#"{"code":"C0002"}"#),
        ("409 Conflict", r#"{"code":"A0409"}"#),
    ];
    let request = api.cancel(UserId::try_from(1).unwrap(), OrderId::try_from(7).unwrap());
    let (requests, response) = tokio::join!(serve(listener, responses), request);
    assert!(response.as_ref().is_ok_and(ApiResponse::is_conflict), "{response:?}");
    assert_eq!(api.retried_requests(), 2);
    assert!(requests[0].contains("x-idempotency-key: demo-1"), "{}", requests[0]);
    assert_eq!(requests, [requests[0].as_str(); 3]);
}
