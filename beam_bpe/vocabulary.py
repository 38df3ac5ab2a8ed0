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
from beam_bpe.layout import AddedToken, Layout
from beam_bpe.model import Model, byte_token
from beam_bpe.normalize import check_normalizer, identity, spec
from beam_bpe.pretokenize import PreTokenizer
from beam_bpe.special import SpecialTokens


_DERIVED = frozenset(("tokens", "ids", "spelt", "merged", "fingerprint", "unk_id"))


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
    """Tokens and their ids, and how text is cut before them; frozen, and checked when it is made.

    Ids of byte-level BPE that is learned: the 256 bytes in the order of `alphabet`, then the merges by rank, then
    the special tokens.  So `len(vocabulary) == 256 + len(vocabulary.merges) + len(vocabulary.special_tokens)`.
    Every other one, and one that was made elsewhere, has a `layout`, which says where its ids stand.

    Attributes:
        pre_tokenizer: cuts a document into the words within which tokens are found.
        alphabet: of byte-level BPE 256 different bytes, the byte of id k being alphabet[k]; else empty.
        left, right: ids of each merge's parts, by rank (uint32).
        counts, replaced: of each merge: the pair's count when it was merged, and the replacements
            made, which are fewer only when left = right (int64).
        special_tokens: texts that stand for themselves.
        normalizer: names of its steps, such as "NFC" (`beam_bpe.normalize`), or None: text is taken as it is.
        stop_reason: why learning ended: "vocab_size", "min_pair_count" or "no_pairs".
        parameters, totals: of the training, for people to read.
        layout: the ids of all tokens; None where they follow from the merges of bytes.
        model: how tokens are found in a word; byte-level BPE unless it is said.

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
    model: Model = Model()

    def __post_init__(self) -> None:
        if not len(self.left) == len(self.right) == len(self.counts) == len(self.replaced):
            raise ValueError("the columns of the merges differ in length")
        check_normalizer(self.normalizer)
        SpecialTokens(self.special_tokens)
        if self.layout is not None:
            self._check_layout(self.layout)
            return
        if not self.model.is_byte_level:
            raise ValueError(f"a vocabulary of algorithm {self.model.algorithm!r} over characters has a layout")
        self._check_bytes()
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

    def _check_bytes(self) -> None:
        if sorted(self.alphabet) != list(range(256)):
            raise ValueError("the alphabet does not hold each of the 256 bytes once")

    def _check_layout(self, layout: Layout) -> None:
        tokens = layout.tokens
        if len(layout.merged) != len(self.left):
            raise ValueError("the columns of the merges differ in length")
        if self.model.is_byte_level:
            missing = [byte for byte in range(256) if bytes([byte]) not in layout.ids]
            if missing:
                raise ValueError(
                    f"{len(missing)} of the 256 bytes have no token, the first of them 0x{missing[0]:02x}: text that "
                    "holds them could not be encoded"
                )
            if self.alphabet != layout.alphabet:
                raise ValueError("the alphabet is not in the order of the ids of the bytes")
        else:
            self._check_characters(layout)
        if self.model.is_scored != (layout.scores is not None):
            raise ValueError(f"scores go with the algorithms that have them, and {self.model.algorithm!r} is not so")
        if self.special_tokens != tuple(token.text for token in layout.added_tokens if token.special):
            raise ValueError("the special tokens are not those of the layout")
        sides = [column.astype(np.int64) for column in (self.left, self.right, layout.merged)]
        if not sides[0].size:
            return
        if max(int(side.max()) for side in sides) >= len(tokens):
            rank = int(np.argmax(np.max(sides, axis=0) >= len(tokens)))
            raise ValueError(f"the merge of rank {rank} names a token that does not exist")
        parts = [self.spelt.take(pa.array(side)) for side in sides]
        prefix = (self.model.continuing_subword_prefix or "").encode()
        if prefix:
            rest = pc.binary_replace_slice(parts[1], 0, len(prefix), b"")
            parts[1] = pc.if_else(pc.starts_with(parts[1], pattern=prefix), rest, parts[1])
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

    def _check_characters(self, layout: Layout) -> None:
        """Check what a vocabulary of characters has beside its merges."""
        if self.alphabet:
            raise ValueError("the alphabet is that of bytes, and this vocabulary is of characters: leave it empty")
        for i, token in enumerate(layout.tokens):
            try:
                token.decode()
            except UnicodeDecodeError:
                raise ValueError(f"the token {token!r} of id {i} is no text") from None
        for added in layout.added_tokens:
            if added.special and added.text.encode() in layout.ids:
                raise ValueError(f"the special token {added.text!r} is a piece of the model as well")
        if self.model.algorithm in ("wordlevel", "unigram") and len(self.left):
            raise ValueError(f"a vocabulary of algorithm {self.model.algorithm!r} has no merges")
        _ = self.unk_id  # refuses an unk_token that is none of the tokens
        if self.model.byte_fallback:
            missing = [byte for byte in range(256) if byte_token(byte).encode() not in layout.ids]
            if missing:
                raise ValueError(
                    f"byte_fallback needs the tokens {byte_token(0)} to {byte_token(255)}, and {byte_token(missing[0])} is missing"
                )

    @cached_property
    def unk_id(self) -> int | None:
        """The id of the model's `unk_token`, None if it has none; ValueError if there is no such token."""
        text = self.model.unk_token
        if text is None:
            return None
        for token in self.added_tokens:
            if token.text == text:
                return token.id
        if text.encode() not in self.ids:
            raise ValueError(f"unk_token is {text!r}, which is no token of the vocabulary")
        return self.ids[text.encode()]

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

    def rules(self) -> dict[str, Any]:
        """Return how text is cut and tokens are found in it, for headers and the fingerprint."""
        rules: dict[str, Any] = {
            "algorithm": self.model.algorithm,
            "unit": self.model.unit,
            "pre_tokenizer": self.pre_tokenizer.spec(),
            "normalizer": self.normalizer,
        }
        if self.normalizer is not None:
            rules["normalizer_spec"] = spec(self.normalizer)
        if own := self.model.spec():
            rules["model"] = own
        return rules

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hexadecimal) of all that decides how a text is encoded."""
        merging = self.model.algorithm == "bpe"  # all others are found without the merges that may have made them
        head = {
            **self.rules(),
            "alphabet": self.alphabet.hex(),
            "special_tokens": list(self.special_tokens),
            "merges": len(self.left) if merging else 0,
        }
        if self.normalizer is not None:  # several names may say the same steps
            del head["normalizer_spec"]
            head["normalizer"] = identity(self.normalizer)
        if self.layout is not None:
            head["layout"] = {key: value for key, value in self.layout.spec().items() if key != "origin"}
        state = hashlib.sha256(artifacts.canonical_json(head).encode())
        columns = [self.left, self.right, *([self.layout.merged] if self.layout is not None else [])]
        for column in columns if merging else []:
            state.update(column.astype("<u4").tobytes())
        if self.layout is not None:
            state.update(np.asarray(pc.binary_length(self.spelt)).astype("<u4").tobytes())
            state.update(b"".join(self.tokens))
            if self.layout.scores is not None:
                state.update(self.layout.scores.astype("<f8").tobytes())
        return state.hexdigest()

    @classmethod
    def imported(
        cls,
        layout: Layout,
        *,
        format: str,
        pre_tokenizer: PreTokenizer,
        left: np.ndarray | None = None,
        right: np.ndarray | None = None,
        normalizer: str | None = None,
        model: Model = Model(),
        **parameters: Any,
    ) -> Vocabulary:
        """Return a vocabulary that was made elsewhere, where nothing was counted.

        Args:
            format: of the file that it was read from; recorded, as are `parameters`.
            left, right: ids of each merge's parts; None: there are no merges.
        """
        nothing = np.zeros(len(layout.merged), np.int64)
        return cls(
            pre_tokenizer=pre_tokenizer,
            alphabet=layout.alphabet if model.is_byte_level else b"",
            left=np.empty(0, np.uint32) if left is None else left,
            right=np.empty(0, np.uint32) if right is None else right,
            counts=nothing,
            replaced=nothing,
            special_tokens=tuple(token.text for token in layout.added_tokens if token.special),
            normalizer=normalizer,
            stop_reason="imported",
            parameters={"format": format, **parameters},
            layout=layout,
            model=model,
        )

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
