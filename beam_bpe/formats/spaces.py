"""The components of a tokenizer.json about spaces, as the families of SentencePiece have them, and precompiled normalizers.

Prepend, Replace, Strip and Precompiled are normalizers, Metaspace is a pre-tokenizer; here all are steps of a normalizer
(`beam_bpe.normalize`, `beam_bpe.rewriting`).
"""

from __future__ import annotations

import base64
from typing import Any, Mapping, Sequence

from beam_bpe import charsmap, rewriting
from beam_bpe.formats.unsupported import Unsupported
from beam_bpe.precompiled import check_charsmap
from beam_bpe.rewriting import METASPACE, before_and_behind

SPACE = "\u2581"
KINDS = ("Prepend", "Replace", "Strip", "Precompiled")
#: Replace by its pattern and content; the last one follows collapse_spaces, with which it is remove_extra_whitespaces.
_REPLACES = {
    (("String", " "), SPACE): "escape_whitespaces",
    (("Regex", " {2,}"), " "): "collapse_spaces",
    (("Regex", " {2,}"), SPACE): "escape_runs",
    (("Regex", rf"\A |[ {SPACE}]+\z"), ""): "trim",
}
_TRIMMED = ["collapse_spaces", "trim"]
_SCHEMES = ("always", "first", "never")


# ---- normalizers ----


def read_step(part: Mapping[str, Any], before: list[str]) -> None:
    """Add the steps of a normalizer of `KINDS` to those before it."""
    kind = part["type"]
    if kind == "Prepend":
        before.append(_read_prepend(part, before))
    elif kind == "Replace":
        _read_replace(part, before)
    elif kind == "Strip":
        before += _read_strip(part)
    else:
        before.append(_read_precompiled(part))


#: Prepend of U+2581, until what escapes spaces follows it.
_PENDING = "prepend"


def _read_prepend(part: Mapping[str, Any], before: Sequence[str]) -> str:
    text = part.get("prepend")
    if text not in (" ", SPACE):
        raise Unsupported(f"the normalizer Prepend of {str(text)[:80]!r} cannot be represented; of ' ' and '{SPACE}' can")
    return "dummy_prefix" if text == " " else _PENDING


def check_prepended(steps: Sequence[str]) -> None:
    """Refuse Prepend of U+2581 where spaces stay spaces."""
    if _PENDING in steps:
        raise Unsupported(
            f"the normalizer Prepend of '{SPACE}' cannot be represented unless Replace of ' ' by it follows at once"
        )


def _read_replace(part: Mapping[str, Any], before: list[str]) -> None:
    pattern, content = part.get("pattern"), part.get("content")
    said: Any = tuple(pattern.items())[0] if isinstance(pattern, dict) and len(pattern) == 1 else ()
    known = all(isinstance(one, str) for one in (*said, content))
    step = _REPLACES.get((said, content)) if known else None  # type: ignore[arg-type]
    if step is None and known and said[:1] == ("String",) and said[1]:
        step = rewriting.replacing(said[1], str(content))
    if step is None or step == "trim" and before[-1:] != _TRIMMED[:1]:
        raise Unsupported(
            f"the normalizer Replace of {str(pattern)[:80]} by {str(content)[:80]!r} cannot be represented; of a "
            f"String, and of the Regex ' {{2,}}' by ' ' or '{SPACE}', can"
        )
    if step == "trim":
        before[-1] = "remove_extra_whitespaces"
        return
    if step == "escape_whitespaces" and before[-1:] == [_PENDING]:
        before[-1] = "dummy_prefix"
    before.append(step)


def _read_strip(part: Mapping[str, Any]) -> list[str]:
    flags = {step: part.get(step, True) for step in ("strip_left", "strip_right")}
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise Unsupported(f"the normalizer Strip has {name}={str(flag)[:80]}, neither true nor false")
    return [step for step, flag in flags.items() if flag]


def _read_precompiled(part: Mapping[str, Any]) -> str:
    packed = part.get("precompiled_charsmap")
    if not isinstance(packed, str) or not packed:
        raise Unsupported("the normalizer Precompiled has no precompiled_charsmap")
    if len(packed) > charsmap.MOST_BYTES * 4 // 3:
        raise ValueError(f"the normalizer Precompiled has more than {charsmap.MOST_BYTES:,} bytes")
    try:
        tables = base64.b64decode(packed, validate=True)
    except ValueError as error:
        raise ValueError(f"the precompiled_charsmap of the normalizer Precompiled is not base64: {error}") from None
    check_charsmap(tables)
    return charsmap.embedded(tables, charsmap.PRECOMPILED)


