"""Killed at any point and resumed: nothing torn, nothing unpaid, nothing released twice."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.apps.fleet.cases import (
    KEY,
    RELEASE,
    TERMS,
    digests,
    new_ledger,
    published,
    readings,
    release,
    small_fleet,
    spends,
    write,
)

from hushmeter import verify
from hushmeter.apps.fleet.folders import PrivateFolder, list_files
from hushmeter.apps.ledger import open_ledger

FEW_KILLS, KILLS = 24, 110
KILLS_AT_SYSTEM_CALLS = 300
CHILD = Path(__file__).with_name("child.py")


class Jobs:
    """Fleet jobs in forks of one warm process."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._answer() == {"ready": True}

    def _answer(self):
        return json.loads(self._process.stdout.readline())

    def _tell(self, line):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def warm(self, order):
        """Do a job once, so that later ones need not load its code and tables."""
        self._tell(json.dumps({**order, "warm": True}))
        assert self._answer() == {"status": 0}

    def run(self, order, *, delay=None):
        """Status and number of calls; killed from outside after `delay` seconds if given."""
        self._tell(json.dumps(order))
        pid = self._answer()["pid"]
        if delay is not None:
            time.sleep(delay)
            os.kill(pid, signal.SIGKILL)
        self._tell("reap")
        answer = self._answer()
        return answer["status"], answer["calls"]

    def run_traced(self, order, *options):
        """Status of a job with two workers, all of whose system calls strace sees."""
        self._tell(json.dumps({**order, "stop": True}))
        pid = self._answer()["pid"]
        wait_until_stopped(pid)
        tracer = subprocess.Popen(
            ["strace", "-f", "-p", str(pid), *options], stderr=subprocess.PIPE, text=True
        )
        assert "attached" in tracer.stderr.readline()
        os.kill(pid, signal.SIGCONT)
        tracer.communicate()
        self._tell("reap")
        return self._answer()["status"]

    def close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        assert self._process.wait() == 0


@pytest.fixture(scope="module")
def jobs():
    running = Jobs()
    yield running
    running.close()


def check_invariants(output, url, reference):
    """What must hold at any moment, also between a kill and the resume."""
    there = digests(output) if output.exists() else {}
    assert there.items() <= reference.items()
    paid = spends(url)
    assert len(set(paid)) == len(paid)
    assert {(m, p) for m, p, _ in paid} >= (published(output) if there else set())
    with open_ledger(url) as ledger:
        assert ledger.verify() == []


def check_finished(output, url, reference):
    check_invariants(output, url, reference)
    assert digests(output) == reference
    assert not (output / ".hushmeter").exists()
    facts = json.loads((output / "manifest.json").read_text())
    assert {f["file"]: f["sha256"] for f in facts["files"]} == reference
    assert facts["quarantine"]["blocks"] == 0
    assert len(spends(url)) == len(published(output)) == facts["released_blocks"]


@pytest.mark.parametrize("most", [FEW_KILLS, pytest.param(KILLS, marks=pytest.mark.slow)])
def test_killed_at_many_points(jobs, tmp_path, most):
    """Half at a random function call inside the job, half from outside at a random time."""
    source = small_fleet(tmp_path)
    undisturbed = tmp_path / "undisturbed"
    release(source, undisturbed, new_ledger(tmp_path, "undisturbed"), key=KEY, release=RELEASE)
    reference = digests(undisturbed)
    chance = random.Random(5)
    kills, finished, calls, seconds = 0, 0, None, None
    while kills < most:
        number = finished
        url, output = new_ledger(tmp_path, f"ledger-{number}"), tmp_path / f"out-{number}"
        order = {
            "source": str(source),
            "output": str(output),
            "ledger": url,
            "release": RELEASE,
            "key": KEY.hex(),
        }
        if calls is None:
            status, calls = jobs.run({**order, "count": True})
            assert (status, calls > 1000) == (0, True)
        elif seconds is None:
            start = time.perf_counter()
            assert jobs.run(order)[0] == 0
            seconds = time.perf_counter() - start
        else:
            while True:
                if chance.random() < 0.5:
                    point = chance.randrange(1, calls)
                    status, _ = jobs.run({**order, "count": True, "kill_at": point})
                else:
                    status, _ = jobs.run(order, delay=chance.uniform(0, seconds))
                check_invariants(output, url, reference)
                assert status in (0, -signal.SIGKILL)
                if status == 0:
                    break
                kills += 1
        check_finished(output, url, reference)
        finished += 1
    assert finished > 5


@pytest.mark.parametrize("kills", [10, pytest.param(25, marks=pytest.mark.slow)])
@pytest.mark.parametrize("sums", [False, True])
def test_killed_and_resumed_with_one_more_file(jobs, tmp_path, sums, kills):
    """Whatever was ever published under a name is all that is ever published under it."""
    chance, late, calls = random.Random(7), 0, None
    for number in range(kills + 1):
        folder = tmp_path / str(number)
        source, url = small_fleet(folder, meters=6, days=1, files=2), new_ledger(folder)
        extra = write(folder / "extra.parquet", readings(meters=("new",)) | {"group": ["f"] * 48})
        output = folder / "out"
        order = {
            "source": str(source), "output": str(output), "ledger": url, "release": RELEASE,
            "key": KEY.hex(), "sums": sums, "count": True,
        }  # fmt: skip
        if calls is None:
            status, calls = jobs.run(order)
            assert (status, calls > 1000) == (0, True)
            continue
        # Tables are published at the end of a job, series from the first file on.
        first = int((0.98 if sums else 0.5) * calls)
        status, _ = jobs.run({**order, "kill_at": chance.randrange(first, calls)})
        assert status in (0, -signal.SIGKILL)
        before = digests(output) if output.exists() else {}
        begun = bool(before) or (output / ".hushmeter/sealed").exists()
        late += begun and not (output / "manifest.json").exists()
        extra.rename(source / "zz.parquet")
        assert jobs.run(order)[0] == 0
        assert before.items() <= digests(output).items()
        assert verify(output).passed
        paid = {meter for meter, *_ in spends(url)}
        assert published(output) <= {(m, p) for m, p, _ in spends(url)} if not sums else paid
    # Some jobs died with published files and without a manifest, where two noises could meet.
    assert late > kills / 10


