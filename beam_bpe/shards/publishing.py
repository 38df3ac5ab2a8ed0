"""Several files that are one thing: published one after the other, and whole when the last of them stands."""

from __future__ import annotations

import hashlib
import io
from contextlib import suppress
from typing import Any, Sequence

from beam_bpe import storage

BLOCK = 1 << 20  # bytes


class GivenUp(Exception):
    """Passed through an open file so that nothing is published; never leaves this module."""


class PendingFile(io.RawIOBase):
    """A file being written, not yet to be seen under its name; counts and digests what goes through."""

    def __init__(self, folder: str, name: str):
        super().__init__()
        self.name, self.size = name, 0
        self._digest = hashlib.sha256()
        self._target = storage.write(storage.join(folder, name))
        self._file = self._target.__enter__()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._file.write(view)
        self._digest.update(view)
        self.size += len(view)
        return len(view)

    def line(self) -> dict[str, Any]:
        """Return what a manifest says of this file; nothing may be written after."""
        return {"name": self.name, "bytes": self.size, "sha256": self._digest.hexdigest()}

    def publish(self) -> None:
        self._target.__exit__(None, None, None)

    def discard(self) -> None:
        error = GivenUp()
        with suppress(GivenUp, RuntimeError):  # the second: it was published or discarded before
            self._target.__exit__(GivenUp, error, None)


class Publication:
    """Files of a folder that appear together: the last of `names` is the one whose presence says that all stand.

    The deciding file of an older, different shard is removed before the first new file appears, so that no mixture
    ever looks whole. Identical files are left as they are: a duplicate of a finished task takes nothing away.

    Args:
        names: every file that may belong to it, the deciding one last.
    """

    def __init__(self, folder: str, names: Sequence[str]):
        self.folder, self.names = folder, list(names)
        self._pending: dict[str, PendingFile] = {}

    def open(self, name: str) -> PendingFile:
        """Begin one of the files."""
        self._pending[name] = PendingFile(self.folder, name)
        return self._pending[name]

    def lines(self) -> list[dict[str, Any]]:
        """Return name, bytes and SHA-256 of the files begun so far, in the order of publishing."""
        return [self._pending[name].line() for name in self.names if name in self._pending]

    def publish(self) -> list[dict[str, Any]]:
        """Let the files appear and return their lines."""
        lines = self.lines()
        if len(self.names) > 1 and storage.exists(storage.join(self.folder, self.names[-1])):
            if all(self._stands(line) for line in lines):
                self.discard()
                return lines
            storage.remove(storage.join(self.folder, self.names[-1]))
        for name in self.names:
            if name in self._pending:
                self._pending.pop(name).publish()
            else:
                storage.remove(storage.join(self.folder, name))
        return lines

    def discard(self) -> None:
        """Give up every file that has not appeared yet."""
        while self._pending:
            self._pending.popitem()[1].discard()

    def _stands(self, line: dict[str, Any]) -> bool:
        digest, size = hashlib.sha256(), 0
        try:
            with storage.open_read(storage.join(self.folder, line["name"]), compression=None) as file:
                while size <= line["bytes"] and (block := file.read(BLOCK)):
                    digest.update(block)
                    size += len(block)
        except FileNotFoundError:
            return False
        return (size, digest.hexdigest()) == (line["bytes"], line["sha256"])


def remove(folder: str, names: Sequence[str]) -> None:
    """Remove the files of a shard, the deciding one (the last) first; missing ones are fine."""
    for name in reversed(names):
        storage.remove(storage.join(folder, name))
