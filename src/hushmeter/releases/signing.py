"""Signatures of public receipts with Ed25519 keys that the publisher holds.

A signature covers every field of the public receipt except the signature itself. The signed bytes
are the receipt as JSON with sorted names, without spaces and with ASCII letters only.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushmeter.errors import DataError, InputError
from hushmeter.files import create_file, refuse_overwrite

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

ALGORITHM = "ed25519"


def make_signing_key(path: str | Path) -> list[Path]:
    """Make a new Ed25519 key pair."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private, public = (Path(f"{path}{ending}") for ending in (".key", ".pub"))
    for file in (private, public):
        refuse_overwrite(file, force=False, remedy="choose another name")
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    known = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    try:
        for file, content in ((private, secret), (public, known)):
            create_file(file, content, public=file is public)
    except OSError as error:
        raise DataError(f"{file} cannot be written: {error.strerror}.") from None
    return [private, public]


def make_signature(fields: dict[str, Any], key_file: str | Path) -> dict[str, str]:
    """Sign the fields of a public receipt."""
    key = _read_private_key(Path(key_file))
    return {
        "algorithm": ALGORITHM,
        "public_key": _encode(key.public_key().public_bytes_raw()),
        "value": _encode(key.sign(signed_bytes(fields))),
    }


def check_signature(fields: dict[str, Any], key_file: str | Path | None) -> str:
    """Check the signature of a public receipt."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    signature = fields.get("signature")
    if signature is None:
        if key_file is not None:
            raise DataError("the receipt is not signed, so the key cannot confirm it.")
        return "The receipt is not signed."
    try:
        if signature["algorithm"] != ALGORITHM:
            raise DataError(f"the signature is not of the kind {ALGORITHM}.")
        named = Ed25519PublicKey.from_public_bytes(_decode(signature["public_key"]))
        value = _decode(signature["value"])
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError("the signature of the receipt cannot be read.") from None
    key = named if key_file is None else _read_public_key(Path(key_file))
    if key.public_bytes_raw() != named.public_bytes_raw():
        raise DataError("the receipt is signed with another key than the given one.")
    try:
        key.verify(value, signed_bytes(fields))
    except InvalidSignature:
        raise DataError("the signature does not fit the receipt, which was changed.") from None
    if key_file is None:
        return "The signature is valid for the key that the receipt names; add --key to compare."
    return "The receipt is signed with the given key."


def signed_bytes(fields: dict[str, Any]) -> bytes:
    """Return the bytes that a signature covers: the receipt without its signature."""
    covered = {name: value for name, value in fields.items() if name != "signature"}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return text.encode("ascii")


def _read_private_key(path: Path) -> Ed25519PrivateKey:
    """Read an Ed25519 private key; raise `DataError` if the file is not one."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = _load(path, lambda content: load_pem_private_key(content, None))
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{path} is not an Ed25519 private key; make one with verify --new-key.")
    return key


def _read_public_key(path: Path) -> Ed25519PublicKey:
    """Read an Ed25519 public key; raise an error if the file is not one."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    key = _load(path, load_pem_public_key)
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{path} is not an Ed25519 public key.")
    return key


def _load(path: Path, parse: Any) -> Any:
    """Parse a PEM file; None if it holds no key that can be read without a password."""
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return parse(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


def _encode(content: bytes) -> str:
    """Bytes as base64 text."""
    return base64.b64encode(content).decode("ascii")


def _decode(text: str) -> bytes:
    """Base64 text as bytes; raise ValueError if it is not base64."""
    return base64.b64decode(text, validate=True)
