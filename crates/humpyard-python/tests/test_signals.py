"""Ctrl-C: what takes long ends within 0.2 s of the signal, wherever in the work it comes."""

import json
import subprocess
import sys
import unittest

LIMIT_SECONDS = 0.2
"""The time between the signal and KeyboardInterrupt that is promised."""
ATTEMPTS = 5
"""Attempts of which the best counts: a busy machine may take the processor away for longer than the limit."""

CHILD = '''
import json, os, shutil, signal, sys, tempfile, threading, time
import humpyard as hy

# Where the tests run in the background, signals of the terminal may be ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)


def answered(call, after):
    """Return the seconds from a signal, some seconds after the beginning of a call, to KeyboardInterrupt."""
    sent = []

    def send():
        time.sleep(after)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    try:
        thread.start()
        call()
    except KeyboardInterrupt:
        return time.monotonic() - sent[0]
    raise RuntimeError("the call ended before the signal: make its input longer")


after, limit, attempts = map(float, sys.argv[1:])
seconds = []
while len(seconds) < attempts and not (seconds and min(seconds) <= limit):
    out = tempfile.mkdtemp()
    seconds.append(answered(lambda: CALL, after))
    shutil.rmtree(out)
print(json.dumps(seconds))
'''

CALLS = {
    "simulate": "hy.simulate('gen:poisson:packets=100000000000', policy='drr', load=0.9)",
    "simulate, many flows": "hy.simulate('gen:poisson:packets=100000000000,flows=100000', policy='hrw', "
    "flows=262144, buffer=100000, record=True)",
    "compare": "hy.compare('gen:poisson:packets=100000000000', policies=['drr', 'fcfs'], load=0.9)",
    "recommend": "hy.recommend('gen:poisson', goal='p99<2ms', budget=100000, costs='table:measured', host='ideal')",
    "recommend, many packets": "hy.recommend('gen:poisson:packets=2000000,flows=100000', goal='p99<2ms', "
    "packets=2000000, costs='table:measured', host='ideal')",
    "sweep": "hy.sweep({'options': {'input': 'gen:poisson:packets=100000000000'}, "
    "'axes': {'policy': ['drr', 'hrw'], 'load': {'from': 0.1, 'to': 0.9, 'steps': 100}}}, out=out)",
    "sweep of many cells": "hy.sweep({'options': {'input': 'gen:poisson:packets=1000'}, "
    "'axes': {'policy': ['drr', 'hrw'], 'load': {'from': 0.1, 'to': 0.9, 'steps': 50000}}}, out=out)",
}
"""Calls that end by a signal alone."""
AFTER_SECONDS = (0.2, 1.0)
"""When the signal comes: while input is read or cells are checked, and while packets are simulated."""


def answered(call: str, after: float) -> list[float]:
    """Return the seconds that a call took to answer, of each attempt."""
    words = [sys.executable, "-c", CHILD.replace("CALL", call), str(after), str(LIMIT_SECONDS), str(ATTEMPTS)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    seconds: list[float] = json.loads(done.stdout)
    return seconds


class Interrupts(unittest.TestCase):
    def test_ctrl_c_is_answered_in_time(self) -> None:
        for name, call in CALLS.items():
            for after in AFTER_SECONDS:
                with self.subTest(call=name, after=after):
                    self.assertLessEqual(min(answered(call, after)), LIMIT_SECONDS)


if __name__ == "__main__":
    unittest.main()
