"""Encode documents into token ids, decode ids into bytes, and find the merges of a rank file."""

from typing import Any

from typing_extensions import Self, disjoint_base

MOST_TOKENS: int
MOST_MERGES: int
MOST_TOKEN_BYTES: int

@disjoint_base
class Cache:
    def __new__(cls, size: int) -> Self: ...

@disjoint_base
class Decoded:
    def __new__(cls, tokens: Any, starts: Any, spaces: Any = None) -> Self: ...

@disjoint_base
class Characters:
    def __new__(
        cls, outer: Any, by_byte: Any, ends: bool = False, fused: int = ..., cuts: bool = True, never_dropped: int = 0
    ) -> Self: ...

@disjoint_base
class Pieces:
    def __new__(
        cls,
        tokens: Any,
        starts: Any,
        unk: int,
        prefix: bytes = b"",
        most_chars: int | None = None,
        unk_characters: bool = False,
        whole_words: bool = False,
    ) -> Self: ...

@disjoint_base
class Unigram:
    def __new__(
        cls,
        tokens: Any,
        starts: Any,
        scores: Any,
        unk: int,
        unk_score: float,
        byte_ids: Any = None,
        single_precision: bool = False,
    ) -> Self: ...

@disjoint_base
class Encoder:
    def __new__(
        cls,
        tokens: Any = None,
        starts: Any = None,
        byte_ids: Any = None,
        left: Any = None,
        right: Any = None,
        merged: Any = None,
        whole: Any = None,
        cache_bytes: int = ...,
        longest_match: bool = False,
        characters: Characters | None = None,
        pieces: Pieces | None = None,
        decoded: Decoded | None = None,
        ranks: Any = None,
        symbols: tuple[Any, Any] | None = None,
        unigram: Unigram | None = None,
    ) -> Self: ...
    @property
    def ordered(self) -> bool: ...
    def encode(
        self, data: Any, bounds: Any, pattern: int, most: int | None = None, width: int = 4
    ) -> tuple[bytes, bytes]: ...
    def encode_told(
        self, data: Any, bounds: Any, pattern: int, most: int | None = None, width: int = 4
    ) -> tuple[bytes, bytes, int]: ...
    def encode_words(
        self, data: Any, bounds: Any, pattern: int, most: int | None = None, width: int = 4, unk: int | None = None
    ) -> tuple[bytes, bytes, int, int, int]: ...
    def encode_dropout(
        self, data: Any, bounds: Any, pattern: int, dropout: float, seed: int, width: int = 4
    ) -> tuple[bytes, bytes]: ...
    def encode_list(self, data: bytes, pattern: int) -> list[int]: ...
    def count(self, data: Any, bounds: Any, pattern: int) -> bytes: ...
    def count_told(self, data: Any, bounds: Any, pattern: int) -> tuple[bytes, int, int]: ...
    def lengths(self, ids: Any) -> bytes: ...
    def decode(self, ids: Any) -> bytes: ...
    def decode_list(self, ids: list[int]) -> bytes: ...
    def decode_documents(self, ids: Any, ends: Any) -> tuple[bytes, bytes]: ...

def recover_merges(tokens: Any, starts: Any, ranks: Any = None) -> tuple[bytes, bytes, bytes, bytes]: ...
