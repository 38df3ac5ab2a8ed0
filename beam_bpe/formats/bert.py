"""BERT's vocab.txt: a WordPiece piece on each line, the number of the line being its id (Devlin et al. 2019).

The file says neither how text is normalized and cut nor which tokens are special.  Its readers take BERT's own rules
(`tokenizers.BertWordPieceTokenizer`, `transformers.BertTokenizerFast`), and so it is here unless options say otherwise.
"""

from __future__ import annotations

import os
from typing import Sequence

import numpy as np

from beam_bpe import storage
from beam_bpe.texts import WHITE_SPACE
from beam_bpe.artifacts import FormatError
from beam_bpe.formats import files
from beam_bpe.layout import MOST_IDS, AddedToken, Layout
from beam_bpe.model import Model
from beam_bpe.normalize import check_normalizer
from beam_bpe.pretokenize import PreTokenizer, pre_tokenizer
from beam_bpe.vocabulary import Vocabulary

FILE = "vocab.txt"
#: Those of them that the file has are special; [unused1] and the like are pieces, which no word of BERT's consists of.
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
NORMALIZERS = ("bert", "bert_cased")
_USUAL = Model("wordpiece", "character", continuing_subword_prefix="##", unk_token="[UNK]", max_input_chars_per_word=100)


def load(
    path: str,
    *,
    normalizer: str | None = "bert",
    pattern: str | PreTokenizer = "bert",
    unk_token: str = "[UNK]",
    continuing_subword_prefix: str | None = "##",
    max_input_chars_per_word: int | None = 100,
    special_tokens: Sequence[str] = SPECIAL_TOKENS,
) -> Vocabulary:
    """Read a vocab.txt, or a folder that holds one; ids are those of `tokenizers.BertWordPieceTokenizer`.

    Whitespace at the end of a line is no part of its piece, as in tokenizers; a line of nothing else has none.

    Args:
        normalizer: "bert" lowercases and strips accents; "bert_cased" is that of vocabularies that are cased.
        pattern: how documents are cut into words.
        unk_token: must be in the file.
        continuing_subword_prefix: of pieces behind the first of a word; None for none.
        max_input_chars_per_word: longer words are unk_token; None for no limit.
        special_tokens: special if they are in the file, as unk_token is; [CLS] and [SEP] are put around a text when
            asked for (`add_special_tokens`).

    Raises:
        FormatError: the file is broken; the message names path and line.
        ValueError: an option is impossible.
    """
    path = os.fspath(path)
    check_normalizer(normalizer)
    chosen = pre_tokenizer(pattern)
    model = Model(
        algorithm="wordpiece",
        unit="character",
        continuing_subword_prefix=continuing_subword_prefix or None,
        unk_token=unk_token,
        max_input_chars_per_word=max_input_chars_per_word,
    )
    path = path if path.endswith(".txt") or not storage.exists(storage.join(path, FILE)) else storage.join(path, FILE)
    pieces = _pieces(path)
    ids = {piece: i for i, piece in enumerate(pieces) if piece}
    if unk_token not in ids:
        raise FormatError(f"{path} has no piece {unk_token!r} for unknown words: name it (unk_token=, --unk-token)")
    special = {text: ids[text] for text in (*special_tokens, unk_token) if text in ids}
    added = tuple(AddedToken(text, i) for text, i in sorted(special.items(), key=lambda item: item[1]))
    around = [text for text in ("[CLS]", "[SEP]") if text in special]
    whole = len(around) == 2
    tokens = [b"" if piece in special else piece.encode() for piece in pieces]
    while tokens and not tokens[-1]:
        tokens.pop()
    try:
        layout = Layout(
            tokens=tuple(tokens),
            merged=np.empty(0, np.uint32),
            added_tokens=added,
            prefix=(special["[CLS]"],) if whole else (),
            suffix=(special["[SEP]"],) if whole else (),
            origin={"post_processor": _post_processor(special)} if whole else {},
        )
        return Vocabulary.imported(layout, format="bert", pre_tokenizer=chosen, normalizer=normalizer, model=model)
    except ValueError as error:
        raise FormatError(f"{path}: {str(error)[:1000]}") from None


