"""Hugging Face's tokenizer.json: BPE of bytes or characters, WordPiece, word level and Unigram.

Ids equal those of `tokenizers` for `encode(text, add_special_tokens=False)`, special tokens being found
where they are allowed.  What is kept of the file for the way back and changes no id (post-processor,
decoder, truncation, padding, options of the model) stands in the layout's `origin`.
"""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import replace
from typing import Any, Iterable, Iterator, Mapping

import numpy as np

from beam_bpe import storage
from beam_bpe.artifacts import FormatError
from beam_bpe.formats import components, files, models, scored
from beam_bpe.formats.unsupported import Unsupported
from beam_bpe.layout import MOST_IDS, AddedToken, Layout
from beam_bpe.vocabulary import Vocabulary

FILE = "tokenizer.json"
_KEPT = ("post_processor", "decoder", "truncation", "padding")


def load(path: str) -> Vocabulary:
    """Read a tokenizer.json, or a folder that holds one.

    Raises:
        FormatError: it is broken, or has a component that cannot be represented exactly, which is named.
    """
    path = _file(path)
    content = files.read_json(path)
    try:
        return _read(content, path)
    except ValueError as error:
        raise FormatError(f"{path}: {str(error)[:1000]}") from None


def _file(path: str) -> str:
    path = os.fspath(path)
    return path if path.endswith(".json") else storage.join(path, FILE)


def _read(content: dict[str, Any], path: str) -> Vocabulary:
    model = content.get("model")
    if not isinstance(model, dict):
        if isinstance(content.get("config"), dict) and isinstance(content.get("vocab"), list):
            raise Unsupported("it is a tekken file, which is not read; a tokenizer.json or a rank file is")
        raise ValueError("it has no model: it is no tokenizer.json")
    normalizer = components.read_normalizer(content.get("normalizer"))
    pre_tokenizer, byte_level, normalizer = components.read_pre_tokenizer(content.get("pre_tokenizer"), normalizer)
    entries = content.get("added_tokens") or []
    if not isinstance(entries, list):
        raise ValueError("added_tokens is no list")
    added = tuple(components.read_added_token(entry) for entry in entries)
    prefix, suffix = components.read_post_processor(content.get("post_processor"))
    read = models.read_model(model, added, byte_level)
    added = tuple(_as_given(added, models.ids_of(model), path))
    if read.model.is_scored and pre_tokenizer.name not in ("none", "metaspace"):
        raise Unsupported(f"the model Unigram behind the pre-tokenizer {pre_tokenizer.name} cannot be represented; Metaspace can")
    origin = {name: content[name] for name in _KEPT if content.get(name) is not None}
    if read.kept:
        origin["model"] = read.kept
    layout = Layout(
        tokens=tuple(read.tokens),
        merged=read.merged,
        added_tokens=added,
        whole_pieces=read.whole_pieces,
        prefix=prefix,
        suffix=suffix,
        origin=origin,
        scores=_scores_of_ids(read.scores, added),
    )
    return Vocabulary.imported(
        layout,
        format="huggingface",
        pre_tokenizer=pre_tokenizer,
        left=read.left,
        right=read.right,
        normalizer=normalizer,
        model=read.model,
    )


def _scores_of_ids(scores: np.ndarray | None, added: Iterable[AddedToken]) -> np.ndarray | None:
    """Return scores by id up to the greatest one; an added token that is not in the vocab has 0."""
    if scores is None:
        return None
    size = max(len(scores), *(token.id + 1 for token in added), 0)
    return np.append(scores, np.zeros(size - len(scores)))


def _as_given(added: tuple[AddedToken, ...], vocab: Mapping[str, int], path: str) -> Iterator[AddedToken]:
    """Yield the added tokens with the ids that `tokenizers` gives them, which need not be those of the file."""
    ids = {token.id for token in added}
    if len(ids) < len(added) or not all(0 <= i < MOST_IDS for i in ids):
        yield from added  # an error that the layout tells
        return
    other = []
    for token, i in zip(added, given_ids((token.text for token in added), vocab)):
        if i != token.id:
            other.append(f"{token.text[:80]!r} the id {i}, not {token.id}")
        yield replace(token, id=i)
    if other:
        warnings.warn(
            f"{path}: tokenizers gives an added token the id that it has in the vocab, or else the next one, and so it is here: "
            f"{', '.join(other[:3])}{', ...' if len(other) > 3 else ''}",
            stacklevel=2,
        )


