"""Who may talk to the server: names, origins, tokens, sizes; and what it leaves behind: nothing."""

from __future__ import annotations

import gzip
import io
import json
import logging
import socket
import sys
import zipfile
import zlib

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hushmeter as hm
from hushmeter.apps.page.api import safe_name
from hushmeter.apps.page.app import STATIC, create_app, find_plotly
from hushmeter.apps.page.security import CONTENT_SECURITY_POLICY, HEADERS
from hushmeter.apps.page.server import Settings
from hushmeter.releases.history import register_path
from tests.apps.page.serving import call_workers, example, serving, upload

TOKEN = "a-token-of-this-test"
SMALL = Settings(
    upload_bytes=1 << 20, unpacked_bytes=4 << 20, values=400_000, readings=30_000, body_bytes=4096
)
ROWS = "".join(f"{1_700_000_000 + 6 * i},{i % 7}\n" for i in range(1000))


@pytest.fixture(scope="module")
def client():
    with serving(SMALL) as running:
        yield running


@pytest.fixture(scope="module")
def guarded():
    with serving(Settings(token=TOKEN)) as running:
        yield running


def sentence_of(answer, status):
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    sentence = answer.json()["error"]
    assert sentence.endswith((".", "?"))
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/static/main.js"),
        ("GET", "/plotly.min.js"),
        ("GET", "/api/about"),
        ("GET", "/api/nothing"),
        ("GET", "/static/../app.py"),
        ("POST", "/api/view"),
        ("OPTIONS", "/api/view"),
        ("PUT", "/"),
    ],
)
def test_every_answer_carries_the_headers_and_allows_no_other_origin(client, method, path):
    answer = client.request(method, path, headers={"Origin": str(client.base_url)})
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    assert not [name for name in answer.headers if name.startswith("access-control")]
    is_page = path in ("/", "/static/main.js", "/plotly.min.js")
    assert answer.headers["cache-control"] == ("no-cache" if is_page else "no-store")
    assert "server" not in answer.headers


def test_the_policy_lets_nothing_in_but_the_servers_own(client):
    rules = dict(rule.split(" ", 1) for rule in CONTENT_SECURITY_POLICY.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert "http" not in CONTENT_SECURITY_POLICY
    assert client.get("/plotly.min.js").content == find_plotly().read_bytes()


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "0.0.0.0:80", "", "[", "127.0.0.1@evil",
     "evil@127.0.0.1", "evil:1@127.0.0.1:80", "127.0.0.1/x", "127.0.0.1#x"],
)  # fmt: skip
def test_another_name_is_refused(client, host):
    for path in ("/", "/api/about", "/static/main.js"):
        sentence = sentence_of(client.get(path, headers={"Host": host}), 403)
        assert sentence.startswith("the host name of the request is wrong")


