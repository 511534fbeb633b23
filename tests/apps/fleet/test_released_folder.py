"""A released folder against its manifest: whoever changes a file, a name or a sum is found out."""

from __future__ import annotations

import json
from contextlib import suppress

import pyarrow.parquet as pq
import pytest
from tests.apps.fleet.cases import new_ledger, release, release_sums, small_fleet

import hushmeter as hm
from hushmeter.apps.fleet.job import mark_of
from hushmeter.apps.fleet.release import private_list
from hushmeter.apps.fleet.released_folder import (
    LATER,
    check_released_folder,
    read_manifest,
    summarise_fleet,
)
from hushmeter.apps.fleet.sum_terms import SumTerms
from hushmeter.errors import DataError


@pytest.fixture
def released(tmp_path):
    """A complete release of three files."""
    release(small_fleet(tmp_path), tmp_path / "out", new_ledger(tmp_path))
    return tmp_path / "out"


def change_manifest(folder, change) -> None:
    path = folder / "manifest.json"
    facts = json.loads(path.read_text())
    change(facts)
    path.write_text(json.dumps(facts))


def test_an_untouched_folder_has_no_problems(released):
    assert check_released_folder(released) == []
    assert set(read_manifest(released).sha256) == {f"part-000{i}.parquet" for i in range(3)}


def test_a_changed_a_missing_and_an_extra_file_are_named(released):
    (released / "part-0000.parquet").write_bytes(b"other bytes")
    (released / "part-0001.parquet").unlink()
    (released / "readings.parquet").write_bytes(b"not part of the release")
    changed, missing, extra = check_released_folder(released)
    assert "part-0000.parquet is not the file that was released: its SHA-256" in changed
    assert "part-0001.parquet is listed in the manifest but cannot be read" in missing
    assert "readings.parquet is not listed in the manifest" in extra


def test_a_swapped_file_is_found_before_its_readings_are_added_up(released):
    first, second = released / "part-0000.parquet", released / "part-0001.parquet"
    first.write_bytes(second.read_bytes())
    with pytest.raises(DataError, match="is not the file that was released: its SHA-256"):
        summarise_fleet(released, "meter")


@pytest.mark.parametrize("name", ["../x.parquet", "/etc/passwd", "a/../../x", ".."])
def test_a_manifest_that_names_a_file_outside_its_folder_is_refused(released, name):
    outside = released.parent / "x.parquet"
    outside.write_bytes((released / "part-0000.parquet").read_bytes())
    change_manifest(released, lambda facts: facts["files"][0].update(file=name))
    for reader in (check_released_folder, read_manifest, summarise_fleet):
        with pytest.raises(DataError, match="names a file outside its folder"):
            reader(released)


def test_a_link_out_of_the_folder_is_refused(released):
    path = released / "part-0000.parquet"
    outside = released.parent / "elsewhere.parquet"
    path.rename(outside)
    path.symlink_to(outside)
    assert "is a link, and a released folder holds its files" in check_released_folder(released)[0]
    with pytest.raises(DataError, match="is a link, and a released folder holds its files"):
        summarise_fleet(released, "meter")


def test_a_link_to_a_folder_of_readings_is_no_folder_of_the_release(released, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "meter.csv").write_text("secret")
    (released / "more").symlink_to(raw)
    (problem,) = check_released_folder(released)
    assert "more is not listed in the manifest; do not publish it" in problem


@pytest.mark.parametrize("name", ["part-0000.parquet", "./part-0000.parquet"])
def test_a_file_that_is_listed_twice_is_refused(released, name):
    def list_again(facts):
        facts["files"].append({**facts["files"][0], "file": name})
        for total in ("rows", "released_rows", "released_blocks"):
            facts[total] += facts["files"][0][total]

    change_manifest(released, list_again)
    with pytest.raises(DataError, match=r"is not the manifest of a fleet|outside its folder"):
        check_released_folder(released)


def test_numbers_that_do_not_add_up_are_named(released):
    rows = pq.read_metadata(released / "part-0000.parquet").num_rows
    change_manifest(released, lambda facts: facts["files"][0].update(released_rows=rows - 1))
    wrong, total = check_released_folder(released)
    assert f"has {rows} rows, but the manifest states {rows - 1}" in wrong
    assert "released rows, but its files add up to" in total


def test_a_private_folder_that_was_left_behind_is_named(released):
    (released / ".hushmeter").mkdir()
    assert "holds the secrets of an unfinished release" in check_released_folder(released)[0]


def test_the_list_of_what_was_left_out_is_beside_the_folder(tmp_path):
    assert private_list(tmp_path / "out") == tmp_path / "out.quarantine.csv"


@pytest.fixture
def summed(tmp_path):
    """The sums of three files."""
    terms = SumTerms("1", (0.0, 12_000.0), ("group",))
    source = small_fleet(tmp_path, meters=120, days=3, files=3, interval_s=1800)
    release_sums(source, tmp_path / "sums", terms, ledger=new_ledger(tmp_path))
    return tmp_path / "sums"


