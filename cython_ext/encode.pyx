"""Encode documents into token ids, decode ids into bytes, and find the merges of a rank file.

Bytes and integers go in and come out; there is no input or output and no policy here.
"""

from cpython.buffer cimport (PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBuffer_Release, PyObject_GetBuffer)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_FromUnsignedLong
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.math cimport INFINITY
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

cdef extern from "Python.h":
    list PyList_New(Py_ssize_t)
    Py_ssize_t PyNumber_AsSsize_t(object, PyObject *) except? -1
    void PyList_SET_ITEM(object, Py_ssize_t, PyObject *)
    PyObject *PyLong_AsObject "PyLong_FromUnsignedLong"(unsigned long)
    void Py_INCREF(PyObject *)
    void Py_XDECREF(PyObject *)

cdef extern from "encode.h" nogil:
    int NONE  # the last of the scanned patterns
    int ID_BITS, RANK_BITS
    int OUT_OF_MEMORY, TOO_LONG, NOT_UTF8
    uint64_t NO_LIMIT
    uint32_t NO_TOKEN
    ctypedef struct Span:
        uint32_t start, length
    ctypedef struct CTrie "Trie":
        void *edges
    ctypedef struct CCharacters "Characters":
        uint32_t *outer
        uint32_t by_byte[256]
        uint32_t fused
        int ends, cuts
    ctypedef struct CPieces "Pieces":
        pass
    ctypedef struct CChunks "Chunks":
        pass
    ctypedef struct CUnigram "Unigram":
        CChunks chunks
    ctypedef struct Model:
        uint32_t n_tokens, never_dropped
        int ordered
        uint8_t *bytes
        Span *spans
        CTrie trie
        const CCharacters *characters
        const CPieces *pieces
        const CChunks *chunks
        const CUnigram *unigram
    ctypedef struct Texts:
        uint32_t n
        const uint8_t *bytes
        const Span *spans
        const uint8_t *spaces
    ctypedef struct Told:
        uint64_t unmatched, overlong, words, kept
    ctypedef struct Ids:
        uint32_t *ids
        uint64_t n
    ctypedef struct CCache "Cache":
        Ids out
        Told told
    ctypedef struct Batch:
        const uint8_t *data
        uint64_t size
        const int64_t *bounds
        uint64_t documents
        int pattern
        uint64_t most
        uint32_t unk
    int model_init(Model *, uint32_t n_tokens, uint32_t n_merges, const uint8_t *tokens, const int64_t *starts,
                   const uint32_t *byte_ids, const uint32_t *left, const uint32_t *right, const uint32_t *merged,
                   const uint32_t *ranks, const uint8_t *whole, int longest)
    void model_free(Model *)
    int cache_init(CCache *, uint64_t bytes)
    void cache_free(CCache *)
    void cache_rest(CCache *)
    const uint8_t *valid_until(const uint8_t *, const uint8_t *end)
    int encode_documents(const Model *, CCache *, const Batch *, int64_t *ends, uint64_t *at)
    int count_documents(const Model *, CCache *, const Batch *, int64_t *counts, uint64_t *at)
    int dropout_documents(const Model *, CCache *, const Batch *, double dropout, uint64_t seed, int64_t *ends, uint64_t *at)
    int pieces_init(CPieces *, uint32_t n_tokens, const uint8_t *tokens, const int64_t *starts, const uint8_t *prefix,
                    uint64_t prefix_bytes, uint32_t unk, uint64_t most_chars, int unk_characters)
    int words_init(CPieces *, uint32_t n_tokens, const uint8_t *tokens, const int64_t *starts, uint32_t unk)
    void pieces_free(CPieces *)
    int chunks_init(CChunks *, const Model *)
    void chunks_free(CChunks *)
    int add_symbol(CChunks *, const uint8_t *p, uint64_t n, uint32_t id)
    int unigram_init(CUnigram *, uint32_t n_tokens, const uint8_t *tokens, const int64_t *starts, const double *scores,
                     uint32_t unk, double unk_score, const uint32_t *byte_ids, int single)
    void unigram_free(CUnigram *)
    int PADDING, SPACE_BEFORE, SPACE_BEHIND
    uint64_t decoded_length_of(const Texts *, const void *ids, uint64_t begin, uint64_t end, int width, uint64_t *wrong)
    void decode_documents(const Texts *, const void *ids, uint64_t n, const int64_t *ends, uint64_t documents, int width,
                          uint8_t *to, uint64_t total)
    int recover_parts(uint32_t n, const uint8_t *tokens, const int64_t *starts, const uint32_t *byte_ids,
                      const uint32_t *ranks, uint32_t *left, uint32_t *right, uint32_t *twice)

#: Tokens and merges that an encoder can have, and bytes of its tokens.
MOST_TOKENS = (1 << ID_BITS) - 1
MOST_MERGES = (1 << RANK_BITS) - 2
MOST_TOKEN_BYTES = (1 << 32) - 64


