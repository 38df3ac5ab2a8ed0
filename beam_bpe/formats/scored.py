"""Models with scores as a tokenizer.json has them: Unigram as it is, SentencePiece's BPE as merges."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from beam_bpe import _encode
from beam_bpe.formats.unsupported import Unsupported
from beam_bpe.layout import Layout
from beam_bpe.model import byte_token
from beam_bpe.vocabulary import Vocabulary


def write_model(vocabulary: Vocabulary, vocab: Mapping[str, int]) -> dict[str, Any]:
    """Return the section "model" of a vocabulary with scores.

    Args:
        vocab: the ids by spelling, with those of added tokens.

    Raises:
        Unsupported: tokenizers has no such model; the message says what would be lost.
    """
    layout = vocabulary.layout
    assert layout is not None and layout.scores is not None  # of all models with scores
    for name, ids in (("user-defined", layout.user_defined), ("unused", layout.unused)):
        if ids:
            shown = layout.tokens[ids[0]].decode()[:60]
            raise Unsupported(f"tokenizers has no {name} tokens: that {shown!r} is one would be lost")
    return (
        _unigram(vocabulary, layout, vocab)
        if vocabulary.model.algorithm == "unigram"
        else _merges(vocabulary, layout, vocab)
    )


def _unigram(vocabulary: Vocabulary, layout: Layout, vocab: Mapping[str, int]) -> dict[str, Any]:
    model = vocabulary.model
    if model.byte_fallback and model.single_precision:
        raise Unsupported(
            "tokenizers finds the tokens of bytes in texts that spell them, which sentencepiece does not: ids would differ"
        )
    by_id = {i: text for text, i in vocab.items()}
    missing = next((i for i in range(len(by_id)) if i not in by_id), None)
    if missing is not None:
        raise Unsupported(f"the model Unigram of tokenizers has a piece for every id, and there is none of id {missing}")
    assert layout.scores is not None
    normal = [i for i, token in enumerate(layout.tokens) if token]
    lowest = layout.scores[normal].min()  # what an unknown character scores goes by it: special tokens are not below
    return {
        "type": "Unigram",
        "unk_id": vocabulary.unk_id,
        "vocab": [[by_id[i], max(float(layout.scores[i]), float(lowest))] for i in range(len(by_id))],
        "byte_fallback": model.byte_fallback,
    }


def _merges(vocabulary: Vocabulary, layout: Layout, vocab: Mapping[str, int]) -> dict[str, Any]:
    """Return BPE with the merge by which each piece is formed, by the scores of the pieces.

    There two neighbours merge if their joined spelling is a piece.  Nothing merges across the span of a piece before it is
    formed, so that it is formed in every text as it is alone: of two parts, or never.
    """
    model = vocabulary.model
    assert layout.scores is not None
    apart = {byte_token(byte).encode() for byte in range(256)} if model.byte_fallback else set()
    scores = {
        token.decode(): float(layout.scores[i]) for i, token in enumerate(layout.tokens) if token and token not in apart
    }
    order = sorted((text for text in scores if len(text) > 1), key=lambda text: -scores[text])
    for one, other in zip(order, order[1:]):
        if scores[one] == scores[other]:
            raise Unsupported(
                f"tokenizers merges by rank, and the pieces {one[:60]!r} and {other[:60]!r} have one score: sentencepiece merges "
                "the leftmost of them first"
            )
    for text in order:
        if any(char not in scores for char in text):
            strange = next(char for char in text if char not in scores)
            raise Unsupported(
                f"tokenizers merges tokens, and {strange!r} of the piece {text[:60]!r} is none: sentencepiece makes this piece"
            )
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": model.unk_token,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": model.byte_fallback,
        "ignore_merges": False,
        "vocab": vocab,
        "merges": _parts(order),
    }


def _parts(pieces: Sequence[str]) -> list[list[str]]:
    """Return the two parts of each piece, given by rank, that merges make before it is formed; not of one that never is.

    These are merges of bytes, of which those that spell characters are first.
    """
    characters = {char.encode() for piece in pieces for char in piece}
    beginnings = {char[:length] for char in characters for length in range(2, len(char) + 1)}
    tokens = [*(bytes([byte]) for byte in range(256)), *sorted(beginnings, key=lambda token: (len(token), token))]
    first = len(tokens)
    tokens += [piece.encode() for piece in pieces]
    columns = _encode.recover_merges(b"".join(tokens), np.cumsum([0, *map(len, tokens)], dtype=np.int64))
    left, right, merged = (np.frombuffer(column, np.uint32) for column in columns[:3])
    formed = merged >= first
    return [[tokens[i].decode(), tokens[j].decode()] for i, j in zip(left[formed].tolist(), right[formed].tolist())]


def is_rounding(vocabulary: Vocabulary, ours: Sequence[int], theirs: Sequence[int]) -> bool:
    """Whether two ways of Unigram to cut a text have one score but for the rounding of sums of 32 bits."""
    layout = vocabulary.layout
    if vocabulary.model.algorithm != "unigram" or layout is None or layout.scores is None:
        return False
    known = [[i for i in ids if i != vocabulary.unk_id] for ids in (ours, theirs)]
    if len(ours) - len(known[0]) != len(theirs) - len(known[1]):
        return False
    one, other = (layout.scores[ids] for ids in known)
    pieces = max(len(ours), len(theirs))
    furthest = max(np.abs(one).sum(), np.abs(other).sum())
    return bool(abs(one.sum() - other.sum()) <= 2 * pieces * np.finfo(np.float32).eps * furthest)
