"""Our own files, behind `Vocabulary.save` and `Vocabulary.load`: `merges.parquet` and `vocabulary.parquet`, the pair of a folder.

Both carry the vocabulary's fingerprint, and the second is written last, so that the pair is whole or
absent.  The schemas are below; a header (JSON) stands in the metadata of each under `beam_bpe`.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_bpe import artifacts, storage
from beam_bpe.artifacts import FormatError
from beam_bpe.layout import Layout
from beam_bpe.model import Model, byte_token
from beam_bpe.normalize import shown, spec
from beam_bpe.pretokenize import PreTokenizer

MERGES_FILE = "merges.parquet"
VOCABULARY_FILE = "vocabulary.parquet"

MERGES_SCHEMA = pa.schema(
    [
        pa.field("rank", pa.uint32(), nullable=False),
        pa.field("left_id", pa.uint32(), nullable=False),
        pa.field("right_id", pa.uint32(), nullable=False),
        pa.field("id", pa.uint32(), nullable=False),
        pa.field("left", pa.binary(), nullable=False),
        pa.field("right", pa.binary(), nullable=False),
        pa.field("token", pa.binary(), nullable=False),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("replaced", pa.int64(), nullable=False),
    ]
)
#: What a token is; added ones are found like special ones, but always; no merge makes a piece.
KINDS = ("piece", "byte", "merge", "special", "added", "character", "user_defined", "unused")
VOCABULARY_SCHEMA = pa.schema(
    [
        pa.field("id", pa.uint32(), nullable=False),
        pa.field("token", pa.binary(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("score", pa.float64()),
    ]
)


def merges_table(vocabulary: Any) -> pa.Table:
    """Return the merges as the Parquet file holds them."""
    tokens = vocabulary.spelt
    columns = [
        pa.array(np.arange(len(vocabulary.left), dtype=np.uint32)),
        left := pa.array(vocabulary.left.astype(np.uint32)),
        right := pa.array(vocabulary.right.astype(np.uint32)),
        made := pa.array(vocabulary.merged.astype(np.uint32)),
        tokens.take(left),
        tokens.take(right),
        tokens.take(made),
        pa.array(vocabulary.counts.astype(np.int64)),
        pa.array(vocabulary.replaced.astype(np.int64)),
    ]
    return pa.Table.from_arrays(columns, schema=MERGES_SCHEMA)


def vocabulary_table(vocabulary: Any) -> pa.Table:
    """Return the tokens as the Parquet file holds them, by id."""
    size = len(vocabulary)
    kinds = np.zeros(size, np.int8)
    kinds[vocabulary.merged] = KINDS.index("merge")
    for kind, places in _initial(vocabulary).items():
        kinds[places] = KINDS.index(kind)
    tokens, outside = vocabulary.spelt, dict.fromkeys(range(len(vocabulary.tokens), size), b"")
    for token in vocabulary.added_tokens:
        kinds[token.id] = KINDS.index("special" if token.special else "added")
        if token.id >= len(vocabulary.tokens) or not vocabulary.tokens[token.id]:
            outside[token.id] = token.text.encode()
    if outside:
        texts = vocabulary.tokens if isinstance(vocabulary.tokens, list) else list(vocabulary.tokens)
        texts = [*texts, *[b""] * (size - len(texts))]
        for i, text in outside.items():
            texts[i] = text
        tokens = pa.array(texts, pa.binary())
    ids = np.arange(size, dtype=np.uint32)
    there = np.asarray(pc.binary_length(tokens)) > 0
    if not there.all():
        ids, tokens, kinds = ids[there], tokens.filter(pa.array(there)), kinds[there]
    names = pa.DictionaryArray.from_arrays(pa.array(kinds), pa.array(KINDS, pa.string())).dictionary_decode()
    scores = pa.nulls(len(ids), pa.float64())
    if vocabulary.layout is not None and vocabulary.layout.scores is not None:
        scores = pa.array(vocabulary.layout.scores[ids])
    columns = [pa.array(ids), tokens, names, scores]
    return pa.Table.from_arrays(columns, schema=VOCABULARY_SCHEMA)


def _initial(vocabulary: Any) -> dict[str, list[int]]:
    """Return the ids that merges start from, by kind."""
    model, ids = vocabulary.model, vocabulary.ids
    if model.is_byte_level:
        return {"byte": [ids[bytes([byte])] for byte in range(256)]}
    spelt = [byte_token(byte).encode() for byte in range(256)] if model.byte_fallback else []
    if model.algorithm == "wordlevel":
        return {}
    made = set(vocabulary.merged.tolist())
    characters = [i for token, i in ids.items() if i not in made and _is_character(token.decode(), model)]
    layout = vocabulary.layout
    own = {"user_defined": list(layout.user_defined), "unused": list(layout.unused)}
    return {"character": characters, "byte": [ids[token] for token in spelt], **own}


def _is_character(token: str, model: Model) -> bool:
    """Whether a token is one character with its marks, or the mark of the end of a word alone."""
    mark, prefix = model.end_of_word, model.continuing_subword_prefix
    bare = token.removesuffix(mark) if mark and model.attached else token
    return len(bare) == 1 or token == mark or bool(prefix and token.startswith(prefix) and len(token) == len(prefix) + 1)


def _header(vocabulary: Any, kind: str) -> dict[str, Any]:
    header = {
        "kind": kind,
        "fingerprint": vocabulary.fingerprint,
        **vocabulary.rules(),
        "special_tokens": list(vocabulary.special_tokens),
        "stop_reason": vocabulary.stop_reason,
        "parameters": vocabulary.parameters,
        "totals": vocabulary.totals,
    }
    if vocabulary.layout is not None:
        header["layout"] = vocabulary.layout.spec()
    return header


def save(vocabulary: Any, folder: str, *, overwrite: bool = False) -> None:
    """Write the two files into a folder; nothing is done where this vocabulary stands already.

    Raises:
        FileExistsError: another one stands there, and `overwrite` is not set.
    """
    last = storage.join(folder, VOCABULARY_FILE)
    storage.sweep(folder)  # what a killed attempt of this run left, and others long ago
    if storage.exists(last):
        if not overwrite and _stands(vocabulary, folder):
            return
        if not overwrite:
            raise FileExistsError(
                f"{folder} already holds a vocabulary; choose another folder or overwrite it (--overwrite)"
            )
        storage.remove(last)
    artifacts.write_parquet(storage.join(folder, MERGES_FILE), merges_table(vocabulary), _header(vocabulary, "merges"))
    artifacts.write_parquet(last, vocabulary_table(vocabulary), _header(vocabulary, "vocabulary"))


def _stands(vocabulary: Any, folder: str) -> bool:
    try:
        other = load(folder, type(vocabulary))
        return _header(other, "") == _header(vocabulary, "") and merges_table(other).equals(merges_table(vocabulary))
    except (FormatError, OSError):
        return False


def load(folder: str, make: Callable[..., Any], *, allow_callables: Iterable[str] = ()) -> Any:
    """Read a vocabulary from its folder (or the path of one of its two files).

    Args:
        make: the class that is made of what the files hold.
        allow_callables: functions "module:function" that may be imported if the vocabulary names
            one as its pre-tokenizer; no other is.

    Raises:
        FileNotFoundError: it is not there.
        FormatError: a file is broken, or the two are not of one vocabulary.
    """
    folder = os.fspath(folder)
    for name in (MERGES_FILE, VOCABULARY_FILE):
        if folder.endswith("/" + name) or folder == name:
            folder = folder[: -len(name)] or "."
    last, first = storage.join(folder, VOCABULARY_FILE), storage.join(folder, MERGES_FILE)
    if not storage.exists(last):
        raise FileNotFoundError(f"{folder} holds no vocabulary: there is no {VOCABULARY_FILE}")
    tokens, header = artifacts.read_parquet(last, "vocabulary")
    merges, merges_header = artifacts.read_parquet(first, "merges")
    for url, fields in ((last, header), (first, merges_header)):
        if not {"fingerprint", "algorithm", "unit"} <= fields.keys():
            raise FormatError(f"{url}: its header has no fingerprint, algorithm or unit")
    if header["fingerprint"] != merges_header["fingerprint"]:
        raise FormatError(f"{first} and {last} are not of one vocabulary: their fingerprints differ")
    for url, table, schema in ((last, tokens, VOCABULARY_SCHEMA), (first, merges, MERGES_SCHEMA)):
        if not table.schema.remove_metadata().equals(schema):
            raise FormatError(f"{url} has the columns {table.schema.remove_metadata()}, not {schema}")
    try:
        model = Model.from_spec({**header.get("model", {}), "algorithm": header["algorithm"], "unit": header["unit"]})
        normalizer = header["normalizer"]
        if normalizer is not None and (here := spec(normalizer)) != header["normalizer_spec"]:
            was = str(header["normalizer_spec"])
            raise ValueError(f"the normalizer {shown(normalizer)[:200]!r} was {was[:300]}; here it is {str(here)[:300]}")
        layout = None
        alphabet = b"".join(tokens["token"][:256].to_pylist())
        if "layout" in header:
            columns = tokens["id"].to_pylist(), tokens["token"].to_pylist()
            scores = tokens["score"].to_numpy() if model.is_scored else None
            layout = Layout.from_spec(header["layout"], *columns, merges["id"].to_numpy(), scores)
            alphabet = layout.alphabet if model.is_byte_level else b""
        vocabulary = make(
            pre_tokenizer=PreTokenizer.from_spec(header["pre_tokenizer"], allow_callables=allow_callables),
            alphabet=alphabet,
            left=merges["left_id"].to_numpy(),
            right=merges["right_id"].to_numpy(),
            counts=merges["count"].to_numpy(),
            replaced=merges["replaced"].to_numpy(),
            special_tokens=tuple(header["special_tokens"]),
            normalizer=normalizer,
            stop_reason=header["stop_reason"],
            parameters=header["parameters"],
            totals=header["totals"],
            layout=layout,
            model=model,
        )
    except KeyError as error:
        raise FormatError(f"{last}: its header has no {error}") from None
    except (TypeError, AttributeError, IndexError, OverflowError) as error:
        raise FormatError(f"{last}: its header holds what it must not: {error}") from None
    except ValueError as error:
        raise FormatError(f"{folder}: {error}") from None
    if vocabulary.fingerprint != header["fingerprint"]:
        raise FormatError(f"{folder}: the merges do not have the fingerprint that the files carry")
    if not tokens.equals(vocabulary_table(vocabulary)):
        raise FormatError(f"{last}: the tokens are not those that the merges make")
    if not merges.equals(merges_table(vocabulary)):
        raise FormatError(f"{first}: ranks, ids and bytes of the merges do not belong together")
    return vocabulary
