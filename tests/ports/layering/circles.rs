//! Imports between the files of a crate: no circle, and no import through `lib.rs`.
//!
//! A file depends on the files that define the items that it names, also if another module re-exports them. A module that
//! only re-exports the items of its own files does not depend on them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

/// Path of a module within its crate; empty for `lib.rs` and `main.rs`.
type Module = Vec<String>;

/// The files of a crate with the paths that they name.
pub(crate) struct Files(BTreeMap<Module, File>);

#[derive(Default)]
struct File {
    /// Paths from the root of the crate, without those that the file only re-exports.
    named: BTreeSet<Vec<String>>,
    /// Imported and re-exported items by name.
    imported: BTreeMap<String, Vec<String>>,
}

impl Files {
    /// Reads the source files in this folder.
    pub(crate) fn read(source: &Path) -> io::Result<Files> {
        let mut texts = BTreeMap::new();
        read_folder(source, &Module::new(), &mut texts)?;
        let modules: BTreeSet<Module> = texts.keys().cloned().collect();
        let file = |(module, text): (Module, String)| {
            let file = File::parse(&tokens(&text), &module, &modules);
            (module, file)
        };
        Ok(Files(texts.into_iter().map(file).collect()))
    }

    /// The circles, each with the modules in it.
    pub(crate) fn circles(&self) -> Vec<BTreeSet<String>> {
        let reachable: BTreeMap<_, _> =
            self.0.keys().map(|module| (module, self.reachable(module))).collect();
        let mut circles = BTreeSet::new();
        for (module, targets) in &reachable {
            if targets.contains(*module) {
                let is_mutual =
                    |other: &&&Module| reachable.get(**other).is_some_and(|it| it.contains(*module));
                circles.insert(targets.iter().filter(is_mutual).map(|it| name(it)).collect());
            }
        }
        circles.into_iter().collect()
    }

    /// The imports through `lib.rs` of items that another file defines.
    pub(crate) fn through_lib(&self) -> Vec<String> {
        let Some(lib) = self.0.get(&Module::new()) else { return Vec::new() };
        let mut found = Vec::new();
        for (module, file) in self.0.iter().filter(|(module, _)| !module.is_empty()) {
            for path in &file.named {
                if let [item, ..] = path.as_slice()
                    && lib.imported.contains_key(item)
                    && !self.0.contains_key(std::slice::from_ref(item))
                {
                    found.push(format!("{} imports {item} through lib.rs", name(module)));
                }
            }
        }
        found
    }

    fn reachable(&self, from: &Module) -> BTreeSet<&Module> {
        let mut reached = BTreeSet::new();
        let mut open = self.dependencies(from);
        while let Some(module) = open.pop() {
            if reached.insert(module) {
                open.extend(self.dependencies(module));
            }
        }
        reached
    }

    fn dependencies(&self, module: &Module) -> Vec<&Module> {
        let Some(file) = self.0.get(module) else { return Vec::new() };
        let definition = |path: &Vec<String>| {
            let (target, is_module) = self.definition(path, &mut BTreeSet::new())?;
            // A path to an ancestor alone, such as in `use super::super::x`, names no item of it.
            let counts = target != module && !(is_module && module.starts_with(target));
            counts.then_some(target)
        };
        file.named.iter().filter_map(definition).collect()
    }

    /// The file that defines the item of this path, and whether the path is that of the module itself.
    fn definition(&self, path: &[String], seen: &mut BTreeSet<Vec<String>>) -> Option<(&Module, bool)> {
        if !seen.insert(path.to_vec()) {
            return None;
        }
        let prefix = (0..=path.len()).rev().find_map(|length| self.0.get_key_value(path.get(..length)?));
        let (module, file) = prefix?;
        let rest = path.get(module.len()..)?;
        if let Some(original) = rest.first().and_then(|item| file.imported.get(item)) {
            let mut original = original.clone();
            original.extend(rest.iter().skip(1).cloned());
            if let Some(found) = self.definition(&original, seen) {
                return Some(found);
            }
        }
        Some((module, rest.is_empty()))
    }
}

fn name(module: &Module) -> String {
    if module.is_empty() { "lib".to_owned() } else { module.join("::") }
}

