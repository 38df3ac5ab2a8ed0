"""Characters with an end of word, and WordPiece, in plain Python: what their kernels are tested against.

Character BPE is that of Sennrich, Haddow and Birch 2016 ("Neural Machine Translation of Rare Words with Subword Units");
WordPiece that of Schuster and Nakajima 2012 ("Japanese and Korean Voice Search") as BERT's users know it: the pair that
makes the corpus most likely is merged, and a word is encoded by its longest pieces from the left. As in `reference`,
everything is recounted after every merge, and scores are compared exactly.

>>> words = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
>>> [learned.tokens[merge.id] for learned in [learn_characters(words, 4)] for merge in learned.merges]
['es', 't</w>', 'est</w>', 'lo']
>>> hugs = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
>>> [learned.tokens[merge.id] for learned in [learn_wordpiece(hugs, 8)] for merge in learned.merges]
['##gs', 'pu', 'hu', 'bu', 'hugs', 'hug', 'bun', 'pun']
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

from beam_bpe.reference import Merge, Pair, check_counts, merge_and_recount

END_OF_WORD = "</w>"
CONTINUING = "##"


class LearnedText(NamedTuple):
    """Hold the merges by rank, the spelling of every id, and why the learning stopped, as `reference.Learned`."""

    merges: list[Merge]
    tokens: list[str]
    stop: str


def symbols_of(word: str, end_of_word: str | None = END_OF_WORD, attached: bool = False) -> list[str]:
    """Cut a word into characters; its end is a symbol of its own, or attached to the last of them.

    >>> symbols_of("low"), symbols_of("low", attached=True), symbols_of("low", None)
    (['l', 'o', 'w', '</w>'], ['l', 'o', 'w</w>'], ['l', 'o', 'w'])
    """
    if not word or not end_of_word:
        return list(word)
    return [*word[:-1], word[-1] + end_of_word] if attached else [*word, end_of_word]


def pieces_of(word: str, prefix: str = CONTINUING) -> list[str]:
    """Cut a word into characters, those behind the first with the continuing-subword prefix.

    >>> pieces_of("low")
    ['l', '##o', '##w']
    """
    return [char if i == 0 else prefix + char for i, char in enumerate(word)]


def learn_characters(
    words: Mapping[str, int],
    num_merges: int,
    *,
    end_of_word: str | None = END_OF_WORD,
    attached: bool = False,
    tie_break: str = "huggingface",
    min_pair_count: int = 1,
    alphabet_order: Sequence[str] | None = None,
) -> LearnedText:
    """Learn merges of characters from words and their counts.

    Ids of the alphabet are in code-point order of the spelling, or in that of `alphabet_order`. Of the pairs with
    the highest count `huggingface` takes the smallest (left id, right id), `lexicographic` the greatest (left
    spelling, right spelling) in which the end of a word is spelled out, `first` the one first seen. A spelling
    that arises twice (a word that holds the text of the mark) keeps its id; the merge is recorded all the same.

    >>> learned = learn_characters({"low": 5, "lower": 2, "newest": 6, "widest": 3}, 4, tie_break="lexicographic")
    >>> [learned.tokens[merge.id] for merge in learned.merges]
    ['t</w>', 'st</w>', 'est</w>', 'ow']
    """
    segmented = [(symbols_of(word, end_of_word, attached), count) for word, count in words.items() if count]
    keys: dict[str, Callable[[Pair, int, list[str], Any], Any]] = {
        "huggingface": lambda pair, count, tokens, _: (count, -pair[0], -pair[1]),
        "lexicographic": lambda pair, count, tokens, _: (count, tokens[pair[0]], tokens[pair[1]]),
        "first": lambda pair, count, tokens, _: count,
    }
    if tie_break not in keys:
        raise ValueError(f"tie_break={tie_break!r}: choose one of {', '.join(keys)}")
    return _learn(segmented, num_merges, min_pair_count, alphabet_order, keys[tie_break], lambda left, right: left + right)


def learn_wordpiece(
    words: Mapping[str, int],
    num_merges: int,
    *,
    score: str = "likelihood",
    prefix: str = CONTINUING,
    min_pair_count: int = 1,
    alphabet_order: Sequence[str] | None = None,
) -> LearnedText:
    """Learn merges of pieces from words and their counts.

    With score="likelihood" the pair with the highest count(xy) / (count(x) · count(y)) is merged, of equal ones
    that with the higher count, then the smallest (left spelling, right spelling); with score="count" the one with
    the highest count, then the smallest (left id, right id), which is what Hugging Face's trainer does.
    """

    def likelihood(pair: Pair, count: int, tokens: list[str], single: Mapping[int, int]) -> Any:
        left, right = (tokens[side] for side in pair)
        return Fraction(count, single[pair[0]] * single[pair[1]]), count, _Smallest((left, right))

    keys = {"likelihood": likelihood, "count": lambda pair, count, tokens, _: (count, -pair[0], -pair[1])}
    if score not in keys:
        raise ValueError(f"score={score!r}: choose one of {', '.join(keys)}")
    segmented = [(pieces_of(word, prefix), count) for word, count in words.items() if count]
    joined: Callable[[str, str], str] = lambda left, right: left + right.removeprefix(prefix)  # noqa: E731
    return _learn(segmented, num_merges, min_pair_count, alphabet_order, keys[score], joined)


class _Smallest(tuple[str, str]):
    """A pair of spellings of which the smallest is the best."""

    def __lt__(self, other: Any) -> bool:
        return tuple.__gt__(self, other)

    def __gt__(self, other: Any) -> bool:
        return tuple.__lt__(self, other)


def _learn(
    segmented: Iterable[tuple[list[str], int]],
    num_merges: int,
    min_pair_count: int,
    alphabet_order: Sequence[str] | None,
    key: Callable[[Pair, int, list[str], Mapping[int, int]], Any],
    joined: Callable[[str, str], str],
) -> LearnedText:
    found = list(segmented)
    alphabet = sorted({symbol for symbols, _ in found for symbol in symbols})
    if alphabet_order is not None:
        if missing := set(alphabet) - set(alphabet_order):
            raise ValueError(f"alphabet_order lacks {min(missing)!r}")
        alphabet = list(alphabet_order)
    tokens, ids = list(alphabet), {symbol: i for i, symbol in enumerate(alphabet)}
    rows = [([ids[symbol] for symbol in symbols], count) for symbols, count in found]

    def choose(counts: dict[Pair, int]) -> Pair | str:
        check_counts(counts, tokens)
        allowed = {pair: n for pair, n in counts.items() if n >= min_pair_count}
        if not allowed:
            return "min_pair_count" if counts else "no_pairs"
        single: Counter[int] = Counter()
        for row, n in rows:
            for symbol in row:
                single[symbol] += n
        return max(allowed, key=lambda one: key(one, allowed[one], tokens, single))

    def made(left: int, right: int) -> int:
        spelling = joined(tokens[left], tokens[right])
        if spelling not in ids:
            ids[spelling] = len(tokens)
            tokens.append(spelling)
        return ids[spelling]

    merges, stop = merge_and_recount(rows, num_merges, choose, made)
    return LearnedText(merges, tokens, stop)


def encode_wordpiece(
    word: str,
    vocabulary: Iterable[str],
    *,
    unknown: str = "[UNK]",
    prefix: str = CONTINUING,
    most: int = 100,
) -> list[str]:
    """Encode a word by the longest piece that fits, from the left; the whole word is unknown where none fits.

    >>> encode_wordpiece("unhappiness", ["un", "##happi", "##ness", "##h"]), encode_wordpiece("unhappy", ["un", "##h"])
    (['un', '##happi', '##ness'], ['[UNK]'])
    """
    known = set(vocabulary)
    pieces: list[str] = []
    start = 0
    while start < len(word) <= most:
        for end in range(len(word), start, -1):
            piece = (prefix if start else "") + word[start:end]
            if piece in known:
                pieces.append(piece)
                start = end
                break
        else:
            return [unknown]
    return pieces if start == len(word) else [unknown]
