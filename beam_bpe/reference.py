"""Count, learn and encode in plain Python: the specification that every kernel is tested against.

Byte-pair encoding (Gage 1994, "A New Algorithm for Data Compression"), learned on the words of a
corpus (Sennrich, Haddow and Birch 2016, "Neural Machine Translation of Rare Words with Subword
Units"). Everything is recounted after every merge, so nothing here can drift; a merge costs the
whole table, so nothing here is meant for a real corpus. It never stands in for a missing kernel.

>>> corpus = "low low low low low lower lower newest newest newest newest newest newest"
>>> words = count([corpus + " widest widest widest"], r" ?\\w+")
>>> learned = learn(words, 10, tie_break="first")
>>> [learned.tokens[merge.id].decode() for merge in learned.merges]
['es', 'est', 'lo', 'low', ' low', ' n', ' ne', ' new', ' newest', ' w']
>>> [merge.count for merge in learned.merges]
[9, 9, 7, 7, 6, 6, 6, 6, 6, 3]
"""

from __future__ import annotations

from collections import Counter
from typing import Callable, Collection, Iterable, Mapping, NamedTuple, Sequence

import regex

Pair = tuple[int, int]

INT64_MAX = 2**63 - 1

# GPT-2 shows these bytes as themselves and the other 68 as U+0100, U+0101, ...; Hugging Face
# sorts its alphabet by those characters.
_SHOWN = bytes([*range(33, 127), *range(161, 173), *range(174, 256)])

# Per tie rule, the bytes in the order of their ids: id k is the byte BYTE_ORDER[rule][k].
BYTE_ORDER: dict[str, bytes] = {
    "huggingface": _SHOWN + bytes(b for b in range(256) if b not in _SHOWN),
    "bytes": bytes(range(256)),
    "lexicographic": bytes(range(256)),
    "first": bytes(range(256)),
}


class Merge(NamedTuple):
    """Hold one merge: left + right become id.

    count is the pair's count when it was chosen, replaced the replacements made; replaced is
    smaller only when left = right, whose occurrences overlap.
    """

    left: int
    right: int
    id: int
    count: int  # type: ignore[assignment]  # the tuple's method of that name is not wanted here
    replaced: int


class Learned(NamedTuple):
    """Hold the merges by rank, the bytes of every id, and why the learning stopped.

    stop is "vocab_size" (all merges asked for were made), "min_pair_count" (the best pair is
    rarer) or "no_pairs" (no pair is left that max_token_length allows).
    """

    merges: list[Merge]
    tokens: list[bytes]
    stop: str


def pre_tokenize(text: str, pattern: str, gaps: str = "keep") -> list[str]:
    """Cut a text into words, the non-empty matches of a pattern.

    Text between two matches is a word of its own with gaps="keep" and lost with gaps="drop"; an empty
    match is no word, but text on either side of it is not one word. Capture groups are ignored.

    >>> pre_tokenize("low, low!", r" ?\\w+")
    ['low', ',', ' low', '!']
    >>> pre_tokenize("low, low!", r" ?\\w+", gaps="drop")
    ['low', ' low']
    """
    if gaps not in ("keep", "drop"):
        raise ValueError(f"gaps={gaps!r}: choose 'keep' or 'drop'")
    words = []
    end = 0
    for match in regex.finditer(pattern, text):
        if gaps == "keep" and end < match.start():
            words.append(text[end : match.start()])
        if match.group():
            words.append(match.group())
        end = match.end()
    if gaps == "keep" and end < len(text):
        words.append(text[end:])
    return words


