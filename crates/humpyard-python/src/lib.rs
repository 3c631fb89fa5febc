//! humpyard for Python: the native module `humpyard._humpyard`, whose types are in `python/humpyard/_humpyard.pyi`.
//! The package around it is in `python/humpyard`.
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "a table of another library is given as a pointer")]
mod capsule;
mod cells;
mod command;
mod frames;
mod packets;
mod policy;
mod scheduler;
mod simulate;
mod supervise;
mod sweep;

use pyo3::prelude::*;

/// The native part of the package `humpyard`.
#[pymodule]
#[pyo3(name = "_humpyard")]
fn declare(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<frames::Frame>()?;
    module.add_class::<frames::Record>()?;
    module.add_function(wrap_pyfunction!(command::command, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::run, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::compare, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::options, module)?)?;
    module.add_class::<sweep::Sweep>()?;
    module.add_function(wrap_pyfunction!(sweep::simulate_cells, module)?)?;
    module.add_function(wrap_pyfunction!(command::recommend_trials, module)?)?;
    module.add_function(wrap_pyfunction!(cells::compare_check, module)?)?;
    module.add_function(wrap_pyfunction!(cells::compare_run, module)?)?;
    module.add_function(wrap_pyfunction!(cells::compare_document, module)?)?;
    module.add_function(wrap_pyfunction!(cells::reproduce_parts, module)?)?;
    module.add_function(wrap_pyfunction!(cells::reproduce_part, module)?)?;
    module.add_function(wrap_pyfunction!(cells::reproduce_keep, module)?)?;
    policy::declare(module)?;
    scheduler::declare(module)
}
