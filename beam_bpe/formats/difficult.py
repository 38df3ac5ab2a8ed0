"""Texts that tell tokenizers apart: an export is tried on them before it is written."""

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
#: What models of characters and pieces tell apart: unknown characters, words at the limit, accents, marks as text.
_WORDS = (
    "☃", "ℵ☃ℵ", "a☃", "☃a", "𝔘𝔫", "a" * 99, "b" * 100, "c" * 101, "的" * 101, "é" * 100, "ab" * 60, "a的b", "漢字kana", "Ünïcödé",
    "E\u0301\u0323", "\u1e09", "ﬁ", "①", "Å", "가각", "\u1100\u1161\u11a8", "İI", "ẞ", "</w>", "a</w>", "a</w>b", "<w>", "##", "##a", "a##b",
    "#", "\u2581", "\u2581\u2581a", "a\u2581b", "\u3000a", "``a''", "\x01", "[UNK]", "[CLS]a[SEP]", "<unk>", "<0xE4>", "<0x61>a", "can't", "a.b", "U.S.A.", "a\u200bb", "a\xadb", "\u06dd1", "2.5", "don’t",
)  # fmt: skip


def _texts() -> list[str]:
    pairs = ["".join(pair) for pair in itertools.product(_PARTS, repeat=2)]
    chosen = random.Random(2718)
    words = [f"{word}{glue}{other}" for word in _WORDS for glue in ("", " ", "-") for other in chosen.sample(_WORDS, 6)]
    return ["", *_PARTS, *pairs, *_WORDS, *words, *("".join(chosen.choices(_PARTS, k=chosen.randrange(3, 30))) for _ in range(3000))]


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