cdef int check_tokens(const uint8_t[::1] tokens, const int64_t[::1] starts) except -1:
    cdef Py_ssize_t i, n = starts.shape[0] - 1
    if n < 0 or n > MOST_TOKENS:
        raise ValueError(f"{n} tokens; at most {MOST_TOKENS} are possible, and `starts` has one entry more")
    for i in range(n):
        if not 0 <= starts[i] <= starts[i + 1] <= tokens.shape[0]:
            raise ValueError(f"the bytes of token {i} lie outside of the tokens")
    if starts[n] - starts[0] > <int64_t>MOST_TOKEN_BYTES:
        raise ValueError(f"the tokens have {starts[n] - starts[0]} bytes; at most {MOST_TOKEN_BYTES} are possible")
    return 0


cdef int check_id(number, Py_ssize_t n) except -1:
    if not 0 <= number < n:
        raise ValueError(f"id {number} is no token of this vocabulary; its ids are below {n}")
    return 0


cdef int raise_error(int error, uint64_t document) except -1:
    if error == TOO_LONG:
        raise ValueError(f"document {document} has a piece of 4 GiB or more: split it")
    if error == NOT_UTF8:
        raise ValueError(f"document {document} is not valid UTF-8, which scanners and characters need")
    if error:
        raise MemoryError("no memory for the ids")
    return 0


cdef class Cache:
    """A cache of encoded pieces; one call uses it at a time."""

    cdef CCache cache

    def __cinit__(self, uint64_t size):
        if cache_init(&self.cache, size):
            raise MemoryError("no memory for the cache of pieces")

    def __dealloc__(self):
        cache_free(&self.cache)


cdef class Decoded:
    """What ids decode to.

    Args:
        tokens: the bytes of all tokens, one after the other; ids that are holes have none.
        starts: int64, where each token starts in `tokens`, and the end; the index is the id.
        spaces: uint8 by id, 1 where the token begins with a space that is dropped at the beginning of a document, 2
            where it ends with one that is dropped at its end, else 0; None: nowhere.
    """

    cdef Texts texts
    cdef uint8_t *owned

    def __cinit__(self, const uint8_t[::1] tokens not None, const int64_t[::1] starts not None,
                  const uint8_t[::1] spaces=None):
        cdef Py_ssize_t i, n = starts.shape[0] - 1
        cdef uint64_t total
        cdef Span *spans
        self.owned = NULL
        check_tokens(tokens, starts)
        if spaces is not None and spaces.shape[0] != n:
            raise ValueError(f"`spaces` has {spaces.shape[0]} entries for {n} tokens")
        for i in range(n if spaces is not None else 0):
            if spaces[i] > SPACE_BEHIND or (spaces[i] and starts[i] == starts[i + 1]):
                raise ValueError(f"token {i} brings no space of the kind {spaces[i]}")
        total = starts[n] - starts[0]
        self.owned = <uint8_t *>calloc(n * (sizeof(Span) + 1) + total + PADDING + 1, 1)
        if self.owned == NULL:
            raise MemoryError("no memory for the tokens")
        spans = <Span *>self.owned
        for i in range(n):
            spans[i].start = <uint32_t>(starts[i] - starts[0])
            spans[i].length = <uint32_t>(starts[i + 1] - starts[i])
        self.texts.n = n
        self.texts.spans = spans
        self.texts.bytes = self.owned + n * sizeof(Span)
        if total:
            memcpy(self.owned + n * sizeof(Span), &tokens[starts[0]], total)
        self.texts.spaces = NULL
        if spaces is not None and n:
            self.texts.spaces = self.owned + n * sizeof(Span) + total + PADDING
            memcpy(self.owned + n * sizeof(Span) + total + PADDING, &spaces[0], n)

    def __dealloc__(self):
        free(self.owned)


cdef class Characters:
    """What the ids of a byte-level model that merges characters are in the vocabulary.

    Args:
        outer: uint32 by id of the model, the id in the vocabulary, or NO_TOKEN.
        by_byte: uint32, the ids of the 256 bytes where what they belong to has no token, or NO_TOKEN for nothing; that
            of 255 is the end of a word.
        ends: put the byte 255 behind each piece.
        fused: of neighbouring unknown characters that become this id one is left; NO_TOKEN: of none.
        cuts: long pieces may be cut where no merge can cross.
        never_dropped: merges of lower ranks spell characters.
    """

    cdef CCharacters characters
    cdef Py_ssize_t n
    cdef uint32_t never_dropped, most

    def __cinit__(self, const uint32_t[::1] outer not None, const uint32_t[::1] by_byte not None, bint ends=False,
                  uint32_t fused=NO_TOKEN, bint cuts=True, uint32_t never_dropped=0):
        cdef Py_ssize_t i
        self.characters.outer = NULL
        self.n = outer.shape[0]
        self.most = 0
        if by_byte.shape[0] != 256:
            raise ValueError("columns differ in length")
        for i in range(256):
            if by_byte[i] != NO_TOKEN:
                self.most = max(self.most, by_byte[i])
            elif i < 0x80 or 0xC2 <= i < 0xF5:
                raise ValueError(f"a character that begins with byte {i} would be dropped: it needs a token")
            self.characters.by_byte[i] = by_byte[i]
        self.characters.outer = <uint32_t *>calloc(self.n + 1, 4)
        if self.characters.outer == NULL:
            raise MemoryError("no memory for the ids")
        for i in range(self.n):
            self.characters.outer[i] = outer[i]
            if outer[i] != NO_TOKEN:
                self.most = max(self.most, outer[i])
        self.characters.fused = fused
        self.characters.ends = ends
        self.characters.cuts = cuts
        self.never_dropped = never_dropped

    def __dealloc__(self):
        free(self.characters.outer)


