"""Build the kernel's encoder of a vocabulary: merges of bytes, merges of characters, or matched pieces."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from beam_bpe import _encode
from beam_bpe.model import byte_token
from beam_bpe.vocabulary import Vocabulary

CACHE_BYTES = 16 << 20
METHODS = ("rank", "longest_match")

_NO_TOKEN = 0xFFFFFFFF
_END = b"\xff"  # the end of a word, in the inner model of characters: a byte that no text has
_SPACE_BEFORE, _SPACE_BEHIND = 1, 2


def encoder_of(vocabulary: Vocabulary, method: str = "rank", cache_bytes: int = CACHE_BYTES) -> _encode.Encoder:
    """Return the encoder of a vocabulary.

    Args:
        method: "rank": merges by rank; "longest_match": within each word the longest token that fits, from the left.
            WordPiece always matches so.
        cache_bytes: memory of a cache of pieces.

    Raises:
        ValueError: the method is none of these, or has no meaning for the vocabulary.
    """
    if method not in METHODS:
        raise ValueError(f"method={method!r}: choose one of {', '.join(METHODS)}")
    model = vocabulary.model
    longest = method == "longest_match"
    if longest and (model.attached or model.algorithm == "wordlevel"):
        what = "an attached end-of-word suffix" if model.attached else "whole words"
        raise ValueError(f"method='longest_match' has no meaning for {what}: choose 'rank'")
    if model.is_byte_level:
        return _of_bytes(vocabulary, longest, cache_bytes)
    if model.algorithm == "bpe":
        return _of_characters(vocabulary, longest, cache_bytes)
    return _of_pieces(vocabulary, cache_bytes)


def decoded_tokens(vocabulary: Vocabulary) -> tuple[list[bytes], np.ndarray | None]:
    """Return the bytes that each id decodes to (none for a hole), and by id the space that they bring.

    1 is a space at the beginning, which is dropped at the beginning of a document, 2 one at the end, which is dropped
    at its end, 0 none; None if no token brings any. Pieces and whole words bring a space before them, pieces that
    continue a word and bytes do not; a token that ends in the end-of-word suffix brings one in its place.
    """
    model = vocabulary.model
    tokens = [*vocabulary.tokens, *[b""] * (len(vocabulary) - len(vocabulary.tokens))]
    for added in vocabulary.added_tokens:
        tokens[added.id] = added.text.encode()
    spaces = np.zeros(len(tokens), np.uint8)
    if model.byte_fallback:
        for byte in range(256):
            tokens[vocabulary.ids[byte_token(byte).encode()]] = bytes([byte])
    if model.end_of_word:
        mark = model.end_of_word.encode()
        for i, token in enumerate(vocabulary.tokens):
            if token.endswith(mark):
                tokens[i] = token[: -len(mark)] + b" "
                spaces[i] = _SPACE_BEHIND
    if model.algorithm != "bpe":
        prefix = (model.continuing_subword_prefix or "").encode()
        for i, token in enumerate(tokens):
            if prefix and token.startswith(prefix) and token != prefix:
                tokens[i] = token[len(prefix) :]
            elif token and (prefix or model.algorithm == "wordlevel"):
                tokens[i] = b" " + token
                spaces[i] = _SPACE_BEFORE
    return tokens, spaces if spaces.any() else None


def _columns(tokens: Sequence[bytes]) -> tuple[bytes, np.ndarray]:
    """Return tokens side by side, and where each starts."""
    return b"".join(tokens), np.cumsum([0, *map(len, tokens)], dtype=np.int64)


def _of_bytes(vocabulary: Vocabulary, longest: bool, cache_bytes: int) -> _encode.Encoder:
    tokens, _ = decoded_tokens(vocabulary)
    whole = None
    if longest or (vocabulary.layout is not None and vocabulary.layout.whole_pieces):
        whole = np.zeros(len(tokens), np.uint8)
        whole[: len(vocabulary.tokens)] = [bool(token) for token in vocabulary.tokens]
    return _encode.Encoder(
        *_columns(tokens),
        np.array([vocabulary.ids[bytes([byte])] for byte in range(256)], np.uint32),
        np.ascontiguousarray(vocabulary.left, np.uint32),
        np.ascontiguousarray(vocabulary.right, np.uint32),
        np.ascontiguousarray(vocabulary.merged, np.uint32),
        whole=whole,
        cache_bytes=cache_bytes,
        longest_match=longest,
    )


def _of_pieces(vocabulary: Vocabulary, cache_bytes: int) -> _encode.Encoder:
    model = vocabulary.model
    tokens = [*vocabulary.tokens, *[b""] * (len(vocabulary) - len(vocabulary.tokens))]
    if vocabulary.unk_id is None:
        raise ValueError(f"algorithm={model.algorithm!r} needs a token for words that it cannot cut: give unk_token")
    pieces = _encode.Pieces(
        *_columns(tokens),
        vocabulary.unk_id,
        prefix=(model.continuing_subword_prefix or "").encode(),
        most_chars=model.max_input_chars_per_word,
        unk_characters=model.unk_characters,
        whole_words=model.algorithm == "wordlevel",
    )
    return _encode.Encoder(pieces=pieces, decoded=_decoded(vocabulary), cache_bytes=cache_bytes)


def _decoded(vocabulary: Vocabulary) -> _encode.Decoded:
    tokens, spaces = decoded_tokens(vocabulary)
    return _encode.Decoded(*_columns(tokens), spaces)


# ---- merges of characters ------------------------------------------------------------------------


class _Inner:
    """A byte-level model that merges the bytes of characters, and then characters.

    Each token of the vocabulary may stand for two inner ones: its spelling as text, and its spelling with the byte
    of the end of a word in place of the suffix. Only the last symbol of a word can be of the second kind, so a merge
    is at most two inner ones: with either kind on the right.
    """

    def __init__(self, vocabulary: Vocabulary):
        model = vocabulary.model
        self.tokens = [bytes([byte]) for byte in range(256)]
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        self.merges: list[tuple[int, int, int]] = []
        mark = (model.end_of_word or "").encode()
        spelt = vocabulary.tokens
        before_mark = [token[: -len(mark)] if mark and token.endswith(mark) else None for token in spelt]
        alphabet = {token for token in spelt if _is_character(token)}
        if model.attached:  # the bare suffix is no symbol then
            before_mark = [text or None for text in before_mark]
            alphabet |= {text for text in before_mark if text and _is_character(text)}
        for length in (2, 3, 4):
            for prefix in sorted({char[:length] for char in alphabet if len(char) >= length}):
                self._merge(prefix[:-1], prefix[-1:])
        for char in sorted(alphabet) if model.attached else ():
            self._merge(char, _END)
        self.spelling = len(self.merges)  # merges that spell characters, and nothing of the vocabulary's
        self.text = self._all(spelt)
        self.end = self._all([b"" if text is None else text + _END for text in before_mark])
        self.outer = np.full(len(self.tokens), _NO_TOKEN, np.uint32)
        for side in (self.text, self.end):
            there = side != _NO_TOKEN
            self.outer[side[there]] = np.flatnonzero(there)

    def _id(self, token: bytes) -> int:
        found = self.ids.setdefault(token, len(self.tokens))
        if found == len(self.tokens):
            self.tokens.append(token)
        return found

    def _merge(self, left: bytes, right: bytes) -> None:
        self.merges.append((self.ids[left], self.ids[right], self._id(left + right)))

    def _all(self, tokens: Sequence[bytes]) -> np.ndarray:
        """Return the inner ids of tokens, and none of those that are empty."""
        return np.array([self._id(token) if token else _NO_TOKEN for token in tokens], np.uint32)

    def columns(self, vocabulary: Vocabulary) -> np.ndarray:
        """Return left, right and merged of all merges: those that spell, then the vocabulary's, each with its two kinds."""
        left, right, merged = (np.asarray(side, np.int64) for side in (vocabulary.left, vocabulary.right, vocabulary.merged))
        kinds = [(self.text[left], kind[right], kind[merged]) for kind in (self.text, self.end)]
        own = np.stack([np.stack(kind) for kind in kinds], axis=-1).reshape(3, -1)
        spelled = np.array(self.merges, np.uint32).reshape(-1, 3).T
        return np.ascontiguousarray(np.concatenate([spelled, own[:, (own != _NO_TOKEN).all(axis=0)]], axis=1))


