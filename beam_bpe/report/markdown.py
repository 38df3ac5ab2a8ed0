"""A page as Markdown: the tables of its plots in their place."""

from __future__ import annotations

import re
from typing import Iterator

from beam_bpe.report.blocks import Block, Cell, Code, Facts, Page, Plot, Table

_MARKUP = re.compile(r"([\\`*_\[\]<>|~&$])")  # what is markup at the beginning of a line stands at none


def text(page: Page) -> str:
    """Return the page; what could be markup in its texts is escaped."""
    parts = [f"# {_escaped(page.title)}", f"{_cell(page.subject)}: {_escaped(page.summary)}"]
    for section in page.sections:
        parts.append(f"## {_escaped(section.title)}")
        for block in section.blocks:
            parts += _written(block)
    return "\n\n".join(parts) + "\n"


def _written(block: Block) -> Iterator[str]:
    if isinstance(block, Facts):
        lines = (
            f"- {_escaped(name)}: {_cell(value)}{f' ({_escaped(meaning)})' if meaning else ''}"
            for name, value, meaning in block.facts
        )
        yield "\n".join(lines)
    elif isinstance(block, Table):
        yield from _table(block)
    elif isinstance(block, Plot):
        yield f"### {_escaped(block.title)}"
        yield _escaped(block.description)
        yield from _table(block.table)
    else:
        yield f"> {_escaped(block.text)}" if block.note else _escaped(block.text)


def _table(table: Table) -> Iterator[str]:
    yield f"**{_escaped(table.caption)}**"
    lines = [list(map(_escaped, table.columns)), ["---:" if number else "---" for number in table.numeric]]
    lines += [[_cell(value) for value in row] for row in table.rows]
    yield "\n".join(f"| {' | '.join(line)} |" for line in lines)
    if table.note:
        yield _escaped(table.note)


def _cell(value: Cell) -> str:
    """Return a cell; code stands between as many backticks as end it nowhere, and a bar in it is escaped."""
    if not isinstance(value, Code):
        return _escaped(value)
    ticks = "`" * (1 + max(map(len, re.findall("`+", value)), default=0))
    space = " " if value[:1] in ("`", " ") or value[-1:] in ("`", " ") else ""
    return f"{ticks}{space}{value}{space}{ticks}".replace("|", "\\|")


def _escaped(value: str) -> str:
    """Return a text in which nothing is markup; numbers and plain words stay readable.

    >>> _escaped("1,234.50 – 12.3 %"), _escaped("<b>*x*")
    ('1,234.50 – 12.3 %', '\\\\<b\\\\>\\\\*x\\\\*')
    """
    return _MARKUP.sub(r"\\\1", value)
