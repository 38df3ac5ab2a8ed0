"""Learn a vocabulary from word counts: byte-pair encoding (Sennrich et al. 2016) over bytes."""

from __future__ import annotations

import os
from numbers import Integral
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from beam_bpe import _merge
from beam_bpe.reference import BYTE_ORDER
from beam_bpe.special import SpecialTokens
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts

#: How equal counts are decided (the first is the default):
#: huggingface: the smallest (left id, right id), bytes numbered as in Hugging Face's byte-level
#:     alphabet, so that the merges are those of `tokenizers`;
#: bytes: the same with byte values as ids, as `rustbpe`;
#: lexicographic: the greatest (left bytes, right bytes), as `subword-nmt`.
TIE_BREAKS = ("huggingface", "bytes", "lexicographic")

#: Memory of the merge loop for each byte of distinct words (one more for each word), at its peak;
#: measured on 1.5 to 10 million words (tests/benchmarks), with a margin.
BYTES_PER_CELL = 10

Progress = Callable[[int, int, int], None]


def check_vocab_size(vocab_size: int, special_tokens: Sequence[str]) -> int:
    """Return the number of merges for a vocabulary of that size.

    Raises:
        TypeError: it is no whole number.
        ValueError: it has no room for the 256 bytes and the special tokens.
    """
    if not isinstance(vocab_size, Integral) or isinstance(vocab_size, bool):
        raise TypeError(f"vocab_size is {vocab_size!r}; it must be a whole number")
    least = 256 + len(special_tokens)
    if vocab_size < least:
        raise ValueError(
            f"vocab_size is {vocab_size}, but the 256 bytes and {len(special_tokens)} special tokens take {least}"
        )
    return vocab_size - least


def check_tie_break(tie_break: str) -> None:
    """Refuse a tie rule that is not one of `TIE_BREAKS`."""
    if tie_break == "first":
        raise ValueError(
            "tie_break='first' depends on the order of the text, which a table of counts does not know: "
            "only beam_bpe.reference.learn has it"
        )
    if tie_break not in TIE_BREAKS:
        raise ValueError(f"tie_break={tie_break!r}: choose one of {', '.join(TIE_BREAKS)}")