def test_sums_are_compared_with_their_manifest(summed):
    assert hm.verify(summed).passed
    table = pq.read_table(summed / "sums.parquet")
    change_manifest(summed, lambda facts: facts["files"][0].update(released_rows=1))
    assert f"has {table.num_rows} rows, but the manifest states 1" in hm.verify(summed).problems[0]
    pq.write_table(table.slice(1), summed / "sums.parquet")
    (summed / "readings.parquet").write_bytes(b"not part of the release")
    changed, extra = hm.verify(summed).problems
    assert "sums.parquet is not the file that was released: its SHA-256" in changed
    assert "readings.parquet is not listed in the manifest" in extra


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda facts: facts.update(files=["sums.parquet"]), "is not the manifest of a fleet"),
        (lambda facts: facts.pop("asked"), "is not the manifest of a fleet"),
        (lambda facts: facts.update(schema="hushmeter-sums-0"), "is not the manifest of a fleet"),
        (
            lambda facts: facts["files"][0].update(file="../x.parquet"),
            "names a file outside its folder",
        ),
    ],
)
def test_a_damaged_manifest_of_sums_is_refused(summed, change, message):
    change_manifest(summed, change)
    with pytest.raises(DataError, match=message):
        hm.verify(summed)


def leaves(value, path=()):
    """The places of all values of a document that hold no others."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, entry in inner:
        if isinstance(entry, dict | list) and entry:
            yield from leaves(entry, (*path, key))
        else:
            yield (*path, key)


def other(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return 2 * value + 1
    return f"{value}x" if isinstance(value, str) else ["x"]


UNNOTICED = {"finished", "ledger_head", "quarantine"}
"""The time of the end, the end of the ledger and what was left out: nothing in the folder follows
from them, so only the ledger and the private list of the operator can confirm them."""
UNNOTICED_OF_SUMS = UNNOTICED | {"rows", "released_rows", "released_blocks"}
"""The readings of a sum are not in its tables."""


FORGED = {
    "released": {("asked", "accept_learnt"), ("promise", "version")},
    "summed": {("charge", "composition_delta"), ("promise", "version")},
}
"""The version, and what has no effect on the noise: a δ for composition that sums do not use, and
what concerns the tables and the home of a single household."""


def unnoticed_leaves(folder, change):
    """The places of a manifest at which a change is not noticed."""
    path = folder / "manifest.json"
    whole = path.read_text()
    places = list(leaves(json.loads(whole)))
    assert len(places) > 90
    for place in places:
        facts = json.loads(whole)
        inner = facts
        for key in place[:-1]:
            inner = inner[key]
        if change == "changed":
            inner[place[-1]] = other(inner[place[-1]])
        elif change == "removed":
            del inner[place[-1]]
        elif isinstance(inner, list):
            inner.append(inner[place[-1]])
        else:
            inner["another entry"] = inner[place[-1]]
        path.write_text(json.dumps(facts))
        with suppress(DataError):
            if not check_released_folder(folder):
                yield place
    path.write_text(whole)


@pytest.mark.parametrize("kind", ["released", "summed"])
@pytest.mark.parametrize("change", ["changed", "removed", "repeated"])
def test_every_changed_leaf_is_noticed(kind, change, request):
    expected = UNNOTICED if kind == "released" else UNNOTICED_OF_SUMS
    unnoticed = {place[0] for place in unnoticed_leaves(request.getfixturevalue(kind), change)}
    assert unnoticed <= expected
    if change == "changed":
        assert unnoticed == expected


@pytest.mark.parametrize("kind", ["released", "summed"])
def test_a_forged_promise_does_not_follow_from_its_terms(kind, request, monkeypatch):
    """Somebody who writes other marks into the files still cannot change the promise alone."""
    folder = request.getfixturevalue(kind)
    facts = json.loads((folder / "manifest.json").read_text())
    mark = mark_of({name: one for name, one in facts.items() if name not in LATER})
    monkeypatch.setattr("hushmeter.apps.fleet.released_folder.mark_of", lambda _: mark)
    found = set(unnoticed_leaves(folder, "changed"))
    about_promise = {place for place in found if place[0] in ("asked", "promise", "charge")}
    assert about_promise == FORGED[kind]


def test_a_name_twice_is_refused(released):
    path = released / "manifest.json"
    path.write_text(path.read_text().replace('"release":', '"release": "other", "release":', 1))
    with pytest.raises(DataError, match="is not the manifest of a fleet"):
        check_released_folder(released)


def test_files_of_another_release_are_named(released):
    """The same bytes under a manifest of another release, with its own digests."""
    change_manifest(released, lambda facts: facts.update(release="20240101T000000Z-00000000"))
    problems = check_released_folder(released)
    assert len(problems) == 3
    assert all("belongs to a release with another manifest" in one for one in problems)
