"""Learn byte-pair merges from a table of distinct words with counts."""

from collections.abc import Callable
from typing import Any

from typing_extensions import Self, disjoint_base

TIE_RULES: dict[str, int]
ANY_SCRIPT: int
SCRIPT_BEFORE: int
NO_SYMBOL: int
CODE_POINTS: int
PLACES: int
STOP_REASONS: dict[int, str]

@disjoint_base
class MergeLoop:
    def __new__(
        cls,
        counts: Any,
        spellings: list[bytes],
        min_pair_count: int = 1,
        max_token_length: int = 0xFFFFFFFF,
        tie_rule: int = ...,
        lengths: Any = None,
        prefix: bytes = b"",
        reserved: int = 0,
        frequencies: Any = None,
        scripts: Any = None,
        excluded: list[bytes] | None = None,
    ) -> Self: ...
    def measure(self, offsets: Any, counts: Any) -> None: ...
    def allocate(self) -> None: ...
    def add_bytes(self, data: Any, offsets: Any, counts: Any, ids: Any) -> None: ...
    def add_characters(self, data: Any, offsets: Any, counts: Any, ids: Any, end_of_word: int = ...) -> None: ...
    def run(
        self, merges: int, progress: Callable[[int, int], Any] | None = None, tokens: int = 0xFFFFFFFF
    ) -> str: ...
    def merges(self) -> tuple[bytes, bytes, bytes, bytes, bytes]: ...
    @property
    def peak_bytes(self) -> int: ...

def count_characters(data: Any, offsets: Any, counts: Any, found: Any) -> None: ...
def symbol_offsets(data: Any, offsets: Any, more: int = 0) -> bytes: ...
