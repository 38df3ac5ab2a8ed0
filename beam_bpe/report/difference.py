"""The numbers of a report on two vocabularies compared, as JSON: what `difference` found, and curves at chosen points."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_bpe import __version__
from beam_bpe.difference import Difference
from beam_bpe.report.record import points, token_record
from beam_bpe.spelling import spellings
from beam_bpe.statistics import ratio
from beam_bpe.stores import redacted
from beam_bpe.texts import readable
from beam_bpe.tokenizer import Tokenizer
from beam_bpe.vocabulary import Vocabulary

KIND = "comparison report"
SHOWN = 20  # tokens of a list
CHANGED = 50  # words, or documents
POINTS = 40  # ranks at which the ranks of the other vocabulary are told
PIECES = 12  # of a word that are told


def difference_report(found: Difference, *, command: str | None = None) -> dict[str, Any]:
    """Return all that a report on two vocabularies tells; what is not known is None.

    Args:
        command: that made it.
    """
    shared, only = found.shared, {side: found.only(side) for side in "ab"}
    ranked = shared.filter(pc.is_valid(shared["shift"]))
    rows = [] if found.groups is None else found.groups.to_pylist()
    told = [{"name": row["group"], **_cost(row)} for row in rows]
    total = next((one for one in told if one["name"] is None), None)
    sides = zip("ab", found.names, found.vocabularies)
    return {
        "kind": KIND,
        "version": __version__,
        "command": command,
        **{side: _vocabulary(found, name, vocabulary, only[side], total, side) for side, name, vocabulary in sides},
        "shared": len(shared),
        "ranks": _ranks(ranked),
        "shifts": _shifts(ranked["shift"].to_numpy()),
        "moved": [one for one in _tokens(found, ranked) if one["shift"]],
        "compared_on": "documents" if found.documents is not None else "words" if found.words is not None else None,
        "total": total,
        "groups": [one for one in told if one["name"] is not None],
        "words": None if found.words is None else _words(found),
        "documents": None if found.documents is None else [_document(row) for row in _first(found.documents)],
        "notes": list(found.notes),
    }


def _vocabulary(
    found: Difference, name: str, vocabulary: Vocabulary, alone: pa.Table, total: Mapping[str, Any] | None, side: str
) -> dict[str, Any]:
    """Return what a vocabulary is, and the tokens that it has alone: how many, their share of the text, and some."""
    counts = alone[f"count_{side}"]
    occurrences = None if counts.null_count or total is None else sum(counts.to_pylist())
    if occurrences is not None:
        alone = alone.take(pa.array(np.argsort(-counts.to_numpy(), kind="stable")))
    return {
        "name": redacted(name),
        "fingerprint": vocabulary.fingerprint,
        "algorithm": vocabulary.model.algorithm,
        "unit": vocabulary.model.unit,
        "pre_tokenizer": vocabulary.pre_tokenizer.name,
        "normalizer": vocabulary.normalizer,
        "size": len(vocabulary),
        "alone": len(alone),
        "alone_share": None if total is None else ratio(occurrences, total[f"tokens_{side}"]),
        "tokens_alone": _tokens(found, alone),
    }


def _tokens(found: Difference, tokens: pa.Table) -> list[dict[str, Any]]:
    """Return the first of some tokens, as their vocabulary spells them."""
    first = tokens.slice(0, SHOWN)
    return [{**row, **token_record(spelled)} for row, spelled in zip(first.to_pylist(), found.spelled(first))]


# ---- ranks ---------------------------------------------------------------------------------------


def _ranks(ranked: pa.Table) -> dict[str, list[int]]:
    """Return ranks in a, and the ranks in b of the shared tokens from one to the next: quartiles of them."""
    ordered = ranked.sort_by("rank_a")
    a, b = (ordered[f"rank_{side}"].to_numpy().astype(np.int64) for side in "ab")
    found: dict[str, list[int]] = {name: [] for name in ("ranks", "lower", "middle", "upper")}
    start = 0
    for end in points(len(a), POINTS).tolist():
        some = np.sort(b[start:end])
        found["ranks"].append(int(a[end - 1]))
        for name, quarter in (("lower", 1), ("middle", 2), ("upper", 3)):
            found[name].append(int(some[(len(some) - 1) * quarter // 4]))
        start = end
    return found


def _shifts(shifts: np.ndarray) -> dict[str, Any]:
    """Return how many ranks moved, and how many by 1 to 9, 10 to 99, and so on, towards each end."""
    moved = np.abs(shifts)
    lowest = [10**power for power in range(len(str(int(moved.max(initial=0))))) if moved.any()]
    counts = {}
    for name, those in (("earlier", -shifts), ("later", shifts)):
        counts[name] = [int(np.count_nonzero((those >= first) & (those < 10 * first))) for first in lowest]
    return {
        "ranked": len(shifts),
        "moved": int(np.count_nonzero(moved)),
        "median": int(np.sort(moved)[(len(moved) - 1) // 2]) if len(moved) else None,
        "largest": int(moved.max(initial=0)),
        "lowest": lowest,
        **counts,
    }


# ---- tokens of the same text ---------------------------------------------------------------------


def _cost(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return tokens and money of a text, and the differences as shares of those of a."""
    told = {name: row[name] for name in ("tokens_a", "tokens_b", "difference", "price_a", "price_b")}
    a, b = told["price_a"], told["price_b"]
    told["share"] = ratio(told["difference"], told["tokens_a"])
    told["price_difference"] = None if a is None else b - a
    told["price_share"] = (b - a) / a if a else None
    return told


def _words(found: Difference) -> list[dict[str, Any]]:
    rows = _first(found.words)
    words = [row["word"] for row in rows]
    pieces = [_pieces(vocabulary, words) for vocabulary in found.vocabularies]
    told = []
    for row, a, b in zip(rows, *pieces):
        word = token_record(row["word"])
        told.append({**row, "word": word["token"], "characters": word["characters"], "pieces_a": a, "pieces_b": b})
    return told


def _pieces(vocabulary: Vocabulary, words: Sequence[bytes]) -> list[list[str]]:
    """Return the first tokens of each word, as they can be shown."""
    ends = np.cumsum([0, *map(len, words)], dtype=np.int64)
    found = Tokenizer(vocabulary).encode_words(b"".join(words), np.repeat(ends, 2)[1:-1])
    spelled = spellings(vocabulary)
    return [[readable(spelled[i]) for i in ids[:PIECES].tolist()] for ids in found.split()]


def _document(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "source": redacted(row["source"]), "beginning": readable(row["beginning"].encode())}


def _first(table: pa.Table | None) -> list[dict[str, Any]]:
    return [] if table is None else table.slice(0, CHANGED).to_pylist()
