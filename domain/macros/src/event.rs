//! `#[derive(Event)]`, `#[derive(EventType)]` and `#[derive(Payload)]`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{Attribute, Data, DataStruct, DeriveInput, Error, Field, Fields, Ident, LitStr, Member, Type};

use crate::serde_names::{Case, has_serde, serde_text};

/// Attributes of the struct.
#[derive(Default)]
struct EventAttributes {
    name: Option<LitStr>,
    aggregate: Option<LitStr>,
    routing_key: Option<LitStr>,
    summary: Option<LitStr>,
    is_unordered: bool,
}

/// A field of the struct.
struct PayloadField<'a> {
    member: Member,
    ty: &'a Type,
    /// Name in JSON; `None` for a flattened part.
    name: Option<String>,
    /// Type that reads and describes the value, if it is not the type of the field.
    value: Option<Type>,
    is_key: bool,
    is_visible: bool,
}

/// Implements `Payload` and `Deserialize`, and `Keyed` if a field is marked with `#[event(key)]`.
pub(crate) fn payload(input: &DeriveInput) -> syn::Result<TokenStream> {
    let fields = fields_of(input)?;
    let keyed = keyed(&input.ident, &fields)?;
    let payload = payload_impl(&input.ident, &fields);
    Ok(quote!(#payload #keyed))
}

/// Implements `EventType` in addition to what `payload` implements.
pub(crate) fn event(input: &DeriveInput) -> syn::Result<TokenStream> {
    let fields = fields_of(input)?;
    let crate_path = quote!(::handover_events);
    let keyed = keyed(&input.ident, &fields)?.ok_or_else(|| no_key(input))?;
    let payload = payload_impl(&input.ident, &fields);
    let visible = quote!(#crate_path::visible(&<Self as #crate_path::Payload>::alternatives()));
    let event_type = event_type_impl(input, &crate_path, &visible)?;
    Ok(quote!(#payload #keyed #event_type))
}

/// Implements `EventType` of the crate `handover`, for a struct that serde reads and writes.
pub(crate) fn event_type(input: &DeriveInput) -> syn::Result<TokenStream> {
    let Data::Struct(DataStruct { fields: Fields::Named(_), .. }) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "an event is a struct with named fields"));
    };
    let fields = fields_of(input)?;
    let crate_path = quote!(::handover);
    let key = single_key(&fields)?.ok_or_else(|| no_key(input))?;
    let ident = &input.ident;
    let member = &key.member;
    let Some(name) = &key.name else {
        return Err(Error::new_spanned(
            key.ty,
            "the key is a field of the event itself: the name of a field in a flattened part is not known here",
        ));
    };
    let ty = key.ty;
    let key_type = quote_spanned!(ty.span()=> #ty);
    let visible = fields.iter().filter(|field| field.is_visible).filter_map(|field| field.name.as_ref());
    let event_type = event_type_impl(input, &crate_path, &quote!(::std::vec![#(#visible),*]))?;
    Ok(quote! {
        impl #crate_path::Keyed for #ident {
            const KEY_FIELD: &'static str = #name;
            type Key = #key_type;

            fn key(&self) -> &Self::Key {
                &self.#member
            }
        }
        #event_type
    })
}

fn no_key(input: &DeriveInput) -> Error {
    Error::new_spanned(&input.ident, "mark the field with the id of the aggregate: `#[event(key)]`")
}

fn event_type_impl(
    input: &DeriveInput,
    crate_path: &TokenStream,
    visible: &TokenStream,
) -> syn::Result<TokenStream> {
    let ident = &input.ident;
    let attributes = EventAttributes::of(&input.attrs)?;
    let missing =
        |what| Error::new_spanned(ident, format!("an event needs `#[event({what} = \"..\")]` on the struct"));
    let name = attributes.name.ok_or_else(|| missing("name"))?;
    let aggregate = attributes.aggregate.ok_or_else(|| missing("aggregate"))?;
    let routing_key = attributes.routing_key.unwrap_or_else(|| name.clone());
    let summary = attributes.summary.unwrap_or_else(|| LitStr::new("", ident.span()));
    let is_ordered = !attributes.is_unordered;
    Ok(quote! {
        impl #crate_path::EventType for #ident {
            const NAME: &'static str = #name;
            const AGGREGATE: &'static str = #aggregate;
            const ROUTING_KEY: &'static str = #routing_key;
            const IS_ORDERED: bool = #is_ordered;
            const SUMMARY: &'static str = #summary;

            fn visible_fields() -> ::std::vec::Vec<&'static str> {
                #visible
            }
        }
    })
}

impl EventAttributes {
    fn of(attributes: &[Attribute]) -> syn::Result<EventAttributes> {
        let mut found = EventAttributes::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("event")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("unordered") {
                    found.is_unordered = true;
                    return Ok(());
                }
                let target = if meta.path.is_ident("name") {
                    &mut found.name
                } else if meta.path.is_ident("aggregate") {
                    &mut found.aggregate
                } else if meta.path.is_ident("routing_key") {
                    &mut found.routing_key
                } else if meta.path.is_ident("summary") {
                    &mut found.summary
                } else {
                    return Err(
                        meta.error("expected `name`, `aggregate`, `routing_key`, `summary` or `unordered`")
                    );
                };
                *target = Some(meta.value()?.parse()?);
                Ok(())
            })?;
        }
        Ok(found)
    }
}

