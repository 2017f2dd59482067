//! No crate of a program has a circle of imports between its files, and no file imports through `lib.rs`.

use std::{error::Error, fs};

use tempfile::TempDir;

use super::{circles::Files, root, rules};

type Outcome = Result<(), Box<dyn Error>>;

#[test]
fn no_crate_has_a_circle_of_imports() -> Outcome {
    let mut found = Vec::new();
    for folder in rules::production(&root())? {
        for circle in Files::read(&root().join(&folder).join("src"))?.circles() {
            found.push(format!("{}: {circle:?}", folder.display()));
        }
    }
    assert!(found.is_empty(), "circles of imports:\n{}", found.join("\n"));
    Ok(())
}

/// The newtypes of the marketplace: files of its domain name about ten of them each, so its `lib.rs` is their prelude.
const PRELUDE: &str = "domain/marketplace";

#[test]
fn no_file_imports_through_lib() -> Outcome {
    let folders = rules::production(&root())?;
    for folder in folders.iter().filter(|folder| !folder.ends_with(PRELUDE)) {
        let found = Files::read(&root().join(folder).join("src"))?.through_lib();
        assert!(found.is_empty(), "{}:\n{}", folder.display(), found.join("\n"));
    }
    Ok(())
}

/// The source files of a crate: path and text.
fn files(sources: &[(&str, &str)]) -> Result<Files, Box<dyn Error>> {
    let folder = TempDir::new()?;
    for (path, text) in sources {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().ok_or("a file has a folder")?)?;
        fs::write(path, text)?;
    }
    Ok(Files::read(folder.path())?)
}

fn circles(sources: &[(&str, &str)]) -> Result<Vec<Vec<String>>, Box<dyn Error>> {
    Ok(files(sources)?.circles().into_iter().map(|circle| circle.into_iter().collect()).collect())
}

#[test]
fn circle_between_files_is_found_however_the_items_are_named() -> Outcome {
    let b = ("b.rs", "use super::a::A;\npub struct B(A);");
    for (lib, a) in [
        ("mod a; mod b;", "use crate::b::B;"),
        ("mod a; mod b;", "use crate::{b::{self, B as C}, d};"),
        ("mod a; mod b;", "fn f() -> crate::b::B { todo() }"),
        ("mod a; mod b; pub use b::B;", "use crate::B;"),
        ("mod a; mod b; pub(crate) use b::B as C;", "fn f(_: super::C) {}"),
        ("mod a; mod b;", "const C: char = '\"'; const S: &str = r#\"\"\"#; use super::b::B;"),
    ] {
        assert_eq!(circles(&[("lib.rs", lib), ("a.rs", a), b])?, [["a", "b"]], "{lib} {a}");
    }
    Ok(())
}

#[test]
fn circle_between_module_and_its_own_file_is_found() -> Outcome {
    let child = ("a/c.rs", "use super::A;\nimpl A { pub fn c(&self) {} }");
    let uses = ("a.rs", "mod c;\npub struct A;\nfn f() { c::f() }");
    assert_eq!(circles(&[("lib.rs", "mod a;"), uses, child])?, [["a", "a::c"]]);
    Ok(())
}

#[test]
fn files_without_circle_are_accepted() -> Outcome {
    let lib = ("lib.rs", "mod a; mod b;\npub use a::{A, D}; pub use b::B;");
    let a = ("a.rs", "mod c; mod d;\npub use c::C; pub use d::D;\npub struct A;");
    let c = ("a/c.rs", "use super::super::b::B; // use crate::a::d::D;\npub struct C(B);");
    let d = (
        "a/d.rs",
        "use super::C;\nuse crate::a::A;\nconst TEXT: &str = \"crate::b::X\";\npub struct D(C, A);",
    );
    let b = ("b.rs", "use std::fmt;\n#[cfg(test)]\nmod tests {\n use crate::a::C;\n}");
    assert_eq!(circles(&[lib, a, c, d, b])?, [[""; 0]; 0]);
    Ok(())
}

#[test]
fn import_through_lib_is_found() -> Outcome {
    let lib = ("lib.rs", "mod a; mod b;\npub use b::B;");
    let b = ("b.rs", "pub struct B;\nmacro_rules! m { () => { $crate::B } }");
    let through = files(&[lib, ("a.rs", "use crate::{B, b};\nfn f() { std::B::new() }"), b])?.through_lib();
    assert_eq!(through, ["a imports B through lib.rs"]);
    let direct = files(&[lib, ("a.rs", "use crate::b::B;"), b])?.through_lib();
    assert_eq!(direct, [""; 0]);
    Ok(())
}
