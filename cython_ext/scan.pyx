"""Find words, lines, broken UTF-8 and safe cuts in bytes.

Bytes and integers go in and come out; there is no input or output and no policy here.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp

cdef extern from "scan.h" nogil:
    ctypedef enum ScannedPattern "enum pattern":
        GPT2
        CL100K
        O200K
        LLAMA3
        QWEN2
        WHITESPACE
        BERT
        METASPACE
        NONE
    ctypedef struct Word:
        const uint8_t *start
        size_t length
    const char *UNICODE_VERSION_TEXT "UNICODE_VERSION"
    size_t scan_words(ScannedPattern, const uint8_t **at, const uint8_t *end, Word *words, size_t most)
    const uint8_t *valid_until(const uint8_t *, const uint8_t *end)
    int is_cut(ScannedPattern, int normalized, const uint8_t *begin, const uint8_t *at, const uint8_t *end)

#: Number of each pattern that has a scanner.
PATTERNS = {
    "gpt2": GPT2,
    "cl100k": CL100K,
    "o200k": O200K,
    "llama3": LLAMA3,
    "qwen2": QWEN2,
    "whitespace": WHITESPACE,
    "bert": BERT,
    "metaspace": METASPACE,
    "none": NONE,
}
#: Version of Unicode whose classes the scanners follow.
UNICODE_VERSION = UNICODE_VERSION_TEXT.decode()


cdef class Bounds:
    """A growing array of int64 numbers."""

    cdef int64_t *numbers
    cdef size_t used, size

    def __dealloc__(self):
        free(self.numbers)

    cdef int put(self, int64_t number) except -1 nogil:
        cdef int64_t *numbers
        if self.used == self.size:
            numbers = <int64_t *>realloc(self.numbers, 8 * (2 * self.size + 1024))
            if numbers == NULL:
                with gil:
                    raise MemoryError("no memory for the bounds of documents")
            self.numbers = numbers
            self.size = 2 * self.size + 1024
        self.numbers[self.used] = number
        self.used += 1
        return 0

    cdef bytes result(self):
        return PyBytes_FromStringAndSize(<char *>self.numbers, 8 * self.used)


cdef int known(int pattern) except -1:
    if pattern < GPT2 or pattern > NONE:
        raise ValueError(f"there is no scanner of number {pattern}")
    return 0


def word_bounds(const uint8_t[::1] data not None, int pattern):
    """Return start and end of each word of one document (valid UTF-8) as packed int64 numbers."""
    cdef Bounds bounds = Bounds()
    cdef Word words[256]
    cdef size_t i, n
    known(pattern)
    if not data.shape[0]:
        return b""
    cdef const uint8_t *start = &data[0]
    cdef const uint8_t *at = start
    cdef const uint8_t *end = start + data.shape[0]
    with nogil:
        while True:
            n = scan_words(<ScannedPattern>pattern, &at, end, words, 256)
            for i in range(n):
                bounds.put(words[i].start - start)
                bounds.put(words[i].start - start + words[i].length)
            if n < 256:
                break
    return bounds.result()


def invalid_utf8(const uint8_t[::1] data not None, Py_ssize_t begin=0):
    """Return where the first byte at or after `begin` that is not valid UTF-8 stands, or -1."""
    cdef const uint8_t *end
    cdef const uint8_t *at
    if begin < 0:
        raise ValueError(f"begin is {begin}; it must not be negative")
    if begin >= data.shape[0]:
        return -1
    with nogil:
        end = &data[0] + data.shape[0]
        at = valid_until(&data[0] + begin, end)
    return -1 if at == end else at - &data[0]


def first_cut(const uint8_t[::1] data not None, Py_ssize_t begin, int pattern, bint normalized=False):
    """Return the first position >= `begin` where a word ends whatever stands to the left, or -1.

    Args:
        normalized: the text will be normalized before words are found in it.
    """
    cdef const uint8_t *start
    cdef Py_ssize_t i, found = -1, n = data.shape[0]
    known(pattern)
    with nogil:
        for i in range(begin if begin > 0 else 1, n):
            if is_cut(<ScannedPattern>pattern, normalized, &data[0], &data[i], &data[0] + n):
                found = i
                break
    return found


def last_cut(const uint8_t[::1] data not None, Py_ssize_t end, int pattern, bint normalized=False):
    """Return the last position < `end` where a word ends whatever stands to the left, or -1.

    Args:
        normalized: the text will be normalized before words are found in it.
    """
    cdef Py_ssize_t i, found = -1, n = data.shape[0]
    known(pattern)
    with nogil:
        for i in range((end if end < n else n) - 1, 0, -1):
            if is_cut(<ScannedPattern>pattern, normalized, &data[0], &data[i], &data[0] + n):
                found = i
                break
    return found


def line_bounds(const uint8_t[::1] data not None):
    """Return start and end of each line, its ending included, as packed int64 numbers."""
    cdef Bounds bounds = Bounds()
    cdef Py_ssize_t n = data.shape[0], at = 0, stop
    cdef const uint8_t *found
    with nogil:
        while at < n:
            found = <const uint8_t *>memchr(&data[at], c'\n', n - at)
            stop = n if found == NULL else found - &data[0] + 1
            bounds.put(at)
            bounds.put(stop)
            at = stop
    return bounds.result()


def paragraph_bounds(const uint8_t[::1] data not None):
    """Return start and end of each paragraph: what stands between blank lines.

    A blank line is a line ending (LF or CRLF) right behind another.  The line endings around a
    paragraph are in none.
    """
    cdef Bounds bounds = Bounds()
    cdef Py_ssize_t n = data.shape[0], at = 0, i, stop, ending
    with nogil:
        while True:
            while at < n:  # skip the line endings before a paragraph
                ending = line_ending(data, at, n)
                if not ending:
                    break
                at += ending
            if at >= n:
                break
            i = at
            stop = n
            while i < n:
                ending = line_ending(data, i, n)
                if ending and (i + ending >= n or line_ending(data, i + ending, n)):
                    stop = i
                    break
                i += ending if ending else 1
            bounds.put(at)
            bounds.put(stop)
            at = stop
    return bounds.result()


cdef inline Py_ssize_t line_ending(const uint8_t[::1] data, Py_ssize_t i, Py_ssize_t n) noexcept nogil:
    """Length of the LF or CRLF at i, else 0."""
    if data[i] == c'\n':
        return 1
    if data[i] == c'\r' and i + 1 < n and data[i + 1] == c'\n':
        return 2
    return 0


def separated_bounds(const uint8_t[::1] data not None, const uint8_t[::1] separator not None):
    """Return start and end of what stands between separators, empty stretches left out."""
    cdef Bounds bounds = Bounds()
    cdef Py_ssize_t n = data.shape[0], m = separator.shape[0], start = 0, at = 0
    cdef const uint8_t *found
    if not m:
        raise ValueError("the separator is empty")
    with nogil:
        while at + m <= n:
            found = <const uint8_t *>memchr(&data[at], separator[0], n - m - at + 1)
            if found == NULL:
                break
            at = found - &data[0]
            if memcmp(found, &separator[0], m):
                at += 1
                continue
            if at > start:
                bounds.put(start)
                bounds.put(at)
            at += m
            start = at
        if n > start:
            bounds.put(start)
            bounds.put(n)
    return bounds.result()
