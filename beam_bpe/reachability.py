"""Tokens that no text can produce: since other merges come first, or since the pattern, normalizer or model cut them apart.

By merges a token is reachable if its own bytes, as one word, become it: whatever stands around it, a merge that crosses
its edge makes another token, and all merges within it are those that are made without anything around it.  So too for
scores: a better way to cut it is better in every text.  By the pattern it is reachable if some text is cut so that a word
holds it: that is tried between all pairs of `CONTEXTS`, which hold a character of each kind that patterns tell apart, and
its own (where there is no native scanner on one side, or the same on both); so what is said to be cut apart is so in all
of these.  Tokens that are no UTF-8 alone are judged by merges only, and pieces that continue a word by what a word may hold.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Iterator, Sequence

import numpy as np

from beam_bpe import token_list
from beam_bpe.model import byte_token
from beam_bpe.normalize import normalize, steps_of
from beam_bpe.tokenizer import Tokenizer
from beam_bpe.vocabulary import Vocabulary

#: What is put before and behind a token: nothing, then characters of each kind that patterns tell apart.
CONTEXTS = ("", "a", "A", " ", "\n", "1", "!", "'", "/", "\u7684", "\u0301", "\t", "$", *"stmde", "re", "ve", "ll")
_PARTS = 6  # of a token that are told
_UNKNOWN = "\U0010fffe"  # no character, so in no alphabet: nothing merges with it


def is_initial(vocabulary: Vocabulary, token: bytes) -> bool:
    """Whether a token is there before anything is learned: a byte, a character with its marks, a mark, the token of a byte."""
    model = vocabulary.model
    if model.is_byte_level:
        return len(token) == 1
    text = token.decode()
    mark, prefix = model.end_of_word or "", model.continuing_subword_prefix or ""
    if text in (mark, prefix) or (model.byte_fallback and token in _BYTES):
        return True
    bare = text.removesuffix(mark) if mark and model.attached else text
    return model.algorithm != "wordlevel" and len(bare.removeprefix(prefix)) == 1


_BYTES = frozenset(byte_token(byte).encode() for byte in range(256))


def unreachable(vocabulary: Vocabulary) -> dict[int, str]:
    """Return the ids of tokens that no text can produce, with the reason; initial and added ones are not asked for."""
    added = {token.id for token in vocabulary.added_tokens}
    layout = vocabulary.layout
    if layout is not None:
        added |= {*layout.user_defined, *layout.unused}
    ids = [i for i, token in enumerate(vocabulary.tokens) if token and i not in added and not is_initial(vocabulary, token)]
    found = cut_by_merges(vocabulary, ids)
    whole = layout is not None and layout.whole_pieces
    for i in ids:
        told = _cut_by_text(vocabulary, i, alone=whole and i in found)
        if told:
            found[i] = told
        elif whole:  # a word that is a token is that token
            found.pop(i, None)
    return found


# ---- merges and scores ---------------------------------------------------------------------------


def cut_by_merges(vocabulary: Vocabulary, ids: Sequence[int]) -> dict[int, str]:
    """Return the tokens whose own bytes become others by merges or scores, and which.

    Under `whole_pieces` they are tokens all the same where they are a word; the others are what merging makes of them.
    """
    model = vocabulary.model
    if model.algorithm in ("wordpiece", "wordlevel"):
        return {}  # the longest piece that fits is taken: a word that is a token is
    if vocabulary.layout is not None and vocabulary.layout.whole_pieces:
        vocabulary = replace(vocabulary, layout=replace(vocabulary.layout, whole_pieces=False))
    if not ids:
        return {}
    probes, last = zip(*(_probe(vocabulary, vocabulary.tokens[i]) for i in ids))
    ends = np.cumsum([0, *map(len, probes)], dtype=np.int64)
    batch = Tokenizer(vocabulary).encode_words(b"".join(probes), np.repeat(ends, 2)[1:-1])
    starts = np.concatenate([np.zeros(1, np.int64), batch.ends[:-1]])
    at = np.where(np.array(last, bool), batch.ends - 1, starts)
    added = {vocabulary.unk_id, *(token.id for token in vocabulary.added_tokens)}
    found = {}
    for k in np.flatnonzero(batch.ids[at] != np.array(ids, np.int64)).tolist():
        parts = [vocabulary.tokens[i] for i in batch.ids[starts[k] : batch.ends[k]].tolist() if i not in added]
        found[ids[k]] = f"{'scores' if model.algorithm == 'unigram' else 'merges'} make {_joined(parts)} of it"
    return found


def _probe(vocabulary: Vocabulary, token: bytes) -> tuple[bytes, bool]:
    """Return a word whose first token, or last one, is the token if any word has it."""
    model = vocabulary.model
    if model.is_byte_level or model.is_scored:
        return token, False
    mark = (model.end_of_word or "").encode()
    if mark and token.endswith(mark):
        return token.removesuffix(mark), True
    return token + _UNKNOWN.encode(), False


# ---- pattern, normalizer, limits -----------------------------------------------------------------


def _cut_by_text(vocabulary: Vocabulary, i: int, alone: bool) -> str | None:
    """Return why no word holds a token, or None if one does.

    Args:
        alone: the word must be the token, and nothing more.
    """
    model, token = vocabulary.model, vocabulary.tokens[i]
    prefix, mark = model.continuing_subword_prefix or "", model.end_of_word or ""
    try:
        text = token.decode().removesuffix(mark)
    except UnicodeDecodeError:
        return None
    continues = bool(prefix) and text.startswith(prefix)
    text = text.removeprefix(prefix)
    most = model.max_input_chars_per_word
    if most is not None and len(text) + continues > most:
        return f"it has more than the {most} characters of a word"
    told = _changed(vocabulary, text)
    if told:
        return told
    if vocabulary.pre_tokenizer.is_word(text):
        return None
    split = vocabulary.pre_tokenizer.split
    words = split(text)
    for before, behind in _contexts(text, vocabulary.pre_tokenizer.scanner is None):
        if _is_held(split(before + text + behind), before, text, alone, vocabulary.pre_tokenizer.gaps == "drop"):
            return None
    return (
        f"the pattern {vocabulary.pre_tokenizer.name} makes {_joined([word.encode() for word in words]) or 'nothing'} of it"
    )


def _joined(parts: Sequence[bytes]) -> str:
    told = " + ".join(token_list.shown(part) for part in parts[:_PARTS])
    return told + (" + ..." if len(parts) > _PARTS else "")


def _contexts(text: str, few: bool) -> Iterator[tuple[str, str]]:
    sides = dict.fromkeys((*CONTEXTS, text[:1], text[-1:]))
    for before in sides:
        for behind in sides:
            if not few or before == behind or not (before and behind):
                yield before, behind


def _is_held(words: Sequence[str], before: str, text: str, alone: bool, drops: bool) -> bool:
    """Whether a word of before + text + behind holds the text at its place (anywhere, where text between words is lost)."""
    if drops:
        return any(text == word or (not alone and text in word) for word in words)
    at = 0
    for word in words:
        end = at + len(word)
        if at <= len(before) and end >= len(before) + len(text):
            return not alone or word == text
        at = end
    return False


def _changed(vocabulary: Vocabulary, text: str) -> str | None:
    """Return what a normalizer makes of a token, if that is something else; spaces are not looked at."""
    normalizer = vocabulary.normalizer
    if normalizer is None or any(
        "white" in step or "dummy" in step or "sentencepiece" in step for step in steps_of(normalizer)
    ):
        return None
    made = normalize(text, normalizer)
    return None if made.split() == text.split() else f"the normalizer makes {made!r} of it"
