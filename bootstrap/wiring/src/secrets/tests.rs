use std::fs;
use std::path::Path;

use handover_runtime::config::{Configuration, Sources};
use handover_runtime::secrets::exposed;

use super::*;

fn config(folder: &Path, more: &[(&str, &str)]) -> Config {
    let url = format!("sqlite://{}", folder.join("shop.db").display());
    let mut variables = vec![("HANDOVER_DATABASE__URL".to_owned(), url)];
    variables.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    Config::load(&Sources { variables, ..Sources::default() }).unwrap()
}

fn at(listen: &str) -> [SocketAddr; 1] {
    [listen.parse().unwrap()]
}

const SIGNING: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[test]
fn secrets_are_generated_once_in_private_files_next_to_database() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &[]);
    let [first, again] = [(); 2].map(|()| Secrets::of(&config).unwrap());
    assert_eq!((&first.tokens.current, &first.gateway), (&again.tokens.current, &again.gateway));
    let jwt = first.tokens.current.unwrap();
    let gateway = first.gateway;
    assert_ne!(jwt.reveal(), gateway.reveal().trim_start_matches("whsec_"));
    assert_eq!((jwt.reveal().len(), gateway.reveal().len()), (64, 70));
    assert!(!is_placeholder(&jwt) && !is_placeholder(&gateway));
    for purpose in ["jwt-secret", "gateway-secret"] {
        assert!(!exposed(&folder.path().join(format!("shop.db-{purpose}"))).unwrap());
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no draft remains");
}

#[test]
fn placeholder_has_few_distinct_characters_and_random_text_many() {
    for typed in [&"changeme".repeat(4), &"a".repeat(32), "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
        assert!(is_placeholder(&Secret::new(typed)), "{typed}");
    }
    assert!(!is_placeholder(&Secret::new("0f4a9c1be27d83560f4a9c1be27d8356")));
}

fn market_failure<T>(result: &Result<T, Failure>) -> Option<&MarketFailure> {
    result.as_ref().err().and_then(MarketFailure::in_failure)
}

#[test]
fn both_secrets_are_required_outside_loopback() {
    let folder = tempfile::tempdir().unwrap();
    let jwt = ("HANDOVER_AUTH__JWT_SECRET", "an-example-of-a-secret-with-enough-bytes");
    let gateway = ("HANDOVER_GATEWAY__SECRET", SIGNING);
    let needed = |more: &[(&str, &str)], listen| {
        let allowed = Secrets::allow(&config(folder.path(), more), &at(listen));
        match (market_failure(&allowed), &allowed) {
            (Some(MarketFailure::SecretNeeded { key, .. }), _) => Some(*key),
            (_, Ok(())) => None,
            (_, Err(other)) => panic!("{other}"),
        }
    };
    for listen in ["0.0.0.0:8080", "[::]:8080", "192.0.2.1:8080"] {
        assert_eq!(needed(&[], listen), Some("auth.jwt-secret"));
        assert_eq!(needed(&[jwt], listen), Some("gateway.secret"));
        assert_eq!(needed(&[gateway], listen), Some("auth.jwt-secret"));
        assert_eq!(needed(&[jwt, gateway], listen), None);
    }
    for listen in ["127.0.0.1:8080", "[::1]:8080"] {
        assert_eq!(needed(&[], listen), None);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "no unused secret is generated");
}

