//! Forty-odd handlers, each an async function with a tag of its own, in four shapes.

use super::Request;
use std::collections::BTreeMap;
use tokio::task::yield_now;

/// Declares a handler per name, which goes by the shape before its group, the names of all, and who is called for
/// which path.
macro_rules! handlers {
    ($($shape:ident: $($name:ident)+;)+) => {
        /// The paths that have a handler.
        pub(super) const NAMES: &[&str] = &[$($(stringify!($name)),+),+];

        $($(
            #[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
            async fn $name(request: &Request) -> String {
                $shape(stringify!($name), request).await
            }
        )+)+

        /// The answer to a request, if its path has a handler.
        pub(super) async fn dispatch(request: &Request) -> Option<String> {
            match request.path.as_str() {
                $($(stringify!($name) => Some($name(request).await),)+)+
                _ => None,
            }
        }
    };
}

handlers! {
    list: accounts addresses alerts baskets brands carts catalogs categories comments contacts coupons;
    detail: customer delivery device discount document employee event invoice item journal label;
    report: latency ledger locations margins metrics orders payments prices profits quotas ratings;
    search: refunds regions returns reviews sales schedules sessions stock suppliers tickets users;
}

/// Rows that are made one by one, others getting their turn in between.
#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
async fn list(name: &str, request: &Request) -> String {
    let (id, rows) = (request.number("id"), request.number("rows"));
    let mut lines = Vec::new();
    for row in 0..rows {
        lines.push(format!("{name} {} of {id}", id.wrapping_mul(31) + row));
        if row % 4 == 0 {
            yield_now().await;
        }
    }
    lines.join("\n")
}

/// One record by the names of its fields.
#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
async fn detail(name: &str, request: &Request) -> String {
    let mut fields = BTreeMap::new();
    for (key, value) in &request.query {
        fields.insert(format!("{name}.{key}"), value.clone());
    }
    yield_now().await;
    for field in ["created", "owner", "state"] {
        let value = request.number("id") % (field.len() as u64 + 1);
        fields.insert(format!("{name}.{field}"), value.to_string());
    }
    render(&fields).await
}

/// Figures that are grouped, then added up.
#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
async fn report(name: &str, request: &Request) -> String {
    let figures = figures(request).await;
    let mut groups: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for figure in &figures {
        groups.entry(figure % 5).or_default().push(*figure);
    }
    yield_now().await;
    let fields = groups
        .iter()
        .map(|(group, figures)| {
            let sum: u64 = figures.iter().sum();
            (format!("{name}-{group}"), sum.to_string())
        })
        .collect();
    render(&fields).await
}

/// Those of many candidates that match.
#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
async fn search(name: &str, request: &Request) -> String {
    let wanted = request.number("rows").to_string();
    let figures = figures(request).await;
    let candidates: Vec<String> = figures
        .iter()
        .map(|figure| format!("{name}/{figure:x}"))
        .collect();
    yield_now().await;
    let found: Vec<&str> = candidates
        .iter()
        .map(String::as_str)
        .filter(|candidate| candidate.contains(&wanted))
        .collect();
    format!("{name}: {} of {}: {found:?}", found.len(), candidates.len())
}

#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
async fn figures(request: &Request) -> Vec<u64> {
    let mut rng = fastrand::Rng::with_seed(request.number("id"));
    let mut figures = Vec::new();
    for row in 0..4 * request.number("rows") {
        figures.push(rng.u64(..100_000) + row);
    }
    yield_now().await;
    figures
}

#[cfg_attr(feature = "alloc-codetag", codetag::alloc_tag)]
async fn render(fields: &BTreeMap<String, String>) -> String {
    let mut text = String::from("{");
    for (name, value) in fields {
        text.push_str(&format!("{name:?}: {value:?}, "));
    }
    yield_now().await;
    text.push('}');
    text
}
