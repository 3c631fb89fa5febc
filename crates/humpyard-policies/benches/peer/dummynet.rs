//! dummynet's user-space test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::{WEIGHTS, Workload};

/// The test program, compiled.
pub(crate) struct Dummynet {
    program: PathBuf,
}

impl Dummynet {
    /// Compiles the test with its own build script.
    ///
    /// # Errors
    /// Reports a missing dummynet, or the compiler's message.
    pub(crate) fn build() -> Result<Self, String> {
        let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/peers");
        let peers = std::env::var_os("HUMPYARD_PEERS").map_or(beside, PathBuf::from);
        let script = peers.join("dummynet/build");
        if !script.is_file() {
            return Err(format!(
                "there is no {}: set HUMPYARD_PEERS to the directory that holds dummynet's user-space test",
                script.display()
            ));
        }
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dummynet");
        output(Command::new(&script).arg(&out))?;
        Ok(Self { program: out.join("test_sched") })
    }

    /// Returns the time of a packet in ns, by the test's own clock.
    ///
    /// # Errors
    /// Reports a failure of the test, or output without a time.
    pub(crate) fn time(&self, scheduler: &str, workload: Workload, clients: usize) -> Result<f64, String> {
        let [low, high] = WEIGHTS;
        let flows = clients / 2;
        let (least, most) = match workload {
            Workload::Waking => ("0", "0"),
            // With `n`, the program multiplies by the number of clients.
            Workload::Steady => ("3n", "4n"),
        };
        // At the start four packets per client only arrive: a small part of all.
        let packets = (100 * clients).max(2_000_000);
        let mut test = Command::new(&self.program);
        test.args(["-n", &(2 * packets).to_string(), "-alg", scheduler, "-qmin", least, "-qmax", most]);
        test.args(["-flowsets", &format!("{low}:1500:{flows},{high}:1500:{flows}")]);
        let text = output(&mut test)?;
        // The line has `time SECONDS NANOSECONDS`.
        let line = text.lines().find_map(|line| line.split_once(" time "));
        let time = line.and_then(|(_, times)| times.split_whitespace().nth(1)?.parse().ok());
        time.ok_or_else(|| format!("dummynet's test printed no time: {text}"))
    }
}

/// Returns the output of the command.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let Output { status, stdout, stderr } = command.output().map_err(|error| format!("{name}: {error}"))?;
    let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    if status.success() { Ok(text) } else { Err(format!("{name} failed ({status}): {}", text.trim())) }
}
