"""What a token is made of, and what is made of it, as the merges of a vocabulary say."""

from __future__ import annotations

from typing import Iterable, Iterator, NamedTuple

from beam_bpe import token_list
from beam_bpe.vocabulary import Merge, Vocabulary


class Branch(NamedTuple):
    """A token in a merge tree: how deep it stands, and the merge that makes it (None of an initial one)."""

    depth: int
    id: int
    token: bytes
    merge: Merge | None


class Lineage:
    """The merges of a vocabulary by what they make and what they are made of.

    >>> from beam_bpe import train
    >>> lineage = Lineage(train({"low": 5, "lowest": 2, "newest": 6}, 260))
    >>> [(branch.depth, branch.token) for branch in lineage.tree(257)]
    [(0, b'wes'), (1, b'w'), (1, b'es'), (2, b'e'), (2, b's')]
    >>> [merge.token for merge in lineage.made_of(257)]
    [b'west']
    """

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        self._merges = vocabulary.merges
        self._making: dict[int, int] = {}
        for rank, made in enumerate(vocabulary.merged.tolist()):
            self._making.setdefault(made, rank)

    def merge_of(self, token_id: int) -> Merge | None:
        """Return the first merge that makes a token."""
        rank = self._making.get(token_id)
        return None if rank is None else self._merges[rank]

    def tree(self, token_id: int) -> Iterator[Branch]:
        """Yield a token, its left part with all of its parts, then its right part with all of its own."""
        waiting = [(0, token_id)]
        while waiting:
            depth, i = waiting.pop()
            merge = self.merge_of(i)
            yield Branch(depth, i, self.vocabulary.tokens[i], merge)
            if merge is not None:
                left, right = int(self.vocabulary.left[merge.rank]), int(self.vocabulary.right[merge.rank])
                waiting += [(depth + 1, right), (depth + 1, left)]

    def made_of(self, token_id: int) -> list[Merge]:
        """Return the merges that a token is a part of, by rank."""
        sides = self.vocabulary.left == token_id, self.vocabulary.right == token_id
        return [self._merges[rank] for rank in (sides[0] | sides[1]).nonzero()[0].tolist()]


def find_token(vocabulary: Vocabulary, text: str) -> int:
    """Return the id of the token that a text names.

    It is written as `token_list` has it, or "id:N"; if there is none, it is the one with a space or a mark before or
    behind it, where there is one alone.

    Raises:
        ValueError: there is none, or several, or the text is empty; the message names what there is.

    >>> from beam_bpe import train
    >>> vocabulary = train({" low": 5, "low": 5}, 259)
    >>> find_token(vocabulary, "low"), find_token(vocabulary, " low"), find_token(vocabulary, "id:257")
    (257, 258, 257)
    """
    if not text:
        raise ValueError("the token is empty: write it as text, \\xNN for a byte, or id:N")
    added = {token.text: token.id for token in vocabulary.added_tokens}
    if text.startswith("id:") and text[3:].isdecimal():
        i = int(text[3:])
        if i in added.values() or (i < len(vocabulary.tokens) and vocabulary.tokens[i]):
            return i
        raise ValueError(f"id {i} is no token of this vocabulary; its ids are below {len(vocabulary)}")
    if text in added:
        return added[text]
    token = token_list.unescaped(text)
    if token in vocabulary.ids:
        return vocabulary.ids[token]
    model = vocabulary.model
    marks = (" ", "\u2581", model.continuing_subword_prefix or "")
    candidates = [mark.encode() + token for mark in marks if mark] + [token + (model.end_of_word or "").encode()]
    there = [one for one in candidates if one in vocabulary.ids]
    if len(there) == 1:
        return vocabulary.ids[there[0]]
    raise ValueError(f"'{text}' is no token of this vocabulary{_hint(vocabulary.ids, there, token)}")


def _hint(known: Iterable[bytes], there: list[bytes], token: bytes) -> str:
    if not there and token:
        holding = sorted((one for one in known if token in one), key=lambda one: (len(one), one))
        there = holding[:5]
        more = len(holding) - len(there)
        if not there:
            return ", nor a part of one"
        told = ", ".join(token_list.shown(one) for one in there)
        return f"; it is a part of {told}{f' and {more:,} more' if more else ''}"
    return "; there are " + " and ".join(token_list.shown(one) for one in there)