cdef class Pieces:
    """Greedy matching of words with pieces, in time linear in the word.

    Args:
        tokens: the pieces in UTF-8, one after the other; ids that are no pieces have none.
        starts: int64, where each begins in `tokens`, and the end; the index is the id.
        unk: id of what cannot be matched.
        prefix: what pieces that continue a word begin with; empty: all pieces do.
        most_chars: longer words are unk; None: no limit.
        unk_characters: a character that no piece matches is unk, not the word.
        whole_words: a word is a piece or unk.
    """

    cdef CPieces pieces

    def __cinit__(self, const uint8_t[::1] tokens not None, const int64_t[::1] starts not None, uint32_t unk,
                  bytes prefix=b"", most_chars=None, bint unk_characters=False, bint whole_words=False):
        cdef const uint8_t *p = &tokens[0] if tokens.shape[0] else NULL
        cdef const uint8_t *begin = <const uint8_t *>PyBytes_AS_STRING(prefix)
        cdef uint64_t most = 0
        cdef int error
        memset(&self.pieces, 0, sizeof(CPieces))
        check_tokens(tokens, starts)
        check_id(unk, starts.shape[0] - 1)
        if most_chars is not None:
            if most_chars < 1:
                raise ValueError(f"most_chars={most_chars}: choose 1 or more characters, or None")
            most = min(most_chars, 1 << 40)
        if whole_words:
            error = words_init(&self.pieces, starts.shape[0] - 1, p, &starts[0], unk)
        else:
            error = pieces_init(&self.pieces, starts.shape[0] - 1, p, &starts[0], begin, len(prefix), unk, most, unk_characters)
        if error:
            raise MemoryError("no memory for the pieces")

    def __dealloc__(self):
        pieces_free(&self.pieces)


cdef class Unigram:
    """The segmentation of whole texts into pieces whose scores have the highest sum.

    Args:
        tokens: the pieces in UTF-8, one after the other; ids that are no pieces have none, no two are the same.
        starts: int64, where each begins in `tokens`, and the end; the index is the id.
        scores: float64 by id.
        unk: id of a character that is no piece; neighbours are one.
        unk_score: its score.
        byte_ids: uint32, the ids of the 256 bytes, which an unknown character becomes instead; None: it is unk.
        single_precision: sums are of 32 bits, and one beyond 100,000 becomes 0.  Else, under the pattern `metaspace`,
            each word is a text of its own.
    """

    cdef CUnigram unigram
    cdef Py_ssize_t n

    def __cinit__(self, const uint8_t[::1] tokens not None, const int64_t[::1] starts not None, const double[::1] scores not None,
                  uint32_t unk, double unk_score, const uint32_t[::1] byte_ids=None, bint single_precision=False):
        cdef Py_ssize_t i
        memset(&self.unigram, 0, sizeof(CUnigram))
        check_tokens(tokens, starts)
        self.n = starts.shape[0] - 1
        check_id(unk, self.n)
        if scores.shape[0] != self.n:
            raise ValueError(f"there are {scores.shape[0]} scores for {self.n} tokens")
        for i in range(self.n):
            if not -INFINITY < scores[i] < INFINITY:
                raise ValueError(f"the score of token {i} is {scores[i]}, which is no finite number")
        if not -INFINITY < unk_score < INFINITY:
            raise ValueError(f"unk_score={unk_score}, which is no finite number")
        if byte_ids is not None:
            if byte_ids.shape[0] != 256:
                raise ValueError("columns differ in length")
            for i in range(256):
                check_id(byte_ids[i], self.n)
        for i in range(self.n):
            if starts[i] < starts[i + 1] and \
                    valid_until(&tokens[starts[i]], &tokens[0] + starts[i + 1]) < &tokens[0] + starts[i + 1]:
                raise ValueError(f"token {i} is not valid UTF-8")
        if unigram_init(&self.unigram, self.n, &tokens[0] if tokens.shape[0] else NULL, &starts[0],
                        &scores[0] if self.n else NULL, unk, unk_score, &byte_ids[0] if byte_ids is not None else NULL, single_precision):
            raise MemoryError("no memory for the pieces")

    def __dealloc__(self):
        unigram_free(&self.unigram)


