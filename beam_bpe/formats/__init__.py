"""Vocabularies in the files of other libraries: one module a format, each with `load` and `save`.

| format | file | library |
|---|---|---|
| parquet | a folder with merges.parquet and vocabulary.parquet | this one |
| tiktoken | a rank file: a token in base64 and its rank a line | tiktoken |
| huggingface | tokenizer.json | tokenizers, transformers |
| sentencepiece | .model: pieces with scores, BPE or Unigram | sentencepiece |
| gpt2 | vocab.json (or encoder.json) beside merges.txt (or vocab.bpe) | GPT-2, transformers |
| bert | vocab.txt: a WordPiece piece a line | BERT, tokenizers, transformers |
| subword_nmt | codes: a merge of characters a line | subword-nmt |

Nothing of a file is executed, no function that it names is imported, nothing is downloaded.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from beam_bpe import storage
from beam_bpe.artifacts import FormatError

if TYPE_CHECKING:
    from beam_bpe.vocabulary import Vocabulary

FORMATS = ("parquet", "tiktoken", "huggingface", "sentencepiece", "gpt2", "bert", "subword_nmt")

#: Names of a .model file in a folder, as those who publish models have them.
MODEL_FILES = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model")
_IN_A_FOLDER = {
    "vocabulary.parquet": "parquet",
    "tokenizer.json": "huggingface",
    **dict.fromkeys(MODEL_FILES, "sentencepiece"),
    "vocab.json": "gpt2",
    "encoder.json": "gpt2",
    "vocab.txt": "bert",
}


def format_of(path: str) -> str:
    """Return the format of a vocabulary by its name, and where that says nothing by what is there.

    Raises:
        FormatError: it is none that is known.
    """
    path = os.fspath(path)
    name = path.rstrip("/").rsplit("/", 1)[-1].lower()
    if name in ("tekken.json",):
        raise FormatError(f"{path} is a tekken file, which is not read; a tokenizer.json or a rank file is")
    if name.endswith(".parquet"):
        return "parquet"
    if name.endswith(".model"):
        return "sentencepiece"
    if name.endswith((".tiktoken", ".bpe.gz")):
        return "tiktoken"
    if name in ("vocab.json", "encoder.json", "merges.txt", "vocab.bpe"):
        return "gpt2"
    if name.endswith(".json"):
        return "huggingface"
    if name == "vocab.txt" or name.endswith(("-vocab.txt", "_vocab.txt")):
        return "bert"
    for there, found in _IN_A_FOLDER.items():
        if storage.exists(storage.join(path, there)):
            return found
    if name == "codes" or name.endswith(".codes"):
        return "subword_nmt"
    if not storage.exists(path):
        raise FileNotFoundError(f"{path} holds no vocabulary: there is no {', '.join(_IN_A_FOLDER)}")
    if _first_bytes(path, 9) == b"#version:":
        return "subword_nmt"
    raise FormatError(
        f"{path} holds no vocabulary of a format that its name tells: say which it is, one of {', '.join(FORMATS)}"
    )


def load(path: str, format: str | None = None, **options: Any) -> Vocabulary:
    """Read a vocabulary of any known format from a path or URL.

    Args:
        path: a file, or a folder that holds the files.
        format: one of `FORMATS`; None: by its name.
        options: of that format's own `load`, such as `pattern` and `special_tokens` of a rank file.

    Raises:
        FileNotFoundError: it is not there.
        FormatError: it is broken, or holds what cannot be represented; the message names path and place.
        TypeError: an option that the format does not have.
    """
    from beam_bpe.vocabulary import Vocabulary

    path = os.fspath(path)
    chosen = format or format_of(path)
    if chosen == "parquet":
        return Vocabulary.load(path, **options)
    loaded: Vocabulary = _module(chosen).load(path, **options)
    return loaded


def save(vocabulary: Vocabulary, path: str, format: str, **options: Any) -> None:
    """Write a vocabulary in a format, whole or not at all.

    Raises:
        ValueError: that format cannot hold it; the message says what would be lost.
        FileExistsError: something else stands there, and `overwrite` is not set.
    """
    _module(format).save(vocabulary, os.fspath(path), **options)


def _first_bytes(path: str, size: int) -> bytes:
    try:
        with storage.open_read(path) as file:
            return file.read(size)
    except (IsADirectoryError, FileNotFoundError):  # a folder of a store
        return b""


def _module(format: str) -> Any:
    from importlib import import_module

    if format not in FORMATS:
        raise ValueError(f"format={format!r}: choose one of {', '.join(FORMATS)}")
    return import_module(f"beam_bpe.formats.{format}")
