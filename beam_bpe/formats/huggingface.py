"""Hugging Face's tokenizer.json with a byte-level BPE model.

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
from beam_bpe.formats import bytelevel, components, files
from beam_bpe.layout import MOST_IDS, AddedToken, Layout
from beam_bpe.vocabulary import Vocabulary

FILE = "tokenizer.json"
_KEPT = ("post_processor", "decoder", "truncation", "padding")
_REFUSED = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")


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
        raise FormatError(f"{path}: {error}") from None


def _file(path: str) -> str:
    path = os.fspath(path)
    return path if path.endswith(".json") else storage.join(path, FILE)


def _read(content: dict[str, Any], path: str) -> Vocabulary:
    model = content.get("model")
    if not isinstance(model, dict):
        if isinstance(content.get("config"), dict) and isinstance(content.get("vocab"), list):
            raise components.Unsupported("it is a tekken file, which is not read; a tokenizer.json or a rank file is")
        raise ValueError("it has no model: it is no tokenizer.json")
    if model.get("type", "BPE") != "BPE" or not isinstance(model.get("merges"), list):
        raise components.Unsupported(f"the model {model.get('type')} cannot be represented; a byte-level BPE can")
    for name in _REFUSED:
        if model.get(name):
            raise components.Unsupported(f"the model's {name}={model[name]!r} cannot be represented")
    normalizer = components.read_normalizer(content.get("normalizer"))
    pre_tokenizer = components.read_pre_tokenizer(content.get("pre_tokenizer"))
    entries = content.get("added_tokens") or []
    if not isinstance(entries, list):
        raise ValueError("added_tokens is no list")
    added = tuple(components.read_added_token(entry) for entry in entries)
    prefix, suffix = components.read_post_processor(content.get("post_processor"))
    tokens = read_vocab(model.get("vocab"), added, whole_pieces=bool(model.get("ignore_merges")))
    added = tuple(_as_given(added, model["vocab"], path))
    left, right, merged = read_merges(model["merges"], tokens)
    origin = {name: content[name] for name in _KEPT if content.get(name) is not None}
    for name in ("unk_token", "fuse_unk"):
        if model.get(name):
            origin.setdefault("model", {})[name] = model[name]
    layout = Layout(
        tokens=tuple(tokens),
        merged=merged,
        added_tokens=added,
        whole_pieces=bool(model.get("ignore_merges")),
        prefix=prefix,
        suffix=suffix,
        origin=origin,
    )
    nothing = np.zeros(len(merged), np.int64)
    return Vocabulary(
        pre_tokenizer=pre_tokenizer,
        alphabet=layout.alphabet,
        left=left,
        right=right,
        counts=nothing,
        replaced=nothing,
        special_tokens=tuple(token.text for token in added if token.special),
        normalizer=normalizer,
        stop_reason="imported",
        parameters={"format": "huggingface"},
        layout=layout,
    )


def _as_given(added: tuple[AddedToken, ...], vocab: Mapping[str, int], path: str) -> Iterator[AddedToken]:
    """Yield the added tokens with the ids that `tokenizers` gives them, which need not be those of the file."""
    ids = {token.id for token in added}
    if len(ids) < len(added) or not all(0 <= i < MOST_IDS for i in ids):
        yield from added  # an error that the layout tells
        return
    other = []
    for token, i in zip(added, given_ids((token.text for token in added), vocab)):
        if i != token.id:
            other.append(f"{token.text!r} the id {i}, not {token.id}")
        yield replace(token, id=i)
    if other:
        warnings.warn(
            f"{path}: tokenizers gives an added token that is not in the vocab the next id, and so it is here: "
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


def read_vocab(vocab: Any, added: tuple[AddedToken, ...], whole_pieces: bool = False) -> list[bytes]:
    """Return the tokens by id, b"" for a hole, of the vocab of a byte-level model (token → id)."""
    if not isinstance(vocab, dict) or not vocab:
        raise ValueError("the model has no vocab")
    ids = vocab.values()
    if not all(type(i) is int for i in ids):
        raise ValueError(f"the id of a token is no whole number: {next(i for i in ids if type(i) is not int)!r}")
    if min(ids) < 0 or max(ids) >= MOST_IDS:
        raise ValueError(f"the vocab has ids from {min(ids)} to {max(ids)}; they must be from 0 to {MOST_IDS - 1:,}")
    if len(set(ids)) != len(vocab):
        seen: dict[int, str] = {}
        first, second = next((seen[i], text) for text, i in vocab.items() if seen.setdefault(i, text) != text)
        raise ValueError(f"the tokens {first!r} and {second!r} of the vocab have one id")
    outside = {token.text: token.id for token in added}
    tokens = [b""] * (max(ids) + 1)
    for text, i in vocab.items():
        token = bytelevel.token_of(text)
        if text in outside:
            if outside[text] != i:
                raise ValueError(f"the added token {text!r} has the id {outside[text]}, in the vocab it has {i}")
            if token is None or (token != text.encode() and len(token) > 1 and not whole_pieces):
                continue  # of another spelling than that of the model's bytes: no merge and no word gives it
            if token != text.encode():
                raise ValueError(f"the added token {text!r} is spelt as the vocab spells the token {token!r}")
        if not token:
            raise ValueError(f"the token {text!r} of id {i} is not spelt in the characters of a byte-level vocabulary")
        tokens[i] = token
    return tokens


def read_merges(merges: list[Any], tokens: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ids of the parts and of the token of each merge, given as "a b" or ["a", "b"]."""
    ids = {token: i for i, token in enumerate(tokens) if token}
    columns = np.empty((3, len(merges)), np.uint32)
    for rank, merge in enumerate(merges):
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, str) for part in parts):
            raise ValueError(f"the merge of rank {rank} is {str(merge)[:80]!r}, not two tokens")
        a, b = bytelevel.token_of(parts[0]), bytelevel.token_of(parts[1])
        for text, token in ((parts[0], a), (parts[1], b), (parts[0] + parts[1], a + b if a and b else None)):
            if token not in ids:
                raise ValueError(f"the merge of rank {rank} needs the token {text!r}, which is not in the vocab")
        assert a is not None and b is not None
        columns[0, rank], columns[1, rank], columns[2, rank] = ids[a], ids[b], ids[a + b]
    return columns[0].copy(), columns[1].copy(), columns[2].copy()


