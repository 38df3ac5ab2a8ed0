"""What the text of a token looks like: addresses, keys, runs, special tokens, and what differs from another one only by case."""

from __future__ import annotations

import re
from collections import Counter
from typing import Callable, Iterable, NamedTuple, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_bpe.normalize import normalize_documents

SPACE = "\u2581"  # stands for a space in tokens of SentencePiece's kind

_NAMES = (
    "endoftext|endofprompt|im_start|im_end|im_sep|fim_prefix|fim_middle|fim_suffix|begin_of_text|end_of_turn|start_of_turn"
)
#: Texts that a model, or those who use it, take for special tokens.
LOOKALIKE = re.compile(
    rf"<\|[^<>|\s]{{1,60}}\|>|</?s>|<(?:pad|unk|mask|bos|eos|sep|cls)>|\[(?:CLS|SEP|PAD|UNK|MASK|BOS|EOS|/?INST)\]|<</?SYS>>|\[unused\d+\]|{_NAMES}",
    re.IGNORECASE,
)
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.\w{2,}|@(?:gmail|hotmail|outlook|yahoo|googlemail|qq|163|mail)\b", re.IGNORECASE)
_URL = re.compile(
    r"\b(?:https?|ftp)://?\w|\bwww\.\w|\b[\w-]{2,}\.(?:com|org|net|edu|gov|info)\b|\b[\w-]{2,}\.(?:co\.uk|de|fr|jp|cn|ru|io)/",
    re.IGNORECASE,
)
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-f]{16,}|[0-9A-F]{16,})(?![0-9A-Za-z])")
_BASE64 = re.compile(r"[0-9A-Za-z+/_-]{20,}={0,2}")
_SHORTEST_SECRET = 13  # characters of the shortest text that one of the three matches
_KEY = re.compile(r"\b(?:AKIA[0-9A-Z]{12,}|gh[opsu]_\w{16,}|sk-\w{16,}|eyJ[0-9A-Za-z_-]{12,}|xox[abp]-\w{8,})")


def email(text: str) -> str | None:
    """Return the part of a text that is an e-mail address, or the part of one behind its name.

    >>> email(" to ann.lee@example.org"), email("@gmail"), email("a @ b")
    ('ann.lee@example.org', '@gmail', None)
    """
    return _first(_EMAIL, text) if "@" in text else None


def url(text: str) -> str | None:
    """Return the beginning of a web address in a text.

    >>> url(" https://example"), url("www.example"), url("example.com"), url("://"), url("e.g.")
    ('https://e', 'www.e', 'example.com', None, None)
    """
    return _first(_URL, text) if "." in text or ":/" in text else None


def secret(text: str) -> str | None:
    """Return the part of a text that looks like a hash or a key: 16 hexadecimal digits or more, or 20 characters of base64.

    Hexadecimal ones have digits and letters; those of base64 have digits, small letters and capitals, all of them often.

    >>> secret("9f86d081884c7d65"), secret("AKIAIOSFODNN7EXAMPLE"), secret("c2VjcmV0IGtleSBvZiBhbGw9")
    ('9f86d081884c7d65', 'AKIAIOSFODNN7EXAMPLE', 'c2VjcmV0IGtleSBvZiBhbGw9')
    >>> secret("1234567890123456"), secret("getElementsByClassName2"), secret("deadbeef")
    (None, None, None)
    """
    if len(text) < _SHORTEST_SECRET:
        return None
    found = _first(_KEY, text)
    for match in _HEX.finditer(text) if not found else ():
        if re.search("[0-9]", match[0]) and re.search("[A-Fa-f]", match[0]):
            return match[0]
    for match in _BASE64.finditer(text) if not found else ():
        kinds = [len(re.findall(kind, match[0])) for kind in ("[0-9]", "[a-z]", "[A-Z]")]
        if min(kinds) >= 3:
            return match[0]
    return found


def lookalike(text: str) -> str | None:
    """Return the part of a text that looks like a special token, or like the name of one.

    >>> lookalike("a<|endoftext|>"), lookalike("[INST]"), lookalike("</s>"), lookalike("endoftext"), lookalike("<b>")
    ('<|endoftext|>', '[INST]', '</s>', 'endoftext', None)
    """
    return _first(LOOKALIKE, text)


