"""Cut documents into words (pre-tokens): the named patterns as data, any regex, any callable."""

from __future__ import annotations

import difflib
import importlib
import re
import struct
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Callable, Iterable, Iterator, Mapping

import numpy as np
import regex

from beam_bpe import _scan, _words, normalizer_tables

_CL100K_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"

_BERT_PUNCTUATION = r"!-/:-@\[-`{-~\p{P}"

#: The named patterns.  gpt2, cl100k and o200k are tiktoken's own texts (OpenAI, tiktoken_ext);
#: llama3 and qwen2 are those of the models' tokenizer files.  bert is the BertPreTokenizer of `tokenizers`: its
#: scanner follows that on every character, while the text here, for people, is equal on ASCII (beyond it the
#: punctuation of `tokenizers` is that of an older Unicode).  metaspace begins a word at every U+2581, which stands for a
#: space in SentencePiece's vocabularies.
PATTERNS: Mapping[str, str] = {
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
    "cl100k": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
        r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
    "o200k": (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + _CONTRACTION + r"?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + _CONTRACTION + r"?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "llama3": _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + _CL100K_REST,
    "qwen2": _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + _CL100K_REST,
    "whitespace": r"\S+",
    "bert": rf"[{_BERT_PUNCTUATION}]|[^\s{_BERT_PUNCTUATION}]+",
    "metaspace": r"\u2581[^\u2581]*+|[^\u2581]++",
    "none": r"(?s:.+)",
}
#: The regex of the pre-tokenizer `Whitespace` of `tokenizers`; it goes with gaps="drop".
HUGGINGFACE_WHITESPACE = r"\w+|[^\w\s]+"
#: Patterns that drop what lies between words: white space.
_DROPPING = ("whitespace", "bert")
#: Longer words are left out of tables, unless another limit is chosen.
MAX_WORD_BYTES = 1 << 24
DEFAULT_PATTERN = "o200k"
GAPS = ("keep", "drop")


class PreTokenizationTimeout(ValueError):
    """A custom pattern took longer than its time limit on one document."""


@dataclass(frozen=True)
class Scanned:
    """What counting some documents found, beside the words themselves."""

    words: int = 0
    overlong_words: int = 0
    overlong_bytes: int = 0


@dataclass(frozen=True)
class PreTokenizer:
    """Cut documents into words.  Make one with `pre_tokenizer`.

    Attributes:
        name: a name of `PATTERNS`, "custom" (a regex) or "callable" (a function of a module).
        pattern: the text of the regex, or "module:function".
        gaps: "keep" (text between two matches is a word of its own), "drop" (it is lost, as with
            findall), or "none" (the pattern leaves none).
        time_limit: seconds that a custom regex may take for one document.
        library: what defines the classes of characters: "unicode 16.0", or the version of `regex` or `tokenizers`.
        steps: of a "sequence": each one cuts the words of the one before.
    """

    name: str
    pattern: str
    gaps: str
    library: str
    steps: tuple[PreTokenizer, ...] = ()
    time_limit: float = field(default=60.0, compare=False)
    allowed: bool = field(default=True, compare=False, repr=False)  # whether a callable may be imported

    @property
    def scanner(self) -> int | None:
        """Number of the native scanner, or None on the slow path."""
        return _scan.PATTERNS.get(self.name)

    @property
    def may_be_cut(self) -> bool:
        """Whether a text can be cut at places where a word provably ends."""
        return self.scanner is not None and self.name not in ("metaspace", "none")

    @property
    def drops_spaces(self) -> bool:
        """Whether white space ends words and is dropped, however much of it there is."""
        return self.name in _DROPPING

    def spec(self) -> dict[str, Any]:
        """Return what defines the words, for artifacts and fingerprints."""
        own = {"name": self.name, "pattern": self.pattern, "gaps": self.gaps, "library": self.library}
        return {**own, "steps": [step.spec() for step in self.steps]} if self.steps else own

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], *, allow_callables: Iterable[str] = ()) -> PreTokenizer:
        """Return the pre-tokenizer of an artifact.

        A callable that the artifact names is never imported unless it is among `allow_callables`.

        Raises:
            ValueError: it names a pattern of ours that has another text, or another version of Unicode,
                here, so that it would find other words.
        """
        if spec["name"] in PATTERNS and spec != pre_tokenizer(spec["name"]).spec():
            raise ValueError(
                f"the pattern {spec['name']!r} of the artifact is {spec['pattern']!r} by {spec['library']}; here it is "
                f"{PATTERNS[spec['name']]!r} by {pre_tokenizer(spec['name']).library}"
            )
        if spec["name"] == "sequence":
            return in_sequence([cls.from_spec(step, allow_callables=allow_callables) for step in spec["steps"]])
        allowed = spec["name"] != "callable" or spec["pattern"] in allow_callables
        return cls(spec["name"], spec["pattern"], spec["gaps"], spec["library"], allowed=allowed)

    def split(self, text: str) -> list[str]:
        """Return the words of one document.

        >>> pre_tokenizer("cl100k").split("It's 12345 tests")
        ['It', "'s", ' ', '123', '45', ' tests']
        """
        if self.scanner is None:
            return list(self._slow_words(text))
        data = text.encode()
        bounds = np.frombuffer(_scan.word_bounds(data, self.scanner), np.int64).tolist()
        return [data[i:j].decode() for i, j in zip(bounds[::2], bounds[1::2])]

    def is_word(self, text: str) -> bool:
        """Whether a text is one word, and nothing of it is dropped: what `split` tells, sooner.

        >>> pre_tokenizer("cl100k").is_word(" tests"), pre_tokenizer("cl100k").is_word("It's")
        (True, False)
        """
        scanner = self.scanner
        if scanner is None:
            return self.split(text) == [text]
        data = text.encode()
        return _scan.word_bounds(data, scanner) == struct.pack("=qq", 0, len(data))

    def count(
        self,
        table: _words.WordTable,
        data: Any,
        bounds: np.ndarray,
        *,
        max_word_bytes: int = MAX_WORD_BYTES,
        continues: bool = False,
    ) -> Scanned:
        """Count the words of documents into a table.

        Args:
            data: valid UTF-8, as a buffer of bytes.
            bounds: int64 of length 2n; document d is data[bounds[2d]:bounds[2d + 1]].
            max_word_bytes: longer words are left out, and counted as overlong.
            continues: the first document is the rest of the last one counted into this table.
        """
        if self.scanner is not None:
            return Scanned(*table.add_documents(data, bounds, self.scanner, max_word_bytes, continues))
        words = overlong = overlong_bytes = 0
        view = memoryview(data)
        for start, end in zip(bounds[::2].tolist(), bounds[1::2].tolist()):
            for word, count in Counter(self._slow_words(str(view[start:end], "utf-8"))).items():
                encoded = word.encode()
                if len(encoded) > max_word_bytes:
                    overlong += count
                    overlong_bytes += count * len(encoded)
                    continue
                table.add(encoded, count, 1 if table.documents else 0)
                words += count
        return Scanned(words, overlong, overlong_bytes)

    def _slow_words(self, text: str) -> Iterator[str]:
        if self.name == "callable":
            yield from self._called_words(text)
            return
        if self.steps:
            words = [text]
            for step in self.steps:
                words = [part for word in words for part in step.split(word)]
            yield from words
            return
        at = 0
        try:
            for match in self._regex.finditer(text, timeout=self.time_limit):
                start, end = match.span()
                if start > at and self.gaps == "keep":
                    yield text[at:start]
                if end > start:
                    yield match.group()
                at = end
        except TimeoutError:
            raise PreTokenizationTimeout(
                f"the pattern {self.pattern!r} took more than {self.time_limit:g} s on one document of "
                f"{len(text)} characters that starts with {text[:60]!r}: simplify the pattern (nested "
                "repeats backtrack without end) or raise time_limit"
            ) from None
        if at < len(text) and self.gaps == "keep":
            yield text[at:]

    def _called_words(self, text: str) -> Iterator[str]:
        for word in self._callable(text):
            if not isinstance(word, str):
                raise TypeError(f"{self.pattern} must give words of type str, not {type(word).__name__}: {word!r}")
            if word:
                yield word

    @cached_property
    def _regex(self) -> Any:
        return regex.compile(self.pattern)

    @cached_property
    def _callable(self) -> Callable[[str], Iterable[str]]:
        if not self.allowed:
            raise ValueError(
                f"the artifact names the function {self.pattern!r} as its pre-tokenizer; it is imported only "
                f"when you allow it: allow_callables=[{self.pattern!r}]"
            )
        return _import_callable(self.pattern)

    def __getstate__(self) -> dict[str, Any]:
        # A compiled pattern and an imported function are found again where they are needed.
        return {k: v for k, v in self.__dict__.items() if k not in ("_regex", "_callable")}


