"""SentencePiece's models as vocabularies: BPE by scores and Unigram; the file itself is read in `formats.model_file`.

Ids equal those of `sentencepiece` for `encode(text)`.  Control symbols and the unknown piece are special tokens, which
sentencepiece finds in no text.  What is kept of the file for the way back and changes no id (how it was trained, and fields
that are not known) stands in the layout's `origin`, so that a file that is read and written has the same bytes.
"""

from __future__ import annotations

import base64
import os
from typing import Any, Mapping, Sequence

import numpy as np

from beam_bpe import charsmap, storage
from beam_bpe.artifacts import FormatError
from beam_bpe.formats import MODEL_FILES, files
from beam_bpe.formats.scored import is_rounding
from beam_bpe.formats.model_file import (
    KINDS,
    SentencePieceModel,
    content_of,
    model_of,
    read_model,
    write_model,
)
from beam_bpe.layout import AddedToken, Layout
from beam_bpe.model import Model, byte_token
from beam_bpe.normalize import steps_of
from beam_bpe.pretokenize import pre_tokenizer
from beam_bpe.vocabulary import Vocabulary

__all__ = ["KINDS", "SentencePieceModel", "content_of", "model_of", "read_model", "write_model"]
__all__ += ["load", "save", "vocabulary_of", "model_of_vocabulary"]

_ALGORITHMS = {"bpe": "sentencepiece-bpe", "unigram": "unigram"}
_ORIGIN = "sentencepiece"
#: Pieces that mean something to sentencepiece, where they are control symbols.
_META = {"bos": "<s>", "eos": "</s>", "pad": "<pad>"}
#: Parameters of the training that the file has a place for, with their names in it.
_TRAINED = {
    "character_coverage": "character_coverage",
    "max_token_length": "max_sentencepiece_length",
    "split_digits": "split_digits",
    "split_by_unicode_script": "split_by_unicode_script",
    "split_by_number": "split_by_number",
}


def load(path: str) -> Vocabulary:
    """Read a .model file, or a folder that holds one, as a vocabulary.

    Raises:
        FormatError: it is damaged, or holds what cannot be represented exactly, which is named.
        ImportError: it has a precompiled normalizer, and the sentencepiece package, which runs it, is not installed.
    """
    path = _file(path)
    model = read_model(path)
    try:
        return vocabulary_of(model)
    except ValueError as error:
        raise FormatError(f"{path}: {str(error)[:1000]}") from None


def _file(path: str) -> str:
    path = os.fspath(path)
    for name in MODEL_FILES:
        if storage.exists(there := storage.join(path, name)):
            return there
    return path


def vocabulary_of(model: SentencePieceModel) -> Vocabulary:
    """Return the vocabulary of a model.

    Raises:
        ValueError: it cannot be represented exactly; the message says why.
        ImportError: as of `load`.
    """
    kind = model.option("model_type")
    if kind not in _ALGORITHMS:
        raise ValueError(f"the model_type {kind!r} cannot be represented; {' and '.join(_ALGORITHMS)} can")
    if (model.denormalizer or {}).get("precompiled_charsmap"):
        raise ValueError("it has a denormalizer, which changes decoded text and cannot be represented")
    if kind == "unigram" and "normal" not in model.kinds:
        raise ValueError("a Unigram model needs a normal piece, whose score says what an unknown character scores")
    if not model.option("unk_surface"):
        raise ValueError("unk_surface='': that unknown text decodes to nothing cannot be represented")
    outside = ("unknown", "control")
    tokens = [b"" if kind in outside else piece.encode() for piece, kind in zip(model.pieces, model.kinds)]
    while tokens and not tokens[-1]:
        tokens.pop()
    own = Model(
        algorithm=_ALGORITHMS[kind],
        unit="character",
        unk_token=model.pieces[model.kinds.index("unknown")],
        byte_fallback=model.option("byte_fallback"),
        single_precision=kind == "unigram",
        unk_surface=model.option("unk_surface"),
    )
    layout = Layout(
        tokens=tuple(tokens),
        merged=np.empty(0, np.uint32),
        added_tokens=tuple(
            AddedToken(piece, i) for i, (piece, kind) in enumerate(zip(model.pieces, model.kinds)) if kind in outside
        ),
        origin={_ORIGIN: _origin(model)},
        scores=model.scores.astype(np.float64),
        user_defined=_of_kind(model, "user_defined"),
        unused=_of_kind(model, "unused"),
    )
    return Vocabulary.imported(
        layout, format="sentencepiece", pre_tokenizer=pre_tokenizer("none"), normalizer=_normalizer_of(model), model=own
    )


