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
    max_token_length: int | None = None,
    characters: Iterable[str] | None = None,
    reserved: Sequence[str] = (),
    alphabet_order: Sequence[str] | None = None,
) -> LearnedText:
    """Learn merges of characters from words and their counts.

    Ids of the alphabet are in code-point order of the spelling, or in that of `alphabet_order`. Of the pairs with
    the highest count `huggingface` takes the smallest (left id, right id), `lexicographic` the greatest (left
    spelling, right spelling) in which the end of a word is spelled out, `first` the one first seen. A spelling
    that arises twice (a word that holds the text of the mark) keeps its id; the merge is recorded all the same.
    A pair that would be longer than max_token_length characters, the mark not counted, is never merged, nor is one
    that would spell what is `reserved`.  No merge crosses a character that is not among `characters`, if they are given.

    >>> learned = learn_characters({"low": 5, "lower": 2, "newest": 6, "widest": 3}, 4, tie_break="lexicographic")
    >>> [learned.tokens[merge.id] for merge in learned.merges]
    ['t</w>', 'st</w>', 'est</w>', 'ow']
    """
    segmented = _cut(words, lambda word: symbols_of(word, end_of_word, attached), characters)
    keys: dict[str, Callable[[Pair, int, list[str], Any], Any]] = {
        "huggingface": lambda pair, count, tokens, _: (count, -pair[0], -pair[1]),
        "lexicographic": lambda pair, count, tokens, _: (count, tokens[pair[0]], tokens[pair[1]]),
        "first": lambda pair, count, tokens, _: count,
    }
    if tie_break not in keys:
        raise ValueError(f"tie_break={tie_break!r}: choose one of {', '.join(keys)}")
    length: Callable[[str], int] = lambda symbol: len(symbol.removesuffix(end_of_word or "")) or int(attached)  # noqa: E731
    limits = _Limits(min_pair_count, max_token_length, frozenset(reserved), length)
    return _learn(segmented, num_merges, limits, alphabet_order, keys[tie_break], lambda left, right: left + right)


def learn_wordpiece(
    words: Mapping[str, int],
    num_merges: int,
    *,
    score: str = "likelihood",
    prefix: str = CONTINUING,
    tie_break: str = "huggingface",
    min_pair_count: int = 1,
    max_token_length: int | None = None,
    characters: Iterable[str] | None = None,
    reserved: Sequence[str] = (),
    alphabet_order: Sequence[str] | None = None,
) -> LearnedText:
    """Learn merges of pieces from words and their counts; the limits are those of `learn_characters`.

    With score="likelihood" the pair with the highest count(xy) / (count(x) · count(y)) is merged, of equal ones
    that with the higher count, then the smallest (left spelling, right spelling); with score="count" the one with
    the highest count, then the smallest (left id, right id), which is what Hugging Face's trainer does (or the
    greatest (left spelling, right spelling) with tie_break="lexicographic").
    """

    def likelihood(pair: Pair, count: int, tokens: list[str], single: Mapping[int, int]) -> Any:
        left, right = (tokens[side] for side in pair)
        return Fraction(count, single[pair[0]] * single[pair[1]]), count, _Smallest((left, right))

    by_count: dict[str, Callable[[Pair, int, list[str], Any], Any]] = {
        "huggingface": lambda pair, count, tokens, _: (count, -pair[0], -pair[1]),
        "lexicographic": lambda pair, count, tokens, _: (count, tokens[pair[0]], tokens[pair[1]]),
    }
    keys = {"likelihood": likelihood, "count": by_count[tie_break]}
    if score not in keys:
        raise ValueError(f"score={score!r}: choose one of {', '.join(keys)}")
    segmented = _cut(words, lambda word: pieces_of(word, prefix), characters)
    joined: Callable[[str, str], str] = lambda left, right: left + right.removeprefix(prefix)  # noqa: E731
    length: Callable[[str], int] = lambda symbol: max(1, len(symbol.removeprefix(prefix)))  # noqa: E731
    limits = _Limits(min_pair_count, max_token_length, frozenset(reserved), length)
    return _learn(segmented, num_merges, limits, alphabet_order, keys[score], joined)


class _Smallest(tuple[str, str]):
    """A pair of spellings of which the smallest is the best."""

    def __lt__(self, other: Any) -> bool:
        return tuple.__gt__(self, other)

    def __gt__(self, other: Any) -> bool:
        return tuple.__lt__(self, other)


class _Limits(NamedTuple):
    """What is not merged; `length` is that of an initial symbol, without marks."""

    min_pair_count: int
    max_token_length: int | None
    reserved: frozenset[str]
    length: Callable[[str], int]


