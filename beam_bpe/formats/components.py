"""The components of a tokenizer.json around its model: normalizer, pre-tokenizer, added tokens, post-processor.

What cannot be represented exactly is refused with the component's name.
"""

from __future__ import annotations

from typing import Any, Mapping

import regex

from beam_bpe.formats.oniguruma import from_oniguruma, same_pattern, to_oniguruma
from beam_bpe.layout import AddedToken
from beam_bpe.pretokenize import PATTERNS, PreTokenizer, in_sequence, pre_tokenizer


#: Those of today have 500 characters.  Compiling one takes time and memory.
_LONGEST_PATTERN = 1 << 15


class Unsupported(ValueError):
    """A component that cannot be represented; the message names it."""


def _kind(component: Any, what: str) -> str:
    if not isinstance(component, dict) or not isinstance(component.get("type"), str):
        raise Unsupported(f"the {what} is no component with a type: {str(component)[:80]}")
    return str(component["type"])


def _flat(component: Any, members: str, what: str) -> list[dict[str, Any]]:
    """Return the components of a sequence, which may hold sequences, one after the other."""
    found: list[dict[str, Any]] = []
    waiting = [component]
    while waiting:
        one = waiting.pop()
        if _kind(one, what) == "Sequence":
            inner = one.get(members)
            if not isinstance(inner, list):
                raise Unsupported(f"the {what} Sequence has no list {members!r}")
            waiting += reversed(inner)
        else:
            found.append(one)
    return found


# ---- normalizer ----


def read_normalizer(component: Any) -> str | None:
    """Return "NFC" or None."""
    if component is None:
        return None
    kinds = [_kind(one, "normalizer") for one in _flat(component, "normalizers", "normalizer")]
    for kind in kinds:
        if kind != "NFC":
            raise Unsupported(f"the normalizer {kind} cannot be represented; NFC can")
    return "NFC" if kinds else None


def write_normalizer(name: str | None) -> dict[str, Any] | None:
    """Return the component."""
    return None if name is None else {"type": name}


# ---- pre-tokenizer ----


def read_pre_tokenizer(component: Any) -> PreTokenizer:
    """Return the pre-tokenizer of a byte-level model; it ends with ByteLevel."""
    if component is None:
        raise Unsupported("there is no pre-tokenizer; a byte-level vocabulary has a ByteLevel one")
    parts = _flat(component, "pretokenizers", "pre-tokenizer")
    steps: list[PreTokenizer] = []
    for number, part in enumerate(parts, 1):
        kind = _kind(part, "pre-tokenizer")
        if kind == "ByteLevel":
            if number < len(parts):
                raise Unsupported(f"the pre-tokenizer ByteLevel is followed by {_kind(parts[number], 'pre-tokenizer')}")
            if part.get("add_prefix_space"):
                raise Unsupported("the pre-tokenizer ByteLevel with add_prefix_space cannot be represented")
            if part.get("use_regex", True):
                steps.append(pre_tokenizer("gpt2"))
            return in_sequence(steps) if steps else pre_tokenizer("none")
        if kind == "Split":
            steps.append(_read_split(part))
        elif kind == "Digits":
            steps.append(pre_tokenizer(r"\p{N}" if part.get("individual_digits") else r"\p{N}+"))
        else:
            raise Unsupported(f"the pre-tokenizer {kind} cannot be represented; Split, Digits and ByteLevel can")
    raise Unsupported("the pre-tokenizer does not end with ByteLevel: the vocabulary is not byte-level")


def _read_split(part: Mapping[str, Any]) -> PreTokenizer:
    pattern, behavior, invert = part.get("pattern"), part.get("behavior"), bool(part.get("invert"))
    if not isinstance(pattern, dict) or len(pattern) != 1:
        raise Unsupported(f"the pre-tokenizer Split has the pattern {str(pattern)[:80]}, neither a Regex nor a String")
    (kind, text), *_ = pattern.items()
    if kind not in ("Regex", "String") or not isinstance(text, str) or not text:
        raise Unsupported(f"the pre-tokenizer Split has the pattern {str(pattern)[:80]}, neither a Regex nor a String")
    keeps = behavior == "Isolated"
    if not keeps and not (behavior == "Removed" and invert):
        raise Unsupported(
            f"the pre-tokenizer Split with behavior {behavior}{' and invert' if invert else ''} cannot be represented; "
            "Isolated, and Removed with invert, can"
        )
    if len(text) > _LONGEST_PATTERN:
        raise Unsupported(f"the pattern of the pre-tokenizer Split has {len(text):,} characters; at most {_LONGEST_PATTERN:,} are read")
    if kind == "String":
        return _custom(regex.escape(text), keeps)
    named = same_pattern(text)
    if named is not None and (not keeps or pre_tokenizer(named).gaps == "none"):
        return pre_tokenizer(named)
    try:
        return _custom(from_oniguruma(text), keeps)
    except ValueError as error:
        raise Unsupported(f"the pattern of the pre-tokenizer Split: {error}") from None


