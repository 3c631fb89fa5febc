//! Vectorscan as the engine: one database for TCP streams, and one for whole payloads of each transport.

use std::sync::{Arc, OnceLock};

use humpyard_vectorscan::{Database, Error, Mode, Scratch, Stream};

use super::matched::Matched;
use super::table::{Transport, table};
use crate::service::ServiceError;

impl From<Error> for ServiceError {
    fn from(error: Error) -> Self {
        Self::new(format!("l7-filter: `engine`: {error}"))
    }
}

/// Compiled patterns, and the signature of each.
#[derive(Debug)]
struct Compiled {
    database: Arc<Database>,
    signatures: Vec<u16>,
}

/// All databases, compiled once per program.
#[derive(Debug)]
pub(super) struct Databases {
    streams: Compiled,
    whole: [Compiled; 3],
}

impl Databases {
    /// Returns the databases of the table.
    ///
    /// # Errors
    /// If the library cannot compile the table.
    pub(super) fn shared() -> Result<&'static Self, ServiceError> {
        static DATABASES: OnceLock<Result<Databases, Error>> = OnceLock::new();
        let databases = DATABASES.get_or_init(|| {
            let [tcp, udp, ip] = Transport::ALL.map(|transport| Compiled::new(transport, Mode::Block));
            Ok(Self { streams: Compiled::new(Transport::Tcp, Mode::Stream)?, whole: [tcp?, udp?, ip?] })
        });
        databases.as_ref().map_err(|error| error.clone().into())
    }
}

impl Compiled {
    fn new(transport: Transport, mode: Mode) -> Result<Self, Error> {
        let own = table().signatures.iter().enumerate().filter(|(_, signature)| signature.transport == transport);
        let (signatures, patterns): (Vec<u16>, Vec<String>) =
            own.map(|(number, signature)| (number as u16, format!("^(?:{})", signature.pattern))).unzip();
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        Ok(Self { database: Arc::new(Database::new(&patterns, mode)?), signatures })
    }
}

/// The databases and scratch space of an instance.
#[derive(Debug)]
pub(super) struct Reader {
    databases: &'static Databases,
    scratch: Scratch,
}

impl Clone for Reader {
    fn clone(&self) -> Self {
        let scratch = self.scratch.another().expect("there was memory for the first");
        Self { databases: self.databases, scratch }
    }
}

/// The stream of one side of a connection.
pub(super) struct StreamOfBytes(Stream);

impl StreamOfBytes {
    /// Resets it to before its first byte.
    pub(super) fn begin(&mut self) {
        self.0.reset().expect("an open stream can begin anew");
    }
}

impl Reader {
    /// Returns a reader with scratch space for all databases.
    ///
    /// # Errors
    /// If there is no memory.
    pub(super) fn new(databases: &'static Databases) -> Result<Self, ServiceError> {
        let all = databases.whole.iter().chain([&databases.streams]).map(|compiled| &*compiled.database);
        Ok(Self { databases, scratch: Scratch::new(all)? })
    }

    /// Returns a stream, and allocates all its memory.
    ///
    /// # Errors
    /// If there is no memory.
    pub(super) fn stream(&self) -> Result<StreamOfBytes, ServiceError> {
        Ok(StreamOfBytes(Stream::new(&self.databases.streams.database)?))
    }

    /// Reads the next bytes of a stream, and adds the signatures that match by now and did not before.
    #[inline]
    pub(super) fn read(&mut self, stream: &mut StreamOfBytes, bytes: &[u8], matched: &mut Matched) {
        let signatures = &self.databases.streams.signatures;
        let note = |id: u32| matched.insert(usize::from(signatures[id as usize]));
        stream.0.scan(bytes, &mut self.scratch, note).expect("the scratch space is for this database");
    }

    /// Reads a whole payload.
    #[inline]
    pub(super) fn read_whole(&mut self, transport: Transport, bytes: &[u8], matched: &mut Matched) {
        let Compiled { database, signatures } = &self.databases.whole[transport as usize];
        let note = |id: u32| matched.insert(usize::from(signatures[id as usize]));
        database.scan(bytes, &mut self.scratch, note).expect("the scratch space is for this database");
    }
}
