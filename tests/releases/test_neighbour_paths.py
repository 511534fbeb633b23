"""Neighbouring raw files through every way of publishing: all that is public is equal.

The files are written to disk and published as a user does it: `release`, `release --views`,
`fleet`, `fleet-sums`, `live` and the page. Only what the noise decides may differ.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter

import numpy as np
import pytest
from tests.apps.fleet.cases import new_ledger
from tests.apps.page.serving import serving, upload
from tests.cli.test_commands import run
from tests.neighbours.cases import HOME, draw_pair
from tests.neighbours.raw_files import WRITERS, at

from hushmeter.cli.output import flag_of

FEW, MANY = 1, 40
SPANS = (("appliance", "run"), ("appliance", "day"))
RELEASED = (
    "plain csv", "plugs empty while off", "plugs with a word while off", "unit in cells",
    "overload", "derived columns", "signed csv", "tariff energies", "changes in a csv",
    "changes, stated", "day rows", "esb", "fluvius", "xlsx with plugs", "json with plugs", "zip",
    "parquet", "ha history", "ha history without end", "ha energy", "ha recorder states", "nem12",
    "green button", "nilmtk", "uneven register", "direction by word",
)  # fmt: skip
VIEWED = ("derived columns", "tariff energies", "esb", "xlsx", "nem12", "ha energy", "day rows")
# What the noise, the clock or a secret key decides; everything else is compared.
NOISY = {
    "watts", "kwh", "value", "noisy_steps", "energy_kwh", "mean_w", "peak_kw", "peak_low_kw",
    "peak_high_kw",
}  # fmt: skip
DIGESTS = {"sha256", "bytes", "file", "release", "finished", "ledger_head", "input_hmac", "kwh"}


def reader_options(fields):
    """Options of the reader as words of a command."""
    words = []
    for name, value in fields.items():
        text = f"{value}s" if name == "reading_length" else str(value)
        words += [flag_of(name), text]
    return words


def save_pair(pair, folder):
    """Both files under one name in two folders, and the home."""
    name, contents, fields = pair.files
    HOME.save(folder / "home.toml")
    paths = []
    for side, content in zip(("one", "two"), contents, strict=True):
        (folder / side).mkdir()
        path = folder / side / name
        path.write_bytes(content)
        paths.append(path)
    return paths, reader_options(fields)


def without_digests(node):
    """A receipt or manifest without what the noise alone decides."""
    if isinstance(node, dict):
        return {k: without_digests(v) for k, v in node.items() if k not in DIGESTS}
    return [without_digests(v) for v in node] if isinstance(node, list) else node


def without_noise(table):
    """A table of text without the columns that have noise."""
    rows = list(csv.reader(io.StringIO(table)))
    kept = [i for i, name in enumerate(rows[0]) if name not in NOISY]
    assert kept, rows[0]
    return [[row[i] for i in kept] for row in rows if row]


def published(folder):
    """Names and contents of all public files below a folder, without what has noise."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or ".private" in path.name or "quarantine" in path.name:
            continue
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".json":
            found[name] = without_digests(json.loads(path.read_text()))
        elif path.suffix == ".csv":
            found[name] = without_noise(path.read_text())
        elif path.suffix == ".parquet":
            import pyarrow.parquet as pq

            table = pq.read_table(path)
            names = [n for n in table.column_names if n not in NOISY]
            if path.name == "peaks.parquet":
                # When the noisy sum is largest.
                names.remove("start")
            found[name] = table.select(names).to_pydict()
    return found


def outcome(kind, codes, folders):
    """Compare what two commands published; a refusal publishes nothing."""
    refused = [code != 0 for code in codes]
    found = [published(folder) for folder in folders]
    for gone, files in zip(refused, found, strict=True):
        assert not (gone and files), (kind, files.keys())
    if all(refused):
        return "refused"
    if any(refused):
        assert WRITERS[kind].refused_one, (kind, codes)
        return "refused one"
    assert found[0] == found[1], kind
    return "compared"


