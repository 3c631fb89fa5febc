//! The directory with the results of experiments: which files are ours, and may be overwritten.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use humpyard_traffic::capture::PartialFile;
use serde::{Deserialize, Serialize};

use super::experiment::{Note, Scale};
use super::judged::ClaimVerdict;
use super::options::Missing;
use super::page::{Shown, groups, index, page_names, paper};
use super::summary::summary;
use humpyard_lab::LabError;

/// The heading of our pages, which identifies them.
pub(super) const TITLE: &str = "Experiments of the papers, done again";
/// The document with the outcomes of an experiment, in a directory of its own.
const DOCUMENT: &str = "verdicts.json";
/// Its data.
pub(super) const DATA: &str = "data.csv";
/// The index page, and the summary.
const INDEX: &str = "index.html";
const SUMMARY: &str = "REPRODUCTION.md";

/// The document of an experiment that was run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reproduced {
    /// Its name.
    pub experiment: String,
    /// The paper.
    pub paper: String,
    /// The figure, table or passage of the paper.
    pub figure: String,
    /// What it shows.
    pub title: String,
    /// The method.
    pub description: String,
    /// The scale of the run.
    pub scale: Scale,
    /// The seed of all randomness.
    pub seed: u64,
    /// The version of humpyard that ran it; empty if it is unknown.
    #[serde(default)]
    pub version: String,
    /// The paper's claims that it tests, and their outcomes.
    #[serde(default)]
    pub claims: Vec<ClaimVerdict>,
    /// Observations besides the claims.
    #[serde(default)]
    pub notes: Vec<Note>,
    /// Its files in the directory.
    pub files: Vec<String>,
    /// The time of all its parts, one after the other, in seconds: different in every run.
    // Documents that take hours to make again use its former name.
    #[serde(alias = "measured_core_seconds")]
    pub measured_seconds: f64,
}

impl Reproduced {
    /// Returns whether every outcome is the expected one.
    pub fn holds(&self) -> bool {
        self.unexpected() == 0
    }

    /// Returns the number of claims whose outcome differs from the expected one.
    pub(super) fn unexpected(&self) -> usize {
        self.claims.iter().filter(|claim| claim.differs()).count()
    }

    /// Returns the command that repeats the run.
    pub(super) fn command(&self) -> String {
        let scale = match self.scale {
            Scale::Quick => "quick",
            Scale::Full => "full",
        };
        let seed = if self.seed == 1 { String::new() } else { format!(" --seed {}", self.seed) };
        format!("humpyard reproduce {} --{scale}{seed}", self.experiment)
    }
}

/// A file of an experiment: its name and its contents.
pub(super) type Contents = (String, Vec<u8>);

/// The output directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Directory<'a> {
    path: &'a Path,
}

