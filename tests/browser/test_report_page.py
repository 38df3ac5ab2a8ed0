"""The report in a real browser: quiet, visible, in light and dark, by keyboard, on a phone, on paper."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import chromium  # noqa: E402

from beam_bpe import train  # noqa: E402
from beam_bpe.difference import compare  # noqa: E402
from beam_bpe.report.difference import difference_report  # noqa: E402
from beam_bpe.report.files import write  # noqa: E402
from beam_bpe.report.record import report_of  # noqa: E402
from beam_bpe.words import WordCounts  # noqa: E402

pytest.importorskip("matplotlib")
Image = pytest.importorskip("PIL.Image")  # comes with matplotlib
pytest.importorskip("jinja2")
if isinstance(chromium.browser(), str):
    pytest.skip(f"there is no browser: {chromium.browser()}", allow_module_level=True)

GROUPS = ("en", "de", "zh", "<script>alert(1)</script>", "ar", "a-name/that-is.longer/than-that.of/all-the-others-and-in/one-piece")


@pytest.fixture(scope="module")
def words() -> WordCounts:
    """Return words of several groups, with markup in their text."""
    texts = {
        "en": "the lowest of the newest towers lower than the widest <img src=x onerror=alert(1)> ",
        "de": "die größte der neuesten Straßen ist größer als die tiefste ]]> </style> ",
        "zh": "機器學習模型的訓練資料 ",
        "ar": f"نص عربي للتجربة {' ' * 99}",  # a long token
    }
    documents = [texts.get(name, "<script>console.error('ran')</script> ") * 40 for name in GROUPS]
    return WordCounts.from_documents(documents, pattern="o200k", groups=list(GROUPS), group_by="language")


@pytest.fixture(scope="module")
def path(tmp_path_factory, words) -> Path:
    """Return the page of a vocabulary."""
    folder = tmp_path_factory.mktemp("report")
    write(str(folder), report_of(train(words, 420), words, name="tried", command="beam-bpe train <corpus>"))
    return folder / "report.html"


@pytest.fixture(scope="module")
def compared(tmp_path_factory, words) -> Path:
    """Return the page of two vocabularies."""
    a, b = train(words, 420), train(words.of_group("de"), 330)
    folder = tmp_path_factory.mktemp("compared")
    found = compare(a, b, words, names=("<b>", "b"), prices=(1.0, 2.0))
    write(str(folder), difference_report(found, command="beam-bpe diff <a> b"))
    return folder / "report.html"


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    """Return a tab of a browser that is started once."""
    with chromium.opened(tmp_path_factory.mktemp("browser")) as tab:
        yield tab


def test_it_opens_without_a_complaint_and_asks_for_nothing(tab, path):
    tab.look()
    tab.open(path)
    assert tab.complaints() == [] and tab.requested() == [path.as_uri()]
    assert tab.run("document.title") == "Vocabulary report: tried"
    assert tab.run("document.compatMode") == "CSS1Compat" and tab.run("document.scripts.length") == 0


@pytest.mark.parametrize("width", [1200, 400, 320])
def test_plots_are_seen_and_nothing_is_wider_than_the_window(tab, path, width):
    tab.look(width=width, height=800)
    tab.open(path)
    assert tab.run("document.documentElement.scrollWidth") <= width
    boxes = tab.run(
        "[...document.querySelectorAll('.plot svg')].map(svg => {const b = svg.getBoundingClientRect(), g = svg.getBBox(); "
        "return [b.left, b.right, b.width, b.height, g.width, g.height]})"
    )
    assert len(boxes) == 7
    for left, right, seen, high, drawn, tall in boxes:
        assert 0 <= left and right <= width and seen > 0.7 * min(width, 400) and high > 60 and drawn > 300 and tall > 100
    names = tab.run("[...document.querySelectorAll('#size-curve svg text')].map(text => text.textContent)")
    assert {"en", "zh", "all text", "<script>…script>"} <= set(names)
    inside = tab.run(
        "[...document.querySelectorAll('.plot')].every(plot => {const p = plot.closest('figure').getBoundingClientRect(); "
        "return [...plot.querySelectorAll('text')].every(text => {const t = text.getBoundingClientRect(); "
        "return t.left >= p.left && t.right <= p.right && t.width > 0})})"
    )
    assert inside
    overflowing = (
        "[...document.querySelectorAll('.listing')].filter(one => {const s = one.querySelector('.scroll'); "
        "return s.scrollWidth > s.clientWidth}).map(one => [one.className, one.querySelector('caption').textContent])"
    )
    wide = tab.run(overflowing)  # where the window is narrow, tables of many columns scroll within themselves
    assert wide == [] if width == 1200 else all("narrow" not in name for name, _ in wide)
    assert "one-piece" in tab.run("document.querySelector('#groups tbody').textContent")


def test_light_and_dark_are_two_pictures(tab, path, tmp_path):
    seen = {}
    for dark in (False, True):
        tab.look(dark=dark)
        tab.open(path)
        style = "getComputedStyle(document.body)"
        paper, ink = tab.run(f"[{style}.backgroundColor, {style}.color]")
        label = tab.run("getComputedStyle(document.querySelector('#premium .plot text')).fill")
        seen[dark] = (paper, ink, label, _brightness(tab.picture()))
    for i in range(3):
        assert seen[False][i] != seen[True][i]
    for dark in (False, True):
        brightness = seen[dark][3]
        assert (brightness < 80) == dark and (brightness > 200) != dark


def _brightness(picture: bytes) -> float:
    """Return the mean brightness of a picture, from 0 to 255, which is of more than a few colours."""
    image = np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))
    assert len(np.unique(image.reshape(-1, 3)[::50], axis=0)) > 50
    return float(image.mean())


@pytest.mark.parametrize("dark", [False, True])
def test_no_rule_of_accessibility_is_broken(tab, path, dark):
    rules = chromium.axe()
    if rules is None:
        pytest.skip("axe-core is not prepared: python tests/engines/prepare.py chromium")
    tab.look(dark=dark)
    tab.open(path)
    tab.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    tab.run(f"{rules}; true")
    found = tab.run(
        "axe.run(document).then(told => told.violations.map(one => [one.id, one.nodes.length, one.nodes[0].html.slice(0, 200)]))"
    )
    assert found == [], json.dumps(found, indent=1)
    assert tab.run("axe.run(document).then(told => told.passes.length)") > 25


def test_the_page_of_two_vocabularies_is_as_good(tab, compared):
    for width in (1200, 320):
        tab.look(width=width, dark=width < 400)
        tab.open(compared)
        assert tab.complaints() == [] and tab.requested() == [compared.as_uri()]
        assert tab.run("document.documentElement.scrollWidth") <= width and tab.run("document.scripts.length") == 0
        sizes = tab.run("[...document.querySelectorAll('.plot svg')].map(svg => svg.getBoundingClientRect().height)")
        assert len(sizes) == 4 and min(sizes) > 60
        if rules := chromium.axe():
            tab.run("document.querySelectorAll('details').forEach(one => one.open = true)")
            tab.run(f"{rules}; true")
            found = tab.run("axe.run(document).then(told => told.violations.map(one => [one.id, one.nodes[0].html.slice(0, 200)]))")
            assert found == [], json.dumps(found, indent=1)
    assert tab.run("document.title") == "Two vocabularies compared: A: <b>; B: b"


def test_the_keyboard_reaches_all_of_it(tab, path):
    tab.look()
    tab.open(path)
    tab.press("Tab", 9)
    active = "document.activeElement"
    assert tab.run(f"{active}.className") == "skip" and tab.run(f"{active}.getBoundingClientRect().left") >= 0
    assert tab.run(f"getComputedStyle({active}).outlineStyle") == "solid"
    tab.press("Enter", 13)
    assert tab.run("location.hash") == "#main"
    reached = set()
    for _ in range(60):
        tab.press("Tab", 9)
        reached.add(tab.run(f"{active}.tagName"))
        if tab.run(f"{active}.tagName") == "SUMMARY":
            break
    assert "SUMMARY" in reached
    before = tab.run(f"{active}.parentElement.open")
    tab.press(" ", 32)
    tab.press("Enter", 13) if tab.run(f"{active}.parentElement.open") == before else None
    assert not before and tab.run(f"{active}.parentElement.open")


def test_paper_is_light_and_holds_the_numbers_of_plots(tab, path):
    tab.look(width=760, dark=True, printed=True)
    tab.open(path)
    assert tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.run("document.documentElement.scrollWidth") <= 760
    assert tab.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert tab.run("document.querySelector('details table').getBoundingClientRect().height") > 20
    printed = tab.call("Page.printToPDF", printBackground=True)["data"]
    assert len(printed) > 20_000