#[test]
fn placeholder_is_refused_if_any_listener_is_outside_loopback() {
    let folder = tempfile::tempdir().unwrap();
    let typed = ("HANDOVER_AUTH__JWT_SECRET", "changemechangemechangemechangeme");
    let jwt = ("HANDOVER_AUTH__JWT_SECRET", "an-example-of-a-secret-with-enough-bytes");
    let typed_gateway = ("HANDOVER_GATEWAY__SECRET", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    let gateway = ("HANDOVER_GATEWAY__SECRET", SIGNING);
    let inside = at("127.0.0.1:1")[0];
    let outside = at("192.0.2.1:1")[0];
    for (set, weak) in [([typed, gateway], "auth.jwt-secret"), ([jwt, typed_gateway], "gateway.secret")] {
        let config = config(folder.path(), &set);
        Secrets::allow(&config, &[inside]).unwrap();
        let refused = Secrets::allow(&config, &[inside, outside]);
        assert!(
            matches!(market_failure(&refused), Some(MarketFailure::SecretPlaceholder { key, .. }) if *key == weak)
        );
    }
}

#[test]
fn previous_secrets_are_used_and_refused_outside_loopback_if_they_are_placeholders() {
    let folder = tempfile::tempdir().unwrap();
    let jwt = ("HANDOVER_AUTH__JWT_SECRET", "an-example-of-a-secret-with-enough-bytes");
    let gateway = ("HANDOVER_GATEWAY__SECRET", SIGNING);
    let good = [
        ("HANDOVER_AUTH__PREVIOUS_JWT_SECRET", "0f4a9c1be27d83560f4a9c1be27d8356"),
        ("HANDOVER_GATEWAY__PREVIOUS_SECRET", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"),
    ];
    let both = config(folder.path(), &[jwt, gateway, good[0], good[1]]);
    Secrets::allow(&both, &at("192.0.2.1:1")).unwrap();
    let secrets = Secrets::of(&both).unwrap();
    let previous = [secrets.tokens.previous, secrets.previous_gateway].map(Option::unwrap);
    assert_eq!(previous.each_ref().map(Secret::reveal), good.map(|(_, secret)| secret));
    assert!(!format!("{both:?}").contains(good[0].1));
    for (weak, key) in [
        ((good[0].0, "changemechangemechangemechangeme"), "auth.previous-jwt-secret"),
        ((good[1].0, "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"), "gateway.previous-secret"),
    ] {
        let config = config(folder.path(), &[jwt, gateway, weak]);
        Secrets::allow(&config, &at("127.0.0.1:1")).unwrap();
        let refused = Secrets::allow(&config, &at("192.0.2.1:1"));
        assert!(
            matches!(market_failure(&refused), Some(MarketFailure::SecretPlaceholder { key: found, .. }) if *found == key)
        );
    }
}

#[test]
fn reread_takes_the_files_as_they_are_and_generates_none() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &[]);
    let reread = Secrets::reread(&config);
    assert!(matches!(&reread, Err(Failure::SecretFile { .. })));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    Secrets::of(&config).unwrap();
    let path = folder.path().join("shop.db-jwt-secret");
    fs::write(&path, "0f4a9c1be27d83560f4a9c1be27d8356\n").unwrap();
    let jwt = Secrets::reread(&config).unwrap().tokens.current.unwrap();
    assert_eq!(jwt.reveal(), "0f4a9c1be27d83560f4a9c1be27d8356");
}

#[test]
fn with_external_issuer_no_jwt_secret_is_required_or_generated() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.json");
    let key = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    fs::write(&keys, key).unwrap();
    let keys = keys.display().to_string();
    let set = [
        ("HANDOVER_AUTH__JWKS_FILE", keys.as_str()),
        ("HANDOVER_AUTH__AUDIENCE", "shop"),
        ("HANDOVER_GATEWAY__SECRET", SIGNING),
    ];
    let config = config(folder.path(), &set);
    Secrets::allow(&config, &at("0.0.0.0:8080")).unwrap();
    assert_eq!(Secrets::of(&config).unwrap().tokens.current, None);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only the key file exists");
}

#[test]
fn on_database_server_both_secrets_are_required_and_none_is_generated() {
    let url = ("HANDOVER_DATABASE__URL", "postgres://shop:hush@db/shop");
    let jwt = ("HANDOVER_AUTH__JWT_SECRET", "an-example-of-a-secret-with-enough-bytes");
    let gateway = ("HANDOVER_GATEWAY__SECRET", SIGNING);
    let load = |more: &[(&str, &str)]| {
        let variables = more.iter().chain([&url]).map(|(name, value)| ((*name).into(), (*value).into()));
        Config::load(&Sources { variables: variables.collect(), ..Sources::default() }).unwrap()
    };
    for (set, missing) in
        [(&[][..], "auth.jwt-secret"), (&[jwt], "gateway.secret"), (&[gateway], "auth.jwt-secret")]
    {
        let refused = Secrets::allow(&load(set), &at("127.0.0.1:8080")).unwrap_err();
        assert!(matches!(refused, Failure::SharedSecretMissing { key, .. } if key == missing), "{refused}");
        assert!(!refused.explain().contains("hush"));
        Secrets::allow(&load(set), &[]).unwrap();
    }
    Secrets::allow(&load(&[jwt, gateway]), &at("127.0.0.1:8080")).unwrap();
}

#[test]
fn concurrent_first_starts_agree_on_one_secret() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &[]);
    let found: Vec<Secret> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..8).map(|_| scope.spawn(|| Secrets::tokens(&config))).collect();
        starts.into_iter().map(|start| start.join().unwrap().unwrap().current.unwrap()).collect()
    });
    assert!(found.iter().all(|secret| *secret == found[0]));
}

#[cfg(unix)]
#[test]
fn secret_file_that_others_can_read_or_that_is_empty_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), &[]);
    Secrets::tokens(&config).unwrap();
    let path = folder.path().join("shop.db-jwt-secret");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let exposed = Secrets::tokens(&config);
    assert!(matches!(&exposed, Err(Failure::SecretExposed { .. })));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, "\n").unwrap();
    let invalid = Secrets::tokens(&config);
    assert!(matches!(&invalid, Err(Failure::SecretFileInvalid { .. })));
}