def _of_kind(model: SentencePieceModel, kind: str) -> tuple[int, ...]:
    return tuple([i for i, one in enumerate(model.kinds) if one == kind])


def _normalizer_of(model: SentencePieceModel) -> str | None:
    """Return the name of the normalizer of a model."""
    tables = model.option("precompiled_charsmap")
    suffix, dummy, removes, escapes = (
        model.option(name)
        for name in ("treat_whitespace_as_suffix", "add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces")
    )
    if removes and not escapes:
        raise ValueError("remove_extra_whitespaces without escape_whitespaces cannot be represented")
    steps = [charsmap.step_of(tables, model.option("name"))] if tables else []
    steps += ["remove_extra_whitespaces"] if removes else []
    steps += ["dummy_suffix" if suffix else "dummy_prefix"] if dummy else []
    steps += ["escape_whitespaces"] if escapes else []
    return "+".join(steps) or None


def _origin(model: SentencePieceModel) -> dict[str, Any]:
    """Return what is kept for the way back, as JSON has it; the charsmap stands in the normalizer."""
    normalizer = dict(model.normalizer)
    if "precompiled_charsmap" in normalizer:
        normalizer.pop("precompiled_charsmap")
        normalizer |= {} if model.normalizer["precompiled_charsmap"] else {"precompiled_charsmap": ""}
    kept: dict[str, Any] = {
        "trainer": {name: list(value) if isinstance(value, tuple) else value for name, value in model.trainer.items()},
        "normalizer": normalizer,
        "scores_meta": model.scores_meta,
    }
    if model.denormalizer is not None:
        kept["denormalizer"] = {name: value for name, value in model.denormalizer.items() if name != "precompiled_charsmap"}
        kept["denormalizer"] |= {"precompiled_charsmap": ""} if "precompiled_charsmap" in model.denormalizer else {}
    if model.others:
        kept["others"] = {name: base64.b64encode(raw).decode() for name, raw in model.others.items()}
    return kept