@pytest.mark.parametrize("host", ["localhost", "localhost:1234", "127.0.0.1", "[::1]:80"])
def test_names_of_this_computer_are_taken(client, host):
    assert client.get("/api/about", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://HOST"},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_from_elsewhere_reads_nothing(client, headers):
    session = example(client)
    for method, path in (
        ("GET", f"/api/traces/{session['id']}"),
        ("GET", "/api/about"),
        ("POST", "/api/examples"),
        ("DELETE", f"/api/traces/{session['id']}"),
        ("OPTIONS", "/api/examples"),
    ):
        address = client.base_url.netloc.decode()
        sent = {name: value.replace("HOST", address) for name, value in headers.items()}
        answer = client.request(method, path, headers=sent)
        assert sentence_of(answer, 403) == "only the page of this server may send this request."
    assert client.get(f"/api/traces/{session['id']}").status_code == 200


def test_what_a_foreign_form_can_send_is_refused(client):
    """A form needs no permission of the server, but cannot set a header or send JSON."""
    token = {"Authorization": client.headers["Authorization"]}
    bare = httpx.Client(base_url=client.base_url, headers=token)
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = bare.post("/api/examples", content="{}", headers={"Content-Type": kind})
        assert "needs the header X-Hushmeter: 1" in sentence_of(answer, 403)
    marked = {"X-Hushmeter": "1", "Content-Type": "text/plain"}
    answer = bare.post("/api/examples", content="{}", headers=marked)
    assert "content type must be" in sentence_of(answer, 415)
    preflight = bare.options(
        "/api/examples",
        headers={"Access-Control-Request-Method": "POST", "Origin": "http://evil.example"},
    )
    assert preflight.status_code == 403
    bare.close()


def test_a_token_guards_everything_but_the_files_of_the_page(guarded):
    assert guarded.get("/").status_code == 200
    for given in ("", f"Bearer {TOKEN}x", TOKEN, "Bearer", f"Bearer {TOKEN[:-1]}"):
        answer = guarded.get("/api/about", headers={"Authorization": given})
        assert "the token is missing or wrong" in sentence_of(answer, 401)
        assert answer.headers["www-authenticate"] == "Bearer"
        assert TOKEN not in answer.text
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert guarded.get("/api/about", headers=right).status_code == 200
    assert guarded.post("/api/examples", json={}, headers=right).status_code == 200
    wrong = {"Authorization": "Bearer x"}
    for path in ("/api/openapi.json", "/api", "/docs", "/favicon.ico", "//api/about", "/API/about"):
        assert guarded.get(path, headers=wrong).status_code == 401


def test_a_token_is_needed_wherever_the_server_is_and_is_new_each_time():
    found = [Settings().token for _ in range(2)]
    assert found[0] != found[1]
    assert all(len(token) == 32 for token in found)
    assert found[0] not in repr(Settings(token=found[0]))


def test_an_oversized_request_is_refused_whether_it_says_so_or_not(client):
    large = ROWS.encode() * 200
    assert "larger than 1 MB" in sentence_of(upload(client, large), 413)

    def pieces():
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
        for _ in range(200):
            yield ROWS.encode()
        yield b"\r\n--b--\r\n"

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    answer = client.post("/api/traces", content=pieces(), headers=headers)
    assert "larger than 1 MB" in sentence_of(answer, 413)
    text = json.dumps({"name": "x" * 5000})
    headers = {"Content-Type": "application/json"}
    answer = client.post("/api/examples", content=text, headers=headers)
    assert "larger than 4096 bytes" in sentence_of(answer, 413)
    assert client.get("/api/about").status_code == 200


def test_files_on_their_way_into_memory_are_counted():
    with serving(Settings(uploads=0)) as client:
        answer = upload(client, ROWS.encode())
        assert sentence_of(answer, 503).startswith("the server is busy")
    with serving(Settings(uploads=1)) as client:
        for _ in range(3):
            upload(client, b"<html>")
        head = "timestamp,watts\n"
        assert upload(client, (head + ROWS).encode()).status_code == 200


def test_a_file_that_drips_is_given_up():
    with serving(Settings(request_s=0.5)) as client:
        place = (client.base_url.host, client.base_url.port)
        head = (
            "POST /api/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Hushmeter: 1\r\n"
            f"Authorization: Bearer {client.token}\r\n"
            "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 999\r\n\r\n--b"
        )
        with socket.create_connection(place, timeout=60) as line:
            line.sendall(head.encode())
            answer = b""
            while b"}" not in answer:
                answer += line.recv(4096)
    assert answer.startswith(b"HTTP/1.1 504")
    assert b"this takes too long" in answer


def gzip_bomb(megabytes=64):
    return gzip.compress(b"0" * (megabytes << 20))


def slow_gzip_bomb():
    """Below the ratio, beyond the size."""
    digits = np.random.default_rng(1).integers(48, 58, (300, 1000), np.uint8)
    return gzip.compress(np.repeat(digits, 20, axis=0).tobytes())


def zip_bomb():
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../etc/meter.csv", b"0" * (64 << 20))
    return data.getvalue()


def parquet_bomb():
    """Two million rows in a few kilobytes."""
    data = io.BytesIO()
    column = np.zeros(2_000_000)
    pq.write_table(pa.table({"timestamp": column, "watts": column}), data, compression="zstd")
    return data.getvalue()


def parquet_word_bomb(stored_schema=False):
    """One long word that stands in every row: 10 GB when unpacked."""
    word = pa.array(["x" * 100_000])
    column = pa.DictionaryArray.from_arrays(np.zeros(100_000, np.int32), word)
    data = io.BytesIO()
    table = pa.table({"timestamp": column})
    pq.write_table(table, data, compression="zstd", store_schema=stored_schema)
    return data.getvalue()


def xml_bomb():
    entities = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10))
    return f'<!DOCTYPE feed [<!ENTITY a0 "lol">{entities}]><feed>&a9;</feed>'.encode()


def many_columns():
    return b"timestamp," + b",".join(b"a" for _ in range(450_000)) + b"\n"


def parquet_of(column, **options):
    data = io.BytesIO()
    times = pa.array(range(len(column)), pa.int64())
    pq.write_table(pa.table({"timestamp": times, "watts": column}), data, **options)
    return data.getvalue()


def parquet_lists(fixed=False, values=1_000_000):
    """One row that holds a list, so that the number of rows says nothing."""
    inner = pa.array(np.zeros(values))
    if fixed:
        return parquet_of(pa.FixedSizeListArray.from_arrays(inner, values), compression="zstd")
    return parquet_of(pa.ListArray.from_arrays([0, values], inner), compression="zstd")