fn read_folder(folder: &Path, parent: &Module, texts: &mut BTreeMap<Module, String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        let module: Module = parent.iter().cloned().chain([stem.clone()]).collect();
        if path.is_dir() {
            read_folder(&path, &module, texts)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_root = parent.is_empty() && (stem == "lib" || stem == "main");
            texts.insert(if is_root { Module::new() } else { module }, fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

impl File {
    fn parse(tokens: &[String], module: &Module, modules: &BTreeSet<Module>) -> File {
        let mut file = File::default();
        let mut position = 0;
        while let Some(token) = tokens.get(position) {
            let before =
                position.checked_sub(1).and_then(|before| tokens.get(before)).map_or("", String::as_str);
            if token == "use" {
                let end = tokens.iter().skip(position).position(|token| token == ";").unwrap_or(0) + position;
                let mut imports = Vec::new();
                imports_of(tokens.get(position + 1..end).unwrap_or_default(), &[], &mut imports);
                let is_reexport = before == "pub" || before == ")";
                for (path, name) in imports {
                    let Some(path) = absolute(&path, module, modules) else { continue };
                    if !is_reexport {
                        file.named.insert(path.clone());
                    }
                    file.imported.insert(name, path);
                }
                position = end.max(position) + 1;
            } else if is_name(token) && !["::", ".", "$"].contains(&before) {
                let mut path = vec![token.clone()];
                while tokens.get(position + 1).is_some_and(|token| token == "::")
                    && let Some(next) = tokens.get(position + 2).filter(|token| is_name(token))
                {
                    path.push(next.clone());
                    position += 2;
                }
                if path.len() > 1 {
                    file.named.extend(absolute(&path, module, modules));
                }
                position += 1;
            } else {
                position += 1;
            }
        }
        file
    }
}

/// Collects the imports of a tree such as `a::{self, b as c, d::*}`: path and name.
fn imports_of(tree: &[String], prefix: &[String], imports: &mut Vec<(Vec<String>, String)>) {
    let mut path = prefix.to_vec();
    let mut position = 0;
    while let Some(token) = tree.get(position) {
        match token.as_str() {
            "{" => {
                let inner = tree.get(position + 1..tree.len() - 1).unwrap_or_default();
                let mut depth = 0;
                for part in inner.split(|token| {
                    depth += i32::from(token == "{") - i32::from(token == "}");
                    depth == 0 && token == ","
                }) {
                    imports_of(part, &path, imports);
                }
                return;
            }
            "as" => {
                let name = tree.get(position + 1).cloned().unwrap_or_default();
                imports.push((path, name));
                return;
            }
            "::" => {}
            "self" if !path.is_empty() => {}
            other => path.push(other.to_owned()),
        }
        position += 1;
    }
    if path.len() > prefix.len() || tree.last().is_some_and(|token| token == "self") {
        let name = path.last().cloned().unwrap_or_default();
        imports.push((path, name));
    }
}

/// The path from the root of the crate; `None` for an item of another crate.
fn absolute(path: &[String], module: &Module, modules: &BTreeSet<Module>) -> Option<Vec<String>> {
    let mut base = module.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = path.get(1..)?;
        }
        "self" | "super" => {
            while let [first, after @ ..] = rest
                && (first == "self" || first == "super")
            {
                if first == "super" {
                    base.pop();
                }
                rest = after;
            }
        }
        first => {
            base.push(first.to_owned());
            if !modules.contains(&base) {
                return None;
            }
            base.pop();
        }
    }
    base.extend(rest.iter().cloned());
    Some(base)
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Names and punctuation of a source text without comments, literals and unit tests.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(length) = literal(rest) {
            length
        } else if is_word(first) {
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            tokens.extend(rest.get(..length).map(str::to_owned));
            length
        } else {
            let length = if rest.starts_with("::") { 2 } else { first.len_utf8() };
            if !first.is_whitespace() {
                tokens.extend(rest.get(..length).map(str::to_owned));
            }
            length
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    let tests = ["#", "[", "cfg", "(", "test", ")", "]", "mod", "tests", "{"];
    let begin = tokens.windows(tests.len()).position(|window| window == tests);
    tokens.truncate(begin.unwrap_or(tokens.len()));
    tokens
}

/// Length of the string or character literal, or of the lifetime, with which the text begins.
fn literal(text: &str) -> Option<usize> {
    let raw = text.strip_prefix('b').unwrap_or(text);
    let hashes = raw.strip_prefix('r').map(|raw| raw.len() - raw.trim_start_matches('#').len());
    if let Some(hashes) = hashes
        && raw.get(1 + hashes..)?.starts_with('"')
    {
        let end = format!("\"{}", "#".repeat(hashes));
        let start = text.len() - raw.len() + 2 + hashes;
        return Some(start + text.get(start..)?.find(&end)? + end.len());
    }
    let quote = raw.chars().next().filter(|first| *first == '"' || *first == '\'')?;
    let body = raw.get(1..)?;
    if quote == '\'' && !body.starts_with('\\') && body.chars().nth(1) != Some('\'') {
        return Some(1);
    }
    let mut is_escaped = false;
    for (position, character) in body.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if character == quote => return Some(text.len() - body.len() + position + quote.len_utf8()),
            _ => {}
        }
    }
    None
}
