"""Dead letters: the documents of a range that are set aside, with the reason, as JSON lines."""

from __future__ import annotations

import base64
import hashlib
import json
from contextlib import ExitStack
from typing import Any, BinaryIO

from beam_bpe import storage


class DeadLetters:
    """The dead letters of one range; the file is published when the block ends well, if there are any.

    Args:
        folder: where it goes; None: nothing is written.
        url, start: the range, which names the file: a range that is read again writes the same file again.
        step: who sets aside, so that two steps of one range have a file each.
    """

    def __init__(self, folder: str | None, url: str, start: int, step: str = "rejected"):
        self._folder, self._url = folder, url
        digest = hashlib.sha256(f"{url}\n{start}".encode()).hexdigest()[:16]
        self._name = f"{step}-{digest}.jsonl"
        self._open = ExitStack()
        self._file: BinaryIO | None = None

    def __enter__(self) -> DeadLetters:
        self._open.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def add(self, reason: str, data: bytes | None = None, **place: int) -> None:
        """Set a document aside: the offset in the (uncompressed) file, or the row, and its bytes."""
        if self._folder is None:
            return
        if self._file is None:
            self._file = self._open.enter_context(storage.write(storage.join(self._folder, self._name)))
        letter: dict[str, Any] = {"source": self._url, **place, "reason": reason}
        if data is not None:
            letter["bytes"] = base64.b64encode(data).decode()
        self._file.write(json.dumps(letter).encode() + b"\n")
