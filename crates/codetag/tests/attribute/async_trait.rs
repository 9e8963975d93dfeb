//! Beside another attribute macro that rewrites `async fn`, in every order.

use codetag::alloc_tag;
use codetag_subject_2024::{Yield, assert_here, block_on};

#[async_trait::async_trait]
trait Store {
    async fn get(&self, key: &str) -> Option<String>;
    async fn put(&mut self, key: String, value: String) -> Result<usize, std::num::ParseIntError>;
    async fn clear(&mut self);
}

#[derive(Default)]
struct MethodsTagged(Vec<(String, String)>);

#[async_trait::async_trait]
impl Store for MethodsTagged {
    #[alloc_tag]
    async fn get(&self, key: &str) -> Option<String> {
        Yield::default().await;
        assert_here("get");
        self.0
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.clone())
    }

    #[alloc_tag]
    async fn put(&mut self, key: String, value: String) -> Result<usize, std::num::ParseIntError> {
        value.parse::<u32>()?;
        self.0.push((key, value));
        Yield::default().await;
        assert_here("put");
        Ok(self.0.len())
    }

    async fn clear(&mut self) {
        assert_here("untagged");
        self.0.clear();
    }
}

#[derive(Default)]
struct AboveOther(Vec<(String, String)>);

#[alloc_tag]
#[async_trait::async_trait]
impl Store for AboveOther {
    async fn get(&self, key: &str) -> Option<String> {
        // async_trait leaves a `self` in a macro alone when there is a function beside it.
        fn value((_, value): &(String, String)) -> String {
            value.clone()
        }
        Yield::default().await;
        assert_here("AboveOther::get");
        self.0.iter().find(|(k, _)| k == key).map(value)
    }

    async fn put(
        &mut self,
        key: String,
        mut value: String,
    ) -> Result<usize, std::num::ParseIntError> {
        value.parse::<u32>()?;
        value.push('!');
        self.0.push((key, value));
        Yield::default().await;
        assert_here("AboveOther::put");
        Ok(self.0.len())
    }

    #[alloc_tag(skip)]
    async fn clear(&mut self) {
        assert_here("untagged");
        self.0.clear();
    }
}

#[derive(Default)]
struct BelowOther(Vec<(String, String)>);

#[async_trait::async_trait]
#[alloc_tag]
impl Store for BelowOther {
    async fn get(&self, key: &str) -> Option<String> {
        Yield::default().await;
        assert_here("BelowOther::get");
        self.0
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.clone())
    }

    async fn put(&mut self, key: String, value: String) -> Result<usize, std::num::ParseIntError> {
        value.parse::<u32>()?;
        self.0.push((key, value));
        Yield::default().await;
        assert_here("BelowOther::put");
        Ok(self.0.len())
    }

    async fn clear(&mut self) {
        assert_here("BelowOther::clear");
        self.0.clear();
    }
}

fn check(mut store: Box<dyn Store>) {
    assert_eq!(block_on(store.put("a".into(), "1".into())), Ok(1));
    assert!(block_on(store.put("a".into(), "x".into())).is_err());
    assert!(block_on(store.get("a")).is_some_and(|value| value.starts_with('1')));
    block_on(store.clear());
    assert_eq!(block_on(store.get("a")), None);
    assert_here("untagged");
}

#[test]
fn methods_of_async_trait_are_charged_while_they_run() {
    check(Box::new(MethodsTagged::default()));
    check(Box::new(AboveOther::default()));
    check(Box::new(BelowOther::default()));
}
