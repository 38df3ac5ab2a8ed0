"""Map the characters of documents, reorder marks, and compose: bytes to bytes.

Bytes and integers go in and come out; there is no input or output and no policy here.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

cdef extern from "normalize.h" nogil:
    enum:
        C_KEEP "KEEP"
        C_STRING "STRING"
        C_SPACED "SPACED"
        C_DROP "DROP"
        C_BARRIER "BARRIER"
        C_MARKED "MARKED"
        C_SLOW "SLOW"
        C_NO_STRING "NO_STRING"
        MOST_BYTES
    ctypedef struct Map:
        const uint16_t *block
        const uint32_t *entry
        const uint8_t *pool
        int fast, fold, clean
    ctypedef struct Out:
        uint8_t *start
        uint8_t *at
        uint8_t *end
    ctypedef struct CComposer "Composer":
        Map quick, decomposed
        const uint64_t *pairs
        size_t n_pairs
        uint32_t *codes
        size_t codes_size
        Out scratch
    ctypedef struct CSpacing "Spacing":
        int squeeze, before, behind, escape
    const uint8_t *valid_until(const uint8_t *, const uint8_t *end)
    int room(Out *, size_t)
    int put_mapped(const Map *, const uint8_t *, const uint8_t *end, Out *)
    int put_spaced(const CSpacing *, const uint8_t *, const uint8_t *end, Out *)
    int put_normal_form(CComposer *, const uint8_t *, const uint8_t *end, Out *)

#: What a character becomes: itself, a string, itself between spaces, nothing (within a run of marks, or ending it),
#: a string with marks; or it is to be looked at together with its neighbours.
KEEP, STRING, SPACED, DROP, BARRIER, MARKED, SLOW = C_KEEP, C_STRING, C_SPACED, C_DROP, C_BARRIER, C_MARKED, C_SLOW
#: In the place of the length of a string: marks without one.
NO_STRING = C_NO_STRING
cdef Py_ssize_t BLOCKS = 0x110000 >> 8


cdef class CharacterMap:
    """What each character becomes.

    Args:
        blocks: for each 256 characters the number of their block of entries.
        entries: 256 for each block: a kind | a place in the pool << 3.
        pool: as normalize.h says.
    """

    cdef Map map
    cdef object held
    cdef object __weakref__

    def __init__(self, const uint16_t[::1] blocks not None, const uint32_t[::1] entries not None,
                 const uint8_t[::1] pool not None):
        cdef Py_ssize_t i, n = entries.shape[0]
        if blocks.shape[0] != BLOCKS or not n or n % 256:
            raise ValueError("a map has a block for each 256 characters, and 256 entries for each block")
        for i in range(BLOCKS):
            if blocks[i] >= n // 256:
                raise ValueError(f"there is no block {blocks[i]}")
        for i in range(n):
            check_entry(entries[i], pool)
        self.held = blocks, entries, pool
        self.map.block = &blocks[0]
        self.map.entry = &entries[0]
        self.map.pool = &pool[0] if pool.shape[0] else NULL
        self.find_fast(entries[256 * blocks[0]:256 * blocks[0] + 128], pool)

    cdef int find_fast(self, const uint32_t[::1] ascii, const uint8_t[::1] pool) except -1:
        """Tell whether ASCII follows the rules that need no table."""
        cdef uint8_t becomes[128]
        cdef uint32_t code, at
        for code in range(128):
            at = ascii[code] >> 3
            becomes[code] = code if ascii[code] == C_KEEP else 0xFF  # 0xFF: not one character of ASCII
            if ascii[code] & 7 == C_STRING and pool[at] == 1:
                becomes[code] = pool[at + 1]
        made = becomes[:128]
        kept = bytes(range(128))
        white = made[9:11] + made[13:14]
        self.map.fold = made[65:91] == kept[97:123]
        self.map.clean = white == b"   "
        self.map.fast = (
            (self.map.clean or made[:32] + made[127:] == kept[:32] + kept[127:])
            and (self.map.fold or made[65:91] == kept[65:91])
            and made[32:65] + made[91:127] == kept[32:65] + kept[91:127]
        )
        return 0

    def documents(self, const uint8_t[::1] data not None, const int64_t[::1] bounds not None):
        """Return what documents become, side by side, and their bounds as packed int64 numbers.

        Args:
            data: valid UTF-8.
            bounds: of length 2n; document d is data[bounds[2d]:bounds[2d + 1]].
        """
        return mapped(&self.map, NULL, NULL, data, bounds)


cdef class Composition:
    """Bring documents into a composed normal form.

    Args:
        quick: what a character becomes by itself: KEEP, STRING, or SLOW.
        decomposed: its decomposition.
        pairs: (first << 21 | second) << 21 | what they compose to, ascending.
    """

    cdef CharacterMap quick, decomposed
    cdef const uint64_t[::1] pairs
    cdef object __weakref__

    def __init__(self, CharacterMap quick not None, CharacterMap decomposed not None, const uint64_t[::1] pairs not None):
        self.quick, self.decomposed, self.pairs = quick, decomposed, pairs

    def documents(self, const uint8_t[::1] data not None, const int64_t[::1] bounds not None):
        """Return documents in that form, side by side, and their bounds as packed int64 numbers."""
        cdef CComposer composer
        memset(&composer, 0, sizeof(composer))
        composer.quick = self.quick.map
        composer.decomposed = self.decomposed.map
        composer.pairs = &self.pairs[0] if self.pairs.shape[0] else NULL
        composer.n_pairs = self.pairs.shape[0]
        try:
            return mapped(NULL, &composer, NULL, data, bounds)
        finally:
            free(composer.codes)
            free(composer.scratch.start)


cdef class Spacing:
    """What SentencePiece does about spaces, which are U+0020 and nothing else.

    Args:
        squeeze: those at both ends of a text and behind another one are dropped; so are U+2581 at its end.
        before, behind: a text that is not empty gets one more there.
        escape: they become U+2581.
    """

    cdef CSpacing spacing
    cdef object __weakref__

    def __init__(self, bint squeeze=False, bint before=False, bint behind=False, bint escape=False):
        self.spacing.squeeze, self.spacing.before = squeeze, before
        self.spacing.behind, self.spacing.escape = behind, escape

    def documents(self, const uint8_t[::1] data not None, const int64_t[::1] bounds not None):
        """Return documents so, side by side, and their bounds as packed int64 numbers; bytes need not be UTF-8."""
        return mapped(NULL, NULL, &self.spacing, data, bounds)


cdef int check_entry(uint32_t entry, const uint8_t[::1] pool) except -1:
    """Refuse an entry whose strings do not lie within the pool."""
    cdef size_t at = entry >> 3, size = pool.shape[0], marks, total = 0
    cdef uint32_t kind = entry & 7
    if kind > C_SLOW:
        raise ValueError(f"there is no kind {kind}")
    if kind != C_STRING and kind != C_MARKED:
        return 0
    if at >= size:
        raise ValueError(f"the entry {entry} reaches beyond the pool")
    total = pool[at] if kind == C_STRING or pool[at] != C_NO_STRING else 0
    at += 1 + total
    if kind == C_MARKED:
        marks = pool[at] if at < size else 0
        at += 1
        while marks and at + 1 < size:
            total += pool[at + 1]
            at += 2 + pool[at + 1]
            marks -= 1
        if marks:
            at = size + 1
    if at > size or total >= MOST_BYTES:
        raise ValueError(f"the entry {entry} reaches beyond the pool, or is too long")
    return 0


cdef tuple mapped(const Map *map, CComposer *composer, const CSpacing *spacing, const uint8_t[::1] data,
                  const int64_t[::1] bounds):
    """Return documents as a map, a composer, or else a spacing makes them, and their bounds."""
    cdef Py_ssize_t n = bounds.shape[0], i, invalid = -1
    cdef int64_t size = data.shape[0]
    cdef const uint8_t *start = &data[0] if size else NULL
    cdef const uint8_t *p
    cdef const uint8_t *end
    cdef int error = 0
    cdef int64_t *made
    cdef Out out
    if n % 2:
        raise ValueError(f"bounds has {n} numbers, not a start and an end for each document")
    for i in range(0, n, 2):
        if not 0 <= bounds[i] <= bounds[i + 1] <= size:
            raise ValueError(f"document {i // 2} is [{bounds[i]}:{bounds[i + 1]}] of {size} bytes")
    numbers = PyBytes_FromStringAndSize(NULL, 8 * n)
    made = <int64_t *>PyBytes_AS_STRING(numbers)
    memset(&out, 0, sizeof(out))
    try:
        with nogil:
            error = room(&out, size + size // 8 + 64)
            for i in range(0, n, 2):
                if error or bounds[i] == bounds[i + 1]:
                    made[i] = made[i + 1] = out.at - out.start
                    continue
                p = start + bounds[i]
                end = start + bounds[i + 1]
                if spacing == NULL and valid_until(p, end) != end:
                    invalid = i // 2
                    break
                made[i] = out.at - out.start
                if map != NULL:
                    error = put_mapped(map, p, end, &out)
                elif composer != NULL:
                    error = put_normal_form(composer, p, end, &out)
                else:
                    error = put_spaced(spacing, p, end, &out)
                made[i + 1] = out.at - out.start
        if error:
            raise MemoryError("no memory for normalized documents")
        if invalid >= 0:
            raise ValueError(f"document {invalid} is not valid UTF-8")
        return PyBytes_FromStringAndSize(<char *>out.start, out.at - out.start), numbers
    finally:
        free(out.start)
