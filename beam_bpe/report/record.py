"""The numbers of a report as JSON: exact counts, ratios that follow from them, and curves at chosen points."""

from __future__ import annotations

from dataclasses import asdict
from functools import reduce
from itertools import accumulate
from typing import Any, Mapping, Sequence

import numpy as np
import pyarrow.compute as pc

from beam_bpe import __version__
from beam_bpe.audit import MEANINGS, Audit, audit
from beam_bpe.costs import CostModel
from beam_bpe.curve import Curve, size_curve
from beam_bpe.measuring import measure_words, needs_texts
from beam_bpe.spelling import own_texts, spellings
from beam_bpe.statistics import ALPHA, Measures, Statistics, exact_sum
from beam_bpe.texts import readable
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts

KIND = "report"
POINTS = 120  # at which a curve is told
CURVES = 14  # groups that have a curve of sizes of their own: those of most text
SHOWN = 20  # tokens of a list
FINDINGS = 8  # of a kind
LONGEST = 32  # bytes of a token from which on lengths are one bucket
COVERED = (50, 75, 90, 95, 99, 100)  # per cent of all occurrences
ROUND_SIZES = tuple(1000 << power for power in range(12))  # that the curve tells beside those of POINTS


def report_of(
    vocabulary: Vocabulary,
    words: WordCounts | None = None,
    *,
    name: str,
    command: str | None = None,
    reference: str | None = None,
    costs: CostModel = CostModel(),
    allow_mismatch: bool = False,
) -> dict[str, Any]:
    """Return all that a report tells; what is not known is None.

    Args:
        words: the text to measure on, usually the table that the vocabulary was learned from; None: nothing is measured.
        name: of the vocabulary, for people.
        command: that made it.
        reference: the group that the others are compared with; None: the one of most text (of equal ones the first).

    Raises:
        ValueError: the words were cut or normalized in another way than the vocabulary does (unless `allow_mismatch`), or
            there is no such group as `reference`.
        OverflowError: a number exceeds 2**63 - 1.
    """
    tokens = _Tokens(vocabulary)
    statistics, unmeasured = None, "no text was given"
    if words is not None and (reason := needs_texts(vocabulary)):
        words, unmeasured = None, reason
    if words is not None:
        statistics = measure_words(words, [vocabulary], names=[name], allow_mismatch=allow_mismatch)[0]
    frequencies = None if statistics is None else statistics.total.frequencies
    return {
        "kind": KIND,
        "version": __version__,
        "name": name,
        "command": command,
        "vocabulary": _vocabulary(vocabulary, sum(map(bool, tokens.spelled))),
        "text": None if words is None else _text(words),
        "unmeasured": unmeasured if statistics is None else None,
        "measures": None if statistics is None else _measures(statistics, reference),
        "curve": None if statistics is None else _curve(statistics, vocabulary, costs),
        "lengths": _lengths(tokens, frequencies),
        "merges": _merges(vocabulary),
        "coverage": None if frequencies is None else _coverage(frequencies),
        "tokens": _listed(tokens, frequencies),
        "findings": _findings(audit(vocabulary, words, examples=0, allow_mismatch=True, statistics=statistics)),
    }


def _vocabulary(vocabulary: Vocabulary, tokens: int) -> dict[str, Any]:
    return {
        "fingerprint": vocabulary.fingerprint,
        "algorithm": vocabulary.model.algorithm,
        "unit": vocabulary.model.unit,
        "model": vocabulary.model.spec(),
        "pre_tokenizer": vocabulary.pre_tokenizer.spec(),
        "normalizer": vocabulary.normalizer,
        "size": len(vocabulary),
        "tokens": tokens,
        "merges": len(vocabulary.left),
        "special_tokens": list(vocabulary.special_tokens),
        "stop_reason": vocabulary.stop_reason,
        "parameters": dict(vocabulary.parameters),
        "totals": dict(vocabulary.totals),
    }


def _text(words: WordCounts) -> dict[str, Any]:
    table = words.ungrouped().table
    once = pc.sum(pc.equal(table["count"], 1)).as_py() or 0
    return {"distinct_words": len(table), "words_seen_once": once, "totals": dict(words.totals)}


# ---- measures ------------------------------------------------------------------------------------


def _measures(statistics: Statistics, reference: str | None) -> dict[str, Any]:
    grouped = statistics.group_by is not None
    groups = statistics.groups
    if not grouped and reference is not None:
        raise ValueError(f"there is no group {reference!r}: the words were not counted by group")
    if grouped and reference is None and groups:
        reference = by_size(groups)[0]
    total = _told(statistics, statistics.total)
    told = {name: _told(statistics, measures) for name, measures in groups.items()} if grouped else {}
    for unit in ("character", "byte"):
        premiums = {} if reference is None else statistics.parity_premiums(reference, unit)
        for name, one in told.items():
            one[f"premium_{unit}"] = premiums.get(name)
    return {
        "group_by": statistics.group_by,
        "reference": reference,
        "alpha": ALPHA,
        "total": total,
        "groups": told,
        "gini": {unit: statistics.gini(unit) if grouped else None for unit in ("character", "byte")},
        "notes": list(statistics.notes),
    }