def given_ids(texts: Iterable[str], vocab: Mapping[str, int]) -> Iterator[int]:
    """Yield the ids that `tokenizers` gives added tokens, in this order, beside the vocab of a model.

    >>> list(given_ids(["c", "a", "d"], {"a": 0, "b": 1}))
    [2, 0, 3]
    """
    following = len(vocab)
    for text in texts:
        yield vocab.get(text, following)
        following += text not in vocab


# ---- writing ----


def content_of(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return what a tokenizer.json of a vocabulary holds.

    Raises:
        ValueError: tokenizers has no counterpart of a part of it; the message says which would be lost.
    """
    layout, model = vocabulary.layout, vocabulary.model
    origin: dict[str, Any] = dict(layout.origin) if layout is not None else {}
    vocab = models.write_vocab(vocabulary)
    added = sorted(vocabulary.added_tokens, key=lambda token: token.id)
    _place(added, vocab, vocabulary)
    section = models.write_model(vocabulary, vocab, origin.get("model", {}))
    return {
        "version": "1.0",
        "truncation": origin.get("truncation"),
        "padding": origin.get("padding"),
        "added_tokens": [components.write_added_token(token) for token in added],
        "normalizer": components.write_normalizer(vocabulary.normalizer),
        "pre_tokenizer": components.write_pre_tokenizer(vocabulary.pre_tokenizer, model.is_byte_level, vocabulary.normalizer),
        "post_processor": origin.get("post_processor"),
        "decoder": origin.get("decoder") or models.write_decoder(model, vocabulary.normalizer),
        "model": section,
    }


def _place(added: list[AddedToken], vocab: dict[str, int], vocabulary: Vocabulary) -> None:
    """Put added tokens into the vocab: those that the model needs there, and all if they would get other ids otherwise."""
    for token in added:
        if vocab.get(token.text, token.id) != token.id:
            raise ValueError(f"a tokenizer.json spells the added token {token.text!r} like the token {vocab[token.text]}")
    unk = vocabulary.unk_id
    if vocabulary.model.algorithm == "unigram":  # which finds in a text what is there: those behind its pieces are not
        assert unk is not None
        end = max(len(vocabulary.tokens), unk + 1)
        vocab.update((token.text, token.id) for token in added if token.id < end)
    elif not vocabulary.model.is_byte_level:  # WordPiece and word level have all of theirs there; unk_token must be
        vocab.update((token.text, token.id) for token in added if token.special or token.id == unk)
    if list(given_ids((token.text for token in added), vocab)) != [token.id for token in added]:
        vocab.update((token.text, token.id) for token in added)


def save(vocabulary: Vocabulary, path: str, *, overwrite: bool = False, verify: bool = True) -> None:
    """Write a tokenizer.json for `tokenizers` and `transformers.PreTrainedTokenizerFast`.

    Args:
        path: of the file; a folder's gets the name tokenizer.json.
        verify: first encode a set of difficult texts with `tokenizers` (which must be installed) and
            compare their ids with ours.

    Unigram that sums scores in 32 bits, as SentencePiece does, is written too: where two ways to cut a text score the same
    but for rounding, tokenizers, which sums in 64 bits, may take the other one.

    Raises:
        ValueError: tokenizers cannot give the same ids; the message says why, or for which text.
        ImportError: `tokenizers` is not installed, and verify is set.
    """
    path = _file(path)
    data = json.dumps(content_of(vocabulary), ensure_ascii=False, indent=1).encode() + b"\n"
    if verify:
        _verify(vocabulary, data)
    files.write(path, data, overwrite)


def _verify(vocabulary: Vocabulary, data: bytes) -> None:
    from beam_bpe.formats.difficult import TEXTS, own_texts
    from beam_bpe.tokenizer import Tokenizer

    try:
        import tokenizers
    except ImportError:
        raise ImportError(
            "a tokenizer.json is compared with `tokenizers` before it is written: pip install tokenizers, or give verify=False "
            "(--no-verify)"
        ) from None
    ours = Tokenizer(vocabulary)
    try:
        theirs = tokenizers.Tokenizer.from_str(data.decode())
        theirs.no_truncation()
        for text in [*TEXTS, *own_texts(vocabulary)]:
            expected = theirs.encode(text, add_special_tokens=False).ids
            found = ours.encode(text, allowed_special="all")
            if found != expected and not scored.is_rounding(vocabulary, found, expected):
                raise ValueError(
                    f"tokenizers would encode {text[:80]!r} as {expected[:12]}, we do as {found[:12]}: this vocabulary cannot "
                    "be said in a tokenizer.json"
                )
    except ValueError:
        raise
    except BaseException as error:  # what Rust panics with is no Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"tokenizers cannot take this vocabulary: {str(error)[:200]}") from None
