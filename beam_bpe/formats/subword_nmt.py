"""subword-nmt's codes: merges of characters, "a b" on each line, by rank (Sennrich, Haddow and Birch 2016).

"#version: 0.2" in the first line says that the end of a word is attached to its last character; without it, or with
version 0.1, it is a symbol of its own.  The file holds merges alone: ids, and tokens for characters that no merge has,
are given here.  Words are cut as subword-nmt cuts them; its glossaries, vocabulary threshold and dropout are not read.
"""

from __future__ import annotations

import os
import re
from typing import Iterable

import numpy as np

from beam_bpe.artifacts import FormatError
from beam_bpe.formats import files
from beam_bpe.layout import MOST_IDS, AddedToken, Layout
from beam_bpe.model import Model, byte_token
from beam_bpe.normalize import check_normalizer
from beam_bpe.pretokenize import PreTokenizer, pre_tokenizer
from beam_bpe.vocabulary import Vocabulary

END_OF_WORD = "</w>"
#: The words of subword-nmt, for `load`.
SPACES = pre_tokenizer(r"[^ \n\r]+", gaps="drop")
VERSION = "#version:"
_VERSIONS = {"0.1": False, "0.2": True}  # whether the end of a word is attached


def load(
    path: str,
    *,
    unk_token: str | None = None,
    alphabet: Iterable[str] = (),
    pattern: str | PreTokenizer = "whitespace",
    normalizer: str | None = None,
) -> Vocabulary:
    """Read codes.

    Ids: `unk_token`, or the 256 byte tokens; the symbols of the characters that are in the merges or in `alphabet`, and
    the bare end of a word where it is wanted, by code point; then what the merges make.

    Args:
        unk_token: the token of characters that are in neither; None: they become the tokens of their bytes.
        alphabet: further characters.
        pattern: how documents are cut into words.  subword-nmt cuts at spaces alone, so that a tab or a no-break space
            stands in a word there: `SPACES` is that.
        normalizer: name of a normalizer (`beam_bpe.normalize`), or None.

    Raises:
        FormatError: the file is broken; the message names path and line.
        ValueError: an option is impossible.
    """
    path = os.fspath(path)
    check_normalizer(normalizer)
    chosen = pre_tokenizer(pattern)
    further = [*alphabet]
    for char in further:
        if len(char) != 1 or "\ud800" <= char <= "\udfff":
            raise ValueError(f"the alphabet holds {char!r}, which is no character")
    pairs, attached = _pairs(path)
    model = Model(
        unit="character", end_of_word=END_OF_WORD, attached=attached, unk_token=unk_token, byte_fallback=unk_token is None
    )
    symbols = _alphabet(pairs, further, attached, unk_token is None)
    if unk_token in {*symbols, *(left + right for left, right in pairs)}:
        raise ValueError(f"unk_token={unk_token!r} is a symbol of {path} as well: choose another text")
    first = [byte_token(byte) for byte in range(256)] if unk_token is None else [unk_token]
    ids = {text: i for i, text in enumerate([*first, *symbols])}
    for left, right in pairs:
        ids.setdefault(left + right, len(ids))
    if len(ids) > MOST_IDS:
        raise FormatError(f"{path} has {len(ids):,} symbols; at most {MOST_IDS:,} are possible")
    columns = np.empty((3, len(pairs)), np.uint32)
    for rank, (left, right) in enumerate(pairs):
        columns[:, rank] = ids[left], ids[right], ids[left + right]
    try:
        layout = Layout(
            tokens=tuple(b"" if text == unk_token else text.encode() for text in ids),
            merged=columns[2].copy(),
            added_tokens=() if unk_token is None else (AddedToken(unk_token, 0),),
        )
        return Vocabulary.imported(
            layout,
            format="subword_nmt",
            pre_tokenizer=chosen,
            left=columns[0].copy(),
            right=columns[1].copy(),
            normalizer=normalizer,
            model=model,
        )
    except ValueError as error:
        raise FormatError(f"{path}: {str(error)[:1000]}") from None


def _alphabet(pairs: list[tuple[str, str]], further: list[str], attached: bool, fallback: bool) -> list[str]:
    """Return the symbols of characters, in every place of a word, and under fallback the end of a word behind others."""
    found = {part.removesuffix(END_OF_WORD) if attached else part for pair in pairs for part in pair}
    characters = sorted({*further, *(part for part in found if len(part) == 1)})
    marked = [char + END_OF_WORD for char in characters] if attached else []
    return sorted([*characters, *marked, *([END_OF_WORD] if fallback or not attached else [])])