cdef class Encoder:
    """Encode and decode; immutable, and safe to share between threads.

    Args:
        tokens: the bytes of all tokens, one after the other; ids that are holes have none.
        starts: int64, where each token starts in `tokens`, and the end; the index is the id.
        byte_ids: uint32, the id of each of the 256 bytes.
        left, right, merged: uint32, ids of the parts of each merge and of what it makes, by rank.
        whole: uint8 by id, nonzero where a piece that is exactly this token is this token, whatever the
            merges would give; None: nowhere.
        cache_bytes: memory of a cache; there is one for each thread that encodes at a time.
        longest_match: do not merge by rank, but take from the left the longest token that a merge makes,
            that is a byte, or that is in `whole`.
        characters: the model merges characters; ids come out as those of the vocabulary.
        pieces: words are matched with these; then the columns of the model are left out.
        decoded: what ids decode to, if not to the tokens of the model; needed with `characters`, `pieces`, `unigram`.
        ranks: uint32, of each merge, never falling, the first 0, each at most one more than that before; of equal ones
            the leftmost is merged first.  None: each has its own.
        symbols: (tokens, starts) of user-defined symbols by id of the vocabulary: with them documents are whole texts of
            characters, which are cut at symbols first and then wherever no merge can cross, whatever the pattern.
        unigram: whole texts are segmented by it; then the columns of the model are left out.
    """

    cdef Model model
    cdef list caches
    cdef uint64_t cache_bytes
    cdef PyObject **numbers
    cdef Characters characters
    cdef Pieces pieces
    cdef Unigram unigram
    cdef CChunks chunks
    cdef Decoded own_texts
    cdef Texts texts
    cdef object __weakref__

    def __cinit__(self, const uint8_t[::1] tokens=None, const int64_t[::1] starts=None, const uint32_t[::1] byte_ids=None,
                  const uint32_t[::1] left=None, const uint32_t[::1] right=None, const uint32_t[::1] merged=None,
                  const uint8_t[::1] whole=None, uint64_t cache_bytes=16 << 20, bint longest_match=False,
                  Characters characters=None, Pieces pieces=None, Decoded decoded=None, const uint32_t[::1] ranks=None,
                  symbols=None, Unigram unigram=None):
        memset(&self.model, 0, sizeof(Model))
        memset(&self.chunks, 0, sizeof(CChunks))
        self.numbers = NULL
        self.caches = []
        self.cache_bytes = cache_bytes
        self.characters = characters
        self.pieces = pieces
        self.unigram = unigram
        self.own_texts = decoded
        if unigram is not None:
            self.model.unigram = &unigram.unigram
            self.model.chunks = &unigram.unigram.chunks
        elif pieces is None:
            self.make_model(tokens, starts, byte_ids, left, right, merged, ranks, whole, longest_match)
        else:
            self.model.pieces = &pieces.pieces
        if decoded is not None:
            self.texts = decoded.texts
        elif pieces is None and characters is None and unigram is None:
            self.texts.n = self.model.n_tokens
            self.texts.bytes = self.model.bytes
            self.texts.spans = self.model.spans
            self.texts.spaces = NULL
        else:
            raise TypeError("`decoded` is missing, which says what the ids of the vocabulary decode to")
        if unigram is not None and unigram.n != self.texts.n:
            raise ValueError(f"`unigram` has {unigram.n} ids, and {self.texts.n} are decoded")
        if characters is not None:
            if characters.n != self.model.n_tokens:
                raise ValueError(f"`outer` has {characters.n} entries for {self.model.n_tokens} tokens")
            check_id(characters.most, self.texts.n)
            self.model.characters = &characters.characters
            self.model.never_dropped = characters.never_dropped
        if symbols is not None:
            if characters is None or whole is not None or longest_match or characters.characters.ends:
                raise TypeError("`symbols` go with characters that are merged by rank, without ends of words")
            if chunks_init(&self.chunks, &self.model):
                raise MemoryError("no memory for the encoder")
            self.add_symbols(symbols[0], symbols[1])
            self.model.chunks = &self.chunks

    cdef int add_symbols(self, const uint8_t[::1] tokens, const int64_t[::1] starts) except -1:
        cdef Py_ssize_t i
        check_tokens(tokens, starts)
        check_id(starts.shape[0] - 2, self.texts.n)
        for i in range(starts.shape[0] - 1):
            if starts[i] < starts[i + 1] and add_symbol(&self.chunks, &tokens[starts[i]], starts[i + 1] - starts[i], i):
                raise MemoryError("no memory for the symbols")
        return 0

    cdef int make_model(self, const uint8_t[::1] tokens, const int64_t[::1] starts, const uint32_t[::1] byte_ids,
                        const uint32_t[::1] left, const uint32_t[::1] right, const uint32_t[::1] merged,
                        const uint32_t[::1] ranks, const uint8_t[::1] whole, bint longest_match) except -1:
        if tokens is None or starts is None or byte_ids is None or left is None or right is None or merged is None:
            raise TypeError("a model that merges has tokens, starts, byte_ids, left, right and merged")
        cdef Py_ssize_t i, n = starts.shape[0] - 1, k = left.shape[0]
        cdef const uint8_t *p = &tokens[0] if tokens.shape[0] else NULL
        cdef int64_t a, b
        check_tokens(tokens, starts)
        if k > MOST_MERGES:
            raise ValueError(f"{k} merges; at most {MOST_MERGES} are possible")
        if byte_ids.shape[0] != 256 or right.shape[0] != k or merged.shape[0] != k:
            raise ValueError("columns differ in length")
        if ranks is not None:
            if ranks.shape[0] != k:
                raise ValueError("columns differ in length")
            for i in range(k):
                if not (ranks[i] == 0 if i == 0 else 0 <= <int64_t>ranks[i] - ranks[i - 1] <= 1):
                    raise ValueError(f"the rank of merge {i} is neither that of the one before nor the next")
        if whole is not None and whole.shape[0] != n:
            raise ValueError(f"`whole` has {whole.shape[0]} entries for {n} tokens")
        for i in range(256):
            if byte_ids[i] >= n or starts[byte_ids[i] + 1] - starts[byte_ids[i]] != 1 or tokens[starts[byte_ids[i]]] != i:
                raise ValueError(f"byte {i} has no token of its own")
        for i in range(k):
            if left[i] >= n or right[i] >= n or merged[i] >= n:
                raise ValueError(f"the merge of rank {i} names a token that does not exist")
            a = starts[left[i] + 1] - starts[left[i]]
            b = starts[right[i] + 1] - starts[right[i]]
            if a == 0 or b == 0 or a + b != starts[merged[i] + 1] - starts[merged[i]] or \
                    memcmp(p + starts[merged[i]], p + starts[left[i]], a) or \
                    memcmp(p + starts[merged[i]] + a, p + starts[right[i]], b):
                raise ValueError(f"the parts of the merge of rank {i} do not make its token")
        if model_init(&self.model, n, k, p, &starts[0], &byte_ids[0], &left[0] if k else NULL, &right[0] if k else NULL,
                      &merged[0] if k else NULL, &ranks[0] if ranks is not None and k else NULL,
                      &whole[0] if whole is not None and n else NULL, longest_match):
            raise MemoryError("no memory for the encoder")
        return 0

    def __dealloc__(self):
        cdef uint64_t i
        if self.numbers != NULL:
            for i in range(self.texts.n):
                Py_XDECREF(self.numbers[i])
            free(self.numbers)
        model_free(&self.model)
        chunks_free(&self.chunks)

    cdef Cache take_cache(self):
        try:
            return self.caches.pop()
        except IndexError:
            return Cache(self.cache_bytes)

    cdef int give_back(self, Cache cache) except -1:
        cache_rest(&cache.cache)
        self.caches.append(cache)
        return 0

    cdef int check_batch(self, const uint8_t[::1] data, const int64_t[::1] bounds, int pattern, most, Batch *batch) except -1:
        cdef Py_ssize_t i, n = bounds.shape[0] // 2, size = data.shape[0]
        if bounds.shape[0] % 2 or pattern > NONE:
            raise ValueError(f"bounds has a start and an end for each document, and patterns are numbered from 0 to {NONE}")
        for i in range(n):
            if not 0 <= bounds[2 * i] <= bounds[2 * i + 1] <= size:
                raise ValueError(f"document {i} is [{bounds[2 * i]}:{bounds[2 * i + 1]}] of {size} bytes")
        if most is not None and most < 0:
            raise ValueError(f"most={most}: choose 0 or more ids, or None")
        batch.data = &data[0] if size else NULL
        batch.size = size
        batch.bounds = &bounds[0] if n else NULL
        batch.documents = n
        batch.pattern = pattern
        batch.most = NO_LIMIT if most is None else min(most, 1 << 62)
        batch.unk = NO_TOKEN
        return 0

    cdef int check_width(self, int width) except -1:
        if width != 2 and width != 4:
            raise ValueError(f"width={width}: choose 2 or 4 bytes for an id")
        if width == 2 and self.texts.n > 65536:
            raise ValueError(f"width=2 holds ids below 65536, and there are {self.texts.n}: choose width=4")
        return 0

    def encode(self, const uint8_t[::1] data not None, const int64_t[::1] bounds not None, int pattern,
               most=None, int width=4):
        """Encode documents and return (ids, ends): ids one after the other, int64 ends by document.

        Args:
            data: valid UTF-8 where a scanner reads it.
            bounds: of length 2n; document d is data[bounds[2d]:bounds[2d + 1]].
            pattern: number of a scanned pattern, or -1: each document is one piece.
            most: of each document no more than its first ids, that many; the rest is not scanned.
            width: 2 for uint16 ids, 4 for uint32.
        """
        ids, ends, _ = self.encode_told(data, bounds, pattern, most, width)
        return ids, ends

    def encode_told(self, const uint8_t[::1] data not None, const int64_t[::1] bounds not None, int pattern,
                    most=None, int width=4):
        """Encode as `encode` does and return (ids, ends, overlong): how many words were unk for being too long."""
        return self.encode_words(data, bounds, pattern, most, width)[:3]

    def encode_words(self, const uint8_t[::1] data not None, const int64_t[::1] bounds not None, int pattern,
                     most=None, int width=4, unk=None):
        """Encode as `encode` does and return (ids, ends, overlong, words, kept), numbers of words.

        Args:
            unk: the id of what is unknown, as which a word is not kept whole; None: there is none.

        Returns:
            overlong: words that were unk for being too long; words: all of them (pieces, without a pattern); kept: those
            of one token that is not unk.  With `most` the last two are of no use.
        """
        cdef Batch batch
        cdef uint64_t at = 0
        cdef int error = 0
        self.check_width(width)
        self.check_batch(data, bounds, pattern, most, &batch)
        if unk is not None:
            batch.unk = unk
        ends = PyBytes_FromStringAndSize(NULL, 8 * batch.documents)
        cdef int64_t *to = <int64_t *>PyBytes_AS_STRING(ends)
        cdef Cache cache = self.take_cache()
        try:
            with nogil:
                error = encode_documents(&self.model, &cache.cache, &batch, to, &at)
            raise_error(error, at)
            told = cache.cache.told
            return packed(&cache.cache.out, width), ends, told.overlong, told.words, told.kept
        finally:
            self.give_back(cache)

    def encode_dropout(self, const uint8_t[::1] data not None, const int64_t[::1] bounds not None, int pattern,
                       double dropout, uint64_t seed, int width=4):
        """Encode documents with BPE-dropout and return (ids, ends), as `encode` does.

        Before every merge each pair that could be merged is dropped with probability `dropout`; of the rest
        that of the lowest rank is merged, the leftmost first (Provilkov, Emelianenko and Voita 2020).  What
        comes out is a function of the seed, the bytes of the document, and `dropout`: 0 is `encode`, 1 leaves
        the bytes.  Above 0 a whole piece in `whole` goes through the merges like any other.
        """
        cdef Batch batch
        cdef uint64_t at = 0
        cdef int error = 0
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout={dropout}: choose a probability from 0 to 1")
        if self.model.trie.edges != NULL or self.model.pieces != NULL or self.model.unigram != NULL:
            raise ValueError("dropout is of merges, and longest match makes none, nor do scores")
        if dropout == 0:
            return self.encode(data, bounds, pattern, None, width)
        self.check_width(width)
        self.check_batch(data, bounds, pattern, None, &batch)
        ends = PyBytes_FromStringAndSize(NULL, 8 * batch.documents)
        cdef int64_t *to = <int64_t *>PyBytes_AS_STRING(ends)
        cdef Cache cache = self.take_cache()
        try:
            with nogil:
                error = dropout_documents(&self.model, &cache.cache, &batch, dropout, seed, to, &at)
            raise_error(error, at)
            return packed(&cache.cache.out, width), ends
        finally:
            self.give_back(cache)

    def count(self, const uint8_t[::1] data not None, const int64_t[::1] bounds not None, int pattern):
        """Return the number of ids of each document as packed int64 numbers; arguments as those of `encode`."""
        counts, _, _ = self.count_told(data, bounds, pattern)
        return counts

    def count_told(self, const uint8_t[::1] data not None, const int64_t[::1] bounds not None, int pattern):
        """Count as `count` does and return (counts, unmatched, overlong): how many words were unk, and why.

        Words are unmatched that pieces do not cover to their end; both numbers are 0 where there are no pieces.
        """
        cdef Batch batch
        cdef uint64_t at = 0
        cdef int error = 0
        self.check_batch(data, bounds, pattern, None, &batch)
        counts = PyBytes_FromStringAndSize(NULL, 8 * batch.documents)
        cdef int64_t *to = <int64_t *>PyBytes_AS_STRING(counts)
        cdef Cache cache = self.take_cache()
        try:
            with nogil:
                error = count_documents(&self.model, &cache.cache, &batch, to, &at)
            raise_error(error, at)
            return counts, cache.cache.told.unmatched, cache.cache.told.overlong
        finally:
            self.give_back(cache)

    def encode_list(self, bytes data not None, int pattern):
        """Encode one document and return its ids as a list; equal ids are one object."""
        cdef int64_t bounds[2]
        cdef int64_t end = 0
        cdef uint64_t at = 0
        cdef Batch batch
        cdef int error
        cdef Cache cache
        if pattern > NONE:
            raise ValueError(f"patterns are numbered from 0 to {NONE}")
        bounds[0] = 0
        bounds[1] = PyBytes_GET_SIZE(data)
        batch.data = <const uint8_t *>PyBytes_AS_STRING(data)
        batch.size = bounds[1]
        batch.bounds = bounds
        batch.documents = 1
        batch.pattern = pattern
        batch.most = NO_LIMIT
        batch.unk = NO_TOKEN
        cache = self.take_cache()
        try:
            if batch.size < 1024:
                error = encode_documents(&self.model, &cache.cache, &batch, &end, &at)
            else:
                with nogil:
                    error = encode_documents(&self.model, &cache.cache, &batch, &end, &at)
            raise_error(error, at)
            return self.listed(cache.cache.out.ids, cache.cache.out.n)
        finally:
            self.give_back(cache)

    cdef list listed(self, const uint32_t *ids, Py_ssize_t n):
        """Return ids as a list; the int of each id is made when it is first wanted, and kept."""
        cdef list result = PyList_New(n)
        cdef Py_ssize_t i
        cdef PyObject *number
        if self.numbers == NULL:
            self.numbers = <PyObject **>calloc(self.texts.n, sizeof(PyObject *))
            if self.numbers == NULL:
                raise MemoryError("no memory for the numbers of the ids")
        for i in range(n):
            number = self.numbers[ids[i]]
            if number == NULL:
                number = self.numbers[ids[i]] = PyLong_AsObject(ids[i])
                if number == NULL:
                    raise MemoryError("no memory for the numbers of the ids")
            Py_INCREF(number)
            PyList_SET_ITEM(result, i, number)
        return result

    def lengths(self, ids not None):
        """Return the bytes of each token of a sequence of uint16 or uint32 ids, as packed int64 numbers.

        The spaces that tokens bring when they are decoded do not count.

        Raises:
            KeyError: an id is no token's.
        """
        cdef Py_buffer view
        cdef int width = view_ids(ids, &view)
        cdef Py_ssize_t i, n = view.len // width
        cdef int64_t *to
        cdef uint32_t number
        try:
            self.decoded(&view, width, 0, n)
            result = PyBytes_FromStringAndSize(NULL, 8 * n)
            to = <int64_t *>PyBytes_AS_STRING(result)
            with nogil:
                for i in range(n):
                    number = (<uint16_t *>view.buf)[i] if width == 2 else (<uint32_t *>view.buf)[i]
                    to[i] = self.texts.spans[number].length
                    if self.texts.spaces != NULL:
                        to[i] -= self.texts.spaces[number] != 0
            return result
        finally:
            PyBuffer_Release(&view)

    cdef int64_t decoded(self, Py_buffer *view, int width, uint64_t begin, uint64_t end) except -1:
        """Return the bytes of ids[begin:end]."""
        cdef uint64_t total, wrong
        with nogil:
            total = decoded_length_of(&self.texts, view.buf, begin, end, width, &wrong)
        if wrong < end:
            number = (<uint16_t *>view.buf)[wrong] if width == 2 else (<uint32_t *>view.buf)[wrong]
            raise KeyError(f"id {number} at position {wrong} is no token of this vocabulary")
        return total

    def decode(self, ids not None):
        """Return the bytes of the tokens of a sequence of uint16 or uint32 ids, joined.

        Raises:
            KeyError: an id is no token's.
        """
        cdef Py_buffer view
        cdef int width = view_ids(ids, &view)
        cdef Py_ssize_t n = view.len // width
        cdef int64_t total
        cdef uint8_t *to
        try:
            total = self.decoded(&view, width, 0, n)
            result = PyBytes_FromStringAndSize(NULL, total)
            to = <uint8_t *>PyBytes_AS_STRING(result)
            with nogil:
                decode_documents(&self.texts, view.buf, n, NULL, 1, width, to, total)
            return result
        finally:
            PyBuffer_Release(&view)

    def decode_list(self, list ids not None):
        """Return the bytes of the tokens of a list of int, joined.

        Raises:
            KeyError: an id is no token's.
        """
        cdef Py_ssize_t i, n = len(ids)
        packed = PyBytes_FromStringAndSize(NULL, 4 * n)
        cdef uint32_t *to = <uint32_t *>PyBytes_AS_STRING(packed)
        cdef int64_t number
        for i in range(n):
            number = PyNumber_AsSsize_t(ids[i], NULL)  # saturates; TypeError if it is no int
            if not 0 <= number < self.texts.n:
                raise KeyError(f"id {ids[i]} at position {i} is no token of this vocabulary")
            to[i] = <uint32_t>number
        return self.decode(memoryview(packed).cast("I"))

    def decode_documents(self, ids not None, const int64_t[::1] ends not None):
        """Return (bytes, ends): the bytes of documents one after the other, and int64 ends in them.

        Args:
            ids: uint16 or uint32; document d has ids[ends[d - 1]:ends[d]].
            ends: int64, where the ids of each document end; the last is the number of ids.

        Raises:
            KeyError: an id is no token's.
        """
        cdef Py_buffer view
        cdef int width = view_ids(ids, &view)
        cdef Py_ssize_t i, n = view.len // width, documents = ends.shape[0]
        cdef int64_t total = 0, begin = 0
        cdef uint64_t wrong = 0
        cdef int64_t *byte_ends
        cdef uint8_t *to
        try:
            for i in range(documents):
                if not begin <= ends[i] <= n:
                    raise ValueError(f"the ids of document {i} are [{begin}:{ends[i]}] of {n}")
                begin = ends[i]
            if begin != n:
                raise ValueError(f"the ids of documents end at {begin}, and there are {n} ids")
            packed_ends = PyBytes_FromStringAndSize(NULL, 8 * documents)
            byte_ends = <int64_t *>PyBytes_AS_STRING(packed_ends)
            begin = 0
            with nogil:
                for i in range(documents):
                    total += decoded_length_of(&self.texts, view.buf, begin, ends[i], width, &wrong)
                    if wrong < <uint64_t>ends[i]:
                        break
                    begin = ends[i]
                    byte_ends[i] = total
            if begin != n:
                self.decoded(&view, width, wrong, n)
            result = PyBytes_FromStringAndSize(NULL, total)
            to = <uint8_t *>PyBytes_AS_STRING(result)
            with nogil:
                decode_documents(&self.texts, view.buf, n, &ends[0] if documents else NULL, documents, width, to, total)
            return result, packed_ends
        finally:
            PyBuffer_Release(&view)

    @property
    def ordered(self):
        """Whether each part of a merge is a byte or made by an earlier merge, as learned merges are."""
        return bool(self.model.ordered)