def count(
    documents: Iterable[str],
    pattern: str,
    gaps: str = "keep",
    special_tokens: Sequence[str] = (),
) -> Counter[bytes]:
    """Count the words of documents, as UTF-8, in the order in which they are first seen.

    Special tokens (the leftmost, there the longest) cut a document in two and are not counted.

    >>> count(["low low<|end|> low"], r" ?\\w+", special_tokens=["<|end|>"])
    Counter({b' low': 2, b'low': 1})
    """
    if "" in special_tokens:
        raise ValueError("special_tokens holds '': a special token has at least one character")
    longest_first = sorted(special_tokens, key=len, reverse=True)
    special = regex.compile("|".join(map(regex.escape, longest_first)))
    counts: Counter[bytes] = Counter()
    for document in documents:
        for segment in special.split(document) if special_tokens else [document]:
            counts.update(word.encode() for word in pre_tokenize(segment, pattern, gaps))
    return counts


def pair_counts(words: Iterable[tuple[Sequence[int], int]]) -> dict[Pair, int]:
    """Count the adjacent pairs of (symbols, count) words, overlapping ones too, as first seen.

    >>> pair_counts([([97, 97, 97], 10), ([97, 98], 1)])
    {(97, 97): 20, (97, 98): 1}
    """
    counts: dict[Pair, int] = {}
    for symbols, word_count in words:
        for pair in zip(symbols, symbols[1:]):
            counts[pair] = counts.get(pair, 0) + word_count
    return counts


def merge_word(symbols: Sequence[int], pair: Pair, new: int) -> tuple[list[int], int]:
    """Replace a pair by a new id from left to right; return the symbols and the replacements.

    >>> merge_word([97, 97, 97, 98], (97, 97), 256)
    ([256, 97, 98], 1)
    """
    merged: list[int] = []
    i = 0
    while i < len(symbols):
        if tuple(symbols[i : i + 2]) == pair:
            merged.append(new)
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged, len(symbols) - len(merged)


def learn(
    words: Mapping[bytes, int],
    num_merges: int,
    *,
    tie_break: str = "huggingface",
    min_pair_count: int = 1,
    max_token_length: int | None = None,
    excluded: Collection[bytes] = (),
) -> Learned:
    """Learn merges from words and their counts: merge the most frequent pair, recount, repeat.

    Ids 0..255 are the bytes in the order BYTE_ORDER[tie_break], merges follow from 256. Of the
    pairs with the highest count `huggingface` and `bytes` take the smallest (left id, right id),
    `lexicographic` the greatest (left bytes, right bytes), `first` the one first seen in the
    order of words, positions from left to right. A pair rarer than min_pair_count ends the
    learning; a pair that would be longer than max_token_length bytes is never merged, nor is one
    whose token would be excluded. Words that count 0 are as if absent.

    Raises OverflowError, naming the pair, when a pair counts more than 2**63 - 1.

    >>> learned = learn({b"hug": 10, b"pug": 5, b"pun": 12, b"bun": 4, b"hugs": 5}, 4)
    >>> [(learned.tokens[merge.id], merge.count) for merge in learned.merges]
    [(b'ug', 20), (b'un', 16), (b'hug', 15), (b'pun', 12)]
    >>> learn({b"aaaaaaaa": 1}, 1, tie_break="bytes").merges
    [Merge(left=97, right=97, id=256, count=7, replaced=4)]
    """
    if tie_break not in BYTE_ORDER:
        raise ValueError(f"tie_break={tie_break!r}: choose one of {', '.join(BYTE_ORDER)}")
    if num_merges < 0:
        raise ValueError(f"num_merges={num_merges}: choose 0 or more")
    if min_pair_count < 1:
        raise ValueError(f"min_pair_count={min_pair_count}: choose 1 or more")
    if max_token_length is not None and max_token_length < 1:
        raise ValueError(f"max_token_length={max_token_length}: choose 1 or more, or None")
    for word, word_count in words.items():
        if word_count < 0:
            raise ValueError(f"the word {word!r} counts {word_count}: a count is 0 or more")

    tokens = [bytes([b]) for b in BYTE_ORDER[tie_break]]
    byte_ids = {b: k for k, b in enumerate(BYTE_ORDER[tie_break])}
    # In the order of words, which `first` sees.
    segmented = [([byte_ids[b] for b in word], n) for word, n in words.items() if n]

    def choose(counts: dict[Pair, int]) -> Pair | str:
        allowed = {
            (left, right): n
            for (left, right), n in counts.items()
            if max_token_length is None or len(tokens[left] + tokens[right]) <= max_token_length
            if tokens[left] + tokens[right] not in excluded
        }
        check_counts(allowed, tokens)
        if not allowed:
            return "no_pairs"
        # max returns the first of equals, and counts are in the order in which pairs are seen.
        if tie_break == "first":
            pair = max(allowed, key=allowed.__getitem__)
        elif tie_break == "lexicographic":
            pair = max(allowed, key=lambda p: (allowed[p], tokens[p[0]], tokens[p[1]]))
        else:
            pair = max(allowed, key=lambda p: (allowed[p], -p[0], -p[1]))
        return pair if allowed[pair] >= min_pair_count else "min_pair_count"

    def made(left: int, right: int) -> int:
        tokens.append(tokens[left] + tokens[right])
        return len(tokens) - 1

    merges, stop = merge_and_recount(segmented, num_merges, choose, made)
    return Learned(merges, tokens, stop)


