"""Uploads of strangers: the page refuses them and returns nothing of any other file."""

from __future__ import annotations

import pytest

from tests.apps.page.serving import serving, upload
from tests.read import hostile_files
from tests.read.hostile_files import REFUSED, SECRET

pytest.importorskip("h5py", reason="needs the extra nilmtk")
CASES = [pytest.param(make, *expected, id=make.__name__) for make, expected in REFUSED.items()]


@pytest.fixture(scope="module")
def client():
    with serving() as running:
        yield running


@pytest.mark.parametrize(("make", "ending", "sentence"), CASES)
def test_the_page_refuses_with_one_sentence(client, tmp_path, make, ending, sentence):
    answer = upload(client, make(tmp_path), f"stranger.{ending}")
    assert 400 <= answer.status_code < 500
    assert str(SECRET) not in answer.text.replace(str(tmp_path), "")
    if make is hostile_files.zip_bomb:
        sentence = "decompresses to more than"
    elif make is hostile_files.unstored_rows:
        sentence = "declares 1000000000000 rows"
    assert sentence in answer.json()["error"]


def test_the_page_returns_the_readings_of_the_file_itself(client, tmp_path):
    data = hostile_files.parquet_elsewhere(tmp_path)
    session = upload(client, data, "stranger.parquet").json()
    assert session["readings"] == hostile_files.ROWS
    assert str(SECRET) not in str(session)
    assert upload(client, hostile_files.nilmtk_bytes(tmp_path), "plain.h5").status_code == 200