def parquet_wide():
    """Few values of a declared width of 1 MB each."""
    wide = pa.array([bytes(1 << 20)], pa.binary(1 << 20))
    return parquet_of(pa.concat_arrays([wide] * 40), compression="zstd")


def gzip_in_zip():
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("meter.csv.gz", gzip_bomb(1))
    return data.getvalue()


def workbook_bomb():
    """A sheet of zeros, which compress a thousand to one."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
        archive.writestr("xl/worksheets/sheet1.xml", b"<sheetData>" + b" " * (3 << 20))
    return data.getvalue()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (gzip_bomb, "decompresses to more than 4 MB"),
        (lambda: gzip_bomb(3), "decompresses to more than 200 times its size"),
        (slow_gzip_bomb, "decompresses to more than 4 MB"),
        (lambda: gzip.compress(gzip_bomb()), "contains another compressed file"),
        (zip_bomb, "decompresses to more than 200 times its size"),
        (gzip_in_zip, "contains another compressed file"),
        (workbook_bomb, "decompresses to more than 200 times its size"),
        (parquet_bomb, "unpacks to 2000000 rows of 2 columns"),
        (parquet_word_bomb, "at most 400000 values are taken"),
        (lambda: parquet_word_bomb(True), "at most 400000 values are taken"),
        (parquet_lists, "has lists or groups of values in the column 'watts'"),
        (lambda: parquet_lists(True), "has lists or groups of values in the column 'watts'"),
        (parquet_wide, "at most 400000 values are taken"),
        (many_columns, "has more than 400000 values"),
    ],
)
def test_a_file_that_unpacks_to_too_much_is_refused_before_it_is_decoded(client, make, sentence):
    data = make()
    assert len(data) < 1 << 20
    assert sentence in sentence_of(upload(client, data), 413)
    assert client.get("/api/about").status_code == 200


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (xml_bomb, "meter.csv"),
        (lambda: b"", "meter.csv is neither a CSV nor a Parquet table: it is empty."),
        (lambda: b"\x1f\x8b" + b"junk" * 9, "meter.csv is a damaged gzip file"),
        (lambda: gzip.compress(ROWS.encode())[:-20], "meter.csv is an incomplete gzip file"),
        (lambda: b"\x89HDF\r\n\x1a\n" + bytes(500), "meter.csv is no readable NILMTK file"),
        (lambda: b"PAR1" + bytes(90), "meter.csv"),
        (lambda: bytes(range(256)) * 9, "meter.csv"),
        (lambda: b'{"a": 1}', "meter.csv is JSON"),
    ],
)
def test_what_is_no_file_of_readings_is_refused_in_one_sentence(client, make, sentence):
    assert sentence in sentence_of(upload(client, make()), 400)
    assert client.get("/api/about").status_code == 200


def test_an_hdf5_file_with_more_rows_than_are_taken(client, tmp_path):
    home = hm.synth.ready_home("evening")
    hm.write_meter(tmp_path / "a.h5", hm.synth.trace(home, 25_000, seed=1))
    data = (tmp_path / "a.h5").read_bytes()
    with serving(Settings(values=400_000)) as other:
        assert "at most 400000 values" in sentence_of(upload(other, data, "a.h5"), 413)


def test_concatenated_gzip_and_padding_are_read(client):
    first, second = ROWS[: ROWS.index("\n", 5000) + 1], ROWS[ROWS.index("\n", 5000) + 1 :]
    head = b"timestamp,watts\n"
    packed = gzip.compress(head + first.encode()) + gzip.compress(second.encode()) + bytes(512)
    assert upload(client, packed).json()["readings"] == 1000
    assert zlib.decompress(packed, 31)  # only the first part, which is why this is tested


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("../../etc/passwd", "passwd"),
        ("..\\..\\windows\\system.ini", "system.ini"),
        ("/etc/shadow", "shadow"),
        ("..", "the file"),
        ("a\x00b\x1b[31m.csv", "a_b_[31m.csv"),
        ("x" * 300, "x" * 80),
    ],
)
def test_a_name_is_a_name_and_never_a_path(client, name, shown):
    assert safe_name(name) == shown
    answer = upload(client, b"<html>", name.replace("\x00", "").replace("\x1b", ""))
    assert "/etc" not in sentence_of(answer, 400)


def test_a_file_of_the_server_is_not_read_for_an_upload_of_its_name(client, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text("timestamp,watts\n" + ROWS)
    assert "it is empty" in sentence_of(upload(client, b"", str(secret)), 400)


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static//etc/passwd",
    ],
)
def test_only_the_pages_own_files_are_served(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    assert "create_app" not in answer.text


@pytest.mark.parametrize(
    "form",
    [
        {"files": {"other": ("a.csv", b"1")}},
        {"data": {"file": "1"}, "files": {"x": ("", b"")}},
        {"files": [("file", ("a", b"1")), ("file", ("b", b"1"))]},
        {"files": {"file": ("a", b"1")}, "data": {"unit": "x" * 5000}},
        {"files": {"file": ("a", b"1")}, "data": {"surprise": "1"}},
        {"content": b"junk", "headers": {"Content-Type": "multipart/form-data"}},
        {"content": b"junk", "headers": {"Content-Type": "multipart/form-data; boundary=b"}},
        {"json": {}},
    ],
)
def test_a_malformed_form_is_refused(client, form):
    sentence_of(client.post("/api/traces", **form), 422)


class Opened:
    """Every file opened for writing, from Python's own audit events; they cannot be unhooked."""

    watching = False
    seen: list[str]

    def __call__(self, event, arguments):
        if not self.watching:
            return
        # A number is an open descriptor: the pipe of a process that reads HDF5.
        named = not isinstance(arguments[0], int) if arguments else False
        if event == "open" and named and set(arguments[1] or "") & set("wax+"):
            self.seen.append(str(arguments[0]))
        if event in ("tempfile.mkstemp", "tempfile.mkdtemp", "os.rename", "os.mkdir"):
            self.seen.append(f"{event} {arguments[0] if arguments else None}")


