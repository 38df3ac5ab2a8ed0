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

Spaces as SentencePiece (Kudo and Richardson 2018) treats them, of which only U+0020 is one:

- remove_extra_whitespaces drops those at both ends and behind another one, and U+2581 at the end.
- dummy_prefix puts one before a text that is not empty, dummy_suffix one behind it.
- escape_whitespaces makes them U+2581.
- "sentencepiece:nmt_nfkc" and the like are the precompiled normalizers of its package, which runs them (`charsmap`).

Spaces as components of `tokenizers` treat them: `rewriting`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby
from typing import Any, Mapping, Sequence

import numpy as np

from beam_bpe import _normalize, character_map, charsmap, rewriting
from beam_bpe.character_map import Pass
from beam_bpe.charsmap import PRECOMPILED, SPACE_STEPS, Charsmap
from beam_bpe.normalizer_tables import LIBRARY
from beam_bpe.precompiled import Precompiled
from beam_bpe.texts import is_text

#: The steps that map characters; those of BertNormalizer have the names of its options.
CHARACTER_STEPS = (
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
STEPS = (*CHARACTER_STEPS, *SPACE_STEPS, *rewriting.STEPS, *(charsmap.SHIPPED + rule for rule in charsmap.RULES))
#: Short names of several steps: bert-base-uncased's and bert-base-cased's; what SentencePiece does to spaces by default,
#: and the same without loss.
NAMES: Mapping[str, str] = {
    "bert": "clean_text+handle_chinese_chars+bert_strip_accents+lowercase",
    "bert_cased": "clean_text+handle_chinese_chars",
    "sentencepiece": "remove_extra_whitespaces+dummy_prefix+escape_whitespaces",
    "metaspace": "dummy_prefix+escape_whitespaces",
}


@lru_cache(32)  # a name that holds tables has 300,000 characters
def steps_of(name: str) -> tuple[str, ...]:
    """Return the steps of a normalizer.

    Raises:
        ValueError: a step is not known.

    >>> steps_of("NFC+bert_cased")
    ('NFC', 'clean_text', 'handle_chinese_chars')
    """
    steps = tuple(step for part in name.split("+") for step in NAMES.get(part, part).split("+"))
    for step in steps:
        if charsmap.is_charsmap(step):
            charsmap.check(step)
        elif step not in STEPS and not rewriting.is_rewriting(step):
            raise ValueError(
                f"there is no normalizer {step[:60]!r}; there is {', '.join((*NAMES, *STEPS))}, several joined by '+', "
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
    """Return what defines the text that a normalizer makes, for artifacts; None for None."""
    if name is None:
        return None
    steps = steps_of(name)
    found: dict[str, Any] = {"steps": list(steps)}
    if any(step in CHARACTER_STEPS for step in steps):
        found["library"] = LIBRARY
    if tables := {step: charsmap.digest(step) for step in steps if step.startswith(charsmap.SHIPPED)}:
        found["tables"] = tables  # of one name in several versions of the package
    return found


def identity(name: str | None) -> dict[str, Any] | None:
    """Return what `spec` does, tables by their SHA-256: they may be compressed in several ways; for fingerprints."""
    found = spec(name)
    if found is not None:
        found["steps"] = [charsmap.identity(step) if charsmap.is_charsmap(step) else step for step in found["steps"]]
    return found


def shown(name: str) -> str:
    """Return the name of a normalizer for people, without the tables that it may hold."""
    return "+".join(f"{step[:32]}…" if len(step) > 60 else step for step in name.split("+"))


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
        if record.get("tables"):
            raise ValueError(f"the normalizer {name[:60]!r} of the artifact has other tables than the installed sentencepiece")
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


def normalize_bytes(data: bytes, name: str | None, symbols: tuple[str, ...] = ()) -> bytes:
    """Return a text in UTF-8 normalized, what is not valid having become U+FFFD; for None as it is."""
    return bytes(normalize_documents(data, np.array([0, len(data)], np.int64), name, symbols)[0])


def normalize_documents(
    data: Any, bounds: np.ndarray, name: str | None, symbols: tuple[str, ...] = ()
) -> tuple[Any, np.ndarray]:
    """Return documents normalized, side by side, and their bounds; for None what was given.

    Args:
        data: UTF-8, as a buffer of bytes; what is not valid in a document becomes U+FFFD.
        bounds: int64 of length 2n; document d is data[bounds[2d]:bounds[2d + 1]].
        symbols: texts that SentencePiece's normalizers leave as they are, but for the spaces in front of them (its
            user-defined symbols).
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
    for one in _passes(steps_of(name), symbols):
        data, packed = one.documents(data, np.ascontiguousarray(bounds, np.int64))
        bounds = np.frombuffer(packed, np.int64)
    return data, bounds


@lru_cache(32)
def _passes(steps: tuple[str, ...], symbols: tuple[str, ...] = ()) -> tuple[Pass, ...]:
    """Return what applies steps from left to right, in few passes; what is about spaces goes by SentencePiece's order."""
    found: list[Pass] = []
    kinds = [(kind, tuple(group)) for kind, group in groupby(steps, _kind)]
    for (kind, group), (before, earlier) in zip(kinds, [("", ()), *kinds]):
        if kind == "characters":
            found += character_map.passes(group)
        elif kind == "spaces":
            first, *others = _in_order(group)
            if before == "package":
                found[-1] = Charsmap(earlier[-1], first, symbols)
            else:
                found.append(_spacing(first, symbols))
            found += [_spacing(one, symbols) for one in others]
        elif kind == "rewriting":
            found += map(rewriting.Rewriting, group)
        elif kind == "package":
            found += [Charsmap(step, (), symbols) for step in group]
        else:
            found += [Precompiled(charsmap.unpacked(step)) for step in group]
    return tuple(found)


def _kind(step: str) -> str:
    if charsmap.is_charsmap(step):
        return "precompiled" if step.startswith(PRECOMPILED) else "package"
    return "characters" if step in CHARACTER_STEPS else "spaces" if step in SPACE_STEPS else "rewriting"


def _in_order(steps: Sequence[str]) -> list[list[str]]:
    """Cut steps about spaces where they leave SentencePiece's order."""
    found: list[list[str]] = []
    for step in steps:
        if found and SPACE_STEPS.index(found[-1][-1]) < SPACE_STEPS.index(step):
            found[-1].append(step)
        else:
            found.append([step])
    return found


def _spacing(steps: Sequence[str], symbols: Sequence[str]) -> Pass:
    """Return the pass of steps about spaces that stand in SentencePiece's order."""
    if "remove_extra_whitespaces" in steps and any("  " in symbol for symbol in symbols):
        return rewriting.SpacingAround(steps, symbols)
    spacing: Pass = _normalize.Spacing(*(one in steps for one in SPACE_STEPS))
    return spacing