def pre_tokenizer(
    pattern: str | PreTokenizer = DEFAULT_PATTERN,
    *,
    split_with: str | None = None,
    gaps: str = "keep",
    time_limit: float = 60.0,
) -> PreTokenizer:
    """Return the pre-tokenizer of that name, regex or function.

    Args:
        pattern: a name of `PATTERNS` or the text of a regex (syntax of the `regex` package).
        split_with: instead, a function "module:function" that takes a document (str) and gives its
            words; what it leaves out is lost.
        gaps: with a regex, whether text between two matches is kept as a word ("keep") or lost
            ("drop").  Capture groups are ignored, empty matches skipped.
        time_limit: seconds that a regex may take for one document.

    Raises:
        ValueError: a name that is not known, a regex that does not compile, another `gaps`.

    >>> pre_tokenizer(r" ?\\w+").split("low, low!")
    ['low', ',', ' low', '!']
    >>> pre_tokenizer("o200K")
    Traceback (most recent call last):
    ...
    ValueError: there is no pattern named 'o200K'; did you mean 'o200k'? Known: gpt2, cl100k, o200k, llama3, qwen2, whitespace, bert, metaspace, none (anything with other characters is read as a regex)
    """
    if isinstance(pattern, PreTokenizer):
        return pattern
    if gaps not in GAPS:
        raise ValueError(f"gaps={gaps!r}: choose 'keep' or 'drop'")
    if split_with is not None:
        _import_callable(split_with)
        return PreTokenizer("callable", split_with, "drop", f"python {split_with}")
    if pattern in PATTERNS:
        lossy = "drop" if pattern in _DROPPING else "none"
        library = normalizer_tables.LIBRARY if pattern == "bert" else f"unicode {_scan.UNICODE_VERSION}"
        return PreTokenizer(pattern, PATTERNS[pattern], lossy, library)
    if re.fullmatch(r"[\w.-]*", pattern):
        raise ValueError(
            f"there is no pattern named {pattern!r}{_suggestion(pattern, PATTERNS)} "
            f"Known: {', '.join(PATTERNS)} (anything with other characters is read as a regex)"
        )
    try:
        compiled = regex.compile(pattern)
    except regex.error as error:
        raise ValueError(f"the pattern {pattern!r} does not compile: {error}") from None
    if compiled.flags & regex.REVERSE:
        raise ValueError(f"the pattern {pattern!r} searches from the end ((?r)); words are found from the start")
    from importlib.metadata import version  # slow to import, and wanted only here

    return PreTokenizer("custom", pattern, gaps, f"regex {version('regex')}", time_limit=time_limit)


