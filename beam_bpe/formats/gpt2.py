"""GPT-2's pair of files: vocab.json (token → id) and merges.txt (a merge "a b" on each line, by rank).

Also under their first names, encoder.json and vocab.bpe (Radford et al. 2019).  Tokens are spelt in the
characters of `bytelevel`.
"""

from __future__ import annotations

import json
import os
from typing import Any, Mapping


from beam_bpe import storage
from beam_bpe.artifacts import FormatError
from beam_bpe.formats import bytelevel, files
from beam_bpe.formats.models import read_merges, read_vocab
from beam_bpe.layout import AddedToken, Layout
from beam_bpe.pretokenize import PreTokenizer, pre_tokenizer
from beam_bpe.vocabulary import Vocabulary

PAIRS = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
_VERSION = "#version"


def load(
    path: str, *, pattern: str | PreTokenizer = "gpt2", special_tokens: Mapping[str, int] | None = None
) -> Vocabulary:
    """Read the pair of files.

    Args:
        path: the folder, or the path of one of the two.
        pattern: how documents are cut into words, which the files do not say.
        special_tokens: their ids; by default <|endoftext|>, if the file has it.

    Raises:
        FormatError: a file is broken; the message names path and place.
    """
    vocab_path, merges_path = _pair(path)
    vocab = files.read_json(vocab_path)
    if special_tokens is None:
        special_tokens = {"<|endoftext|>": vocab["<|endoftext|>"]} if "<|endoftext|>" in vocab else {}
    try:
        added = tuple(AddedToken(text, i) for text, i in special_tokens.items())
        tokens = read_vocab(vocab, added)
    except ValueError as error:
        raise FormatError(f"{vocab_path}: {str(error)[:1000]}") from None
    text = files.read_text(merges_path)
    rows = text.split("\n")  # not splitlines: a token may hold U+0085
    # A merge of the token "#version" is passed over as well, as `tokenizers` does.
    merges: list[Any] = [row.rstrip("\r") for row in rows if row.strip("\r") and not row.startswith(_VERSION)]
    try:
        left, right, merged = read_merges(merges, tokens)
        layout = Layout(tuple(tokens), merged, added)
        return Vocabulary.imported(layout, format="gpt2", pre_tokenizer=pre_tokenizer(pattern), left=left, right=right)
    except ValueError as error:
        raise FormatError(f"{merges_path}: {str(error)[:1000]}") from None


def _pair(path: str) -> tuple[str, str]:
    path = os.fspath(path)
    for names in PAIRS:
        for name in names:
            if path == name or path.endswith("/" + name):
                folder = path[: -len(name)]
                return folder + names[0], folder + names[1]
    for names in PAIRS:
        if storage.exists(storage.join(path, names[0])):
            return storage.join(path, names[0]), storage.join(path, names[1])
    raise FileNotFoundError(f"{path} holds no {PAIRS[0][0]} and no {PAIRS[1][0]}")


def save(vocabulary: Vocabulary, path: str, *, overwrite: bool = False) -> None:
    """Write vocab.json and merges.txt into a folder, merges.txt first.

    Raises:
        ValueError: the files cannot hold the vocabulary; the message says what would be lost.
    """
    if not vocabulary.model.is_byte_level:
        raise ValueError(
            f"vocab.json and merges.txt mean BPE of bytes, and the vocabulary is {vocabulary.model.algorithm} of characters: "
            "write a tokenizer.json"
        )
    if vocabulary.pre_tokenizer.name != "gpt2":
        raise ValueError(
            f"vocab.json and merges.txt mean GPT-2's pattern, and the vocabulary has {vocabulary.pre_tokenizer.name!r}: "
            "write a tokenizer.json"
        )
    if vocabulary.normalizer is not None:
        raise ValueError(f"vocab.json and merges.txt have no normalizer, and the vocabulary has {vocabulary.normalizer}")
    if vocabulary.layout is not None and vocabulary.layout.whole_pieces:
        made = {*vocabulary.merged.tolist(), *(vocabulary.ids[bytes([byte])] for byte in range(256)), *vocabulary.special_ids.values()}
        lost = [token for i, token in enumerate(vocabulary.tokens) if token and i not in made]
        if lost:
            raise ValueError(f"{len(lost)} tokens are made by no merge, such as {lost[0]!r}: they would be lost")
    for token in vocabulary.added_tokens:
        if not token.special or not token.plain:
            raise ValueError(f"vocab.json and merges.txt have no added tokens, and {token.text!r} is one")
    vocab = {bytelevel.shown(token): i for i, token in enumerate(vocabulary.tokens) if token}
    for token in vocabulary.added_tokens:
        if vocab.setdefault(token.text, token.id) != token.id:
            raise ValueError(f"the special token {token.text!r} is spelt like another token")
    merges = [f"{bytelevel.shown(merge.left)} {bytelevel.shown(merge.right)}\n" for merge in vocabulary.merges]
    if hidden := [merge for merge in merges if merge.startswith(_VERSION)]:
        raise ValueError(f"the line {hidden[0][:80]!r} of a merge would be passed over as one of the version: write a tokenizer.json")
    ordered = dict(sorted(vocab.items(), key=lambda item: item[1]))
    files.write(storage.join(path, "merges.txt"), "".join(["#version: 0.2\n", *merges]).encode(), overwrite)
    files.write(storage.join(path, "vocab.json"), json.dumps(ordered, ensure_ascii=False).encode(), overwrite)
