//! Checks that the committed header is the one generated from the crate.

use std::path::Path;

#[test]
fn the_header_is_generated_from_the_crate() {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = crate_directory.join("include/humpyard.h");
    let config = cbindgen::Config::from_file(crate_directory.join("cbindgen.toml")).expect("cbindgen.toml reads");
    let sources = ["data", "failure", "lib"].map(|name| crate_directory.join(format!("src/{name}.rs")));
    let builder = sources.iter().fold(cbindgen::Builder::new().with_config(config), cbindgen::Builder::with_src);
    let mut generated = Vec::new();
    builder.generate().expect("the crate is understood").write(&mut generated);
    if std::env::var_os("HUMPYARD_RENEW").is_some() {
        std::fs::write(&path, &generated).expect("the header is written");
    }
    let committed = std::fs::read(&path).expect("the header is there");
    assert!(
        committed == generated,
        "include/humpyard.h is not what the crate says; this writes it anew:\n    \
         HUMPYARD_RENEW=1 cargo test -p humpyard-capi --test header"
    );
}
