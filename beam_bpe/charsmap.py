"""SentencePiece's precompiled normalizers as steps: those that its package ships, and those of files.

"sentencepiece:nmt_nfkc" is a rule of the package; "charsmap:..." holds the tables of another one, compressed and in base64, so
that a vocabulary is whole without its file.  The package runs both.  "precompiled:..." are such tables as Hugging Face
`tokenizers` runs them (`precompiled`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from functools import lru_cache
from typing import Any

import numpy as np

from beam_bpe.precompiled import check_charsmap

#: The rules that the package ships, beside "identity".
RULES = ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf")
SHIPPED, EMBEDDED, PRECOMPILED = "sentencepiece:", "charsmap:", "precompiled:"

#: The tables of today have 0.25 MB.
MOST_BYTES = 1 << 24

_PRINTABLE = bytes(range(0x20, 0x7F))


def is_charsmap(step: str) -> bool:
    """Whether a normalizer step is a precompiled normalizer."""
    return step.startswith((SHIPPED, EMBEDDED, PRECOMPILED))


def check(step: str) -> None:
    """Raise ValueError if there is no such precompiled normalizer."""
    if step.startswith(SHIPPED):
        if step[len(SHIPPED) :] not in RULES:
            raise ValueError(f"there is no normalizer {step[:60]!r}; sentencepiece has {', '.join(SHIPPED + rule for rule in RULES)}")
    else:
        unpacked(step)


def embedded(charsmap: bytes, kind: str = EMBEDDED) -> str:
    """Return the step that holds the tables of a precompiled normalizer."""
    return kind + base64.urlsafe_b64encode(zlib.compress(charsmap, 9)).decode()


@lru_cache(8)
def unpacked(step: str) -> bytes:
    """Return the tables that a step holds; ValueError if they are damaged."""
    kind, _, packed = step.partition(":")
    try:
        inflating = zlib.decompressobj()
        tables = inflating.decompress(base64.urlsafe_b64decode(packed.encode()), MOST_BYTES)
    except (ValueError, binascii.Error, zlib.error) as error:
        raise ValueError(f"the step {kind!r} of the normalizer is damaged: {error}") from None
    if not inflating.eof:
        raise ValueError(f"the step {kind!r} of the normalizer is cut off, or has more than {MOST_BYTES:,} bytes")
    check_charsmap(tables)
    return tables


@lru_cache(8)
def shipped(rule: str) -> bytes:
    """Return the tables of a rule of the package; ImportError if it is not installed."""
    from beam_bpe.formats import model_proto

    package = _package()
    spec = model_proto.messages()["NormalizerSpec"].FromString(
        package.SentencePieceNormalizer(rule_name=rule).serialized_normalizer_spec()
    )
    tables: bytes = spec.precompiled_charsmap
    return tables


def step_of(charsmap: bytes, rule: str = "") -> str:
    """Return the step of the tables of a model file: by the name of its rule, if the package has the same."""
    try:
        named = rule in RULES and shipped(rule) == charsmap
    except ImportError:
        named = False
    return SHIPPED + rule if named else embedded(charsmap)


def digest(step: str) -> str:
    """Return the SHA-256 of a step's tables, for artifacts."""
    return hashlib.sha256(shipped(step[len(SHIPPED) :]) if step.startswith(SHIPPED) else unpacked(step)).hexdigest()


class Charsmap:
    """A precompiled normalizer as a pass over documents.

    Raises:
        ImportError: the sentencepiece package is not installed.
    """

    def __init__(self, step: str):
        from beam_bpe.formats import model_proto

        tables = shipped(step[len(SHIPPED) :]) if step.startswith(SHIPPED) else unpacked(step)
        spec = model_proto.messages()["NormalizerSpec"]()
        spec.precompiled_charsmap = tables
        spec.add_dummy_prefix = spec.remove_extra_whitespaces = spec.escape_whitespaces = False
        self._normalizer = _package().SentencePieceNormalizer(normalizer_spec=spec.SerializeToString())
        self._keeps_ascii = self._normalizer.normalize(_PRINTABLE) == _PRINTABLE

    def documents(self, data: Any, bounds: np.ndarray) -> tuple[bytes, bytes]:
        """Return documents normalized, side by side, and their bounds as packed int64 numbers."""
        view = memoryview(data)
        parts = [bytes(view[start:end]) for start, end in zip(bounds[::2].tolist(), bounds[1::2].tolist())]
        made = [part if self._keeps_ascii and _is_printable(part) else self._normalizer.normalize(part) for part in parts]
        ends = np.cumsum([0, *map(len, made)], dtype=np.int64)
        return b"".join(made), np.repeat(ends, 2)[1:-1].tobytes()


def _is_printable(data: bytes) -> bool:
    return data.isascii() and not data.translate(None, _PRINTABLE)


def _package() -> Any:
    try:
        import sentencepiece
    except ImportError:
        raise ImportError(
            "SentencePiece's precompiled normalizers are run by its own package: pip install 'beam-bpe[sentencepiece]'"
        ) from None
    return sentencepiece
