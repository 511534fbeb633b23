"""Files of strangers: none of them makes the program read another file or run what they say."""

from __future__ import annotations

import gzip
import subprocess
import sys

import pytest
from tests.read import hostile_files
from tests.read.hostile_files import REFUSED, SECRET

import hushmeter as hm
from hushmeter.cli import main
from hushmeter.errors import DataError
from hushmeter.read import read_bytes, read_home_data

pytest.importorskip("h5py", reason="needs the extra nilmtk")
RELEASE = ["release", "-e", "1", "--sensitivity", "2000"]
CASES = [pytest.param(make, *expected, id=make.__name__) for make, expected in REFUSED.items()]


@pytest.mark.parametrize(("make", "ending", "sentence"), CASES)
def test_api_and_command_refuse_with_one_sentence(
    tmp_path, make, ending, sentence, monkeypatch, capsys
):
    data = make(tmp_path)
    path = tmp_path / f"stranger.{ending}"
    path.write_bytes(data)
    for read in (hm.read_meter, read_home_data, lambda path: read_bytes(data, path.name)):
        with pytest.raises(DataError) as refused:
            read(path)
        assert sentence in str(refused.value)
        assert "\n" not in str(refused.value)
        assert str(SECRET) not in str(refused.value).replace(str(path), "")
    for words in (["inspect"], [*RELEASE, "-o", str(tmp_path / "out.csv")]):
        monkeypatch.setattr(sys, "argv", ["hushmeter", words[0], str(path), *words[1:]])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert ended.value.code == 1
        assert sentence in said.err
        assert str(SECRET) not in (said.out + said.err).replace(str(path), "")
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("words", [["inspect"], RELEASE])
def test_the_command_returns_no_byte_of_a_secret_behind_an_h5(tmp_path, words):
    path, out = tmp_path / "stranger.h5", tmp_path / "out.csv"
    path.write_bytes(hostile_files.external_storage(tmp_path))
    more = ["-o", str(out)] if words[0] == "release" else []
    command = [sys.executable, "-m", "hushmeter", words[0], str(path), *words[1:], *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "keeps its values in another file (external storage)" in done.stderr
    assert str(SECRET) not in (done.stdout + done.stderr).replace(str(tmp_path), "")
    assert not out.exists()


def test_a_plain_h5_is_read_and_a_group_in_itself_ends(tmp_path):
    import h5py

    path = tmp_path / "plain.h5"
    path.write_bytes(hostile_files.nilmtk_bytes(tmp_path))
    assert set(hm.read_meter(path).readings) == {100.0}
    with h5py.File(path, "r+") as file:
        file["building1/again"] = file["building1"]
        file["building1/elec/meter1/root"] = file["/"]
    assert set(hm.read_meter(path).readings) == {100.0}


def test_names_in_an_h5_that_are_no_text_do_not_end_the_process(tmp_path):
    import h5py

    path = tmp_path / "plain.h5"
    path.write_bytes(hostile_files.nilmtk_bytes(tmp_path))
    with h5py.File(path, "r+") as file:
        h5py.h5a.create(
            file["building1"].id,
            b"\xff\xfe",
            h5py.h5t.NATIVE_INT8,
            h5py.h5s.create(h5py.h5s.SCALAR),
        )
    code = f"import hushmeter as hm; hm.read_meter({str(path)!r})"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "is no readable NILMTK file" in done.stderr


def test_metadata_of_a_parquet_file_that_name_another_file_are_not_followed(tmp_path):
    path = tmp_path / "stranger.parquet"
    path.write_bytes(hostile_files.parquet_elsewhere(tmp_path))
    for trace in (hm.read_meter(path), read_bytes(path.read_bytes(), "s.parquet").trace):
        assert trace.readings[0] == 100.0


def test_the_name_inside_a_gzip_file_is_not_opened(tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text(hostile_files.CSV.replace(",10", f",{SECRET}"))
    path = tmp_path / "stranger.csv.gz"
    with path.open("wb") as raw, gzip.GzipFile(str(secret), "wb", fileobj=raw) as packed:
        packed.write(hostile_files.CSV.encode())
    assert hm.read_meter(path).readings[0] == 100.0


def test_triggers_of_a_data_base_never_run(tmp_path):
    """Domoticz has triggers, so that a file with triggers must be read."""
    script = (
        "CREATE TRIGGER t AFTER INSERT ON statistics BEGIN SELECT load_extension('/tmp/x'); END;"
    )
    data = hostile_files._sqlite(tmp_path, hostile_files.TABLES, hostile_files.HOURS, script)
    path = tmp_path / "triggers.db"
    path.write_bytes(data)
    assert hm.read_meter(path).readings[0] == 100.0
    assert path.read_bytes() == data


DAYS = "date," + ",".join(f"{hour:02d}:00" for hour in range(24))
NEM = "100,NEM12,200301011534,A,B\n200,1234567890,E1,E1,E1,N1,01009,kWh,30,\n"


def day_rows(cell: str) -> str:
    """A row of hours for each of seven days, in which one cell is something else."""
    rows = [[f"2024-03-0{day}", *(str(100 + hour) for hour in range(24))] for day in range(1, 8)]
    rows[3][5] = cell
    return "\n".join([DAYS, *map(",".join, rows)])


def nem_days(cell: str) -> str:
    """Two days of half hours, in which one value is something else."""
    values = ["1.5"] * 20 + [cell] + ["1.5"] * 27
    first, second = ",".join(values), ",".join(["1.5"] * 48)
    return f"{NEM}300,20240301,{first},A,,,20240302,\n300,20240302,{second},A,,,20240303,\n900\n"


@pytest.mark.parametrize(
    ("content", "facts", "readings"),
    [
        (day_rows(""), {"unit": "Wh"}, 167),
        (day_rows("9007199254740993"), {"unit": "Wh"}, None),
        (nem_days("-"), {}, 95),
    ],
)
def test_one_odd_cell_is_a_gap_or_one_sentence(tmp_path, content, facts, readings):
    """They ended in ArrowInvalid and StopIteration."""
    path = tmp_path / "meter.csv"
    path.write_text(content)
    if readings is None:
        with pytest.raises(DataError, match="which no meter shows"):
            hm.read_meter(path, tz="UTC", **facts)
    else:
        assert len(hm.read_meter(path, tz="UTC", **facts)) == readings


def test_a_row_that_is_repeated_as_it_is_makes_no_gap(tmp_path):
    rows = [f"2024-03-01T{hour:02d}:00:00Z,{100 + hour}" for hour in range(24)]
    path = tmp_path / "meter.csv"
    path.write_text("\n".join(["timestamp,watts", *rows[:6], *rows[5:]]))
    assert hm.read_meter(path).readings.tolist() == [100.0 + hour for hour in range(24)]