def check_counts(counts: Mapping[Pair, int], tokens: Sequence[object]) -> None:
    """Raise OverflowError, naming the pair, if one counts more than 2**63 - 1."""
    for (left, right), n in counts.items():
        if n > INT64_MAX:
            raise OverflowError(f"the pair {(tokens[left], tokens[right])} counts {n}, more than 2**63 - 1")


def merge_and_recount(
    segmented: list[tuple[list[int], int]],
    num_merges: int,
    choose: Callable[[dict[Pair, int]], Pair | str],
    made: Callable[[int, int], int],
) -> tuple[list[Merge], str]:
    """Count all pairs, merge the one that is chosen, and repeat; return the merges and why it stopped.

    Args:
        segmented: (symbols, count) of each word; the merges are made in it.
        choose: returns the pair to merge of all counts, or why there is none.
        made: returns the id of what a pair becomes.
    """
    merges: list[Merge] = []
    while len(merges) < num_merges:
        counts = pair_counts(segmented)
        pair = choose(counts)
        if isinstance(pair, str):
            return merges, pair
        new = made(*pair)
        replaced = 0
        for i, (symbols, n) in enumerate(segmented):
            merged, replacements = merge_word(symbols, pair, new)
            segmented[i] = merged, n
            replaced += replacements * n
        merges.append(Merge(*pair, new, counts[pair], replaced))
    return merges, "vocab_size"


def encode(
    word: bytes, merges: Mapping[Pair, int], byte_ids: Mapping[int, int] | Sequence[int]
) -> list[int]:
    """Encode one word by rank: as long as a known pair is left, merge the one of lowest rank.

    merges gives the id of each (left id, right id); ids rise with rank. byte_ids[b] is the id
    of the byte b. All occurrences of a pair are merged at once, from left to right.

    >>> learned = learn({b"low": 5, b"lower": 2}, 2, tie_break="bytes")
    >>> merges = {(merge.left, merge.right): merge.id for merge in learned.merges}
    >>> encode(b"slow", merges, range(256))
    [115, 257]
    """
    symbols = [byte_ids[b] for b in word]
    while True:
        known = [pair for pair in zip(symbols, symbols[1:]) if pair in merges]
        if not known:
            return symbols
        pair = min(known, key=merges.__getitem__)
        symbols, _ = merge_word(symbols, pair, merges[pair])


def decode(ids: Iterable[int], tokens: Sequence[bytes] | Mapping[int, bytes]) -> bytes:
    """Join the bytes of ids.

    >>> decode([115, 257], learn({b"low": 5, b"lower": 2}, 2, tie_break="bytes").tokens)
    b'slow'
    """
    return b"".join(tokens[k] for k in ids)
