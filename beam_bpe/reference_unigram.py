"""The Unigram language model in plain Python: what its kernel is tested against, to the last bit of a score.

Kudo 2018, "Subword Regularization: Improving Neural Network Translation Models with Multiple Subword Candidates": seed
pieces, expectation maximization, pruning.  Substrings are counted one by one and every segment is cut anew, so nothing here
is meant for a real corpus.  Float operations stand in the order in which the kernel takes them.

>>> words = {"▁low": 50, "▁lower": 20, "▁newest": 60, "▁widest": 30}
>>> [piece for piece, score in learn_unigram(words, 15) if len(piece) > 1]
['▁newest', '▁low', '▁widest', '▁lower']
>>> scores = {"a": -2.0, "b": -2.0, "ab": -5.0, "ba": -2.5, "aba": -4.6}
>>> best_segmentation("abab", scores), best_segmentation("aba", scores, without="aba")
(['a', 'ba', 'b'], ['a', 'ba'])
"""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from typing import Callable, Collection, Iterable, Mapping

STEP = 2.0**256
LN2_HIGH, LN2_LOW = float.fromhex("0x1.62e42fee00000p-1"), float.fromhex("0x1.a39ef35793c76p-33")
SQRT_HALF = float.fromhex("0x1.6a09e667f3bcdp-1")
MINUS_INFINITY = -math.inf

Segments = list[tuple[str, int]]
Scores = dict[str, float]


def logarithm(x: float) -> float:
    """Return the natural logarithm out of additions, multiplications and divisions, as the kernel does."""
    m, e = math.frexp(x)
    if m < SQRT_HALF:
        m, e = m * 2, e - 1
    s = (m - 1) / (m + 1)
    z, total = s * s, 0.0
    for k in range(21, 2, -2):
        total = (total + 1.0 / k) * z
    return e * LN2_HIGH + (e * LN2_LOW + (2 * s + 2 * s * total))


def exponential(x: float) -> float:
    """Return e to the power of x likewise; 0 below -700."""
    if x < -700:
        return 0.0
    k = int(x * (1 / (LN2_HIGH + LN2_LOW)) + (-0.5 if x < 0 else 0.5))
    r, total = (x - k * LN2_HIGH) - k * LN2_LOW, 1.0
    for n in range(14, 0, -1):
        total = 1 + total * r / n
    return math.ldexp(total, k)


def digamma(x: float) -> float:
    """Return the derivative of log Γ at x > 0."""
    below = 0.0
    while x < 10:
        below += 1 / x
        x += 1
    y = 1 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132 - y * (691 / 32760))))))
    return logarithm(x) - 0.5 / x - series - below


def segments_of(words: Mapping[str, int], characters: Iterable[str] | None = None) -> Segments:
    """Cut words, in the order of code points, at characters that are not kept."""
    kept = set("".join(words) if characters is None else characters)
    found: Segments = []
    for word in sorted(words):
        bare = "".join(char if char in kept else "\ud800" for char in word)
        found += [(part, words[word]) for part in bare.split("\ud800") if part and words[word]]
    return found


def seed_scores(
    segments: Segments, characters: Iterable[str], most: int = 1_000_000, longest: int = 16
) -> Scores:
    """Return the seed pieces with their scores: characters, then substrings by occurrences times characters.

    A substring counts if it occurs twice and if no longer one has all of its occurrences.

    >>> [piece for piece in seed_scores([("banana", 1), ("nab", 2)], "abn") if len(piece) > 1]
    ['na', 'ana', 'nab']
    """
    counts: dict[str, int] = defaultdict(int)
    left: dict[str, set[object]] = defaultdict(set)
    right: dict[str, set[object]] = defaultdict(set)
    for n, (segment, count) in enumerate(segments):
        for i in range(len(segment)):
            for j in range(i + 1, min(i + longest, len(segment)) + 1):
                piece = segment[i:j]
                counts[piece] += count
                left[piece].add(segment[i - 1] if i else None)
                right[piece].add(segment[j] if j < len(segment) else None)
    spread: Callable[[set[object]], bool] = lambda sides: len(sides) > 1 or None in sides  # noqa: E731
    found = [
        piece
        for piece, count in counts.items()
        if 2 <= len(piece) <= longest
        and count >= 2
        and spread(right[piece])
        and (spread(left[piece]) or len(piece) == longest)
    ]
    found.sort(key=lambda piece: (-counts[piece] * len(piece), piece))
    weights = {char: float(counts.get(char) or 0.5) for char in sorted(characters)}
    weights |= {piece: float(counts[piece] * len(piece)) for piece in found[:most]}
    total = 0.0
    for weight in weights.values():
        total += weight
    return {piece: logarithm(weight) - logarithm(total) for piece, weight in weights.items()}


