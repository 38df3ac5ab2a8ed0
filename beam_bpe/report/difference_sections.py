"""A report on two vocabularies as a page: what stands in which section, in words, tables and plots."""

from __future__ import annotations

import math
from typing import Any, Sequence

from beam_bpe.report.blocks import Block, Cell, Code, Facts, Page, Plot, Section, Series, Table, Text
from beam_bpe.report.difference import PIECES
from beam_bpe.report.wording import NOT_KNOWN, change, label, labels, money, number, percent, sentence, token
from beam_bpe.statistics import ratio

ROWS = 500  # groups of a table
BARS = 30  # groups of a plot
_ALL = "all text"


def difference_page(report: dict[str, Any]) -> Page:
    """Return the page of what `difference.difference_report` told."""
    names = labels((report[side]["name"] for side in "ab"), 80)
    subject = "; ".join(f"{side.upper()}: {names[report[side]['name']]}" for side in "ab")
    made = [_overview(report), _text(report), _changes(report), _tokens(report), _ranks(report), _making(report)]
    text = "" if report["total"] is None else ", and what each makes of the same text"
    summary = f"Tokens that both have, or one alone{text}"
    return Page("Two vocabularies compared", Code(subject), summary, [section for section in made if section is not None])


def _overview(report: dict[str, Any]) -> Section:
    total, shifts = report["total"], report["shifts"]
    figures: list[tuple[str, Cell, str]] = []
    if total is not None:
        meaning = f"{number(total['tokens_b'])} instead of {number(total['tokens_a'])}: less is shorter"
        figures.append(("Tokens of B", change(total["share"]), meaning))
        if total["price_a"] is not None:
            meaning = f"{money(total['price_b'])} instead of {money(total['price_a'])}"
            figures.append(("Price of B", change(total["price_share"]), meaning))
    figures.append(("Shared tokens", number(report["shared"]), "of the same bytes"))
    for side in "ab":
        share = report[side]["alone_share"]
        meaning = "" if share is None else f"{percent(share)} of its tokens in the text"
        figures.append((f"Only in {side.upper()}", number(report[side]["alone"]), meaning))
    moved = f"{number(shifts['moved'])} of {number(shifts['ranked'])} shared tokens"
    figures.append(("Ranks that moved", percent(ratio(shifts["moved"], shifts["ranked"])), moved))
    blocks: list[Block] = []
    if total is None:
        blocks.append(Text("No text was given: only the tokens themselves are compared (diff A B --words TABLE, or a corpus).", True))
    blocks += [Facts(figures, large=True), *(Text(sentence(note), True) for note in report["notes"])]
    return Section("overview", "At a glance", blocks)


# ---- the same text -------------------------------------------------------------------------------


def _text(report: dict[str, Any]) -> Section | None:
    total, groups = report["total"], report["groups"]
    if total is None:
        return None
    priced = total["price_a"] is not None
    ordered = sorted(groups, key=lambda one: (-one["tokens_a"], one["name"]))
    names = _names(ordered[:ROWS])
    columns = ["Group", "Tokens of A", "Tokens of B", "Difference", "In per cent"]
    columns += ["Price of A", "Price of B", "Difference of price"] if priced else []
    rows: list[list[Cell]] = []
    for one in [total, *ordered[:ROWS]]:
        cells: list[Cell] = [_ALL if one["name"] is None else Code(names[one["name"]])]
        cells += [number(one["tokens_a"]), number(one["tokens_b"]), f"{one['difference']:+,}", change(one["share"])]
        cells += [money(one["price_a"]), money(one["price_b"]), money(one["price_difference"], True)] if priced else []
        rows.append(cells)
    left = len(groups) - ROWS
    note = f"{number(left)} groups of less text are left out here; the JSON has them." if left > 0 else ""
    table = Table("Tokens of the same text", columns, rows, [False] + [True] * (len(columns) - 1), note)
    blocks: list[Block] = [table]
    if groups:
        shown = [total, *ordered[:BARS]]
        few = f", the {BARS} groups of most text" if len(groups) > BARS else ""
        keys = [("tokens-by-group", "Tokens more or less", "share", "tokens")]
        if any(_costs_differ(one) for one in shown):
            keys.append(("money-by-group", "Money more or less", "price_share", "money"))
        blocks = [*(_change_plot(name, title, shown, key, what, few) for name, title, key, what in keys), table]
    return Section("text", "Tokens and money" if priced else "Tokens of the same text", blocks)


