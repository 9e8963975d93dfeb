//! What the attribute makes of an item.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{
    Attribute, Block, Error, ImplItem, Item, ItemImpl, ItemMod, ItemTrait, LitStr, Result,
    TraitItem, Type,
};

use crate::async_fn;
use crate::attr::{self, Function, Options, Target};

/// Which of the twins is expanded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tags {
    On,
    Off,
}

/// What the functions inside one tagged item have in common.
#[derive(Clone)]
pub(crate) struct Context {
    tags: Tags,
    /// Where codetag is found: `::codetag`.
    krate: TokenStream,
    /// The type or trait whose methods these are.
    owner: Option<String>,
    /// Another attribute macro will see the functions: they keep their form.
    pub(crate) keep_form: bool,
}

impl Context {
    /// What the expansions name: the hidden module of codetag.
    pub(crate) fn private(&self) -> TokenStream {
        let krate = &self.krate;
        quote_spanned!(Span::mixed_site()=> #krate::__private)
    }

    /// The same inside an item of ours, whose attributes the functions' other attributes may be.
    fn inside(&self, attrs: &[Attribute], owner: Option<String>) -> Self {
        Self {
            owner,
            keep_form: self.keep_form || !attrs.iter().all(attr::is_inert),
            ..self.clone()
        }
    }

    fn with_crate(&self, options: &Options) -> Self {
        let mut cx = self.clone();
        if let Some(path) = &options.krate {
            cx.krate = path.to_token_stream();
        }
        cx
    }
}

/// The item with its tags, or the item and one error.
pub(crate) fn expand(args: TokenStream, item: TokenStream, tags: Tags) -> TokenStream {
    let done = syn::parse2(args)
        .and_then(|options| Ok((options, syn::parse2(item.clone())?)))
        .and_then(|(options, target)| expand_target(&options, target, tags));
    match done {
        Ok(tokens) => tokens,
        // With the item in place the error stays the only one: what names it still finds it.
        Err(error) => {
            let error = error.into_compile_error();
            quote!(#item #error)
        }
    }
}

fn expand_target(options: &Options, target: Target, tags: Tags) -> Result<TokenStream> {
    if let Some(skip) = options.skip {
        return Err(Error::new(
            skip,
            "`skip` leaves out a part of a tagged impl block, trait or module; nothing around this is tagged",
        ));
    }
    if !matches!(target, Target::Fn(_)) {
        refuse_name(options)?;
    }
    let cx = Context {
        tags,
        krate: quote_spanned!(Span::mixed_site()=> ::codetag),
        owner: None,
        keep_form: false,
    }
    .with_crate(options);
    Ok(match target {
        Target::Fn(function) => tag_function(*function, options.name.as_ref(), &cx),
        Target::Impl(item) => tag_impl(item, &cx)?.into_token_stream(),
        Target::Trait(item) => tag_trait(item, &cx)?.into_token_stream(),
        Target::Mod(item) => tag_mod(item, &cx)?.into_token_stream(),
    })
}

/// One name for many functions would tell nothing that their own names do not.
fn refuse_name(options: &Options) -> Result<()> {
    match &options.name {
        None => Ok(()),
        Some(name) => Err(Error::new(
            name.span(),
            "`name` belongs to one function; give it to the functions inside",
        )),
    }
}

fn tag_impl(mut item: ItemImpl, cx: &Context) -> Result<ItemImpl> {
    let cx = cx.inside(&item.attrs, Some(type_name(&item.self_ty)));
    for inner in &mut item.items {
        let ImplItem::Fn(method) = inner else {
            continue;
        };
        let options = attr::take_nested(&mut method.attrs)?;
        if options.skip.is_some() || method.sig.constness.is_some() {
            continue;
        }
        let function = Function {
            attrs: method.attrs.clone(),
            vis: method.vis.clone(),
            defaultness: method.modifiers.defaultness,
            sig: method.sig.clone(),
            brace: method.block.brace_token,
            body: body_of(&method.block),
        };
        let cx = cx.with_crate(&options);
        *inner = ImplItem::Verbatim(tag_function(function, options.name.as_ref(), &cx));
    }
    Ok(item)
}

fn tag_trait(mut item: ItemTrait, cx: &Context) -> Result<ItemTrait> {
    let cx = cx.inside(&item.attrs, Some(item.ident.unraw().to_string()));
    for inner in &mut item.items {
        let TraitItem::Fn(method) = inner else {
            continue;
        };
        let options = attr::take_nested(&mut method.attrs)?;
        if options.skip.is_some() || method.sig.constness.is_some() {
            continue;
        }
        let Some(block) = &method.default else {
            continue;
        };
        let function = Function {
            attrs: method.attrs.clone(),
            vis: syn::Visibility::Inherited,
            defaultness: method.modifiers.defaultness,
            sig: method.sig.clone(),
            brace: block.brace_token,
            body: body_of(block),
        };
        let cx = cx.with_crate(&options);
        *inner = TraitItem::Verbatim(tag_function(function, options.name.as_ref(), &cx));
    }
    Ok(item)
}

fn tag_mod(mut item: ItemMod, cx: &Context) -> Result<ItemMod> {
    // The functions of a module are items of their own: other attributes of the module see them only
    // through it, and only those that stand on a function decide about its form.
    let cx = Context {
        owner: None,
        ..cx.clone()
    };
    let Some((_, items)) = &mut item.content else {
        return Ok(item);
    };
    for inner in items {
        let attrs = match inner {
            Item::Fn(item) => &mut item.attrs,
            Item::Impl(item) => &mut item.attrs,
            Item::Trait(item) => &mut item.attrs,
            Item::Mod(item) => &mut item.attrs,
            _ => continue,
        };
        let options = attr::take_nested(attrs)?;
        if options.skip.is_some() {
            continue;
        }
        let cx = cx.with_crate(&options);
        if !matches!(inner, Item::Fn(_)) {
            refuse_name(&options)?;
        }
        let tagged = match inner.clone() {
            Item::Fn(item) if item.sig.constness.is_none() => {
                let function = Function {
                    attrs: item.attrs,
                    vis: item.vis,
                    defaultness: item.modifiers.defaultness,
                    sig: item.sig,
                    brace: item.block.brace_token,
                    body: body_of(&item.block),
                };
                Item::Verbatim(tag_function(function, options.name.as_ref(), &cx))
            }
            Item::Impl(item) => Item::Impl(tag_impl(item, &cx)?),
            Item::Trait(item) => Item::Trait(tag_trait(item, &cx)?),
            Item::Mod(item) => Item::Mod(tag_mod(item, &cx)?),
            untouched => untouched,
        };
        *inner = tagged;
    }
    Ok(item)
}

fn body_of(block: &Block) -> TokenStream {
    let stmts = &block.stmts;
    quote!(#(#stmts)*)
}

/// The last word of a type's path, or the type as one writes it.
fn type_name(ty: &Type) -> String {
    match ty {
        Type::Path(path) if path.qself.is_none() => {
            let last = path.path.segments.last();
            last.map_or_else(String::new, |segment| segment.ident.unraw().to_string())
        }
        Type::Group(group) => type_name(&group.elem),
        Type::Paren(paren) => type_name(&paren.elem),
        other => without_loose_spaces(&other.to_token_stream().to_string()),
    }
}

/// Tokens come with spaces between them; only those between two words are needed.
fn without_loose_spaces(tokens: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut text = String::new();
    let mut chars = tokens.chars().peekable();
    while let Some(c) = chars.next() {
        let between_words = text.ends_with(is_word) && chars.peek().copied().is_some_and(is_word);
        if c != ' ' || between_words {
            text.push(c);
        }
    }
    text
}

fn tag_function(function: Function, name: Option<&LitStr>, cx: &Context) -> TokenStream {
    if cx.tags == Tags::Off {
        let body = &function.body;
        return emit(&function, &function.sig.to_token_stream(), body);
    }
    let tag = tag_words(&function.sig.ident, name, cx);
    if function.sig.asyncness.is_some() {
        return async_fn::expand(&function, &tag, cx);
    }
    if let Some(tagged) = async_fn::expand_returned_block(&function, &tag, cx) {
        return tagged;
    }
    let private = cx.private();
    // As a block of its own: items in it still stand before all statements.
    let body = block_of(&function);
    let body = quote_spanned! {Span::mixed_site()=>
        let __guard = #private::TagGuard::enter(#private::tag!(#tag));
        #body
    };
    emit(&function, &function.sig.to_token_stream(), &body)
}

/// What the macros that make a tag are given: function, file, line, column, name.
fn tag_words(ident: &Ident, name: Option<&LitStr>, cx: &Context) -> TokenStream {
    let method = ident.unraw().to_string();
    let function = match &cx.owner {
        Some(owner) => format!("{owner}::{method}"),
        None => method,
    };
    let name = name.map_or_else(String::new, LitStr::value);
    // `line!()` in the expansion would be the line of the attribute.
    let at = ident.span().unwrap();
    let file = at.file();
    let (line, column) = (at.line() as u32, at.column() as u32);
    quote_spanned!(Span::mixed_site()=> #function, #file, #line, #column, #name)
}

/// The function with another signature and another body.
pub(crate) fn emit(function: &Function, sig: &TokenStream, body: &TokenStream) -> TokenStream {
    let (inner, outer): (Vec<_>, Vec<_>) = function
        .attrs
        .iter()
        .partition(|attr| matches!(attr.style, syn::AttrStyle::Inner(_)));
    let (vis, defaultness) = (&function.vis, &function.defaultness);
    let mut tokens = quote!(#(#outer)* #vis #defaultness #sig);
    function.brace.surround(&mut tokens, |tokens| {
        tokens.extend(quote!(#(#inner)* #body));
    });
    tokens
}

/// The body as a block expression.
pub(crate) fn block_of(function: &Function) -> TokenTree {
    let mut block = Group::new(Delimiter::Brace, function.body.clone());
    let span = function.brace.span.join();
    let has_statements = function
        .body
        .clone()
        .into_iter()
        .any(|token| matches!(token, TokenTree::Punct(end) if end.as_char() == ';'));
    // Around one expression the user's own braces would be reported as unnecessary.
    block.set_span(if has_statements {
        span
    } else {
        Span::mixed_site().located_at(span)
    });
    TokenTree::Group(block)
}