impl<'a> Directory<'a> {
    /// Opens the directory, and creates it if it is missing.
    ///
    /// # Errors
    /// If it cannot be written; if foreign files have the names of these experiments or pages; if a quick run
    /// would overwrite data of a full run.
    pub(super) fn open(
        path: &'a Path,
        scale: Scale,
        ids: impl Iterator<Item = &'static str>,
    ) -> Result<Self, LabError> {
        if path.as_os_str().is_empty() {
            return Err(LabError::option("--out takes the name of a directory, reproduction for example"));
        }
        fs::create_dir_all(path).map_err(|error| unwritable(path, &error))?;
        let directory = Self { path };
        directory.check_pages()?;
        for id in ids {
            let of_it = path.join(id);
            let is_used =
                fs::read_dir(&of_it).is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(is_visible)));
            let document = directory.document(id);
            if is_used && document.is_none() {
                return Err(foreign(&of_it, "has files, but no verdicts.json of this experiment that can be read"));
            }
            if document.is_some_and(|document| document.scale == Scale::Full) && scale == Scale::Quick {
                return Err(foreign(&of_it, "has the data of a full run"));
            }
        }
        Ok(directory)
    }

    fn check_pages(self) -> Result<(), LabError> {
        for name in [INDEX.to_owned(), SUMMARY.to_owned()].into_iter().chain(page_names()) {
            let path = self.path.join(&name);
            let before = if name == SUMMARY { "# " } else { "<title>" };
            let is_ours = || fs::read_to_string(&path).is_ok_and(|text| text.contains(&format!("{before}{TITLE}")));
            if path.exists() && !is_ours() {
                return Err(foreign(&path, "is no page of `humpyard reproduce`"));
            }
        }
        Ok(())
    }

    /// Returns the document of the experiment of this name. `None`: it was not run, or its document cannot be
    /// read.
    pub(super) fn document(self, id: &str) -> Option<Reproduced> {
        let text = fs::read_to_string(self.path_of_document(id)).ok()?;
        serde_json::from_str(&text).ok().filter(|document: &Reproduced| document.experiment == id)
    }

    /// Returns the path of that document.
    pub(super) fn path_of_document(self, id: &str) -> PathBuf {
        self.path.join(id).join(DOCUMENT)
    }

    /// Writes the results of an experiment: all of its files, or none. Sets the names of the files in the
    /// document.
    ///
    /// # Errors
    /// If a file cannot be written, or would overwrite one that is not of an earlier run.
    pub(super) fn write(self, document: &mut Reproduced, mut files: Vec<Contents>) -> Result<(), LabError> {
        let id = document.experiment.clone();
        let directory = self.path.join(&id);
        fs::create_dir_all(&directory).map_err(|error| unwritable(&directory, &error))?;
        let before = self.document(&id).map_or_else(Vec::new, |before| before.files);
        let name = |file: &str| format!("{id}/{file}");
        let listed = files.iter().map(|(file, _)| file.as_str()).chain([DOCUMENT]);
        document.files = listed.map(name).collect();
        if let Some(file) = document.files.iter().find(|file| self.path.join(file).exists() && !before.contains(file)) {
            return Err(foreign(&self.path.join(file), "is not of an earlier run"));
        }
        let text = serde_json::to_string_pretty(document).unwrap_or_default();
        // The document comes first, because it identifies the other files as ours.
        files.insert(0, (DOCUMENT.to_owned(), format!("{text}\n").into_bytes()));
        let written = files.iter().map(|(file, contents)| {
            let path = directory.join(file);
            let mut file = PartialFile::create(&path).map_err(|error| unwritable(&path, &error))?;
            file.write_all(contents).map_err(|error| unwritable(&path, &error))?;
            Ok((path, file))
        });
        for (path, file) in written.collect::<Result<Vec<_>, LabError>>()? {
            file.finish().map_err(|error| unwritable(&path, &error))?;
        }
        Ok(())
    }

    /// Writes the pages: the index, that of each paper, and the summary.
    ///
    /// # Errors
    /// If a page cannot be written, or would overwrite a foreign one.
    pub(super) fn write_pages(self, shown: &[Shown], missing: &[Missing]) -> Result<(), LabError> {
        self.check_pages()?;
        let page = |name: &str, text: String| write(&self.path.join(name), text.as_bytes());
        for group in groups(shown) {
            page(&group.file(), paper(&group).into_string())?;
        }
        page(INDEX, index(shown, missing).into_string())?;
        page(SUMMARY, summary(shown, missing))
    }

    /// Returns the data of an experiment, as in its file.
    pub(super) fn data(self, id: &str) -> Option<String> {
        fs::read_to_string(self.path.join(id).join(DATA)).ok()
    }
}

/// Returns whether a file is visible: files being written have hidden names.
fn is_visible(entry: fs::DirEntry) -> bool {
    !entry.file_name().to_string_lossy().starts_with('.')
}

fn foreign(path: &Path, what: &str) -> LabError {
    LabError::option(format!(
        "`{}` {what}, and would be written over: move it away, or name another directory with --out",
        path.display()
    ))
}

/// Writes a file, under a hidden name until it is complete.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), LabError> {
    let mut file = PartialFile::create(path).map_err(|error| unwritable(path, &error))?;
    let written = file.write_all(bytes).and_then(|()| file.finish());
    written.map_err(|error| unwritable(path, &error))
}

pub(super) fn unwritable(path: &Path, error: &io::Error) -> LabError {
    LabError::option(format!("cannot write `{}`: {error}: name another directory with --out", path.display()))
}
