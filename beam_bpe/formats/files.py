"""Reading and writing the small files of vocabularies: bounded in size, whole or absent, checked JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from beam_bpe import storage
from beam_bpe.artifacts import FormatError

#: The largest vocabulary files of today have 30 MB.
MOST_BYTES = 1 << 30
#: The deepest nesting of an object.  tokenizer.json files of today have 7; Python's own functions end near 1,000.
MOST_LEVELS = 100
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


def read(path: str) -> bytes:
    """Return the bytes of a file, uncompressed; FormatError if they are more than `MOST_BYTES`."""
    parts, size = [], 0
    with storage.open_read(path) as file:
        while block := file.read(1 << 22):
            parts.append(block)
            size += len(block)
            if size > MOST_BYTES:
                raise FormatError(f"{path} has more than {MOST_BYTES:,} bytes: that is no vocabulary")
    return b"".join(parts)


def read_text(path: str) -> str:
    """Return the text of a file, without a byte order mark; FormatError if it is not UTF-8."""
    try:
        return read(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not UTF-8 at byte {error.start:,}") from None


def read_json(path: str) -> dict[str, Any]:
    """Return the object of a JSON file; FormatError names path and position of what is wrong.

    A key that stands twice in an object is an error: of two ids of one token none would be right.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise FormatError(f"{path}: the key {twice[:80]!r} stands twice in one object")
        return found

    data = read(path)
    try:
        value = json.loads(data.decode("utf-8-sig"), object_pairs_hook=unique)
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not UTF-8 at byte {error.start:,}") from None
    except RecursionError:
        raise FormatError(f"{path} is nested too deeply") from None
    except FormatError:
        raise
    except ValueError as error:
        raise FormatError(f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise FormatError(f"{path} holds a {type(value).__name__}, not an object")
    if _levels(value) > MOST_LEVELS:
        raise FormatError(f"{path} is nested too deeply: in more than {MOST_LEVELS} levels")
    if _HALF.search(data):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = error.object[error.start : error.end][:1]
            raise FormatError(f"{path} holds {half!r}, half a surrogate pair, which is no text") from None
    return value


def _levels(value: Any) -> int:
    """Return how deeply lists and objects are nested, at most one level more than is allowed."""
    level, inner = 0, [value]
    while inner and level <= MOST_LEVELS:
        level += 1
        below: list[Any] = []
        for one in inner:
            held = one.values() if isinstance(one, dict) else one
            below += [part for part in held if isinstance(part, (dict, list))]
        inner = below
    return level


def write(path: str, data: bytes, overwrite: bool) -> None:
    """Write a file, whole or not at all; nothing is done where these bytes stand already.

    Raises:
        FileExistsError: other bytes stand there, and `overwrite` is not set.
    """
    if not overwrite and storage.exists(path):
        if storage.read_bytes(path) == data:
            return
        raise FileExistsError(f"{path} exists and is another one; choose another path or overwrite it (--overwrite)")
    storage.write_bytes(path, data)
