"""The curve of sizes: how many tokens a text has in each smaller vocabulary that one training run holds.

Merges are learned one by one, so the first k of them are the vocabulary that learning would have stopped at.  In a text
that is encoded with all of them every token of the last merge stands for two of its parts, so taking the merges back
from the last to the first gives the tokens at each size exactly: each merge adds as many as it replaced.  (The count of
a pair when it was merged would overstate runs such as `aaaa`, in which occurrences overlap.)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Mapping, Sequence

import numpy as np
import pyarrow as pa

from beam_bpe import _statistics, artifacts, storage
from beam_bpe.costs import CostModel
from beam_bpe.measuring import measure_words
from beam_bpe.reachability import cut_by_merges
from beam_bpe.statistics import Statistics
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.word_rows import INT64_MAX
from beam_bpe.words import WordCounts

KIND = "curve"


@dataclass(frozen=True, eq=False)
class Curve:
    """Tokens at each size of a vocabulary, by group.

    Attributes:
        fingerprint: of the vocabulary.
        groups: their names, sorted; texts that are in no groups are in the group "".
        sizes: int64[n]: the vocabulary without its merges, with the first of them, and so on to all of it.
        tokens: int64[n, groups].
        characters: of the text of each group; None where they are not known.
        group_by: the column that tells the group; None: there are no groups.
        notes: of the statistics that it was made from.
    """

    fingerprint: str
    groups: tuple[str, ...]
    sizes: np.ndarray
    tokens: np.ndarray
    characters: tuple[int | None, ...]
    group_by: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> np.ndarray:
        """Tokens of all groups together at each size (int64[n])."""
        sums: np.ndarray = self.tokens.sum(axis=1)
        return sums

    @property
    def total_characters(self) -> int | None:
        """Characters of all groups together."""
        return None if None in self.characters else sum(number or 0 for number in self.characters)

    def of_group(self, group: str) -> np.ndarray:
        """Return the tokens of a group at each size (int64[n]); ValueError if there is none of that name."""
        if group not in self.groups:
            raise ValueError(f"there is no group {group!r}; there are {', '.join(map(repr, self.groups)) or 'none'}")
        column: np.ndarray = self.tokens[:, self.groups.index(group)]
        return column

    def at(self, size: int) -> np.ndarray:
        """Return the tokens of each group at a size of the vocabulary (int64[groups])."""
        first, last = int(self.sizes[0]), int(self.sizes[-1])
        if not first <= size <= last:
            raise ValueError(f"size={size}: choose one from {first} (no merges) to {last} (all of them)")
        row: np.ndarray = self.tokens[size - first]
        return row

    def table(self, costs: CostModel = CostModel(), every: int = 1) -> pa.Table:
        """Return a row for each size and group, and one for all groups, whose group is null, with what it costs.

        Args:
            every: leave out sizes but each of that many, from the greatest one down, and the smallest.

        Costs per character are null where the characters are not known, or there are no tokens.
        """
        if every < 1:
            raise ValueError(f"every is {every}; it must be at least 1")
        chosen = np.unique(np.append(np.arange(len(self.sizes) - 1, -1, -every), 0))
        grouped = self.group_by is not None
        names: list[str | None] = [None, *(self.groups if grouped else ())]
        characters = [self.total_characters, *(self.characters if grouped else ())]
        columns = [self.total[chosen, np.newaxis], *([self.tokens[chosen]] if grouped else [])]
        tokens = np.concatenate(columns, axis=1).ravel()
        rows, sizes = len(tokens), np.repeat(self.sizes[chosen], len(names))
        text = np.tile(np.array([number or 0 for number in characters], np.float64), len(chosen))
        known = (text > 0) & (tokens > 0)
        per_character = np.divide(tokens, text, out=np.ones(rows), where=known)
        price = costs.price_per_million_characters(per_character)
        groups = pa.array(np.tile(np.arange(len(names), dtype=np.int32), len(chosen)))
        ratios = {
            "compression_ratio": 1 / per_character,
            "attention_flops": costs.attention_flops(per_character),
            "kv_cache_bytes": costs.kv_cache_bytes(per_character),
            "price_per_million_characters": np.zeros(rows) if price is None else price,
            "context_characters": costs.context_characters(per_character),
        }
        made = {
            "size": pa.array(sizes, pa.int64()),
            "group": pa.array(names, pa.string()).take(groups),
            "tokens": pa.array(tokens, pa.int64()),
            "embedding_parameters": pa.array(costs.embedding_parameters(sizes), pa.int64()),
        }
        for name, column in ratios.items():
            told = known if name != "price_per_million_characters" or price is not None else np.zeros(rows, bool)
            made[name] = pa.array(column, pa.float64(), mask=~told)
        return pa.table(made)

    def knees(self) -> dict[str | None, int]:
        """Return the size at the knee of all groups together (None), and of each group."""
        found: dict[str | None, int] = {None: knee(self.sizes, self.total)}
        for name in self.groups if self.group_by is not None else ():
            found[name] = knee(self.sizes, self.of_group(name))
        return found

    def save(self, url: str, costs: CostModel = CostModel(), every: int = 1, *, overwrite: bool = False) -> None:
        """Write the table as a Parquet file, with the cost model and the knees in its header.

        Raises:
            FileExistsError: there is a file already, and `overwrite` is not set.
        """
        if not overwrite and storage.exists(url):
            raise FileExistsError(f"{url} is there already; choose another place or overwrite it (--overwrite)")
        knees = self.knees()
        header = {
            "kind": KIND,
            "fingerprint": self.fingerprint,
            "group_by": self.group_by,
            "characters": self.total_characters,
            "costs": asdict(costs),
            "knee": knees.pop(None),
            "knees": knees,
            "notes": list(self.notes),
        }
        artifacts.write_parquet(url, self.table(costs, every), header)


def knee(sizes: np.ndarray, tokens: np.ndarray) -> int:
    """Return the size at the knee of a falling curve: where it lies farthest below the chord between its ends.

    Satopää, Albrecht, Irwin and Raghavan 2011, "Finding a 'Kneedle' in a Haystack", without smoothing (the curve is
    exact), both axes linear from their least to their greatest value; of equal distances the smallest size.

    >>> knee(np.array([256, 257, 258, 259]), np.array([100, 40, 30, 25]))
    257
    """
    width, height = int(sizes[-1] - sizes[0]), int(tokens[0] - tokens[-1])
    if not width or not height:
        return int(sizes[0])
    right = (np.asarray(sizes, np.float64) - float(sizes[0])) / width
    down = (tokens[0] - tokens).astype(np.float64) / height
    return int(sizes[int(np.argmax(down - right))])


def size_curve(statistics: Statistics, vocabulary: Vocabulary) -> Curve:
    """Return the curve of the vocabulary that statistics were measured with.

    Raises:
        ValueError: the statistics are of another vocabulary, or its smaller ones do not follow from it.
        OverflowError: the text has more than 2**63 - 1 symbols.
    """
    if statistics.subject.fingerprint != vocabulary.fingerprint:
        raise ValueError(
            f"the statistics are of {statistics.subject.name}, not of the vocabulary {vocabulary.fingerprint[:12]}…"
        )
    check_merges(vocabulary)
    names = tuple(statistics.groups)
    measured = list(statistics.groups.values())
    occurrences = np.zeros((len(vocabulary), len(names)), np.int64)
    for column, measures in enumerate(measured):
        occurrences[:, column] = np.asarray(measures.frequencies)
    _check_symbols(vocabulary, measured)
    merges = len(vocabulary.left)
    tokens = np.empty((merges + 1, len(names)), np.int64)
    tokens[merges] = [measures.tokens or 0 for measures in measured]
    sides = zip(vocabulary.left.tolist()[::-1], vocabulary.right.tolist()[::-1], vocabulary.merged.tolist()[::-1])
    for rank, (left, right, merged) in zip(range(merges - 1, -1, -1), sides):
        found = occurrences[merged]  # all of them are there by this merge: later ones are taken back already
        tokens[rank] = found  # what the merge replaced
        occurrences[left] += found
        occurrences[right] += found
    np.cumsum(tokens[::-1], axis=0, out=tokens[::-1])
    sizes = np.arange(len(vocabulary) - merges, len(vocabulary) + 1, dtype=np.int64)
    characters = tuple(measures.characters for measures in measured)
    return Curve(vocabulary.fingerprint, names, sizes, tokens, characters, statistics.group_by, statistics.notes)


def _check_symbols(vocabulary: Vocabulary, measured: Sequence[Any]) -> None:
    """Refuse more symbols than int64 holds; no number on the way is larger than they are."""
    lengths = np.ones(len(vocabulary), np.int64)  # in bytes: a token is of no more symbols
    lengths[: len(vocabulary.tokens)] = [max(1, len(token)) for token in vocabulary.tokens]
    symbols = sum(_statistics.weighted_sum(lengths, measures.frequencies) for measures in measured)
    if symbols > INT64_MAX:
        raise OverflowError(f"the text has {symbols:,} bytes; the curve counts up to 2**63 - 1 symbols")


def check_merges(vocabulary: Vocabulary) -> None:
    """Raise ValueError, with the reason, if a vocabulary's first merges do not make its smaller vocabularies.

    They do where merges are all that makes tokens, each token is made by one merge, and merges come behind those that
    make their parts, as in byte-level BPE and BPE of characters that were learned here.
    """
    model = vocabulary.model
    if model.algorithm != "bpe":
        raise ValueError(
            f"a vocabulary of algorithm {model.algorithm!r} does not find tokens by the order of merges alone, and so does not "
            "hold smaller ones: train them from the table of words"
        )
    if vocabulary.layout is not None and vocabulary.layout.whole_pieces:
        made_otherwise = cut_by_merges(vocabulary, vocabulary.merged.tolist())
        if made_otherwise:
            token = vocabulary.tokens[min(made_otherwise)]
            raise ValueError(
                f"words that are tokens are not merged in this vocabulary, and {len(made_otherwise):,} of them, such as "
                f"{token!r}, are not what merging makes of them: it does not hold smaller ones"
            )
    ranks = np.arange(len(vocabulary.left))
    made = np.full(len(vocabulary), -1, np.int64)
    made[vocabulary.merged] = ranks
    twice = np.flatnonzero(made[vocabulary.merged] != ranks)
    if len(twice):
        token = vocabulary.tokens[int(vocabulary.merged[twice[0]])]
        raise ValueError(f"two merges make the token {token!r}: which of them made an occurrence is not known")
    late = np.flatnonzero((made[vocabulary.left] >= ranks) | (made[vocabulary.right] >= ranks))
    if len(late):
        raise ValueError(
            f"the merge of rank {int(late[0])} is of a token that a later merge makes: these are in another order than "
            "learned merges"
        )
    mark = (model.end_of_word or "").encode()
    for merged in vocabulary.merged.tolist() if mark else ():
        token = vocabulary.tokens[merged]
        if token.endswith(mark) and len(token[: -len(mark)].decode()) <= model.attached:
            raise ValueError(f"the token {token!r} is made by a merge, and a symbol of the alphabet as well")


def first_merges(vocabulary: Vocabulary, merges: int) -> Vocabulary:
    """Return the vocabulary of the first merges: ids stay as they are, and those of the other merges are holes.

    Special tokens follow the merges where no layout says their ids.
    """
    check_merges(vocabulary)
    if not 0 <= merges <= len(vocabulary.left):
        raise ValueError(f"merges is {merges}; the vocabulary has {len(vocabulary.left)}")
    columns: Mapping[str, Any] = {
        name: getattr(vocabulary, name)[:merges] for name in ("left", "right", "counts", "replaced")
    }
    layout = vocabulary.layout
    if layout is not None:
        later = set(vocabulary.merged[merges:].tolist())
        tokens = tuple(b"" if i in later else token for i, token in enumerate(layout.tokens))
        layout = replace(layout, tokens=tokens, merged=layout.merged[:merges], whole_pieces=False)
    return replace(vocabulary, **columns, layout=layout)


def check_curve(curve: Curve, words: WordCounts, vocabulary: Vocabulary, sizes: Sequence[int] = ()) -> dict[int, int]:
    """Encode a table of words with smaller vocabularies, and compare with the curve; return the tokens at these sizes.

    Args:
        sizes: by default those of a quarter, a half and three quarters of the merges.

    Raises:
        RuntimeError: the curve has another number somewhere.
    """
    first, merges = int(curve.sizes[0]), len(vocabulary.left)
    found = {}
    for size in sizes or sorted({first + merges * part // 4 for part in (1, 2, 3)}):
        expected = curve.at(size)
        smaller = first_merges(vocabulary, size - first)
        counted = measure_words(words, [smaller], allow_mismatch=True)[0].groups
        for name, tokens in zip(curve.groups, expected.tolist()):
            if counted[name].tokens != tokens:
                told = f" of the group {name!r}" if name else ""
                raise RuntimeError(
                    f"at the size {size:,} the curve has {tokens:,} tokens{told}, and encoding gives "
                    f"{counted[name].tokens:,}"
                )
        found[size] = int(expected.sum())
    return found