def attempt(*words):
    """Exit code of a command."""
    try:
        return run(*words, expect=0).returncode
    except AssertionError:
        return 1


def check_release(kind, number, folder, *more, days=None):
    pair = draw_pair(kind, number, spans=SPANS, days=days)
    paths, options = save_pair(pair, folder)
    words = ["--home", folder / "home.toml", "--appliance", pair.appliance, "--span", pair.span]
    codes, folders = [], []
    for path in paths:
        out = path.parent / "out"
        out.mkdir()
        target = out / ("views" if "--views" in more else "released.csv")
        codes.append(attempt("release", path, "-e", "1", *words, *options, *more, "-o", target))
        folders.append(out)
    if word := WRITERS[kind].word:
        assert [code != 0 for code in codes] == [word in path.read_bytes() for path in paths]
    return outcome(kind, codes, folders)


def check_all(kind, pairs, make_folder, *more, days=None):
    outcomes = Counter(
        check_release(kind, number, make_folder(), *more, days=days) for number in range(pairs)
    )
    if WRITERS[kind].compared:
        # How often a run passes the limit of a meter is a matter of its power, not of the reader:
        # read as a missing value, the word would make the public gaps depend on the use, so that
        # each file that has it is refused, and no other one.
        share = 4 if WRITERS[kind].word else 2
        assert outcomes["compared"] >= pairs / share, outcomes
    else:
        assert not outcomes["compared"], outcomes


@pytest.fixture
def make_folder(tmp_path_factory):
    return lambda: tmp_path_factory.mktemp("pair")


@pytest.mark.parametrize("kind", RELEASED)
def test_release(kind, make_folder):
    check_all(kind, FEW, make_folder)


@pytest.mark.slow
@pytest.mark.parametrize("kind", RELEASED)
def test_many_releases(kind, make_folder):
    check_all(kind, MANY, make_folder)


@pytest.mark.parametrize("kind", VIEWED)
def test_views(kind, make_folder):
    check_all(kind, FEW, make_folder, "--views", days=3)


# Fleets -----------------------------------------------------------------------------------------


def fleet_file(pair, house, form):
    """The extract of a utility: the pair's meter, and another one that stays as it is."""
    meter = pair.meter
    lines = ["mpan,read_at,kwh,status,peak_w,feeder"]
    for name, load in (("100", house.net), ("200", pair.one.use)):
        kwh = meter.kwh(load)
        for i, t in enumerate(meter.starts[:-1]):
            value = form(kwh[i])
            word = "high" if kwh[i] * 3600 / meter.interval_s > 1 else "normal"
            peak = load.at(np.arange(t, t + meter.interval_s, 60.0)).max()
            lines.append(f"{name},{at(t):%Y-%m-%d %H:%M},{value},{word},{peak:.0f},f1")
    return "\n".join(lines) + "\n"


def plain_number(kwh):
    return f"{kwh:.3f}"


def overload(kwh):
    """A portal that writes a word above a limit, which few readings pass."""
    return f"{kwh:.3f}" if kwh < 1.2 else ">1.2"


def check_fleet(number, folder, form, command):
    pair = draw_pair("derived columns", number, spans=SPANS, days=2)
    codes, folders = [], []
    for side, house in (("one", pair.one), ("two", pair.other)):
        source = folder / side / "in"
        source.mkdir(parents=True)
        (source / "extract.csv").write_text(fleet_file(pair, house, form))
        out = folder / side / "out"
        words = ["--clamp", "0,12000", "--ledger", new_ledger(folder / side), "-o", out]
        words += ["--columns", "meter=mpan,time=read_at,value=kwh", "--unit", "kWh", "--tz", "UTC"]
        words += ["--interval", str(pair.meter.interval_s)]
        codes.append(run_any(command[0], source, "-e", "1", *words, *command[1:]))
        folders.append(out)
    assert codes[0] == codes[1]
    assert published(folders[0]) == published(folders[1])
    return published(folders[0])