# ---- writing ----


def content_of(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return what a tokenizer.json of a vocabulary holds.

    Raises:
        ValueError: its pre-tokenizer cannot be said to tokenizers; the message says what.
    """
    layout = vocabulary.layout
    origin: dict[str, Any] = dict(layout.origin) if layout is not None else {}
    vocab = {bytelevel.shown(token): i for i, token in enumerate(vocabulary.tokens) if token}
    added = sorted(vocabulary.added_tokens, key=lambda token: token.id)
    _place(added, vocab)
    post_processor = origin.get("post_processor")
    return {
        "version": "1.0",
        "truncation": origin.get("truncation"),
        "padding": origin.get("padding"),
        "added_tokens": [components.write_added_token(token) for token in added],
        "normalizer": components.write_normalizer(vocabulary.normalizer),
        "pre_tokenizer": components.write_pre_tokenizer(vocabulary.pre_tokenizer),
        "post_processor": post_processor,
        "decoder": origin.get("decoder") or {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": layout is not None and layout.whole_pieces,
            **origin.get("model", {}),
            "vocab": vocab,
            "merges": [[bytelevel.shown(merge.left), bytelevel.shown(merge.right)] for merge in vocabulary.merges],
        },
    }


def _place(added: list[AddedToken], vocab: dict[str, int]) -> None:
    """Put added tokens into the vocab if they would not get their ids otherwise: if they do not follow it without a hole."""
    for token in added:
        if vocab.get(token.text, token.id) != token.id:
            raise ValueError(f"a tokenizer.json spells the added token {token.text!r} like the token {vocab[token.text]}")
    ids = [token.id for token in added]
    if list(given_ids((token.text for token in added), vocab)) != ids:
        vocab.update((token.text, token.id) for token in added)


def save(vocabulary: Vocabulary, path: str, *, overwrite: bool = False, verify: bool = True) -> None:
    """Write a tokenizer.json for `tokenizers` and `transformers.PreTrainedTokenizerFast`.

    Args:
        path: of the file; a folder's gets the name tokenizer.json.
        verify: first encode a set of difficult texts with `tokenizers` (which must be installed) and
            compare their ids with ours.

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
            if found != expected:
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
