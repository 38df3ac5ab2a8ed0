"""The vocabulary: ranked merges, ids, special tokens, and how text is cut before them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_bpe import artifacts
from beam_bpe.formats import parquet
from beam_bpe.formats.parquet import ALGORITHM, UNIT
from beam_bpe.layout import AddedToken, Layout
from beam_bpe.normalize import check_normalizer
from beam_bpe.pretokenize import PreTokenizer
from beam_bpe.special import SpecialTokens


_DERIVED = frozenset(("tokens", "ids", "spelt", "merged", "fingerprint"))


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

    Ids of one that is learned: the 256 bytes in the order of `alphabet`, then the merges by rank, then the
    special tokens.  So `len(vocabulary) == 256 + len(vocabulary.merges) + len(vocabulary.special_tokens)`.
    One that was made elsewhere has a `layout`, which says where its ids stand.

    Attributes:
        pre_tokenizer: cuts a document into the words within which merges apply.
        alphabet: 256 different bytes; the byte of id k is alphabet[k].
        left, right: ids of each merge's parts, by rank (uint32).
        counts, replaced: of each merge: the pair's count when it was merged, and the replacements
            made, which are fewer only when left = right (int64).
        special_tokens: texts that stand for themselves.
        normalizer: "NFC", or None: text is taken as it is.
        stop_reason: why learning ended: "vocab_size", "min_pair_count" or "no_pairs".
        parameters, totals: of the training, for people to read.
        layout: the ids of a vocabulary that was made elsewhere; None for one that was learned here.

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
    layout: Layout | None = None

    def __post_init__(self) -> None:
        if sorted(self.alphabet) != list(range(256)):
            raise ValueError("the alphabet does not hold each of the 256 bytes once")
        if not len(self.left) == len(self.right) == len(self.counts) == len(self.replaced):
            raise ValueError("the columns of the merges differ in length")
        check_normalizer(self.normalizer)
        SpecialTokens(self.special_tokens)
        if self.layout is not None:
            self._check_layout(self.layout)
            return
        own = np.arange(256, 256 + len(self.left))
        for side in (self.left, self.right):
            if len(side) and not bool((side < own).all()):
                rank = int(np.argmin(side < own))
                raise ValueError(f"the merge of rank {rank} is made of token {side[rank]}, which comes after it")
        learned = self.ids
        for token in self.special_tokens:
            if token.encode() in learned:
                raise ValueError(f"the special token {token!r} is a byte or a learned token as well")
        if len(learned) != 256 + len(self.left):
            twice = next(i for i, token in enumerate(self.tokens) if learned[token] != i)
            raise ValueError(f"tokens {twice} and {learned[self.tokens[twice]]} are both {self.tokens[twice]!r}")

    def _check_layout(self, layout: Layout) -> None:
        tokens = layout.tokens
        if len(layout.merged) != len(self.left):
            raise ValueError("the columns of the merges differ in length")
        if self.alphabet != layout.alphabet:
            raise ValueError("the alphabet is not in the order of the ids of the bytes")
        if self.special_tokens != tuple(token.text for token in layout.added_tokens if token.special):
            raise ValueError("the special tokens are not those of the layout")
        sides = [column.astype(np.int64) for column in (self.left, self.right, layout.merged)]
        if not sides[0].size:
            return
        if max(int(side.max()) for side in sides) >= len(tokens):
            rank = int(np.argmax(np.max(sides, axis=0) >= len(tokens)))
            raise ValueError(f"the merge of rank {rank} names a token that does not exist")
        parts = [self.spelt.take(pa.array(side)) for side in sides]
        wrong = np.asarray(pc.not_equal(pc.binary_join_element_wise(parts[0], parts[1], b""), parts[2]))
        for part in parts[:2]:
            wrong = wrong | (np.asarray(pc.binary_length(part)) == 0)
        if wrong.any():
            rank = int(np.argmax(wrong))
            a, b, made = (tokens[side[rank]] for side in sides)
            raise ValueError(f"the merge of rank {rank} is of {a!r} and {b!r}, but makes {made!r}")
        pairs = sides[0] << 32 | sides[1]
        distinct, first = np.unique(pairs, return_index=True)
        if len(distinct) < len(pairs):
            rank = int(np.setdiff1d(np.arange(len(pairs)), first)[0])
            a, b = tokens[sides[0][rank]], tokens[sides[1][rank]]
            raise ValueError(f"the merges of rank {int(np.argmax(pairs == pairs[rank]))} and {rank} are both of {a!r} and {b!r}")

    @cached_property
    def tokens(self) -> Sequence[bytes]:
        """The bytes of each token of the model by id; b"" where a layout has a hole.  Special tokens are not among them."""
        if self.layout is not None:
            return self.layout.tokens
        tokens = [bytes([byte]) for byte in self.alphabet]
        for left, right in zip(self.left.tolist(), self.right.tolist()):
            tokens.append(tokens[left] + tokens[right])
        return tokens

    @cached_property
    def ids(self) -> dict[bytes, int]:
        """The id of each token of the model."""
        return self.layout.ids if self.layout is not None else dict(zip(self.tokens, range(len(self.tokens))))

    @cached_property
    def spelt(self) -> pa.Array:
        """The tokens as an Arrow column (binary), with empty values for holes."""
        return pa.array(self.tokens, pa.binary())

    @cached_property
    def merged(self) -> np.ndarray:
        """The id that each merge makes, by rank (uint32)."""
        if self.layout is not None:
            return self.layout.merged
        return np.arange(256, 256 + len(self.left), dtype=np.uint32)

    @property
    def added_tokens(self) -> tuple[AddedToken, ...]:
        """Texts that are found before the pre-tokenization: the special tokens, and those of a layout that are not special."""
        if self.layout is not None:
            return self.layout.added_tokens
        first = 256 + len(self.left)
        return tuple(AddedToken(token, first + i) for i, token in enumerate(self.special_tokens))

    @property
    def special_ids(self) -> dict[str, int]:
        """The id of each special token."""
        return {token.text: token.id for token in self.added_tokens if token.special}

    @property
    def merges(self) -> list[Merge]:
        """The merges by rank."""
        tokens = self.tokens
        sides = (self.left.tolist(), self.right.tolist(), self.merged.tolist())
        return [
            Merge(rank, tokens[left], tokens[right], tokens[made], made, count, replaced)
            for rank, (left, right, made, count, replaced) in enumerate(
                zip(*sides, self.counts.tolist(), self.replaced.tolist())
            )
        ]

    def __len__(self) -> int:
        """Return one more than the greatest id, which is the number of tokens where there are no holes."""
        if self.layout is not None:
            return self.layout.size
        return 256 + len(self.left) + len(self.special_tokens)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"<Vocabulary of {len(self)} tokens, {self.pre_tokenizer.name}, {self.fingerprint[:12]}>"

    def __getstate__(self) -> dict[str, Any]:
        # Pickles by content; what follows from it is made again where it is asked for.
        return {k: v for k, v in self.__dict__.items() if k not in _DERIVED}

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
        if self.layout is not None:
            spec = self.layout.spec()
            head["layout"] = {key: value for key, value in spec.items() if key != "origin"}
        state = hashlib.sha256(artifacts.canonical_json(head).encode())
        for side in (self.left, self.right):
            state.update(side.astype("<u4").tobytes())
        if self.layout is not None:
            state.update(self.layout.merged.astype("<u4").tobytes())
            state.update(np.asarray(pc.binary_length(self.spelt)).astype("<u4").tobytes())
            state.update(b"".join(self.tokens))
        return state.hexdigest()

    def save(self, folder: str, *, overwrite: bool = False) -> None:
        """Write the two files into a folder; nothing is done where this vocabulary stands already.

        Raises:
            FileExistsError: another one stands there, and `overwrite` is not set.
        """
        parquet.save(self, folder, overwrite=overwrite)

    @classmethod
    def load(cls, folder: str, *, allow_callables: Iterable[str] = ()) -> Vocabulary:
        """Read a vocabulary from its folder (or the path of one of its two files).

        Other formats: `beam_bpe.formats.load`.

        Args:
            allow_callables: functions "module:function" that may be imported if the vocabulary names
                one as its pre-tokenizer; no other is.

        Raises:
            FileNotFoundError: it is not there.
            FormatError: a file is broken, or the two are not of one vocabulary.
        """
        loaded: Vocabulary = parquet.load(folder, cls, allow_callables=allow_callables)
        return loaded