def _custom(text: str, keeps: bool) -> PreTokenizer:
    if regex.fullmatch(r"[\w.-]*", text):  # which would be taken for a name, and "gpt2" is one
        text = f"(?:{text})"
    return pre_tokenizer(text, gaps="keep" if keeps else "drop")


def write_pre_tokenizer(chosen: PreTokenizer) -> dict[str, Any]:
    """Return the component, ending with ByteLevel."""
    last = chosen.steps[-1] if chosen.steps else chosen
    use_regex = last.name == "gpt2"
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": use_regex}
    steps = chosen.steps or (chosen,)
    splits = [_write_split(step) for step in (steps[:-1] if use_regex else steps) if step.name != "none"]
    if not splits:
        return byte_level
    return {"type": "Sequence", "pretokenizers": [*splits, byte_level]}


def _write_split(step: PreTokenizer) -> dict[str, Any]:
    if step.name == "callable":
        raise Unsupported(f"a tokenizer.json cannot hold the function {step.pattern!r} as its pre-tokenizer")
    drops = step.gaps == "drop"
    try:
        text = to_oniguruma(PATTERNS.get(step.name, step.pattern))
    except ValueError as error:
        raise Unsupported(f"the pattern {step.pattern!r} cannot be said to tokenizers: {error}") from None
    return {
        "type": "Split",
        "pattern": {"Regex": text},
        "behavior": "Removed" if drops else "Isolated",
        "invert": drops,
    }


# ---- added tokens ----


def read_added_token(token: Any) -> AddedToken:
    """Return an entry of added_tokens."""
    if not isinstance(token, dict) or not isinstance(token.get("content"), str) or type(token.get("id")) is not int:
        raise Unsupported(f"an added token has no content or no id: {str(token)[:80]}")
    flags = {name: token.get(name, False) for name in ("special", "lstrip", "rstrip", "single_word", "normalized")}
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise Unsupported(f"the added token {token['content']!r} has {name}={flag!r}, neither true nor false")
    return AddedToken(token["content"], token["id"], **flags)


def write_added_token(token: AddedToken) -> dict[str, Any]:
    """Return the entry of added_tokens."""
    return {
        "id": token.id,
        "content": token.text,
        "single_word": token.single_word,
        "lstrip": token.lstrip,
        "rstrip": token.rstrip,
        "normalized": token.normalized,
        "special": token.special,
    }


# ---- post-processor ----


def read_post_processor(component: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids that a post-processor puts before and behind a single text."""
    if component is None:
        return (), ()
    before: list[int] = []
    behind: list[int] = []
    for part in _flat(component, "processors", "post-processor"):
        kind = _kind(part, "post-processor")
        if kind == "ByteLevel":
            continue
        if before or behind:  # tokenizers lets the second one put its tokens around a part of what the first one gives
            raise Unsupported(f"the post-processor {kind} behind another one that adds tokens cannot be represented")
        if kind in ("BertProcessing", "RobertaProcessing"):
            try:
                before, behind = [_id(part["cls"][1])], [_id(part["sep"][1])]
            except (KeyError, TypeError, ValueError, IndexError):
                raise Unsupported(f"the post-processor {kind} has no cls or no sep") from None
        elif kind == "TemplateProcessing":
            before, behind = _read_template(part)
        else:
            raise Unsupported(f"the post-processor {kind} cannot be represented")
    return tuple(before), tuple(behind)


def _id(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no id")
    return value


def _read_template(part: Mapping[str, Any]) -> tuple[list[int], list[int]]:
    sides: tuple[list[int], list[int]] = ([], [])
    texts = 0
    try:
        for item in part["single"]:
            if "Sequence" in item:
                texts += 1
            else:
                sides[texts > 0].extend(map(_id, part["special_tokens"][item["SpecialToken"]["id"]]["ids"]))
    except (KeyError, TypeError, ValueError):
        raise Unsupported("the post-processor TemplateProcessing has a template that cannot be read") from None
    if texts != 1:
        raise Unsupported(f"the template of the post-processor TemplateProcessing has {texts} texts instead of one")
    return sides


def write_post_processor(prefix: tuple[int, ...], suffix: tuple[int, ...], texts: Mapping[int, str]) -> dict[str, Any]:
    """Return a template that puts these ids around a text; texts are those of the ids."""

    def special(i: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": texts[i], "type_id": 0}}

    def text(name: str) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": 0 if name == "A" else 1}}

    around = [special(i) for i in prefix], [special(i) for i in suffix]
    return {
        "type": "TemplateProcessing",
        "single": [*around[0], text("A"), *around[1]],
        "pair": [*around[0], text("A"), *around[1], *around[0], text("B"), *around[1]],
        "special_tokens": {texts[i]: {"id": texts[i], "ids": [i], "tokens": [texts[i]]} for i in {*prefix, *suffix}},
    }
