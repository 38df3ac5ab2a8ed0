"""The ids of a vocabulary, where they do not follow from its merges: tokens with holes between, added tokens anywhere."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, Mapping

import numpy as np

#: Ids are at most this large (the encoder's limit), so that a hostile file cannot ask for any memory.
MOST_IDS = (1 << 21) - 1


@dataclass(frozen=True)
class AddedToken:
    """A text that is one token wherever it occurs, as Hugging Face's `AddedToken`.

    Attributes:
        text: what is found.
        id: its id.
        special: found only where it is allowed; the others always are.
        lstrip, rstrip: whitespace on that side belongs to it.
        single_word: found only where no word character stands beside it.
        normalized: found in the normalized text (and itself normalized), after those that are not.
    """

    text: str
    id: int
    special: bool = True
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False

    @property
    def plain(self) -> bool:
        """Whether it is found as its text and nothing else."""
        return not (self.lstrip or self.rstrip or self.single_word or self.normalized)


@dataclass(frozen=True, eq=False)
class Layout:
    """Where ids stand, where they do not follow from merges of bytes; checked when it is made.

    Attributes:
        tokens: the bytes of the model's tokens by id, b"" where it has none of that id (a hole); pieces of characters
            are spelled with their marks, in UTF-8.
        merged: uint32, the id that each merge makes, by rank; several may make the same.
        added_tokens: special tokens and others that are found before the pre-tokenization.
        whole_pieces: a word that is a token is that token, whatever the merges give (Hugging Face's
            ignore_merges, and what tiktoken does).
        scores: float64 by id, 0 where there is no token, of the algorithms that have scores; else None.
        user_defined: ids of tokens that are found in a text before all others (SentencePiece's user-defined symbols).
        unused: ids of tokens that no text is given, which merges may go through (SentencePiece's unused pieces).
        prefix, suffix: ids that its post-processor puts around a text when asked.
        origin: parts of the file it came from, kept for the way back (JSON).

    Raises:
        ValueError: ids or tokens stand twice, an id is too large, or a score is no number.
    """

    tokens: tuple[bytes, ...]
    merged: np.ndarray
    added_tokens: tuple[AddedToken, ...] = ()
    whole_pieces: bool = False
    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)
    scores: np.ndarray | None = None
    user_defined: tuple[int, ...] = ()
    unused: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        seen = self.ids
        if len(seen) != len(self.tokens) - self.tokens.count(b""):
            twice = next(i for i, token in enumerate(self.tokens) if token and seen[token] != i)
            raise ValueError(f"tokens {twice} and {seen[self.tokens[twice]]} are both {self.tokens[twice]!r}")
        texts: dict[str, int] = {}
        ids: dict[int, str] = {}
        for token in self.added_tokens:
            if not token.text:
                raise ValueError(f"the added token of id {token.id} is empty")
            if not 0 <= token.id < MOST_IDS:
                raise ValueError(f"the added token {token.text!r} has the id {token.id}; ids are below {MOST_IDS:,}")
            if token.text in texts or token.id in ids:
                raise ValueError(f"the added token {token.text!r} of id {token.id} stands twice, or its id is taken")
            model = self.tokens[token.id] if token.id < len(self.tokens) else b""
            encoded = token.text.encode("utf-8", "surrogatepass")
            if any("\ud800" <= char <= "\udfff" for char in token.text):
                raise ValueError(f"the added token {token.text!r} holds half a surrogate pair, which no text does")
            if model and model != encoded:
                raise ValueError(f"the added token {token.text!r} has the id {token.id}, where the model has {model!r}")
            texts[token.text], ids[token.id] = token.id, token.text
        if self.size > MOST_IDS:
            raise ValueError(f"the greatest id is {self.size - 1:,}; ids are below {MOST_IDS:,}")
        self._check_scores()
        for side in (self.prefix, self.suffix):
            for i in side:
                if i not in ids and not (0 <= i < len(self.tokens) and self.tokens[i]):
                    raise ValueError(f"the post-processor adds the id {i}, which is no token")

    def _check_scores(self) -> None:
        if self.scores is not None:
            scores = np.asarray(self.scores, np.float64)
            object.__setattr__(self, "scores", scores)
            if scores.shape != (self.size,):
                raise ValueError(f"there are {scores.size} scores for {self.size} ids")
            if not np.isfinite(scores).all():
                i = int(np.argmin(np.isfinite(scores)))
                raise ValueError(f"the token of id {i} has the score {scores[i]}, which is no finite number")
        seen: set[int] = set()
        for name, group in (("user_defined", self.user_defined), ("unused", self.unused)):
            for i in group:
                if self.scores is None:
                    raise ValueError(f"{name} tokens go with scores, and there are none")
                if not 0 <= i < len(self.tokens) or not self.tokens[i] or i in seen:
                    raise ValueError(f"the {name} id {i} is no token, or stands twice")
                seen.add(i)

    @cached_property
    def ids(self) -> dict[bytes, int]:
        """The id of each token of the model."""
        found = dict(zip(self.tokens, range(len(self.tokens))))
        found.pop(b"", None)
        return found

    @cached_property
    def alphabet(self) -> bytes:
        """The tokens of one byte in the order of their ids: of a byte-level vocabulary the 256 bytes."""
        return b"".join([token for token in self.tokens if len(token) == 1])

    def __getstate__(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}  # what follows from them is made again

    @property
    def size(self) -> int:
        """One more than the greatest id."""
        return max(len(self.tokens), *(token.id + 1 for token in self.added_tokens), 0)

    def spec(self) -> dict[str, Any]:
        """Return what an artifact's header says beside tokens and merges."""
        return {
            "added_tokens": [
                {**asdict(token), "in_model": token.id < len(self.tokens) and self.tokens[token.id] != b""}
                for token in self.added_tokens
            ],
            "whole_pieces": self.whole_pieces,
            "prefix": list(self.prefix),
            "suffix": list(self.suffix),
            "size": len(self.tokens),
            "origin": dict(self.origin),
            **({"user_defined": list(self.user_defined)} if self.user_defined else {}),
            **({"unused": list(self.unused)} if self.unused else {}),
        }

    @classmethod
    def from_spec(
        cls,
        spec: Mapping[str, Any],
        ids: list[int],
        tokens: list[bytes],
        merged: np.ndarray,
        scores: np.ndarray | None = None,
    ) -> Layout:
        """Return the layout of an artifact's header and of its tokens; ValueError if they do not fit.

        Args:
            scores: of the tokens, in their order.
        """
        fields = [dict(token) for token in spec["added_tokens"]]
        outside = {token["id"] for token in fields if not token.pop("in_model")}
        if not 0 <= spec["size"] <= MOST_IDS:
            raise ValueError(f"the layout has {spec['size']} ids; at most {MOST_IDS:,} are possible")
        by_id = [b""] * spec["size"]
        if not outside and ids == list(range(len(by_id))):
            by_id = tokens
        else:
            for i, token in zip(ids, tokens):
                if i in outside:
                    continue
                if i >= len(by_id):
                    raise ValueError(f"token {i} is beyond the {len(by_id)} ids of the layout")
                by_id[i] = token
        added = tuple(AddedToken(**token) for token in fields)
        scores_by_id = None
        if scores is not None:
            scores_by_id = np.zeros(max(len(by_id), *(token.id + 1 for token in added), 0))
            scores_by_id[ids] = scores
        return cls(
            tokens=tuple(by_id),
            merged=merged,
            added_tokens=added,
            whole_pieces=spec["whole_pieces"],
            prefix=tuple(spec["prefix"]),
            suffix=tuple(spec["suffix"]),
            origin=dict(spec["origin"]),
            scores=scores_by_id,
            user_defined=tuple(spec.get("user_defined", ())),
            unused=tuple(spec.get("unused", ())),
        )
