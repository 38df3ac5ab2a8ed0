"""The components of a tokenizer.json around its model: normalizer, pre-tokenizer, added tokens, post-processor.

What cannot be represented exactly is refused with the component's name.
"""

from __future__ import annotations

from typing import Any, Mapping

import regex

from beam_bpe.formats import spaces
from beam_bpe.formats.oniguruma import from_oniguruma, same_pattern, to_oniguruma
from beam_bpe.formats.punctuation import PUNCTUATION
from beam_bpe.formats.unsupported import Unsupported
from beam_bpe.layout import AddedToken
from beam_bpe.normalize import NAMES, steps_of
from beam_bpe.pretokenize import HUGGINGFACE_WHITESPACE, PATTERNS, PreTokenizer, in_sequence, pre_tokenizer
from beam_bpe.rewriting import before_and_behind

#: Pre-tokenizers that are patterns of ours.
_NAMED = {"WhitespaceSplit": "whitespace", "BertPreTokenizer": "bert"}
#: Those of today have 500 characters.  Compiling one takes time and memory.
_LONGEST_PATTERN = 1 << 15


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


_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
_NORMALIZERS = {**{kind: kind for kind in _FORMS}, "Lowercase": "lowercase", "StripAccents": "strip_accents"}
#: The steps of BertNormalizer in its order.
_BERT_STEPS = ("clean_text", "handle_chinese_chars", "bert_strip_accents", "lowercase")


def read_normalizer(component: Any) -> str | None:
    """Return the name of a normalizer, or None."""
    if component is None:
        return None
    names: list[str] = []
    for part in _flat(component, "normalizers", "normalizer"):
        kind = _kind(part, "normalizer")
        if kind == "BertNormalizer":
            names += _read_bert(part)
        elif kind in _NORMALIZERS:
            names.append(_NORMALIZERS[kind])
        elif kind in spaces.KINDS:
            spaces.read_step(part, names)
        else:
            known = (*_NORMALIZERS, "BertNormalizer", *spaces.KINDS)
            raise Unsupported(f"the normalizer {kind} cannot be represented; {', '.join(known)} can")
    spaces.check_prepended(names)
    return "+".join(names) or None


def _read_bert(part: Mapping[str, Any]) -> list[str]:
    usual = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    chosen = {name: part.get(name, value) for name, value in usual.items()}
    for name, value in chosen.items():
        if not isinstance(value, bool) and (value is not None or name != "strip_accents"):
            raise Unsupported(f"the normalizer BertNormalizer has {name}={repr(value)[:80]}, neither true nor false")
    if chosen["strip_accents"] is None:
        chosen["strip_accents"] = chosen["lowercase"]
    steps = [step for step in _BERT_STEPS if chosen[step.removeprefix("bert_")]]
    short = [name for name, long in NAMES.items() if long == "+".join(steps)]
    return short or steps


def write_normalizer(name: str | None) -> dict[str, Any] | None:
    """Return the component: one of BertNormalizer for neighbouring steps of BERT, one of its own for every other step.

    What is a pre-tokenizer there is not in it.
    """
    before, _ = before_and_behind("+".join(steps_of(name)) if name is not None else None)
    parts: list[dict[str, Any]] = []
    group: list[str] = []
    for step, part in [*spaces.write_steps(steps_of(before) if before is not None else ()), ("", {})]:
        joins = {step, *group} <= {*_BERT_STEPS} and (not group or _BERT_STEPS.index(group[-1]) < _BERT_STEPS.index(step))
        if group and not joins:
            parts.append(_write_steps(group))
            group = []
        if part is None:
            group.append(step)
        elif part:
            parts.append(part)
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else {"type": "Sequence", "normalizers": parts}


def _write_steps(steps: list[str]) -> dict[str, Any]:
    for kind, step in _NORMALIZERS.items():
        if steps == [step]:
            return {"type": kind}
    if not {*steps} <= {*_BERT_STEPS}:
        raise Unsupported(f"tokenizers has no normalizer {steps[0]!r}")
    lowercase, strip = "lowercase" in steps, "bert_strip_accents" in steps
    return {
        "type": "BertNormalizer",
        "clean_text": "clean_text" in steps,
        "handle_chinese_chars": "handle_chinese_chars" in steps,
        "strip_accents": None if strip == lowercase else strip,
        "lowercase": lowercase,
    }


# ---- pre-tokenizer ----


