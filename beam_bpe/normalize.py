"""Normalization of text before it is cut into words: the forms of Unicode, lowercase, accents, and BERT's steps.

A normalizer is named by its steps, joined by "+" and applied from left to right.  Each is the normalizer of that
name of Hugging Face `tokenizers` (NFC, NFD, NFKC, NFKD, Lowercase, StripAccents), or an option of its
BertNormalizer, exactly, under every version of Python: what is known of characters is what `tokenizers` 0.23 knows
(normalizer_tables.py), which follows several versions of Unicode, where Python 3.10 follows 13 and Python 3.14 16.

- Normal forms, combining classes and the marks of strip_accents are those of Unicode 9: characters that got theirs
  later are left alone, and nothing is reordered or composed across them, while Python does both.
- lowercase is that of Unicode 17, character by character: a capital sigma at the end of a word becomes σ (in Python
  ς), and capitals that are newer than Python's Unicode have their small letters here.
- bert_strip_accents takes the non-spacing marks of Unicode 8 out of the decomposed text, and clean_text the control,
  format and private-use characters of that version, and U+FFFD; characters that are not assigned stay.
- strip_accents takes marks of all kinds, and decomposes nothing: "NFD+strip_accents" strips é.
"""

from __future__ import annotations

import re
from typing import Any, Mapping

import numpy as np

from beam_bpe.character_map import passes
from beam_bpe.normalizer_tables import LIBRARY
from beam_bpe.texts import is_text

#: The steps; those of BertNormalizer have the names of its options.
STEPS = (
    "NFC",
    "NFD",
    "NFKC",
    "NFKD",
    "lowercase",
    "strip_accents",
    "clean_text",
    "handle_chinese_chars",
    "bert_strip_accents",
)
#: Short names of several steps: bert-base-uncased's and bert-base-cased's.
NAMES: Mapping[str, str] = {
    "bert": "clean_text+handle_chinese_chars+bert_strip_accents+lowercase",
    "bert_cased": "clean_text+handle_chinese_chars",
}

def steps_of(name: str) -> tuple[str, ...]:
    """Return the steps of a normalizer.

    Raises:
        ValueError: a step is not known.

    >>> steps_of("NFC+bert_cased")
    ('NFC', 'clean_text', 'handle_chinese_chars')
    """
    steps = tuple(step for part in name.split("+") for step in NAMES.get(part, part).split("+"))
    for step in steps:
        if step not in STEPS:
            raise ValueError(
                f"there is no normalizer {step!r}; there is {', '.join((*NAMES, *STEPS))}, several joined by '+', "
                "or none at all"
            )
    return steps


def check_normalizer(name: str | None) -> None:
    """Raise ValueError if there is no normalizer of that name (None is none), TypeError if it is no name."""
    if name is not None:
        if not isinstance(name, str):
            raise TypeError(f"normalizer={name!r}: it is the name of its steps, such as 'NFC', or None")
        steps_of(name)


def spec(name: str | None) -> dict[str, Any] | None:
    """Return what defines the text that a normalizer makes, for artifacts and fingerprints; None for None."""
    return None if name is None else {"steps": list(steps_of(name)), "library": LIBRARY}


def normalizer_of(record: Mapping[str, Any] | None) -> str | None:
    """Return the name of the normalizer of an artifact, a record that `spec` made.

    Raises:
        ValueError: it has a step that is not known, or was of another version of `tokenizers`.

    >>> normalizer_of(spec("bert"))
    'bert'
    """
    if record is None:
        return None
    steps = "+".join(record["steps"])
    name = next((name for name, text in NAMES.items() if text == steps), steps)
    if record != spec(name):
        theirs = record.get("library")
        raise ValueError(f"the normalizer {name!r} of the artifact is that of {theirs}; here it is that of {LIBRARY}")
    return name


def normalize(text: str, name: str | None) -> str:
    """Return a text normalized, or as it is for None.  Lone surrogates stay, and nothing combines across them.

    >>> normalize("e\\u0301", "NFC")
    'é'
    >>> normalize("Ça va, 你好?", "bert")
    'ca va,  你  好 ?'
    """
    if not isinstance(text, str):
        raise TypeError(f"text is a str, not {type(text).__name__}: normalize_documents takes bytes")
    if name is None:
        return text
    try:
        data = text.encode()
    except UnicodeEncodeError:
        parts = re.split("([\ud800-\udfff]+)", text)
        return "".join(part if i % 2 else normalize(part, name) for i, part in enumerate(parts))
    return normalize_bytes(data, name).decode()


def normalize_bytes(data: bytes, name: str | None) -> bytes:
    """Return a text in UTF-8 normalized, what is not valid having become U+FFFD; for None as it is."""
    return bytes(normalize_documents(data, np.array([0, len(data)], np.int64), name)[0])


def normalize_documents(data: Any, bounds: np.ndarray, name: str | None) -> tuple[Any, np.ndarray]:
    """Return documents normalized, side by side, and their bounds; for None what was given.

    Args:
        data: UTF-8, as a buffer of bytes; what is not valid in a document becomes U+FFFD.
        bounds: int64 of length 2n; document d is data[bounds[2d]:bounds[2d + 1]].
    """
    if name is None:
        return data, bounds
    view = memoryview(data).cast("B")
    if not is_text(view, bounds):
        pairs = zip(bounds[::2].tolist(), bounds[1::2].tolist())
        repaired = [str(view[start:end], "utf-8", "replace").encode() for start, end in pairs]
        bounds = np.repeat(np.cumsum([0, *map(len, repaired)], dtype=np.int64), 2)[1:-1]
        view = memoryview(b"".join(repaired))
    data = view
    for one in passes(steps_of(name)):
        data, packed = one.documents(data, np.ascontiguousarray(bounds, np.int64))
        bounds = np.frombuffer(packed, np.int64)
    return data, bounds