def write_steps(steps: Sequence[str]) -> list[tuple[str, dict[str, Any] | None]]:
    """Return (step, component) of the steps of a normalizer; None for steps that are not about spaces.

    Raises:
        Unsupported: tokenizers has no such normalizer.
    """
    found: list[tuple[str, dict[str, Any] | None]] = []
    for i, step in enumerate(steps):
        following = steps[i + 1] if i + 1 < len(steps) else ""
        if step == "dummy_prefix":
            found.append((step, {"type": "Prepend", "prepend": SPACE if following == "escape_whitespaces" else " "}))
        elif step == "strip_left" and following == "strip_right":
            continue
        elif step in ("strip_left", "strip_right"):
            left = step == "strip_left" or steps[max(i - 1, 0)] == "strip_left"
            found.append((step, {"type": "Strip", "strip_left": left, "strip_right": step == "strip_right"}))
        elif step == "remove_extra_whitespaces":
            found += [(step, _replace(one)) for one in _TRIMMED]
        elif step in _REPLACES.values():
            found.append((step, _replace(step)))
        elif (said := rewriting.replaced(step)) is not None:
            found.append((step, {"type": "Replace", "pattern": {"String": said[0]}, "content": said[1]}))
        elif step == "dummy_suffix":
            raise Unsupported("tokenizers has no normalizer that appends a space: dummy_suffix would be lost")
        elif step.startswith(charsmap.PRECOMPILED):
            tables = base64.b64encode(charsmap.unpacked(step)).decode()
            found.append((step, {"type": "Precompiled", "precompiled_charsmap": tables}))
        elif charsmap.is_charsmap(step):
            raise Unsupported(
                f"tokenizers runs precompiled normalizers in another way than sentencepiece, by grapheme clusters: {step[:30]!r} "
                "cannot be said in a tokenizer.json"
            )
        else:
            found.append((step, None))
    return found


def _replace(step: str) -> dict[str, Any]:
    (kind, pattern), content = next(said for said, one in _REPLACES.items() if one == step)
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


# ---- the pre-tokenizer ----


def read_metaspace(part: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the prepend_scheme of a Metaspace, and whether it splits."""
    replacement, split = part.get("replacement"), part.get("split", True)
    if replacement != SPACE:
        raise Unsupported(
            f"the pre-tokenizer Metaspace with replacement={str(replacement)[:80]!r} cannot be represented; '{SPACE}' can"
        )
    if not isinstance(split, bool):
        raise Unsupported(f"the pre-tokenizer Metaspace has split={str(split)[:80]}, neither true nor false")
    scheme, adds = (
        part.get("prepend_scheme", "always"),
        part.get("add_prefix_space", True),
    )  # the latter is of earlier versions
    if scheme not in _SCHEMES or not isinstance(adds, bool):
        raise Unsupported(
            f"the pre-tokenizer Metaspace has prepend_scheme={str(scheme)[:80]!r}: {', '.join(_SCHEMES)} are known"
        )
    if not adds and "prepend_scheme" not in part:
        scheme = "never"
    if not adds and scheme != "never":
        raise ValueError(
            f"the pre-tokenizer Metaspace contradicts itself: prepend_scheme={scheme!r}, and no add_prefix_space"
        )
    return scheme, split


#: Steps that drop nothing at the beginning of a text; behind others tokenizers does not take it for the first one.
_KEEPING = ("NFC", "NFD", "NFKC", "NFKD", "lowercase", "collapse_spaces", "escape_runs", "escape_whitespaces")


def with_metaspace(normalizer: str | None, scheme: str) -> str | None:
    """Return a normalizer followed by what a Metaspace makes of spaces."""
    steps = normalizer.split("+") if normalizer else [""]
    if steps[-1] == "escape_whitespaces" and scheme == "never":
        return normalizer
    if scheme == "first" and not {*steps} <= {"", *_KEEPING}:
        shown = next(step for step in steps if step not in _KEEPING)[:30]
        raise Unsupported(
            f"the pre-tokenizer Metaspace with prepend_scheme first behind the normalizer {shown} cannot be represented"
        )
    return f"{normalizer}+{METASPACE}{scheme}" if normalizer else METASPACE + scheme


def write_metaspace(normalizer: str | None, split: bool) -> list[dict[str, Any]]:
    """Return the pre-tokenizers that what stands behind a normalizer is, with the search for added tokens between them.

    Args:
        split: the text is cut at U+2581.
    """
    behind = before_and_behind(normalizer)[1]
    if behind is None:
        escaped = normalizer is not None and normalizer.split("+")[-1] == "escape_whitespaces"
        return [_metaspace("never", True)] if split and escaped else []
    scheme = behind.removeprefix(METASPACE)
    if scheme == "words" and split:
        return [{"type": "WhitespaceSplit"}, _metaspace("always", True)]
    if scheme not in _SCHEMES:
        raise Unsupported(f"tokenizers has no pre-tokenizer for {behind!r}{'' if split else ' without a cut at each word'}")
    return [_metaspace(scheme, split)]


def _metaspace(scheme: str, split: bool) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": split}


def write_decoder(normalizer: str | None, byte_fallback: bool) -> dict[str, Any] | None:
    """Return the decoder that makes spaces of U+2581 and drops the one that a normalizer puts before a text.

    None: the normalizer does not escape spaces.
    """
    steps = normalizer.split("+") if normalizer else []
    behind = before_and_behind(normalizer)[1]
    if behind is None and "escape_whitespaces" not in steps:
        return None
    scheme = (behind or "").removeprefix(METASPACE)
    if behind is not None and not byte_fallback:
        return _metaspace("always" if scheme == "words" else scheme, True)
    prefixed = "dummy_prefix" in steps or scheme in ("always", "first", "words")
    return {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
            *([{"type": "ByteFallback"}] if byte_fallback else []),
            {"type": "Fuse"},
            *([{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefixed else []),
        ],
    }
