"""A released folder against its manifest: whoever changes a file, a name or a sum is found out."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from tests.fleet.cases import new_ledger, release, release_sums, small_fleet

import hushmeter as hm
from hushmeter.errors import DataError
from hushmeter.fleet.manifest import check_released_folder, quarantine_file, read_manifest
from hushmeter.fleet.statistics import summarise_fleet
from hushmeter.fleet.sum_terms import SumTerms


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
    assert "leads out of the released folder" in check_released_folder(released)[0]
    with pytest.raises(DataError, match="leads out of the released folder"):
        summarise_fleet(released, "meter")


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
    assert quarantine_file(tmp_path / "out") == tmp_path / "out.quarantine.csv"


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
