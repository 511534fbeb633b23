"""The fleet job on a real standalone cluster: a master and two workers on this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.apps.fleet.cases import (
    KEY,
    RELEASE,
    digests,
    new_ledger,
    release,
    release_sums,
    small_fleet,
)
from tests.apps.fleet.spark_driver import SUMS
from tests.cli.test_commands import run

import hushmeter as hm
from hushmeter.apps.fleet import task
from hushmeter.apps.fleet.task import protect_file
from hushmeter.apps.ledger import DayChange, open_ledger
from hushmeter.errors import DataError, InputError, MissingExtraError

# One cluster for all: two of them would share a small machine with difficulty.
DRIVER = Path(__file__).with_name("spark_driver.py")
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.cores.max": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.driver.host": "127.0.0.1",
    "spark.executor.extraJavaOptions": QUICK,
    "spark.executor.memory": "512m",
    # A machine that is busy with other tests is slow, not dead.
    "spark.network.timeout": "600s",
    "spark.task.maxFailures": "2",
    "spark.ui.enabled": "false",
}
PATIENCE_S = 600
CHAIN_LOCK = "SELECT pg_advisory_lock(7480116002)"
WAITING = (
    "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) "
    "WHERE NOT granted AND locktype = 'advisory' AND application_name = 'hushmeter'"
)


def wait_until(done):
    end = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < end, f"nothing for {PATIENCE_S} s"
        time.sleep(0.05)


class Cluster:
    """Processes of Spark's standalone mode, on loopback."""

    def __init__(self, folder: Path) -> None:
        pyspark = pytest.importorskip("pyspark", reason="the extra [spark] is not installed")
        if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
            pytest.skip("Spark needs Java, which is not installed")
        self.home, self.folder = Path(pyspark.__file__).parent, folder
        conf = folder / "conf"
        conf.mkdir()
        (conf / "spark-defaults.conf").write_text(
            "".join(f"{k} {v}\n" for k, v in SETTINGS.items())
        )
        self.environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_CONF_DIR": str(conf),
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_DIRS": str(folder / "scratch"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false -Dspark.worker.timeout=600",
        }
        self.processes: list[subprocess.Popen] = []
        try:
            self.begin()
        except BaseException:
            self.close()
            raise

    def begin(self):
        """A master on a port of its own choice; workers are in before anybody asks for cores.

        A job that came before the second worker would get both its cores on the first.
        """
        self.start("master.Master", "--port", "0")
        (self.master,) = self.told(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)", 1)
        for number in range(2):
            self.start(
                # Room for two jobs at once, each on both workers.
                "worker.Worker", "--cores", "2", "--memory", "1g",
                "--work-dir", str(self.folder / f"work{number}"), self.master,
            )  # fmt: skip
        self.told("Registering worker (127.*) with 2 cores", 2)

    def start(self, name, *arguments):
        command = [
            str(self.home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}",
            "--host", "127.0.0.1", "--webui-port", "0", *arguments,
        ]  # fmt: skip
        with (self.folder / f"log{len(self.processes)}").open("w") as log:
            self.processes.append(
                subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
            )

    def told(self, pattern, times):
        """What the master has said so many times."""
        log = self.folder / "log0"

        def said():
            assert all(process.poll() is None for process in self.processes), log.read_text()
            return len(re.findall(pattern, log.read_text())) == times

        wait_until(said)
        return re.findall(pattern, log.read_text())

    def executors(self):
        """Java processes of the executors, and no other process of the machine."""
        import psutil

        found = []
        for worker in self.processes[1:]:
            for child in psutil.Process(worker.pid).children():
                with suppress(psutil.NoSuchProcess):
                    if any("CoarseGrainedExecutor" in word for word in child.cmdline()):
                        found.append(child)
        return found

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    started = Cluster(tmp_path_factory.mktemp("cluster"))
    yield started
    started.close()


