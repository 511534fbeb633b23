"""What a person can send about a misread file: the rules that decided, and a sample."""

from __future__ import annotations

import csv

import pytest

from hushmeter.errors import DataError
from hushmeter.read import ReadOptions, read_meter, reports

HEADER = "Customer,Meter Number,Start,End,Usage (kWh),Price per kWh"
ROWS = [
    f"Erika Mustermann,9876543210,2024-01-0{1 + i // 24} {i % 24:02d}:00,"
    f"2024-01-0{1 + (i + 1) // 24} {(i + 1) % 24:02d}:00,{0.25 + i % 7:.3f},0.31"
    for i in range(96)
]
TEXT = "\n".join(["Account of Erika Mustermann", HEADER, *ROWS, ""])


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "portal.csv"
    file.write_text(TEXT, encoding="utf-8")
    return file


def test_the_explanation_names_every_column_and_the_reason_of_every_choice(path):
    told = "\n".join(reports.explain(path, ReadOptions(tz="Europe/Berlin")))
    for name in HEADER.split(","):
        assert repr(name) in told
    assert "Meter: 'Usage (kWh)', values of single intervals in kWh, by the file." in told
    assert "Zone: Europe/Berlin, by your option." in told


def test_the_explanation_ends_with_a_refusal(path):
    told = reports.explain(path, ReadOptions())
    assert told[-1].startswith("Refused: ")
    assert "times without a zone" in told[-1]


def test_a_sample_holds_no_identity_and_other_values(path, tmp_path):
    text = reports.redact(path, ReadOptions())
    assert "Erika" not in text
    assert "Mustermann" not in text
    assert "9876543210" not in text
    sample = tmp_path / "sample.csv"
    sample.write_text(text, encoding="utf-8")
    found = read_meter(sample, tz="Europe/Berlin")
    whole = read_meter(path, tz="Europe/Berlin")
    assert found.interval_s == whole.interval_s
    ratio = found.readings / whole.readings[: len(found)]
    assert ratio.std() / ratio.mean() < 0.01
    assert abs(ratio.mean() - 1) > 1e-4
    lines = list(csv.reader(text.splitlines()))
    assert lines[1] == HEADER.split(",")


def test_a_file_that_is_no_table_has_no_sample(tmp_path, samples):
    path = tmp_path / "feed.xml"
    path.write_bytes(samples.green_button())
    with pytest.raises(DataError, match="a sample is made of tables only"):
        reports.redact(path, ReadOptions())
    assert any("greenbutton" in line for line in reports.explain(path, ReadOptions()))