def _pairs(path: str) -> tuple[list[tuple[str, str]], bool]:
    """Return the merges by rank, and whether the end of a word is attached to its last character."""
    lines = files.read_text(path).rstrip("\n").split("\n")
    attached, first = False, 1
    if lines[0].startswith(VERSION):
        version = re.sub(r"(?<=\d\.\d)(\.0+)+$", "", lines[0].removeprefix(VERSION).strip())
        if version not in _VERSIONS:
            raise FormatError(f"{path}, line 1: the version is {version[:60]!r}; {', '.join(_VERSIONS)} are read")
        attached, first = _VERSIONS[version], 2
    pairs: dict[tuple[str, str], int] = {}
    for number, line in enumerate(lines[first - 1 :], first):
        parts = line.strip("\r\n ").split(" ")
        if len(parts) != 2 or not all(parts):
            raise FormatError(f"{path}, line {number}: {line[:60]!r} is not two symbols with a space between")
        if pairs.setdefault((parts[0], parts[1]), number) != number:
            before = pairs[parts[0], parts[1]]
            raise FormatError(f"{path}, line {number}: the merge {line[:60]!r} stands in line {before} as well")
    made = {left + right for left, right in pairs}
    for (left, right), number in pairs.items():
        for part in (left, right):
            if part not in made and not _is_first(part, attached):
                raise FormatError(f"{path}, line {number}: the symbol {part[:60]!r} is no character, and no merge makes it")
    if late := _made_late(pairs):
        raise FormatError(
            f"{path}, line {first + late[0]}: the merge makes {late[1][:60]!r}, which a line before merges already: such "
            "codes are not learned, and subword-nmt cuts words by them in another way"
        )
    if any("Ġ" in left for left, _ in pairs) and not any(END_OF_WORD in right for _, right in pairs):
        raise FormatError(f"{path} holds merges of bytes as GPT-2's merges.txt, which is read beside its vocab.json")
    return [*pairs], attached


def _made_late(pairs: Iterable[tuple[str, str]]) -> tuple[int, str] | None:
    """Return the rank and the symbol of a merge that makes what a merge before it has as a part; None if there is none.

    subword-nmt merges all of a pair in a word before it looks for another one, here one is merged at a time, as by
    tokenizers and tiktoken.  That is the same where what a merge makes is a part of later merges alone, as in codes that
    are learned.
    """
    used: set[str] = set()
    for rank, (left, right) in enumerate(pairs):
        used |= {left, right}
        if left + right in used:
            return rank, left + right
    return None


def _is_first(symbol: str, attached: bool) -> bool:
    """Whether a word may begin as this symbol: as a character, with the end of the word attached or apart."""
    return len(symbol.removesuffix(END_OF_WORD)) == 1 if attached else len(symbol) == 1 or symbol == END_OF_WORD


def save(vocabulary: Vocabulary, path: str, *, overwrite: bool = False) -> None:
    """Write codes for subword-nmt: a line for each merge, and the version that says how the end of a word is marked.

    Ids, counts and the alphabet are not in them; subword-nmt cuts words alike.

    Raises:
        ValueError: subword-nmt cannot cut words in the same way; the message says why.
    """
    model = vocabulary.model
    if model.is_byte_level or model.algorithm != "bpe" or model.end_of_word != END_OF_WORD:
        what = f"ends words with {model.end_of_word!r}" if model.algorithm == "bpe" else "has no merges that are applied"
        raise ValueError(
            f"codes hold merges of characters with {END_OF_WORD!r}, and the vocabulary is {model.algorithm} of "
            f"{model.unit}s and {what}"
        )
    if vocabulary.normalizer is not None:
        raise ValueError(f"subword-nmt has no normalizer, and the vocabulary has {vocabulary.normalizer}")
    if vocabulary.pre_tokenizer.name != "whitespace" and vocabulary.pre_tokenizer != SPACES:
        name = vocabulary.pre_tokenizer.name
        raise ValueError(f"subword-nmt cuts text at spaces, and the vocabulary has the pre-tokenizer {name!r}")
    for token in vocabulary.added_tokens:
        if not token.special:
            raise ValueError(f"subword-nmt has no added tokens, and {token.text!r} is one")
    if not len(vocabulary.left):
        raise ValueError("subword-nmt reads no codes without a merge, and the vocabulary has none")
    pairs = [(merge.left.decode(), merge.right.decode()) for merge in vocabulary.merges]
    if late := _made_late(pairs):
        raise ValueError(
            f"the merge of rank {late[0]} makes {late[1][:60]!r}, which a merge before it has as a part: subword-nmt "
            "would cut words in another way"
        )
    lines = [f"{VERSION} {'0.2' if model.attached else '0.1'}\n"]
    for left, right in pairs:
        if wrong := next((part for part in (left, right) if {*" \n\r"} & {*part}), None):
            raise ValueError(f"codes cannot hold the symbol {wrong[:60]!r}, since a space or a line end stands in it")
        lines.append(f"{left} {right}\n")
    files.write(path, "".join(lines).encode(), overwrite)