def _costs_differ(one: dict[str, Any]) -> bool:
    """Whether the prices of a and b are not the same, so that money differs in another way than tokens."""
    known = one["price_share"] is not None and one["share"] is not None
    return known and not math.isclose(one["price_share"], one["share"], abs_tol=1e-9)


def _change_plot(name: str, title: str, shown: Sequence[dict[str, Any]], key: str, what: str, few: str) -> Plot:
    known = sorted((one for one in shown if one[key] is not None), key=lambda one: (-one[key], one["name"] or ""))
    names = _names(known)
    shown_as = [_ALL if one["name"] is None else names[one["name"]] for one in known]
    values = [100 * one[key] for one in known]
    cells: list[list[Cell]] = [
        [text if one["name"] is None else Code(text), change(one[key])] for one, text in zip(known, shown_as)
    ]
    axis = f"{what} of B less those of A, in per cent" if what == "tokens" else f"{what} for B less that for A, in per cent"
    told = f"How {'many' if what == 'tokens' else 'much'} more {what} B takes than A for the same text{few}; below 0 it takes less."
    if known:
        told += f" Most for {shown_as[0]}, {change(known[0][key])}; least for {shown_as[-1]}, {change(known[-1][key])}."
    table = Table(title, ["Group", f"Difference of {what}"], cells, [False, True])
    series = [Series(title, list(range(len(values))), values)]
    return Plot(name, title, "rows", told, series, table, x_label=axis, labels=shown_as, base=0.0)


def _names(groups: Sequence[dict[str, Any]]) -> dict[str, str]:
    return labels(one["name"] for one in groups if one["name"] is not None)


def _changes(report: dict[str, Any]) -> Section | None:
    words, documents = report["words"], report["documents"]
    counts = ["Tokens of A", "Tokens of B", "Difference"]
    rows: list[list[Cell]] = []
    if words is not None:
        title, columns = "Words that change most", ["Word", "Occurrences", *counts, "Cut by A", "Cut by B"]
        numeric = [False, True, True, True, True, False, False]
        for row in words:
            word = token({"token": row["word"], "characters": row["characters"]})
            told: list[Cell] = [word, number(row["count"]), *_counts(row)]
            rows.append([*told, *(Code(_joined(row, side)) for side in "ab")])
    elif documents is not None:
        title, columns = "Documents that change most", ["Beginning", "Bytes", *counts, "Group", "Source", "Place"]
        numeric = [False, True, True, True, True, False, False, True]
        for row in documents:
            told = [Code(row["beginning"]), number(row["bytes"]), *_counts(row)]
            told += [NOT_KNOWN if row["group"] is None else Code(label(row["group"]))]
            rows.append([*told, Code(label(row["source"])), number(row["place"])])
    else:
        return None
    if not rows:
        return Section("changes", title, [Text("Both make as many tokens of each of them.")])
    note = "All occurrences of a word count." if words is not None else "Its place is a row, or an offset in bytes, of the source."
    return Section("changes", title, [Table(f"{title}, most first", columns, rows, numeric, note)])


def _counts(row: dict[str, Any]) -> list[str]:
    return [number(row["tokens_a"]), number(row["tokens_b"]), f"{row['difference']:+,}"]


def _joined(row: dict[str, Any], side: str) -> str:
    pieces = row[f"pieces_{side}"]
    return " ".join(pieces) + (" …" if len(pieces) == PIECES and row[f"tokens_{side}"] > PIECES * row["count"] else "")


# ---- tokens and ranks ----------------------------------------------------------------------------


def _tokens(report: dict[str, Any]) -> Section:
    told = f"{number(report['shared'])} tokens are in both; all of them are in the Parquet of diff --output."
    blocks: list[Block] = [Text(told)]
    for side in "ab":
        listed, alone = report[side]["tokens_alone"], report[side]["alone"]
        if listed:
            counted = listed[0][f"count_{side}"] is not None
            columns = ["Token", "Id", "Rank", *(["Occurrences"] if counted else [])]
            rows: list[list[Cell]] = []
            for one in listed:
                cells = [number(one[f"id_{side}"]), number(one[f"rank_{side}"])]
                cells += [number(one[f"count_{side}"])] if counted else []
                rows.append([token(one), *cells])
            more = f"{number(alone - len(listed))} more." if alone > len(listed) else ""
            caption = f"Tokens only in {side.upper()}, {'the most frequent' if counted else 'the first by id'}"
            blocks.append(Table(caption, columns, rows, [False] + [True] * (len(columns) - 1), more))
    return Section("tokens", "Tokens that one has alone", blocks)