def run_any(*words):
    """Exit code of a command that may leave parts of its input out."""
    for code in (0, 1):
        try:
            return run(*words, expect=code).returncode
        except AssertionError as error:
            if code or "Traceback" in str(error):
                raise
    raise AssertionError


FLEET, SUMS = ("fleet",), ("fleet-sums", "--by", "feeder", "--accept-noise")


@pytest.mark.parametrize("command", [FLEET, SUMS], ids=["fleet", "sums"])
@pytest.mark.parametrize("form", [plain_number, overload])
def test_fleets(command, form, make_folder):
    found = [check_fleet(number, make_folder(), form, command) for number in range(2)]
    assert all(found) or form is overload


@pytest.mark.slow
@pytest.mark.parametrize("command", [FLEET, SUMS], ids=["fleet", "sums"])
@pytest.mark.parametrize("form", [plain_number, overload])
def test_many_fleets(command, form, make_folder):
    for number in range(30):
        check_fleet(number, make_folder(), form, command)


# Live -------------------------------------------------------------------------------------------

LIVE = ("plain csv", "plugs empty while off", "missing marks", "overload", "signed csv")


def check_live(kind, number, folder, monkeypatch):
    pair = draw_pair(kind, number, spans=(("appliance", "run"),), days=2)
    paths, _ = save_pair(pair, folder)
    words = ["--home", folder / "home.toml", "--appliance", pair.appliance, "-e", "1"]
    words += ["--interval", f"{pair.meter.interval_s}s", "--every", "1h", "--step", "1", "--once"]
    codes, folders = [], []
    for path in paths:
        monkeypatch.chdir(path.parent)
        codes.append(attempt("live", path.name, *words, "--to", "out"))
        folders.append(path.parent / "out")
    return outcome(kind, codes, folders)


@pytest.mark.parametrize("kind", LIVE)
def test_live(kind, make_folder, monkeypatch):
    outcomes = Counter(
        check_live(kind, number, make_folder(), monkeypatch) for number in range(FEW)
    )
    assert sum(outcomes.values()) == FEW


# The page ---------------------------------------------------------------------------------------

PAGE = (
    "plain csv", "plugs empty while off", "overload", "changes in a csv", "json with plugs",
    "ha energy", "ha history without end", "nem12",
)  # fmt: skip
PAGE_FIELDS = ("unit", "tz", "register", "meter", "counter", "step", "value_column", "start", "end",
               "reading_length", "changes", "stamp", "sheet", "member", "decimal")  # fmt: skip


@pytest.fixture(scope="module")
def client():
    with serving() as running:
        yield running


def release_on_page(client, name, content, fields, pair):
    """The public part of a release of the page, or None if it is refused."""
    words = {key: str(value) for key, value in fields.items() if key in PAGE_FIELDS}
    session = upload(client, content, name, **words)
    if session.status_code != 200:
        return None
    member = HOME.appliances[HOME.index(pair.appliance)]
    # A number that equals one learnt from the plugs would need consent.
    watts, run_s = member.protected_power + 17, member.protected_run_s + 7
    home = {"appliances": [{"name": member.name, "watts": watts, "run_s": run_s}]}
    request = {"trace": session.json()["id"], "home": home, "epsilon": 1.0, "span": "run"}
    answer = client.post("/api/release", json=request)
    if answer.status_code != 200:
        return None
    facts = answer.json()
    import base64

    text = base64.b64decode(facts["data"]).decode()
    return without_digests(facts["receipt"]), facts["file_name"], without_noise(text)


@pytest.mark.parametrize("kind", PAGE)
def test_page(kind, client):
    outcomes = Counter()
    for number in range(FEW):
        pair = draw_pair(kind, number, spans=(("appliance", "run"),))
        name, contents, fields = pair.files
        found = [release_on_page(client, name, content, fields, pair) for content in contents]
        if any(each is None for each in found):
            assert all(each is None for each in found) or WRITERS[kind].refused_one
            outcomes["refused"] += 1
            continue
        assert found[0] == found[1]
        outcomes["compared"] += 1
    assert bool(outcomes["compared"]) == WRITERS[kind].compared