HOOK = Opened()


def watch_files():
    """Note every file that this process opens for writing from now on."""
    if not hasattr(HOOK, "seen"):
        sys.addaudithook(HOOK)
    HOOK.seen, HOOK.watching = [], True


def stop_watching():
    HOOK.watching = False
    return HOOK.seen


@pytest.fixture
def opened():
    watch_files()
    HOOK.watching = False
    return HOOK


def test_nothing_is_written_to_disk(opened, tmp_path):
    """Uploads well beyond the size at which forms are usually spooled to a temporary file."""
    home = hm.synth.ready_home("evening")
    trace = hm.synth.trace(home, 45_000, seed=3)
    for suffix in ("csv", "parquet", "h5"):
        hm.write_meter(tmp_path / f"big.{suffix}", trace)
    files = [(path.name, path.read_bytes()) for path in sorted(tmp_path.iterdir())]
    assert max(len(data) for _, data in files) > 3 << 20
    before = sorted(path.name for path in tmp_path.iterdir())
    with serving(Settings(workers=1)) as client:
        view = {"home": example(client)["home"], "epsilon": 1.0, "length": 600}
        client.post("/api/attack", json={"trace": example(client)["id"], **view})  # compiles once
        upload(client, files[0][1], files[0][0])  # imports what it needs
        call_workers(client, watch_files)
        opened.seen, opened.watching = [], True
        try:
            for name, data in files:
                session = upload(client, data, name)
                assert session.status_code == 200, session.text
                found = {"trace": session.json()["id"], **view}
                for path in ("view", "attack"):
                    assert client.post(f"/api/{path}", json=found).status_code == 200
            release = {"trace": session.json()["id"], "home": None, "protect": "change"}
            release |= {"watts": 2000, "epsilon": 1.0, "format": "parquet"}
            assert client.post("/api/release", json=release).status_code == 200
        finally:
            opened.watching = False
        assert call_workers(client, stop_watching) == [[]]
    # The register of releases holds times and digests, and no reading.
    register = str(register_path().parents[1])
    assert [place for place in opened.seen if register not in place] == []
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_the_watch_sees_what_it_must(opened, tmp_path):
    opened.seen, opened.watching = [], True
    (tmp_path / "a").write_text("1")
    opened.watching = False
    assert opened.seen == [str(tmp_path / "a")]


def test_a_fault_is_reported_by_kind_and_place_and_nothing_else(caplog, capfd):
    app = create_app(Settings(token=TOKEN))

    @app.get("/api/fault")
    async def fault() -> None:
        raise ValueError("the reading of 4711 W")

    with caplog.at_level(logging.INFO), serving(app=app) as client:
        answer = client.get("/api/fault")
        assert "hushmeter failed with an unexpected error" in sentence_of(answer, 500)
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert client.get("/api/about", headers={"Authorization": ""}).status_code == 401
    logged = caplog.text + "".join(capfd.readouterr())
    assert "fault: ValueError at test_security.py:" in logged
    for secret in ("4711", TOKEN, "Traceback"):
        assert secret not in logged


def test_no_file_of_the_page_names_another_origin():
    for path in STATIC.rglob("*"):
        if path.suffix in (".html", ".js", ".css"):
            text = path.read_text(encoding="utf-8").replace("http://www.w3.org/", "")
            assert "http://" not in text, path
            assert "https://" not in text, path
