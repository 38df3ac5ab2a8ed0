"""Map the characters of documents, reorder marks, and compose: bytes to bytes."""

from typing import Any

from typing_extensions import disjoint_base

KEEP: int
STRING: int
SPACED: int
DROP: int
BARRIER: int
MARKED: int
SLOW: int
NO_STRING: int

@disjoint_base
class CharacterMap:
    def __init__(self, blocks: Any, entries: Any, pool: Any) -> None: ...
    def documents(self, data: Any, bounds: Any) -> tuple[bytes, bytes]: ...

@disjoint_base
class Spacing:
    def __init__(self, squeeze: bool = ..., before: bool = ..., behind: bool = ..., escape: bool = ...) -> None: ...
    def documents(self, data: Any, bounds: Any) -> tuple[bytes, bytes]: ...

@disjoint_base
class Composition:
    def __init__(self, quick: CharacterMap, decomposed: CharacterMap, pairs: Any) -> None: ...
    def documents(self, data: Any, bounds: Any) -> tuple[bytes, bytes]: ...
