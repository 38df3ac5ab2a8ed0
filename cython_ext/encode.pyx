"""Encode documents into token ids by the rank of merges, and decode ids into bytes.

Bytes and integers go in and come out; there is no input or output and no policy here.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

cdef extern from "encode.h" nogil:
    int ID_BITS, RANK_BITS
    ctypedef struct Model:
        uint32_t n_tokens, n_merges
        uint32_t *byte_id
        int ordered, whole_pieces
        const uint8_t *token_bytes
        const int64_t *token_starts
    ctypedef struct Ids:
        uint32_t *ids
        uint64_t n, size
    ctypedef struct CCache "Cache":
        pass
    int model_init(Model *, const uint32_t *left, const uint32_t *right, const uint32_t *merged)
    void model_free(Model *)
    int cache_init(CCache *, uint64_t slots)
    void cache_free(CCache *)
    int encode_documents(const Model *, CCache *, const uint8_t *, uint64_t size, const int64_t *bounds,
                         uint64_t documents, int pattern, uint64_t most, Ids *, int64_t *ends)

#: Tokens and merges that an encoder can have.
MOST_TOKENS = (1 << ID_BITS) - 1
MOST_MERGES = (1 << RANK_BITS) - 2
cdef uint64_t CACHE_ENTRY = 32


cdef class Cache:
    """A cache of encoded pieces; one call uses it at a time."""

    cdef CCache cache

    def __cinit__(self, uint64_t slots):
        if cache_init(&self.cache, slots):
            raise MemoryError("no memory for the cache of pieces")

    def __dealloc__(self):
        cache_free(&self.cache)


cdef class Encoder:
    """Encode and decode; immutable, and safe to share between threads.

    Args:
        tokens: the bytes of all tokens, one after the other; ids that are holes have none.
        starts: int64, where each token starts in `tokens`, and the end; the index is the id.
        byte_ids: uint32, the id of each of the 256 bytes.
        left, right, merged: uint32, ids of the parts of each merge and of what it makes, by rank.
        whole_pieces: a piece that is a token is that token, whatever the merges would give.
        cache_bytes: memory of a cache; there is one for each thread that encodes at a time.
    """

    cdef Model model
    cdef object tokens
    cdef object starts
    cdef list caches
    cdef uint64_t slots
    cdef object __weakref__

    def __cinit__(self, const uint8_t[::1] tokens not None, const int64_t[::1] starts not None,
                  const uint32_t[::1] byte_ids not None, const uint32_t[::1] left not None,
                  const uint32_t[::1] right not None, const uint32_t[::1] merged not None,
                  bint whole_pieces=False, uint64_t cache_bytes=16 << 20):
        cdef Model *m = &self.model
        cdef uint64_t i, n = starts.shape[0] - 1, k = left.shape[0]
        memset(m, 0, sizeof(Model))
        self.caches = []
        if starts.shape[0] < 1 or n > MOST_TOKENS or k > MOST_MERGES:
            raise ValueError(f"{n} tokens and {k} merges; at most {MOST_TOKENS} and {MOST_MERGES} are possible")
        if byte_ids.shape[0] != 256 or right.shape[0] != <Py_ssize_t>k or merged.shape[0] != <Py_ssize_t>k:
            raise ValueError("columns differ in length")
        for i in range(n):
            if not 0 <= starts[i] <= starts[i + 1] <= tokens.shape[0]:
                raise ValueError(f"the bytes of token {i} lie outside of the tokens")
        for i in range(256):
            if byte_ids[i] >= n or starts[byte_ids[i] + 1] - starts[byte_ids[i]] != 1 or tokens[starts[byte_ids[i]]] != i:
                raise ValueError(f"byte {i} has no token of its own")
        for i in range(k):
            if left[i] >= n or right[i] >= n or merged[i] >= n:
                raise ValueError(f"the merge of rank {i} names a token that does not exist")
            if (starts[left[i] + 1] - starts[left[i]]) + (starts[right[i] + 1] - starts[right[i]]) != \
                    starts[merged[i] + 1] - starts[merged[i]] or starts[left[i] + 1] == starts[left[i]] or \
                    starts[right[i] + 1] == starts[right[i]]:
                raise ValueError(f"the parts of the merge of rank {i} do not make its token")
        self.tokens = tokens
        self.starts = starts
        m.n_tokens = n
        m.n_merges = k
        for i in range(256):
            m.byte_id[i] = byte_ids[i]
        m.whole_pieces = whole_pieces
        m.token_bytes = &tokens[0] if tokens.shape[0] else NULL
        m.token_starts = &starts[0]
        self.slots = 1 << 8
        while self.slots * 2 * CACHE_ENTRY <= cache_bytes:
            self.slots *= 2
        if model_init(m, &left[0] if k else NULL, &right[0] if k else NULL, &merged[0] if k else NULL):
            raise MemoryError("no memory for the encoder")

    def __dealloc__(self):
        model_free(&self.model)

    def encode(self, const uint8_t[::1] data not None, const int64_t[::1] bounds not None, int pattern,
               most=None):
        """Encode documents and return (ids, ends): uint32 ids one after the other, int64 ends by document.

        Args:
            data: valid UTF-8 where a scanner reads it.
            bounds: of length 2n; document d is data[bounds[2d]:bounds[2d + 1]].
            pattern: number of a scanned pattern, or -1: each document is one piece.
            most: stop as soon as there are that many ids (there may be more: whole batches are encoded).
        """
        cdef Py_ssize_t i, n = bounds.shape[0] // 2
        cdef uint64_t size = data.shape[0], limit = <uint64_t>-1 if most is None else most
        cdef const uint8_t *start = &data[0] if size else NULL
        cdef Ids out
        cdef Cache cache
        cdef int error = 0
        if bounds.shape[0] % 2 or pattern > 6:
            raise ValueError("bounds has a start and an end for each document, and patterns are numbered from 0 to 6")
        for i in range(n):
            if not 0 <= bounds[2 * i] <= bounds[2 * i + 1] <= <int64_t>size:
                raise ValueError(f"document {i} is [{bounds[2 * i]}:{bounds[2 * i + 1]}] of {size} bytes")
        ends = PyBytes_FromStringAndSize(NULL, 8 * n)
        cdef int64_t *to = <int64_t *>PyBytes_AS_STRING(ends)
        out.ids = NULL
        out.n = out.size = 0
        try:
            cache = self.caches.pop()
        except IndexError:
            cache = Cache(self.slots)
        try:
            if n and size:
                with nogil:
                    error = encode_documents(&self.model, &cache.cache, start, size, &bounds[0], n, pattern, limit, &out, to)
            elif n:
                memset(to, 0, 8 * n)
            if error:
                raise MemoryError("no memory for the ids")
            return PyBytes_FromStringAndSize(<char *>out.ids, 4 * out.n), ends
        finally:
            free(out.ids)
            self.caches.append(cache)

    def lengths(self, const uint32_t[::1] ids not None):
        """Return the bytes of each token of a sequence of ids, as packed int64 numbers."""
        cdef Py_ssize_t i, n = ids.shape[0]
        result = PyBytes_FromStringAndSize(NULL, 8 * n)
        cdef int64_t *to = <int64_t *>PyBytes_AS_STRING(result)
        self.check(ids)
        with nogil:
            for i in range(n):
                to[i] = self.model.token_starts[ids[i] + 1] - self.model.token_starts[ids[i]]
        return result

    cdef int check(self, const uint32_t[::1] ids) except -1:
        cdef Py_ssize_t i
        for i in range(ids.shape[0]):
            if ids[i] >= self.model.n_tokens or self.model.token_starts[ids[i]] == self.model.token_starts[ids[i] + 1]:
                raise KeyError(f"id {ids[i]} at position {i} is no token of this vocabulary")
        return 0

    def decode(self, const uint32_t[::1] ids not None):
        """Return the bytes of the tokens of a sequence of ids, joined.

        Raises:
            KeyError: an id is no token's.
        """
        cdef Py_ssize_t i, n = ids.shape[0]
        cdef int64_t total = 0, length
        cdef const int64_t *starts = self.model.token_starts
        cdef const uint8_t *p
        self.check(ids)
        with nogil:
            for i in range(n):
                total += starts[ids[i] + 1] - starts[ids[i]]
        result = PyBytes_FromStringAndSize(NULL, total)
        cdef uint8_t *to = <uint8_t *>PyBytes_AS_STRING(result)
        cdef uint8_t *stop = to + total
        with nogil:
            for i in range(n):
                p = self.model.token_bytes + starts[ids[i]]
                length = starts[ids[i] + 1] - starts[ids[i]]
                memcpy(to, p, length)
                to += length
        return result

    @property
    def ordered(self):
        """Whether each part of a merge is a byte or made by an earlier merge, as learned merges are."""
        return bool(self.model.ordered)
