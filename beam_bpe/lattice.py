"""All segmentations of a text by a Unigram model: the n best of them, and samples (Kudo 2018, "Subword Regularization").

Sums and probabilities are those of 64 bits, also of a model whose encoding rounds to 32.
"""

from __future__ import annotations

import math
import random
from hashlib import blake2b
from typing import Iterable, Mapping, NamedTuple, Sequence


class Edge(NamedTuple):
    """One way in which a segmentation may go on to a place: a piece that begins at `start`."""

    start: int
    id: int
    score: float


class Lattice:
    """The segmentations of texts; a path from the beginning of a text to its end is one.

    Args:
        pieces: id and score of each piece.
        unk: id and score of a character that is no piece.
        byte_ids: what an unknown character becomes, by byte; None: its id, of neighbours one.
        inside: a character with which pieces may only begin, where each of its places begins a text of its own; "": none.

    >>> lattice = Lattice({"a": (1, -1.0), "b": (2, -1.5), "ab": (3, -2.0)}, (0, -9.0))
    >>> lattice.best("ab", 5)
    [([3], -2.0), ([1, 2], -2.5)]
    """

    def __init__(
        self,
        pieces: Mapping[str, tuple[int, float]],
        unk: tuple[int, float],
        byte_ids: Sequence[int] | None = None,
        inside: str = "",
    ):
        self._pieces, self._unk, self._byte_ids, self._inside = pieces, unk, byte_ids, inside
        self._longest = max(map(len, pieces), default=1)

    def edges(self, text: str) -> list[list[Edge]]:
        """Return the edges that end at each place of a text, in the order of their beginnings."""
        found: list[list[Edge]] = [[] for _ in range(len(text) + 1)]
        for start in range(len(text)):
            stop = min(len(text), start + self._longest)
            if self._inside and (mark := text.find(self._inside, start + 1, stop)) >= 0:
                stop = mark
            for end in range(start + 1, stop + 1):
                piece = self._pieces.get(text[start:end])
                if piece is not None:
                    found[end].append(Edge(start, *piece))
                elif end == start + 1:
                    found[end].append(Edge(start, *self._unk))
        return found

    def best(self, text: str, n: int) -> list[tuple[list[int], float]]:
        """Return ids and sum of the n segmentations with the highest sums of scores, or of all if they are fewer.

        Of equal sums that whose last piece begins first comes first.
        """
        edges = self.edges(text)
        ways: list[list[tuple[float, int, Edge]]] = [[] for _ in edges]  # the sum, which way to the start, and the last piece
        ways[0] = [(0.0, 0, Edge(0, -1, 0.0))]
        for end in range(1, len(edges)):
            candidates = [
                (way[0] + edge.score, rank, edge) for edge in edges[end] for rank, way in enumerate(ways[edge.start])
            ]
            ways[end] = sorted(candidates, key=lambda way: -way[0])[:n]
        found = []
        for rank, (total, _, _) in enumerate(ways[-1][:n]):
            path: list[Edge] = []
            end = len(text)
            while end:
                _, rank, edge = ways[end][rank]
                path.append(edge)
                end = edge.start
            found.append((self._ids(text, path[::-1]), total))
        return found

    def sample(self, text: str, alpha: float, seed: int) -> list[int]:
        """Return the ids of a segmentation, drawn with a probability that is proportional to exp(alpha · its sum).

        Sums of all ways to a place are taken from the left, then pieces are drawn from the right.
        """
        edges = self.edges(text)
        draws = random.Random(int.from_bytes(blake2b(f"{seed} {text}".encode(), digest_size=16).digest(), "big"))
        sums = [0.0] * len(edges)  # logarithms
        for end in range(1, len(edges)):
            sums[end] = _log_sum([sums[edge.start] + alpha * edge.score for edge in edges[end]])
        path: list[Edge] = []
        end = len(text)
        while end:
            weights = [math.exp(sums[edge.start] + alpha * edge.score - sums[end]) for edge in edges[end]]
            path += draws.choices(edges[end], weights)
            end = path[-1].start
        return self._ids(text, path[::-1])

    def best_of_parts(self, parts: Iterable[str | int], n: int) -> list[tuple[list[int], float]]:
        """Return the same of several texts side by side, and of ids, which are what they are."""
        found: list[tuple[list[int], float]] = [([], 0.0)]
        for part in parts:
            more = [([part], 0.0)] if isinstance(part, int) else self.best(part, n)
            both = [(ids + others, score + other) for ids, score in found for others, other in more]
            found = sorted(both, key=lambda one: -one[1])[:n]
        return found

    def sample_of_parts(self, parts: Iterable[str | int], alpha: float, seed: int) -> list[int]:
        """Return the same of several texts side by side, each of which is drawn in its own way, and of ids."""
        ids: list[int] = []
        for number, part in enumerate(parts):
            ids += [part] if isinstance(part, int) else self.sample(part, alpha, seed + (number << 64))
        return ids

    def _ids(self, text: str, path: Sequence[Edge]) -> list[int]:
        ids: list[int] = []
        after_unknown = False
        for edge, end in zip(path, [*(edge.start for edge in path[1:]), len(text)]):
            unknown = edge.id == self._unk[0]
            if self._inside and text[edge.start] == self._inside:
                after_unknown = False
            if unknown and self._byte_ids is not None:
                ids += [self._byte_ids[byte] for byte in text[edge.start : end].encode()]
            elif not (unknown and after_unknown):
                ids.append(edge.id)
            after_unknown = unknown
        return ids


def _log_sum(values: Sequence[float]) -> float:
    """Return the logarithm of the sum of exponentials."""
    highest = max(values)
    return highest + math.log(math.fsum(math.exp(value - highest) for value in values))
