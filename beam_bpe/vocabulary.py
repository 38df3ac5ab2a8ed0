"""The vocabulary: ranked merges, ids, special tokens, and how text is cut before them.

A vocabulary is two files of one folder, `merges.parquet` and `vocabulary.parquet`; both carry its
fingerprint, and the second is written last, so that the pair is whole or absent.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Iterable, Mapping, NamedTuple

import numpy as np
import pyarrow as pa

from beam_bpe import artifacts, storage
from beam_bpe.artifacts import FormatError
from beam_bpe.pretokenize import PreTokenizer
from beam_bpe.special import SpecialTokens

MERGES_FILE = "merges.parquet"
VOCABULARY_FILE = "vocabulary.parquet"
ALGORITHM = "bpe"
UNIT = "byte"

MERGES_SCHEMA = pa.schema(
    [
        pa.field("rank", pa.uint32(), nullable=False),
        pa.field("left_id", pa.uint32(), nullable=False),
        pa.field("right_id", pa.uint32(), nullable=False),
        pa.field("id", pa.uint32(), nullable=False),
        pa.field("left", pa.binary(), nullable=False),
        pa.field("right", pa.binary(), nullable=False),
        pa.field("token", pa.binary(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("replaced", pa.int64(), nullable=False),
    ]
)
VOCABULARY_SCHEMA = pa.schema(
    [
        pa.field("id", pa.uint32(), nullable=False),
        pa.field("token", pa.binary(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("score", pa.float64()),
    ]
)


class Merge(NamedTuple):
    """One merge: tokens left + right became token; `count` is the pair's when it was merged."""

    rank: int
    left: bytes
    right: bytes
    token: bytes
    id: int
    count: int  # type: ignore[assignment]  # the tuple's method of that name is not wanted here
    replaced: int


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """A byte-level BPE vocabulary; frozen, and checked when it is made.

    Ids: the 256 bytes in the order of `alphabet`, then the merges by rank, then the special tokens.
    So `len(vocabulary) == 256 + len(vocabulary.merges) + len(vocabulary.special_tokens)`, always.

    Attributes:
        pre_tokenizer: cuts a document into the words within which merges apply.
        alphabet: 256 different bytes; the byte of id k is alphabet[k].
        left, right: ids of each merge's parts, by rank (uint32).
        counts, replaced: of each merge: the pair's count when it was merged, and the replacements
            made, which are fewer only when left = right (int64).
        special_tokens: texts that stand for themselves.
        normalizer: None; text is taken as it is.
        stop_reason: why learning ended: "vocab_size", "min_pair_count" or "no_pairs".
        parameters, totals: of the training, for people to read.

    Raises:
        ValueError: the parts do not make a vocabulary (the message says which does not).
    """

    pre_tokenizer: PreTokenizer
    alphabet: bytes
    left: np.ndarray
    right: np.ndarray
    counts: np.ndarray
    replaced: np.ndarray
    special_tokens: tuple[str, ...] = ()
    normalizer: str | None = None
    stop_reason: str = "vocab_size"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    totals: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if sorted(self.alphabet) != list(range(256)):
            raise ValueError("the alphabet does not hold each of the 256 bytes once")
        if not len(self.left) == len(self.right) == len(self.counts) == len(self.replaced):
            raise ValueError("the columns of the merges differ in length")
        own = np.arange(256, 256 + len(self.left))
        for side in (self.left, self.right):
            if len(side) and not bool((side < own).all()):
                rank = int(np.argmin(side < own))
                raise ValueError(f"the merge of rank {rank} is made of token {side[rank]}, which comes after it")
        SpecialTokens(self.special_tokens)
        learned = self.ids
        for token in self.special_tokens:
            if token.encode() in learned:
                raise ValueError(f"the special token {token!r} is a byte or a learned token as well")
        if len(learned) != 256 + len(self.left):
            twice = next(i for i, token in enumerate(self.tokens) if learned[token] != i)
            raise ValueError(f"tokens {twice} and {learned[self.tokens[twice]]} are both {self.tokens[twice]!r}")

    @cached_property
    def tokens(self) -> list[bytes]:
        """The bytes of each learned token by id (special tokens are not among them)."""
        tokens = [bytes([byte]) for byte in self.alphabet]
        for left, right in zip(self.left.tolist(), self.right.tolist()):
            tokens.append(tokens[left] + tokens[right])
        return tokens

    @cached_property
    def ids(self) -> dict[bytes, int]:
        """The id of each learned token."""
        return {token: i for i, token in enumerate(self.tokens)}

    @property
    def special_ids(self) -> dict[str, int]:
        """The id of each special token."""
        return {token: 256 + len(self.left) + i for i, token in enumerate(self.special_tokens)}

    @property
    def merges(self) -> list[Merge]:
        """The merges by rank."""
        tokens = self.tokens
        columns = (self.left.tolist(), self.right.tolist(), self.counts.tolist(), self.replaced.tolist())
        return [
            Merge(rank, tokens[left], tokens[right], tokens[256 + rank], 256 + rank, count, replaced)
            for rank, (left, right, count, replaced) in enumerate(zip(*columns))
        ]

    def __len__(self) -> int:
        return 256 + len(self.left) + len(self.special_tokens)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"<Vocabulary of {len(self)} tokens, {self.pre_tokenizer.name}, {self.fingerprint[:12]}>"

    def __getstate__(self) -> dict[str, Any]:
        # Pickles by content; what follows from it is made again where it is asked for.
        return {k: v for k, v in self.__dict__.items() if k not in ("tokens", "ids", "fingerprint")}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hexadecimal) of all that decides how a text is encoded."""
        head = {
            "algorithm": ALGORITHM,
            "unit": UNIT,
            "pre_tokenizer": self.pre_tokenizer.spec(),
            "normalizer": self.normalizer,
            "alphabet": self.alphabet.hex(),
            "special_tokens": list(self.special_tokens),
            "merges": len(self.left),
        }
        state = hashlib.sha256(artifacts.canonical_json(head).encode())
        for side in (self.left, self.right):
            state.update(side.astype("<u4").tobytes())
        return state.hexdigest()

    def _header(self, kind: str) -> dict[str, Any]:
        return {
            "kind": kind,
            "algorithm": ALGORITHM,
            "unit": UNIT,
            "fingerprint": self.fingerprint,
            "pre_tokenizer": self.pre_tokenizer.spec(),
            "normalizer": self.normalizer,
            "special_tokens": list(self.special_tokens),
            "stop_reason": self.stop_reason,
            "parameters": self.parameters,
            "totals": self.totals,
        }

    def merges_table(self) -> pa.Table:
        """Return the merges as the Parquet file holds them."""
        tokens = self.tokens
        left, right = self.left.tolist(), self.right.tolist()
        ranks = np.arange(len(left), dtype=np.uint32)
        columns = [
            pa.array(ranks),
            pa.array(self.left.astype(np.uint32)),
            pa.array(self.right.astype(np.uint32)),
            pa.array(ranks + np.uint32(256)),
            pa.array([tokens[i] for i in left], pa.binary()),
            pa.array([tokens[i] for i in right], pa.binary()),
            pa.array(tokens[256:], pa.binary()),
            pa.array(self.counts.astype(np.int64)),
            pa.array(self.replaced.astype(np.int64)),
        ]
        return pa.Table.from_arrays(columns, schema=MERGES_SCHEMA)

    def vocabulary_table(self) -> pa.Table:
        """Return the tokens as the Parquet file holds them."""
        tokens = [*self.tokens, *(token.encode() for token in self.special_tokens)]
        kinds = ["byte"] * 256 + ["merge"] * len(self.left) + ["special"] * len(self.special_tokens)
        columns = [
            pa.array(np.arange(len(tokens), dtype=np.uint32)),
            pa.array(tokens, pa.binary()),
            pa.array(kinds, pa.string()),
            pa.nulls(len(tokens), pa.float64()),
        ]
        return pa.Table.from_arrays(columns, schema=VOCABULARY_SCHEMA)

    def save(self, folder: str, *, overwrite: bool = False) -> None:
        """Write the two files into a folder; nothing is done where this vocabulary stands already.

        Raises:
            FileExistsError: another one stands there, and `overwrite` is not set.
        """
        last = storage.join(folder, VOCABULARY_FILE)
        if storage.exists(last):
            if not overwrite and self._stands(folder):
                return
            if not overwrite:
                raise FileExistsError(
                    f"{folder} already holds a vocabulary; choose another folder or overwrite it (--overwrite)"
                )
            storage.remove(last)
        artifacts.write_parquet(storage.join(folder, MERGES_FILE), self.merges_table(), self._header("merges"))
        artifacts.write_parquet(last, self.vocabulary_table(), self._header("vocabulary"))

    def _stands(self, folder: str) -> bool:
        try:
            other = self.load(folder)
            return other._header("") == self._header("") and other.merges_table().equals(self.merges_table())
        except (FormatError, OSError):
            return False

    @classmethod
    def load(cls, folder: str, *, allow_callables: Iterable[str] = ()) -> Vocabulary:
        """Read a vocabulary from its folder (or the path of one of its two files).

        Args:
            allow_callables: functions "module:function" that may be imported if the vocabulary names
                one as its pre-tokenizer; no other is.

        Raises:
            FileNotFoundError: it is not there.
            FormatError: a file is broken, or the two are not of one vocabulary.
        """
        folder = os.fspath(folder)
        for name in (MERGES_FILE, VOCABULARY_FILE):
            if folder.endswith("/" + name) or folder == name:
                folder = folder[: -len(name)] or "."
        last, first = storage.join(folder, VOCABULARY_FILE), storage.join(folder, MERGES_FILE)
        if not storage.exists(last):
            raise FileNotFoundError(f"{folder} holds no vocabulary: there is no {VOCABULARY_FILE}")
        tokens, header = artifacts.read_parquet(last, "vocabulary")
        merges, merges_header = artifacts.read_parquet(first, "merges")
        for url, fields in ((last, header), (first, merges_header)):
            if not {"fingerprint", "algorithm", "unit"} <= fields.keys():
                raise FormatError(f"{url}: its header has no fingerprint, algorithm or unit")
        if header["fingerprint"] != merges_header["fingerprint"]:
            raise FormatError(f"{first} and {last} are not of one vocabulary: their fingerprints differ")
        if header["algorithm"] != ALGORITHM or header["unit"] != UNIT:
            raise FormatError(f"{last} holds {header['algorithm']} over {header['unit']}s; this reads {ALGORITHM} over bytes")
        for url, table, schema in ((last, tokens, VOCABULARY_SCHEMA), (first, merges, MERGES_SCHEMA)):
            if not table.schema.remove_metadata().equals(schema):
                raise FormatError(f"{url} has the columns {table.schema.remove_metadata()}, not {schema}")
        try:
            vocabulary = cls(
                pre_tokenizer=PreTokenizer.from_spec(header["pre_tokenizer"], allow_callables=allow_callables),
                alphabet=b"".join(tokens["token"][:256].to_pylist()),
                left=merges["left_id"].to_numpy(),
                right=merges["right_id"].to_numpy(),
                counts=merges["count"].to_numpy(),
                replaced=merges["replaced"].to_numpy(),
                special_tokens=tuple(header["special_tokens"]),
                normalizer=header["normalizer"],
                stop_reason=header["stop_reason"],
                parameters=header["parameters"],
                totals=header["totals"],
            )
        except KeyError as error:
            raise FormatError(f"{last}: its header has no {error}") from None
        except ValueError as error:
            raise FormatError(f"{folder}: {error}") from None
        if vocabulary.fingerprint != header["fingerprint"]:
            raise FormatError(f"{folder}: the merges do not have the fingerprint that the files carry")
        if not tokens.equals(vocabulary.vocabulary_table()):
            raise FormatError(f"{last}: the tokens are not those that the merges make")
        if not merges.equals(vocabulary.merges_table()):
            raise FormatError(f"{first}: ranks, ids and bytes of the merges do not belong together")
        return vocabulary