def read_pre_tokenizer(component: Any, normalizer: str | None = None) -> tuple[PreTokenizer, bool, str | None]:
    """Return the pre-tokenizer, whether it ends with ByteLevel, as that of a byte-level model does, and the normalizer.

    Args:
        normalizer: what runs before it; what Metaspace makes of spaces is added to it.
    """
    parts = [] if component is None else _flat(component, "pretokenizers", "pre-tokenizer")
    steps: list[PreTokenizer] = []
    byte_level = has_metaspace = False
    escaped = normalizer is not None and normalizer.split("+")[-1] == "escape_whitespaces"
    for part in parts:
        kind = _kind(part, "pre-tokenizer")
        if kind in ("Metaspace", "ByteLevel") and has_metaspace:
            raise Unsupported(f"the pre-tokenizer Metaspace followed by {kind} cannot be represented")
        if byte_level:
            raise Unsupported(f"the pre-tokenizer ByteLevel is followed by {kind}")
        if kind == "ByteLevel":
            if part.get("add_prefix_space"):
                raise Unsupported("the pre-tokenizer ByteLevel with add_prefix_space cannot be represented")
            byte_level = True
            if part.get("use_regex", True):
                steps.append(pre_tokenizer("gpt2"))
        elif kind == "Metaspace":
            scheme, split = spaces.read_metaspace(part)
            if steps and not (steps == [pre_tokenizer("whitespace")] and scheme == "always" and split):
                raise Unsupported(
                    f"the pre-tokenizer Metaspace ({scheme}, split: {split}) behind {parts[len(steps) - 1]['type']} cannot be "
                    "represented; one that splits, always, behind WhitespaceSplit can"
                )
            normalizer = spaces.with_metaspace(normalizer, "words" if steps else scheme)
            steps = [pre_tokenizer("metaspace")] if split else []
            has_metaspace = escaped = True
        elif kind == "Split" and escaped and part.get("pattern") == {"String": " "} and not part.get("invert"):
            continue  # there is no space any more: Gemma's files have it
        elif kind == "Split":
            steps.append(_read_split(part))
        elif kind == "Digits":
            steps.append(pre_tokenizer(r"\p{N}" if part.get("individual_digits") else r"\p{N}+"))
        elif kind in _NAMED:
            steps.append(pre_tokenizer(_NAMED[kind]))
        elif kind == "Punctuation":
            if part.get("behavior", "Isolated") != "Isolated":
                raise Unsupported(
                    f"the pre-tokenizer Punctuation with behavior {part['behavior']} cannot be represented; Isolated can"
                )
            steps.append(pre_tokenizer(PUNCTUATION))
        elif kind == "Whitespace":
            steps.append(pre_tokenizer(HUGGINGFACE_WHITESPACE, gaps="drop"))
        else:
            known = ("Split", "Digits", *_NAMED, "Whitespace", "Punctuation", "Metaspace", "ByteLevel")
            raise Unsupported(f"the pre-tokenizer {kind} cannot be represented; {', '.join(known)} can")
    return in_sequence(steps) if steps else pre_tokenizer("none"), byte_level, normalizer


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


def write_pre_tokenizer(chosen: PreTokenizer, byte_level: bool, normalizer: str | None = None) -> dict[str, Any] | None:
    """Return the component, which ends with ByteLevel for a byte-level model; None for none.

    Args:
        normalizer: what runs before it, with what is Metaspace there.
    """
    steps = [step for step in chosen.steps or (chosen,) if step.name != "none"]
    name = "+".join(steps_of(normalizer)) if normalizer is not None else None
    parts = spaces.write_metaspace(name, bool(steps) and steps[0].name == "metaspace")
    if parts and steps and steps[0].name == "metaspace":
        steps = steps[1:]
    if parts and byte_level:
        raise Unsupported("tokenizers cannot spell the bytes of what Metaspace makes: a byte-level model goes without it")
    use_regex = byte_level and bool(steps) and steps[-1].name == "gpt2"
    parts += [_write_step(step) for step in (steps[:-1] if use_regex else steps)]
    if byte_level:
        parts.append({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": use_regex})
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else {"type": "Sequence", "pretokenizers": parts}


def _write_step(step: PreTokenizer) -> dict[str, Any]:
    if step.name == "callable":
        raise Unsupported(f"a tokenizer.json cannot hold the function {step.pattern!r} as its pre-tokenizer")
    for kind, name in _NAMED.items():
        if step.name == name:
            return {"type": kind}
    if step.pattern == HUGGINGFACE_WHITESPACE and step.gaps == "drop":
        return {"type": "Whitespace"}
    if step.pattern == PUNCTUATION and step.gaps == "keep":
        return {"type": "Punctuation", "behavior": "Isolated"}
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