def count_lookalikes(documents: Iterable[bytes], special: Sequence[str] = ()) -> Counter[str]:
    """Return the occurrences in documents of special tokens, and of texts that look like one, or like the name of one.

    >>> count_lookalikes([b"low <|im_start|>user", b"<|im_start|>\\n[INST] [DOC]"], ["[DOC]"])
    Counter({'<|im_start|>': 2, '[INST]': 1, '[DOC]': 1})
    """
    # None of them holds an end of a line. RE2 goes over 500 MB a second to find the few lines that Python then looks at.
    lines = pa.array([line for document in documents for line in document.split(b"\n")], pa.large_binary())
    pattern = lookalike_or(special)
    found: Counter[str] = Counter()
    for line in lines.filter(pc.match_substring_regex(lines, pattern)).to_pylist():
        found.update(match[0] for match in re.finditer(pattern, line.decode("utf-8", "replace")))
    return found


def lookalike_or(special: Sequence[str]) -> str:
    """Return the regex of `LOOKALIKE`, for Python and for Arrow, which also finds these texts as they are."""
    own = [re.escape(text) for text in sorted(special, key=len, reverse=True) if "\n" not in text]
    return "|".join([*own, f"(?i:{LOOKALIKE.pattern})"])


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[0] if found else None


def longest_run(text: str) -> tuple[int, str]:
    """Return the length of the longest run of one character, and the character; of equal ones the first.

    >>> longest_run("a----bb"), longest_run("")
    ((4, '-'), (0, ''))
    """
    best, character, length = 0, "", 0
    for before, this in zip(" " + text, text):
        length = length + 1 if this == before and length else 1
        if length > best:
            best, character = length, this
    return best, character


class Folded(NamedTuple):
    """A text, and what is left of it without width, and without width and case; both without the space before it."""

    text: str
    wide: str
    key: str


def fold(texts: Sequence[str]) -> list[Folded]:
    """Fold texts; the key is "" of those without a letter or digit.

    >>> [folded.key for folded in fold([" The", "\u2581the", "ＴＨＥ", "--"])]
    ['the', 'the', 'the', '']
    """
    bare = list(map(unspaced, texts))
    wide, keys = list(bare), list(map(str.lower, bare))  # of ASCII that is all
    others = [i for i, text in enumerate(bare) if not text.isascii()]
    encoded = [bare[i].encode() for i in others]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    data, bounds = b"".join(encoded), np.ascontiguousarray(np.repeat(ends, 2)[1:-1])
    for column, step in ((wide, "NFKC"), (keys, "lowercase")):
        data, bounds = normalize_documents(data, bounds, step)
        view = memoryview(data)
        for i, (start, end) in zip(others, np.reshape(bounds, (-1, 2)).tolist()):
            column[i] = str(view[start:end], "utf-8")
    told = [key if key.isalnum() or any(map(str.isalnum, key)) else "" for key in keys]
    return list(map(Folded, texts, wide, told))


def unspaced(text: str) -> str:
    """Return a text without one space before it, or what stands for it.

    >>> unspaced(" low"), unspaced("\u2581low"), unspaced("  low")
    ('low', 'low', ' low')
    """
    return text[1:] if text[:1] in (" ", SPACE) else text


def differences(one: Folded, other: Folded) -> str:
    """Return in what two texts of one key differ.

    >>> [differences(*fold(pair)) for pair in ([" The", "the"], ["ｔhe", "the"], ["the", " the"], ["ＴＨＥ", "the"])]
    ['case, space', 'width', 'space', 'case, width']
    """
    here, there = unspaced(one.text), unspaced(other.text)
    told = {
        "case": one.wide != other.wide,
        "space": one.text[: len(one.text) - len(here)] != other.text[: len(other.text) - len(there)],
        "width": (one.wide == here) != (other.wide == there) or (one.wide == other.wide and here != there),
    }
    return ", ".join(name for name, differs in told.items() if differs)


#: Kinds of findings that the text of a token tells, and what finds them.
FINDERS: dict[str, Callable[[str], str | None]] = {
    "email": email,
    "url": url,
    "secret": secret,
    "special_lookalike": lookalike,
}