def _told(statistics: Statistics, measures: Measures) -> dict[str, Any]:
    """Return counts and ratios; not what a table of words cannot know."""
    record = measures.record()
    del record["lengths"]
    names = (
        "compression_ratio",
        "bytes_per_token",
        "fertility",
        "kept_share",
        "single_character_share",
        "single_byte_share",
    )
    ratios = {name: getattr(measures, name) for name in (*names, "unknown_rate", "used", "entropy")}
    shares = {"used_share": statistics.used_share(measures), "renyi_efficiency": statistics.renyi_efficiency(measures)}
    return {**record, **ratios, **shares}


def by_size(groups: Mapping[str, Any]) -> list[str]:
    """Return the names of groups by their bytes of text, or words where those are not known, the greatest first."""

    def size(name: str) -> int:
        one = groups[name]
        get = one.get if isinstance(one, Mapping) else lambda key: getattr(one, key)
        return int(get("bytes") or get("words") or 0)

    return sorted(groups, key=lambda name: (-size(name), name))


def compared_by(measures: Mapping[str, Any]) -> str | None:
    """Return the unit by which groups are compared, characters or else bytes; None where the costs of two are not known."""
    for unit, ratio in (("character", "compression_ratio"), ("byte", "bytes_per_token")):
        if sum(bool(one[ratio]) for one in measures["groups"].values()) > 1:
            return unit
    return None


# ---- curves --------------------------------------------------------------------------------------


def points(last: int, most: int = POINTS) -> np.ndarray:
    """Return whole numbers from 1 to `last`, evenly on a logarithmic axis, both ends among them (int64, ascending).

    >>> points(1000, 4).tolist(), points(2).tolist(), points(0).tolist()
    ([1, 10, 100, 1000], [1, 2], [])
    """
    if last < 1:
        return np.empty(0, np.int64)
    chosen = np.rint(np.geomspace(1, last, most)).astype(np.int64)
    return np.unique(np.append(np.clip(chosen, 1, last), [1, last]))


def _curve(statistics: Statistics, vocabulary: Vocabulary, costs: CostModel) -> dict[str, Any]:
    grouped = statistics.group_by is not None
    shown = by_size(statistics.groups)[:CURVES] if grouped else []
    rest = [measures for name, measures in statistics.groups.items() if name not in shown]
    columns = {str(i): statistics.groups[name] for i, name in enumerate(shown)}
    if rest or not columns:  # of all others together: many groups take no more memory than few
        columns["others"] = reduce(Measures.merge, rest, Measures(frequencies=np.zeros(len(vocabulary), np.int64)))
    try:
        curve = size_curve(Statistics(statistics.subject, columns), vocabulary)
    except ValueError as error:
        return {"absent": str(error)}
    return {"absent": None, **_curve_points(curve, shown), "costs": _costs(curve, costs)}


def _curve_points(curve: Curve, shown: Sequence[str]) -> dict[str, Any]:
    first, last = int(curve.sizes[0]), int(curve.sizes[-1])
    knees = curve.knees()
    spaced = np.rint(np.geomspace(first, last, POINTS)).astype(np.int64) if last > first > 0 else np.array([first, last])
    chosen = np.unique(
        np.concatenate([spaced, [size for size in ROUND_SIZES if first <= size <= last], [first, last, knees[None]]])
    )
    rows = chosen.astype(np.int64) - first
    of_groups = [
        {"name": name, "tokens": curve.tokens[rows, i].tolist(), "characters": curve.characters[i]}
        for i, name in enumerate(shown)
    ]
    return {
        "sizes": (rows + first).tolist(),
        "tokens": curve.total[rows].tolist(),
        "characters": curve.total_characters,
        "knee": knees[None],
        "groups": of_groups,
    }


def _costs(curve: Curve, costs: CostModel) -> dict[str, Any]:
    """Return what the sizes of a table cost, one row each; None where the characters are not known."""
    first, last = int(curve.sizes[0]), int(curve.sizes[-1])
    sizes = sorted({*(size for size in ROUND_SIZES if first <= size <= last), first, curve.knees()[None], last})
    tokens = [int(curve.total[size - first]) for size in sizes]
    characters = curve.total_characters
    rows = []
    for size, number in zip(sizes, tokens):
        row: dict[str, Any] = {"size": size, "tokens": number}
        row["embedding_parameters"] = int(costs.embedding_parameters(np.array([size]))[0])
        if characters and number:
            each = np.array([number / characters])
            price = costs.price_per_million_characters(each)
            row |= {
                "compression_ratio": characters / number,
                "attention_flops": float(costs.attention_flops(each)[0]),
                "kv_cache_bytes": float(costs.kv_cache_bytes(each)[0]),
                "context_characters": float(costs.context_characters(each)[0]),
                "price_per_million_characters": None if price is None else float(price[0]),
            }
        rows.append(row)
    return {"model": asdict(costs), "rows": rows}


