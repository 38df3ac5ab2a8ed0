"""Encode text into token ids and decode ids into text, exactly as the ranks of the merges say."""

from __future__ import annotations

import codecs
from typing import Any, Collection, Iterable, Sequence

import numpy as np

from beam_bpe import _encode, _scan
from beam_bpe.special import SpecialTokens
from beam_bpe.vocabulary import Vocabulary

CACHE_BYTES = 16 << 20


class Tokenizer:
    """Encode and decode with a vocabulary; safe to share between threads, and pickled by content.

    Args:
        vocabulary: what `train` returns or `Vocabulary.load` reads.
        cache_bytes: memory of the cache of pieces; there is one for each thread that encodes at a time.

    >>> from beam_bpe import train
    >>> words = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
    >>> tokenizer = Tokenizer(train(words, 256 + 6))
    >>> [tokenizer.token_bytes(i) for i in tokenizer.encode("hugs uh")]
    [b'hugs', b' ', b'u', b'h']
    """

    def __init__(self, vocabulary: Vocabulary, *, cache_bytes: int = CACHE_BYTES):
        self.vocabulary = vocabulary
        self._cache_bytes = cache_bytes
        self._specials = SpecialTokens(vocabulary.special_tokens)
        self._special_ids = vocabulary.special_ids
        tokens = [*vocabulary.tokens, *self._specials.encoded]
        byte_ids = np.empty(256, np.uint32)
        byte_ids[list(vocabulary.alphabet)] = np.arange(256)
        merged = np.arange(256, 256 + len(vocabulary.left), dtype=np.uint32)
        self._encoder = _encode.Encoder(
            b"".join(tokens),
            np.cumsum([0, *map(len, tokens)], dtype=np.int64),
            byte_ids,
            np.ascontiguousarray(vocabulary.left, np.uint32),
            np.ascontiguousarray(vocabulary.right, np.uint32),
            merged,
            cache_bytes=cache_bytes,
        )
        self._token_bytes = tokens

    @classmethod
    def load(cls, folder: str, **options: Any) -> Tokenizer:
        """Read a vocabulary from its folder (a path or URL) and return its tokenizer."""
        return cls(Vocabulary.load(folder), **options)

    def __reduce__(self) -> Any:
        return _rebuilt, (self.vocabulary, self._cache_bytes)

    # ---- what there is ----

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special ones included."""
        return len(self._token_bytes)

    @property
    def special_tokens(self) -> dict[str, int]:
        """The id of each special token."""
        return dict(self._special_ids)

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes of a token; KeyError if there is none of that id."""
        if not 0 <= token_id < len(self._token_bytes):
            raise KeyError(f"id {token_id} is no token of this vocabulary; it has {len(self._token_bytes)}")
        return self._token_bytes[token_id]

    def id_of(self, token: bytes | str) -> int:
        """Return the id of a token: of bytes a learned one, of text also a special one; KeyError if there is none."""
        if isinstance(token, str) and token in self._special_ids:
            return self._special_ids[token]
        encoded = token.encode() if isinstance(token, str) else token
        if encoded not in self.vocabulary.ids:
            raise KeyError(f"{token!r} is no token of this vocabulary")
        return self.vocabulary.ids[encoded]

    # ---- encoding ----

    def encode(
        self,
        text: str | bytes,
        *,
        allowed_special: Collection[str] | str = (),
        disallowed_special: Collection[str] | str = "all",
    ) -> list[int]:
        """Return the ids of a text.

        Args:
            text: a str (a lone surrogate counts as U+FFFD), or bytes, which need not be valid UTF-8.
            allowed_special: special tokens that stand for themselves where they occur; "all" for all.
            disallowed_special: special tokens that must not occur otherwise; "all" for all that are not
                allowed.  What is neither is text like any other.

        Raises:
            ValueError: a disallowed special token occurs; the message names it and its place.
        """
        ids: list[int] = self._ids(text, allowed_special, disallowed_special).tolist()
        return ids

    def count(self, text: str | bytes, **special: Any) -> int:
        """Return the number of tokens of a text; arguments as those of `encode`."""
        return len(self._ids(text, special.get("allowed_special", ()), special.get("disallowed_special", "all")))

    def encode_batch(self, texts: Iterable[str | bytes], **special: Any) -> list[np.ndarray]:
        """Return the ids of each text as uint32 arrays; arguments as those of `encode`."""
        allowed, disallowed = special.get("allowed_special", ()), special.get("disallowed_special", "all")
        return [self._ids(text, allowed, disallowed) for text in texts]

    def encode_documents(self, data: Any, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (ids, ends) of documents side by side, special tokens being text.

        Args:
            data: a buffer of valid UTF-8.
            bounds: int64 of length 2n; document d is data[bounds[2d]:bounds[2d + 1]].

        Returns:
            uint32 ids one after the other, and int64 ends: document d has ids[ends[d - 1]:ends[d]].
        """
        chosen = self.vocabulary.pre_tokenizer
        if chosen.scanner is not None:
            packed, packed_ends = self._encoder.encode(data, bounds, chosen.scanner)
            return np.frombuffer(packed, np.uint32), np.frombuffer(packed_ends, np.int64)
        view = memoryview(data)
        pieces: list[bytes] = []
        counts = []
        for start, end in zip(bounds[::2].tolist(), bounds[1::2].tolist()):
            words = chosen.split(str(view[start:end], "utf-8"))
            pieces += [word.encode() for word in words]
            counts.append(len(words))
        ids, ends = self._encode_pieces(pieces)
        last = np.cumsum(counts, dtype=np.int64)
        return ids, np.concatenate([np.zeros(1, np.int64), ends])[last]

    def encode_with_offsets(self, text: str | bytes, **special: Any) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids of a text and the (start, end) of each in the bytes of the text.

        The bytes are those of the text in UTF-8; the slices lie side by side (a pattern that drops
        gaps leaves them out, and is refused).
        """
        if self.vocabulary.pre_tokenizer.gaps == "drop":
            raise ValueError("under a pattern that drops gaps the tokens do not lie side by side in the text")
        ids = self._ids(text, special.get("allowed_special", ()), special.get("disallowed_special", "all"))
        ends = np.cumsum(np.frombuffer(self._encoder.lengths(ids), np.int64))
        return ids.tolist(), list(zip([0, *ends[:-1].tolist()], ends.tolist())) if len(ids) else []

    def _ids(
        self, text: str | bytes, allowed: Collection[str] | str, disallowed: Collection[str] | str
    ) -> np.ndarray:
        data = _bytes_of(text)
        if not self._special_ids:
            return self._segment(data)
        every = set(self._special_ids)
        allow = every if allowed == "all" else set(allowed)
        refuse = every - allow if disallowed == "all" else set(disallowed) - allow
        for token in (allow | refuse) - every:
            raise ValueError(f"{token!r} is no special token of this vocabulary; it has {sorted(every)}")
        found = [(data.find(token.encode()), token) for token in refuse]
        if hits := [hit for hit in found if hit[0] >= 0]:
            place, token = min(hits)
            raise ValueError(
                f"the text holds the special token {token!r} at byte {place}: pass allowed_special={{{token!r}}} to "
                "encode it as such, or disallowed_special=() to encode it as text"
            )
        if not allow:
            return self._segment(data)
        parts = []
        at = 0
        for match in SpecialTokens(sorted(allow)).finditer(data):
            parts += [self._segment(data[at : match.start()]), np.array([self._special_ids[match.group().decode()]], np.uint32)]
            at = match.end()
        return np.concatenate([*parts, self._segment(data[at:])])

    def _segment(self, data: bytes) -> np.ndarray:
        """Encode bytes in which special tokens are text."""
        if not data:
            return np.empty(0, np.uint32)
        if _scan.invalid_utf8(data) < 0:
            return self.encode_documents(data, np.array([0, len(data)], np.int64))[0]
        return self._encode_pieces(_pieces_of_invalid(data, self.vocabulary))[0]

    def _encode_pieces(self, pieces: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        stops = np.cumsum([0, *map(len, pieces)], dtype=np.int64)
        bounds = np.repeat(stops, 2)[1:-1]
        ids, ends = self._encoder.encode(b"".join(pieces), np.ascontiguousarray(bounds), -1)
        return np.frombuffer(ids, np.uint32), np.frombuffer(ends, np.int64)

    # ---- decoding ----

    def decode_bytes(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """Return the bytes of the tokens, joined; KeyError if an id is no token's."""
        numbers = np.asarray(ids)
        if numbers.size and (numbers.min() < 0 or numbers.max() >= len(self._token_bytes)):
            wrong = int(numbers[(numbers < 0) | (numbers >= len(self._token_bytes))][0])
            raise KeyError(f"id {wrong} is no token of this vocabulary; it has {len(self._token_bytes)}")
        return self._encoder.decode(np.ascontiguousarray(numbers, np.uint32))

    def decode(self, ids: Sequence[int] | np.ndarray, errors: str = "replace") -> str:
        """Return the text of the tokens; bytes that are not UTF-8 go by `errors`, as in bytes.decode."""
        return self.decode_bytes(ids).decode("utf-8", errors)

    def decode_batch(self, batch: Iterable[Sequence[int] | np.ndarray], errors: str = "replace") -> list[str]:
        """Return the text of each sequence of ids."""
        return [self.decode(ids, errors) for ids in batch]


class StreamDecoder:
    """Turn ids into text one at a time, never giving half a character.

    An invalid byte becomes U+FFFD once, as Python's incremental decoder has it.

    >>> from beam_bpe import train
    >>> tokenizer = Tokenizer(train({"é": 1}, 256))
    >>> stream = StreamDecoder(tokenizer)
    >>> [stream.push(i) for i in tokenizer.encode("é!")], stream.flush()
    (['', 'é', '!'], '')
    """

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        """Return what the token completes."""
        return self._decoder.decode(self._tokenizer.token_bytes(token_id))

    def flush(self) -> str:
        """Return what is left at the end."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return text


def _rebuilt(vocabulary: Vocabulary, cache_bytes: int) -> Tokenizer:
    return Tokenizer(vocabulary, cache_bytes=cache_bytes)


def _bytes_of(text: str | bytes) -> bytes:
    if not isinstance(text, str):
        return bytes(text)
    try:
        return text.encode()
    except UnicodeEncodeError:  # surrogate pairs combine, lone ones are replaced
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _pieces_of_invalid(data: bytes, vocabulary: Vocabulary) -> list[bytes]:
    """Cut bytes that are not UTF-8 where their text with U+FFFD would be cut, and keep the bytes."""
    lengths: list[int] = []  # bytes of data for each character of the text
    at = 0
    while at < len(data):
        bad = _scan.invalid_utf8(data, at)
        good = data[at:bad] if bad >= 0 else data[at:]
        lengths += [len(char.encode()) for char in good.decode()]
        if bad < 0:
            break
        try:
            data[bad : bad + 4].decode()
            width = 1
        except UnicodeDecodeError as error:
            width = error.end - error.start if error.start == 0 else 1
        lengths.append(width)
        at = bad + width
    pieces = []
    character = start = 0
    for word in vocabulary.pre_tokenizer.split(data.decode("utf-8", "replace")):
        size = sum(lengths[character : character + len(word)])
        pieces.append(data[start : start + size])
        character += len(word)
        start += size
    return pieces
