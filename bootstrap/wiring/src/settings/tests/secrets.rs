use super::{error_text, load, load_file, variables};
use crate::settings::Config;
use handover_runtime::config::{Configuration, Sources};

#[test]
fn malformed_file_error_names_line_and_shows_no_secret() {
    for written in [
        "jwt-secret = \"hush-hush",
        "jwt-secret = hush-hush",
        "jwt-secret = \"hush-hush\" x",
        "jwt-secret = 'hush",
        "jwt-secret = \"\"\"hush",
        "jwt-secret = \"hush\\q\"",
        "jwt-secret = [\"hush\", hush",
        "jwt-secret \"hush\"",
        "jwt-secret = \"hush\"\njwt-secret = \"hush\"",
        "jwt-secret = 0xhush",
    ] {
        let text = error_text(load_file(&format!("[auth]\n{written}\n")));
        assert!(text.contains("is not valid TOML: line ") && !text.contains("hush"), "{text}");
    }
}

#[test]
fn debug_of_sources_shows_no_values() {
    let sources = Sources {
        flags: vec![("--database", "database.url", "postgres://shop:hush@db/shop".to_owned())],
        ..variables(&[("HANDOVER_AUTH__JWT_SECRET", "hush")])
    };
    let shown = format!("{sources:?}");
    assert!(shown.contains("HANDOVER_AUTH__JWT_SECRET") && shown.contains("--database"), "{shown}");
    assert!(!shown.contains("hush"), "{shown}");
}

#[test]
fn flag_with_password_is_refused_and_not_repeated() {
    let load = |flag: &'static str, key: &'static str, url: &str| {
        Config::load(&Sources { flags: vec![(flag, key, url.to_owned())], ..variables(&[]) })
    };
    for (flag, key, url) in [
        ("--database", "database.url", "postgres://shop:hush@db/shop"),
        ("--database", "database.url", "mysql://shop:hu@sh@db/shop"),
        ("--database", "database.url", "postgres://shop@db/shop?sslmode=require&PassWord=hush"),
        ("--broker", "broker.url", "amqp://shop:hush@rabbit/%2f"),
    ] {
        let text = error_text(load(flag, key, url));
        let variable = format!("HANDOVER_{}__URL", key.split('.').next().unwrap().to_uppercase());
        assert!(text.contains(flag) && text.contains(&variable), "{text}");
        assert!(text.contains("process lists show command-line flags") && !text.contains("hu"), "{text}");
    }
    for url in ["sqlite://a:b@c.db", "sqlite:///srv/handover.db", "mysql://shop@db:3306/shop@eu"] {
        assert!(load("--database", "database.url", url).is_ok(), "{url}");
    }
}

#[test]
fn malformed_url_is_refused_without_showing_possible_password() {
    for (variable, url) in [
        ("HANDOVER_DATABASE__URL", "mysql://shop:hu?sh@db/shop"),
        ("HANDOVER_DATABASE__URL", "mysql://shop:hu/sh@db/shop"),
        ("HANDOVER_DATABASE__URL", "postgres://shop@db/shop?pass=hu@sh"),
        ("HANDOVER_DATABASE__URL", "shop:hush@db/shop"),
        ("HANDOVER_BROKER__URL", "amqp:shop:hush@rabbit"),
        ("HANDOVER_LOG__TRACES", "http://me:hush@collector:4318"),
        ("HANDOVER_BROKER__URL", "amqp://shop:hu?sh@rabbit:x"),
        ("HANDOVER_BROKER__URL", "rabbit:hush@rabbit"),
    ] {
        let text = error_text(load(&[(variable, url)]));
        assert!(text.contains(variable) && !text.contains("hu") && !text.contains("sh@"), "{url}: {text}");
    }
}

#[test]
fn secret_of_digits_stays_text_and_is_never_shown() {
    let secret = "00000000000000000000000000000001";
    let config = load(&[("HANDOVER_AUTH__JWT_SECRET", secret)]).unwrap();
    assert_eq!(config.auth.secret.as_ref().unwrap().reveal(), secret);
    assert!(!format!("{config:?}").contains(secret));
    assert!(!error_text(load(&[("HANDOVER_AUTH__JWT_SECRET", "hush")])).contains("hush"));
    assert!(!error_text(load(&[("HANDOVER_GATEWAY__SECRET", "hush")])).contains("hush"));
    let signing = format!("whsec_{}", "ab".repeat(32));
    load(&[("HANDOVER_GATEWAY__SECRET", &signing)]).unwrap();
}
