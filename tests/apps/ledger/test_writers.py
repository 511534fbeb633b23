"""Several processes on one ledger, and one that is killed: nothing is lost, nothing twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.apps.ledger.writer import METERS

from hushmeter.apps.ledger import Charge, DayChange, open_ledger

WRITER = Path(__file__).with_name("writer.py")


class Writers:
    """Processes that begin together."""

    def __init__(self, url, kind, writers, batches):
        self.processes = [
            subprocess.Popen(
                [sys.executable, str(WRITER), url, str(name), kind, str(batches)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for name in range(writers)
        ]

    def start(self):
        for process in self.processes:
            assert process.stdout.readline() == "ready\n"
        for process in self.processes:
            process.stdin.write("go\n")
            process.stdin.flush()

    def finish(self):
        """What every writer told, line by line."""
        told = []
        for process in self.processes:
            out, _ = process.communicate()
            told.append([json.loads(line) for line in out.splitlines()])
        assert all(process.returncode == 0 for process in self.processes)
        return told


def run(url, kind, writers, batches):
    team = Writers(url, kind, writers, batches)
    team.start()
    return team.finish()


@pytest.fixture
def made(ledger_url):
    open_ledger(ledger_url, create=DayChange.within(0, 15_000)).close()
    return ledger_url


def test_eight_writers_lose_no_spend(made):
    told = run(made, "shared_meters", writers=8, batches=12)
    granted = sum(line["granted"] for lines in told for line in lines)
    with open_ledger(made) as ledger:
        assert ledger.verify() == []
        assert ledger.counts()[1] == granted
        assert sum(balance.spent for balance in ledger.balances()) == 1000 * granted
        # meter m0 is in every forward batch, m39 in every backward one: four writers each
        assert ledger.balance("m0").spent >= 4 * 12 * 1000
        assert ledger.balance("m39").spent >= 4 * 12 * 1000
        assert ledger.head().count == 1 + 8 + 8 * 12


def test_four_writers_never_pass_a_cap(made):
    """Writer 0 asks for every meter on each of 12 days, so both caps bind in whatever order.

    A day it does not get lies in a full window, and a full window reaches over 5 days at most:
    3 of them at least, with 2 spends each. And 5 spends do not fit 12 days 3 days apart.
    """
    with open_ledger(made) as ledger:
        ledger.set_cap(total="0.005", window=(3, "0.002"))
    run(made, "shared_meters", writers=4, batches=12)
    with open_ledger(made) as ledger:
        assert ledger.verify() == []
        assert {ledger.balance(meter).spent for meter in METERS} == {5000}
        assert {ledger.window(meter, 3) for meter in METERS} == {2000}


def test_of_two_who_want_the_same_period_one_wins(made):
    told = run(made, "same_period", writers=2, batches=4)
    for number in range(4):
        answers = [lines[number] for lines in told]
        winners = [answer for answer in answers if "granted" in answer]
        losers = [answer for answer in answers if "error" in answer]
        assert [answer["granted"] for answer in winners] == [len(METERS)]
        assert len(losers) == 1
        for answer in losers:
            assert answer["kind"] == "BudgetError"
            assert "already released by release r" in answer["error"]
            assert answer["error"].count(". ") == 0
    with open_ledger(made) as ledger:
        assert ledger.verify() == []
        assert {ledger.balance(meter).spent for meter in METERS} == {4000}


def test_a_task_run_three_times_is_paid_once(made):
    told = run(made, "same_task", writers=3, batches=6)
    for number in range(6):
        answers = [lines[number] for lines in told]
        assert [answer["granted"] for answer in answers] == [len(METERS)] * 3
        assert sum(not answer["resumed"] for answer in answers) == 1
    with open_ledger(made) as ledger:
        assert ledger.counts()[1] == 6 * len(METERS)
        assert ledger.verify() == []


def test_a_killed_writer_leaves_a_sound_ledger_with_all_it_acknowledged(made):
    for round_, lines in enumerate((0, 2, 5)):
        team = Writers(made, "many_rows", 1, 25)
        team.start()
        process = team.processes[0]
        seen = [json.loads(process.stdout.readline())["batch"] for _ in range(lines)]
        process.kill()
        rest = [json.loads(line)["batch"] for line in process.stdout if line.endswith("\n")]
        process.wait()
        process.stdin.close()
        process.stdout.close()
        with open_ledger(made) as ledger:
            assert ledger.verify() == [], round_
            for number in seen + rest:
                assert ledger.state_of("r0", f"f{number}") == "spent"
    told = run(made, "many_rows", writers=1, batches=25)[0]
    assert any(line["resumed"] for line in told)
    with open_ledger(made) as ledger:
        assert ledger.counts() == (3000, 25 * 3000)
        assert ledger.verify() == []
        ledger.mark_released(Charge("r0", "load", {}), "f3", "out")
        assert ledger.state_of("r0", "f3") == "released"


def test_two_processes_make_one_ledger(ledger_url):
    code = (
        "import sys; from hushmeter.apps.ledger import DayChange, open_ledger\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "with open_ledger(sys.argv[1], create=DayChange.within(0, 15000)) as ledger:\n"
        "    print(ledger.head())"
    )
    makers = [
        subprocess.Popen(
            [sys.executable, "-c", code, ledger_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for maker in makers:
        assert maker.stdout.readline() == "ready\n"
    for maker in makers:
        maker.stdin.write("go\n")
        maker.stdin.flush()
    heads = {maker.communicate()[0] for maker in makers}
    assert len(heads) == 1
    assert [maker.returncode for maker in makers] == [0, 0, 0]
