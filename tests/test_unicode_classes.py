"""The character classes of the scanners are those that their generator makes."""

import importlib.util
from importlib.metadata import version
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "cython_ext"


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("make_unicode_classes", FOLDER / "make_unicode_classes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_header_is_the_generated_one(generator):
    if version("regex") != generator.REGEX_VERSION:
        pytest.skip(f"regex is {version('regex')}; the tables are those of regex=={generator.REGEX_VERSION}")
    assert generator.header() == (FOLDER / "unicode_classes.h").read_text(encoding="ascii")


def test_another_regex_is_refused(generator, monkeypatch):
    monkeypatch.setattr(generator, "version", lambda name: "2026.1.1")
    with pytest.raises(SystemExit, match="regex is 2026.1.1; the tables need regex==2025.9.18"):
        generator.header()


def test_the_scanners_tell_the_unicode_version(generator):
    from beam_bpe import _scan

    assert _scan.UNICODE_VERSION == generator.UNICODE_VERSION == "16.0"
