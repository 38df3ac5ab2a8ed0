"""Plots as SVG, drawn by matplotlib: text stays text, and colours are those of the page, which follow light and dark."""

from __future__ import annotations

import io
import re
import warnings
import xml.etree.ElementTree as ET
from typing import Any, Sequence

from beam_bpe.report.blocks import Plot, Series
from beam_bpe.report.wording import amount, labels

WIDTH, HEIGHT = 6.4, 3.5  # inches of 72 units
ROW, EDGES = 0.235, 0.75  # of a plot of rows: each row; above and below
NAME, ROW_NAME = 16, 24  # characters of a label, of a line and of a row
LABELS = 0.052  # of the height, from the label of a line to the next at least

# Colours that matplotlib knows them by, and those of the page: text, lines of the axes and grid, then those of the series.
INK, SOFT, GRID = "#000001", "#000002", "#000003"
SERIES = ("#000011", "#000012", "#000013", "#000014", "#000015", "#000016", "#000017")
_COLOURS = {INK: "var(--ink)", SOFT: "var(--soft)", GRID: "var(--grid)"} | {
    one: f"var(--series-{i})" for i, one in enumerate(SERIES, 1)
}
_COLOUR = re.compile("|".join(_COLOURS))

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "beam_bpe",
    "font.size": 11.0,
    "text.parse_math": False,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": SOFT,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": False,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
}


def available() -> bool:
    """Whether the packages of the extra `report` are installed, without importing them."""
    from importlib.util import find_spec

    return all(find_spec(name) is not None for name in ("matplotlib", "jinja2"))


