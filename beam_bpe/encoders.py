"""Build the kernel's encoder of a vocabulary: merges of bytes, merges of characters, matched pieces, or scores."""

from __future__ import annotations

from typing import Any, Collection, NamedTuple, Sequence

import numpy as np

from beam_bpe import _encode
from beam_bpe.lattice import Lattice
from beam_bpe.model import byte_token
from beam_bpe.normalize import steps_of
from beam_bpe.reference_sentencepiece import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED
from beam_bpe.reference_sentencepiece_encoding import Encoder as ReferenceEncoder
from beam_bpe.rewriting import METASPACE
from beam_bpe.vocabulary import Vocabulary

CACHE_BYTES = 16 << 20
METHODS = ("rank", "longest_match")

_NO_TOKEN = 0xFFFFFFFF
_END = b"\xff"  # the end of a word, in the inner model of characters: a byte that no text has
_SPACE_BEFORE, _SPACE_BEHIND = 1, 2
#: Steps of a normalizer behind which a space at the beginning of a text may be none of the text.
_PREFIXING = ("dummy_prefix", "remove_extra_whitespaces", *(METASPACE + scheme for scheme in ("always", "first", "words")))
_SPACE = "\u2581".encode()
_UNKNOWN_PENALTY = 10.0  # by which an unknown character scores less than all pieces
_SYMBOL_SCORE = 0.1  # of SentencePiece's user-defined symbols, for each byte but the first


def encoder_of(
    vocabulary: Vocabulary, method: str = "rank", cache_bytes: int = CACHE_BYTES
) -> _encode.Encoder | EncoderWithUnused:
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
    if longest and (model.attached or model.algorithm == "wordlevel" or model.is_scored):
        what = "an attached end-of-word suffix" if model.attached else "scores" if model.is_scored else "whole words"
        raise ValueError(f"method='longest_match' has no meaning for {what}: choose 'rank'")
    if model.is_byte_level:
        return _of_bytes(vocabulary, longest, cache_bytes)
    if model.algorithm == "bpe":
        return _of_characters(vocabulary, longest, cache_bytes)
    if model.algorithm == "unigram":
        return _of_unigram(vocabulary, cache_bytes)
    if model.algorithm == "sentencepiece-bpe":
        return _of_scored_merges(vocabulary, cache_bytes)
    return _of_pieces(vocabulary, cache_bytes)


def decoded_tokens(vocabulary: Vocabulary) -> tuple[list[bytes], np.ndarray | None]:
    """Return the bytes that each id decodes to (none for a hole), and by id the space that they bring.

    1 is a space at the beginning, which is dropped at the beginning of a document, 2 one at the end, which is dropped
    at its end, 0 none; None if no token brings any. Pieces and whole words bring a space before them, pieces that
    continue a word and bytes do not; a token that ends in the end-of-word suffix brings one in its place. U+2581 is
    a space in SentencePiece's models, and behind a normalizer that makes it of spaces; at the end at which the normalizer
    puts one into a text it is dropped.
    """
    model = vocabulary.model
    tokens = [*vocabulary.tokens, *[b""] * (len(vocabulary) - len(vocabulary.tokens))]
    spaces = np.zeros(len(tokens), np.uint8)
    steps = steps_of(vocabulary.normalizer) if vocabulary.normalizer is not None else ()
    of_sentencepiece = model.algorithm == "sentencepiece-bpe" or model.single_precision
    escapes = any(step == "escape_whitespaces" or step.startswith(METASPACE) for step in steps)
    escaped = of_sentencepiece or escapes and not model.is_byte_level and (model.algorithm == "bpe" or model.is_scored)
    if escaped:
        tokens = [token.replace(_SPACE, b" ") for token in tokens]
    for added in vocabulary.added_tokens:
        tokens[added.id] = added.text.encode()
    if model.unk_surface is not None and vocabulary.unk_id is not None:
        tokens[vocabulary.unk_id] = model.unk_surface.encode()
    if model.byte_fallback:
        for byte in range(256):
            tokens[vocabulary.ids[byte_token(byte).encode()]] = bytes([byte])
    if model.end_of_word:
        mark = model.end_of_word.encode()
        for i, token in enumerate(vocabulary.tokens):
            if token.endswith(mark):
                tokens[i] = token[: -len(mark)] + b" "
                spaces[i] = _SPACE_BEHIND
    if escaped:
        prefixed = {*_PREFIXING} & {*steps}
        for i, token in enumerate(vocabulary.tokens):
            if "dummy_suffix" in steps:
                spaces[i] = _SPACE_BEHIND if token.endswith(_SPACE) else 0
            elif prefixed:
                spaces[i] = _SPACE_BEFORE if token.startswith(_SPACE) else 0
    elif model.algorithm != "bpe":
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


# ---- scores --------------------------------------------------------------------------------------


