"""Translate patterns between Oniguruma, as the `tokenizers` library uses it, and the `regex` package.

A `Split` of a tokenizer.json holds a pattern of Oniguruma (syntax of Ruby); our slow path runs the
`regex` package (its V0).  Most patterns of tokenizers mean the same in both.  What does not, as measured on
every code point with tokenizers 0.23 and regex 2025.9.18, both of which follow Unicode 16:

- `{n,m}+` repeats a group in Oniguruma and is possessive in regex; `{n}?` is optional there, lazy here.
- `^` and `$` are anchors of lines in Oniguruma, `(?m)` is what regex calls `(?s)`, `\\Z` what it calls `$`.
- `\\w` takes in U+200C and U+200D in regex, and ² ³ ¹ ¼ ½ ¾ in Oniguruma, though not in its `[\\w]`;
  `\\b` goes by `\\w`.  `\\h` is a hexadecimal digit in Oniguruma, a blank in regex.
- `(?i)`: in Oniguruma "ss" finds "ß" as well; in regex, "i" finds "İ" and "I" finds "ı".
- Behind an empty match, regex looks at the same place again for one that is not empty; the search of
  tokenizers moves on by a character.  An atomic group around the pattern makes regex do the same.

What cannot be translated exactly, or only with rules that no tokenizer is known to need, is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Iterable, NoReturn

import regex

from beam_bpe.pretokenize import PATTERNS, pre_tokenizer

# Word characters: of both, of Oniguruma's \w outside brackets (and its \b), of regex's \w.
_WORD = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}"
_RUBY_WORD = _WORD + "²³¹¼½¾"
_REGEX_WORD = _WORD + r"\u200c\u200d"

# The properties that are the same set in both (compared by tests); in lower case.
_CATEGORIES = (
    "C Cc Cf Cn Co L LC Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs "
    "Letter Uppercase_Letter Lowercase_Letter Mark Number Decimal_Number Punctuation Symbol Separator"
)
_SCRIPTS = (
    "Arabic Armenian Bengali Bopomofo Cherokee Common Cyrillic Devanagari Ethiopic Georgian Greek Gujarati "
    "Gurmukhi Han Hangul Hebrew Hiragana Inherited Kannada Katakana Khmer Lao Latin Malayalam Mongolian Myanmar "
    "Oriya Sinhala Syriac Tamil Telugu Thaana Thai Tibetan"
)
_OTHERS = "Alphabetic Uppercase Lowercase White_Space Emoji Extended_Pictographic"
PROPERTIES = frozenset(f"{_CATEGORIES} {_SCRIPTS} {_OTHERS}".lower().split())
_CASELESS = frozenset("clmnpsz")  # they have both cases of a letter: (?i) changes nothing

# [[:name:]], as items of a class: of Oniguruma, of regex.
_POSIX: dict[str, tuple[str, str]] = {
    "alpha": (r"\p{Alphabetic}", r"\p{Alphabetic}"),
    "digit": (r"\p{Nd}", "0-9"),
    "alnum": (r"\p{Alphabetic}\p{Nd}", r"\p{Alphabetic}0-9"),
    "upper": (r"\p{Uppercase}", r"\p{Uppercase}"),
    "lower": (r"\p{Lowercase}", r"\p{Lowercase}"),
    "space": (r"\s", r"\s"),
    "blank": (r"\t\p{Zs}", r"\t\p{Zs}"),
    "cntrl": (r"\p{Cc}", r"\p{Cc}"),
    "xdigit": ("0-9A-Fa-f", "0-9A-Fa-f"),
    "word": (_WORD, _REGEX_WORD),
}
_CONTROLS = {"a": "\a", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "e": "\x1b"}
_TURKIC = frozenset("IiİıI")  # the only ones that regex folds otherwise, one by one

_QUANTIFIER = re.compile(r"(?:[*+?]|\{(?P<low>[0-9]*)(?P<comma>,?)(?P<high>[0-9]*)\})(?P<mode>[?+]?)")
_FLAGS = re.compile(r"\(\?(?P<on>[a-zLWDSP]*)(?:-(?P<off>[a-z]+))?(?P<end>[:)])")
_NAMED = re.compile(r"\(\?P?<[A-Za-z_]\w*>")
_PROPERTY = re.compile(r"\\(?P<kind>[pP])(?:\{(?P<not>\^?)(?P<name>[A-Za-z_]+)\}|(?P<letter>[A-Z]))")
_POSIX_ITEM = re.compile(r"\[:(?P<name>\^?\w+):\]")
_MOST_REPEATS = 100_000  # more is an error in Oniguruma
_DEEPEST = 100  # groups within groups


@dataclass(frozen=True)
class _Flags:
    fold: bool = False
    dot_all: bool = False
    lines: bool = False  # (?m) of regex


@dataclass(frozen=True)
class _Part:
    """A translated piece of a pattern, and what is known of its matches (erring on the side of "may")."""

    text: str
    may_be_empty: bool = False
    may_be_long: bool = True  # False: it never takes a character
    one: bool = False  # always exactly one character
    atomic: bool = False
    first: frozenset[str] = frozenset()  # the folded letters under (?i) that may start it, end it
    last: frozenset[str] = frozenset()


def _anchor(text: str) -> _Part:
    return _Part(text, may_be_empty=True, may_be_long=False)


@cache
def _expanding_pairs() -> frozenset[str]:
    """Return the first two characters of every case folding that is longer than one character."""
    ranges = (range(0xDF, 0x590), range(0x1E96, 0x2000), range(0xFB00, 0xFB18))  # where such characters are
    return frozenset(chr(c).casefold()[:2] for r in ranges for c in r if len(chr(c).casefold()) > 1)


class _Translation:
    """A pattern that is being read, atom by atom; `ruby` tells that it is of Oniguruma."""

    def __init__(self, pattern: str, ruby: bool) -> None:
        self.pattern = pattern
        self.ruby = ruby
        self.at = 0
        self.depth = 0

    def refuse(self, what: str, at: int | None = None) -> NoReturn:
        source, target = ("Oniguruma", "regex") if self.ruby else ("regex", "Oniguruma")
        raise ValueError(
            f"the pattern {self.pattern!r} of {source} has no exact counterpart in {target}: {what} at position "
            f"{self.at if at is None else at}"
        )

    def looking_at(self, *texts: str) -> bool:
        return self.pattern.startswith(texts, self.at)

    def whole(self) -> str:
        """Translate all of it."""
        flags, opened = _Flags(), ""
        while (found := _FLAGS.match(self.pattern, self.at)) and found["end"] == ")":
            if not found["on"] or found["off"]:
                break
            prefix, flags = self.flag_group(found, flags)
            opened += prefix
            self.at = found.end()
        part = self.alternatives(flags)
        if self.at < len(self.pattern):
            self.refuse("')' that closes nothing")
        text = opened + part.text + ")" * opened.count("(")
        if part.may_be_empty and part.may_be_long and not part.atomic:
            if not self.ruby:
                self.refuse("a pattern that may match nothing or more (put it into an atomic group (?>...))", 0)
            return f"(?>{text})"
        return text

    def alternatives(self, flags: _Flags) -> _Part:
        """Translate up to the end of the group."""
        branches = [self.branch(flags)]
        while self.looking_at("|"):
            self.at += 1
            branches.append(self.branch(flags))
        if len(branches) == 1:
            return branches[0]
        return _Part(
            "|".join(branch.text for branch in branches),
            any(branch.may_be_empty for branch in branches),
            any(branch.may_be_long for branch in branches),
            first=frozenset().union(*(branch.first for branch in branches)),
            last=frozenset().union(*(branch.last for branch in branches)),
        )

    def branch(self, flags: _Flags) -> _Part:
        parts: list[_Part] = []
        before: frozenset[str] = frozenset()  # the folded letters that may stand just before
        first: frozenset[str] = frozenset()
        while self.at < len(self.pattern) and not self.looking_at("|", ")"):
            start = self.at
            part = self.quantified(self.atom(flags), start)
            self.check_pairs(before, part.first, start)
            if all(earlier.may_be_empty for earlier in parts):
                first |= part.first
            before = part.last | before if part.may_be_empty else part.last
            parts.append(part)
        if len(parts) == 1:
            return parts[0]
        return _Part(
            "".join(part.text for part in parts),
            all(part.may_be_empty for part in parts),
            any(part.may_be_long for part in parts),
            first=first,
            last=before,
        )

    def check_pairs(self, before: Iterable[str], after: Iterable[str], at: int) -> None:
        for pair in sorted({a + b for a in before for b in after} & _expanding_pairs()):
            self.refuse(f"{pair!r} without regard to case, which is one character in another spelling,", at)

    # ---- quantifiers ----

    def quantified(self, part: _Part, start: int) -> _Part:
        found = _QUANTIFIER.match(self.pattern, self.at)
        if found is None or found[0] in ("{}", "{,}"):
            return part  # a "{" that is no quantifier is refused as an atom
        if not part.may_be_long:
            self.refuse(f"{found[0]!r} behind an anchor or a lookaround")
        body, mode = found[0].removesuffix(found["mode"]) if found["mode"] else found[0], found["mode"]
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(body) or self.interval(found)
        if part.may_be_empty:  # the engines end such loops each in its way
            self.refuse(f"{found[0]!r} behind what may match nothing")
        text = part.text + body
        if body[0] != "{" or not mode:
            text += mode
        elif mode == "?" and high == low:
            text = f"(?:{text})?" if self.ruby else text
            low = 0 if self.ruby else low
        elif mode == "?":
            text += mode
        elif not self.ruby:
            text = f"(?>{text})"
        elif low == 0:
            self.refuse(f"{found[0]!r}, the repeat of a repeat that may match nothing,")
        else:
            text, high = f"(?:{text})+", None
        if high is None or high > 1:
            self.check_pairs(part.last, part.first, start)
        self.at = found.end()
        if self.looking_at("*", "+", "?") or (_QUANTIFIER.match(self.pattern, self.at)):
            self.refuse("a quantifier behind a quantifier")
        return replace(part, text=text, may_be_empty=part.may_be_empty or low == 0, one=False, atomic=False)

    def interval(self, found: re.Match[str]) -> tuple[int, int | None]:
        low = int(found["low"] or 0)
        high = (int(found["high"]) if found["high"] else None) if found["comma"] else low
        if max(low, high or 0) > _MOST_REPEATS or (high is not None and high < low) or high == 0:
            self.refuse(f"the quantifier {found[0]!r}")
        return low, high

    # ---- atoms ----

    def atom(self, flags: _Flags) -> _Part:
        start, char = self.at, self.pattern[self.at]
        if char == "(":
            return self.group(flags)
        if char == "[":
            return self.bracket(flags)
        if char == "\\":
            return self.escape(flags)
        self.at += 1
        if char == ".":
            return _Part(".", one=True)
        if char == "^":
            if self.ruby:
                return _anchor(r"(?:\A|(?<=\n)(?!\Z))")
            return _anchor(r"(?<![^\n])" if flags.lines else r"\A")
        if char == "$":
            return _anchor("$" if flags.lines else r"\Z") if not self.ruby else _anchor(r"(?![^\n])")
        if char in "*+?":
            self.refuse(f"{char!r} with nothing to repeat", start)
        if char == "{":
            self.refuse("'{' that starts no quantifier (write \\{)", start)
        return self.literal(char, char, flags, start)

    def literal(self, char: str, text: str, flags: _Flags, start: int) -> _Part:
        self.check_literal(char, flags, start)
        edge = frozenset({char.casefold()} if flags.fold else ())
        return _Part(text, one=True, first=edge, last=edge)

    def check_literal(self, char: str, flags: _Flags, start: int) -> None:
        if "\ud800" <= char <= "\udfff":
            self.refuse(f"the surrogate {char!r}", start)
        if flags.fold and (char in _TURKIC or len(char.casefold()) > 1):
            self.refuse(f"{char!r} without regard to case", start)

    def group(self, flags: _Flags) -> _Part:
        start = self.at
        self.depth += 1
        if self.depth > _DEEPEST:
            self.refuse(f"more than {_DEEPEST} groups within each other")
        if self.looking_at("(?<=", "(?<!"):
            opened = self.pattern[start : start + 4]
            self.at += 4
            part = self.lookbehind(opened, flags)
        elif self.looking_at("(?=", "(?!", "(?>", "(?:"):
            opened = self.pattern[start : start + 3]
            self.at += 3
            inner = self.alternatives(flags)
            part = replace(inner, text=opened + inner.text, one=False, atomic=opened == "(?>")
            if opened in ("(?=", "(?!"):
                part = _anchor(opened + inner.text)
        elif found := _NAMED.match(self.pattern, start):
            if self.ruby and "P" in found[0]:
                self.refuse(f"the group {found[0]!r}")
            self.at = found.end()
            inner = self.alternatives(flags)
            part = replace(inner, text="(?:" + inner.text, one=False, atomic=False)
        elif (found := _FLAGS.match(self.pattern, start)) and (found["on"] or found["off"]):
            if found["end"] == ")":
                self.refuse(f"{found[0]!r} (flags for a part are written {found[0][:-1] + ':...)'!r})")
            opened, flags = self.flag_group(found, flags)
            self.at = found.end()
            inner = self.alternatives(flags)
            part = replace(inner, text=opened + inner.text, one=False, atomic=False)
        elif self.looking_at("(?", "(*"):
            self.refuse(f"the group {self.pattern[start:start + 3]!r}")
        else:
            self.at += 1
            inner = self.alternatives(flags)
            part = replace(inner, text="(" + inner.text, one=False, atomic=False)
        if not self.looking_at(")"):
            self.refuse("a group that is not closed", start)
        self.at += 1
        self.depth -= 1
        return replace(part, text=part.text + ")")

    def flag_group(self, found: re.Match[str], flags: _Flags) -> tuple[str, _Flags]:
        """Return the opening of the group and the flags within."""
        names = {"i": ("fold", "i"), "m": ("dot_all", "s")} if self.ruby else {
            "i": ("fold", "i"), "s": ("dot_all", "m"), "m": ("lines", "")
        }  # fmt: skip
        written = []
        for letters, value in ((found["on"], True), (found["off"] or "", False)):
            for letter in letters:
                if letter not in names:
                    self.refuse(f"the flag {letter!r} in {found[0]!r}")
                flags = replace(flags, **{names[letter][0]: value})
            written.append("".join(names[letter][1] for letter in letters))
        return f"(?{written[0]}{'-' + written[1] if written[1] else ''}:", flags

    def lookbehind(self, opened: str, flags: _Flags) -> _Part:
        # Of what an engine reads backwards, only characters one by one are taken: there is nothing to differ in.
        texts = [""]
        while not self.looking_at(")") and self.at < len(self.pattern):
            start = self.at
            if self.looking_at("|"):
                self.at += 1
                texts.append("")
                continue
            if self.looking_at("(") or not (part := self.atom(flags)).one or _QUANTIFIER.match(self.pattern, self.at):
                self.refuse("a lookbehind of other than characters one by one", start)
            if flags.fold and part.first:
                self.refuse("a lookbehind without regard to case", start)
            texts[-1] += part.text
        if "" in texts:
            self.refuse("a lookbehind of nothing")
        return _anchor(opened + "|".join(texts))

    def escape(self, flags: _Flags) -> _Part:
        start, letter = self.at, self.pattern[self.at + 1 : self.at + 2]
        anchors = {"A": r"\A", "z": r"\Z", "Z": r"(?=\n?\Z)"} if self.ruby else {"A": r"\A", "Z": r"\z"}
        if letter in anchors:
            self.at += 2
            return _anchor(anchors[letter])
        if letter and letter in "bB":
            self.no_fold(flags, "\\" + letter)
            self.at += 2
            word = f"[{_RUBY_WORD if self.ruby else _REGEX_WORD}]"
            here, there = ("(?!", "(?=") if letter == "b" else ("(?=", "(?!")
            return _anchor(f"(?:(?<={word}){here}{word})|(?<!{word}){there}{word}))")
        if letter == "R":
            self.at += 2
            return _Part(r"(?>\r\n|[\n-\r\u0085\u2028\u2029])", atomic=True)
        if letter and letter in "wW":
            self.no_fold(flags, "\\" + letter)
            self.at += 2
            return _Part(f"[{'^' if letter == 'W' else ''}{_RUBY_WORD if self.ruby else _REGEX_WORD}]", one=True)
        if letter and letter in "hH":
            self.at += 2
            return _Part(f"[{'^' if letter == 'H' else ''}{self.blanks()}]", one=True)
        if (items := self.class_escape(flags, bracket=False)) is not None:
            return _Part(items, one=True)
        char, text = self.escaped_char()
        return self.literal(char, text, flags, start)

    def blanks(self) -> str:
        return "0-9A-Fa-f" if self.ruby else r"\t\p{Zs}"

    def no_fold(self, flags: _Flags, what: str) -> None:
        if flags.fold:
            self.refuse(f"{what!r} without regard to case")

    def class_escape(self, flags: _Flags, bracket: bool) -> str | None:
        """Read \\s, \\d or a property; return its translation."""
        if self.looking_at(r"\s", r"\S", r"\d", r"\D"):
            if bracket:
                self.no_fold(flags, self.pattern[self.at : self.at + 2] + " in a class")
            self.at += 2
            return self.pattern[self.at - 2 : self.at]
        if not self.looking_at(r"\p", r"\P"):
            return None
        found = _PROPERTY.match(self.pattern, self.at)
        if found is None or (self.ruby and found["letter"]):
            self.refuse(f"the property {self.pattern[self.at : self.at + 12]!r}")
        name = found["name"] or found["letter"]
        if name.lower() not in PROPERTIES:
            self.refuse(f"the property {found[0]!r}, which is not known to be the same in both,")
        if bracket or name.lower() not in _CASELESS:
            self.no_fold(flags, found[0])
        self.at = found.end()
        return rf"\{'P' if (found['kind'] == 'P') != bool(found['not']) else 'p'}{{{name}}}"

    def escaped_char(self) -> tuple[str, str]:
        """Read an escape that stands for one character; return the character and how to write it."""
        if found := re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2}))").match(self.pattern, self.at):
            char = chr(int(found[1] or found[2], 16))
            if self.ruby and found[2] and char > "\x7f":
                self.refuse(f"the byte {found[0]!r}")
        elif found := re.compile(r"\\(?:x\{([0-9A-Fa-f]{1,6})\}|U([0-9A-Fa-f]{8}))").match(self.pattern, self.at):
            number = int(found[1] or found[2], 16)
            if bool(found[1]) != self.ruby or number > 0x10FFFF:
                self.refuse(f"the escape {found[0]!r}")
            char = chr(number)
            self.at = found.end()
            return char, f"\\U{number:08x}" if self.ruby else f"\\x{{{number:x}}}"
        elif found := re.compile(r"\\([atnvfre]|[!-/:-@\[-`{-~ ])").match(self.pattern, self.at):
            char = _CONTROLS.get(found[1], found[1])
            if found[1] == "e":
                if not self.ruby:
                    self.refuse("the escape '\\\\e'")
                self.at = found.end()
                return char, r"\x1b"
        else:
            self.refuse(f"the escape {self.pattern[self.at : self.at + 2]!r}")
        self.at = found.end()
        # \u00e9 for \xe9: to Oniguruma the latter is a byte.
        return char, f"\\u{ord(char):04x}" if found[0].startswith("\\x") and char > "\x7f" else found[0]

    # ---- classes ----

    def bracket(self, flags: _Flags) -> _Part:
        start = self.at
        self.at += 1
        negated = self.looking_at("^")
        self.at += negated
        items, letters = "", frozenset[str]()
        no_word = False  # \W is among the items
        previous = ""
        while not self.looking_at("]") or not (items or no_word):
            if self.at >= len(self.pattern):
                self.refuse("a class that is not closed", start)
            if found := _POSIX_ITEM.match(self.pattern, self.at):
                self.no_fold(flags, found[0])
                if found["name"] not in _POSIX:
                    self.refuse(f"the class {found[0]!r}")
                self.at = found.end()
                items, previous = items + _POSIX[found["name"]][0 if self.ruby else 1], ""
            elif self.looking_at(r"\w", r"\W"):
                self.no_fold(flags, self.pattern[self.at : self.at + 2])
                no_word |= self.looking_at(r"\W")
                items += "" if self.looking_at(r"\W") else _WORD if self.ruby else _REGEX_WORD
                self.at, previous = self.at + 2, ""
            elif self.looking_at(r"\h"):
                self.no_fold(flags, r"\h")
                self.at, items, previous = self.at + 2, items + self.blanks(), ""
            elif (found_items := self.class_escape(flags, bracket=True)) is not None:
                items, previous = items + found_items, ""
            else:
                low, text = self.class_char(previous, bool(items) or no_word)
                self.check_literal(low, flags, start)
                high = low
                if self.looking_at("-") and not self.looking_at("-]"):
                    self.at += 1
                    high, end = self.class_char("-", True)
                    if high < low:
                        self.refuse(f"the range from {low!r} to {high!r}", start)
                    text += "-" + end
                    self.check_literal(high, flags, start)
                if flags.fold:
                    letters |= {self.folded(code, flags, start) for code in range(ord(low), ord(high) + 1)}
                items, previous = items + ("\\^" if text == "^" and not items else text), text[-1]
            if self.looking_at("-") and not self.looking_at("-]") and not previous:
                self.refuse("'-' behind a class or a property (write \\-)")
        self.at += 1
        text = f"[{'^' if negated else ''}{items}]"
        if no_word:
            word = _WORD if self.ruby else _REGEX_WORD
            if not self.ruby:
                text = f"[{'^' if negated else ''}[^{word}]{items}]"
            elif negated:
                text = f"(?:(?!{'[' + items + ']' if items else '(?!)'})[{word}])"
            else:
                text = f"(?:[^{word}]{'|[' + items + ']' if items else ''})"
        # Oniguruma makes no text of what stands beside a class, so that its letters need no look at their
        # neighbours; a class of one letter is taken for that letter all the same.
        edge = letters if len(letters) == 1 and not negated else frozenset[str]()
        return _Part(text, one=True, first=edge, last=edge)

    def folded(self, code: int, flags: _Flags, start: int) -> str:
        self.check_literal(chr(code), flags, start)
        return chr(code).casefold()

    def class_char(self, previous: str, inside: bool) -> tuple[str, str]:
        """Read one character of a class; return it and how to write it."""
        if self.at >= len(self.pattern):
            self.refuse("a class that is not closed")
        char = self.pattern[self.at]
        if char == "\\":
            if self.looking_at(r"\b"):
                self.refuse(r"the escape '\\b' in a class")
            return self.escaped_char()
        if char == "]":
            self.refuse("']' as the first of a class (write \\])")
        if char == "[" and self.ruby:
            self.refuse("a class within a class")
        if char == "&" and self.looking_at("&&") and self.ruby:
            self.refuse("'&&' in a class")
        if char == "-" and inside and not self.looking_at("-]") and previous != "-":
            self.refuse("'-' in the midst of a class (write \\-)")
        self.at += 1
        return char, "\\" + char if char == "[" or (char == previous and char in "&|~-") else char


def from_oniguruma(pattern: str) -> str:
    r"""Return a pattern of the `regex` package with the matches of this one of Oniguruma.

    The matches are those of a search over one text for one after the other, as a `Split` of `tokenizers` makes
    it; empty ones just behind another match, which cut nothing, may be more.  Groups capture nothing that counts.

    Raises:
        ValueError: a construct that cannot be translated exactly, with its position.

    >>> from_oniguruma(r"\p{N}{1,3}+|\h+$")
    '(?:\\p{N}{1,3})+|[0-9A-Fa-f]+(?![^\\n])'
    >>> from_oniguruma(r"\s+(?!\S)|\s+")
    '\\s+(?!\\S)|\\s+'
    >>> from_oniguruma(r"(.)\1")
    Traceback (most recent call last):
    ...
    ValueError: the pattern '(.)\\1' of Oniguruma has no exact counterpart in regex: the escape '\\1' at position 3
    """
    return _Translation(pattern, ruby=True).whole()


def to_oniguruma(pattern: str) -> str:
    r"""Return a pattern of Oniguruma with the matches of this one of the `regex` package (its V0).

    Raises:
        ValueError: it does not compile, or has a construct that cannot be translated exactly.

    >>> to_oniguruma(r"\p{N}{1,3}+|\s++$")
    '(?>\\p{N}{1,3})|\\s++\\Z'
    >>> to_oniguruma(r"(?s:.+)")
    '(?m:.+)'
    """
    try:
        regex.compile(pattern)
    except regex.error as error:
        raise ValueError(f"the pattern {pattern!r} does not compile: {error}") from None
    return _Translation(pattern, ruby=False).whole()


_CL100K_LIKE = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"

# Texts with the same words as a pattern that leaves no gaps; each is compared by tests.
_SAME = {
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",  # OpenAI's first
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
    PATTERNS["gpt2"]: "gpt2",  # \s++ leaves no newline before which $ could match
    _CL100K_LIKE + r"|\s+(?!\S)|\s+": "llama3",  # as in minbpe
    PATTERNS["cl100k"].replace("{1,3}+", "{1,3}"): "cl100k",
    PATTERNS["o200k"]: "o200k",
    PATTERNS["llama3"]: "llama3",
    PATTERNS["qwen2"]: "qwen2",
}


def same_pattern(pattern: str) -> str | None:
    r"""Return the name in `PATTERNS` whose words are those of this pattern of Oniguruma, if it is known.

    Only whole texts are known, and only of patterns that leave no gaps: what becomes of the gaps of another is
    told beside it (`behavior`), so that `\S+` has no name here.  The text of cl100k as tiktoken has it is none of
    them: with Oniguruma its `{1,3}+` takes any number of digits.

    >>> same_pattern(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
    'gpt2'
    >>> same_pattern(PATTERNS["cl100k"]) is None
    True
    >>> same_pattern(to_oniguruma(PATTERNS["cl100k"]))
    'cl100k'
    """
    return _SAME.get(pattern) or _written().get(pattern)


@cache
def _written() -> dict[str, str]:
    """Return the texts that we write ourselves."""
    return {to_oniguruma(text): name for name, text in PATTERNS.items() if pre_tokenizer(name).gaps == "none"}