class Driver:
    """A session on the cluster, in a process of its own."""

    def __init__(self, cluster: Cluster, name: str = "driver") -> None:
        self.log = cluster.folder / f"{name}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(DRIVER), cluster.master],
                env=cluster.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def ask(self, **order) -> None:
        self.process.stdin.write(json.dumps({k: str(v) for k, v in order.items()}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict:
        line = self.process.stdout.readline()
        assert line, self.log.read_text()[-2000:]
        return json.loads(line)

    def close(self) -> None:
        self.process.communicate()
        assert self.process.returncode == 0


@pytest.fixture(scope="module")
def driver(cluster):
    started = Driver(cluster)
    yield started
    started.close()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    return small_fleet(tmp_path_factory.mktemp("fleet"), meters=30, files=6)


@pytest.fixture(scope="module")
def one_machine(fleet, tmp_path_factory):
    """What one machine makes of the fleet with the same release key."""
    folder = tmp_path_factory.mktemp("one")
    done = release(fleet, folder / "out", new_ledger(folder), release=RELEASE, key=KEY)
    assert done.complete
    return folder / "out"


@pytest.fixture
def ledger(postgres_url):
    open_ledger(postgres_url, create=DayChange.within(0, 15_000)).close()
    return postgres_url


def check_same(told, output, one_machine, ledger, files=6):
    assert told["sum"] == 6
    assert "error" not in told, told
    assert digests(output) == digests(one_machine)
    assert len(digests(output)) == files
    assert not (output / ".hushmeter").exists()
    with open_ledger(ledger) as opened:
        assert opened.verify() == []
        assert opened.counts() == (30, 60)
        assert {opened.state_of(RELEASE, name) for name in digests(output)} == {"released"}


def test_the_same_bytes_as_one_machine(driver, fleet, one_machine, ledger, tmp_path):
    driver.ask(source=fleet, output=tmp_path / "out", ledger=ledger, release=RELEASE, key=KEY.hex())
    told = driver.answer()
    check_same(told, tmp_path / "out", one_machine, ledger)
    assert sorted(name for name, _, _ in told["seen"]) == sorted(digests(one_machine))
    assert told["seen"][-1][1] == told["seen"][-1][2] == 30 * 48


def test_the_same_sums_as_one_machine(driver, fleet, ledger, tmp_path):
    release_sums(
        fleet, tmp_path / "one", SUMS, ledger=new_ledger(tmp_path), release=RELEASE, key=KEY
    )
    driver.ask(source=fleet, output=tmp_path / "out", ledger=ledger, release=RELEASE,
               key=KEY.hex(), sums=True)  # fmt: skip
    assert driver.answer()["manifest"]["released_blocks"] == 60
    assert digests(tmp_path / "out") == digests(tmp_path / "one")
    assert len(digests(tmp_path / "out")) == 4
    with open_ledger(ledger) as opened:
        assert opened.verify() == []
        assert opened.counts() == (30, 60)


@pytest.mark.slow
def test_an_executor_killed_mid_job_changes_nothing(
    cluster, driver, fleet, one_machine, ledger, tmp_path
):
    """Tasks are held while they pay; one executor is killed there, the other goes on."""
    import psycopg

    with psycopg.connect(ledger, autocommit=True) as gate:
        gate.execute(CHAIN_LOCK)
        driver.ask(
            source=fleet, output=tmp_path / "out", ledger=ledger, release=RELEASE, key=KEY.hex()
        )
        wait_until(lambda: gate.execute(WAITING).fetchone() == (2,))
        victim, survivor = cluster.executors()
        victim.kill()
        victim.wait()
        assert survivor.is_running()
        assert digests(tmp_path / "out") == {}
    told = driver.answer()
    check_same(told, tmp_path / "out", one_machine, ledger)


@pytest.mark.slow
def test_a_driver_killed_mid_job_is_continued_by_another(
    cluster, driver, fleet, one_machine, ledger, tmp_path
):
    """The driver is killed while its tasks pay; what is left of them may still finish."""
    import psycopg

    order = {"source": fleet, "output": tmp_path / "out", "ledger": ledger}
    order |= {"release": RELEASE, "key": KEY.hex()}
    with psycopg.connect(ledger, autocommit=True) as gate:
        gate.execute(CHAIN_LOCK)
        victim = Driver(cluster, "victim")
        victim.ask(**order)
        wait_until(lambda: gate.execute(WAITING).fetchone() == (2,))
        victim.process.kill()
        victim.process.communicate()
        assert digests(tmp_path / "out") == {}
    driver.ask(**order, resume=True)
    check_same(driver.answer(), tmp_path / "out", one_machine, ledger)


@pytest.mark.slow
def test_a_failing_task_is_one_sentence(driver, ledger, tmp_path):
    """A ledger that goes away under the tasks; the release can be resumed."""
    import psycopg

    fleet = small_fleet(tmp_path, files=1)
    with psycopg.connect(ledger, autocommit=True) as owner:
        owner.execute("ALTER TABLE ledger_spends RENAME TO hidden")
        driver.ask(source=fleet, output=tmp_path / "out", ledger=ledger)
        told = driver.answer()
        assert told["sum"] == 6
        assert "ledger_spends" in told["error"]
        assert told["error"].startswith("the ledger postgresql://")
        assert "\n" not in told["error"]
        owner.execute("ALTER TABLE hidden RENAME TO ledger_spends")
    driver.ask(source=fleet, output=tmp_path / "out", ledger=ledger, resume=True)
    assert driver.answer()["manifest"]["quarantine"]["files"] == 0


@pytest.mark.slow
def test_spark_submit(cluster, fleet, ledger, tmp_path):
    done = subprocess.run(
        [
            str(cluster.home / "bin" / "spark-submit"), "--master", cluster.master,
            f"{hm.__path__[0]}/__main__.py", "fleet", str(fleet), "-e", "0.5",
            "--clamp", "0,12000", "--ledger", ledger, "--spark", "submit",
            "-o", str(tmp_path / "out"), "--json",
        ],
        env=cluster.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    manifest = json.loads(done.stdout)
    assert len(manifest["files"]) == len(digests(tmp_path / "out")) == 6
    with open_ledger(ledger) as opened:
        assert opened.verify(manifest["ledger_head"]) == []
        assert opened.counts() == (30, 60)


def test_a_ledger_of_one_machine_is_refused(fleet, tmp_path):
    ledger = new_ledger(tmp_path)
    with pytest.raises(InputError, match=r"needs a ledger that all machines can write: postgresql"):
        task.check_shared_ledger(ledger)
    done = run(
        "fleet", fleet, "-e", "1", "--clamp", "0,9", "--ledger", ledger, "-o", tmp_path / "out",
        "--spark", "spark://127.0.0.1:1", expect=2,
    )  # fmt: skip
    assert "not a SQLite file" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_without_the_extra_the_answer_is_the_pip_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with (
        pytest.raises(MissingExtraError, match=r'pip install "\.\[spark\]"'),
        task.spark_session("local[1]"),
    ):
        pass


def test_a_task_that_sees_no_release_says_what_to_share(tmp_path):
    with pytest.raises(DataError, match="must be shared by all workers"):
        task._run_task(protect_file, str(tmp_path), str(tmp_path / "out"), None, "a.parquet")
