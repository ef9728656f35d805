"""The file of a saved model: facts as JSON and blobs of bytes, under a version and a checksum."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import uuid
from dataclasses import dataclass
from typing import Any

import torch

from .errors import failure

from . import _C  # isort: skip

__all__ = ["Package", "read", "write"]

_MAGIC = b"tpjrtpkg"
_FORMAT = 2  # raised whenever the bytes or the facts change
_HEADER = struct.Struct("<8sI32sQ")  # magic, version, SHA-256 of what follows it, size of the facts


@dataclass(frozen=True)
class Package:
    """`facts` refer to blobs by their number."""

    facts: dict[str, Any]
    blobs: list[bytes]


def versions() -> dict[str, Any]:
    """What has to be the same where a file is loaded."""
    from . import __version__

    torch_version = ".".join(str(torch.__version__).split("+")[0].split(".")[:2])
    return {"torch_pjrt": __version__, "torch": torch_version, "graph": _C.GRAPH_VERSION}


def write(path: str, package: Package) -> None:
    """Replaces the file at once: whoever reads meanwhile gets the old one or the new one, whole.

    Raises Error (io) where it can't be written.
    """
    sizes = [len(blob) for blob in package.blobs]
    facts = json.dumps({**package.facts, "versions": versions(), "sizes": sizes}).encode()
    body = b"".join([facts, *package.blobs])
    content = _HEADER.pack(_MAGIC, _FORMAT, hashlib.sha256(body).digest(), len(facts)) + body
    unfinished = f"{path}.{uuid.uuid4().hex}.unfinished"
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, path)
        except BaseException:
            os.unlink(unfinished)
            raise
    except OSError as error:
        raise failure(
            "io",
            what=f"{path} can't be written: {error.strerror}",
            remedy="free space there, or name another file",
        ) from error


def read(path: str) -> Package:
    """Raises Error (io) for a file that isn't one, is damaged, was made by another version, or that
    somebody else could have written."""
    content = _read_trusted(path)
    if len(content) < _HEADER.size or not content.startswith(_MAGIC):
        raise _refused(path, "is no file of torch_pjrt.save")
    _, version, digest, facts_size = _HEADER.unpack_from(content)
    if version != _FORMAT:
        raise _refused(path, f"has version {version} of the format, and this is {_FORMAT}")
    body = memoryview(content)[_HEADER.size :]
    if hashlib.sha256(body).digest() != digest or facts_size > len(body):
        raise _refused(path, "is damaged: its checksum doesn't fit")
    facts = json.loads(bytes(body[:facts_size]))
    if facts["versions"] != versions():
        raise _refused(path, f"was made by {facts['versions']}, and this is {versions()}")
    blobs, at = [], facts_size
    for size in facts["sizes"]:
        blobs.append(bytes(body[at : at + size]))
        at += size
    return Package(facts, blobs)


def _read_trusted(path: str) -> bytes:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if reason := _C.unsafe_reason(file.fileno()):
                raise failure(
                    "io",
                    what=f"{path} {reason}, and what is in it would be run as code",
                    remedy="copy it to a file of your own, if you would execute it",
                )
            return file.read()
    except OSError as error:
        raise failure(
            "io", what=f"{path} can't be read: {error.strerror}", remedy="check the path"
        ) from error


def _refused(path: str, why: str) -> Exception:
    return failure("io", what=f"{path} {why}", remedy="save the model again")
