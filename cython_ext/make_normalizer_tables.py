"""Generate what the normalizers and BERT's pre-tokenizer know of characters, by asking `tokenizers` about each one.

Its tables follow several versions of Unicode (the normal forms and categories older ones than lowercase and
whitespace), and Python's follow others, which change with its own version: so nothing here comes from Python.
Another version of `tokenizers` is refused.  Run it from the root of the project::

    python cython_ext/make_normalizer_tables.py

It writes beam_bpe/normalizer_tables.py and cython_ext/bert_classes.h.
"""

from __future__ import annotations

from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Callable, Iterable, Iterator

from tokenizers import normalizers, pre_tokenizers

TOKENIZERS_VERSION = "0.23.3"
EVERY = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
HANGUL = range(0xAC00, 0xAC00 + 11172)  # syllables, which are decomposed by arithmetic
BLOCK = 256  # characters in a block of the second level

#: A mark of each combining class (of Unicode 3.2, so that every later version knows it).
MARKS = {
    1: 0x334, 7: 0x93C, 8: 0x3099, 9: 0x94D, 10: 0x5B0, 11: 0x5B1, 12: 0x5B2, 13: 0x5B3, 14: 0x5B4, 15: 0x5B5, 16: 0x5B6,
    17: 0x5B7, 18: 0x5B8, 19: 0x5B9, 20: 0x5BB, 21: 0x5BC, 22: 0x5BD, 23: 0x5BF, 24: 0x5C1, 25: 0x5C2, 26: 0xFB1E,
    27: 0x64B, 28: 0x64C, 29: 0x64D, 30: 0x64E, 31: 0x64F, 32: 0x650, 33: 0x651, 34: 0x652, 35: 0x670, 36: 0x711,
    84: 0xC55, 91: 0xC56, 103: 0xE38, 107: 0xE48, 118: 0xEB8, 122: 0xEC8, 129: 0xF71, 130: 0xF72, 132: 0xF74,
    202: 0x321, 214: 0x1DCE, 216: 0x31B, 218: 0x302A, 220: 0x316, 222: 0x59A, 224: 0x302E, 226: 0x1D16D, 228: 0x5AE,
    230: 0x301, 232: 0x302C, 233: 0x35C, 234: 0x360, 240: 0x345,
}  # fmt: skip


def bert(**options: bool) -> Callable[[str], str]:
    """Return BertNormalizer with nothing but the options that are given."""
    none = dict.fromkeys(("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"), False)
    return normalizers.BertNormalizer(**{**none, **options}).normalize_str


def changed(normalize: Callable[[str], str]) -> dict[int, str]:
    """Return what each character becomes that does not stay as it is."""
    return {code: made for code in EVERY if (made := normalize(chr(code))) != chr(code)}


def dropped(mapping: dict[int, str]) -> set[int]:
    """Return the characters that become nothing."""
    return {code for code, made in mapping.items() if not made}


def combining_classes(decompose: Callable[[str], str]) -> dict[int, int]:
    """Return the combining classes that are not 0, from how marks are reordered."""
    lowest, highest = chr(MARKS[1]), chr(MARKS[240])
    found = {}
    for code in EVERY:
        char = chr(code)
        if decompose(char) != char:
            continue
        before, after = highest + char, char + lowest
        if decompose(before) == before and decompose(after) == after:
            continue
        for number, mark in MARKS.items():
            ordered = [char + chr(mark), chr(mark) + char]
            if char == chr(mark) or [*map(decompose, ordered)] == ordered:
                found[code] = number  # equal classes are never exchanged
                break
        else:
            raise SystemExit(f"the combining class of U+{code:04X} is none that is known")
    return found


def tables() -> dict[str, object]:
    """Return the tables of the normalizers by name."""
    forms = {form: getattr(normalizers, form)().normalize_str for form in ("NFC", "NFD", "NFKC", "NFKD")}
    decomposed = {form: changed(forms[form]) for form in ("NFD", "NFKD")}
    for code in HANGUL:
        leading, vowel, trailing = (code - 0xAC00) // 588, (code - 0xAC00) // 28 % 21, (code - 0xAC00) % 28
        jamo = chr(0x1100 + leading) + chr(0x1161 + vowel) + (chr(0x11A7 + trailing) if trailing else "")
        for form, mapping in decomposed.items():
            if mapping.pop(code, None) != jamo or forms[form.replace("D", "C")](jamo) != chr(code):
                raise SystemExit(f"U+{code:04X} is not composed by arithmetic")
    cleaned = changed(bert(clean_text=True))
    if set(cleaned.values()) - {"", " "}:
        raise SystemExit("clean_text makes other characters than spaces")
    chinese = changed(bert(handle_chinese_chars=True))
    if any(made != f" {chr(code)} " for code, made in chinese.items()):
        raise SystemExit("handle_chinese_chars does more than to put spaces around a character")
    stripped = changed(normalizers.StripAccents().normalize_str)
    if any(stripped.values()) or changed(bert(lowercase=True)) != changed(normalizers.Lowercase().normalize_str):
        raise SystemExit("strip_accents makes characters, or there are two ways to lowercase")
    unaccented = changed(bert(strip_accents=True))
    accents = {code for code in dropped(unaccented) if code not in decomposed["NFD"]}
    for code, made in unaccented.items():
        whole = decomposed["NFD"].get(code, chr(code)) if code not in HANGUL else made
        if made != "".join(char for char in whole if ord(char) not in accents):
            raise SystemExit(f"the accents of U+{code:04X} are not stripped from its decomposition")
    compatible = {code: made for code, made in decomposed["NFKD"].items() if decomposed["NFD"].get(code) != made}
    if decomposed["NFD"].keys() - decomposed["NFKD"].keys():
        raise SystemExit("a character is decomposed under NFD and not under NFKD")
    classes = combining_classes(forms["NFD"])
    if classes != combining_classes(forms["NFKD"]):
        raise SystemExit("NFD and NFKD have different combining classes")
    return {
        "LOWERCASE": changed(normalizers.Lowercase().normalize_str),
        "CANONICAL": decomposed["NFD"],
        "COMPATIBLE": compatible,
        "COMPOSED": {code for code in decomposed["NFD"] if forms["NFC"](chr(code)) == chr(code)},
        "MARKS": {number: {code for code in classes if classes[code] == number} for number in sorted(set(classes.values()))},
        "ACCENTS": dropped(stripped),
        "BERT_ACCENTS": accents,
        "CLEANED_AWAY": dropped(cleaned),
        "CLEANED_TO_SPACE": cleaned.keys() - dropped(cleaned),
        "CHINESE": set(chinese),
    }


