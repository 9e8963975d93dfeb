//! What the attribute says, and what it stands on.

use proc_macro2::{Ident, Span, TokenStream};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, ItemImpl, ItemMod, ItemTrait, LitStr, Meta, Path, Result, Signature, Token,
    Visibility, braced, punctuated::Punctuated, token,
};

/// The options in the parentheses of the attribute.
#[derive(Default)]
pub(crate) struct Options {
    /// `name = "…"`
    pub(crate) name: Option<LitStr>,
    /// `skip`, at its word.
    pub(crate) skip: Option<Span>,
    /// `crate = path`
    pub(crate) krate: Option<Path>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut options = Self::default();
        while !input.is_empty() {
            let word = input.call(Ident::parse_any)?;
            let again = match word.to_string().as_str() {
                "name" => {
                    input.parse::<Token![=]>()?;
                    options.name.replace(parse_name(input)?).is_some()
                }
                "skip" => options.skip.replace(word.span()).is_some(),
                "crate" => {
                    input.parse::<Token![=]>()?;
                    options
                        .krate
                        .replace(input.call(Path::parse_mod_style)?)
                        .is_some()
                }
                other => {
                    let say = format!(
                        "alloc_tag has no option `{other}`; it takes `name = \"…\"`, `skip` and `crate = path`"
                    );
                    return Err(Error::new(word.span(), say));
                }
            };
            if again {
                let say = format!("the option `{word}` is given twice");
                return Err(Error::new(word.span(), say));
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

fn parse_name(input: ParseStream<'_>) -> Result<LitStr> {
    let name: LitStr = input
        .parse()
        .map_err(|e| Error::new(e.span(), "a name is a string: `name = \"…\"`"))?;
    let text = name.value();
    if text.is_empty() || text.contains(['\0', '\n']) {
        return Err(Error::new(
            name.span(),
            "a name is not empty and has no line breaks or NUL bytes",
        ));
    }
    Ok(name)
}

/// A function with a body. The body is kept as it was written.
pub(crate) struct Function {
    /// Those before the function and those at the start of its body.
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) defaultness: Option<Token![default]>,
    pub(crate) sig: Signature,
    pub(crate) brace: token::Brace,
    pub(crate) body: TokenStream,
}

/// What the attribute stands on.
pub(crate) enum Target {
    Fn(Box<Function>),
    Impl(ItemImpl),
    Trait(ItemTrait),
    Mod(ItemMod),
}

impl Parse for Target {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let ahead = input.fork();
        ahead.call(Attribute::parse_outer)?;
        ahead.parse::<Visibility>()?;
        if ahead.peek(Token![unsafe]) && !ahead.peek2(Token![fn]) && !ahead.peek2(Token![extern]) {
            ahead.parse::<Token![unsafe]>()?;
        }
        if ahead.peek(Token![impl]) {
            return input.parse().map(Self::Impl);
        }
        if ahead.peek(Token![trait]) {
            return input.parse().map(Self::Trait);
        }
        if ahead.peek(Token![mod]) {
            return parse_mod(input).map(Self::Mod);
        }
        let start = ahead.span();
        if starts_fn(&ahead) {
            return parse_function(input).map(|f| Self::Fn(Box::new(f)));
        }
        // The rest is not our business; a parser that stops half-way would complain about it.
        input.parse::<TokenStream>()?;
        Err(Error::new(
            start,
            "alloc_tag stands on a function, an impl block, a trait or an inline module: nothing else has code that allocates",
        ))
    }
}

/// Whether a function starts here: its keywords are also those of constants and foreign blocks.
fn starts_fn(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    let _ = ahead.parse::<Option<Token![const]>>();
    let _ = ahead.parse::<Option<Token![async]>>();
    let _ = ahead.parse::<Option<Token![unsafe]>>();
    let _ = ahead.parse::<Option<syn::Abi>>();
    ahead.peek(Token![fn])
}

fn parse_mod(input: ParseStream<'_>) -> Result<ItemMod> {
    let module: ItemMod = input.parse()?;
    match &module.semi {
        None => Ok(module),
        Some(_) => Err(Error::new(
            module.ident.span(),
            "alloc_tag sees only what it stands on: a module in a file of its own cannot be tagged as a whole, tag its functions and impl blocks",
        )),
    }
}

fn parse_function(input: ParseStream<'_>) -> Result<Function> {
    let mut attrs = input.call(Attribute::parse_outer)?;
    let vis = input.parse()?;
    let sig: Signature = input.parse()?;
    if let Some(constness) = &sig.constness {
        input.parse::<TokenStream>()?;
        return Err(Error::new(
            constness.span(),
            "alloc_tag cannot stand on a `const fn`: it may run at compile time, where there is no heap to charge",
        ));
    }
    if input.peek(Token![;]) {
        input.parse::<TokenStream>()?;
        return Err(Error::new(
            sig.ident.span(),
            "there is nothing to tag: this function has no body; tag its implementations",
        ));
    }
    let naked = attrs.iter().find(|attr| is_naked(attr));
    if let Some(naked) = naked {
        let say = "alloc_tag cannot stand on a naked function: its body is assembly alone";
        let error = Error::new(naked.span(), say);
        input.parse::<TokenStream>()?;
        return Err(error);
    }
    let content;
    let brace = braced!(content in input);
    attrs.extend(content.call(Attribute::parse_inner)?);
    Ok(Function {
        attrs,
        vis,
        defaultness: None,
        sig,
        brace,
        body: content.parse()?,
    })
}

fn is_naked(attr: &Attribute) -> bool {
    attr.path().is_ident("naked")
        || attr.path().is_ident("unsafe")
            && attr
                .parse_args::<Path>()
                .is_ok_and(|inner| inner.is_ident("naked"))
}

/// Takes our own attributes off something inside a tagged item, and what they say.
pub(crate) fn take_nested(attrs: &mut Vec<Attribute>) -> Result<Options> {
    let mut options = Options::default();
    let ours = |attr: &Attribute| {
        let last = attr.path().segments.last();
        last.is_some_and(|segment| segment.ident == "alloc_tag")
    };
    for attr in attrs.iter().filter(|attr| ours(attr)) {
        match &attr.meta {
            Meta::Path(_) => {}
            _ => options = attr.parse_args()?,
        }
    }
    attrs.retain(|attr| !ours(attr));
    Ok(options)
}

/// Whether an attribute leaves the form of its function to us.
///
/// Attribute macros do not: they see the tokens. Nor does `#[must_use]`, which the compiler follows through
/// the await of an `async fn` only.
pub(crate) fn is_inert(attr: &Attribute) -> bool {
    fn inert_path(path: &Path) -> bool {
        const INERT: &[&str] = &[
            "allow",
            "automatically_derived",
            "cfg",
            "cold",
            "deny",
            "deprecated",
            "doc",
            "expect",
            "export_name",
            "forbid",
            "inline",
            "link_section",
            "no_mangle",
            "target_feature",
            "track_caller",
            "unsafe",
            "warn",
        ];
        const TOOLS: &[&str] = &["clippy", "diagnostic", "miri", "rust_analyzer", "rustfmt"];
        match path.get_ident() {
            Some(ident) => INERT.iter().any(|inert| ident == inert),
            None => TOOLS.iter().any(|tool| path.segments[0].ident == tool),
        }
    }
    if !attr.path().is_ident("cfg_attr") {
        return inert_path(attr.path());
    }
    let parts = attr.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
    parts.is_ok_and(|parts| parts.iter().skip(1).all(|meta| inert_path(meta.path())))
}
