"""Texts that tell pre-tokenizers apart: an export is tried on them before it is written."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Iterator

if TYPE_CHECKING:
    from beam_bpe.vocabulary import Vocabulary

_PARTS = (
    "a", "Z", "word", "Word", "WORD", "é", "e\u0301", "ß", "ſ", "İ", "的", "機器學習", "あ", "カ", "한", "й", "ก", "ה", "ع", "अ",
    "0", "7", "42", "123", "1234567890", "٣", "Ⅷ", "½", " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\r", "\x85", "\xa0",
    "\u2028", "\u3000", "\x1c", "\x00", "\x7f", "'", "'s", "'S", "'ll", "'LL", "'ſ", "’s", ".", ",", "!", "...", "/", "\\", "-",
    "_", "$", "+=", "(", "“", "。", "、", "😀", "👩\u200d💻", "\u200d", "\ufeff", "\ufffd", "\u0301", "\U000e0001", "\ud7ff", "\ue000",
)  # fmt: skip


def _texts() -> list[str]:
    pairs = ["".join(pair) for pair in itertools.product(_PARTS, repeat=2)]
    chosen = random.Random(2718)
    return ["", *_PARTS, *pairs, *("".join(chosen.choices(_PARTS, k=chosen.randrange(3, 30))) for _ in range(3000))]


TEXTS = _texts()


def own_texts(vocabulary: Vocabulary, most: int = 5000) -> Iterator[str]:
    """Yield tokens of a vocabulary, and its added tokens in the midst of text; at most about so many."""
    tokens = vocabulary.tokens
    for token in tokens[:: len(tokens) // most + 1]:
        try:
            yield token.decode()
        except UnicodeDecodeError:
            pass
    added = [token.text for token in vocabulary.added_tokens]
    chosen = random.Random(3141)
    for text in added[:: len(added) // most + 1]:
        yield from (text, f"word{text}word", f" {text}  {chosen.choice(added)}\n{text}", "".join(chosen.choices([text, *_PARTS], k=9)))
