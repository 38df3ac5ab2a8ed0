"""Scan documents into words and count them in a native table.

Bytes and integers go in and come out; there is no input or output and no policy here.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy

import os

cdef extern from "word_table.h" nogil:
    int OUT_OF_MEMORY, COUNT_OVERFLOW, CORRUPT
    int PACKED_HEADER, WITH_DOCUMENTS
    ctypedef enum ScannedPattern "enum pattern":
        GPT2
        NONE
    ctypedef struct Entry:
        uint64_t lo, hi
        int64_t count, documents
    ctypedef struct Table "WordTable":
        Entry *entries
        uint32_t *last_document
        uint64_t slots, used, arena_used, arena_size, seed_0, seed_1
    ctypedef struct Scanned:
        int64_t words, overlong, overlong_bytes
    ctypedef struct Sorted:
        const Entry *entry
    ctypedef struct Row:
        const uint8_t *bytes
        uint64_t length
        int64_t count, documents
    int table_init(Table *, uint64_t slots, int documents)
    void table_free(Table *)
    uint64_t table_bytes(const Table *)
    int table_add(Table *, const uint8_t *, uint64_t, int64_t count, int64_t documents, const uint8_t *limit)
    int count_documents(Table *, const uint8_t *, uint64_t, const int64_t *bounds, uint64_t documents,
                        ScannedPattern, uint64_t max_word, int continues, Scanned *)
    const uint8_t *word_bytes(const Table *, const Entry *, uint64_t *length)
    uint32_t shard_of(const Table *, const Entry *, uint32_t shards)
    Sorted sorted_item(const Table *, const Entry *)
    void __builtin_prefetch(const void *)
    Sorted *sort_by_bytes(const Table *, Sorted *, Sorted *scratch, uint64_t)
    uint64_t packed_size(const Table *, const Entry *, int documents)
    uint8_t *pack_entry(uint8_t *, const Table *, const Entry *, int documents)
    uint8_t *put_header(uint8_t *, int documents, uint32_t shard, uint32_t shards, uint64_t rows)
    const uint8_t *get_row(const uint8_t *, const uint8_t *end, int documents, Row *)
    int add_packed(Table *, const uint8_t *, const uint8_t *end, int documents, uint64_t rows)

cdef extern from "word_table.h" nogil:
    ctypedef struct Cursor:
        const uint8_t *at
        const uint8_t *end
        uint64_t left
        Row row
    ctypedef struct Columns:
        uint8_t *data
        int64_t *offsets
        int64_t *counts
        int64_t *documents
        int32_t *tables
    int interleave_packed(Cursor *, Cursor **heap, uint32_t, int documents, Columns *)
    int c_merge_packed "merge_packed"(Cursor *, Cursor **heap, uint32_t, int documents, uint8_t *out,
                                      uint64_t *size, uint64_t *rows)

cdef uint64_t FEWEST_SLOTS = 1 << 10
cdef uint64_t AHEAD = 16  # entries fetched from memory before they are packed
cdef uint64_t LONGEST_WORD = 0xFFFFFFFF  # the arena holds lengths as u32


cdef int check(int error) except -1:
    """Turn an error of word_table.h into an exception."""
    if error == OUT_OF_MEMORY:
        raise MemoryError("the word table does not fit into memory")
    if error == COUNT_OVERFLOW:
        raise OverflowError("the count of a word exceeds 2**63 - 1")
    if error == CORRUPT:
        raise ValueError("packed words are broken or cut off")
    return 0


cdef class WordTable:
    """Count words: bytes -> occurrences (int64) and, on request, the documents that hold them.

    Args:
        documents: count documents too (4 bytes more a slot).
        seed: of the hash function; random when None.  It changes no output.
        slots: of the empty table, a power of two, each of 32 bytes; it grows by itself.
    """

    cdef Table table
    cdef readonly bint documents
    cdef object __weakref__

    def __cinit__(self, bint documents=False, seed=None, uint64_t slots=FEWEST_SLOTS):
        cdef bytes random = os.urandom(16) if seed is None else int(seed).to_bytes(16, "little")
        memcpy(&self.table.seed_0, PyBytes_AS_STRING(random), 8)
        memcpy(&self.table.seed_1, PyBytes_AS_STRING(random) + 8, 8)
        self.documents = documents
        if not 16 <= slots <= FEWEST_SLOTS or slots & (slots - 1):
            raise ValueError(f"slots is {slots}; it must be a power of two from 16 to {FEWEST_SLOTS}")
        check(table_init(&self.table, slots, documents))

    def __dealloc__(self):
        table_free(&self.table)

    def __len__(self):
        return self.table.used

    @property
    def nbytes(self):
        """Bytes of memory that the table holds."""
        return table_bytes(&self.table)

    @property
    def total(self):
        """Sum of the counts (exact, of any size)."""
        cdef uint64_t i, low = 0
        cdef object high = 0
        for i in range(self.table.slots):
            low += <uint64_t>self.table.entries[i].count
            if low >> 63:
                high += low
                low = 0
        return high + low

    def add_documents(self, const uint8_t[::1] data not None, const int64_t[::1] bounds not None, int pattern,
                      uint64_t max_word_bytes=1 << 24, bint continues=False):
        """Scan and count the words of documents and return (words, overlong words, their bytes).

        Args:
            data: valid UTF-8.
            bounds: of length 2n; document d is data[bounds[2d]:bounds[2d + 1]].
            pattern: number of a scanned pattern (see _scan.PATTERNS).
            max_word_bytes: longer words are left out and counted as overlong.
            continues: the first document is the rest of the last one that was added.
        """
        cdef Scanned scanned
        cdef int error
        cdef uint64_t longest = min(max_word_bytes, LONGEST_WORD)
        cdef Py_ssize_t i, n = bounds.shape[0]
        cdef uint64_t size = data.shape[0]
        cdef const uint8_t *start = &data[0] if size else NULL
        if pattern < GPT2 or pattern > NONE:
            raise ValueError(f"there is no scanner of number {pattern}")
        if n % 2:
            raise ValueError(f"bounds has {n} numbers, not a start and an end for each document")
        for i in range(0, n, 2):
            if not 0 <= bounds[i] <= bounds[i + 1] <= <int64_t>size:
                raise ValueError(f"document {i // 2} is [{bounds[i]}:{bounds[i + 1]}] of {size} bytes")
        scanned.words = scanned.overlong = scanned.overlong_bytes = 0
        if n:  # an empty document counts as one
            with nogil:
                error = count_documents(&self.table, start, size, &bounds[0], n // 2, <ScannedPattern>pattern,
                                        longest,
                                        continues, &scanned)
            check(error)
        return scanned.words, scanned.overlong, scanned.overlong_bytes

    def add(self, bytes word not None, int64_t count, int64_t documents=0):
        """Add occurrences of one word."""
        cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(word)
        if not word or count < 0 or documents < 0:
            raise ValueError(f"a word has at least one byte and counts are not negative: {word!r}, {count}, {documents}")
        check(table_add(&self.table, p, len(word), count, documents, p + len(word)))

    def add_columns(self, const uint8_t[::1] data not None, const int64_t[::1] offsets not None,
                    const int64_t[::1] counts not None, const int64_t[::1] documents=None):
        """Add words with their counts; word i is data[offsets[i]:offsets[i + 1]]."""
        cdef Py_ssize_t i, n = counts.shape[0]
        cdef uint64_t size = data.shape[0]
        cdef const uint8_t *start = &data[0] if size else NULL
        cdef int error = 0
        if offsets.shape[0] != n + 1 or (documents is not None and documents.shape[0] != n):
            raise ValueError("columns differ in length")
        for i in range(n):
            if not 0 <= offsets[i] < offsets[i + 1] <= <int64_t>size or counts[i] < 0:
                raise ValueError(f"row {i}: an empty word, a negative count, or offsets beyond the data")
            if documents is not None and documents[i] < 0:
                raise ValueError(f"row {i}: a negative number of documents")
        with nogil:
            for i in range(n):
                error = table_add(&self.table, start + offsets[i], offsets[i + 1] - offsets[i], counts[i],
                                  documents[i] if documents is not None else 0, start + size)
                if error:
                    break
        check(error)

    def add_packed(self, const uint8_t[::1] packed not None):
        """Add the words of a packed table and return its (shard, shards)."""
        cdef uint32_t shard, shards
        cdef uint64_t rows
        cdef int error, flags
        flags = read_header(packed, &shard, &shards, &rows)
        with nogil:
            error = add_packed(&self.table, &packed[0] + PACKED_HEADER, &packed[0] + packed.shape[0],
                               flags & WITH_DOCUMENTS, rows)
        check(error)
        return shard, shards

    def pack(self, uint32_t shards=1, bint ordered=False):
        """Return the non-empty shards as [(shard, packed bytes)], rows sorted by word if `ordered`."""
        cdef Table *t = &self.table
        cdef uint64_t i, start, n, widest = 0
        cdef uint64_t *ends
        cdef Sorted *items
        cdef Sorted *scratch = NULL
        cdef uint32_t shard
        if not 1 <= shards <= 1 << 24:
            raise ValueError(f"shards is {shards}; it must lie between 1 and {1 << 24}")
        ends = <uint64_t *>calloc(shards + 1, 8)
        items = <Sorted *>malloc(sizeof(Sorted) * (t.used + 1))
        try:
            if not items or not ends:
                raise MemoryError("no memory to pack the word table")
            with nogil:  # list the entries shard by shard
                for i in range(t.slots):
                    if t.entries[i].hi:
                        ends[shard_of(t, &t.entries[i], shards) + 1] += 1
                for shard in range(shards):
                    if ends[shard + 1] > widest:
                        widest = ends[shard + 1]
                    ends[shard + 1] += ends[shard]
                for i in range(t.slots):
                    if t.entries[i].hi:
                        shard = shard_of(t, &t.entries[i], shards)
                        items[ends[shard]] = sorted_item(t, &t.entries[i])
                        ends[shard] += 1
            if ordered:
                scratch = <Sorted *>malloc(sizeof(Sorted) * (widest + 1))
                if not scratch:
                    raise MemoryError("no memory to sort the word table")
            packed = []
            start = 0
            for shard in range(shards):
                n = ends[shard] - start
                if n:
                    packed.append((shard, self.packed(shard, shards, items + start, scratch, n)))
                start += n
            return packed
        finally:
            free(items)
            free(scratch)
            free(ends)

    cdef bytes packed(self, uint32_t shard, uint32_t shards, Sorted *items, Sorted *scratch, uint64_t n):
        """Pack the entries items[:n], sorted if there is scratch."""
        cdef Table *t = &self.table
        cdef uint64_t i, size = PACKED_HEADER
        cdef uint8_t *out
        with nogil:
            if scratch:
                items = sort_by_bytes(t, items, scratch, n)
            for i in range(n):
                if i + AHEAD < n:
                    __builtin_prefetch(items[i + AHEAD].entry)
                size += packed_size(t, items[i].entry, self.documents)
        result = PyBytes_FromStringAndSize(NULL, size)
        out = put_header(<uint8_t *>PyBytes_AS_STRING(result), self.documents, shard, shards, n)
        with nogil:
            for i in range(n):
                if i + AHEAD < n:
                    __builtin_prefetch(items[i + AHEAD].entry)
                out = pack_entry(out, t, items[i].entry, self.documents)
        return result


cdef int read_header(const uint8_t[::1] packed, uint32_t *shard, uint32_t *shards, uint64_t *rows) except -1:
    if packed.shape[0] < PACKED_HEADER or bytes(packed[:4]) != b"bbw1":
        raise ValueError("these are not packed words")
    memcpy(shard, &packed[5], 4)
    memcpy(shards, &packed[9], 4)
    memcpy(rows, &packed[13], 8)
    return packed[4]


def has_documents(const uint8_t[::1] packed not None):
    """Return whether a packed table counts documents."""
    cdef uint32_t shard, shards
    cdef uint64_t rows
    return bool(read_header(packed, &shard, &shards, &rows) & WITH_DOCUMENTS)


def unpack(const uint8_t[::1] packed not None):
    """Turn a packed table into columns.

    Returns:
        (shard, shards, data, offsets, counts, documents): the bytes of the words one after the other,
        int64 offsets (rows + 1), int64 counts, int64 documents or None; as bytes objects.
    """
    cdef uint32_t shard, shards
    cdef uint64_t rows, i, total = 0
    cdef int with_documents = read_header(packed, &shard, &shards, &rows) & WITH_DOCUMENTS
    cdef const uint8_t *end = &packed[0] + packed.shape[0]
    cdef const uint8_t *p = &packed[0] + PACKED_HEADER
    cdef Row row = [NULL, 0, 0, 0]
    if rows > <uint64_t>packed.shape[0]:
        check(CORRUPT)
    with nogil:
        for i in range(rows):
            p = get_row(p, end, with_documents, &row)
            if p == NULL:
                break
            total += row.length
    if p != end:
        check(CORRUPT)
    data = PyBytes_FromStringAndSize(NULL, total)
    offsets = PyBytes_FromStringAndSize(NULL, 8 * (rows + 1))
    counts = PyBytes_FromStringAndSize(NULL, 8 * rows)
    documents = PyBytes_FromStringAndSize(NULL, 8 * rows) if with_documents else None
    cdef uint8_t *data_out = <uint8_t *>PyBytes_AS_STRING(data)
    cdef int64_t *offsets_out = <int64_t *>PyBytes_AS_STRING(offsets)
    cdef int64_t *counts_out = <int64_t *>PyBytes_AS_STRING(counts)
    cdef int64_t *documents_out = <int64_t *>PyBytes_AS_STRING(documents) if with_documents else NULL
    with nogil:
        p = &packed[0] + PACKED_HEADER
        total = 0
        for i in range(rows):
            p = get_row(p, end, with_documents, &row)
            offsets_out[i] = total
            memcpy(data_out + total, row.bytes, row.length)
            total += row.length
            counts_out[i] = row.count
            if with_documents:
                documents_out[i] = row.documents
        offsets_out[rows] = total
    return shard, shards, data, offsets, counts, documents


cdef class _Cursors:
    """Packed tables of one shard, and where each is read."""

    cdef list views
    cdef uint32_t n, shard, shards
    cdef int flags
    cdef uint64_t rows, size  # of all of them; bytes behind their headers
    cdef Cursor *cursors
    cdef Cursor **heap

    def __cinit__(self, list packed not None):
        cdef const uint8_t[::1] view
        cdef uint32_t i, shard, shards
        cdef uint64_t rows
        cdef int flags
        if not packed:
            raise ValueError("there are no packed words to merge")
        self.n = len(packed)
        self.views = []
        self.cursors = <Cursor *>calloc(self.n, sizeof(Cursor))
        self.heap = <Cursor **>malloc(self.n * sizeof(Cursor *))
        if not self.cursors or not self.heap:
            raise MemoryError("no memory to merge packed words")
        for i in range(self.n):
            view = packed[i]
            self.views.append(view)
            flags = read_header(view, &shard, &shards, &rows)
            if not i:
                self.flags, self.shard, self.shards = flags, shard, shards
            if shards != self.shards:
                raise ValueError(f"word tables cut into {shards} and into {self.shards} shards cannot be summed")
            if shard != self.shard:
                raise ValueError(f"packed words of the shards {shard} and {self.shard} cannot be summed")
            if flags != self.flags:
                raise ValueError("words that count documents and words that do not cannot be summed")
            if rows > <uint64_t>view.shape[0]:
                check(CORRUPT)
            self.cursors[i].at = &view[0] + PACKED_HEADER
            self.cursors[i].end = &view[0] + view.shape[0]
            self.cursors[i].left = rows
            self.rows += rows
            self.size += view.shape[0] - PACKED_HEADER

    def __dealloc__(self):
        free(self.cursors)
        free(self.heap)


def merge_packed(list packed not None):
    """Return the sum of packed tables of one shard, whose rows are sorted (as pack(ordered=True) gives them).

    Raises:
        ValueError: they are of different shards, or a table is broken or not sorted.
        OverflowError: a sum exceeds 2**63 - 1.
    """
    cdef _Cursors given = _Cursors(packed)
    cdef int error, documents = given.flags & WITH_DOCUMENTS
    cdef uint64_t size = 0, written = 0
    cdef uint8_t *out
    if given.n == 1:
        return bytes(packed[0])
    out = <uint8_t *>malloc(PACKED_HEADER + given.size)
    if out == NULL:
        raise MemoryError("no memory to merge packed words")
    try:
        with nogil:
            error = c_merge_packed(given.cursors, given.heap, given.n, documents, out + PACKED_HEADER, &size, &written)
        check(error)
        put_header(out, documents, given.shard, given.shards, written)
        return PyBytes_FromStringAndSize(<char *>out, PACKED_HEADER + size)
    finally:
        free(out)


def interleave(list packed not None):
    """Turn packed tables of one shard, whose rows are sorted, into columns, in order of words, then of tables.

    Returns:
        (shard, shards, data, offsets, counts, documents, tables): as `unpack`, and the int32 number of the table that
        each row is of; data may end in bytes that no row is of.

    Raises:
        ValueError: they are of different shards, or a table is broken or not sorted.
    """
    cdef _Cursors given = _Cursors(packed)
    cdef int error, with_documents = given.flags & WITH_DOCUMENTS
    cdef uint64_t rows = given.rows
    cdef Columns out
    data = PyBytes_FromStringAndSize(NULL, given.size)
    offsets = PyBytes_FromStringAndSize(NULL, 8 * (rows + 1))
    counts = PyBytes_FromStringAndSize(NULL, 8 * rows)
    documents = PyBytes_FromStringAndSize(NULL, 8 * rows) if with_documents else None
    tables = PyBytes_FromStringAndSize(NULL, 4 * rows)
    out.data = <uint8_t *>PyBytes_AS_STRING(data)
    out.offsets = <int64_t *>PyBytes_AS_STRING(offsets)
    out.counts = <int64_t *>PyBytes_AS_STRING(counts)
    out.documents = <int64_t *>PyBytes_AS_STRING(documents) if with_documents else NULL
    out.tables = <int32_t *>PyBytes_AS_STRING(tables)
    with nogil:
        error = interleave_packed(given.cursors, given.heap, given.n, with_documents, &out)
    check(error)
    return given.shard, given.shards, data, offsets, counts, documents, tables


def repeated(const uint8_t[::1] data not None, const int64_t[::1] offsets not None, bytes before not None):
    """Return for each row whether its word is that of the row before it, as bytes of 0 and 1.

    Args:
        before: the word before row 0; empty if there is none.
    """
    cdef Py_ssize_t i, n = offsets.shape[0] - 1
    cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(before)
    cdef const uint8_t *q
    cdef int64_t length = len(before), next_length
    result = PyBytes_FromStringAndSize(NULL, n)
    cdef char *out = PyBytes_AS_STRING(result)
    with nogil:
        for i in range(n):
            q = &data[0] + offsets[i]
            next_length = offsets[i + 1] - offsets[i]
            out[i] = length == next_length and memcmp(p, q, length) == 0
            p = q
            length = next_length
    return result


def first_unordered(const uint8_t[::1] data not None, const int64_t[::1] offsets not None, bytes before not None):
    """Return the first row whose word does not come after the one before it, or -1.

    Args:
        before: the word before row 0; empty if there is none.
    """
    cdef Py_ssize_t i, n = offsets.shape[0] - 1
    cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(before)
    cdef const uint8_t *q
    cdef int64_t length = len(before), next_length
    cdef int order
    with nogil:
        for i in range(n):
            q = &data[0] + offsets[i]
            next_length = offsets[i + 1] - offsets[i]
            order = memcmp(p, q, length if length < next_length else next_length)
            if order > 0 or (order == 0 and length >= next_length):
                with gil:
                    return i
            p = q
            length = next_length
    return -1
