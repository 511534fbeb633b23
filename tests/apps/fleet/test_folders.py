"""Input behind a URL: a real S3 server on loopback gives the same bytes as a local folder."""

from __future__ import annotations

import pytest
from pyarrow import fs
from tests.apps.fleet.cases import (
    KEY,
    RELEASE,
    digests,
    new_ledger,
    release,
    release_sums,
    small_fleet,
    spends,
)

from hushmeter.apps.fleet import folders
from hushmeter.apps.fleet.folders import is_url, list_files, open_source
from hushmeter.apps.fleet.job import InputFormat
from hushmeter.apps.fleet.release import private_list
from hushmeter.apps.fleet.sum_terms import SumTerms
from hushmeter.errors import DataError, InputError


@pytest.fixture(scope="module")
def s3_server():
    """Address of moto's S3 server on loopback."""
    moto = pytest.importorskip("moto.server", reason="moto's S3 server is not installed")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_server, monkeypatch):
    """Upload files into a new bucket and return the URL of a folder in it."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    query = f"endpoint_override={s3_server}&scheme=http&region=us-east-1"
    system, _ = fs.FileSystem.from_uri(f"s3://fleet/?{query}&allow_bucket_creation=true")
    system.create_dir("fleet")
    yield system, f"s3://fleet/in?{query}"
    system.delete_dir_contents("fleet")


def upload(folder, bucket):
    system, url = bucket
    fs.copy_files(str(folder), "fleet/in", destination_filesystem=system)
    return url


def mixed_fleet(tmp_path):
    """A Parquet file and a CSV file without a unit in a Hive partition."""
    source = small_fleet(tmp_path, meters=6, days=2, files=1)
    partition = source / "feeder=F7"
    partition.mkdir()
    lines = [f"c{m},2024-01-01T{h:02d}:00:00Z,0.5" for m in range(2) for h in range(24)]
    (partition / "extract.csv").write_text("meter,time,value\n" + "\n".join(lines) + "\n")
    return source


@pytest.mark.parametrize("large", [False, True])
def test_a_release_from_s3_has_the_bytes_of_a_local_one(tmp_path, bucket, monkeypatch, large):
    if large:
        monkeypatch.setattr(folders, "RAW_BYTES", 100)
    source = mixed_fleet(tmp_path)
    url = upload(source, bucket)
    form = {"form": InputFormat(unit="kWh"), "interval_s": 3600}
    assert (
        list_files(url)
        == list_files(source)
        == [
            "feeder=F7/extract.csv",
            "part-0000.parquet",
        ]
    )
    here, there = tmp_path / "here", tmp_path / "there"
    local, remote = new_ledger(tmp_path, "local"), new_ledger(tmp_path, "remote")
    dry = release(url, there, remote, dry_run=True, **form)
    assert (dry.complete, there.exists(), spends(remote)) == (True, False, [])
    done = release(source, here, local, key=KEY, release=RELEASE, **form)
    again = release(url, there, remote, key=KEY, release=RELEASE, **form)
    assert done.complete
    assert digests(here) == digests(there) != {}
    assert dry.manifest["released_rows"] == again.manifest["released_rows"] == 6 * 48 + 48
    assert sorted(spends(local)) == sorted(spends(remote))
    assert {p.name for p in there.iterdir()} == {"manifest.json", "part-0000.parquet", "feeder=F7"}


def test_sums_from_s3_by_environment(tmp_path, bucket, s3_server, monkeypatch):
    """AWS_ENDPOINT_URL replaces the query of the URL."""
    url = upload(small_fleet(tmp_path, meters=3, days=1, files=1), bucket).partition("?")[0]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{s3_server}")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    terms = SumTerms("1", (0.0, 12_000.0), ("group",))
    done = release_sums(url, tmp_path / "out", terms, ledger=new_ledger(tmp_path))
    assert done.complete
    assert len(done.tables["sums"]) == 24


def test_a_file_that_vanishes_is_reported(tmp_path, bucket, monkeypatch):
    url = upload(small_fleet(tmp_path, meters=2, days=1, files=2), bucket)
    names = list_files(url)
    monkeypatch.setattr(
        "hushmeter.apps.fleet.release.list_files", lambda _: [*names, "gone.parquet"]
    )
    done = release(url, tmp_path / "out", new_ledger(tmp_path))
    assert not done.complete
    assert "the file cannot be read" in private_list(tmp_path / "out").read_text()
    assert sorted(digests(tmp_path / "out")) == names


def test_places_that_will_not_do(tmp_path, bucket):
    _, url = bucket
    ledger = new_ledger(tmp_path)
    with pytest.raises(DataError, match="cannot be read"):
        list_files(url.replace("/in", "/nowhere"))
    with pytest.raises(InputError, match="contains a password"):
        open_source("s3://key:secret@bucket/in")
    with pytest.raises(InputError, match="no installed package reads nowhere://"):
        open_source("nowhere://bucket/in")
    with pytest.raises(InputError, match="neither locks nor renames"):
        release(small_fleet(tmp_path), "s3://bucket/out", ledger)
    with pytest.raises(DataError, match="is not a folder"):
        open_source((tmp_path / "nowhere").as_uri())


def test_file_urls_and_fsspec(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    source = small_fleet(tmp_path, meters=2, days=1, files=1)
    assert list_files(source.as_uri()) == list_files(source) == ["part-0000.parquet"]
    memory = fsspec.filesystem("memory")
    memory.put(str(source), "/fleet", recursive=True)
    url = "memory://fleet/in" if memory.exists("/fleet/in") else "memory://fleet"
    done = release(url, tmp_path / "out", new_ledger(tmp_path))
    assert done.complete
    assert [is_url(place) for place in ("C:/in", "in", source, url)] == [False, False, False, True]


def test_a_link_out_of_the_folder_is_refused_and_one_within_is_read(tmp_path):
    source = small_fleet(tmp_path, meters=4, days=1, files=1)
    (own,) = list_files(source)
    secret = tmp_path / "secret.parquet"
    secret.write_bytes((source / own).read_bytes())
    (source / "link.parquet").symlink_to(source / own)
    assert list_files(source) == sorted([own, "link.parquet"])
    (source / "link.parquet").unlink()
    (source / "link.parquet").symlink_to(secret)
    with pytest.raises(DataError, match=r"link\.parquet leads to a file outside of"):
        list_files(source)
    with pytest.raises(DataError, match=r"link\.parquet leads to a file outside of"):
        release(source, tmp_path / "out", new_ledger(tmp_path))
    assert not list((tmp_path / "out").rglob("*.parquet"))


@pytest.mark.parametrize("name", ["link.parquet", "../secret.parquet"])
def test_no_file_outside_is_opened_even_if_the_link_comes_later(tmp_path, name):
    source = small_fleet(tmp_path, meters=4, days=1, files=1)
    (tmp_path / "secret.parquet").write_bytes(b"secret")
    (source / "link.parquet").symlink_to(tmp_path / "secret.parquet")
    folder = open_source(source)
    for opening in (folder.size, folder.open, lambda name: folder.snapshot(name, None)):
        with pytest.raises(DataError, match="leads to a file outside of"):
            opening(name)
    with pytest.raises(DataError, match="outside of"), folder.local_path(name, None):
        pass