def _spec_of(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part of the origin as the model has it."""
    spec = {name: tuple(value) if isinstance(value, list) else value for name, value in kept.items()}
    if "precompiled_charsmap" in spec:
        spec["precompiled_charsmap"] = b""
    return spec


# ---- writing -------------------------------------------------------------------------------------


def save(vocabulary: Vocabulary, path: str, *, overwrite: bool = False, verify: bool = True) -> None:
    """Write a .model file.

    Args:
        path: of the file; a folder's gets the name tokenizer.model.
        verify: first encode a set of difficult texts with `sentencepiece` (which must be installed) and compare their
            ids with ours.

    Raises:
        ValueError: sentencepiece cannot give the same ids; the message says why, or for which text.
        FileExistsError: something else stands there, and `overwrite` is not set.
        ImportError: `sentencepiece` is not installed, and verify is set.
    """
    try:
        data = content_of(model_of_vocabulary(vocabulary))
    except (AttributeError, KeyError, TypeError) as error:
        if vocabulary.layout is None or _ORIGIN not in vocabulary.layout.origin:
            raise
        raise ValueError(f"what the vocabulary keeps of its .model file is damaged: {str(error)[:200]}") from None
    if verify:
        _verify(vocabulary, data)
    path = os.fspath(path)
    files.write(path if path.endswith(".model") else storage.join(path, MODEL_FILES[0]), data, overwrite)


def model_of_vocabulary(vocabulary: Vocabulary) -> SentencePieceModel:
    """Return the model that sentencepiece takes for a vocabulary.

    Unigram with sums of 64 bits becomes one with sums of 32 bits, which may cut a text in another way where two ways score
    nearly the same.

    Raises:
        ValueError: it cannot hold the vocabulary; the message says what would be lost.
    """
    model, layout = vocabulary.model, vocabulary.layout
    if not model.is_scored or layout is None or layout.scores is None:
        raise ValueError(
            f"a .model holds {' or '.join(_ALGORITHMS.values())}, and the vocabulary is {model.algorithm} of {model.unit}s"
        )
    if vocabulary.pre_tokenizer.name not in ("none", "metaspace"):
        raise _lost(f"the pre-tokenizer {vocabulary.pre_tokenizer.name!r} (whole texts are meant by it)")
    if vocabulary.pre_tokenizer.name == "metaspace" and not model.single_precision and model.algorithm == "unigram":
        inside = next((token for token in vocabulary.tokens if "\u2581" in token.decode()[1:]), None)
        if inside:
            raise _lost(f"that words are cut alone, where {inside.decode()!r} goes beyond one")
    scores = layout.scores.astype(np.float32)
    if not np.array_equal(scores, layout.scores):
        i = int(np.argmax(scores != layout.scores))
        raise ValueError(
            f"a .model has scores of 32 bits, and that of id {i} is {layout.scores[i]!r}: its last digits would be lost"
        )
    pieces, kinds = _pieces(vocabulary, layout)
    kept = layout.origin.get(_ORIGIN, {})
    normalizer, as_suffix = _write_normalizer(vocabulary.normalizer, _spec_of(kept.get("normalizer", {"name": ""})))
    trainer = _spec_of(kept["trainer"]) if "trainer" in kept else _trainer(vocabulary, pieces, kinds)
    decisive = {
        "model_type": next(kind for kind, name in _ALGORITHMS.items() if name == model.algorithm),
        "byte_fallback": model.byte_fallback,
        **({} if as_suffix is None else {"treat_whitespace_as_suffix": as_suffix}),
        "unk_piece": model.unk_token,
        "unk_surface": model.unk_surface or model.unk_token,
    }
    _update(trainer, decisive)
    return SentencePieceModel(
        pieces=tuple(pieces),
        scores=scores,
        kinds=tuple(kinds),
        trainer=trainer,
        normalizer=normalizer,
        denormalizer=_spec_of(kept["denormalizer"]) if "denormalizer" in kept else None,
        others={name: base64.b64decode(raw) for name, raw in kept.get("others", {}).items()},
        scores_meta=kept.get("scores_meta", True),
    )


def _lost(what: str) -> ValueError:
    return ValueError(
        f"a .model cannot say {what}, which would be lost: write a tokenizer.json, or keep it in our own files"
    )


def _update(spec: dict[str, Any], wanted: Mapping[str, Any]) -> None:
    """Set options that have another value, or another default."""
    bare = SentencePieceModel(("<unk>",), np.zeros(1), ("unknown",))
    for name, value in wanted.items():
        if (spec[name] if name in spec else bare.option(name)) != value:
            spec[name] = value


def _pieces(vocabulary: Vocabulary, layout: Layout) -> tuple[list[str], list[str]]:
    """Return the pieces and their kinds, by id."""
    pieces = [token.decode() for token in layout.tokens]
    pieces += [""] * (layout.size - len(pieces))
    kinds = ["normal"] * layout.size
    if vocabulary.model.byte_fallback:
        for byte in range(256):
            kinds[layout.ids[byte_token(byte).encode()]] = "byte"
    for kind, ids in (("user_defined", layout.user_defined), ("unused", layout.unused)):
        for i in ids:
            kinds[i] = kind
    for token in layout.added_tokens:
        if not token.special or not token.plain:
            raise _lost(f"that {token.text!r} is an added token{'' if not token.special else ' with options of its own'}")
        pieces[token.id], kinds[token.id] = token.text, "control"
    assert vocabulary.unk_id is not None  # of all models with scores
    kinds[vocabulary.unk_id] = "unknown"
    if "" in pieces:
        raise ValueError(
            f"a .model has a piece for every id, and there is none of id {pieces.index('')}: write a tokenizer.json"
        )
    return pieces, kinds


def _write_normalizer(name: str | None, kept: dict[str, Any]) -> tuple[dict[str, Any], bool | None]:
    """Return what NormalizerSpec says, and whether the dummy space stands behind a text; None if there is none."""
    steps = list(steps_of(name)) if name is not None else []
    tables, rule = b"", "identity"
    if steps and charsmap.is_charsmap(steps[0]):
        step = steps.pop(0)
        rule = step.removeprefix(charsmap.SHIPPED) if step.startswith(charsmap.SHIPPED) else "user_defined"
        tables = charsmap.shipped(rule) if rule in charsmap.RULES else charsmap.unpacked(step)
    order = ("remove_extra_whitespaces", "dummy_prefix", "dummy_suffix", "escape_whitespaces")
    if [step for step in order if step in steps] != steps or {"dummy_prefix", "dummy_suffix"} <= set(steps):
        shown = "+".join(step[:60] for step in steps_of(name or ""))
        raise _lost(f"the normalizer {shown!r} (a precompiled one, {', '.join(order)}, in this order, can be said)")
    if "remove_extra_whitespaces" in steps and "escape_whitespaces" not in steps:
        raise _lost("remove_extra_whitespaces without escape_whitespaces")
    if tables:
        kept["precompiled_charsmap"] = tables
    if kept.get("name") in ("", "identity", *charsmap.RULES) and (rule != "user_defined" or not kept["name"]):
        kept["name"] = rule
    said = {
        "add_dummy_prefix": "dummy_prefix" in steps or "dummy_suffix" in steps,
        "remove_extra_whitespaces": "remove_extra_whitespaces" in steps,
        "escape_whitespaces": "escape_whitespaces" in steps,
    }
    _update(kept, said)
    return kept, "dummy_suffix" in steps if said["add_dummy_prefix"] else None


def _trainer(vocabulary: Vocabulary, pieces: Sequence[str], kinds: Sequence[str]) -> dict[str, Any]:
    """Return what TrainerSpec says of a vocabulary that no .model file had: its size, meta pieces and parameters."""
    meta = {name: pieces.index(piece) if piece in pieces else -1 for name, piece in _META.items()}
    meta = {name: i if i >= 0 and kinds[i] == "control" else -1 for name, i in meta.items()}
    own = {*meta.values(), vocabulary.unk_id}
    said: dict[str, Any] = {
        "vocab_size": len(pieces),
        "control_symbols": tuple([pieces[i] for i, kind in enumerate(kinds) if kind == "control" and i not in own]),
        "user_defined_symbols": tuple([pieces[i] for i, kind in enumerate(kinds) if kind == "user_defined"]),
        "unk_id": vocabulary.unk_id,
        **{f"{name}_id": i for name, i in meta.items()},
    }
    for name, theirs in _TRAINED.items():
        value = vocabulary.parameters.get(name)
        if value is not None:
            said[theirs] = float(value) if theirs == "character_coverage" else value
    return {name: value for name, value in said.items() if value != ()}


def _verify(vocabulary: Vocabulary, data: bytes) -> None:
    from beam_bpe.formats.difficult import TEXTS, own_texts
    from beam_bpe.tokenizer import Tokenizer

    try:
        import sentencepiece
    except ImportError:
        raise ImportError(
            "a .model is compared with `sentencepiece` before it is written: pip install 'beam-bpe[sentencepiece]', or give "
            "verify=False (--no-verify)"
        ) from None
    ours = Tokenizer(vocabulary)
    try:
        theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    except RuntimeError as error:
        raise ValueError(f"sentencepiece cannot take this vocabulary: {str(error)[:200]}") from None
    texts = [*TEXTS, *own_texts(vocabulary)]
    for text, expected, found in zip(texts, theirs.encode(texts), ours.encode_batch(texts, disallowed_special=())):
        if found.tolist() != expected and not is_rounding(vocabulary, found.tolist(), expected):
            raise ValueError(
                f"sentencepiece would encode {text[:80]!r} as {expected[:12]}, we do as {found[:12].tolist()}: this vocabulary "
                "cannot be said in a .model"
            )
