"""Patterns between Oniguruma and the `regex` package: each translation against both engines."""

from __future__ import annotations

import random

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from beam_bpe.formats import oniguruma
from beam_bpe.formats.oniguruma import from_oniguruma, same_pattern, to_oniguruma
from beam_bpe.pretokenize import PATTERNS, PreTokenizer, pre_tokenizer

if regex.match(r"\p{Cn}", "\U0001fac8") is None:
    pytest.skip("this regex follows a later Unicode than the Oniguruma of tokenizers", allow_module_level=True)

CL100K = PATTERNS["cl100k"]
DEEPSEEK_V3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
#: Patterns as tokenizer.json files have them, or as users may write them.
REAL = {
    "gpt2 of old": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "gpt2": PATTERNS["gpt2"],
    "cl100k": CL100K,
    "o200k": PATTERNS["o200k"],
    "llama3": PATTERNS["llama3"],
    "qwen2": PATTERNS["qwen2"],
    "whitespace": PATTERNS["whitespace"],
    "deepseek digits": r"\p{N}{1,3}",
    "deepseek cjk": "[一-龥぀-ゟ゠-ヿ]+",
    "deepseek": DEEPSEEK_V3,
    "nemo": (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "starcoder": r"\p{N}",
    "falcon": "[0-9][0-9][0-9]",
    "digits from the right": r"\p{N}{1,3}(?=(?:\p{N}{3})*\b)",
    "digits from the right, $": r"\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))",
    "digits by empty matches": r"(?=(\d{3})+(?!\d))",
    "words": r"\w+|[^\w\s]+|\s+",
}
#: Other constructs, as Oniguruma reads them and as regex does.
RUBY = [
    r"a{1,2}+", r"a{2}?b", r"a{2}+", r"a{,2}", r"a{1,2}?", "a++a|a?+.", "^a|^|b$", "a$|$", r"\Aa|a\Z|b\z", r".\Z", "(?m:a.)b?",
    r"(?i:'s|'t|'re|k)", "(?i)a|b(?-i:a)", r"\h+|\H", r"[\h_]+", r"\b", r"\B.", r"\b\w+\b|\W", r"[\w]+", r"[^\w]+", r"[\W1]+",
    r"[^\W1]", r"[\W]|.", r"[^\W]", r"[\W^]", r"\R|.", r"\x41|\x{e9}|\u0301|\x{1f600}", r"\e|\v", r"[[:alpha:]]+|[[:digit:]]",
    r"[[:alnum:]\n]+|[[:word:]]+", "[[:upper:]][[:lower:]]*|[[:blank:]]|[[:space:]]+|[[:xdigit:]]|[[:cntrl:]]", r"\p{^L}+|\P{^N}",
    r"(?<=a)b|(?<![\r\s])\n|(?<=a|bb).", "(?<x>a)b", "(?>a|ab)b?", "a]|}", r"[a\]\-|||~~b]+", "[-a]+|[b-]", "[+--a]+", "[^-a]",
    "a|(?=b)|bb", "|a", "a*?", "a*", "(?=a)|aa", "(?:a|)b", "(?i:[st1]+)", r"\-\ \!",
]  # fmt: skip
REGEX = [
    r"a{1,2}+", r"a{2}?b", r"a{1,2}?", r"a{,2}+b", "^a", "(?m)^a|b$", "(?m)^|$", "(?m:$)", "a$|.$", r"a\Z|\Aa", "(?s)a.", "(?s:a.)b?", r"\h+",
    r"[\h_]+", r"\b", r"\B.", r"\b\w+\b|\W", r"[\w]+", r"[^\w]+", r"[\W1]+", r"[^\W\d_]+", r"[\W^]", r"\R|.", r"\xe9|\u0301|\U0001f600",
    r"\pL+|\PN", r"\p{^L}", "(?P<x>a)b|(?<y>b)", "(?i:[st1]+|k)", "(?i)a|b(?-i:a)", r"[[:alpha:]]+|[[:digit:]]", r"[[:alnum:]\n]+",
    "[[a]+", "[a&&b]+", r"[a||b~~]+", "(?>a|(?=b)|bb)", "(?>a*)", "(?>(?=a)|aa)", r"(?<=a)b|(?<!\s).", r"(?im)^a|b$",
]  # fmt: skip

FRAGMENTS = [
    "'s", "'LL", "'ſ", "'Re", "'", "’", "a", "aa", "b", "bb", "ab", "A", "B", "k", "\u212a", "ß", "ﬆ", "st", "İ", "ı", "i", "I", "ǅ",
    "ʰ", "日本", "かな", "ー", "\u0301", "\u0345", "ⓐ", "1", "12", "123", "1234567", "½", "²", "٣", "Ⅷ", "_", " ", "  ", "\t", "\r",
    "\n", "\r\n", "\n\n", "\x85", "\xa0", "\u2028", "\u3000", "\u200b", "\u200c", "\u200d", "/", "!?", "$+<", "[]", "{}", "-", "~&|",
    "\0", "\x1b", "\x0b", "é", "😀", "👨\u200d👩", "\ufeff", "\u0378", "\ue000",
]  # fmt: skip


def onig_words(pattern: str, text: str) -> list[str]:
    return [word for word, _ in Split(Regex(pattern), behavior="isolated").pre_tokenize_str(text)]


def slow(pattern: str) -> PreTokenizer:
    """Return the slow path of a pattern; one of word characters alone would be looked up as a name."""
    return pre_tokenizer(pattern if regex.search(r"[^\w.-]", pattern) else "(?:" + pattern + ")")


def random_texts(count: int, seed: int, most: int = 8) -> list[str]:
    chosen = random.Random(seed)
    return ["".join(chosen.choices(FRAGMENTS, k=chosen.randint(0, most))) for _ in range(count)]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return random_texts(20_000, 1)


# Where each code point is like its neighbours: ideographs, Hangul, Tangut, private use, planes with nothing.
UNIFORM = [
    (0x3410, 0x4DB0), (0x4E10, 0x9FF0), (0xAC10, 0xD7A0), (0xE010, 0xF8F0), (0x13010, 0x143F0), (0x14410, 0x14640),
    (0x17010, 0x187F0), (0x20010, 0x2A6D0), (0x2A710, 0x2FA00), (0x2FA30, 0x31340), (0x31360, 0x323A0), (0x323C0, 0xE0000),
    (0xE0200, 0xFFFF0), (0x100010, 0x10FFF0),
]  # fmt: skip


@pytest.fixture(scope="module", params=["without uniform blocks", pytest.param("all", marks=pytest.mark.slow)])
def code_points(request) -> str:
    """Every code point; without --slow, only the ends of the blocks in which all are alike."""
    left_out = set() if request.param == "all" else {c for low, high in UNIFORM for c in range(low, high)}
    return "".join(chr(c) for c in range(0x110000) if not (0xD800 <= c < 0xE000 or c in left_out))


def ways(pattern: str) -> list[tuple[str, str]]:
    """The pattern read either way, as (Oniguruma, regex)."""
    return list({(pattern, from_oniguruma(pattern)), (to_oniguruma(pattern), pattern)})


def first_difference(onig: str, other: str, texts: list[str]) -> str | None:
    split, words = Split(Regex(onig), behavior="isolated").pre_tokenize_str, slow(other).split
    for text in texts:
        if [word for word, _ in split(text)] != words(text):
            return text
    return None


# ---- patterns in use ----


@pytest.mark.parametrize("name", REAL)
def test_real_patterns_on_random_texts(name, texts):
    for onig, other in ways(REAL[name]):
        assert first_difference(onig, other, texts) is None


@pytest.mark.parametrize("name", REAL)
def test_real_patterns_on_every_code_point(name, code_points):
    text = code_points + "".join(f"a{c}1 {c}\n" for c in code_points)
    for onig, other in ways(REAL[name]):
        assert onig_words(onig, text) == slow(other).split(text)


# ---- constructs ----


@pytest.mark.parametrize("pattern", RUBY)
def test_constructs_of_oniguruma(pattern):
    assert first_difference(pattern, from_oniguruma(pattern), random_texts(1_000, 2)) is None


@pytest.mark.parametrize("pattern", REGEX)
def test_constructs_of_regex(pattern):
    assert first_difference(to_oniguruma(pattern), pattern, random_texts(1_000, 3)) is None


@pytest.mark.parametrize("pattern", ["(?>[ab]*)", PATTERNS["llama3"], PATTERNS["o200k"], DEEPSEEK_V3, r"(?:\p{N}{1,3})+"])
def test_what_is_the_same_in_both_stays_as_it_is(pattern):
    assert to_oniguruma(pattern) == pattern == from_oniguruma(pattern)


def test_translations():
    assert from_oniguruma(r"\p{N}{1,3}+") == r"(?:\p{N}{1,3})+"
    assert to_oniguruma(r"\p{N}{1,3}+") == r"(?>\p{N}{1,3})"
    assert from_oniguruma("a{2}?b") == "(?:a{2})?b"
    assert to_oniguruma("a{2}?b") == "a{2}b"
    assert from_oniguruma(r"\h|^a$") == r"[0-9A-Fa-f]|(?:\A|(?<=\n)(?!\Z))a(?![^\n])"
    assert to_oniguruma(r"\h|^a$") == r"[\t\p{Zs}]|\Aa\Z"
    assert from_oniguruma("(?mi)a.") == "(?si:a.)" and to_oniguruma("(?si)a.") == "(?mi:a.)"
    assert to_oniguruma(r"[^\W_]") == r"[^[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d]_]"
    assert from_oniguruma("a|(?=b)|bb") == "(?>a|(?=b)|bb)"
    assert from_oniguruma("(?<word>a)") == "(?:a)"


CLASSES = [
    r"\s", r"\S", r"\d", r"\D", r"\w", r"\W", r"[\w#]", r"[\W#]", r"[^\W]", r"\h", r"[\h]", ".", "(?i:[^s])", "(?i:[sdkt])",
    *(f"[[:{name}:]]" for name in oniguruma._POSIX), *(f"(?i:\\p{{{name}}})" for name in "CLMNPSZ"),
]  # fmt: skip


@pytest.mark.parametrize("pattern", CLASSES)
def test_classes_are_the_same_sets(pattern, code_points):
    for onig, other in ways(pattern):
        assert onig_words(f"(?:{onig})+", code_points) == slow(f"(?:{other})+").split(code_points)


def test_properties_are_the_same_sets(code_points):
    for name in sorted(oniguruma.PROPERTIES):
        pattern = rf"\p{{{name}}}+"
        assert onig_words(pattern, code_points) == slow(pattern).split(code_points), name


def test_every_case_folding_is_the_same_or_refused():
    every = [chr(c) for c in range(0x20000) if not 0xD800 <= c < 0xE000]
    cased = {x for c in every for x in (c, *c.lower(), *c.upper(), *c.casefold()) if c != c.lower() or c != c.upper()}
    text, refused = "\0".join(sorted(cased)), set()
    for letter in sorted(cased):
        try:
            pattern = from_oniguruma(f"(?i:{letter})")
        except ValueError:
            refused.add(letter)
            continue
        assert pattern == to_oniguruma(pattern) == f"(?i:{letter})"
        if letter < "\u0530" or letter.casefold() != letter:  # the others are found with their capitals
            left = "".join(word for word, _ in Split(Regex(pattern), behavior="removed").pre_tokenize_str(text))
            assert left == regex.sub(pattern, "", text), letter
    expanding = [chr(c) for c in range(0x110000) if len(chr(c).casefold()) > 1]
    assert refused == {*"IiİıI"} | {c for c in expanding if c in cased}
    assert oniguruma._expanding_pairs() == {c.casefold()[:2] for c in expanding}


# ---- random patterns ----

ATOMS = st.sampled_from(
    [
        "a", "b", "s", "1", " ", ".", r"\s", r"\S", r"\d", r"\w", r"\W", r"\h", r"\n", r"\p{L}", r"\P{N}", r"\p{Lu}", "[ab]", "[^a]",
        r"[^\s\p{L}]", r"[a-s\-]", r"[\w ]", r"[^\W_]", r"[\W1]", "[[:alpha:]]", "[st&~]", r"\R", "\u0301", r"\u200d",
        "(?i:ab)", "(?i:k|[st])", "'",
    ]
)  # fmt: skip
ANCHORS = st.sampled_from([r"\b", r"\B", "^", "$", r"\A", r"\Z", r"(?<=a)", r"(?<!\s)", "(?<=b|1s)", "(?!a)", r"(?=\s|b)"])
SUFFIXES = st.sampled_from(["", "", "", "*", "+", "?", "*?", "+?", "??", "*+", "++", "?+", "{2}", "{1,2}", "{1,}?", "{,2}", "{2}?", "{1,2}+"])


def joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    sequence = st.lists(st.one_of(inner, inner, ANCHORS), min_size=1, max_size=4).map("".join)
    body = st.lists(sequence, min_size=1, max_size=3).map("|".join)
    return st.builds("{}{}){}".format, st.sampled_from(["(?:", "(", "(?>", "(?<x>"]), body, SUFFIXES)


PIECES = st.recursive(st.builds("{}{}".format, ATOMS, SUFFIXES), joined, max_leaves=8)
RANDOM_PATTERNS = st.lists(st.lists(st.one_of(PIECES, PIECES, ANCHORS), max_size=4).map("".join), min_size=1, max_size=3).map("|".join)
RANDOM_TEXTS = st.lists(st.text("aabbss1 \n\rA²\u0301\u200dK_'-ß", max_size=10), min_size=4, max_size=8)


def compiles(pattern: str) -> bool:
    try:
        Regex(pattern)
    except Exception:  # tokenizers raises nothing narrower
        return False
    return True


@settings(max_examples=250, deadline=None)
@given(RANDOM_PATTERNS, RANDOM_TEXTS)
def test_random_patterns(pattern, texts):
    for translate in (from_oniguruma, to_oniguruma):
        try:
            translated = translate(pattern)
        except ValueError:
            continue
        onig, other = (pattern, translated) if translate is from_oniguruma else (translated, pattern)
        if onig == pattern and not compiles(onig):
            continue
        assert first_difference(onig, other, texts) is None, (onig, other)


# ---- what is refused ----

REFUSED_OF_ONIGURUMA = {
    r"(a)\1": r"the escape '\\1' at position 3",
    r"(?<x>a)\k<x>": r"the escape '\\k' at position 7",
    r"a\g<0>": r"the escape '\\g' at position 1",
    r"a\Kb": r"the escape '\\K' at position 1",
    r"\Ga": r"the escape '\\G' at position 0",
    r"\X": r"the escape '\\X' at position 0",
    r"\0": r"the escape '\\0' at position 0",
    r"\xe9": r"the byte '\\xe9' at position 0",
    r"\U0001f600": r"the escape '\\U0001f600' at position 0",
    r"\N|\O": r"the escape '\\N' at position 0",
    "a\\": r"the escape '\\' at position 1",
    "(?~ab)": "the group '(?~' at position 0",
    "(a)?(?(1)b)": "the group '(?(' at position 4",
    "(?#x)a": "the group '(?#' at position 0",
    "(?|a)": "the group '(?|' at position 0",
    "(*FAIL)": "the group '(*F' at position 0",
    "(?P<x>a)": "the group '(?P<x>' at position 0",
    "(?x) a": "the flag 'x' in '(?x)' at position 0",
    "(?s:.)": "the flag 's' in '(?s:' at position 0",
    "a(?i)b|c": "'(?i)' (flags for a part are written '(?i:...)') at position 1",
    "a**": "a quantifier behind a quantifier at position 2",
    "a{1,2}++": "a quantifier behind a quantifier at position 7",
    r"(?:\b|a)?": "'?' behind what may match nothing at position 8",
    "(?:a?)*": "'*' behind what may match nothing at position 6",
    "a{,2}+": "'{,2}+', the repeat of a repeat that may match nothing, at position 1",
    "a{3,1}": "the quantifier '{3,1}' at position 1",
    "a{200000}": "the quantifier '{200000}' at position 1",
    "(?=a)*": "'*' behind an anchor or a lookaround at position 5",
    "*a": "'*' with nothing to repeat at position 0",
    "a{x}": "'{' that starts no quantifier (write \\{) at position 1",
    "(?<=a+)b": "a lookbehind of other than characters one by one at position 4",
    "(?<=)b": "a lookbehind of nothing at position 4",
    "(?i)(?<=a)b": "a lookbehind without regard to case at position 8",
    "(?i:xs[s])": "'ss' without regard to case, which is one character in another spelling, at position 6",
    "(?i:s{2})": "'ss' without regard to case, which is one character in another spelling, at position 4",
    "(?i:(?:s)t)": "'st' without regard to case, which is one character in another spelling, at position 9",
    "(?i:i)": "'i' without regard to case at position 4",
    "(?i:[a-z])": "'i' without regard to case at position 4",
    "(?i:ß)": "'ß' without regard to case at position 4",
    r"(?i)\w": r"'\\w' without regard to case at position 4",
    r"(?i)[\p{L}]": r"'\\p{L}' without regard to case at position 5",
    r"(?i)\p{Lu}": r"'\\p{Lu}' without regard to case at position 4",
    "[a[b]]": "a class within a class at position 2",
    "[a&&b]": "'&&' in a class at position 2",
    "[]a]": "']' as the first of a class (write \\]) at position 1",
    r"[\w-a]": "'-' behind a class or a property (write \\-) at position 3",
    "[a-c-e]": "'-' in the midst of a class (write \\-) at position 4",
    "[z-a]": "the range from 'z' to 'a' at position 0",
    r"[\b]": r"the escape '\\b' in a class at position 1",
    "[[:punct:]]": "the class '[:punct:]' at position 1",
    "[[:^alpha:]]": "the class '[:^alpha:]' at position 1",
    "[a": "a class that is not closed at position 0",
    r"\pL": r"the property '\\pL' at position 0",
    r"\p{Script=Han}": r"the property '\\p{Script=Ha' at position 0",
    r"\p{Punct}": r"the property '\\p{Punct}', which is not known to be the same in both, at position 0",
    "(a": "a group that is not closed at position 0",
    "a)": "')' that closes nothing at position 1",
    "(" * 200 + "a" + ")" * 200: "more than 100 groups within each other at position 100",
}
REFUSED_OF_REGEX = {
    r"(a)\1": r"the escape '\\1' at position 3",
    "(?P<x>a)(?P=x)": "the group '(?P' at position 8",
    "a(?R)?": "the group '(?R' at position 1",
    r"a\Kb": r"the escape '\\K' at position 1",
    r"\m\w+": r"the escape '\\m' at position 0",
    r"\N{DIGIT ONE}": r"the escape '\\N' at position 0",
    "(?V1)a": "the group '(?V' at position 0",
    "(?x) a": "the flag 'x' in '(?x)' at position 0",
    "(?r)a": "the flag 'r' in '(?r)' at position 0",
    "(?e)a": "the flag 'e' in '(?e)' at position 0",
    "(?:a){e<=1}": "'{' that starts no quantifier (write \\{) at position 5",
    "a(?i)b": "'(?i)' (flags for a part are written '(?i:...)') at position 1",
    "(?>a|)b|a*": "a pattern that may match nothing or more (put it into an atomic group (?>...)) at position 0",
    r"\p{Age=6.0}": None,
    r"\p{Script=Han}": r"the property '\\p{Script=Ha' at position 0",
    "(a": None,
}


@pytest.mark.parametrize("pattern", REFUSED_OF_ONIGURUMA)
def test_refused_of_oniguruma(pattern):
    with pytest.raises(ValueError) as caught:
        from_oniguruma(pattern)
    assert str(caught.value) == (
        f"the pattern {pattern!r} of Oniguruma has no exact counterpart in regex: {REFUSED_OF_ONIGURUMA[pattern]}"
    )


@pytest.mark.parametrize("pattern", REFUSED_OF_REGEX)
def test_refused_of_regex(pattern):
    with pytest.raises(ValueError) as caught:
        to_oniguruma(pattern)
    if REFUSED_OF_REGEX[pattern] is None:
        assert str(caught.value).startswith(f"the pattern {pattern!r} does not compile: ")
    else:
        assert str(caught.value) == (
            f"the pattern {pattern!r} of regex has no exact counterpart in Oniguruma: {REFUSED_OF_REGEX[pattern]}"
        )


# ---- the names of known texts ----


def test_known_texts_have_the_words_of_their_patterns(texts):
    known = {**oniguruma._SAME, **oniguruma._written()}
    assert set(known.values()) == set(PATTERNS) - {"whitespace", "bert"}
    for text, name in known.items():
        assert same_pattern(text) == name
        split = Split(Regex(text), behavior="isolated").pre_tokenize_str
        words = pre_tokenizer(name).split
        for document in texts:
            assert [word for word, _ in split(document)] == words(document), (text, document)


def test_texts_that_look_alike_have_no_name():
    assert same_pattern(CL100K) is None and onig_words(CL100K, "1234") == ["1234"]
    assert onig_words(PATTERNS["llama3"], "a\n ") != pre_tokenizer("cl100k").split("a\n ")
    for text in [r"\S+", PATTERNS["o200k"] + "|x", PATTERNS["llama3"].replace("{1,3}", "{1,2}"), "", "gpt2"]:
        assert same_pattern(text) is None
