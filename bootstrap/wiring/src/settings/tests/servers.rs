use std::path::Path;
use std::time::Duration;

use handover_rabbitmq::QueueType;

use super::{error_text, load};
use handover_runtime::settings::BrokerChoice;

#[test]
fn database_is_a_file_or_on_a_server() {
    let database = |url: &str| load(&[("HANDOVER_DATABASE__URL", url)]).map(|config| config.database);
    let file = |url: &str| database(url).unwrap().file().map(Path::to_owned);
    assert_eq!(file("sqlite://shop.db"), Some("shop.db".into()));
    assert_eq!(file("sqlite:///srv/shop.db"), Some("/srv/shop.db".into()));
    for url in ["sqlite://", "sqlite::memory:", "sqlite:///srv/", "shop.db", "sqlite://a.db?mode=ro", ""] {
        assert!(database(url).is_err(), "{url}");
    }
    for (url, place) in [
        ("mysql://shop:hush@db/shop", "mysql://shop@db:3306/shop"),
        ("mariadb://shop:hush@db:3307/shop?ssl-mode=REQUIRED", "mysql://shop@db:3307/shop"),
        ("postgres://shop:hush@db/shop", "postgres://shop@db:5432/shop"),
        ("postgresql://shop:hush@db:5433/shop", "postgres://shop@db:5433/shop"),
    ] {
        let config = load(&[("HANDOVER_DATABASE__URL", url)]).unwrap();
        assert_eq!(config.database.to_string(), place);
        assert!(!format!("{config:?}").contains("hush"));
    }
    for url in
        ["mysql://shop:hush@db", "postgres://shop:hush@db:port/shop", "postgres://shop:hush@db/shop?ssl=yes"]
    {
        let text = error_text(load(&[("HANDOVER_DATABASE__URL", url)]));
        assert!(
            text.contains("mysql://user:password@host:3306/database") && !text.contains("hush"),
            "{text}"
        );
    }
}

#[test]
fn broker_is_in_database_or_memory_or_rabbitmq() {
    let broker = |url: &str| load(&[("HANDOVER_BROKER__URL", url)]);
    assert!(matches!(broker("memory:").unwrap().broker, BrokerChoice::Memory));
    for url in ["kafka:", "amqp:", "http://shop:hush@mq/"] {
        let text = error_text(broker(url));
        assert!(text.contains("amqp://user:password@host:5672/vhost") && !text.contains("hush"), "{text}");
    }
    let server = ("HANDOVER_DATABASE__URL", "postgres://shop@db/shop");
    let text = error_text(load(&[server, ("HANDOVER_BROKER__URL", "memory:")]));
    assert!(text.contains("other processes"), "{text}");
    let rabbit = |more: &[(&str, &str)]| {
        let url = ("HANDOVER_BROKER__URL", "amqps://shop:hush@mq/orders");
        match load(&[&[url], more].concat()).unwrap().broker {
            BrokerChoice::Rabbit(settings) => *settings,
            other @ (BrokerChoice::Database | BrokerChoice::Memory) => panic!("{other:?}"),
        }
    };
    let settings = rabbit(&[("HANDOVER_RABBITMQ__QUEUE_TYPE", "classic")]);
    assert!(!format!("{settings:?}").contains("hush"));
    assert_eq!(settings.queue_type, QueueType::Classic);
    assert_eq!(rabbit(&[]).queue_type, QueueType::Quorum);
    // The adapter's timeout is below the relay's, so that the adapter still returns an outcome per message.
    assert_eq!(rabbit(&[]).confirm_timeout, Duration::from_millis(9_500));
    assert_eq!(
        rabbit(&[("HANDOVER_OUTBOX__CONFIRM_TIMEOUT", "600ms")]).confirm_timeout,
        Duration::from_millis(300)
    );
}

#[test]
fn ca_files_contain_certificates_and_need_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (good, bad) =
        (file("ca.pem", "-----BEGIN CERTIFICATE-----\n"), file("key.pem", "-----BEGIN KEY-----\n"));
    let database = ("HANDOVER_DATABASE__URL", "mysql://shop@db/shop");
    let broker = ("HANDOVER_BROKER__URL", "amqps://mq/");
    for (url, name, key) in [
        (database, "HANDOVER_DATABASE__CA_FILE", "database.ca-file"),
        (broker, "HANDOVER_BROKER__CA_FILE", "broker.ca-file"),
    ] {
        load(&[url, (name, &good)]).unwrap();
        for path in [bad.as_str(), "/nowhere/ca.pem"] {
            assert!(error_text(load(&[url, (name, path)])).starts_with(&format!("{key} in ")));
        }
        // A certificate file is refused if the URL names no server.
        assert!(error_text(load(&[(name, &good)])).starts_with(&format!("{key} in ")));
    }
    let plain = ("HANDOVER_BROKER__URL", "amqp://mq/");
    assert!(error_text(load(&[plain, ("HANDOVER_BROKER__CA_FILE", &good)])).contains("amqps://"));
}

#[test]
fn management_url_needs_a_rabbitmq_server_and_contains_no_user() {
    let broker = ("HANDOVER_BROKER__URL", "amqp://mq/");
    let management = |url: &'static str| ("HANDOVER_RABBITMQ__MANAGEMENT_URL", url);
    load(&[broker, management("http://mq:15672")]).unwrap();
    for url in ["mq:15672", "http://", "http://mq/api", "http://shop:swordfish@mq:15672"] {
        let error = error_text(load(&[broker, management(url)]));
        assert!(error.starts_with("rabbitmq.management-url in ") && !error.contains("swordfish"), "{error}");
    }
    let needless = error_text(load(&[management("http://mq:15672")]));
    assert!(needless.starts_with("rabbitmq.management-url in "), "{needless}");
}
