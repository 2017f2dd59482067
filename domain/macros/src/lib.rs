//! Attributes for ports.

use proc_macro::TokenStream;
use quote::{format_ident, quote};
use syn::{FnArg, Ident, ItemTrait, Pat, ReturnType, TraitItem, parse_macro_input};

/// Generates `PWrapper` beside a port `P` of a unit or view: the methods of `P`, each with a body that calls the inner one, and
/// `P` for `Wrapped<W>` (`handover_outbox::wrap`).
///
/// A unit or view is the port, or has it: `#[wrappable(outbox)]` in its `outbox()`, `#[wrappable(outbox_view)]` in its
/// `outbox_view()`. It MUST be the outermost attribute: it reads `async fn`, which `async_trait` replaces.
#[proc_macro_attribute]
pub fn wrappable(half: TokenStream, port: TokenStream) -> TokenStream {
    let half = parse_macro_input!(half as Option<Ident>);
    let port = parse_macro_input!(port as ItemTrait);
    let (name, vis, wrapper) = (&port.ident, &port.vis, format_ident!("{}Wrapper", port.ident));
    let ports = quote!(::handover_outbox::ports);
    let (bound, inner) = match &half {
        None => (quote!(#name), quote!(self.inner())),
        Some(half) if half == "outbox" => {
            (quote!(#ports::UnitOfWork), quote!(#ports::UnitOfWork::outbox(self.inner())))
        }
        Some(half) if half == "outbox_view" => {
            (quote!(#ports::View), quote!(#ports::View::outbox_view(self.inner())))
        }
        Some(half) => {
            let error = syn::Error::new_spanned(half, "expected `outbox`, `outbox_view` or nothing");
            return error.into_compile_error().into();
        }
    };
    let mut passed_on = Vec::new();
    let mut called = Vec::new();
    for item in &port.items {
        let TraitItem::Fn(method) = item else { continue };
        let (docs, signature, method) = (&method.attrs, &method.sig, &method.sig.ident);
        let inputs = &signature.inputs;
        let ReturnType::Type(_, output) = &signature.output else { continue };
        let arguments: Vec<_> = inputs.iter().filter_map(name_of).collect();
        passed_on.push(quote! {
            #(#docs)*
            fn #method(#inputs) -> impl ::core::future::Future<Output = #output> + Send {
                async move { #inner.#method(#(#arguments),*).await }
            }
        });
        let (port, text) = (name.to_string(), method.to_string());
        called.push(quote! {
            #signature {
                ::handover_outbox::wrap::Wraps::before(&mut self.0, #port, #text).await?;
                #wrapper::#method(&mut self.0, #(#arguments),*).await
            }
        });
    }
    let doc = format!("A wrapper's side of [`{name}`]: a method that it does not write is passed on.");
    quote! {
        #port
        #[doc = #doc]
        #vis trait #wrapper: ::handover_outbox::wrap::Wraps<Inner: #bound> { #(#passed_on)* }
        #[::async_trait::async_trait]
        impl<W: #wrapper> #name for ::handover_outbox::wrap::Wrapped<W> { #(#called)* }
    }
    .into()
}

fn name_of(argument: &FnArg) -> Option<&Ident> {
    let FnArg::Typed(argument) = argument else { return None };
    let Pat::Ident(pattern) = &*argument.pat else { return None };
    Some(&pattern.ident)
}
