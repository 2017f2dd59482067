//! Places of an archive.

use handover_archive::ArchiveUrl;

#[test]
fn place_of_an_archive_is_a_folder_or_a_bucket() {
    for (text, shown) in [
        ("file:archive", "file:archive"),
        ("file:./a/b c", "file:./a/b c"),
        ("file:/srv/archive", "file:///srv/archive"),
        ("file:///srv/archive", "file:///srv/archive"),
        ("s3://bucket", "s3://bucket"),
        ("s3://my.bucket-1/a/B_c/?region=eu-central-1", "s3://my.bucket-1/a/B_c?region=eu-central-1"),
        (
            "s3://bucket/a?endpoint=https%3A%2F%2Fminio:9000&region=x",
            "s3://bucket/a?region=x&endpoint=https://minio:9000",
        ),
        ("s3://bucket?endpoint=http://[::1]:9000/", "s3://bucket?endpoint=http://[::1]:9000/"),
    ] {
        assert_eq!(ArchiveUrl::parse(text).unwrap().to_string(), shown, "{text}");
    }
}

#[test]
fn invalid_place_is_refused_with_its_reason_and_never_repeated() {
    for (text, reason) in [
        ("archive", "the schemes are file: and s3:"),
        ("", "the schemes are file: and s3:"),
        ("gs://bucket", "the schemes are file: and s3:"),
        ("https://key:hunter2@host/bucket", "the schemes are file: and s3:"),
        ("file:", "it names no folder"),
        ("file://", "followed by an absolute path"),
        ("file://archive", "followed by an absolute path"),
        ("file:archive?x=1", "only a plain path"),
        ("file:a%20b", "only a plain path"),
        ("s3:bucket", "3 to 63 characters"),
        ("s3://", "3 to 63 characters"),
        ("s3:///folder", "3 to 63 characters"),
        ("s3://Bucket", "3 to 63 characters"),
        ("s3://bucket:9000/a", "3 to 63 characters"),
        ("s3://key:hunter2@bucket/a", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("s3://hunter2@bucket/a", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("s3://bucket/a//b", "the folder may consist of"),
        ("s3://bucket/a b", "the folder may consist of"),
        ("s3://bucket/a#b", "the folder may consist of"),
        ("s3://bucket/a?secret=hunter2", "the parameters are region and endpoint"),
        ("s3://bucket/a?region=a&region=b", "the parameter region twice"),
        ("s3://bucket/a?region=", "no name such as eu-central-1"),
        ("s3://bucket/a?region=a.example/", "no name such as eu-central-1"),
        ("s3://bucket/a?endpoint=minio:9000", "the endpoint is no URL"),
        ("s3://bucket/a?endpoint=https://key:hunter2@host", "the endpoint is no URL"),
        ("s3://bucket/a?endpoint=ftp://host", "the endpoint is no URL"),
    ] {
        let refused = ArchiveUrl::parse(text).unwrap_err().to_string();
        assert!(refused.contains(reason), "{text}: {refused}");
        assert!(!refused.contains("hunter2"), "{text}: {refused}");
    }
}

#[test]
fn folder_is_created_and_one_that_cannot_be_created_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b");
    ArchiveUrl::parse(&format!("file:{}", path.display())).unwrap().open().unwrap();
    assert!(path.is_dir());
    std::fs::write(folder.path().join("file"), "").unwrap();
    let url = format!("file://{}", folder.path().join("file/archive").display());
    let Err(refused) = ArchiveUrl::parse(&url).unwrap().open() else { panic!("a file became a folder") };
    assert!(refused.to_string().starts_with(&format!("cannot open the archive {url}: ")), "{refused}");
    assert!(
        refused.to_string().ends_with("; create the folder, or allow this process to do it"),
        "{refused}"
    );
}

#[test]
fn bucket_without_region_or_with_half_of_the_credentials_is_refused() {
    let open = |url: &str, variables: &[(&str, &str)]| {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let Err(refused) = ArchiveUrl::parse(url).unwrap().open_with(variables) else {
            return "open".to_owned();
        };
        assert!(!refused.to_string().contains("hunter2"), "{refused}");
        refused.why
    };
    let key = ("AWS_ACCESS_KEY_ID", "AKIA");
    let secret = ("AWS_SECRET_ACCESS_KEY", "hunter2");
    let region = ("AWS_REGION", "eu-central-1");
    let why = "it has no region; add ?region=eu-central-1 or set AWS_REGION";
    assert_eq!(open("s3://bucket", &[key, secret]), why);
    assert_eq!(open("s3://bucket", &[key, secret, ("AWS_REGION", "")]), why);
    assert_eq!(open("s3://bucket", &[key, secret, region]), "open");
    assert_eq!(open("s3://bucket", &[key, secret, ("AWS_DEFAULT_REGION", "eu-central-1")]), "open");
    assert_eq!(open("s3://bucket?region=x", &[key, secret]), "open");
    assert_eq!(open("s3://bucket?endpoint=http://minio", &[key, secret]), "open");
    let endpoint = "https://x:hunter2@minio";
    let refused = open("s3://bucket", &[key, secret, ("AWS_ENDPOINT_URL", endpoint)]);
    assert!(refused.ends_with("correct its parameter endpoint, or AWS_ENDPOINT_URL"), "{refused}");
    for half in [key, secret] {
        let why = "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set; set both";
        assert_eq!(open("s3://bucket", &[half, region]), why);
    }
    let refused = open("s3://bucket", &[key, secret, region, ("AWS_SKIP_SIGNATURE", "maybe")]);
    assert!(refused.ends_with("correct the environment variables that begin with AWS_"), "{refused}");
    let refused = open("s3://bucket", &[key, secret, region, ("AWS_TIMEOUT", "soon")]);
    assert!(refused.ends_with("correct the environment variables that begin with AWS_"), "{refused}");
}
