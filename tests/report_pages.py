"""Pages and Markdown of reports, read back."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import html5lib


def parsed(text: str) -> ET.Element:
    """Return the tree of a page that is free of every error that HTML5 knows."""
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)


def words_of(element: ET.Element) -> str:
    return "".join(element.itertext()).strip()


def tables_of_page(tree: ET.Element) -> dict[str, list[list[str]]]:
    return {
        words_of(table.find("caption")): [[words_of(cell) for cell in row] for row in table.iter("tr")]
        for table in tree.iter("table")
    }


def unescaped(cell: str) -> str:
    cell = cell.replace("\\|", "|")
    if found := re.fullmatch(r"(`+)( ?)(.*)\2\1", cell, re.S):
        return found[3].strip()
    return re.sub(r"\\([\\`*_\[\]<>|~&$])", r"\1", cell)


def tables_of_markdown(text: str) -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {}
    caption = ""
    for line in text.splitlines():
        if line.startswith("**"):
            caption = unescaped(line.strip("*"))
        elif line.startswith("| ") and not re.fullmatch(r"[|: -]+", line):
            cells = re.split(r"(?<!\\) \| |(?<=\\\\) \| ", line[2:-2])
            found.setdefault(caption, []).append([unescaped(cell) for cell in cells])
    return found
