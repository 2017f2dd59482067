//! What the facade crate refuses of a server before it connects.

use handover::{BuildError, Outbox, RabbitMq};
use sqlx::MySqlPool;

#[tokio::test]
async fn mysql_pool_without_a_database_is_refused() -> Result<(), sqlx::Error> {
    let built = |url| MySqlPool::connect_lazy(url).map(|pool| Outbox::builder(pool).build().map(drop));
    let refused = built("mysql://service@127.0.0.1:1")?.unwrap_err();
    assert!(matches!(refused, BuildError::NoDatabase {}), "{refused:?}");
    assert_eq!(
        refused.to_string(),
        "the connection options of the pool name no database: the tables of the outbox are created in it; name it in the URL \
         or with `MySqlConnectOptions::database`"
    );
    assert!(built("mysql://service@127.0.0.1:1/library")?.is_ok());
    Ok(())
}

#[test]
fn url_of_a_broker_that_is_none_of_rabbitmq_is_refused_without_its_password() {
    for url in ["http://guest:secret@127.0.0.1:5672/", "amqp://guest:secret@127.0.0.1:port/"] {
        let refused = RabbitMq::new(url).map(drop).unwrap_err();
        assert!(matches!(refused, BuildError::InvalidUrl { .. }), "{refused:?}");
        let text = refused.to_string();
        assert!(text.ends_with("; expected amqp://user:password@host:port/vhost"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
    assert!(RabbitMq::new("amqp://guest:secret@127.0.0.1:5672/%2f").is_ok());
}