def _merges(vocabulary: Vocabulary) -> dict[str, Any] | None:
    """Return the counts of merges by rank (from 1); None where nothing was merged, or counted."""
    counts = vocabulary.counts
    if not len(counts) or not counts.any():
        return None
    ranks = points(len(counts))
    return {
        "ranks": ranks.tolist(),
        "counts": counts[ranks - 1].tolist(),
        "replaced": vocabulary.replaced[ranks - 1].tolist(),
    }


def _coverage(frequencies: np.ndarray) -> dict[str, Any]:
    """Return the occurrences of the most frequent tokens together, and how many tokens a share of all takes."""
    covered = list(accumulate(np.sort(frequencies[frequencies > 0])[::-1].tolist()))
    ranks = points(len(covered)).tolist()
    all_of_them = covered[-1] if covered else 0
    needed = {}
    for share in COVERED if covered else ():
        needed[str(share)] = next(k for k, number in enumerate(covered, 1) if number * 100 >= share * all_of_them)
    return {"ranks": ranks, "occurrences": [covered[rank - 1] for rank in ranks], "all": all_of_them, "needed": needed}


# ---- tokens --------------------------------------------------------------------------------------


class _Tokens:
    """The tokens of a vocabulary as they are told: spelled, and as long as their own text is."""

    def __init__(self, vocabulary: Vocabulary):
        self.spelled, texts = spellings(vocabulary), own_texts(vocabulary)
        self.bytes = np.array(list(map(len, texts)), np.int64)
        self.learned = np.array(list(map(bool, self.spelled)), bool)  # what has a length: neither holes nor what was added
        self.learned[[token.id for token in vocabulary.added_tokens]] = False
        if vocabulary.unk_id is not None:
            self.learned[vocabulary.unk_id] = False
        self.marked = texts != self.spelled


def _lengths(tokens: _Tokens, frequencies: np.ndarray | None) -> dict[str, Any]:
    """Return how many tokens have each length in bytes, and how often they occur: added and unknown ones are left out.

    Lengths begin at 0 where a token is but the space that decoding brings.
    """
    buckets = np.minimum(tokens.bytes[tokens.learned], LONGEST)
    first = 1 if buckets.all() else 0
    occurrences = None
    if frequencies is not None:
        learned = frequencies[tokens.learned]
        occurrences = [exact_sum(learned[buckets == size]) for size in range(first, LONGEST + 1)]
    counts = np.bincount(buckets, minlength=LONGEST + 1).tolist()
    return {"bytes": list(range(first, LONGEST + 1)), "tokens": counts[first:], "occurrences": occurrences}


def _listed(tokens: _Tokens, frequencies: np.ndarray | None) -> dict[str, Any]:
    """Return the most frequent tokens and the longest, equal ones by id, and whether some are spelled with marks."""

    def told(i: int) -> dict[str, Any]:
        count = None if frequencies is None else int(frequencies[i])
        return {"id": i, **token_record(tokens.spelled[i]), "bytes": int(tokens.bytes[i]), "count": count}

    found = {
        "frequent": np.zeros(len(tokens.bytes), np.int64) if frequencies is None else frequencies,
        "longest": np.where(tokens.learned, tokens.bytes, 0),
    }
    orders = {name: np.argsort(-values, kind="stable")[:SHOWN] for name, values in found.items()}
    lists = {name: [told(i) for i in order.tolist() if found[name][i]] for name, order in orders.items()}
    return {**lists, "marked": tokens.marked}


def token_record(token: bytes) -> dict[str, Any]:
    """Return a token as it can be shown, and how many characters it has (each byte that is no text is one).

    >>> token_record(b"low\\n"), token_record(b"\\xe2\\x96")["characters"]
    ({'token': "'low\\\\n'", 'characters': 4}, 1)
    """
    return {"token": readable(token), "characters": len(token.decode("utf-8", "replace"))}


def _findings(found: Audit) -> list[dict[str, Any]]:
    """Return for each kind that was looked for how many findings there are, and the first of them."""
    kinds = []
    for kind, count in found.counts.items():
        rows = found.of_kind(kind).slice(0, FINDINGS).to_pylist()
        examples = [{**token_record(row["token"]), "detail": row["detail"], "count": row["count"]} for row in rows]
        kinds.append({"kind": kind, "title": MEANINGS[kind], "count": count, "examples": examples})
    return kinds