def _is_character(token: bytes) -> bool:
    return 0 < len(token) <= 4 and len(token.decode()) == 1


def _of_characters(vocabulary: Vocabulary, longest: bool, cache_bytes: int) -> _encode.Encoder:
    model = vocabulary.model
    inner = _Inner(vocabulary)
    tokens, starts = _columns(inner.tokens)
    found: list[np.ndarray] = []
    if longest:
        found = [inner.text, inner.end]
    elif vocabulary.layout is not None and vocabulary.layout.whole_pieces:
        found = [inner.text]
    whole = np.zeros(len(inner.tokens), np.uint8)
    for side in found:
        whole[side[side != _NO_TOKEN]] = 1
    unk = _NO_TOKEN if vocabulary.unk_id is None else vocabulary.unk_id
    mark = vocabulary.ids.get((model.end_of_word or "").encode(), _NO_TOKEN)
    if model.byte_fallback:
        byte_ids = [vocabulary.ids[byte_token(byte).encode()] for byte in range(256)]
        whole[inner.text[byte_ids]] = 0  # these are spelled as no text is
        end = mark if model.attached else unk
    else:
        byte_ids = [_NO_TOKEN if 0x80 <= byte < 0xC0 else unk for byte in range(256)]  # once for a character
        end = _NO_TOKEN if model.attached else unk
    byte_ids[255] = end
    characters = _encode.Characters(
        inner.outer,
        np.array(byte_ids, np.uint32),
        ends=bool(model.end_of_word),
        fused=unk if model.fuse_unk else _NO_TOKEN,
        cuts=not (model.fuse_unk and unk in inner.outer),  # a token that is not unknown must not be fused with one
        never_dropped=inner.spelling,
    )
    left, right, merged = inner.columns(vocabulary)
    return _encode.Encoder(
        tokens,
        starts,
        np.arange(256, dtype=np.uint32),
        left,
        right,
        merged,
        whole=whole if whole.any() else None,
        cache_bytes=cache_bytes,
        longest_match=longest,
        characters=characters,
        decoded=_decoded(vocabulary),
    )