def _post_processor(special: dict[str, int]) -> dict[str, object]:
    return {"type": "BertProcessing", "sep": ["[SEP]", special["[SEP]"]], "cls": ["[CLS]", special["[CLS]"]]}


def _pieces(path: str) -> list[str]:
    """Return the pieces by id, "" for a line without one."""
    text = files.read_text(path)
    lines = text.removesuffix("\n").split("\n")  # not splitlines: a piece may be U+0085
    if not text or len(lines) > MOST_IDS:
        raise FormatError(f"{path} has {len(lines) if text else 0:,} lines; a vocabulary has from 1 to {MOST_IDS:,}")
    pieces = [line.rstrip(WHITE_SPACE) for line in lines]
    seen: dict[str, int] = {}
    for number, piece in enumerate(pieces, 1):
        if piece and seen.setdefault(piece, number) != number:
            raise FormatError(f"{path}, line {number}: the piece {piece[:60]!r} stands in line {seen[piece]} as well")
    return pieces


def save(vocabulary: Vocabulary, path: str, *, overwrite: bool = False) -> None:
    """Write a vocab.txt for BERT's tokenizers; a path that does not end with .txt is that of its folder.

    The normalizer, "bert" or "bert_cased", is said to readers as `lowercase` (tokenizers), `do_lower_case` (transformers).

    Raises:
        ValueError: the file, as it is read by others, cannot hold the vocabulary; the message says what would be lost.
    """
    model, path = vocabulary.model, os.fspath(path)
    if model.algorithm != "wordpiece":
        raise ValueError(f"a vocab.txt holds WordPiece, and the vocabulary is {model.algorithm} of {model.unit}s")
    for name, value in model.spec().items():
        if value != getattr(_USUAL, name):
            raise _lost(f"{name}={value!r} ({getattr(_USUAL, name)!r} is meant by it)")
    for name in ("continuing_subword_prefix", "max_input_chars_per_word"):
        if getattr(model, name) is None:
            raise _lost(f"{name}=None ({getattr(_USUAL, name)!r} is meant by it)")
    if vocabulary.pre_tokenizer.name != "bert":
        raise _lost(f"the pre-tokenizer {vocabulary.pre_tokenizer.name!r} ('bert' is meant by it)")
    if vocabulary.normalizer not in NORMALIZERS:
        raise _lost(f"the normalizer {vocabulary.normalizer!r} ({' or '.join(map(repr, NORMALIZERS))} is meant by it)")
    for token in vocabulary.added_tokens:
        if token.text not in SPECIAL_TOKENS or not token.special or not token.plain:
            raise _lost(f"that {token.text!r} is an added token ({', '.join(SPECIAL_TOKENS)} are meant by it)")
    tokens = [*vocabulary.tokens, *[b""] * (len(vocabulary) - len(vocabulary.tokens))]
    for token in vocabulary.added_tokens:
        tokens[token.id] = token.text.encode()
    for i, piece in enumerate(tokens):
        text = piece.decode()
        if not text:
            raise ValueError(f"a vocab.txt has a piece for every id, and there is none of id {i}: write a tokenizer.json")
        if text.strip(WHITE_SPACE) != text or "\n" in text or "\r" in text:
            raise ValueError(
                f"a vocab.txt cannot hold the piece {text[:60]!r} of id {i}, whose whitespace is lost: write a "
                "tokenizer.json"
            )
        if text in SPECIAL_TOKENS and text not in vocabulary.special_ids:
            raise _lost(f"that the piece {text!r} is not special")
    path = path if path.endswith(".txt") else storage.join(path, FILE)
    files.write(path, b"".join(token + b"\n" for token in tokens), overwrite)


def _lost(what: str) -> ValueError:
    other = "keep it in our own files" if "unk_characters" in what else "write a tokenizer.json"
    return ValueError(f"a vocab.txt does not say {what}, which would be lost: {other}")
