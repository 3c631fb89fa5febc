//! JSON schemas of the documents that commands print, from the declarations of their types.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use crate::admit::Admission;
use crate::compare::Comparison;
use crate::demo::Demo;
use crate::metrics::Snapshot;
use crate::recommend::Recommendation;
use crate::result::RunResult;
use crate::validate::Validation;
use crate::why::Why;

/// A document that a command prints with `--json`.
#[derive(Clone, Copy, Debug)]
pub struct Document {
    /// The name by which `explain` finds it.
    pub name: &'static str,
    /// The name of its type, which is the title of its schema.
    pub title: &'static str,
    /// The commands that print it.
    pub summary: &'static str,
    /// Returns its JSON schema. Descriptions are those of the types' fields.
    pub schema: fn() -> Value,
}

/// All documents.
pub const DOCUMENTS: [Document; 8] = [
    document::<RunResult>("result", "RunResult", "the document of `run` and `sim` with --json"),
    document::<Comparison>("comparison", "Comparison", "the document of `compare` with --json"),
    document::<Demo>("demonstration", "Demo", "the document of `demo` with --json"),
    document::<Recommendation>("recommendation", "Recommendation", "the document of `recommend` with --json"),
    document::<Admission>("admission", "Admission", "the document of `admit` with --json"),
    document::<Validation>("validation", "Validation", "the document of `validate` with --json"),
    document::<Why>("explanation", "Why", "the document of `why` with --json"),
    document::<Snapshot>("snapshot", "Snapshot", "/snapshot.json of a run with --metrics"),
];

const fn document<T: JsonSchema>(name: &'static str, title: &'static str, summary: &'static str) -> Document {
    Document { name, title, summary, schema: schema::<T> }
}

/// Returns the schema of what is written of a type.
fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_those_of_the_schemas() {
        for document in DOCUMENTS {
            assert_eq!((document.schema)()["title"], document.title);
        }
    }
}
