"""Encoding by SentencePiece's models in plain Python: BPE by scores (Kudo and Richardson 2018), and Unigram (Kudo 2018).

Both run over a whole normalized text, as `reference_sentencepiece.normalize` gives it.

>>> encoder = Encoder(["<unk>", "▁", "l", "o", "w", "lo", "low"], [0, -9, -9, -9, -9, -1, -2], ["unknown"] + ["normal"] * 6, "bpe")
>>> [encoder.pieces[i] for i in encoder.encode("▁low")]
['▁', 'low']
"""

from __future__ import annotations

import heapq
import struct
from typing import Iterable, Iterator, Sequence

from beam_bpe.reference_sentencepiece import BYTE, CONTROL, NORMAL, SPACE, UNKNOWN, UNUSED, USER_DEFINED, cut, text_of

_UNKNOWN_PENALTY = 10.0
_FURTHEST_SUM = 100_000.0


class Encoder:
    """Encode normalized text by a model's pieces, and decode ids.

    Args:
        pieces, scores, kinds: by id; scores are those of a float of 32 bits.
        algorithm: "bpe" or "unigram".
        byte_fallback: an unknown character becomes the pieces of its bytes.
    """

    def __init__(
        self, pieces: Sequence[str], scores: Sequence[float], kinds: Sequence[str], algorithm: str, byte_fallback: bool = False
    ):
        if algorithm not in ("bpe", "unigram"):
            raise ValueError(f"algorithm={algorithm!r}: choose 'bpe' or 'unigram'")
        self.pieces, self.scores, self.kinds, self.algorithm = pieces, scores, kinds, algorithm
        self.ids = {piece: i for i, piece in enumerate(pieces)}
        self.known = {piece: i for piece, i in self.ids.items() if kinds[i] in (NORMAL, USER_DEFINED, UNUSED)}
        self.user_defined = [piece for piece, i in self.known.items() if kinds[i] == USER_DEFINED]
        self.unknown = list(kinds).index(UNKNOWN)
        self.byte_fallback = byte_fallback
        self.longest = max(map(len, self.known), default=0)
        normal = [score for score, kind in zip(scores, kinds) if kind == NORMAL]
        if algorithm == "unigram" and not normal:
            raise ValueError("a Unigram model needs a normal piece, whose score says what an unknown character scores")
        self.lowest = min(normal, default=0.0)

    def encode(self, normalized: str) -> list[int]:
        """Return ids; unknown pieces side by side are one id, or with byte_fallback those of their bytes."""
        ids: list[int] = []
        fused = False
        for piece, i in self.segment(normalized):
            unknown = i == self.unknown
            if unknown and self.byte_fallback:
                ids += [self.ids[f"<0x{byte:02X}>"] for byte in piece.encode()]
            elif not (unknown and fused):
                ids.append(i)
            fused = unknown
        return ids

    def segment(self, normalized: str) -> list[tuple[str, int]]:
        """Return the pieces of a text and their ids, each unknown character with that of the unknown piece."""
        return (self._merged if self.algorithm == "bpe" else self._best_path)(normalized)

    def _merged(self, text: str) -> list[tuple[str, int]]:
        """Merge the pair whose spelling has the highest score, of equal ones the leftmost, as long as there is one.

        User-defined symbols are found first and never merged.  An unused piece merges on, and is taken apart if it is left.
        """
        symbols, frozen = [], []
        for symbol, is_user_defined in cut(text, self.user_defined):
            symbols.append(symbol)
            frozen.append(is_user_defined)
        before = list(range(-1, len(symbols) - 1))
        behind = [*range(1, len(symbols)), -1]
        heap: list[tuple[float, int, int, int]] = []
        parts: dict[str, tuple[str, str]] = {}  # of unused pieces

        def consider(left: int, right: int) -> None:
            if left < 0 or right < 0 or frozen[left] or frozen[right]:
                return
            spelling = symbols[left] + symbols[right]
            if spelling in self.known:
                heapq.heappush(heap, (-self.scores[self.known[spelling]], left, right, len(spelling)))
                if self.kinds[self.known[spelling]] == UNUSED:
                    parts[spelling] = symbols[left], symbols[right]

        for i in range(1, len(symbols)):
            consider(i - 1, i)
        while heap:
            _, left, right, length = heapq.heappop(heap)
            if not symbols[left] or not symbols[right] or len(symbols[left]) + len(symbols[right]) != length:
                continue  # one of them has been merged
            symbols[left] += symbols[right]
            symbols[right] = ""
            behind[left] = behind[right]
            if behind[left] >= 0:
                before[behind[left]] = left
            consider(before[left], left)
            consider(left, behind[left])

        def taken_apart(symbol: str) -> Iterator[tuple[str, int]]:
            i = self.known.get(symbol, self.unknown)
            if self.kinds[i] != UNUSED:
                yield symbol, i
            elif symbol in parts:
                for part in parts[symbol]:
                    yield from taken_apart(part)
            else:
                yield symbol, self.unknown

        return [piece for symbol in symbols if symbol for piece in taken_apart(symbol)]

    def _best_path(self, text: str) -> list[tuple[str, int]]:
        """Return the path with the highest sum of scores (Viterbi); of equal ones that whose last piece begins first.

        An unknown character scores 10 less than the lowest score, a user-defined symbol 0.1 for each byte but its first.
        Sums are those of the text from its beginning, in single precision; one beyond 100,000 becomes 0, and those ahead
        lose as much.  So near ties depend on all that stands before, and no word can be cut alone.  This is as in
        sentencepiece 0.2.3.
        """
        unknown_score = _single(self.lowest - _UNKNOWN_PENALTY)
        best: list[tuple[float, int, int] | None] = [None] * (len(text) + 1)  # the sum, and the last piece: its start and id
        best[0] = 0.0, 0, -1

        def reach(end: int, score: float, start: int, i: int) -> None:
            score, there = _single(score), best[end]
            if there is None or score > there[0]:
                best[end] = score, start, i

        for start in range(len(text)):
            here = best[start]
            if here is None:
                continue
            furthest = min(len(text), start + self.longest)
            base = here[0]
            if abs(base) > _FURTHEST_SUM:
                for at in range(start, furthest + 1):
                    if (there := best[at]) is not None:
                        best[at] = _single(there[0] - base), *there[1:]
                base = 0.0
            alone = False  # whether its first character is a piece
            for end in range(start + 1, furthest + 1):
                i = self.known.get(text[start:end], self.unknown)
                if self.kinds[i] in (UNKNOWN, UNUSED):
                    continue
                score = self.scores[i]
                if self.kinds[i] == USER_DEFINED:
                    score = _single((len(text[start:end].encode()) - 1) * 0.1)
                reach(end, base + score, start, i)
                alone = alone or end == start + 1
            if not alone:
                reach(start + 1, base + unknown_score, start, self.unknown)
        path = []
        end = len(text)
        while end:
            _, start, i = best[end] or (0.0, 0, -1)
            path.append((text[start:end], i))
            end = start
        return path[::-1]

    def decode(
        self,
        ids: Iterable[int],
        *,
        add_dummy_prefix: bool = True,
        remove_extra_whitespaces: bool = True,
        unk_surface: str = " \u2047 ",
    ) -> str:
        """Return the text of ids: U+2581 as spaces, but for the one before the text; control pieces are no text.

        Without `remove_extra_whitespaces` one space is dropped, with it those of all pieces before any text.
        """
        text, pending = "", bytearray()
        at_start, dropped = True, False
        for i in [*ids, None]:
            if i is not None and self.kinds[i] == BYTE:
                pending.append(int(self.pieces[i][3:5], 16))
                continue
            text += text_of(bytes(pending))
            pending.clear()
            if dropped or text:
                at_start = False
            dropped = False
            if i is None or self.kinds[i] == CONTROL:
                continue
            if i == self.unknown:
                text += unk_surface
                continue
            piece = self.pieces[i]
            if at_start and (add_dummy_prefix or remove_extra_whitespaces):
                dropped = piece.startswith(SPACE) and not remove_extra_whitespaces
                piece = piece.removeprefix(SPACE)
            text += piece.replace(SPACE, " ")
        return text


def _single(number: float) -> float:
    """Return the nearest float of 32 bits."""
    return float(struct.unpack("f", struct.pack("f", number))[0])
