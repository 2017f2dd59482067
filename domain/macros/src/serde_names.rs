//! Names of fields in JSON, as the attributes of serde define them.

use proc_macro2::TokenStream;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, LitStr, parenthesized, token};

/// A case of `#[serde(rename_all = "..")]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    /// `lowercase` and `snake_case`: the names of fields are so already.
    Unchanged,
    /// `UPPERCASE` and `SCREAMING_SNAKE_CASE`.
    Upper,
    /// `PascalCase`.
    Pascal,
    /// `camelCase`.
    Camel,
    /// `kebab-case`.
    Kebab,
    /// `SCREAMING-KEBAB-CASE`.
    UpperKebab,
}

impl Case {
    /// The case with this name in serde.
    pub(crate) fn named(name: &LitStr) -> syn::Result<Case> {
        match name.value().as_str() {
            "lowercase" | "snake_case" => Ok(Case::Unchanged),
            "UPPERCASE" | "SCREAMING_SNAKE_CASE" => Ok(Case::Upper),
            "PascalCase" => Ok(Case::Pascal),
            "camelCase" => Ok(Case::Camel),
            "kebab-case" => Ok(Case::Kebab),
            "SCREAMING-KEBAB-CASE" => Ok(Case::UpperKebab),
            _ => Err(Error::new_spanned(name, "serde has no such case")),
        }
    }

    /// The name in JSON of a field with this name.
    pub(crate) fn apply(self, field: &str) -> String {
        match self {
            Case::Unchanged => field.to_owned(),
            Case::Upper => field.to_ascii_uppercase(),
            Case::Pascal => pascal(field),
            Case::Camel => {
                let pascal = pascal(field);
                let mut chars = pascal.chars();
                let first = chars.next().map(|first| first.to_ascii_lowercase());
                first.into_iter().chain(chars).collect()
            }
            Case::Kebab => field.replace('_', "-"),
            Case::UpperKebab => field.to_ascii_uppercase().replace('_', "-"),
        }
    }
}

fn pascal(field: &str) -> String {
    let words = field.split('_').map(|word| {
        let mut chars = word.chars();
        let first = chars.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(chars).collect::<String>()
    });
    words.collect()
}

/// Whether the attributes contain `#[serde(name)]`.
pub(crate) fn has_serde(attributes: &[Attribute], name: &str) -> syn::Result<bool> {
    let mut found = false;
    for_each_serde(attributes, |meta| {
        found |= meta.path.is_ident(name);
        skip_value(meta)
    })?;
    Ok(found)
}

/// The text of `#[serde(name = "..")]` or `#[serde(name(serialize = ".."))]`: events are written so.
pub(crate) fn serde_text(attributes: &[Attribute], name: &str) -> syn::Result<Option<LitStr>> {
    let mut found = None;
    for_each_serde(attributes, |meta| {
        if !meta.path.is_ident(name) {
            return skip_value(meta);
        }
        if meta.input.peek(token::Paren) {
            return meta.parse_nested_meta(|way| {
                let text = way.value()?.parse()?;
                if way.path.is_ident("serialize") {
                    found = Some(text);
                }
                Ok(())
            });
        }
        found = Some(meta.value()?.parse()?);
        Ok(())
    })?;
    Ok(found)
}

fn for_each_serde(
    attributes: &[Attribute],
    mut read: impl FnMut(&ParseNestedMeta<'_>) -> syn::Result<()>,
) -> syn::Result<()> {
    let of_serde = attributes.iter().filter(|attribute| attribute.path().is_ident("serde"));
    of_serde.into_iter().try_for_each(|attribute| attribute.parse_nested_meta(|meta| read(&meta)))
}

fn skip_value(meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
    if meta.input.peek(token::Eq) {
        meta.value()?.parse::<LitStr>()?;
    } else if meta.input.peek(token::Paren) {
        let content;
        parenthesized!(content in meta.input);
        content.parse::<TokenStream>()?;
    }
    Ok(())
}