def train(
    words: WordCounts | Mapping[bytes | str, int],
    vocab_size: int,
    *,
    special_tokens: Sequence[str] = (),
    min_pair_count: int = 2,
    max_token_length: int | None = None,
    tie_break: str = "huggingface",
    progress: Progress | None = None,
) -> Vocabulary:
    """Learn a vocabulary of at most `vocab_size` tokens.

    The result is a function of the counts and the parameters alone: the order of the words, their
    shards and the machine change nothing.

    Args:
        words: counts of distinct words; a mapping's str keys are taken as UTF-8.
        vocab_size: tokens, the 256 bytes and the special tokens included.
        special_tokens: get the last ids; none may occur inside a word.
        min_pair_count: a pair with a lower count is not merged (a pair seen once saves nothing).
        max_token_length: in bytes, inclusive; None for no limit.
        tie_break: one of `TIE_BREAKS`.
        progress: called now and then with (merges so far, merges wanted, count of the last one).

    Returns:
        The vocabulary; its `stop_reason` says whether it is full ("vocab_size") or why not
        ("min_pair_count": the best pair left is rarer; "no_pairs": none is left).

    Raises:
        ValueError: a parameter, or no words, or a special token that occurs inside a word.
        OverflowError: a pair occurs more than 2**63 - 1 times; the message names it.
        MemoryError: the table is larger than the memory that is available.

    >>> vocabulary = train({"low": 5, "lower": 2, "newest": 6, "widest": 3}, 260)
    >>> [merge.token.decode() for merge in vocabulary.merges], vocabulary.counts.tolist()
    (['es', 'est', 'lo', 'low'], [9, 9, 7, 7])
    """
    specials = SpecialTokens(special_tokens)
    numbers = {"vocab_size": vocab_size, "min_pair_count": min_pair_count, "max_token_length": max_token_length}
    for name, number in numbers.items():
        if not isinstance(number, Integral) and (number is not None or name != "max_token_length"):
            raise TypeError(f"{name} is {number!r}; it must be a whole number")
    merges = check_vocab_size(vocab_size, special_tokens)
    check_tie_break(tie_break)
    if not 1 <= min_pair_count < 2**63:
        raise ValueError(f"min_pair_count is {min_pair_count}; it must be at least 1 and fit into 63 bits")
    if max_token_length is not None and max_token_length < 1:
        raise ValueError(f"max_token_length is {max_token_length}; it must be at least 1")
    if not isinstance(words, WordCounts):
        words = WordCounts.from_mapping(words)
    for token, word in specials.occurring_in(words.table["word"]):
        raise ValueError(
            f"the special token {token!r} occurs inside the word {word[:60]!r}: count with special_tokens=[{token!r}], "
            "so that documents are cut there"
        )
    loop, cells = _load(words, min_pair_count, max_token_length, tie_break)
    report = None if progress is None else lambda done, count: progress(done, merges, count)
    stop_reason = loop.run(min(merges, cells), report)  # each merge shortens a word: there are fewer than cells
    left, right, counts, replaced = loop.merges()
    if report is not None:
        report(len(counts) // 8, int.from_bytes(counts[-8:], "little"))
    return Vocabulary(
        pre_tokenizer=words.pre_tokenizer,
        alphabet=BYTE_ORDER[tie_break],
        left=np.frombuffer(left, np.uint32),
        right=np.frombuffer(right, np.uint32),
        counts=np.frombuffer(counts, np.int64),
        replaced=np.frombuffer(replaced, np.int64),
        special_tokens=specials.tokens,
        stop_reason=stop_reason,
        parameters={
            "vocab_size": int(vocab_size),
            "min_pair_count": int(min_pair_count),
            "max_token_length": None if max_token_length is None else int(max_token_length),
            "tie_break": tie_break,
            "words": dict(words.parameters),
        },
        totals={**words.totals, "distinct_words": len(words)},
    )


def _load(words: WordCounts, min_pair_count: int, max_token_length: int | None, tie_break: str) -> tuple[Any, int]:
    """Return a merge loop that holds the words, and their bytes with one more for each word."""
    distinct = [np.unique(batch.counts) for batch in words.batches()]
    counts = np.unique(np.concatenate(distinct)) if distinct else np.empty(0, np.int64)
    counts = counts[counts > 0]
    if not len(counts):
        raise ValueError("there are no words to learn from")
    order = BYTE_ORDER[tie_break]
    ids = np.empty(256, np.uint32)
    ids[list(order)] = np.arange(256, dtype=np.uint32)
    loop = _merge.MergeLoop(
        counts[::-1].copy(),
        [bytes([byte]) for byte in order],
        min_pair_count,
        0xFFFFFFFF if max_token_length is None else min(max_token_length, 0xFFFFFFFF),
        _merge.TIE_RULES["greatest_bytes" if tie_break == "lexicographic" else "lowest_ids"],
    )
    cells = 0
    for batch in words.batches():
        cells += int(batch.offsets[-1] - batch.offsets[0]) + len(batch.counts)
        loop.measure(batch.offsets, batch.counts)
    check_memory(cells, len(words))
    loop.allocate()
    for batch in words.batches():
        loop.add_bytes(batch.data, batch.offsets, batch.counts, ids)
    return loop, cells


def check_memory(cells: int, words: int) -> None:
    """Refuse to learn from a table whose merge loop would not fit into the memory available.

    Args:
        cells: bytes of the distinct words, one more for each.
        words: distinct words.
    """
    needed, available = cells * BYTES_PER_CELL, available_memory()
    if available is not None and needed > available:
        raise MemoryError(
            f"learning from {words:,} words ({cells:,} bytes) takes about {needed / 1e9:.1f} GB, and "
            f"{available / 1e9:.1f} GB are available: leave out rare words (min_count), or use a larger machine"
        )


def available_memory() -> int | None:
    """Return the bytes of memory that are available, or None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
