"""Compile each kernel ``cython_ext/NAME.pyx`` into the extension module ``beam_bpe._NAME``.

Everything else about the project is declared in pyproject.toml.
"""

import sys
from pathlib import Path

from setuptools import Extension, setup

KERNELS = ("scan", "words", "merge", "encode", "normalize", "unigram", "statistics")
HEADERS = sorted(str(path) for path in Path("cython_ext").glob("*.h"))

setup(
    ext_modules=[
        Extension(
            f"beam_bpe._{name}",
            sources=[f"cython_ext/{name}.pyx"],
            include_dirs=["cython_ext"],
            depends=HEADERS,  # rebuilt when one changes, and shipped in the sdist
            extra_compile_args=[] if sys.platform == "win32" else ["-O3", "-g0", "-ffp-contract=off"],
        )
        for name in KERNELS
    ],
    options={
        "build_ext": {
            "cython_c_in_temp": True,  # keeps the generated C out of cython_ext/
            "cython_directives": {
                "language_level": "3",
                "boundscheck": False,
                "wraparound": False,
                "initializedcheck": False,
                "cdivision": True,
                "autotestdict": False,
            },
        }
    },
)
