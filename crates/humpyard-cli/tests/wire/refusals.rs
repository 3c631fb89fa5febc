//! Ports that cannot be: one line, with the way out.

use humpyard_testkit::network::{Line, Namespace, turn};

use crate::data_plane::DataPlane;

/// What a run of these words says, which must be one line, and the run must have been refused.
pub(crate) fn refusal(place: &Namespace, program: &str, words: &str) -> String {
    let output = place.command(program).args(words.split_whitespace()).output().expect("`ip` runs it");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{words}: {said}");
    assert_eq!(said.lines().count(), 1, "{words}: {said}");
    assert!(output.stdout.is_empty(), "{words}");
    said
}

#[test]
fn ports_that_cannot_be_are_told_in_one_line() {
    let Some(_turn) = turn() else { return };
    let line = Line::make();
    line.middle.ip("link set dev mb down");
    for (words, expected) in [
        ("--input iface:eth7", "no interface `eth7`; there are: lo"),
        ("--input iface:mb", "`mb` is down: ip link set mb up"),
        ("--input iface:ma:ring=1", "`ring` takes 1048576 to 1073741824"),
        ("--input iface:ma --output iface:mb --both-ways", "`mb` is down"),
        ("--input iface:ma --output null: --both-ways", "takes an interface for an output"),
        ("--input iface:ma --input iface:ma", "twice"),
        ("--input iface:ma --rate 1000", "--rate does not apply to live interfaces"),
        ("--input iface:ma --loop 2", "--loop does not apply to live interfaces"),
        ("--input iface:ma --clock virtual", "--clock virtual does not apply to live interfaces"),
        ("--input tun:ma", "is not a TUN device"),
    ] {
        let said = refusal(&line.middle, env!("CARGO_BIN_EXE_humpyard"), &format!("run {words} --policy hrw"));
        assert!(said.contains(expected), "{words}: {said}");
    }
}

#[test]
fn a_missing_privilege_is_told_with_the_remedy() {
    let Some(_turn) = turn() else { return };
    let line = Line::make();
    for (port, needed) in
        [("iface:ma", "CAP_NET_RAW (setcap"), ("tun:hy0", "CAP_NET_ADMIN (setcap"), ("xdp:ma", "CAP_BPF")]
    {
        let words = format!(
            "--inh-caps=-all --bounding-set=-all {} run --input {port} --policy hrw",
            env!("CARGO_BIN_EXE_humpyard")
        );
        let said = refusal(&line.middle, "setpriv", &words);
        assert!(said.contains("run it as root") && said.contains(needed), "{port}: {said}");
    }
}

#[test]
fn an_interface_that_is_gone_ends_the_run_and_is_named() {
    let Some(_turn) = turn() else { return };
    for kind in ["iface", "xdp", "tun"] {
        let line = Line::make();
        let (port, interface) =
            if kind == "tun" { ("tun:hy0".to_owned(), "hy0") } else { (format!("{kind}:ma"), "ma") };
        let plane = DataPlane::start(&line.middle, &format!("--input {port} --output null: --policy hrw"));
        line.middle.ip(&format!("link del dev {interface}"));
        let output = plane.ended();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(&format!("{port}: the interface is gone")), "{said}");
        assert!(!output.status.success(), "{output:?}");
    }
}
