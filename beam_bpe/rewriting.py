"""Steps of a normalizer that rewrite a text's spaces as components of Hugging Face's `tokenizers` do.

- strip_left and strip_right are its normalizer Strip: white space is dropped at that end.
- "replace:..." is its normalizer Replace of a text by another one (both in base64).
- collapse_spaces is Replace of " {2,}" by a space, escape_runs by U+2581.
- "Metaspace:always" and the like are its pre-tokenizer Metaspace, by the prepend_scheme: spaces become U+2581, and a text
  that does not begin with one gets one ("always"), or only a text in front of which no added token stands ("first"), or
  none ("never").  "Metaspace:words" is "always" behind WhitespaceSplit: each word between white space gets its own, and
  white space is dropped.

What is a pre-tokenizer there runs behind the search for added tokens, for those in normalized text too.
"""

from __future__ import annotations

import base64
import re
from typing import Any, Callable, Sequence

import numpy as np

from beam_bpe import _normalize, reference_sentencepiece
from beam_bpe.texts import WHITE_SPACE, changed

METASPACE = "Metaspace:"
_SPACE = "\u2581"
_WHITE = re.compile(f"[{WHITE_SPACE}]+")
_RUN = re.compile(" {2,}")


def _prepend(text: str) -> str:
    text = text.replace(" ", _SPACE)
    return text if not text or text.startswith(_SPACE) else _SPACE + text


def _words(text: str) -> str:
    words = _WHITE.sub(" ", text).strip(" ")
    return f" {words}".replace(f" {_SPACE}", _SPACE).replace(" ", _SPACE) if words else ""


_STEPS: dict[str, Callable[[str], str]] = {
    "strip_left": lambda text: text.lstrip(WHITE_SPACE),
    "strip_right": lambda text: text.rstrip(WHITE_SPACE),
    "collapse_spaces": lambda text: _RUN.sub(" ", text),
    "escape_runs": lambda text: _RUN.sub(_SPACE, text),
    METASPACE + "always": _prepend,
    METASPACE + "first": _prepend,
    METASPACE + "never": lambda text: text.replace(" ", _SPACE),
    METASPACE + "words": _words,
}
STEPS = tuple(_STEPS)
_REPLACE = "replace:"


def replacing(text: str, content: str) -> str:
    """Return the step that replaces a text by another one.

    >>> replacing("``", '"')
    'replace:YGA=:Ig=='
    >>> replaced('replace:YGA=:Ig==')
    ('``', '"')
    """
    return _REPLACE + ":".join(base64.urlsafe_b64encode(one.encode()).decode() for one in (text, content))


def is_rewriting(step: str) -> bool:
    """Whether there is such a step."""
    return step in _STEPS or replaced(step) is not None


def replaced(step: str) -> tuple[str, str] | None:
    """Return the text that a step replaces and what by, None if it is no such step."""
    if not step.startswith(_REPLACE) or step.count(":") != 2:
        return None
    try:
        text, content = (base64.urlsafe_b64decode(one).decode() for one in step.split(":")[1:])
    except ValueError:
        return None
    return (text, content) if text and replacing(text, content) == step else None


class Rewriting:
    """A step as a pass over documents."""

    def __init__(self, step: str):
        found = replaced(step)
        self._rewrite = _STEPS[step] if found is None else lambda text: text.replace(*found)

    def documents(self, data: Any, bounds: Any) -> tuple[bytes, bytes]:
        """Return documents rewritten, side by side, and their bounds as packed int64 numbers."""
        return changed(data, bounds, lambda text: self._rewrite(text.decode()).encode())


class SpacingAround:
    """SentencePiece's removal of extra spaces around texts that hold such spaces, and what follows it.

    Args:
        steps: "remove_extra_whitespaces" and those about spaces behind it.
        symbols: texts whose own spaces stay, but for those in front of them.
    """

    def __init__(self, steps: Sequence[str], symbols: Sequence[str]):
        self._symbols = tuple(symbols)
        self._holding = [symbol.encode() for symbol in symbols if "  " in symbol]
        self._options = {"add_dummy_prefix": "dummy_prefix" in steps, "remove_extra_whitespaces": True}
        self._suffix = _SPACE if "dummy_suffix" in steps else ""
        self._escapes = "escape_whitespaces" in steps
        self._usual = _normalize.Spacing(True, "dummy_prefix" in steps, "dummy_suffix" in steps, self._escapes)

    def documents(self, data: Any, bounds: Any) -> tuple[bytes, bytes]:
        """Return documents rewritten, side by side, and their bounds as packed int64 numbers."""
        return changed(data, bounds, self._of)

    def _of(self, text: bytes) -> bytes:
        if not any(symbol in text for symbol in self._holding):
            return self._usual.documents(text, np.array([0, len(text)], np.int64))[0]
        made = reference_sentencepiece.normalize(text.decode(), **self._options, user_defined=self._symbols) + self._suffix
        return (made if self._escapes else made.replace(_SPACE, " ")).encode()


def before_and_behind(name: str | None) -> tuple[str | None, str | None]:
    """Return the normalizers before the search for added tokens in normalized text, and behind it.

    >>> before_and_behind("NFC+Metaspace:first")
    ('NFC', 'Metaspace:first')
    """
    steps = name.split("+") if name else []
    at = next((i for i, step in enumerate(steps) if step.startswith(METASPACE)), len(steps))
    return "+".join(steps[:at]) or None, "+".join(steps[at:]) or None


def not_first(name: str) -> str:
    """Return the normalizer behind the search for added tokens of a text in front of which one stands."""
    return name.replace(METASPACE + "first", METASPACE + "never")