def _ranks(report: dict[str, Any]) -> Section | None:
    ranks, shifts = report["ranks"], report["shifts"]
    if shifts["ranked"] < 2:
        return None
    title = "Ranks of the shared tokens"
    if not shifts["moved"]:
        return Section("ranks", title, [Text(f"All {number(shifts['ranked'])} tokens that both learned have the same ranks.")])
    drawn = {name: [rank + 1 for rank in column] for name, column in ranks.items()}  # on a logarithmic axis there is no 0
    x = drawn["ranks"]
    series = [Series("same rank", x, x), Series("middle", x, drawn["middle"], True)]
    series += [Series(f"{name} quarter", x, drawn[name]) for name in ("lower", "upper")]
    chosen = sorted({round(i * (len(x) - 1) / 11) for i in range(12)})
    rows = [[number(ranks[name][i]) for name in ("ranks", "lower", "middle", "upper")] for i in chosen]
    columns = ["Up to rank in A", "Lower quarter in B", "Middle in B", "Upper quarter in B"]
    told = f"{number(shifts['moved'])} of {number(shifts['ranked'])} tokens that both learned have other ranks in B; "
    told += f"the middle of all shifts is {number(shifts['median'])}, the largest {number(shifts['largest'])}."
    against = Plot(
        "ranks-of-both", "Rank in A against rank in B", "lines", told, series, Table("Ranks", columns, rows, [True] * 4),
        x_label="rank in A, from 1", y_label="rank in B, from 1", log_x=True, log_y=True,
    )  # fmt: skip
    places = [f"{number(first)}–{number(10 * first - 1)}" for first in shifts["lowest"]]
    bars = [
        Series(f"{name} in B", list(range(len(places))), [count / shifts["ranked"] for count in shifts[name]])
        for name in ("earlier", "later")
    ]
    cells = [[place, number(a), number(b)] for place, a, b in zip(places, shifts["earlier"], shifts["later"])]
    table = Table("Shifts of rank by their size", ["Ranks", "Earlier in B", "Later in B"], cells, [True] * 3)
    how = f"By how many ranks tokens stand earlier or later in B; {number(shifts['ranked'] - shifts['moved'])} did not move."
    sizes = Plot(
        "shift-sizes", "Shifts of rank", "bars", how, bars, table,
        x_label="ranks", y_label="share of the shared tokens", share_y=True, labels=places,
    )  # fmt: skip
    listed: list[list[Cell]] = [
        [token(one), number(one["rank_a"]), number(one["rank_b"]), f"{one['shift']:+,}"]
        for one in report["moved"]
    ]
    largest = Table("Largest shifts", ["Token", "Rank in A", "Rank in B", "Shift"], listed, [False, True, True, True])
    return Section("ranks", title, [against, sizes, largest])


def _making(report: dict[str, Any]) -> Section:
    both, command = [report[side] for side in "ab"], report["command"]
    rows: list[list[Cell]] = [
        ["Name", *(Code(label(one["name"], 400)) for one in both)],
        ["Fingerprint", *(Code(one["fingerprint"]) for one in both)],
        ["Algorithm", *(f"{one['algorithm']}, of {one['unit']}s" for one in both)],
        ["Ids", *(number(one["size"]) for one in both)],
        ["Words are cut by", *(Code(label(one["pre_tokenizer"])) for one in both)],
        ["Normalizer", *(Code(label(one["normalizer"], 60)) if one["normalizer"] else "none" for one in both)],
    ]
    facts: list[tuple[str, Cell, str]] = [
        ("Compared on", report["compared_on"] or "no text", ""),
        ("Command", Code(label(command, 2000)) if command else "not recorded", ""),
        ("Made with", f"beam_bpe {report['version']}", ""),
    ]
    table = Table("The two vocabularies", ["Of each", "A", "B"], rows, [False] * 3)
    return Section("making", "How it was made", [table, Facts(facts)])