def svg(plot: Plot) -> str:
    """Return a plot as an SVG element; its accessible name is told by the page that it stands on."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # the browser's fonts have it
        height = EDGES + ROW * max(2, len(plot.labels)) if plot.kind == "rows" else HEIGHT
        figure = Figure(figsize=(WIDTH, height), facecolor="none", layout="constrained")
        axes = figure.add_subplot(facecolor="none")
        {"lines": _lines, "bars": _bars, "rows": _rows}[plot.kind](plot, axes)
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return _of_page(out.getvalue(), plot.name)


def _axes(plot: Plot, axes: Any) -> None:
    axes.set_xlabel(plot.x_label)
    axes.set_ylabel(plot.y_label)
    axes.tick_params(length=0)
    axes.set_xscale("log" if plot.log_x else "linear")
    axes.set_yscale("log" if plot.log_y else "linear")
    axes.minorticks_off()
    if plot.log_x:
        axes.xaxis.set_major_formatter(lambda value, _: amount(value))
    elif plot.kind == "lines":
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    if plot.share_y:
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.6g} %")
    elif plot.log_y:
        axes.yaxis.set_major_formatter(lambda value, _: amount(value))


def _lines(plot: Plot, axes: Any) -> None:
    for i, line in enumerate(plot.series):
        colour, dash = _style(plot.series, i)
        axes.plot(
            line.x, line.y, color=colour, linestyle=dash, linewidth=2.6 if line.heavy else 1.6, zorder=4 if line.heavy else 3
        )
    _axes(plot, axes)
    if not plot.log_y:
        axes.set_ylim(bottom=0)
    if plot.log_x and len(plot.series[0].x) and plot.series[0].x[0] != plot.series[0].x[-1]:
        axes.set_xlim(plot.series[0].x[0], plot.series[0].x[-1])
        if plot.series[0].x[-1] < 1000 * plot.series[0].x[0]:  # decades alone would be too few
            axes.set_xticks([tick for tick in _one_two_five() if plot.series[0].x[0] <= tick <= plot.series[0].x[-1]])
    if plot.mark is not None:
        at, what = plot.mark
        axes.axvline(at, color=SOFT, linewidth=1, linestyle=(0, (2, 2)), zorder=2)
        axes.annotate(
            what,
            (at, 0.02),
            xycoords=("data", "axes fraction"),
            xytext=(4, 2),
            textcoords="offset points",
            color=SOFT,
            fontsize=10,
        )
    if len(plot.series) > 1:
        _label_lines(plot, axes)


def _one_two_five() -> list[float]:
    return [digit * 10.0**power for power in range(19) for digit in (1, 2, 5)]


def _style(series: Sequence[Series], i: int) -> tuple[str, Any]:
    """Return colour and dashes of a line: the heavy one is of ink; the others are told apart by both."""
    if series[i].heavy:
        return INK, "solid"
    number = i - sum(line.heavy for line in series[:i])
    return SERIES[number % len(SERIES)], ("solid", (0, (4, 1.5)), (0, (1.2, 1.5)))[number // len(SERIES) % 3]


def _label_lines(plot: Plot, axes: Any) -> None:
    """Write the name of each line behind its end, moved up or down where names would stand over each other."""
    axes.figure.canvas.draw()  # the limits are known
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = sorted((float(to_axes.transform((line.x[-1], line.y[-1]))[1]), i) for i, line in enumerate(plot.series))
    names = labels((line.name for line in plot.series), NAME)
    heights: list[float] = []
    for end, _ in ends:
        heights.append(max(end, heights[-1] + LABELS) if heights else end)
    over = heights[-1] - 1.0
    for place in range(len(heights) - 1, -1, -1):  # what was pushed above the top goes down again
        if over > 0:
            highest = 1.0 if place == len(heights) - 1 else heights[place + 1] - LABELS
            heights[place] = min(heights[place], highest)
    for (end, i), height in zip(ends, heights):
        line = plot.series[i]
        arrow = {"arrowstyle": "-", "color": GRID, "linewidth": 0.8, "shrinkA": 1, "shrinkB": 0}
        axes.annotate(
            names[line.name],
            (1.0, end),
            xycoords="axes fraction",
            xytext=(1.035, height),
            textcoords="axes fraction",
            va="center",
            ha="left",
            fontsize=10,
            color=_style(plot.series, i)[0],
            fontweight="bold" if line.heavy else "normal",
            arrowprops=arrow,
        )


def _bars(plot: Plot, axes: Any) -> None:
    width = 0.8 / max(1, len(plot.series))
    for i, series in enumerate(plot.series):
        places = [place - 0.4 + width * (i + 0.5) for place in series.x]
        axes.bar(places, series.y, width, color=SERIES[i], label=series.name)
    _axes(plot, axes)
    axes.grid(axis="x", visible=False)
    if plot.series and len(plot.series[0].x):
        step = 1 if len(plot.labels) <= 16 else 2 if len(plot.labels) <= 24 else 4
        shown = [i for i in range(len(plot.labels)) if (i + 1) % step == 0 or i == 0]
        axes.set_xticks([plot.series[0].x[i] for i in shown], [plot.labels[i] for i in shown])
    if len(plot.series) > 1:
        axes.legend(frameon=False, loc="upper right", labelcolor=INK)


def _rows(plot: Plot, axes: Any) -> None:
    """Draw a bar for each label, the first on top, with its value behind it."""
    series = plot.series[0]
    places = [-place for place in series.x]
    values = [value - plot.base for value in series.y]
    axes.barh(places, values, 0.68, left=plot.base, color=SERIES[0])
    _axes(plot, axes)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)
    axes.axvline(plot.base, color=SOFT, linewidth=1)
    names = labels(plot.labels, ROW_NAME)
    axes.set_yticks(places, [names[name] for name in plot.labels])
    axes.tick_params(axis="y", labelcolor=INK)
    axes.margins(x=0.14, y=0.02)
    for place, value in zip(places, series.y):
        side = -1 if value < plot.base else 1
        axes.annotate(
            f"{value:.2f}",
            (value, place),
            xytext=(4 * side, 0),
            textcoords="offset points",
            va="center",
            ha="left" if side > 0 else "right",
            fontsize=10,
            color=INK,
        )


# ---- SVG of a page -------------------------------------------------------------------------------


def _of_page(data: bytes, name: str) -> str:
    """Return the SVG of matplotlib with names, colours and fonts of the page, without what only files need."""
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _XLINK)
    root = ET.fromstring(data)
    for parent in root.iter():
        for child in list(parent):
            if child.tag == f"{{{_SVG}}}metadata":
                parent.remove(child)
    for element in root.iter():
        for key, value in list(element.attrib.items()):
            if key == "id":
                element.set(key, f"{name}-{value}")
            elif key.endswith("href"):
                element.set(key, value.replace("#", f"#{name}-"))
            else:
                value = value.replace("url(#", f"url(#{name}-")
                value = _without_family(value) if key == "style" else value
                element.set(key, _COLOUR.sub(lambda found: _COLOURS[found[0]], value))
    for style in root.iter(f"{{{_SVG}}}style"):
        style.text = None
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.set("aria-hidden", "true")
    root.set("focusable", "false")
    return ET.tostring(root, encoding="unicode").strip()


def _without_family(style: str) -> str:
    """Return a style without its family of fonts, which is the page's.

    >>> _without_family("font: 700 10px 'DejaVu Sans', sans-serif; fill: red")
    'font-weight: 700; font-size: 10px; fill: red'
    """
    style = re.sub(
        r"font: (?:(\d+|bold) )?([\d.]+px)[^;]*",
        lambda found: f"font-weight: {found[1] or 'normal'}; font-size: {found[2]}",
        style,
    )
    return re.sub(r"font-family: [^;]*; ?", "", style)