def _cut(
    words: Mapping[str, int], symbols: Callable[[str], list[str]], characters: Iterable[str] | None
) -> list[tuple[list[str], int]]:
    """Return the symbols of the words, cut at characters that are not known."""
    known = None if characters is None else set(characters)
    rows: list[tuple[list[str], int]] = []
    for word, count in words.items():
        if not count:
            continue
        row: list[str] = []
        for i, symbol in enumerate(symbols(word)):
            if known is not None and i < len(word) and word[i] not in known:
                rows.append((row, count))
                row = []
            else:
                row.append(symbol)
        rows.append((row, count))
    return rows


def _learn(
    segmented: Iterable[tuple[list[str], int]],
    num_merges: int,
    limits: _Limits,
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
    lengths = [limits.length(symbol) for symbol in tokens]
    longest = limits.max_token_length

    def choose(counts: dict[Pair, int]) -> Pair | str:
        possible = {
            (left, right): n
            for (left, right), n in counts.items()
            if (longest is None or lengths[left] + lengths[right] <= longest)
            and joined(tokens[left], tokens[right]) not in limits.reserved
        }
        check_counts(possible, tokens)
        allowed = {pair: n for pair, n in possible.items() if n >= limits.min_pair_count}
        if not allowed:
            return "min_pair_count" if possible else "no_pairs"
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
            lengths.append(lengths[left] + lengths[right])
        return ids[spelling]

    merges, stop = merge_and_recount(rows, num_merges, choose, made)
    return LearnedText(merges, tokens, stop)


def encode_wordpiece(
    word: str,
    vocabulary: Iterable[str],
    *,
    unknown: str = "[UNK]",
    prefix: str = CONTINUING,
    most: int | None = 100,
    unk_characters: bool = False,
) -> list[str]:
    """Encode a word by the longest piece that fits, from the left; the whole word is unknown where none fits.

    With `unk_characters` one character is unknown there, and the next pieces continue the word. Words of more than
    `most` characters are unknown.

    >>> encode_wordpiece("unhappiness", ["un", "##happi", "##ness", "##h"]), encode_wordpiece("unhappy", ["un", "##h"])
    (['un', '##happi', '##ness'], ['[UNK]'])
    """
    known = set(vocabulary)
    pieces: list[str] = []
    start = 0
    while start < len(word) and (most is None or len(word) <= most):
        for end in range(len(word), start, -1):
            piece = (prefix if start else "") + word[start:end]
            if piece in known:
                pieces.append(piece)
                start = end
                break
        else:
            if not unk_characters:
                return [unknown]
            pieces.append(unknown)
            start += 1
    return pieces if start == len(word) else [unknown]


def encode_characters(
    word: str,
    merges: Sequence[tuple[str, str]],
    vocabulary: Iterable[str],
    *,
    end_of_word: str | None = END_OF_WORD,
    attached: bool = False,
    unknown: str | None = None,
    byte_fallback: bool = False,
    fuse_unk: bool = False,
) -> list[str]:
    """Encode a word by merges of characters in the order of their ranks, the leftmost first.

    A symbol that is not in the vocabulary is `unknown`, with `fuse_unk` once for neighbours, and never merged. With
    `byte_fallback` a character becomes the tokens of its bytes, and the end attached to it is a token if the
    vocabulary has it alone, else nothing. An end that is a symbol of its own and no token is `unknown`, or nothing.

    >>> merges = [("e", "s"), ("es", "t"), ("est", "</w>"), ("l", "o")]
    >>> alphabet = ["</w>", *"deilnorstw", "es", "est", "est</w>", "lo"]
    >>> encode_characters("widest", merges, alphabet), encode_characters("löw", merges, alphabet, unknown="<unk>")
    (['w', 'i', 'd', 'est</w>'], ['l', '<unk>', 'w', '</w>'])
    """
    known = set(vocabulary)
    ranks: dict[tuple[str, str], int] = {}
    for rank, pair in enumerate(merges):
        ranks.setdefault(pair, rank)
    symbols: list[tuple[str, bool]] = []  # and whether it is one that merges
    for i, symbol in enumerate(symbols_of(word, end_of_word, attached)):
        is_end = bool(end_of_word) and not attached and i == len(word)
        if symbol in known:
            symbols.append((symbol, True))
        elif byte_fallback and not is_end:
            symbols += [(f"<0x{byte:02X}>", False) for byte in word[i].encode()]
            if symbol != word[i] and end_of_word in known:
                symbols.append((str(end_of_word), False))
        elif unknown is not None and not (fuse_unk and symbols and symbols[-1] == (unknown, False)):
            symbols.append((unknown, False))
    while found := [
        (ranks[a, b], i)
        for i, ((a, a_merges), (b, b_merges)) in enumerate(zip(symbols, symbols[1:]))
        if a_merges and b_merges and (a, b) in ranks
    ]:
        _, i = min(found)
        symbols[i : i + 2] = [(symbols[i][0] + symbols[i + 1][0], True)]
    return [symbol for symbol, _ in symbols]
