"""Find added tokens in a document: special ones where they are allowed, others always.

As Hugging Face's AddedVocabulary: leftmost first, of those that start together the longest; first all
that are not `normalized` in the text as it is, then, in what is left between them, the normalized ones.
"""

from __future__ import annotations

import re
from typing import Iterable, Iterator, Mapping, NamedTuple, Sequence

import regex

from beam_bpe.layout import AddedToken
from beam_bpe.normalize import normalize, normalize_bytes
from beam_bpe.rewriting import before_and_behind, not_first
from beam_bpe.texts import WHITE_SPACE

_SPACES = frozenset(WHITE_SPACE)
_WORD = regex.compile(r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]")

_KEY = 3  # bytes by which tokens are told apart at first: those of most characters
_FEW_STARTS = 64


class Segment(NamedTuple):
    """A part of a document: text between added tokens, or (token is not None) one of them.

    start and end are offsets in the bytes of the document.
    """

    data: bytes
    token: AddedToken | None
    start: int
    end: int


class AddedTokens:
    """Cut a document at the added tokens that may be found in it.

    Args:
        tokens: those that may be found.
        normalizer: name of the normalizer of what is between them.
        symbols: texts that it leaves as they are.

    >>> found = AddedTokens([AddedToken("<|end|>", 256)]).cut(b"low<|end|> low")
    >>> [(segment.data, segment.token is not None) for segment in found]
    [(b'low', False), (b'<|end|>', True), (b' low', False)]
    """

    def __init__(self, tokens: Iterable[AddedToken], normalizer: str | None = None, symbols: tuple[str, ...] = ()):
        tokens = list(tokens)
        self._symbols = symbols
        self._normalizer, self._behind = before_and_behind(normalizer)
        first = {token.text.encode(): token for token in tokens if not token.normalized}
        later = {normalize(token.text, self._normalizer).encode(): token for token in reversed(tokens) if token.normalized}
        self._passes = [_Finder(found, found is later) for found in (first, later) if found]

    def may_occur_in(self, data: bytes) -> bool:
        """Whether a token may be found in bytes, looked for quickly; False only if none is."""
        if self._normalizer is not None and any(finder.later for finder in self._passes):
            return True
        return any(finder.may_occur_in(data) for finder in self._passes)

    def cut(self, data: bytes) -> list[Segment]:
        """Return the segments of a document; without a normalizer their bytes are those of the document."""
        segments = [Segment(data, None, 0, len(data))]
        normalized = self._normalizer is None
        for finder in self._passes:
            if finder.later and not normalized:
                segments = [self._normal(segment, self._normalizer) for segment in segments]
                normalized = True
            segments = [part for segment in segments for part in _cut_one(segment, finder)]
        if not normalized:
            segments = [self._normal(segment, self._normalizer) for segment in segments]
        if self._behind is None:
            return segments
        name = self._behind
        return [self._normal(segment, not_first(name) if segment.start else name) for segment in segments]

    def _normal(self, segment: Segment, name: str | None) -> Segment:
        if segment.token is not None:
            return segment
        return segment._replace(data=normalize_bytes(segment.data, name, self._symbols))


def _cut_one(segment: Segment, finder: _Finder) -> Sequence[Segment]:
    if segment.token is not None:
        return [segment]
    data, base = segment.data, segment.start
    parts: list[Segment] = []
    at = taken = 0
    run = (-1, -1)  # the last whitespace that was asked for: it is not read again for each token within it
    for start, end, token in finder.find(data):
        if token.single_word and (_ends_with_word(data[max(0, start - 4) : start]) or _starts_with_word(data[end : end + 4])):
            continue
        if token.lstrip:
            start = max(at, _before_spaces(data, start, at))
        if token.rstrip:
            if not run[0] <= end <= run[1]:
                run = end, _behind_spaces(data, end)
            end = run[1]
        # Whitespace that a token took may hold another token: `tokenizers` finds that as well, and goes on behind it,
        # unless whitespace was all that it had.
        if start > at:
            parts.append(Segment(data[at:start], None, base + at, base + start))
        if end > start:
            start, taken = max(start, taken), max(end, taken)
            parts.append(Segment(data[start:end], token, base + start, base + max(start, end)))
        at = end
    if at < len(data) or not parts:
        parts.append(Segment(data[at:], None, base + at, base + len(data)))
    return parts


class _Finder:
    """Find the tokens in bytes: leftmost first, the longest of those that start together.

    A place costs as much as there are different lengths among the tokens that begin as its bytes do, however
    many tokens there are.
    """

    def __init__(self, tokens: Mapping[bytes, AddedToken], later: bool):
        self.later = later
        self._tokens = tokens
        lengths: dict[bytes, set[int]] = {}
        for token in tokens:
            lengths.setdefault(token[:_KEY], set()).add(len(token))
        short = sorted({len(token) for token in tokens if len(token) < _KEY}, reverse=True)
        self._short = tuple(short)
        self._lengths = {start: (*sorted(found - set(short), reverse=True), *short) for start, found in lengths.items()}
        self._starts = sorted(self._lengths, key=len, reverse=True)
        if len(self._starts) <= _FEW_STARTS:
            pattern = b"|".join(map(re.escape, self._starts))
        else:
            pattern = b"[" + b"".join(re.escape(bytes([byte])) for byte in sorted({start[0] for start in self._starts})) + b"]"
        self._search = re.compile(pattern).search

    def may_occur_in(self, data: bytes) -> bool:
        """Whether something that begins as a token does stands in bytes; looked for quickly."""
        if len(self._starts) <= 8:  # by far faster than a regex
            return any(start in data for start in self._starts)
        return self._search(data) is not None

    def find(self, data: bytes) -> Iterator[tuple[int, int, AddedToken]]:
        """Yield (start, end, token); what was found does not overlap."""
        at = 0
        while match := self._search(data, at):
            at = match.start()
            for length in self._lengths.get(data[at : at + _KEY], self._short):
                piece = data[at : at + length]  # shorter at the end of the data
                token = self._tokens.get(piece)
                if token is not None:
                    yield at, at + len(piece), token
                    at += len(piece)
                    break
            else:
                at += 1


def _starts_with_word(data: bytes) -> bool:
    return _WORD.match(data.decode("utf-8", "replace")[:1]) is not None


def _ends_with_word(data: bytes) -> bool:
    return _WORD.match(data.decode("utf-8", "replace")[-1:]) is not None


def _before_spaces(data: bytes, at: int, first: int) -> int:
    """Return where the whitespace that ends at `at` begins; it is looked for no further than to `first`."""
    while at > first:
        start = at - 1
        while start and at - start < 4 and data[start] & 0xC0 == 0x80:
            start -= 1
        if data[start:at].decode("utf-8", "replace") not in _SPACES:
            return at
        at = start
    return at


def _behind_spaces(data: bytes, at: int) -> int:
    """Return where the whitespace that begins at `at` ends."""
    while at < len(data):
        lead = data[at]
        end = at + (1 if lead < 0x80 else 2 if lead < 0xE0 else 3)
        if data[at:end].decode("utf-8", "replace") not in _SPACES:
            return at
        at = end
    return at
