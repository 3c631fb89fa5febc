//! Macros that define columns together with their values.

/// Columns in order, each a kind (`text`, `integer` or `real`) and a name: `columns![text policy, integer draw]`.
macro_rules! columns {
    ($($kind:ident $name:ident),+ $(,)?) => {
        const { &[$($crate::harness::Column::$kind(stringify!($name))),+] }
    };
}

/// Columns, and a function that fills a row of them, so that each column stands beside its value. Statements that
/// values need come before them, in braces with an arrow:
///
/// ```text
/// rows! {
///     COLUMNS, fn row(policy: &str, found: &Found) {
///         let range = found.range();
///     } => {
///         text policy = policy, real least = range.least, real greatest = range.greatest,
///     }
/// }
/// ```
macro_rules! rows {
    (
        $(#[$about:meta])* $vis:vis $columns:ident, fn $row:ident($($given:tt)*) { $($set_up:tt)* } => {
            $($kind:ident $name:ident = $value:expr),+ $(,)?
        }
    ) => {
        $(#[$about])*
        $vis const $columns: &[$crate::harness::Column] = $crate::harness::columns![$($kind $name),+];

        /// A row of these columns.
        $vis fn $row($($given)*) -> $crate::harness::Row {
            $($set_up)*
            vec![$($crate::harness::Value::from($value)),+]
        }
    };
    (
        $(#[$about:meta])* $vis:vis $columns:ident, fn $row:ident($($given:tt)*) {
            $($kind:ident $name:ident = $value:expr),+ $(,)?
        }
    ) => {
        $crate::harness::rows! {
            $(#[$about])* $vis $columns, fn $row($($given)*) {} => { $($kind $name = $value),+ }
        }
    };
}

pub(crate) use {columns, rows};
