"""Normalization of text before it is cut into words: NFC, as Hugging Face `tokenizers` does it.

Python and `tokenizers` follow different versions of Unicode.  Characters that got their combining
class or their composition after the tables of `tokenizers` 0.23 (Unicode 10) are inert there, whatever
Python knows of them; so every version of Python gives the same text here.
"""

from __future__ import annotations

import re
import unicodedata

NORMALIZERS = ("NFC",)

# Found by comparing `tokenizers` with Unicode 16.0 on every code point; the test does it again.
_INERT = re.compile(
    "(["
    "\u07fd\u0897-\u089f\u08ca-\u08d3\u09fe\u0c3c\u0d3b\u0d3c\u0eba\u1715\u1abf-\u1ace\u1df6-\u1dfa\ua82c"
    "\U000105c9\U000105d2\U000105da\U000105e4\U00010d24-\U00010d27\U00010d69-\U00010d6d\U00010eab\U00010eac"
    "\U00010efd-\U00010eff\U00010f46-\U00010f50\U00010f82-\U00010f85\U00011070\U0001133b\U00011382-\U00011385"
    "\U0001138b\U0001138e\U00011390\U00011391\U000113b8\U000113bb\U000113c2\U000113c5\U000113c7-\U000113c9"
    "\U000113ce-\U000113d0\U0001145e\U00011839\U0001183a\U00011930\U00011935\U00011938\U0001193d\U0001193e"
    "\U00011943\U000119e0\U00011a34\U00011a47\U00011a99\U00011d42\U00011d44\U00011d45\U00011d97\U00011f41"
    "\U00011f42\U0001611e-\U00016129\U0001612f\U00016d63\U00016d67-\U00016d6a\U00016ff0\U00016ff1\U0001e08f"
    "\U0001e130-\U0001e136\U0001e2ae\U0001e2ec-\U0001e2ef\U0001e4ec-\U0001e4ef\U0001e5ee\U0001e5ef"
    "])"
)


def check_normalizer(name: str | None) -> None:
    """Raise ValueError if there is no normalizer of that name (None is none)."""
    if name is not None and name not in NORMALIZERS:
        raise ValueError(f"there is no normalizer {name!r}; there is {', '.join(NORMALIZERS)}, or none at all")


def normalize(text: str, name: str | None) -> str:
    """Return a text in a normal form (Unicode Standard Annex 15), or as it is for None.

    >>> normalize("e\\u0301", "NFC")
    'é'
    """
    if name is None or text.isascii() or unicodedata.is_normalized("NFC", text):
        return text
    return "".join(unicodedata.normalize("NFC", part) for part in _INERT.split(text))
