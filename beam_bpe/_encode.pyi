"""Encode documents into token ids by the rank of merges, and decode ids into bytes."""

from typing import Any

from typing_extensions import Self, disjoint_base

MOST_TOKENS: int
MOST_MERGES: int

@disjoint_base
class Cache:
    def __new__(cls, slots: int) -> Self: ...

@disjoint_base
class Encoder:
    def __new__(
        cls,
        tokens: Any,
        starts: Any,
        byte_ids: Any,
        left: Any,
        right: Any,
        merged: Any,
        whole_pieces: bool = False,
        cache_bytes: int = ...,
    ) -> Self: ...
    @property
    def ordered(self) -> bool: ...
    def encode(self, data: Any, bounds: Any, pattern: int, most: int | None = None) -> tuple[bytes, bytes]: ...
    def lengths(self, ids: Any) -> bytes: ...
    def decode(self, ids: Any) -> bytes: ...
