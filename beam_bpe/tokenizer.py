"""Encode text into token ids and decode ids into text, exactly as the model of a vocabulary says."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Collection, Iterable, NamedTuple, Sequence

import numpy as np
import pyarrow as pa

from beam_bpe import _scan, encoders
from beam_bpe.added import AddedTokens, Segment
from beam_bpe.encoders import CACHE_BYTES
from beam_bpe.lattice import Lattice
from beam_bpe.layout import AddedToken
from beam_bpe.normalize import normalize_bytes, normalize_documents
from beam_bpe.texts import bytes_of, is_text, pieces_of_invalid, valid_bytes
from beam_bpe.vocabulary import Vocabulary

#: What happens to the special tokens in the text of a corpus.
SPECIAL_POLICIES = ("text", "encode", "drop", "fail")

Ids = Sequence[int] | np.ndarray
_PIECES = -1  # in place of the number of a scanner: what is encoded are words, which were cut already


class Batch(NamedTuple):
    """Ids of documents side by side: document d has ids[ends[d - 1]:ends[d]].

    Attributes:
        ids: uint16 or uint32.
        ends: int64, one a document.
        special: occurrences of special tokens that were encoded as such or dropped.
        unknown: occurrences of the model's unk_token.
        overlong: those of words that had more than max_input_chars_per_word characters.
        words: occurrences of words, and
        kept_words: of words kept whole, which are one token and not unknown; both are of no use where few ids are encoded.
    """

    ids: np.ndarray
    ends: np.ndarray
    special: int = 0
    unknown: int = 0
    overlong: int = 0
    words: int = 0
    kept_words: int = 0

    def split(self) -> list[np.ndarray]:
        """Return the ids of each document."""
        return np.split(self.ids, self.ends[:-1]) if len(self.ends) else []


class Tokenizer:
    """Encode and decode with a vocabulary; safe to share between threads, and pickled by content.

    Args:
        vocabulary: what `train` returns, or `Vocabulary.load` or `beam_bpe.formats.load` reads.
        method: "rank": merges by rank, which is BPE; "longest_match": within each word, greedily from left
            to right, the longest token that fits.
        cache_bytes: memory of the cache of pieces; there is one for each thread that encodes at a time.

    >>> from beam_bpe import train
    >>> words = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
    >>> vocabulary = train(words, 256 + 6)
    >>> tokenizer = Tokenizer(vocabulary)
    >>> [tokenizer.token_bytes(i) for i in tokenizer.encode("hugs uh")]
    [b'hugs', b' ', b'u', b'h']

    The methods differ where an earlier merge takes a part of what would be the longest token:

    >>> vocabulary = train({"ab": 9, "bcd": 12}, 256 + 3, min_pair_count=1)
    >>> [merge.token for merge in vocabulary.merges]
    [b'bc', b'bcd', b'ab']
    >>> for method in ("rank", "longest_match"):
    ...     tokenizer = Tokenizer(vocabulary, method=method)
    ...     print([tokenizer.token_bytes(i) for i in tokenizer.encode("abcd")])
    [b'a', b'bcd']
    [b'ab', b'c', b'd']
    """

    def __init__(self, vocabulary: Vocabulary, *, method: str = "rank", cache_bytes: int = CACHE_BYTES):
        self.vocabulary = vocabulary
        self.method = method
        self._cache_bytes = cache_bytes
        self._size = len(vocabulary)
        self._added = {token.text: token for token in vocabulary.added_tokens}
        self._special_ids = vocabulary.special_ids
        self._always = tuple(token for token in vocabulary.added_tokens if not token.special)
        number = vocabulary.pre_tokenizer.scanner
        self._scanner = _PIECES if number is None else number
        self._spelt: list[bytes] = [*vocabulary.tokens, *[b""] * (self._size - len(vocabulary.tokens))]
        for token in vocabulary.added_tokens:
            self._spelt[token.id] = token.text.encode()
        layout = vocabulary.layout  # the normalizers of SentencePiece leave user-defined symbols as they are
        self._symbols = tuple([layout.tokens[i].decode() for i in layout.user_defined]) if layout is not None else ()
        self._encoder = encoders.encoder_of(vocabulary, method, cache_bytes)
        # Nothing is found before the pre-tokenization, and all of that is native: what is text needs the kernels only.
        self._simple = not self._always and self._scanner != _PIECES
        self._finders = lru_cache(16)(self._make_finder)
        self._refusers = lru_cache(16)(self._make_refuser)
        self._lattices = lru_cache(1)(lambda: encoders.lattice_of(vocabulary))
        # Bytes without which no added token is found in a text (a normalizer may make any).
        hidden = vocabulary.normalizer is not None and any(token.normalized for token in vocabulary.added_tokens)
        self._beginnings = [b""] if hidden else sorted({token.encode()[:3] for token in self._added})

    @classmethod
    def load(cls, path: str, **options: Any) -> Tokenizer:
        """Read a vocabulary of any known format from a path or URL and return its tokenizer.

        Args:
            options: `method` and `cache_bytes`; others go to `beam_bpe.formats.load`.
        """
        from beam_bpe import formats

        own = {name: options.pop(name) for name in ("method", "cache_bytes") if name in options}
        return cls(formats.load(path, **options), **own)

    def __reduce__(self) -> Any:
        return _rebuilt, (self.vocabulary, self.method, self._cache_bytes)

    # ---- what there is ----

    @property
    def vocab_size(self) -> int:
        """One more than the greatest id: the number of tokens, special ones included, where there are no holes."""
        return self._size

    @property
    def special_tokens(self) -> dict[str, int]:
        """The id of each special token."""
        return dict(self._special_ids)

    def token_bytes(self, token_id: int) -> bytes:
        """Return the bytes of a token; KeyError if there is none of that id."""
        if not 0 <= token_id < self._size or not self._spelt[token_id]:
            raise KeyError(f"id {token_id} is no token of this vocabulary; its ids are below {self._size}")
        return self._spelt[token_id]

    def id_of(self, token: bytes | str) -> int:
        """Return the id of a token: of bytes one of the model, of text also an added one; KeyError if there is none."""
        if isinstance(token, str) and token in self._added:
            return self._added[token].id
        encoded = token.encode() if isinstance(token, str) else token
        if encoded not in self.vocabulary.ids:
            raise KeyError(f"{token!r} is no token of this vocabulary")
        return self.vocabulary.ids[encoded]

    # ---- encoding one text ----

    def encode(
        self,
        text: str | bytes,
        *,
        allowed_special: Collection[str] | str = (),
        disallowed_special: Collection[str] | str = "all",
        add_special_tokens: bool = False,
    ) -> list[int]:
        """Return the ids of a text.

        Args:
            text: a str (a lone surrogate counts as U+FFFD), or bytes, which need not be valid UTF-8.
            allowed_special: special tokens that stand for themselves where they occur; "all" for all.
            disallowed_special: special tokens that must not occur otherwise; "all" for all that are not
                allowed.  What is neither is text like any other.
            add_special_tokens: put around it what the post-processor of a foreign vocabulary does.

        Raises:
            ValueError: a disallowed special token occurs; the message names it and its place.
        """
        data = text.encode() if isinstance(text, str) and text.isascii() else bytes_of(text)
        finder = self._finder(data, allowed_special, disallowed_special)
        if finder is None and self._simple and (isinstance(text, str) or _scan.invalid_utf8(data) < 0):
            ids: list[int] = self._encoder.encode_list(self._normal(data), self._scanner)
        else:
            ids = self._encode_segments([self._segments(data, finder)]).ids.tolist()
        return self._wrapped(ids) if add_special_tokens else ids

    def count(
        self,
        text: str | bytes,
        *,
        allowed_special: Collection[str] | str = (),
        disallowed_special: Collection[str] | str = "all",
    ) -> int:
        """Return the number of tokens of a text, without making their ids; arguments as those of `encode`."""
        data = bytes_of(text)
        finder = self._finder(data, allowed_special, disallowed_special)
        if finder is None and self._simple and _scan.invalid_utf8(data) < 0:
            data = self._normal(data)
            bounds = np.array([0, len(data)], np.int64)
            return int(np.frombuffer(self._encoder.count(data, bounds, self._scanner), np.int64)[0])
        return len(self._encode_segments([self._segments(data, finder)]).ids)

    def encode_with_offsets(
        self,
        text: str | bytes,
        *,
        allowed_special: Collection[str] | str = (),
        disallowed_special: Collection[str] | str = "all",
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """Return the ids of a text and the (start, end) of each in the bytes of the text.

        The bytes are those of the text in UTF-8; the slices lie side by side.

        Raises:
            ValueError: a disallowed special token occurs; or the vocabulary is not byte-level, has a normalizer or
                a pattern that drops gaps, under which the tokens do not lie side by side in the text.
        """
        vocabulary = self.vocabulary
        if vocabulary.pre_tokenizer.gaps == "drop" or vocabulary.normalizer is not None or not vocabulary.model.is_byte_level:
            raise ValueError(
                "the tokens do not lie side by side in the text under a normalizer, a pattern that drops gaps, or a "
                "model that is not byte-level"
            )
        data = bytes_of(text)
        finder = self._finder(data, allowed_special, disallowed_special)
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        for segment in self._segments(data, finder):
            if segment.token is not None:
                ids.append(segment.token.id)
                offsets.append((segment.start, segment.end))
                continue
            own = self._encode_segments([[segment]]).ids
            ends = (segment.start + np.cumsum(np.frombuffer(self._encoder.lengths(own), np.int64))).tolist()
            ids += own.tolist()
            offsets += zip([segment.start, *ends[:-1]], ends)
        return ids, offsets

    def encode_dropout(self, text: str | bytes, dropout: float, seed: int = 0) -> list[int]:
        """Return the ids of a text under BPE-dropout, special tokens being text.

        At every step each merge that is possible is left out with the probability `dropout` (Provilkov,
        Emelianenko and Voita 2020, "BPE-Dropout: Simple and Effective Subword Regularization").  The result
        is a function of the text, `dropout` and `seed`: give another seed in each epoch.

        Raises:
            ValueError: dropout is not from 0 to 1, or the vocabulary or the method does not merge by rank.
        """
        if self.method != "rank" or self.vocabulary.model.algorithm not in ("bpe", "sentencepiece-bpe"):
            raise ValueError(
                f"dropout leaves out merges; the method {self.method!r} of {self.vocabulary.model.algorithm!r} makes none"
            )
        if not 0.0 <= dropout <= 1.0:
            raise ValueError(f"dropout is {dropout}; it is a probability, from 0 to 1")
        ids: list[int] = []
        for number, segment in enumerate(self._text_segments(text)):
            if segment.token is not None:
                ids.append(segment.token.id)
                continue
            data, scanned = segment.data, self._scanner != _PIECES and _scan.invalid_utf8(segment.data) < 0
            parts = [data] if scanned else self._pieces(data)
            for place, part in enumerate(parts):  # equal words of a text are cut each in its own way
                packed, _ = self._encoder.encode_dropout(
                    part, np.array([0, len(part)], np.int64), self._scanner if scanned else _PIECES, dropout,
                    (seed + (number << 40) + (place << 1)) & (1 << 64) - 1,
                )  # fmt: skip
                ids += np.frombuffer(packed, np.uint32).tolist()
        return ids

    def encode_nbest(self, text: str | bytes, n: int) -> list[tuple[list[int], float]]:
        """Return the n best segmentations of a text by a Unigram model, special tokens being text: (ids, sum of scores).

        The first is that of `encode`, but for sums that are equal when they are rounded to 32 bits. There may be fewer.
        Two may have the same ids, where neighbouring unknown characters became one token.

        Raises:
            ValueError: n is less than 1, or the vocabulary is not of Unigram.
        """
        if n < 1:
            raise ValueError(f"n={n}: choose 1 or more segmentations")
        return self._lattice().best_of_parts(self._text_parts(text), n)

    def encode_sample(self, text: str | bytes, alpha: float, seed: int = 0) -> list[int]:
        """Return the ids of a segmentation of a text that is drawn by a Unigram model, special tokens being text.

        Each segmentation has a probability proportional to exp(alpha · its sum of scores) (Kudo 2018, "Subword
        Regularization"): with 0 all have the same, with much it is the best. The result is a function of the text, `alpha`
        and `seed`: give another seed in each epoch.

        Raises:
            ValueError: alpha is negative or no finite number, or the vocabulary is not of Unigram.
        """
        if not 0 <= alpha < float("inf"):
            raise ValueError(f"alpha={alpha}: choose a finite number from 0 on")
        return self._lattice().sample_of_parts(self._text_parts(text), alpha, seed)

    def _text_segments(self, text: str | bytes) -> list[Segment]:
        """Return the segments of a text in which special tokens are text."""
        data = bytes_of(text)
        finder = self._finders(()) if self._always else None
        return self._segments(data, finder if finder and finder.may_occur_in(data) else None)

    def _text_parts(self, text: str | bytes) -> list[str | int]:
        """Return the same as a lattice takes it: texts and ids."""
        return [part.data.decode() if part.token is None else part.token.id for part in self._text_segments(text)]

    def _lattice(self) -> Lattice:
        algorithm = self.vocabulary.model.algorithm
        if algorithm != "unigram":
            raise ValueError(f"there are several segmentations with 'unigram', and this vocabulary is of {algorithm!r}")
        return self._lattices()

    # ---- encoding many texts ----

    def encode_batch(
        self,
        texts: Iterable[str | bytes],
        *,
        allowed_special: Collection[str] | str = (),
        disallowed_special: Collection[str] | str = "all",
        add_special_tokens: bool = False,
    ) -> list[np.ndarray]:
        """Return the ids of each text as uint32 arrays; arguments as those of `encode`."""
        if isinstance(texts, (str, bytes, bytearray, memoryview)):
            raise TypeError(f"a batch is an iterable of texts, not one {type(texts).__name__}: encode takes one text")
        documents = [bytes_of(text) for text in texts]
        finders = [self._finder(data, allowed_special, disallowed_special) for data in documents]
        if self._simple and not any(finders) and _scan.invalid_utf8(b"\n".join(documents)) < 0:
            ends = np.cumsum([0, *map(len, documents)], dtype=np.int64)
            batch = self._encode_text(b"".join(documents), np.ascontiguousarray(np.repeat(ends, 2)[1:-1]))
        else:
            batch = self._encode_segments([self._segments(data, finder) for data, finder in zip(documents, finders)])
        if add_special_tokens and self.vocabulary.layout is not None:
            layout = self.vocabulary.layout
            around = np.array(layout.prefix, np.uint32), np.array(layout.suffix, np.uint32)
            return [np.concatenate([around[0], ids, around[1]]) for ids in batch.split()]
        return batch.split()

    def encode_arrow(self, texts: pa.Array, *, special: str = "text") -> pa.Array:
        """Return the ids of an Arrow column of text as a column of lists; a null gives a null.

        Args:
            texts: string, binary, or their large forms and views.
            special: what happens to special tokens, as in `encode_documents`.

        Returns:
            list<uint16> (up to 65,536 ids) or list<uint32>; a large_list if there are too many ids.
        """
        if not isinstance(texts, (pa.Array, pa.ChunkedArray)):
            raise TypeError(f"texts is an Arrow array of string or binary, not {type(texts).__name__}: pa.array makes one")
        width = 2 if self._size <= 1 << 16 else 4
        column = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        try:
            column = column.cast(pa.large_binary())  # of a dictionary too, whose values may be null
        except pa.ArrowNotImplementedError:
            raise TypeError(f"texts is an Arrow array of string or binary, not of {texts.type}") from None
        kept = column.fill_null(b"")
        offsets = np.frombuffer(kept.buffers()[1], np.int64)[kept.offset : kept.offset + len(kept) + 1]
        data = kept.buffers()[2] or pa.py_buffer(b"")
        batch = self.encode_documents(data, np.repeat(offsets, 2)[1:-1], special=special, width=width)
        starts = np.concatenate([np.zeros(1, np.int64), batch.ends])
        large = len(batch.ids) >= 1 << 31
        numbers = pa.array(starts, pa.int64() if large else pa.int32())
        mask = column.is_null() if column.null_count else None
        return (pa.LargeListArray if large else pa.ListArray).from_arrays(numbers, pa.array(batch.ids), mask=mask)

    def encode_documents(
        self, data: Any, bounds: np.ndarray, *, special: str = "text", most: int | None = None, width: int = 4
    ) -> Batch:
        """Return the ids of documents side by side.

        Args:
            data: a buffer of bytes.
            bounds: int64 of length 2n; document d is data[bounds[2d]:bounds[2d + 1]].
            special: special tokens are "text" like any other, are "encode"d as themselves, are left out
                ("drop"), or "fail" the call.
            most: encode no more than that many ids of a document.
            width: bytes of an id, 2 or 4.

        Raises:
            ValueError: special="fail", and a special token occurs; the message names it and the document.
        """
        if special not in SPECIAL_POLICIES:
            raise ValueError(f"special={special!r}: choose one of {', '.join(SPECIAL_POLICIES)}")
        bounds = np.ascontiguousarray(bounds, np.int64)
        view = memoryview(data).cast("B")
        self._check_documents(bounds, len(view), most, width)
        if special == "fail":
            self._fail_on_special(view, bounds)
        find = tuple(self._special_ids) if special in ("encode", "drop") else ()
        finder = self._finders(find) if find or self._always else None
        if finder is not None and not finder.may_occur_in(bytes(view)):
            finder = None
        repaired = self.vocabulary.normalizer is not None  # what is not UTF-8, by the normalizer
        if finder is None and self._scanner != _PIECES and (repaired or is_text(view, bounds)):
            return self._encode_text(view, bounds, most, width)
        documents = [bytes(view[start:end]) for start, end in zip(bounds[::2].tolist(), bounds[1::2].tolist())]
        batch = self._encode_segments([self._segments(document, finder) for document in documents], special == "drop")
        ids, ends = batch.ids, batch.ends
        if most is not None:
            starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
            lengths = np.minimum(ends - starts, most)
            ids = ids[np.arange(len(ids)) - np.repeat(starts, ends - starts) < most]
            ends = np.cumsum(lengths)
        return batch._replace(ids=ids.astype(np.uint16 if width == 2 else np.uint32), ends=ends)

    def encode_words(self, data: Any, bounds: np.ndarray) -> Batch:
        """Return the ids of words that were cut and normalized already, such as those of a table, side by side.

        Args:
            data, bounds: as those of `encode_documents`; each word is encoded alone.
        """
        return self._encode_pieces(data, np.ascontiguousarray(bounds, np.int64), _PIECES)

    def _check_documents(self, bounds: np.ndarray, size: int, most: int | None, width: int) -> None:
        if bounds.ndim != 1 or len(bounds) % 2:
            raise ValueError("bounds has a start and an end for each document")
        wrong = (bounds[::2] < 0) | (bounds[::2] > bounds[1::2]) | (bounds[1::2] > size)
        if wrong.any():
            d = int(np.argmax(wrong))
            raise ValueError(f"document {d} is [{bounds[2 * d]}:{bounds[2 * d + 1]}] of {size} bytes")
        if most is not None and most < 0:
            raise ValueError(f"most={most}: choose 0 or more ids, or None")
        if width not in (2, 4):
            raise ValueError(f"width={width}: choose 2 or 4 bytes for an id")
        if width == 2 and self._size > 1 << 16:
            raise ValueError(f"width=2 holds ids below 65536, and there are {self._size}")

    # ---- how a document is encoded ----

    def _encode_text(self, data: Any, bounds: np.ndarray, most: int | None = None, width: int = 4) -> Batch:
        """Encode documents of valid UTF-8 by the native scanner."""
        if self.vocabulary.normalizer is not None:
            data, bounds = normalize_documents(data, np.ascontiguousarray(bounds), self.vocabulary.normalizer, self._symbols)
        return self._encode_pieces(data, np.ascontiguousarray(bounds), self._scanner, most, width)

    def _encode_pieces(self, data: Any, bounds: np.ndarray, scanner: int, most: int | None = None, width: int = 4) -> Batch:
        unk = self.vocabulary.unk_id
        packed, packed_ends, overlong, words, kept = self._encoder.encode_words(data, bounds, scanner, most, width, unk)
        ids, ends = np.frombuffer(packed, np.uint16 if width == 2 else np.uint32), np.frombuffer(packed_ends, np.int64)
        unknown = 0 if unk is None else int(np.count_nonzero(ids == unk))
        return Batch(ids, ends, unknown=unknown, overlong=overlong, words=words, kept_words=kept)

    def _normal(self, data: bytes) -> bytes:
        """Return a text as the scanner takes it: normalized, and of a model of characters made valid."""
        if self.vocabulary.normalizer is not None:
            return normalize_bytes(data, self.vocabulary.normalizer, self._symbols)
        return data if self.vocabulary.model.is_byte_level else valid_bytes(data)

    def _make_finder(self, special: tuple[str, ...]) -> AddedTokens:
        found = [self._added[text] for text in special if self._added[text].special]
        return AddedTokens([*found, *self._always], self.vocabulary.normalizer, self._symbols)

    def _make_refuser(self, special: tuple[str, ...]) -> AddedTokens:
        return AddedTokens([AddedToken(text, self._special_ids[text]) for text in special])

    def _finder(self, data: bytes, allowed: Collection[str] | str, disallowed: Collection[str] | str) -> AddedTokens | None:
        """Check a text for disallowed special tokens; return what finds the others in it, None if there is none."""
        for beginning in self._beginnings:
            if beginning in data:
                break
        else:
            if (allowed == "all" or not allowed) and (disallowed == "all" or not disallowed):
                return None  # there are no names to be checked either
        every = self._special_ids
        chosen = set(every if allowed == "all" else allowed)
        refused = every.keys() - chosen if disallowed == "all" else set(disallowed) - chosen
        for token in (chosen | refused) - every.keys():
            raise ValueError(f"{token!r} is no special token of this vocabulary; it has {sorted(every)}")
        allow, refuse = tuple(sorted(chosen)), tuple(sorted(refused))
        if refuse:
            for segment in self._refusers(refuse).cut(data):
                if segment.token is not None:
                    token = segment.token.text
                    raise ValueError(
                        f"the text holds the special token {token!r} at byte {segment.start}: pass allowed_special={{{token!r}}} "
                        "to encode it as such, or disallowed_special=() to encode it as text"
                    )
        if not allow and not self._always:
            return None
        finder = self._finders(allow)
        return finder if finder.may_occur_in(data) else None

    def _fail_on_special(self, view: memoryview, bounds: np.ndarray) -> None:
        data = bytes(view)
        if not self._special_ids or not self._finders(tuple(self._special_ids)).may_occur_in(data):
            return
        finder = self._refusers(tuple(self._special_ids))
        for number, (start, end) in enumerate(zip(bounds[::2].tolist(), bounds[1::2].tolist())):
            for segment in finder.cut(data[start:end]):
                if segment.token is not None:
                    raise ValueError(
                        f"document {number} holds the special token {segment.token.text!r} at byte {segment.start}, and "
                        "special='fail': choose 'text', 'encode' or 'drop'"
                    )

    def _segments(self, data: bytes, finder: AddedTokens | None) -> list[Segment]:
        if finder is None:
            return [Segment(self._normal(data), None, 0, len(data))]
        segments = finder.cut(data)  # normalized, if there is a normalizer
        if self.vocabulary.model.is_byte_level:
            return segments
        return [segment._replace(data=valid_bytes(segment.data)) for segment in segments]

    def _encode_segments(self, documents: Sequence[Sequence[Segment]], drop: bool = False) -> Batch:
        """Encode documents given as segments; with `drop` special tokens are left out."""
        pieces: list[bytes] = []  # what is encoded in one call: text for the scanner, or words that were cut already
        scanned = self._scanner != _PIECES and all(
            segment.token is not None or _scan.invalid_utf8(segment.data) < 0 for segments in documents for segment in segments
        )
        item_pieces: list[int] = []  # per segment: pieces of a text, or 0
        item_ids: list[int] = []  # id of a token, or -1
        items: list[int] = []  # segments per document
        special = 0
        for segments in documents:
            before = len(item_ids)
            for segment in segments:
                token = segment.token
                if token is not None:
                    special += token.special
                    if drop and token.special:
                        continue
                    item_ids.append(token.id)
                    item_pieces.append(0)
                    continue
                parts = [segment.data] if scanned else self._pieces(segment.data)
                pieces += parts
                item_ids.append(-1)
                item_pieces.append(len(parts))
            items.append(len(item_ids) - before)
        stops = np.cumsum([0, *map(len, pieces)], dtype=np.int64)
        found = self._encode_pieces(
            b"".join(pieces), np.ascontiguousarray(np.repeat(stops, 2)[1:-1]), self._scanner if scanned else _PIECES
        )
        piece_ends = np.concatenate([np.zeros(1, np.int64), found.ends])
        tokens = np.array(item_ids, np.int64)
        last = np.cumsum(np.array(item_pieces, np.int64))
        lengths = np.diff(piece_ends[np.concatenate([np.zeros(1, np.int64), last])]) + (tokens >= 0)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        ids = np.empty(int(ends[-1]), np.uint32)
        is_text = np.ones(len(ids), bool)
        places = ends[:-1][tokens >= 0]
        is_text[places] = False
        ids[places] = tokens[tokens >= 0]
        ids[is_text] = found.ids
        return found._replace(ids=ids, ends=ends[np.cumsum(np.array(items, np.int64))], special=special)

    def _pieces(self, data: bytes) -> list[bytes]:
        """Return the words of a text, which need not be UTF-8."""
        if _scan.invalid_utf8(data) < 0:
            return [word.encode() for word in self.vocabulary.pre_tokenizer.split(data.decode())]
        return pieces_of_invalid(data, self.vocabulary.pre_tokenizer)

    def _wrapped(self, ids: list[int]) -> list[int]:
        layout = self.vocabulary.layout
        return ids if layout is None else [*layout.prefix, *ids, *layout.suffix]

    # ---- decoding ----

    def decode_bytes(self, ids: Ids) -> bytes:
        """Return the bytes of the tokens, joined; KeyError if an id is no token's."""
        if isinstance(ids, list):  # turning it into an array costs more than decoding
            return self._encoder.decode_list(ids)
        return self._encoder.decode(self._numbers(ids))

    def decode(self, ids: Ids, errors: str = "replace") -> str:
        """Return the text of the tokens; bytes that are not UTF-8 go by `errors`, as in bytes.decode."""
        return self.decode_bytes(ids).decode("utf-8", errors)

    def decode_batch(self, batch: Iterable[Ids], errors: str = "replace") -> list[str]:
        """Return the text of each sequence of ids."""
        return [self.decode(ids, errors) for ids in batch]

    def decode_documents(self, ids: np.ndarray, ends: np.ndarray) -> tuple[bytes, np.ndarray]:
        """Return the bytes of documents side by side and where each ends, the inverse of `encode_documents`."""
        data, packed = self._encoder.decode_documents(self._numbers(ids), np.ascontiguousarray(ends, np.int64))
        return data, np.frombuffer(packed, np.int64)

    def _numbers(self, ids: Ids) -> np.ndarray:
        numbers = np.asarray(ids)
        if numbers.ndim != 1:
            raise TypeError(f"ids are one sequence of whole numbers, not {type(ids).__name__} of {numbers.ndim} dimensions")
        if numbers.dtype in (np.uint16, np.uint32):
            return np.ascontiguousarray(numbers)
        if not numbers.size:
            return np.empty(0, np.uint32)
        if numbers.dtype.kind not in "iu":
            raise TypeError(f"ids are whole numbers, not {numbers.dtype}")
        if numbers.min() < 0 or numbers.max() >= self._size:
            wrong = int(numbers[(numbers < 0) | (numbers >= self._size)][0])
            raise KeyError(f"id {wrong} is no token of this vocabulary; its ids are below {self._size}")
        return np.ascontiguousarray(numbers, np.uint32)


def _rebuilt(vocabulary: Vocabulary, method: str, cache_bytes: int) -> Tokenizer:
    return Tokenizer(vocabulary, method=method, cache_bytes=cache_bytes)