def expect(segments: Segments, scores: Scores) -> tuple[dict[str, float], float]:
    """Return how often each piece is expected, and the logarithm of the segments' likelihood."""
    p = {piece: exponential(score) for piece, score in scores.items()}
    longest = max(map(len, p))
    expected = dict.fromkeys(p, 0.0)
    likelihood = 0.0
    for segment, count in segments:
        n = len(segment)
        pieces = [
            [segment[i:j] for j in range(i + 1, min(i + longest, n) + 1) if segment[i:j] in p] for i in range(n)
        ]
        beta, scale = [1.0] * (n + 1), [0] * (n + 1)
        products: list[list[float]] = [[] for _ in range(n)]
        for i in reversed(range(n)):
            ends = [i + len(piece) for piece in pieces[i]]
            scale[i] = min([scale[i + 1], *(scale[j] for j, piece in zip(ends, pieces[i]) if p[piece] > 0)])
            products[i] = [
                p[piece] * (beta[j] * math.ldexp(1.0, 256 * (scale[i] - scale[j])) if scale[j] - scale[i] < 4 else 0.0)
                for j, piece in zip(ends, pieces[i])
            ]
            beta[i] = 0.0
            for product in products[i]:
                beta[i] += product
            if beta[i] < 1 / STEP:
                scale[i] += 1
                beta[i] *= STEP
                products[i] = [product * STEP for product in products[i]]
        likelihood += float(count) * (logarithm(beta[0]) - scale[0] * (256 * (LN2_HIGH + LN2_LOW)))
        gamma = [float(count)] + [0.0] * n
        for i in range(n):
            share = gamma[i] / beta[i]
            for piece, product in zip(pieces[i], products[i]):
                expected[piece] += share * product
                gamma[i + len(piece)] += share * product
    return expected, likelihood


def maximize(expected: Mapping[str, float], least: float = 0.5, dropping: bool = True) -> Scores:
    """Return the scores of pieces that are expected at least so often, and of all characters."""
    kept = {piece: max(n, least) for piece, n in expected.items() if n >= least or len(piece) == 1 or not dropping}
    total = 0.0
    for n in kept.values():
        total += n
    return {piece: digamma(n) - digamma(total) for piece, n in kept.items()}


def best_segmentation(text: str, scores: Mapping[str, float], without: str | None = None) -> list[str]:
    """Return the pieces with the highest sum of scores; of equal ones the longest first piece."""
    n, longest = len(text), max(map(len, scores))
    best, choice = [0.0] * (n + 1), [""] * n
    for i in reversed(range(n)):
        best[i] = MINUS_INFINITY
        for j in range(i + 1, min(i + longest, n) + 1):
            piece = text[i:j]
            if piece in scores and piece != without and scores[piece] + best[j] >= best[i]:
                best[i], choice[i] = scores[piece] + best[j], piece
    pieces, i = [], 0
    while i < n:
        pieces.append(choice[i])
        i += len(choice[i])
    return pieces


def losses(segments: Segments, scores: Scores) -> Scores:
    """Return by how much the logarithm of the likelihood falls without a piece; not of those that are of no use."""
    used = dict.fromkeys(scores, 0)
    for segment, count in segments:
        for piece in best_segmentation(segment, scores):
            used[piece] += count
    total = sum(used.values())
    found = {}
    for piece in scores:
        if len(piece) == 1 or not used[piece]:
            continue
        parts = best_segmentation(piece, scores, without=piece)
        score, others = 0.0, 0.0
        for part in reversed(parts):
            score = scores[part] + score
        if score > scores[piece]:
            continue
        for part in parts:
            others += logarithm(float(used[part] + used[piece]))
        more = logarithm(float(total + used[piece] * (len(parts) - 1)))
        found[piece] = used[piece] * ((logarithm(float(used[piece])) - logarithm(float(total))) - (others - len(parts) * more))
    return found


def learn_unigram(
    words: Mapping[str, int],
    size: int,
    *,
    characters: Iterable[str] | None = None,
    seed_size: int = 1_000_000,
    max_piece_length: int = 16,
    shrinking_factor: Fraction = Fraction("0.9"),
    sub_iterations: int = 2,
    excluded: Collection[str] = (),
) -> list[tuple[str, float]]:
    """Return pieces with their scores, the highest first, as `unigram.learn_pieces`."""
    kept = sorted(set("".join(word for word, n in words.items() if n)) if characters is None else set(characters))
    segments = segments_of(words, kept)
    scores = seed_scores(segments, kept, seed_size, max_piece_length)
    scores = {piece: score for piece, score in scores.items() if len(piece) == 1 or piece not in excluded}
    wanted = max(int(Fraction("1.1") * size), len(kept))

    def keep(values: Mapping[str, float], most: int) -> Scores:
        """Leave the characters and the best of the others, in their order."""
        rank = {piece: i for i, piece in enumerate(scores)}
        best = set(sorted(values, key=lambda piece: (-values[piece], rank[piece]))[: max(most, 0)])
        return {piece: score for piece, score in scores.items() if len(piece) == 1 or piece in best}

    while True:
        for _ in range(sub_iterations):
            scores = maximize(expect(segments, scores)[0])
        if len(scores) <= wanted:
            break
        scores = keep(losses(segments, scores), max(wanted, int(shrinking_factor * len(scores))) - len(kept))
    scores = keep({piece: score for piece, score in scores.items() if len(piece) > 1}, size - len(kept))
    for _ in range(sub_iterations):
        scores = maximize(expect(segments, scores)[0], dropping=False)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))
