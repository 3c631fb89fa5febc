//! humpyard for Python: the native module `humpyard._humpyard`, whose types are in `python/humpyard/_humpyard.pyi`. The package
//! around it is in `python/humpyard`.
#![forbid(unsafe_code)]

mod policy;
mod scheduler;

use pyo3::prelude::*;

/// The native part of the package `humpyard`.
#[pymodule]
#[pyo3(name = "_humpyard")]
fn declare(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    policy::declare(module)?;
    scheduler::declare(module)
}
