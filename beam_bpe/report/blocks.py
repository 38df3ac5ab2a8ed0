"""What a page is made of, whatever it is written as: sections of paragraphs, facts, tables and plots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence, Union


class Code(str):
    """A text that is shown as it is spelled: a token, a name, a command."""


Cell = Union[str, Code]


@dataclass(frozen=True)
class Text:
    """A paragraph; a note is a thing to beware of."""

    text: str
    note: bool = False


@dataclass(frozen=True)
class Facts:
    """Names and their values; of `large` ones each value is seen from afar, with what it means below it."""

    facts: Sequence[tuple[str, Cell, str]]  # name, value, what it means
    large: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first cell of a row says what the row is of.

    Attributes:
        numeric: of each column, whether it is of numbers, which stand to the right.
        note: what was left out, or how a column is to be read.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numeric: Sequence[bool]
    note: str = ""


@dataclass(frozen=True)
class Series:
    """A line of a plot, or one bar of each place.

    Attributes:
        heavy: the one that others are compared with.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    heavy: bool = False


@dataclass(frozen=True)
class Plot:
    """A plot and, for those who do not see it, what it shows and its numbers.

    Attributes:
        name: unlike that of any other plot of the page; letters and hyphens.
        kind: "lines"; "bars": upright, at the places that x tells; "rows": lying, one for each of `labels`.
        description: what one sees, in a sentence or two.
        x_label, y_label: of the axes.
        log_x, log_y: axes are logarithmic; of what is not positive nothing is drawn there.
        share_y: values are shares, written in per cent.
        labels: of rows, or of the bars' places.
        mark: a value of x that is marked, and what it is.
        base: of rows: the value at which bars begin.
    """

    name: str
    title: str
    kind: str
    description: str
    series: Sequence[Series]
    table: Table
    x_label: str = ""
    y_label: str = ""
    log_x: bool = False
    log_y: bool = False
    share_y: bool = False
    labels: Sequence[str] = ()
    mark: tuple[float, str] | None = None
    base: float = 0.0


Block = Union[Text, Facts, Table, Plot]


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    name: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """A title, a sentence on what it is of, and sections."""

    title: str
    subject: Cell
    summary: str
    sections: Sequence[Section]