def bert_classes() -> bytes:
    """Return 1 for each character that BertPreTokenizer drops, 2 for each that it makes a word of its own, else 0."""
    pre_tokenize = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    table = bytearray(0x110000)
    for code in EVERY:
        table[code] = {1: 0, 2: 1, 3: 2}[len(pre_tokenize(f"a{chr(code)}a"))]
        if table[code] == 1 and any(chr(code) in word for word, _ in pre_tokenize(f"a{chr(code)}a")):
            raise SystemExit(f"U+{code:04X} ends a word and is kept in it")
    return bytes(table)


# ---- how they are written ----


def ranges(codes: Iterable[int]) -> str:
    """Return characters as ranges of hexadecimal numbers: 0-8 e-1f 7f."""
    found: list[list[int]] = []
    for code in sorted(codes):
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return " ".join(f"{first:x}-{last:x}" if last > first else f"{first:x}" for first, last in found)


def mapping_text(mapping: dict[int, str]) -> str:
    """Return a mapping as hexadecimal numbers: c0=41+300 c1=41+301."""
    return " ".join(f"{code:x}={'+'.join(f'{ord(char):x}' for char in made)}" for code, made in sorted(mapping.items()))


def lines(text: str, width: int = 112) -> Iterator[str]:
    """Yield a text of words in lines of Python strings that are joined."""
    line = ""
    for word in text.split(" "):
        if len(line) + len(word) >= width:
            yield f'    "{line}"'
            line = ""
        line += word + " "
    yield f'    "{line.rstrip()}"'


def module() -> str:
    """Return the text of normalizer_tables.py."""
    check_version()
    out = [
        f'"""What tokenizers {TOKENIZERS_VERSION} knows of characters. Generated by make_normalizer_tables.py. Do not edit."""',
        "",
        f'LIBRARY = "tokenizers {TOKENIZERS_VERSION}"',
    ]
    for name, table in tables().items():
        if name == "MARKS":
            assert isinstance(table, dict)
            out += ["", f"{name} = {{"]
            for number, codes in table.items():
                own = [*lines(ranges(codes), 100)]
                if len(own) == 1:
                    out.append(f"    {number}: {own[0].strip()},")
                else:
                    out += [f"    {number}: (", *("    " + line for line in own), "    ),"]
            out.append("}")
            continue
        text = mapping_text(table) if isinstance(table, dict) else ranges(table)  # type: ignore[arg-type]
        out += ["", f"{name} = (", *lines(text), ")"]
    return "\n".join([*out, ""])


def header() -> str:
    """Return the text of bert_classes.h."""
    check_version()
    table = bert_classes()
    blocks: dict[bytes, int] = {}
    first_level = [blocks.setdefault(table[start : start + BLOCK], len(blocks)) for start in range(0, len(table), BLOCK)]
    out = [
        f"/* Generated by make_normalizer_tables.py with tokenizers {TOKENIZERS_VERSION}. Do not edit. */",
        "#ifndef BEAM_BPE_BERT_CLASSES_H",
        "#define BEAM_BPE_BERT_CLASSES_H",
        "enum { BERT_WORD = 0, BERT_SPACE = 1, BERT_PUNCTUATION = 2 };",
        f"static const unsigned char BERT_BLOCK[{len(first_level)}] = {{",
        *rows(first_level),
        "};",
        f"static const unsigned char BERT_CLASS_OF[{len(blocks)}][{BLOCK}] = {{",
    ]
    for block in blocks:
        out += ["{", *rows(block), "},"] if any(block) else ["{0},"]
    return "\n".join([*out, "};", "#endif", ""])


def rows(numbers: Iterable[int], width: int = 64) -> Iterator[str]:
    """Yield the numbers as lines of C initializers."""
    for _, group in groupby(enumerate(numbers), lambda pair: pair[0] // width):
        yield ",".join(str(number) for _, number in group) + ","


def check_version() -> None:
    """Refuse another version of tokenizers than that of the tables."""
    if version("tokenizers") != TOKENIZERS_VERSION:
        raise SystemExit(f"tokenizers is {version('tokenizers')}; the tables need tokenizers=={TOKENIZERS_VERSION}")


if __name__ == "__main__":
    root = Path(__file__).resolve().parent.parent
    (root / "beam_bpe" / "normalizer_tables.py").write_text(module(), encoding="ascii")
    (root / "cython_ext" / "bert_classes.h").write_text(header(), encoding="ascii")
