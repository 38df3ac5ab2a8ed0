"""Texts that tell pre-tokenizers apart: an export is tried on them before it is written."""

from __future__ import annotations

import itertools
import random

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
