//! TLS connections (`amqps`) and authentication.

use handover_rabbitmq::{RabbitSettings, unsupervised_connection};
use handover_tests::servers::PASSWORD;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn tls_connection_requires_trusted_authority_and_matching_host() {
    let server = RabbitServer::start(Encryption::Offered).await.expect("RabbitMQ must start");
    let vhost = server.vhost().await.unwrap();
    let url = vhost.encrypted_url().expect("the server must offer encryption");
    let authorities = server.authorities().unwrap();
    let wanted = topology(&[queue(QUEUE, &[KEY])]);

    let with_ca_certificates =
        RabbitSettings::parse(&url).unwrap().with_ca_certificates(authorities.clone()).unwrap();
    let broker = RabbitBroker::new(with_ca_certificates);
    broker.declare(&wanted).await.unwrap();
    publish_until_confirmed(&broker, &routed("secret", 50)).await;
    drain(&broker, QUEUE, &routed("secret", 50).into_iter().map(|(id, _)| id).collect()).await;

    let without_authority = RabbitBroker::new(RabbitSettings::parse(&url).unwrap());
    let why = unreachable(without_authority.declare(&wanted).await);
    assert!(why.to_lowercase().contains("certificate"), "{why}");

    let other_host = url.replace("localhost", "127.0.0.1");
    let other_host_broker = RabbitBroker::new(
        RabbitSettings::parse(&other_host).unwrap().with_ca_certificates(authorities).unwrap(),
    );
    let why = unreachable(other_host_broker.declare(&wanted).await);
    assert!(why.to_lowercase().contains("certificate"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_without_reconnect_uses_tls_and_checks_certificate() {
    let server = shared().await;
    let vhost = vhost().await;
    let strict = RabbitSettings::parse(&vhost.encrypted_url().unwrap()).unwrap();
    let with_ca_certificates = strict.clone().with_ca_certificates(server.authorities().unwrap()).unwrap();
    let connection = unsupervised_connection(with_ca_certificates).await.unwrap();
    // The channel stays open until the connection is closed. If the channel were dropped earlier, its close could
    // overlap with the close of the connection.
    let channel = connection.create_channel().await.unwrap();
    assert!(channel.status().connected());
    connection.close(200, "done".into()).await.unwrap();
    let refused = unsupervised_connection(strict).await.unwrap_err().to_string();
    assert!(refused.to_lowercase().contains("certificate"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_password_refuses_declaration_and_is_outage_for_publishing() {
    let vhost = vhost().await;
    let broker = RabbitBroker::new(settings(&vhost.url().replacen(PASSWORD, "wrong", 1), QueueType::Quorum));
    let what = refused(broker.declare(&topology(&[queue(QUEUE, &[KEY])])).await);
    assert!(what.contains("ACCESS_REFUSED"), "{what}");
    unreachable(publish(&broker, &routed("a", 1)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_vhost_refuses_declaration() {
    let vhost = vhost().await;
    let url = vhost.url().replace(vhost.name(), "not-there");
    let broker = RabbitBroker::new(settings(&url, QueueType::Quorum));
    let what = refused(broker.declare(&topology(&[queue(QUEUE, &[KEY])])).await);
    assert!(what.contains("not-there"), "{what}");
}
