//! TLS connections with `database.ca-file` and `broker.ca-file`, to servers with certificates for `localhost`.

use std::path::PathBuf;
use std::sync::Arc;

use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::Launch;
use handover_tests::rabbit_rigs;
use handover_tests::servers::Durability;
use handover_tests::servers::database::{DatabaseServer, ServerKind};
use handover_tests::snapshot::DatabaseSnapshot;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use super::shop::Shop;

const DATABASE_URL: &str = "HANDOVER_DATABASE__URL";
const DATABASE_CA: &str = "HANDOVER_DATABASE__CA_FILE";
const BROKER_URL: &str = "HANDOVER_BROKER__URL";
const BROKER_CA: &str = "HANDOVER_BROKER__CA_FILE";

/// A deployment on servers with TLS, and their certificate authorities.
struct Encrypted {
    deployment: Deployment,
    by_name: String,
    broker: String,
    database_ca: PathBuf,
    broker_ca: PathBuf,
    _folder: TempDir,
}

impl Encrypted {
    async fn start(pair: Pair) -> Encrypted {
        static MARIADB: OnceCell<Arc<DatabaseServer>> = OnceCell::const_new();
        static POSTGRES: OnceCell<Arc<DatabaseServer>> = OnceCell::const_new();
        let kind = pair.database_server().unwrap();
        let database = match kind {
            ServerKind::MariaDb => &MARIADB,
            ServerKind::Postgres => &POSTGRES,
        };
        let start = || DatabaseServer::start_encrypted(kind, Durability::None);
        let database = database.get_or_try_init(start).await.unwrap();
        let database_ca = database.authorities();
        let database = database.database(None).await.unwrap();
        let rabbitmq = rabbit_rigs::shared().await;
        let vhost = Arc::new(rabbitmq.vhost().await.unwrap());
        let folder = tempfile::tempdir().unwrap();
        let broker_ca = folder.path().join("broker-ca.pem");
        std::fs::write(&broker_ca, rabbitmq.authorities().unwrap()).unwrap();
        let by_name = database.url_by_name();
        let broker = vhost.encrypted_url().unwrap();
        let deployment = Deployment::on(pair, Some(database), Some(vhost));
        Encrypted { deployment, by_name, broker, database_ca, broker_ca, _folder: folder }
    }

    /// URLs with host names, and the matching certificate authorities.
    fn settings(&self) -> [(&'static str, String); 4] {
        let path = |path: &PathBuf| path.display().to_string();
        [
            (DATABASE_URL, self.by_name.clone()),
            (DATABASE_CA, path(&self.database_ca)),
            (BROKER_URL, self.broker.clone()),
            (BROKER_CA, path(&self.broker_ca)),
        ]
    }

    fn launch(&self) -> Launch {
        let settings = self.settings();
        settings.iter().fold(self.deployment.launch(), |launch, (name, value)| launch.set(name, value))
    }
}

/// Exit code and output of `doctor`, in lower case.
fn doctor(launch: &Launch) -> (Option<i32>, String) {
    let (code, stdout, stderr) = launch.run(&["doctor"]).unwrap();
    (code, (stdout + &stderr).to_lowercase())
}

async fn orders_are_processed_over_tls_with_trusted_certificates(pair: Pair) {
    let encrypted = Encrypted::start(pair).await;
    let plain = match encrypted.deployment.database().server().kind() {
        ServerKind::MariaDb => "?ssl-mode=DISABLED",
        ServerKind::Postgres => "?sslmode=disable",
    };
    let plain = DatabaseSnapshot::on(&(encrypted.deployment.database().url() + plain));
    plain.rows("SELECT 1").await.expect_err("the server must reject unencrypted connections");

    let (code, output) = doctor(&encrypted.launch());
    assert_eq!(code, Some(0), "{output}");
    let settings = encrypted.settings();
    let settings = settings.each_ref().map(|(name, value)| (*name, value.as_str()));
    let shop = Shop::open_on(encrypted.deployment, &settings, None).await;
    let order = shop.paid_order().await;
    shop.complete(order).await;
    shop.settled().await;
    shop.assert_invariants_except(&[]).await;
}

async fn database_with_untrusted_certificate_is_refused(pair: Pair) {
    let encrypted = Encrypted::start(pair).await;
    let other_ca = encrypted.launch().set(DATABASE_CA, &encrypted.broker_ca.display().to_string());
    let by_address = encrypted.launch().set(DATABASE_URL, &encrypted.deployment.database().url());
    for (launch, what) in
        [(other_ca, "signed by an unknown authority"), (by_address, "issued for another host name")]
    {
        let refused = launch.start().expect_err(what).to_string();
        assert!(refused.to_lowercase().contains("certificate"), "{what}: {refused}");
        let (code, output) = doctor(&launch);
        assert_ne!(code, Some(0), "{what}: {output}");
        assert!(output.contains("certificate"), "{what}: {output}");
    }
}

async fn broker_with_untrusted_certificate_receives_nothing(pair: Pair) {
    let encrypted = Encrypted::start(pair).await;
    let other_ca = encrypted.database_ca.display().to_string();
    let launch = encrypted.launch().set(BROKER_CA, &other_ca);
    let (code, output) = doctor(&launch);
    assert_ne!(code, Some(0), "{output}");
    assert!(output.contains("certificate"), "{output}");
    let mut settings = encrypted.settings();
    settings[3].1 = other_ca;
    let settings = settings.each_ref().map(|(name, value)| (*name, value.as_str()));
    let shop = Shop::open_on(encrypted.deployment, &settings, None).await;
    let order = shop.order().await;
    shop.expect_logged(&["ertificate"]).await;
    assert_eq!(
        shop.order_field(order, "status").await,
        "pending",
        "orders must be accepted although the broker is unavailable"
    );
    assert_eq!(shop.deployment().vhost().messages().await.unwrap(), []);
}

super::by_turns! {
    orders_are_processed_over_tls_with_trusted_certificates: rabbitmq,
    database_with_untrusted_certificate_is_refused: rabbitmq,
    broker_with_untrusted_certificate_receives_nothing: rabbitmq,
}
