"""A process that forks fleet jobs on request: starting Python costs more than a small job does.

Reads one JSON object per line: the arguments of a job and, optionally, `kill_at`, the number of
the Python or C function call at which the job kills itself with SIGKILL. With `stop` the job stops
itself before it begins, so that a tracer can attach, and works with two forks. With `sums` the job
releases sums instead of series, and `interval_s` is the length of a reading. With `command` the job
is a command of hushmeter, and only calls within the functions that `within` names are counted. With
`warm` this process itself does the job, so that all later forks have its code and tables. Answers
with the pid and, after another line, with the status of the job and, if it lived, how many calls it
made.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from hushmeter.apps.fleet import FleetTerms, JobOptions, SumTerms, release_fleet
from hushmeter.apps.fleet.clipping import Reference
from hushmeter.apps.fleet.sum_terms import TABLES
from hushmeter.apps.ledger import DayChange, open_ledger
from hushmeter.errors import DataError, HushmeterError
from hushmeter.synth.traces import FleetPlan, write_fleet

TERMS = FleetTerms(epsilon="0.5", clamp=(0.0, 12_000.0), interval_s=3600)
SUMS = SumTerms("1", (0.0, 12_000.0), ("group",), tables=TABLES, cap_kwh=20.0,
    reference=Reference(day_kwh=10.0, share=0.05, excess_kwh=5.0))  # fmt: skip


PR_SET_PDEATHSIG = 1


class Forks:
    """Two workers, each with every second file; they end with the job.

    They are forked before the job opens its ledger, because an open SQLite file must not be
    carried into a fork.
    """

    def __init__(self):
        self._pipes = [self._fork() for _ in range(2)]

    def _fork(self):
        (orders, send), (read, answers) = os.pipe(), os.pipe()
        job_process = os.getpid()
        if os.fork() == 0:
            code = 1
            try:
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                # The job may have been killed before this worker asked to end with it.
                assert os.getppid() == job_process
                os.close(send)
                with os.fdopen(orders, "rb") as asked, os.fdopen(answers, "wb") as out:
                    task, job, names = pickle.load(asked)
                    for name in names:
                        pickle.dump(task(job, name), out)
                        out.flush()
                code = 0
            finally:
                os._exit(code)
        os.close(orders)
        os.close(answers)
        return os.fdopen(send, "wb"), os.fdopen(read, "rb")

    def schedule(self, task, job, files):
        try:
            for number, (send, _) in enumerate(self._pipes):
                pickle.dump((task, job, files[number::2]), send)
                send.flush()
            for number, (_, read) in enumerate(self._pipes):
                for _ in files[number::2]:
                    yield pickle.load(read)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            raise DataError("a worker process was killed.") from None


def run(order, calls) -> int:
    forks = None
    if order.get("stop"):
        os.kill(os.getpid(), signal.SIGSTOP)
        forks = Forks()
    kill_at, within = order.get("kill_at"), order.get("within", ())
    inside = [not within]

    def count(frame, event, argument):
        if frame.f_code.co_name in within and event in ("call", "return"):
            inside[0] = event == "call"
        if event in ("call", "c_call") and inside[0]:
            calls[0] += 1
            if calls[0] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    if order.get("count"):
        sys.setprofile(count)
    if order.get("command"):
        return run_command(order["command"])
    options = JobOptions(
        order["ledger"],
        resume=True,
        schedule=forks.schedule if forks else None,
        release=order.get("release"),
        key=bytes.fromhex(order["key"]) if "key" in order else None,
        accept_noise=True,
    )
    terms = SUMS if order.get("sums") else TERMS
    if "interval_s" in order:
        terms = replace(terms, interval_s=order["interval_s"])
    try:
        release_fleet(order["source"], order["output"], terms, options)
    except HushmeterError as error:
        sys.setprofile(None)
        os.write(2, f"{error}\n".encode())
        return 3
    sys.setprofile(None)
    return 0


def run_command(arguments) -> int:
    """The exit code of a command, whose output is not shown unless it fails."""
    import contextlib
    import io

    from hushmeter.cli import main

    sys.argv, told = ["hushmeter", *arguments], io.StringIO()
    code = 0
    try:
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            main()
    except SystemExit as stop:
        code = stop.code or 0
    sys.setprofile(None)
    if code:
        os.write(2, told.getvalue().encode())
    return code


def warm_up() -> None:
    """Load every kernel and table once; the threads that Arrow starts are idle and fork-safe."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ledger = f"sqlite:///{folder}/l.db"
        open_ledger(ledger, create=DayChange.within(0, 15_000)).close()
        write_fleet(FleetPlan(2, 1, 3600), folder / "in")
        for terms in (TERMS, SUMS):
            release_fleet(
                folder / "in", folder / terms.schema, terms, JobOptions(ledger, accept_noise=True)
            )
    answer(ready=True)


def answer(**facts) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def main() -> None:
    warm_up()
    while line := sys.stdin.readline():
        order = json.loads(line)
        if order.get("warm"):
            answer(status=run(order, [0]))
            continue
        calls = [0]
        read, send = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = run(order, calls)
                os.write(send, str(calls[0]).encode())
            finally:
                os._exit(code)
        os.close(send)
        answer(pid=child)
        # Not reaped before the other side has had its chance to kill: the pid stays its own.
        sys.stdin.readline()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        told = os.read(read, 100)
        os.close(read)
        answer(status=status, calls=int(told or 0))


if __name__ == "__main__":
    main()