def _apart(vocabulary: Vocabulary) -> frozenset[int]:
    """Return the ids of the tokens of bytes, which no text is given as it is spelled."""
    if not vocabulary.model.byte_fallback:
        return frozenset()
    return frozenset(vocabulary.ids[byte_token(byte).encode()] for byte in range(256))


def _byte_ids(vocabulary: Vocabulary) -> np.ndarray:
    return np.array([vocabulary.ids[byte_token(byte).encode()] for byte in range(256)], np.uint32)


def _only(vocabulary: Vocabulary, ids: Collection[int]) -> list[bytes]:
    """Return the tokens by id, and nothing for those that are not among the ids."""
    return [token if i in ids else b"" for i, token in enumerate(vocabulary.tokens)] + [b""] * (
        len(vocabulary) - len(vocabulary.tokens)
    )


def _unknown(vocabulary: Vocabulary) -> int:
    if vocabulary.unk_id is None:
        raise ValueError(f"algorithm={vocabulary.model.algorithm!r} needs a token for what it does not know: give unk_token")
    return vocabulary.unk_id


class UnigramScores(NamedTuple):
    """What a Unigram model looks for: pieces, by their ids, the scores of all ids, and that of an unknown character."""

    pieces: Collection[int]
    scores: np.ndarray
    unknown: float


def unigram_scores(vocabulary: Vocabulary) -> UnigramScores:
    """Return the pieces and scores by which SentencePiece or Hugging Face `tokenizers` encode, as the model says."""
    layout = vocabulary.layout
    assert layout is not None and layout.scores is not None
    single = vocabulary.model.single_precision
    apart = _apart(vocabulary) if single else ()  # tokenizers finds the spelling of a byte in a text, too
    pieces = {i for i, token in enumerate(layout.tokens) if token} - {*layout.unused, *apart}
    own = np.array(layout.scores, np.float64)
    if single:
        scored = np.array(sorted(pieces - set(layout.user_defined)), np.int64)
        for i in layout.user_defined:
            own[i] = np.float32((len(layout.tokens[i]) - 1) * _SYMBOL_SCORE)
    else:
        known = {i for i, token in enumerate(layout.tokens) if token}
        scored = np.array(sorted(known | {token.id for token in layout.added_tokens}), np.int64)
    unknown = (float(own[scored].min()) if len(scored) else 0.0) - _UNKNOWN_PENALTY
    return UnigramScores(pieces, own, float(np.float32(unknown)) if single else unknown)


def _of_unigram(vocabulary: Vocabulary, cache_bytes: int) -> _encode.Encoder:
    """Return the encoder of Unigram: of a whole text, or of each word of the pattern metaspace as in `tokenizers`."""
    model = vocabulary.model
    found = unigram_scores(vocabulary)
    unigram = _encode.Unigram(
        *_columns(_only(vocabulary, found.pieces)),
        found.scores,
        _unknown(vocabulary),
        found.unknown,
        byte_ids=_byte_ids(vocabulary) if model.byte_fallback else None,
        single_precision=model.single_precision,
    )
    return _encode.Encoder(unigram=unigram, decoded=_decoded(vocabulary), cache_bytes=cache_bytes)


def lattice_of(vocabulary: Vocabulary) -> Lattice:
    """Return the lattice of a Unigram vocabulary."""
    model = vocabulary.model
    found = unigram_scores(vocabulary)
    words = not model.single_precision and vocabulary.pre_tokenizer.name == "metaspace"
    return Lattice(
        {vocabulary.tokens[i].decode(): (i, float(found.scores[i])) for i in found.pieces},
        (_unknown(vocabulary), found.unknown),
        _byte_ids(vocabulary).tolist() if model.byte_fallback else None,
        inside=_SPACE.decode() if words else "",
    )


