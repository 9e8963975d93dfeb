async fn fetch() -> Result<Vec<u8>, ()> {
    Ok(vec![1])
}

async fn uses() -> Result<usize, ()> {
    let direct = codetag::alloc_hooks!(fetch().await?);
    let nested = codetag::alloc_hooks!("nested", {
        let ready = async { fetch().await };
        if direct.is_empty() { ready.await } else { Ok(direct) }
    });
    Ok(nested?.len())
}

fn main() {
    drop(uses());
}
