//! Attribute macros for ports, and derive macros for events.

#![warn(missing_docs)]

mod event;
mod serde_names;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::{
    DeriveInput, Error, FnArg, Ident, ItemTrait, Pat, ReturnType, TraitItem, TraitItemFn, Type,
    parse_macro_input,
};

/// Generates the trait `PWrapper` for a port `P` of a unit of work or view, and implements `P` for `Wrapped<W>`
/// (`handover_outbox::wrap`) where `W` implements `PWrapper`.
///
/// `PWrapper` has the methods of `P`. By default each calls the same method of the inner unit of work or view; a
/// wrapper can override it.
///
/// The argument selects the implementation of the port: `#[wrappable]` uses the inner unit of work itself,
/// `#[wrappable(outbox)]` its `outbox()`, `#[wrappable(outbox_view)]` its `outbox_view()`. The attribute MUST precede
/// `#[async_trait]`, which replaces the `async fn` that this macro reads. Any item of the port other than an `async
/// fn` with plain arguments is a compile error.
#[proc_macro_attribute]
pub fn wrappable(part: TokenStream, port: TokenStream) -> TokenStream {
    let part = parse_macro_input!(part as Option<Ident>);
    let port = parse_macro_input!(port as ItemTrait);
    expand(part.as_ref(), &port).unwrap_or_else(Error::into_compile_error).into()
}

/// Implements `handover_events::EventType` for the struct of a payload, and everything that
/// [`Payload`](macro@Payload) implements. See `EventType` for the attributes.
#[proc_macro_derive(Event, attributes(event))]
pub fn derive_event(item: TokenStream) -> TokenStream {
    let input = parse_macro_input!(item as DeriveInput);
    event::event(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Implements `handover::EventType` for a struct with `Serialize` and `Deserialize` of serde. The crate `handover`
/// re-exports this macro under the name `Event`.
///
/// - `#[event(name = "book.lent", aggregate = "book")]` on the struct: the name of the event type, and the type of the aggregate whose
///   events are in order;
/// - `#[event(key)]` on one field: the key of the aggregate, an integer, a `Uuid` or a `String`;
/// - `#[event(visible)]` on fields that operators without access to personal data may see.
///
/// The trait `EventType` documents the other attributes.
#[proc_macro_derive(EventType, attributes(event))]
pub fn derive_event_type(item: TokenStream) -> TokenStream {
    let input = parse_macro_input!(item as DeriveInput);
    event::event_type(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Implements `handover_events::Payload` and `serde::Deserialize` for a part that several payloads share. With
/// `#[event(key)]` on a field, also `handover_events::Keyed`.
#[proc_macro_derive(Payload, attributes(event))]
pub fn derive_payload(item: TokenStream) -> TokenStream {
    let input = parse_macro_input!(item as DeriveInput);
    event::payload(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(part: Option<&Ident>, port: &ItemTrait) -> syn::Result<Tokens> {
    let name = &port.ident;
    let visibility = &port.vis;
    let wrapper = format_ident!("{name}Wrapper");
    let ports = quote!(::handover_outbox::ports);
    let (bound, inner) = match part {
        None => (quote!(#name), quote!(self.inner())),
        Some(part) if part == "outbox" => {
            (quote!(#ports::UnitOfWork), quote!(#ports::UnitOfWork::outbox(self.inner())))
        }
        Some(part) if part == "outbox_view" => {
            (quote!(#ports::View), quote!(#ports::View::outbox_view(self.inner())))
        }
        Some(part) => return Err(Error::new_spanned(part, "expected `outbox`, `outbox_view` or nothing")),
    };
    let mut provided = Vec::new();
    let mut implemented = Vec::new();
    for item in &port.items {
        let TraitItem::Fn(method) = item else {
            return Err(Error::new_spanned(item, "a wrappable port may contain only methods"));
        };
        let docs = &method.attrs;
        let signature = &method.sig;
        let inputs = &signature.inputs;
        let output = output_of(method)?;
        let method = &signature.ident;
        let arguments = signature.inputs.iter().skip(1).map(name_of).collect::<syn::Result<Vec<_>>>()?;
        provided.push(quote! {
            #(#docs)*
            fn #method(#inputs) -> impl ::core::future::Future<Output = #output> + Send {
                async move { #inner.#method(#(#arguments),*).await }
            }
        });
        let port_text = name.to_string();
        let method_text = method.to_string();
        implemented.push(quote! {
            #signature {
                ::handover_outbox::wrap::Wraps::before(&mut self.0, #port_text, #method_text).await?;
                #wrapper::#method(&mut self.0, #(#arguments),*).await
            }
        });
    }
    let doc =
        format!("Wraps [`{name}`]: a method that is not overridden calls the inner unit of work or view.");
    Ok(quote! {
        #port
        #[doc = #doc]
        #visibility trait #wrapper: ::handover_outbox::wrap::Wraps<Inner: #bound> { #(#provided)* }
        #[::async_trait::async_trait]
        impl<W: #wrapper> #name for ::handover_outbox::wrap::Wrapped<W> { #(#implemented)* }
    })
}

fn output_of(method: &TraitItemFn) -> syn::Result<&Type> {
    match &method.sig.output {
        ReturnType::Type(_, output) if method.sig.asyncness.is_some() => Ok(output),
        ReturnType::Type(..) | ReturnType::Default => Err(Error::new_spanned(
            &method.sig,
            "a method of a wrappable port must be an `async fn` that returns a `Result`; put `#[wrappable]` before `#[async_trait]`",
        )),
    }
}

fn name_of(argument: &FnArg) -> syn::Result<&Ident> {
    let FnArg::Typed(typed) = argument else {
        return Err(Error::new_spanned(argument, "`&mut self` is allowed only as the first argument"));
    };
    let Pat::Ident(pattern) = &*typed.pat else {
        return Err(Error::new_spanned(argument, "expected a name, not a pattern"));
    };
    Ok(&pattern.ident)
}
