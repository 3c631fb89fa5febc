//! What each processor did for the network, as the kernel counts it.
//!
//! # Source
//! Linux, `Documentation/filesystems/proc.rst` (`/proc/stat`), `net/core/net-procfs.c` (`/proc/net/softnet_stat`).

use std::fs;
use std::io;
use std::time::Duration;

/// The unit of `/proc/stat`, `USER_HZ`, is a hundredth of a second on all but long gone processors.
pub(super) const TICK_NS: u64 = 10_000_000;

/// What a processor did since the machine was started.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ProcessorCount {
    /// Its number.
    pub processor: u32,
    /// Time in the kernel's deferred work, most of which is of packets, and in interrupts.
    pub softirq: Duration,
    /// Time in system calls and threads of the kernel: those that take packets from other processors, too.
    pub system: Duration,
    /// Time in programs.
    pub user: Duration,
    /// Time without work.
    pub idle: Duration,
    /// Time that other virtual machines had it, while this one had work for it.
    pub stolen: Duration,
    /// Packets that it took through the kernel.
    pub packets: u64,
    /// Packets that it dropped, for too many waited.
    pub dropped: u64,
    /// How often it stopped with packets left, for its time was over.
    pub squeezed: u64,
}

/// Returns what each processor did, ascending by number.
///
/// # Errors
/// If the kernel does not tell, or in another form.
pub fn processors() -> io::Result<Vec<ProcessorCount>> {
    let (times, packets) = (fs::read_to_string("/proc/stat")?, fs::read_to_string("/proc/net/softnet_stat")?);
    let mut counts = read_times(&times);
    read_packets(&packets, &mut counts);
    if counts.is_empty() { Err(io::Error::other("/proc/stat names no processor")) } else { Ok(counts) }
}

/// Reads lines such as `cpu0 10 0 20 300 4 5 6 0 0 0`: ticks of user, nice, system, idle, waiting, interrupts, softirq,
/// stolen.
fn read_times(text: &str) -> Vec<ProcessorCount> {
    let read = |line: &str| {
        // The first line, without a number, is of all processors.
        let (number, ticks) = line.strip_prefix("cpu")?.split_once(' ')?;
        let processor = number.parse().ok()?;
        let ticks: Vec<u64> = ticks.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let time = |columns: &[usize]| {
            let sum: u64 = columns.iter().filter_map(|&column| ticks.get(column)).sum();
            Duration::from_nanos(sum * TICK_NS)
        };
        Some(ProcessorCount {
            processor,
            softirq: time(&[5, 6]),
            system: time(&[2]),
            user: time(&[0, 1]),
            idle: time(&[3, 4]),
            stolen: time(&[7]),
            ..ProcessorCount::default()
        })
    };
    text.lines().filter_map(read).collect()
}

/// Reads lines of hexadecimal numbers: packets, dropped, squeezed; the thirteenth, where it is, is the processor.
fn read_packets(text: &str, counts: &mut [ProcessorCount]) {
    for (line, words) in (0..).zip(text.lines()) {
        let numbers: Vec<u64> = words.split_whitespace().map_while(|word| u64::from_str_radix(word, 16).ok()).collect();
        let processor = numbers.get(12).copied().unwrap_or(line);
        let Some(count) = counts.iter_mut().find(|count| u64::from(count.processor) == processor) else { continue };
        let number = |column: usize| numbers.get(column).copied().unwrap_or(0);
        (count.packets, count.dropped, count.squeezed) = (number(0), number(1), number(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let mut counts = read_times("cpu  9 9 9 9 9 9 9\ncpu0 10 1 20 300 4 5 6 8 0 0\ncpu3 1 2 3 4 5 6 7\nintr 5\n");
        read_packets(
            "0000000a 00000001 00000002 0 0 0 0 0 0 0 0 0 00000003\n000000ff 0 0 0 0 0 0 0 0 0 0 0 00000000\n",
            &mut counts,
        );
        let ms = Duration::from_millis;
        let expected = [
            ProcessorCount {
                processor: 0,
                softirq: ms(110),
                system: ms(200),
                user: ms(110),
                idle: ms(3040),
                stolen: ms(80),
                packets: 255,
                dropped: 0,
                squeezed: 0,
            },
            ProcessorCount {
                processor: 3,
                softirq: ms(130),
                system: ms(30),
                user: ms(30),
                idle: ms(90),
                stolen: ms(0),
                packets: 10,
                dropped: 1,
                squeezed: 2,
            },
        ];
        assert_eq!(counts, expected);
    }

    #[test]
    fn this_machine_tells() {
        let counts = processors().unwrap();
        assert!(counts.iter().any(|count| !count.idle.is_zero() || !count.user.is_zero()), "{counts:?}");
    }
}