def in_sequence(steps: Iterable[PreTokenizer]) -> PreTokenizer:
    """Return what cuts by one pre-tokenizer after the other, each within the words of the one before.

    Each word is a text of its own to the next one: its look-ahead sees no further.

    >>> in_sequence([pre_tokenizer(r"\\d"), pre_tokenizer("gpt2")]).split("low 12 low")
    ['low', ' ', '1', '2', ' low']
    """
    flat: list[PreTokenizer] = []
    for step in steps:
        flat += step.steps or (step,)
    if len(flat) == 1:
        return flat[0]
    if not flat:
        raise ValueError("a sequence of pre-tokenizers has at least one")
    lossy = any(step.gaps == "drop" for step in flat)
    libraries = " + ".join(dict.fromkeys(step.library for step in flat))
    return PreTokenizer("sequence", " then ".join(step.name for step in flat), "drop" if lossy else "keep", libraries, tuple(flat))


def _suggestion(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else "."


def _import_callable(name: str) -> Callable[[str], Iterable[str]]:
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise ValueError(f"{name!r} does not name a function: write it as module:function")
    try:
        found: Callable[[str], Iterable[str]] = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, TypeError) as error:
        raise ValueError(f"the function {name!r} cannot be imported: {error}") from None
    if not callable(found):
        raise ValueError(f"{name!r} is a {type(found).__name__}, not a function")
    return found
