//! How a future gets its scope: current during each poll and during its drop, never across an await.
//!
//! The compiler turns `async fn f(a: A, (x, y): P) -> R { body }` into a function that returns
//!
//! ```text
//! async move { let a = a; let __arg1 = __arg1; let (x, y) = __arg1; { body } }
//! ```
//!
//! which names every argument, so that unused ones live as long as used ones. [`expand`] writes the same
//! and puts a `TagFuture` around it: one future, as large as before, whose arguments are dropped in the
//! same order. Where the function must stay an `async fn`, its body becomes a future inside the future.
//!
//! Our own tokens carry the edition of this crate: `impl Future` captures every lifetime in scope, as an
//! `async fn` does, and temporaries of the last expression are dropped before the arguments, whatever
//! the edition of the user.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote_spanned};
use syn::parse::Parser;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Block, Expr, FnArg, GenericArgument, Pat, PatIdent, PatType, PathArguments, ReturnType,
    Signature, Stmt, Token, Type, TypeImplTrait, TypeParamBound, parse_quote,
};

use crate::attr::{self, Function};
use crate::expand::{Context, block_of, emit};

/// An `async fn`, as a `fn` that returns a tagged future if its form is ours to choose.
pub(crate) fn expand(function: &Function, tag: &TokenStream, cx: &Context) -> TokenStream {
    let output = output_of(&function.sig);
    let keep_form = cx.keep_form || !function.attrs.iter().all(attr::is_inert);
    let unnameable = matches!(output, Type::Never(_)) || mentions_impl(&output);
    if keep_form || unnameable {
        return wrap_body(function, output, tag, cx);
    }
    let private = cx.private();
    let mut sig = function.sig.clone();
    sig.asyncness = None;
    let mut lets = TokenStream::new();
    for (index, arg) in sig.inputs.iter_mut().enumerate() {
        lets.extend(match arg {
            FnArg::Receiver(receiver) => name_whole(&receiver.self_token),
            FnArg::Typed(arg) => move_in(arg, index),
        });
    }
    let future = quote_spanned!(Span::mixed_site()=> impl #private::Future<Output = #output>);
    sig.output = ReturnType::Type(
        Token![->](Span::mixed_site()),
        Box::new(Type::Verbatim(future)),
    );
    let pin = pin_output(&output, &private);
    let body = block_of(function);
    let body = quote_spanned! {Span::mixed_site()=>
        #private::TagFuture::new(#private::place!(#tag), async move { #pin #lets #body })
    };
    emit(function, &sig.to_token_stream(), &body)
}

/// The `async fn` with its body as a tagged future inside its own. Grows by the arguments, which both
/// futures hold.
fn wrap_body(function: &Function, output: Type, tag: &TokenStream, cx: &Context) -> TokenStream {
    let private = cx.private();
    let mut sig = function.sig.clone();
    let mut lets = TokenStream::new();
    for arg in &mut sig.inputs {
        lets.extend(match arg {
            FnArg::Receiver(receiver) => name_whole(&receiver.self_token),
            FnArg::Typed(arg) => move_by_name(arg),
        });
    }
    let never = matches!(output, Type::Never(_));
    let output = if never {
        parse_quote!(#private::Infallible)
    } else {
        erase_impl(output)
    };
    let pin = pin_output(&output, &private);
    let body = block_of(function);
    let mut body = quote_spanned! {Span::mixed_site()=>
        #private::TagFuture::new(#private::place!(#tag), async move { #pin #lets #body }).await
    };
    if never {
        body = quote_spanned!(Span::mixed_site()=> match #body {});
    }
    emit(function, &sig.to_token_stream(), &body)
}

/// A function whose last expression is an `async move` block, alone, in `Box::pin(…)` or with
/// `.boxed()`: both the function and the future are tagged, by one tag. `None` for any other function.
pub(crate) fn expand_returned_block(
    function: &Function,
    tag: &TokenStream,
    cx: &Context,
) -> Option<TokenStream> {
    if !mentions_async(function.body.clone()) {
        return None;
    }
    let ReturnType::Type(_, returned) = &function.sig.output else {
        return None;
    };
    let mut stmts = Block::parse_within.parse2(function.body.clone()).ok()?;
    let Some(Stmt::Expr(last, None)) = stmts.last_mut() else {
        return None;
    };
    let block = returned_block(last)?;
    let private = cx.private();
    let output = if mentions_impl(returned) {
        named_output(returned)
    } else {
        Some(parse_quote!(<#returned as #private::Future>::Output))
    };
    if let (Expr::Async(future), Some(output)) = (&mut *block, output) {
        let pin = pin_output(&output, &private);
        future
            .block
            .stmts
            .insert(0, Stmt::Expr(Expr::Verbatim(pin), None));
    }
    let tagged = quote_spanned!(Span::mixed_site()=> #private::TagFuture::new(__place, #block));
    *block = Expr::Verbatim(tagged);
    let body = quote_spanned! {Span::mixed_site()=>
        let __place = #private::place!(#tag);
        let __guard = #private::TagGuard::enter(#private::tag_of(&__place));
        #(#stmts)*
    };
    Some(emit(function, &function.sig.to_token_stream(), &body))
}

fn returned_block(last: &mut Expr) -> Option<&mut Expr> {
    let block = match last {
        Expr::Async(_) => last,
        Expr::Call(call) if call.args.len() == 1 && is_box_pin(&call.func) => &mut call.args[0],
        Expr::MethodCall(call) if call.method == "boxed" || call.method == "boxed_local" => {
            &mut *call.receiver
        }
        _ => return None,
    };
    matches!(block, Expr::Async(future) if future.capture.is_some()).then_some(block)
}

fn is_box_pin(func: &Expr) -> bool {
    let Expr::Path(func) = func else { return false };
    let mut segments = func.path.segments.iter().rev();
    segments.next().is_some_and(|last| last.ident == "pin")
        && segments.next().is_some_and(|owner| owner.ident == "Box")
}

/// `async` as a word of the last expressions' own, not deeper than in one pair of parentheses.
fn mentions_async(body: TokenStream) -> bool {
    let is_async = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word == "async");
    body.into_iter().any(|token| match &token {
        TokenTree::Group(group) if group.delimiter() != Delimiter::Brace => {
            group.stream().into_iter().any(|inner| is_async(&inner))
        }
        _ => is_async(&token),
    })
}

/// Captures a variable of the user's as a whole, as the first use of it.
fn name_whole(variable: &impl ToTokens) -> TokenStream {
    quote_spanned!(Span::mixed_site()=> let _ = &#variable;)
}

/// Gives the argument a plain name and returns the `let`s that do in the future what its pattern did.
fn move_in(arg: &mut PatType, index: usize) -> TokenStream {
    let pattern = arg.pat.clone();
    let attrs = arg.attrs.clone();
    arg.attrs.retain(|attr| attr.path().is_ident("cfg"));
    // Hygienic: the same word as the user's for the documentation, and still another variable.
    let (name, simple) = match &*pattern {
        Pat::Ident(PatIdent {
            by_ref: None,
            ident,
            ..
        }) => {
            let mut name = ident.clone();
            name.set_span(Span::mixed_site().located_at(ident.span()));
            (name, true)
        }
        _ => (
            format_ident!("__arg{index}", span = Span::mixed_site()),
            false,
        ),
    };
    *arg.pat = parse_quote!(#name);
    let whole = (!simple).then(|| {
        let cfgs = &arg.attrs;
        quote_spanned!(Span::mixed_site()=> #(#cfgs)* let #name = #name;)
    });
    quote_spanned!(Span::mixed_site()=> #whole #(#attrs)* let #pattern = #name;)
}

/// Moves an argument that is one variable into the future; what a pattern took apart is moved in when
/// it is used.
fn move_by_name(arg: &mut PatType) -> TokenStream {
    let attrs = arg.attrs.clone();
    let Pat::Ident(PatIdent {
        by_ref: None,
        mutability,
        ident,
        subpat: None,
        ..
    }) = &mut *arg.pat
    else {
        return TokenStream::new();
    };
    let mutability = mutability.take();
    arg.attrs.retain(|attr| attr.path().is_ident("cfg"));
    quote_spanned!(Span::mixed_site()=> #(#attrs)* let #mutability #ident = #ident;)
}

/// A `return` that never runs: an `async` block takes its type from the first one.
fn pin_output(output: &Type, private: &TokenStream) -> TokenStream {
    quote_spanned! {Span::mixed_site()=>
        if let #private::Option::Some(__output) = #private::Option::None::<#output> {
            return __output;
        }
    }
}

fn output_of(sig: &Signature) -> Type {
    match &sig.output {
        ReturnType::Default => parse_quote!(()),
        ReturnType::Type(_, output) => (**output).clone(),
    }
}

/// Visits each `impl Trait` in a type.
struct ImplTraits<F>(F);

impl<F: FnMut(&mut Type)> VisitMut for ImplTraits<F> {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if let Type::ImplTrait(_) = ty {
            (self.0)(ty);
        } else {
            visit_mut::visit_type_mut(self, ty);
        }
    }
}

fn mentions_impl(ty: &Type) -> bool {
    let mut found = false;
    ImplTraits(|_: &mut Type| found = true).visit_type_mut(&mut ty.clone());
    found
}

fn erase_impl(mut ty: Type) -> Type {
    ImplTraits(|ty: &mut Type| *ty = parse_quote!(_)).visit_type_mut(&mut ty);
    ty
}

/// The `R` of `impl Future<Output = R>` in a type.
fn named_output(ty: &Type) -> Option<Type> {
    let mut output = None;
    ImplTraits(|ty: &mut Type| {
        if let Type::ImplTrait(TypeImplTrait { bounds, .. }) = ty {
            output = output
                .take()
                .or_else(|| bounds.iter().find_map(bound_output));
        }
    })
    .visit_type_mut(&mut ty.clone());
    output
        .filter(|output| !matches!(output, Type::Never(_)))
        .map(erase_impl)
}

fn bound_output(bound: &TypeParamBound) -> Option<Type> {
    let TypeParamBound::Trait(bound) = bound else {
        return None;
    };
    let last = bound.path.segments.last()?;
    let PathArguments::AngleBracketed(args) = &last.arguments else {
        return None;
    };
    args.args.iter().find_map(|arg| match arg {
        GenericArgument::AssocType(assoc) if assoc.ident == "Output" => Some(assoc.ty.clone()),
        _ => None,
    })
}
