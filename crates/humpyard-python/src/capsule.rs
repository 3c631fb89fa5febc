//! Tables of other libraries, by the Arrow PyCapsule protocol: a capsule holds a pointer, which must be trusted.

use arrow_array::RecordBatch;
use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_schema::SchemaRef;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Takes the batches of what has `__arrow_c_stream__`. Nothing is copied.
///
/// # Errors
/// Something that does not speak the protocol, and what its stream reports.
pub(crate) fn import(given: &Bound<'_, PyAny>) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    let Ok(export) = given.getattr("__arrow_c_stream__") else {
        return Err(PyTypeError::new_err(format!(
            "a table of packets speaks the Arrow PyCapsule protocol (polars, pandas, pyarrow, DuckDB do), or is a dict \
             of columns, unlike {}",
            given.get_type().name()?
        )));
    };
    let capsule = export.call0()?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(c"arrow_array_stream"))?.as_ptr().cast::<FFI_ArrowArrayStream>();
    // SAFETY: A capsule of this name holds a valid stream, as the protocol says. `from_raw` moves it out and leaves a
    // released one, which the capsule's destructor expects. The capsule lives until then. The interpreter is held, so
    // that nobody else moves the stream.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream) };
    let wrong = |error: arrow_schema::ArrowError| PyValueError::new_err(format!("the table of packets: {error}"));
    let reader = RecordBatchStreamReader::try_new(stream).map_err(wrong)?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    Ok((schema, batches))
}
