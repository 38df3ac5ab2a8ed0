"""The elements that word tables travel as: (shard, parameters and packed words in one bytes object)."""

from __future__ import annotations

import json
from typing import Any, Mapping

from beam_bpe.artifacts import canonical_json

#: The shard number under which the totals travel (as JSON instead of packed words).
TOTALS_SHARD = -1


def frame(parameters: Mapping[str, Any], payload: bytes) -> bytes:
    """Return bytes that hold the parameters a table was made with and the packed table."""
    head = canonical_json(parameters).encode()
    return b"".join((len(head).to_bytes(4, "little"), head, payload))


def unframe(framed: bytes) -> tuple[dict[str, Any], memoryview]:
    """Return the parameters and the payload (without copying it)."""
    view = memoryview(framed)
    size = int.from_bytes(view[:4], "little")
    return json.loads(bytes(view[4 : 4 + size])), view[4 + size :]
