"""How a report writes numbers, shares, names and tokens."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, Iterable, Mapping, Sequence

from beam_bpe.report.blocks import Code, Table
from beam_bpe.texts import readable, shortened

NOT_KNOWN = "–"
WHOLE = 200  # characters of a name that are told where there is room
#: What the knee of a curve of sizes is (`curve.knee`).
KNEE = (
    "where the tokens lie farthest below the straight line from the first size to the last, on linear axes; it moves with "
    "the last"
)

#: Why learning ended, by `Vocabulary.stop_reason`.
STOPPED = {
    "vocab_size": "the vocabulary is full",
    "num_merges": "all that were wanted",
    "no_words": "every word has its token",
    "min_count": "every word that is frequent enough has its token",
    "min_pair_count": "no pair left is frequent enough",
    "no_pairs": "no pair is left",
    "no_pieces": "fewer pieces are of use",
    "imported": "made elsewhere",
}


def number(value: int | float | None, digits: int = 2) -> str:
    """Return a number for people: whole ones with commas, others with digits behind the point; – if it is not known.

    >>> number(1234567), number(0.5), number(None), number(0)
    ('1,234,567', '0.50', '–', '0')
    """
    if value is None:
        return NOT_KNOWN
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def percent(share: float | None) -> str:
    """Return a share in per cent, small ones with more digits.

    >>> percent(0.1234), percent(1.0), percent(0.00012), percent(0.0), percent(None)
    ('12.3 %', '100.0 %', '0.012 %', '0 %', '–')
    """
    if share is None:
        return NOT_KNOWN
    return "0 %" if not share else f"{100 * share:.1f} %" if share >= 0.001 else f"{100 * share:.2g} %"


def change(share: float | None) -> str:
    """Return a share that is more or less, in per cent with its sign.

    >>> change(0.1234), change(-0.00012), change(0.0), change(None)
    ('+12.3 %', '-0.012 %', '0 %', '–')
    """
    if not share:
        return percent(share)
    return f"{'-' if share < 0 else '+'}{percent(abs(share))}"


def money(value: float | None, signed: bool = False) -> str:
    """Return a price with four digits at least that tell something.

    >>> money(0.00012345), money(1234.5), money(-0.5, True), money(0.0), money(None)
    ('0.0001234', '1,234', '-0.5', '0', '–')
    """
    return NOT_KNOWN if value is None else f"{value:{'+' if signed else ''},.4g}"


def amount(value: float | None) -> str:
    """Return a number with a prefix of a thousand each.

    >>> amount(262_144_000), amount(13.1e9), amount(999.4), amount(None), amount(2.5e20)
    ('262 M', '13.1 G', '999', '–', '2.5e+20')
    """
    if value is None:
        return NOT_KNOWN
    for factor, prefix in ((1e18, ""), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g} {prefix}" if prefix and value / factor < 999.5 else f"{value:.3g}"
    return f"{value:.3g}"


def label(name: str, width: int = WHOLE) -> str:
    """Return a name as it can be shown: what is not printable as escapes, long ones cut in the middle, and "(none)" for no name.

    >>> label("en"), label(""), label("a\\x00b"), label("docs/en-us/a", 6)
    ('en', '(none)', 'a\\\\x00b', 'doc…/a')
    """
    shown = readable(name.encode("utf-8", "surrogatepass"))[1:-1] or "(none)"
    behind = (width - 1) // 2
    return shown if len(shown) <= width else f"{shown[: width - 1 - behind]}…{shown[len(shown) - behind :]}"


def labels(names: Iterable[str], width: int = WHOLE) -> dict[str, str]:
    """Return the labels of different names, all of them different: where the middle is what differs, the end or a number tells.

    >>> list(labels(["docs/en/a.md", "docs/de/a.md", "docs/fr/de/a.md", "docs"], 8).values())
    ['docs….md', '…de/a.md', 'do…d (2)', 'docs']
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(names):
        whole, number = label(name, sys.maxsize), 1
        shown = label(name, width)
        if shown in taken and shown != whole:
            shown = "…" + whole[len(whole) - width + 1 :]
        while shown in taken:
            number += 1
            suffix = f" ({number})"
            shown = label(name, max(2, width - len(suffix))) + suffix
        taken.add(shown)
        found[name] = shown
    return found


def gini(unit: str, value: float) -> str:
    """Return a Gini coefficient over groups, with the cost that it is of, as `measure` tells it.

    >>> gini("character", 0.12345)
    'Gini coefficient of tokens per character: 0.1235'
    """
    return f"Gini coefficient of tokens per {unit}: {value:.4f}"


def token(record: Mapping[str, Any], width: int = 40) -> Code:
    """Return a token that `record.token_record` told, in quotes, cut to a width; how long it is stands behind it.

    >>> token({"token": "'lower'", "characters": 5}), token({"token": "'lower'", "characters": 5}, 3)
    ("'lower'", "'low… (5 characters)'")
    """
    return Code(f"'{shortened(record['token'][1:-1], width, record['characters'])}'")


def known(table: Table) -> Table:
    """Return a table without the columns in which nothing is known.

    >>> known(Table("", ["Group", "Bytes"], [["en", "–"], ["de", "–"]], [False, True])).columns
    ['Group']
    """
    kept = [i for i in range(len(table.columns)) if not table.rows or any(row[i] != NOT_KNOWN for row in table.rows)]

    def chosen(cells: Sequence[Any]) -> list[Any]:
        return [cells[i] for i in kept]

    return replace(table, columns=chosen(table.columns), rows=list(map(chosen, table.rows)), numeric=chosen(table.numeric))


def sentence(text: str) -> str:
    """Return a text with a great letter at its beginning and a full stop at its end."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
