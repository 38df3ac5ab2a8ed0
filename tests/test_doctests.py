"""The examples in docstrings are true."""

import doctest
import importlib
import pkgutil

import pytest

import beam_bpe

MODULES = sorted(
    module.name for module in pkgutil.walk_packages(beam_bpe.__path__, "beam_bpe.") if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(found) >= 20