fn fields_of(input: &DeriveInput) -> syn::Result<Vec<PayloadField<'_>>> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, "a payload is a struct"));
    };
    let case = serde_text(&input.attrs, "rename_all")?.map(|name| Case::named(&name)).transpose()?;
    match &data.fields {
        Fields::Named(named) => named.named.iter().map(|field| field_of(field, case)).collect(),
        // A struct around another payload has its fields and its key.
        Fields::Unnamed(unnamed) if unnamed.unnamed.len() == 1 => {
            let part = |field| PayloadField {
                member: Member::from(0),
                ty: field,
                name: None,
                value: None,
                is_key: true,
                is_visible: false,
            };
            Ok(unnamed.unnamed.iter().map(|field| part(&field.ty)).collect())
        }
        Fields::Unnamed(_) | Fields::Unit => {
            Err(Error::new_spanned(&input.ident, "a payload has named fields, or wraps one other payload"))
        }
    }
}

fn field_of(field: &Field, case: Option<Case>) -> syn::Result<PayloadField<'_>> {
    let Some(ident) = &field.ident else {
        return Err(Error::new_spanned(field, "expected a named field"));
    };
    let mut parsed = PayloadField {
        member: Member::Named(ident.clone()),
        ty: &field.ty,
        name: None,
        value: None,
        is_key: false,
        is_visible: false,
    };
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("event")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("key") {
                parsed.is_key = true;
            } else if meta.path.is_ident("visible") {
                parsed.is_visible = true;
            } else if meta.path.is_ident("value") {
                parsed.value = Some(meta.value()?.parse()?);
            } else {
                return Err(meta.error("expected `key`, `visible` or `value`"));
            }
            Ok(())
        })?;
    }
    if !has_serde(&field.attrs, "flatten")? {
        let renamed = serde_text(&field.attrs, "rename")?.map(|name| name.value());
        let own = ident.unraw().to_string();
        parsed.name = Some(renamed.unwrap_or_else(|| case.map_or(own.clone(), |case| case.apply(&own))));
    }
    Ok(parsed)
}

fn payload_impl(ident: &Ident, fields: &[PayloadField<'_>]) -> TokenStream {
    let crate_path = quote!(::handover_events);
    let members = fields.iter().map(|field| &field.member);
    let reads = fields.iter().map(|field| {
        let ty = field.ty;
        match &field.name {
            None => quote!(<#ty as #crate_path::Payload>::read(fields)?),
            Some(name) => {
                let value = field.value.as_ref().unwrap_or(ty);
                quote!(<#value as #crate_path::Field<#ty>>::read(fields, #name)?)
            }
        }
    });
    let describes = fields.iter().map(|field| {
        let ty = field.ty;
        match &field.name {
            None => quote! {
                let all = #crate_path::with_part(&all, &<#ty as #crate_path::Payload>::alternatives());
            },
            Some(name) => {
                let value = field.value.as_ref().unwrap_or(ty);
                let is_visible = field.is_visible;
                quote! {
                    let field = #crate_path::PayloadField::of::<#ty, #value>(#name, #is_visible);
                    let all = #crate_path::with_field(all, &field);
                }
            }
        }
    });
    quote! {
        impl #crate_path::Payload for #ident {
            fn read(
                fields: &#crate_path::Fields<'_>,
            ) -> ::core::result::Result<Self, #crate_path::EnvelopeError> {
                ::core::result::Result::Ok(#ident { #(#members: #reads),* })
            }

            fn alternatives() -> ::std::vec::Vec<#crate_path::Alternative> {
                let all = ::std::vec![#crate_path::Alternative::default()];
                #(#describes)*
                all
            }
        }

        impl<'de> ::serde::Deserialize<'de> for #ident {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::core::result::Result<Self, D::Error> {
                #crate_path::deserialize_payload(deserializer)
            }
        }
    }
}

/// The field that is the key, if there is one.
fn single_key<'f>(fields: &'f [PayloadField<'f>]) -> syn::Result<Option<&'f PayloadField<'f>>> {
    let mut keys = fields.iter().filter(|field| field.is_key);
    let key = keys.next();
    match keys.next() {
        Some(second) => Err(Error::new_spanned(&second.member, "only one field is the key")),
        None => Ok(key),
    }
}

/// Implements `Keyed`; `None` if no field is the key.
fn keyed(ident: &Ident, fields: &[PayloadField<'_>]) -> syn::Result<Option<TokenStream>> {
    let Some(key) = single_key(fields)? else { return Ok(None) };
    let member = &key.member;
    let ty = key.ty;
    let (name, key_type, value) = match &key.name {
        Some(name) => (quote!(#name), quote!(#ty), quote!(&self.#member)),
        None => (
            quote!(<#ty as ::handover_events::Keyed>::KEY_FIELD),
            quote!(<#ty as ::handover_events::Keyed>::Key),
            quote!(::handover_events::Keyed::key(&self.#member)),
        ),
    };
    Ok(Some(quote! {
        impl ::handover_events::Keyed for #ident {
            const KEY_FIELD: &'static str = #name;

            type Key = #key_type;

            fn key(&self) -> &Self::Key {
                #value
            }
        }
    }))
}