def wait_until_stopped(pid):
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "Tt":
        time.sleep(0.001)


def system_calls(trace):
    """Every call of a trace: its name, and how often its process had made it by then."""
    seen, found = Counter(), []
    for process, name in re.findall(r"^(\d+) +(\w+)\(", trace, re.MULTILINE):
        seen[process, name] += 1
        found.append((name, seen[process, name]))
    assert len({process for process, _ in seen}) >= 3
    return found


@pytest.mark.slow
def test_killed_at_random_system_calls(jobs, tmp_path):
    """The job or one of its two workers is killed at a system call, until the job ends."""
    if shutil.which("strace") is None:
        pytest.skip("strace, which kills at a system call, is not installed")
    source = small_fleet(tmp_path, meters=16, days=10, files=4)
    undisturbed = tmp_path / "undisturbed"
    release(source, undisturbed, new_ledger(tmp_path, "undisturbed"), key=KEY, release=RELEASE)
    reference = digests(undisturbed)
    chance = random.Random(9)
    number, done, calls = 0, 0, []
    while done < KILLS_AT_SYSTEM_CALLS:
        url, output = new_ledger(tmp_path, f"ledger-{number}"), tmp_path / f"out-{number}"
        order = {
            "source": str(source), "output": str(output), "ledger": url, "release": RELEASE,
            "key": KEY.hex(),
        }  # fmt: skip
        if number < 2:
            # The first run loads code, so the second one tells how many calls there are.
            trace = tmp_path / "trace"
            assert jobs.run_traced(order, "-o", str(trace)) == 0
            calls = system_calls(trace.read_text())
            assert len(calls) > 1000
        else:
            while True:
                name, time_of_call = chance.choice(calls)
                kill = f"inject={name}:signal=SIGKILL:when={time_of_call}"
                status = jobs.run_traced(order, "-e", kill, "-o", "/dev/null")
                check_invariants(output, url, reference)
                # 3: the job found that a worker was killed.
                assert status in (0, 3, -signal.SIGKILL)
                if status == 0:
                    break
                done += 1
        check_finished(output, url, reference)
        number += 1
    assert number > 2


def test_the_real_command_with_workers_killed_and_resumed(tmp_path):
    """The job process is killed; its workers go with it, and --resume ends as if nothing was."""
    source = small_fleet(tmp_path, meters=60, days=10, files=24)
    url, output = new_ledger(tmp_path), tmp_path / "out"
    command = [sys.executable, "-m", "hushmeter", "fleet", str(source), "-o", str(output)]
    command += ["-e", TERMS.epsilon, "--clamp", "0,12000", "--ledger", url, "-j", "2", "--resume"]
    chance = random.Random(6)
    folder = PrivateFolder(output)
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while len(digests(output) if output.exists() else {}) < 3:
        assert job.poll() is None, job.stderr.read()
        time.sleep(0.01)
    time.sleep(chance.uniform(0, 0.05))
    workers = descendants(job.pid)
    assert len(workers) >= 3
    job.kill()
    job.communicate()
    wait_until_gone(workers)
    with open_ledger(url) as ledger:
        assert ledger.verify() == []
    assert {(m, p) for m, p, _ in spends(url)} >= published(output)
    assert not (output / "manifest.json").exists()
    before, key, name = digests(output), folder.key(), folder.asked["release"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    undisturbed = tmp_path / "undisturbed"
    release(source, undisturbed, new_ledger(tmp_path, "other"), key=key, release=name)
    check_finished(output, url, digests(undisturbed))
    assert before.items() <= digests(output).items()
    assert len(before) < len(list_files(source))


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_an_interrupt_while_workers_start_is_one_line(tmp_path):
    """Ctrl-C reaches the job and everything that it has started so far."""
    source, chance = small_fleet(tmp_path, meters=20, days=3, files=8), random.Random(8)
    for number in range(5):
        url, output = new_ledger(tmp_path, f"ledger-{number}"), tmp_path / f"out-{number}"
        command = [sys.executable, "-m", "hushmeter", "fleet", str(source), "-o", str(output)]
        command += ["-e", TERMS.epsilon, "--clamp", "0,12000", "--ledger", url, "-j", "2"]
        job = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
            # A shell lets programs in the background ignore the signal.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        while not descendants(job.pid) and job.poll() is None:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.6))
        os.killpg(job.pid, signal.SIGINT)
        told = job.communicate()[1]
        assert job.returncode in (0, 130, -signal.SIGINT)
        assert len(told.splitlines()) == (job.returncode != 0), told
        assert job.returncode == 0 or told.startswith("hushmeter: interrupted; ")


def descendants(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [found for text in children for found in (int(text), *descendants(text))]


def wait_until_gone(pids):
    end = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() and not zombie(pid) for pid in pids):
        assert time.monotonic() < end, f"workers {pids} outlive their job"
        time.sleep(0.02)


def zombie(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
