"""Keys of a fleet release: one secret, and from it a key for every stretch of every file.

Using one key stream for two different inputs publishes their exact difference; using it at two
scales gives the input itself. A stretch, a run of rows of one file, therefore takes

    file key    = HMAC(release key, release | stream | terms | file | digest of the file's bytes)
    stretch key = HMAC(file key, first row | number of rows)

and row i of the stretch the i-th draw. Any change of the data, of the terms (ε, clamp, grid …) or
of how the file is cut gives other keys, hence independent noise. With the same data and terms,
row i gets the same noise whichever rows around it are left out: two attempts agree wherever both
speak, so a retry can say nothing new. The digest covers the raw bytes of the whole file, which is
stricter than needed (the same rows stored otherwise get fresh noise) and nearly free, the bytes
being few. Parts are length-prefixed, so no two lists of parts give the same message.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping

_CONTEXT = "hushmeter fleet 1"


def input_digest(release_key: bytes, file_sha256: bytes) -> str:
    """What the ledger keeps of an input: it identifies the file to holders of the key only."""
    return _hmac(release_key, _CONTEXT, "input", file_sha256).hex()


def file_key(
    release_key: bytes,
    *,
    release: str,
    stream: str,
    terms: Mapping[str, object],
    source: str,
    file_sha256: bytes,
) -> bytes:
    """Key of one file of a release."""
    text = json.dumps(terms, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return _hmac(release_key, _CONTEXT, "file", release, stream, text, source, file_sha256)


def stretch_key(key: bytes, first_row: int, rows: int) -> bytes:
    """Key of `rows` rows of a file from `first_row` on."""
    return _hmac(key, _CONTEXT, "stretch", str(first_row), str(rows))


def _hmac(key: bytes, *parts: str | bytes) -> bytes:
    message = b""
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        message += len(raw).to_bytes(8, "big") + raw
    return hmac.new(key, message, hashlib.sha256).digest()
