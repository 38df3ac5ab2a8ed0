"""The section of a report on groups: what a text of each costs, and how each uses the vocabulary."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from beam_bpe.report.blocks import Block, Cell, Code, Plot, Section, Series, Table, Text
from beam_bpe.report.record import by_size, compared_by
from beam_bpe.report.wording import gini, known, label, labels, number, percent

ROWS = 500  # groups of a table
BARS = 30  # groups of a plot of rows


def group_section(report: dict[str, Any]) -> Section | None:
    """Return the section; None if nothing was measured, or there are no groups."""
    measures = report["measures"]
    if measures is None or measures["group_by"] is None:
        return None
    by, title = label(measures["group_by"]), f"Groups by {label(measures['group_by'])}"
    if not measures["groups"]:
        return Section("groups", title, [Text("There is no group that has text.")])
    names = by_size(measures["groups"])
    shown = labels([*names[:ROWS], measures["reference"]])
    blocks: list[Block] = [Text(_told(measures))]
    blocks += [plot for plot in (_premium(measures, names[:BARS], shown), _fertility(measures, names[:BARS], shown)) if plot]
    blocks += [_measures(by, measures, names, shown), _tokens(by, measures["groups"], names[:ROWS], shown)]
    return Section("groups", title, blocks)


def _told(measures: Mapping[str, Any]) -> str:
    """Return how many groups there are and, where their costs are known, how unlike they are."""
    count = len(measures["groups"])
    told = f"{number(count)} group{'s' * (count != 1)}"
    if compared_by(measures) is None:
        return f"{told}."
    unlike = [gini(unit, value) for unit, value in measures["gini"].items() if value is not None]
    return f"{'; '.join([told, *unlike])} (0: all groups cost the same)."


def _premium(measures: Mapping[str, Any], names: Sequence[str], shown: Mapping[str, str]) -> Plot | None:
    unit = compared_by(measures)
    if unit is None:
        return None
    premiums = {name: one for name in names if (one := measures["groups"][name][f"premium_{unit}"]) is not None}
    if not premiums:  # the reference has no text
        return None
    dearest, base = max(premiums, key=lambda name: premiums[name]), shown[measures["reference"]]
    most = f"{shown[dearest]} costs most, {number(premiums[dearest])} times as much"
    told = f"Tokens of a {unit} over those of {base}{_few(measures)}: {most}."
    return _plot("premium", f"Parity premium per {unit}", told, premiums, shown, f"tokens per {unit}, as a factor", 1.0)


def _fertility(measures: Mapping[str, Any], names: Sequence[str], shown: Mapping[str, str]) -> Plot | None:
    cut = {name: one for name in names if (one := measures["groups"][name]["fertility"]) is not None}
    if len(cut) < 2:
        return None
    most = max(cut, key=lambda name: cut[name])
    told = f"Tokens per word{_few(measures)}: words of {shown[most]} are cut most, into {number(cut[most])} tokens."
    return _plot("fertility", "Fertility", told, cut, shown, "tokens per word", 0.0)


def _few(measures: Mapping[str, Any]) -> str:
    return f", the {BARS} groups of most text" if len(measures["groups"]) > BARS else ""


def _plot(
    name: str, title: str, told: str, values: Mapping[str, float], shown: Mapping[str, str], axis: str, base: float
) -> Plot:
    ordered = sorted(values, key=lambda one: (-values[one], one))
    rows = [[Code(shown[one]), number(values[one])] for one in ordered]
    table = Table(title, ["Group", axis[:1].upper() + axis[1:]], rows, [False, True])
    series = [Series(title, list(range(len(ordered))), [values[one] for one in ordered])]
    labelled = [shown[one] for one in ordered]
    return Plot(name, title, "rows", told, series, table, x_label=axis, labels=labelled, base=base)


def _measures(by: str, measures: Mapping[str, Any], names: Sequence[str], shown: Mapping[str, str]) -> Table:
    """Return the table of what a text of each group costs."""
    counts, ratios = ("documents", "characters", "tokens"), ("compression_ratio", "bytes_per_token", "fertility")
    columns = ["Group", "Documents", "Characters", "Tokens", "Characters per token", "Bytes per token", "Fertility"]
    columns += ["Words whole", "Premium per character", "Premium per byte"]
    rows: list[list[Cell]] = []
    for name in names[:ROWS]:
        one = measures["groups"][name]
        cells = [*(number(one[key]) for key in (*counts, *ratios)), percent(one["kept_share"])]
        rows.append([Code(shown[name]), *cells, *(number(one[f"premium_{unit}"]) for unit in ("character", "byte"))])
    notes = []
    if compared_by(measures) is not None:
        notes.append(f"A premium is the tokens of a unit of text over those of {shown[measures['reference']]}.")
    if len(names) > ROWS:
        notes.append(f"{number(len(names) - ROWS)} groups of less text are left out here; the JSON has them.")
    caption = f"Measures of each group, by {by}"
    return known(Table(caption, columns, rows, [False] + [True] * (len(columns) - 1), " ".join(notes)))


def _tokens(by: str, groups: Mapping[str, Any], names: Sequence[str], shown: Mapping[str, str]) -> Table:
    """Return the table of how each group uses the vocabulary."""
    columns = ["Group", "Tokens used", "Vocabulary used", "Entropy, bits", "Rényi efficiency"]
    columns += ["Tokens of one character", "Tokens of one byte", "Unknown tokens"]
    rows: list[list[Cell]] = []
    for name in names:
        one = groups[name]
        cells = [number(one["used"]), percent(one["used_share"]), number(one["entropy"]), number(one["renyi_efficiency"], 3)]
        cells += [percent(one[key]) for key in ("single_character_share", "single_byte_share", "unknown_rate")]
        rows.append([Code(shown[name]), *cells])
    return known(Table(f"Tokens of each group, by {by}", columns, rows, [False] + [True] * (len(columns) - 1)))
