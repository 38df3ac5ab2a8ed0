"""A page as HTML: one file without scripts that asks for nothing from anywhere."""

from __future__ import annotations

from importlib.resources import files

from beam_bpe import __version__
from beam_bpe.report import figures
from beam_bpe.report.blocks import Code, Facts, Page, Plot, Table, Text

INSTALL = "pip install 'beam_bpe[report]'"


def html(page: Page) -> str:
    """Return the page; all text is escaped.

    Raises:
        ModuleNotFoundError: matplotlib or Jinja2 is not installed.
    """
    if not figures.available():
        raise ModuleNotFoundError(f"a report as a page needs matplotlib and Jinja2: {INSTALL}")
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    for name, kind in (("code", Code), ("text", Text), ("facts", Facts), ("table", Table)):
        environment.tests[name] = lambda value, kind=kind: isinstance(value, kind)
    here = files("beam_bpe.report")
    template = environment.from_string((here / "page.html.jinja").read_text(encoding="utf-8"))
    style = Markup((here / "page.css").read_text(encoding="utf-8").strip())

    def draw(plot: Plot) -> Markup:
        return Markup(figures.svg(plot))

    return template.render(page=page, style=style, version=__version__, draw=draw) + "\n"
