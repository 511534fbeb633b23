"""Releases and findings are the same with numba and without it."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from hushmeter.compiled import _plain

CODE = """
import hashlib, json, sys
import numpy as np
import hushmeter as hm
if sys.argv[1] == "absent":
    sys.modules["numba"] = None
if sys.argv[1] == "loaded":
    import hushmeter.compiled
home = hm.synth.ready_home("evening")
trace = hm.synth.trace(home, 40 * 48, interval_s=1800.0, seed=1)
found = []
for words in (
    {"hide": "kettle", "odds": 60, "tables": ["views"]},
    {"hide": "kettle", "mechanism": "laplace"},
    {"protect": "appliance", "appliance": "kettle", "span": "day", "use": "30min", "epsilon": 1,
     "mechanism": "staircase"},
):
    request = hm.Request(**words, home=home if "appliance" in words else None)
    promise = request.resolve(hm.metered(trace))
    for choice in ({"key": bytes(range(32))}, {"rng": 5}):
        released = promise.release(trace, **choice)
        found.append(hashlib.sha256(b"".join(s.tobytes() for s in released.sums)).hexdigest())
    found.append(str(promise))
for steps in (0.5, 0.001):
    noise = hm.Laplace(epsilon=0.1, sensitivity=2100.0, grid=steps)
    found.append(hashlib.sha256(noise.release(trace.readings, rng=2).tobytes()).hexdigest())
found.append(hm.findings(trace, tz="UTC").to_dict())
if sys.argv[1] != "loaded":
    assert not sys.modules.get("numba")
print(json.dumps(found))
"""


def results(kind, **environment):
    done = subprocess.run(
        [sys.executable, "-c", CODE, kind],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_releases_and_findings_are_the_same_with_and_without_numba():
    compiled = results("loaded")
    assert results("absent") == compiled
    assert results("switched off", HUSHMETER_COMPILED="0") == compiled


def test_plain_loops_wrap_around_like_compiled_ones():
    @_plain(cache=True, nogil=True)
    def add(a, b):
        """Add."""
        return a + b

    assert add(np.uint32(0xFFFFFFFF), np.uint32(2)) == 1
    assert add.__doc__ == "Add."
    with pytest.raises(TypeError):
        add(1)
