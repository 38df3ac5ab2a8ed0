"""Add up tokens and characters, weighted by how often a word occurs, without losing a count."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from *:
    """
    static inline int add_overflows(int64_t a, int64_t b, int64_t *to) { return __builtin_add_overflow(a, b, to); }

    typedef struct { uint64_t high, low; } Sum128;

    static inline Sum128 weighted(const int64_t *values, const int64_t *counts, uint64_t n) {
        unsigned __int128 sum = 0; /* values are below 2**32, counts below 2**63, and there are at most 2**30 */
        for (uint64_t i = 0; i < n; i++) sum += (unsigned __int128)values[i] * (uint64_t)counts[i];
        Sum128 parts = {(uint64_t)(sum >> 64), (uint64_t)sum};
        return parts;
    }

    static inline int64_t characters_in(const uint8_t *p, const uint8_t *end) {
        int64_t n = 0;
        while (end - p >= 128) { /* of so few bytes the number fits into a byte, which the compiler can use */
            uint8_t some = 0;
            for (int i = 0; i < 128; i++) some += (p[i] & 0xC0) != 0x80;
            n += some;
            p += 128;
        }
        for (; p < end; p++) n += (*p & 0xC0) != 0x80;
        return n;
    }
    """
    ctypedef struct Sum128:
        uint64_t high, low
    int add_overflows(int64_t, int64_t, int64_t *) nogil
    Sum128 weighted(const int64_t *, const int64_t *, uint64_t) nogil
    int64_t characters_in(const uint8_t *, const uint8_t *) nogil

ctypedef fused Id:
    uint16_t
    uint32_t


cdef Py_ssize_t add_tokens(int64_t[::1] frequencies, const Id[::1] ids, const int64_t[::1] ends, const int64_t[::1] counts,
                           bint *full) noexcept nogil:
    """Return -1, or the place of the first id that is no token's or whose frequency is full."""
    cdef Py_ssize_t i = 0, d, size = frequencies.shape[0], documents = 1 if counts is None else counts.shape[0]
    cdef int64_t end = ids.shape[0], count = 1
    full[0] = False
    for d in range(documents):
        if counts is not None:
            end = ends[d]
            count = counts[d]
        while i < end:
            if ids[i] >= size:
                return i
            if add_overflows(frequencies[ids[i]], count, &frequencies[ids[i]]):
                full[0] = True
                return i
            i += 1
    return -1


def count_tokens(int64_t[::1] frequencies not None, ids not None, const int64_t[::1] ends=None,
                 const int64_t[::1] counts=None):
    """Add to the frequency of each token how often it occurs.

    Args:
        frequencies: int64 by id, which is changed; after an error it is of no use.
        ids: uint16 or uint32.
        ends, counts: int64 of each text: ids[ends[d - 1]:ends[d]] are its, and count counts[d] times; None: all count once.

    Raises:
        KeyError: an id has no frequency.
        OverflowError: a token occurs more than 2**63 - 1 times; the message names its id.
    """
    cdef const uint16_t[::1] narrow
    cdef const uint32_t[::1] wide
    cdef Py_ssize_t wrong, n = len(ids), d
    cdef int64_t before = 0
    cdef bint full
    if (ends is None) != (counts is None):
        raise TypeError("ends and counts go together")
    if counts is not None:
        if ends.shape[0] != counts.shape[0]:
            raise ValueError(f"there are {ends.shape[0]} ends and {counts.shape[0]} counts")
        for d in range(counts.shape[0]):
            if not before <= ends[d] <= n or counts[d] < 0:
                raise ValueError(f"text {d} has the ids [{before}:{ends[d]}] of {n}, {counts[d]} times")
            before = ends[d]
        if before != n:
            raise ValueError(f"the ids of texts end at {before}, and there are {n} ids")
    if memoryview(ids).itemsize == 2:
        narrow = ids
        with nogil:
            wrong = add_tokens(frequencies, narrow, ends, counts, &full)
    else:
        wide = ids
        with nogil:
            wrong = add_tokens(frequencies, wide, ends, counts, &full)
    if wrong >= 0 and full:
        raise OverflowError(f"the token of id {ids[wrong]} occurs more than 2**63 - 1 times")
    if wrong >= 0:
        size = frequencies.shape[0]
        raise KeyError(f"id {ids[wrong]} at position {wrong} is no token of this vocabulary; its ids are below {size}")


def count_characters(const uint8_t[::1] data not None, const int64_t[::1] bounds not None):
    """Return the number of characters of each text as packed int64 numbers.

    Args:
        data: valid UTF-8.
        bounds: of length 2n; text d is data[bounds[2d]:bounds[2d + 1]].
    """
    cdef Py_ssize_t d, n = bounds.shape[0] // 2, size = data.shape[0]
    cdef const uint8_t *p = &data[0] if size else NULL
    if bounds.shape[0] % 2:
        raise ValueError("bounds has a start and an end for each text")
    for d in range(n):
        if not 0 <= bounds[2 * d] <= bounds[2 * d + 1] <= size:
            raise ValueError(f"text {d} is [{bounds[2 * d]}:{bounds[2 * d + 1]}] of {size} bytes")
    numbers = PyBytes_FromStringAndSize(NULL, 8 * n)
    cdef int64_t *to = <int64_t *>PyBytes_AS_STRING(numbers)
    with nogil:
        for d in range(n):
            to[d] = characters_in(p + bounds[2 * d], p + bounds[2 * d + 1])
    return numbers


def weighted_sum(const int64_t[::1] values not None, const int64_t[::1] counts not None):
    """Return the sum of values[i] * counts[i], exactly, however large it is.

    Args:
        values: int64 from 0 to 2**32 - 1, at most 2**30 of them.
        counts: int64, not negative.
    """
    cdef Sum128 parts
    cdef Py_ssize_t i, n = values.shape[0]
    if counts.shape[0] != n:
        raise ValueError(f"there are {n} values and {counts.shape[0]} counts")
    if n > 1 << 30:
        raise ValueError(f"{n} values; at most 2**30 are summed at a time")
    for i in range(n):
        if not 0 <= values[i] <= 0xFFFFFFFF or counts[i] < 0:
            raise ValueError(f"value {i} is {values[i]}, {counts[i]} times: choose 0 to 2**32 - 1, and no negative count")
    if not n:
        return 0
    with nogil:
        parts = weighted(&values[0], &counts[0], n)
    return (<object>parts.high << 64) | parts.low
