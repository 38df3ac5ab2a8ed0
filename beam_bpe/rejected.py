"""Dead letters: the documents of a range that are set aside, with the reason, as JSON lines."""

from __future__ import annotations

import base64
import hashlib
import json
from contextlib import ExitStack
from typing import Any, BinaryIO, Iterable

from beam_bpe import storage


#: Longer documents are told of, but not copied: their place says where they are.
MOST_BYTES = 16 << 20


def letter_names(url: str, start: int, steps: Iterable[str]) -> list[str]:
    """Return the names of the files in which the dead letters of a range may stand, one for each step."""
    digest = hashlib.sha256(f"{url}\n{start}".encode()).hexdigest()[:16]
    return [f"{step}-{digest}.jsonl" for step in steps]


class DeadLetters:
    """The dead letters of one range; the file is published when the block ends well, if there are any.

    If there are none, a file that an earlier run left under its name is removed.

    Args:
        folder: where it goes; None: nothing is written.
        url, start: the range, which names the file: a range that is read again writes the same file again.
        step: who sets aside, so that two steps of one range have a file each.
    """

    def __init__(self, folder: str | None, url: str, start: int, step: str = "rejected"):
        self._folder, self._url = folder, url
        self._name = letter_names(url, start, [step])[0]
        self._open = ExitStack()
        self._file: BinaryIO | None = None

    def __enter__(self) -> DeadLetters:
        self._open.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)
        if self._folder is not None and self._file is None and error[0] is None:
            storage.remove(storage.join(self._folder, self._name))

    def add(self, reason: str, data: bytes | None = None, **place: int) -> None:
        """Set a document aside: the offset in the (uncompressed) file, or the row, and its bytes."""
        if self._folder is None:
            return
        if self._file is None:
            self._file = self._open.enter_context(storage.write(storage.join(self._folder, self._name)))
        letter: dict[str, Any] = {"source": self._url, **place, "reason": reason}
        if data is not None and len(data) <= MOST_BYTES:
            letter["bytes"] = base64.b64encode(data).decode()
        self._file.write(json.dumps(letter).encode() + b"\n")
