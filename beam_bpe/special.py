"""Special tokens: texts such as <|endoftext|> that cut a document and are never learned from."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, Iterator, Sequence

import numpy as np


class SpecialTokens:
    """Find special tokens in bytes: leftmost first, and the longest of those that start together.

    Raises:
        ValueError: a token is empty or no text, or stands twice.

    >>> tokens = SpecialTokens(["<|end|>"])
    >>> bounds, cuts = tokens.cut(b"a<|end|>bc", np.array([0, 10]))
    >>> bounds.tolist(), cuts
    ([0, 1, 8, 10], 1)
    """

    def __init__(self, tokens: Sequence[str] = ()):
        if isinstance(tokens, str):
            raise TypeError(f"special_tokens is a list of texts, not one text: {tokens!r}")
        self.tokens = tuple(tokens)
        seen: set[str] = set()
        for i, token in enumerate(self.tokens):
            if not isinstance(token, str):
                raise TypeError(f"special token {i} is a {type(token).__name__}, not text: {token!r}")
            if not token:
                raise ValueError(f"special token {i} is empty")
            if any("\ud800" <= char <= "\udfff" for char in token):
                raise ValueError(f"special token {token!r} holds half a surrogate pair, which no text does")
            if token in seen:
                raise ValueError(f"special token {token!r} stands twice")
            seen.add(token)
        self.encoded = tuple(token.encode() for token in self.tokens)

    @property
    def longest(self) -> int:
        """Bytes of the longest token, 0 without any."""
        return max(map(len, self.encoded), default=0)

    @cached_property
    def _finder(self) -> re.Pattern[bytes]:
        return re.compile(b"|".join(re.escape(t) for t in sorted(self.encoded, key=len, reverse=True)))

    def __getstate__(self) -> dict[str, Any]:
        return {"tokens": self.tokens, "encoded": self.encoded}

    def cut(self, data: Any, bounds: np.ndarray) -> tuple[np.ndarray, int]:
        """Cut documents at special tokens; return the bounds of what is left and the number of cuts.

        Args:
            data: a buffer of bytes.
            bounds: int64 of length 2n; document d is data[bounds[2d]:bounds[2d + 1]].
        """
        if not any(self._holds(data, token) for token in self.encoded):
            return bounds, 0
        pieces: list[int] = []
        cuts = 0
        for start, end in zip(bounds[::2].tolist(), bounds[1::2].tolist()):
            for match in self._finder.finditer(data, start, end):
                if match.start() > start:
                    pieces += (start, match.start())
                start = match.end()
                cuts += 1
            if end > start:
                pieces += (start, end)
        return np.array(pieces, np.int64), cuts

    def finditer(self, data: bytes) -> Iterator[re.Match[bytes]]:
        """Yield the occurrences of the tokens in bytes, in order."""
        return self._finder.finditer(data) if self.encoded else iter(())

    @staticmethod
    def _holds(data: Any, token: bytes) -> bool:
        if isinstance(data, (bytes, bytearray)):
            return token in data
        return re.search(re.escape(token), data) is not None

    def spans(self, data: bytes, at: int) -> bool:
        """Whether an occurrence of a token starts before `at` and ends behind it."""
        for token in self.encoded:
            window = data[max(0, at - len(token) + 1) : at + len(token) - 1]
            if token in window:
                return True
        return False

    def occurring_in(self, words: Any) -> Iterator[tuple[str, bytes]]:
        """Yield (token, word) for tokens that occur inside a word of an Arrow column."""
        import pyarrow.compute as pc

        for token, encoded in zip(self.tokens, self.encoded):
            hits = pc.match_substring(words, encoded)
            if pc.any(hits).as_py():
                yield token, words.filter(hits)[0].as_py()