cdef int view_ids(object ids, Py_buffer *view) except -1:
    """Look at an array of ids and return their width; the caller releases it."""
    PyObject_GetBuffer(ids, view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS)
    cdef bytes kind = b"" if view.format == NULL else view.format
    kind = kind.lstrip(b"@=<")
    if view.ndim == 1 and ((view.itemsize == 2 and kind == b"H") or (view.itemsize == 4 and kind in (b"I", b"L"))):
        return view.itemsize
    shape = f"{view.ndim} dimensions of {kind.decode()!r}"
    PyBuffer_Release(view)
    raise ValueError(f"ids are an array of uint16 or uint32, not {shape}")


cdef bytes packed(const Ids *out, int width):
    cdef uint64_t i
    if width == 4:
        return PyBytes_FromStringAndSize(<char *>out.ids, 4 * out.n)
    result = PyBytes_FromStringAndSize(NULL, 2 * out.n)
    cdef uint16_t *to = <uint16_t *>PyBytes_AS_STRING(result)
    with nogil:
        for i in range(out.n):
            to[i] = <uint16_t>out.ids[i]
    return result


def recover_merges(const uint8_t[::1] tokens not None, const int64_t[::1] starts not None, const uint32_t[::1] ranks=None):
    """Return (left, right, merged, unreachable) of a rank file, packed uint32 ids.

    There two neighbours merge whenever their joined bytes are a token, the token of the lowest id first, the
    leftmost first.  Each token that merging makes has one pair of parts; merges are in the order of ids.
    Tokens of two bytes or more that merging never makes are `unreachable`: a whole piece may still be one.

    Args:
        tokens: the bytes of all tokens, one after the other; ids that are holes have none.
        starts: int64, where each token starts in `tokens`, and the end; the index is the id.
        ranks: uint32 by id, below the number of tokens; of tokens of one rank the leftmost is merged first.  None: the ids.

    Raises:
        ValueError: two tokens are the same, or a byte has no token.
    """
    cdef Py_ssize_t i, n = starts.shape[0] - 1, k = 0, lost = 0
    cdef uint32_t byte_ids[256]
    cdef uint32_t twice[2]
    cdef int error
    check_tokens(tokens, starts)
    if ranks is not None and (ranks.shape[0] != n or (n and max(ranks) >= n)):
        raise ValueError(f"there are {ranks.shape[0]} ranks for {n} tokens, or one is {n} or more")
    for i in range(256):
        byte_ids[i] = NO_TOKEN
    for i in range(n):
        if starts[i + 1] - starts[i] == 1 and byte_ids[tokens[starts[i]]] == NO_TOKEN:
            byte_ids[tokens[starts[i]]] = i
    for i in range(256):
        if byte_ids[i] == NO_TOKEN:
            raise ValueError(f"byte {i} has no token of its own")
    columns = [bytearray(4 * n) for _ in range(4)]
    cdef uint32_t[::1] left = memoryview(columns[0]).cast("I")
    cdef uint32_t[::1] right = memoryview(columns[1]).cast("I")
    cdef uint32_t[::1] merged = memoryview(columns[2]).cast("I")
    cdef uint32_t[::1] unreachable = memoryview(columns[3]).cast("I")
    with nogil:
        error = recover_parts(n, &tokens[0], &starts[0], byte_ids, &ranks[0] if ranks is not None else NULL, &left[0],
                              &right[0], twice)
    if error:
        raise MemoryError("no memory for the merges")
    if twice[1] != NO_TOKEN:
        raise ValueError(f"ids {twice[0]} and {twice[1]} are the same token {bytes(tokens[starts[twice[1]]:starts[twice[1] + 1]])!r}")
    for i in range(n):
        if left[i] != NO_TOKEN:
            left[k] = left[i]
            right[k] = right[i]
            merged[k] = i
            k += 1
        elif starts[i + 1] - starts[i] > 1:
            unreachable[lost] = i
            lost += 1
    return (bytes(columns[0][: 4 * k]), bytes(columns[1][: 4 * k]), bytes(columns[2][: 4 * k]),
            bytes(columns[3][: 4 * lost]))
