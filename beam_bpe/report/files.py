"""The files of a report: report.json, report.md and report.html in one folder."""

from __future__ import annotations

import json
from typing import Any

from beam_bpe import storage
from beam_bpe.artifacts import FormatError
from beam_bpe.report import difference, figures, markdown, page, record
from beam_bpe.report.difference_sections import difference_page
from beam_bpe.report.sections import page_of

JSON_FILE, MARKDOWN_FILE, HTML_FILE = "report.json", "report.md", "report.html"
_PAGES = {record.KIND: page_of, difference.KIND: difference_page}


def read(folder: str, kind: str = record.KIND) -> dict[str, Any] | None:
    """Return the numbers of the report of a folder; None if there is none.

    Args:
        kind: of the report: on a vocabulary, or on two (`difference.KIND`).

    Raises:
        FormatError: its JSON is not that of such a report.
    """
    url = storage.join(folder, JSON_FILE)
    if not storage.exists(url):
        return None
    try:
        found = json.loads(storage.read_bytes(url))
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("kind") != kind:
        raise FormatError(f"{url} is not the JSON of a {kind}")
    return found


def claim(folder: str, overwrite: bool, kind: str = record.KIND, option: str = "--output") -> None:
    """Refuse a folder with files of these names that are no such report (FileExistsError); one may be written again.

    Args:
        option: that names the folder.

    Raises:
        OSError: nothing can be written there, whatever stands in it.
    """
    helps = f"choose another folder ({option})"
    try:
        storage.list_names(folder)  # NotADirectoryError
        storage.check_writable(folder)
    except OSError as error:
        raise OSError(f"{folder} cannot hold a report ({error.strerror or error}): {helps}") from None
    if overwrite:
        return
    helps += " or overwrite it (--overwrite)"
    try:
        ours = read(folder, kind) is not None
    except FormatError as error:
        raise FileExistsError(f"{error}: {helps}") from None
    for name in (MARKDOWN_FILE, HTML_FILE):
        if not ours and storage.exists(storage.join(folder, name)):
            raise FileExistsError(f"{folder} holds a {name} of something else: {helps}")


def remove(folder: str) -> None:
    """Take the report of a folder away, if it is one on a vocabulary."""
    try:
        ours = read(folder) is not None
    except FormatError:
        return
    for name in (HTML_FILE, MARKDOWN_FILE, JSON_FILE) if ours else ():
        url = storage.join(folder, name)
        if storage.exists(url):
            storage.remove(url)


def write(folder: str, report: dict[str, Any]) -> list[str]:
    """Write what `record.report_of` or `difference.difference_report` told and return the paths.

    The page is the first, if `figures.available` lets it be drawn.
    """
    made = _PAGES[report["kind"]](report)
    paths = [storage.join(folder, name) for name in (JSON_FILE, MARKDOWN_FILE)]
    storage.write_bytes(
        paths[0], (json.dumps(report, sort_keys=True, indent=1, ensure_ascii=True, allow_nan=False) + "\n").encode()
    )
    storage.write_bytes(paths[1], markdown.text(made).encode())
    url = storage.join(folder, HTML_FILE)
    if figures.available():
        storage.write_bytes(url, page.html(made).encode())
        paths.insert(0, url)
    elif storage.exists(url):  # that of an earlier report
        storage.remove(url)
    return paths