def _of_scored_merges(vocabulary: Vocabulary, cache_bytes: int) -> _encode.Encoder | EncoderWithUnused:
    """Return the encoder of SentencePiece's BPE, by an inner model that merges bytes.

    There two neighbours merge if their joined spelling is a piece, whatever they are themselves. Nothing merges across the
    span of a piece before it is formed, so in every text a piece is formed by the merges that form it alone: it has two
    parts at most, and one merge. Characters that are no pieces are unknown where they are left.
    """
    model, layout = vocabulary.model, vocabulary.layout
    assert layout is not None and layout.scores is not None
    scores = layout.scores
    apart = {*layout.user_defined, *_apart(vocabulary)}
    pieces = {token: i for i, token in enumerate(layout.tokens) if token and i not in apart}
    characters = {char.encode() for piece in pieces for char in piece.decode()}
    prefixes = {char[:length] for char in characters for length in (2, 3, 4) if len(char) >= length}
    longer = sorted((piece for piece in pieces if not _is_character(piece)), key=lambda piece: -scores[pieces[piece]])
    tokens = [*(bytes([byte]) for byte in range(256)), *sorted(prefixes, key=lambda prefix: (len(prefix), prefix)), *longer]
    first = len(tokens) - len(longer)
    ordered = np.array([scores[pieces[piece]] for piece in longer])
    ranks = np.arange(len(tokens), dtype=np.uint32)
    ranks[first:] = first + np.cumsum(np.diff(ordered, prepend=ordered[:1]) != 0)
    tied = len(longer) > 0 and int(ranks[-1]) < len(tokens) - 1
    columns = _encode.recover_merges(*_columns(tokens), ranks if tied else None)
    left, right, merged = (np.frombuffer(column, np.uint32) for column in columns[:3])
    never = {layout.tokens[i] for i in layout.unused if _is_character(layout.tokens[i])}  # longer ones are taken apart
    unk = _unknown(vocabulary)
    byte_ids = [_NO_TOKEN if 0x80 <= byte < 0xC0 else unk for byte in range(256)]  # once for a character
    inner = _encode.Characters(
        np.array([_NO_TOKEN if token in never else pieces.get(token, _NO_TOKEN) for token in tokens], np.uint32),
        _byte_ids(vocabulary) if model.byte_fallback else np.array(byte_ids, np.uint32),
        fused=_NO_TOKEN if model.byte_fallback else unk,
        never_dropped=len(prefixes),
    )
    encoder = _encode.Encoder(
        *_columns(tokens),
        np.arange(256, dtype=np.uint32),
        left,
        right,
        merged,
        cache_bytes=cache_bytes,
        characters=inner,
        decoded=_decoded(vocabulary),
        ranks=np.unique(ranks[merged], return_inverse=True)[1].astype(np.uint32) if tied else None,
        symbols=_columns(_only(vocabulary, set(layout.user_defined))),
    )
    return EncoderWithUnused(encoder, vocabulary) if len(layout.unused) > len(never) else encoder


class EncoderWithUnused:
    """An encoder by SentencePiece's BPE that has unused pieces.

    Merges go through them, and those that are left are taken apart, into the parts that a pair of that spelling anywhere
    in the text had last. So a text in which one is left, and it alone, is encoded once more by the plain reference.
    """

    def __init__(self, encoder: _encode.Encoder, vocabulary: Vocabulary):
        layout = vocabulary.layout
        assert layout is not None and layout.scores is not None
        self._encoder = encoder
        self._unused = np.array(layout.unused, np.uint32)
        spelled = [token.decode() for token in _only(vocabulary, range(len(vocabulary)))]
        kinds = [NORMAL if token else CONTROL for token in spelled]
        for group, kind in ((layout.user_defined, USER_DEFINED), (layout.unused, UNUSED), (_apart(vocabulary), BYTE)):
            for i in group:
                kinds[i] = kind
        for added in vocabulary.added_tokens:
            spelled[added.id] = added.text
        kinds[_unknown(vocabulary)] = UNKNOWN
        self._reference = ReferenceEncoder(spelled, layout.scores.tolist(), kinds, "bpe", vocabulary.model.byte_fallback)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def encode_words(
        self, data: Any, bounds: np.ndarray, pattern: int, most: int | None = None, width: int = 4, unk: int | None = None
    ) -> tuple[bytes, bytes, int, int, int]:
        """As the kernel's."""
        packed, packed_ends, overlong, words, kept = self._encoder.encode_words(data, bounds, pattern, None, 4, unk)
        documents = np.split(np.frombuffer(packed, np.uint32), np.frombuffer(packed_ends, np.int64)[:-1])
        for d, (ids, start, end) in enumerate(zip(documents, bounds[::2].tolist(), bounds[1::2].tolist())):
            if np.isin(ids, self._unused).any():
                documents[d] = np.array(self._reference.encode(bytes(data[start:end]).decode()), np.uint32)
            documents[d] = documents[d][:most]
        joined = np.concatenate([*documents, np.empty(0, np.uint32)])
        ends = np.cumsum([len(ids) for ids in documents], dtype=np.int64)
        return joined.astype(np.uint16 if width == 2 else np.uint32).tobytes(), ends.tobytes(), overlong, words, kept

    def encode_list(self, data: bytes, pattern: int) -> list[int]:
        """As the kernel's."""
        ids = self._encoder.encode_list(data, pattern)
        return self._reference.encode(data.decode()) if np.isin(ids, self._unused).any() else ids

    def count(self, data: Any, bounds: np.ndarray, pattern: int) -> bytes:
        """As the kernel's."""
        ends = np.frombuffer(self.encode_words(data, bounds, pattern)[1], np.int64)
        return np.diff(ends, prepend=0).tobytes()

    def encode_dropout(self, *_: Any) -> Any:
        """Refuse it: what an unused piece is taken apart into is not defined there."""
        raise ValueError("dropout is not defined for a vocabulary with unused pieces, which merges go through")
