"""Generate what SentencePiece's trainer knows of Unicode scripts, by asking `sentencepiece` which characters it merges.

Its table is older than those of other packages: a character that it does not know is Common.  The names, and what is
probable, come from the ``regex`` package; that each character goes with the others of its script, and with no others, is
seen in pieces that are learned.  Other versions are refused.  Run it from the root of the project::

    python cython_ext/make_script_table.py

It writes beam_bpe/script_table.py.
"""

from __future__ import annotations

import io
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Iterable, Iterator

import regex
import sentencepiece
from regex import _regex_core  # it has a public way to ask for a script, and none to list them

VERSIONS = {"sentencepiece": "0.2.3", "regex": "2025.9.18"}
#: Characters that the trainer takes for something else, or that do not stand in a line.
APART = {*range(0x21), 0x2581, 0x2585}
EVERY = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000 and code not in APART]
AT_ONCE = 1500  # characters that are asked about in one training
COMMON, INHERITED = "COMMON", "INHERITED"
#: A character of each of the scripts that are asked about first, which every version knows.
KNOWN = {COMMON: "!", "LATIN": "a", "HAN": "\u4e00"}


def probable() -> dict[int, str]:
    """Return the script of each character in a newer version of Unicode."""
    names: dict[int, str] = {}
    for name, i in _regex_core.PROPERTIES["SCRIPT"][1].items():
        names.setdefault(i, name)  # the long one comes first
    every = "".join(map(chr, EVERY))
    found: dict[int, str] = {}
    for name in names.values():
        found |= dict.fromkeys(map(ord, "".join(regex.findall(rf"\p{{Script={name}}}+", every))), name)
    return found


def merged(pairs: Iterable[str]) -> set[str]:
    """Return those of the pairs of characters that become a piece."""
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(pairs), model_writer=writer, vocab_size=10 * AT_ONCE, model_type="bpe",
        character_coverage=1.0, normalization_rule_name="identity", add_dummy_prefix=False, remove_extra_whitespaces=False,
        split_by_unicode_script=True, split_by_number=True, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    model = sentencepiece.SentencePieceProcessor(model_proto=writer.getvalue())
    return {model.id_to_piece(i) for i in range(len(model))}


def ask(codes: list[int], likely: dict[int, str], known: dict[str, str]) -> dict[int, str]:
    """Return the scripts of characters, where they are among the known ones, of each of which a character is given."""
    if len(codes) > AT_ONCE:
        halves = codes[: len(codes) // 2], codes[len(codes) // 2 :]
        return ask(halves[0], likely, known) | ask(halves[1], likely, known)
    if not codes:
        return {}
    pairs = {(code, name): known[name] + chr(code) for code in codes for name in {*KNOWN, likely[code]} if name in known}
    made = merged(pairs.values())
    found: dict[int, str] = {}
    for code in codes:
        with_it = {name for name in {*KNOWN, likely[code]} if pairs.get((code, name)) in made}
        if len(with_it) == 1:
            found[code] = with_it.pop()
        elif with_it >= set(KNOWN):
            found[code] = INHERITED
        elif with_it:
            raise SystemExit(f"U+{code:04X}, which may be {likely[code]}, goes with {sorted(with_it)}")
    return found


def scripts() -> dict[int, str]:
    """Return the scripts of all characters that are not Common."""
    likely = {code: name for code, name in probable().items() if name != "UNKNOWN"}
    likely |= {code: "HAN" for code, name in likely.items() if name in ("HIRAGANA", "KATAKANA")} | {0x30FC: "HAN"}
    rest = [code for code in EVERY if code not in likely]
    likely |= dict.fromkeys(rest, COMMON)
    others = [code for code in EVERY if likely[code] not in {*KNOWN, INHERITED}]
    likely |= ask(others, likely, KNOWN)  # they are older than their characters
    known = KNOWN | {likely[code]: chr(code) for code in reversed(others) if likely[code] not in {*KNOWN, INHERITED}}
    together = merged(a + b for a in known.values() for b in known.values() if a != b)
    if wrong := [one for one in together if len(one) == 2 and one[0] != one[1]]:
        raise SystemExit(f"scripts that are one: {wrong}")
    found = ask(EVERY, likely, known)
    for name in known:  # few have gone from one script to another
        found |= ask([code for code in EVERY if code not in found], dict.fromkeys(EVERY, name), known)
    if missing := [f"U+{code:04X}" for code in EVERY if code not in found]:
        raise SystemExit(f"these go with no script: {missing}")
    return {code: name for code, name in found.items() if name != COMMON}


def ranges(codes: Iterable[int]) -> str:
    """Return characters as ranges of hexadecimal numbers: 0-8 e-1f 7f."""
    runs = [[code for _, code in run] for _, run in groupby(enumerate(sorted(codes)), lambda pair: pair[1] - pair[0])]
    return " ".join(f"{run[0]:x}-{run[-1]:x}" if len(run) > 1 else f"{run[0]:x}" for run in runs)


def lines(text: str, width: int = 108) -> Iterator[str]:
    """Yield a text of words in lines of Python strings that are joined."""
    line = ""
    for word in text.split(" "):
        if len(line) + len(word) >= width:
            yield f'        "{line}"'
            line = ""
        line += word + " "
    yield f'        "{line.rstrip()}"'


def module(table: dict[int, str]) -> str:
    """Return the text of script_table.py."""
    known = f"The Unicode scripts that sentencepiece {VERSIONS['sentencepiece']} knows, where kana are Han."
    out = [
        f'"""{known} Generated by make_script_table.py. Do not edit."""',
        "",
        f'LIBRARY = "sentencepiece {VERSIONS["sentencepiece"]}"',
        "",
        "#: The characters of each script; all others are Common.",
        "SCRIPTS = {",
    ]
    for name in sorted(set(table.values())):
        own = [*lines(ranges(code for code, script in table.items() if script == name))]
        if len(own) == 1:
            out.append(f'    "{name}": {own[0].strip()},')
        else:
            out += [f'    "{name}": (', *own, "    ),"]
    return "\n".join([*out, "}", ""])


def check_versions() -> None:
    """Refuse other versions than those of the table."""
    for package, known in VERSIONS.items():
        if version(package) != known:
            raise SystemExit(f"{package} is {version(package)}; the table needs {package}=={known}")


if __name__ == "__main__":
    check_versions()
    root = Path(__file__).resolve().parent.parent
    (root / "beam_bpe" / "script_table.py").write_text(module(scripts()), encoding="ascii")
