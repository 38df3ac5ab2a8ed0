"""SentencePiece's precompiled normalizers as steps: those that its package ships, and those of files.

"sentencepiece:nmt_nfkc" is a rule of the package; "charsmap:..." holds the tables of another one, compressed and in base64, so
that a vocabulary is whole without its file.  The package runs both.  "precompiled:..." are such tables as Hugging Face
`tokenizers` runs them (`precompiled`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import zlib
from functools import lru_cache
from typing import Any, Collection, Sequence

import numpy as np

from beam_bpe import _normalize
from beam_bpe.precompiled import check_charsmap
from beam_bpe.texts import changed

#: The rules that the package ships, beside "identity".
RULES = ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf")
SHIPPED, EMBEDDED, PRECOMPILED = "sentencepiece:", "charsmap:", "precompiled:"

#: The tables of today have 0.25 MB.
MOST_BYTES = 1 << 24

#: The steps about spaces, in the order in which SentencePiece takes them.
SPACE_STEPS = ("remove_extra_whitespaces", "dummy_prefix", "dummy_suffix", "escape_whitespaces")

_BPE, _UNKNOWN, _USER_DEFINED = 2, 2, 4  # numbers of the package's messages
_PRINTABLE = bytes(range(0x20, 0x7F))


def is_charsmap(step: str) -> bool:
    """Whether a normalizer step is a precompiled normalizer."""
    return step.startswith((SHIPPED, EMBEDDED, PRECOMPILED))


def is_of_package(step: str) -> bool:
    """Whether a normalizer step is a precompiled normalizer that the sentencepiece package runs."""
    return step.startswith((SHIPPED, EMBEDDED))


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
    """Return the step of the tables of a model file: by the name of its rule, if the package has the same.

    Raises:
        ImportError: the sentencepiece package is not installed.
    """
    _package()
    return SHIPPED + rule if rule in RULES and shipped(rule) == charsmap else embedded(charsmap)


def identity(step: str) -> str:
    """Return a step that holds tables with their SHA-256 in their place, any other as it is."""
    return step if step.startswith(SHIPPED) else f"{step.partition(':')[0]}:{digest(step)}"


def digest(step: str) -> str:
    """Return the SHA-256 of a step's tables, for artifacts."""
    return hashlib.sha256(shipped(step[len(SHIPPED) :]) if step.startswith(SHIPPED) else unpacked(step)).hexdigest()


class Charsmap:
    """A precompiled normalizer as a pass over documents, with the steps about spaces that follow it.

    Args:
        step: it.
        spaces: those of "remove_extra_whitespaces", "dummy_prefix", "dummy_suffix" and "escape_whitespaces" that follow.
        symbols: texts that are left as they are wherever they occur, the longest first.

    Raises:
        ImportError: the sentencepiece package is not installed.
        ValueError: it cannot take the symbols: one is too long, or holds NUL.
    """

    def __init__(self, step: str, spaces: Collection[str] = (), symbols: Sequence[str] = ()):
        from beam_bpe.formats import model_proto

        tables = shipped(step[len(SHIPPED) :]) if step.startswith(SHIPPED) else unpacked(step)
        model = model_proto.messages()["ModelProto"]()
        unknown = next(char for char in map(chr, range(0xE000, 0x110000)) if char not in symbols)  # which must be there
        model.pieces.add(piece=unknown.encode(), type=_UNKNOWN)
        for symbol in symbols:
            model.pieces.add(piece=symbol.encode(), type=_USER_DEFINED)
        spec = model.normalizer_spec
        spec.precompiled_charsmap = tables
        spec.add_dummy_prefix = spec.remove_extra_whitespaces = spec.escape_whitespaces = False
        package = _package()
        bare = package.SentencePieceNormalizer(normalizer_spec=spec.SerializeToString())
        spec.add_dummy_prefix = "dummy_prefix" in spaces or "dummy_suffix" in spaces
        spec.remove_extra_whitespaces = "remove_extra_whitespaces" in spaces
        spec.escape_whitespaces = "escape_whitespaces" in spaces
        model.trainer_spec.model_type = _BPE
        model.trainer_spec.treat_whitespace_as_suffix = "dummy_suffix" in spaces
        try:
            self._normalizer = package.SentencePieceProcessor(model_proto=model.SerializeToString())
        except RuntimeError as error:
            raise ValueError(f"sentencepiece cannot take the user-defined symbols: {str(error)[:200]}") from None
        self._spacing = _normalize.Spacing(*(one in spaces for one in SPACE_STEPS))
        self._spaced = bool(spaces)
        self._keeps_ascii = bare.normalize(_PRINTABLE) == _PRINTABLE
        plain = [re.escape(symbol.encode()) for symbol in symbols if symbol.isascii()]
        self._symbols = re.compile(b"|".join(plain)).search if plain else None

    def documents(self, data: Any, bounds: Any) -> tuple[bytes, bytes]:
        """Return documents normalized, side by side, and their bounds as packed int64 numbers."""
        return changed(data, bounds, self._of)

    def _of(self, text: bytes) -> bytes:
        if not self._keeps_ascii or not _is_printable(text) or (self._symbols is not None and self._symbols(text)):
            made: bytes = self._normalizer.normalize(text)
            return made
        return self._spacing.documents(text, np.array([0, len(text)], np.int64))[0] if self._spaced else text


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
