"""Learn byte-pair merges from a table of distinct words with counts.

Integers go in and come out; there is no input or output and no policy here.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

import time

cdef extern from "merge_loop.h" nogil:
    int COUNT_OVERFLOW, INTERRUPTED
    int FAILED_FOR_MEMORY "OUT_OF_MEMORY"
    int LOWEST_IDS, GREATEST_BYTES, SHORTEST
    int VOCABULARY_FULL, NO_PAIRS, BELOW_MIN_PAIR_COUNT
    uint32_t SENTINEL, NO_TOKEN
    int C_ANY_SCRIPT "ANY_SCRIPT", C_SCRIPT_BEFORE "SCRIPT_BEFORE"
    int C_CODE_POINTS "CODE_POINTS", C_PLACES "PLACES"
    int BLOCK_SHIFT
    ctypedef struct PairMap:
        pass
    ctypedef struct Neighbour:
        pass
    ctypedef struct Event:
        pass
    ctypedef struct Loop:
        uint32_t *cells
        uint64_t n_cells
        uint32_t groups
        int64_t *group_count
        uint64_t *group_end
        uint32_t *block_group
        uint32_t tokens, capacity, max_length
        uint32_t *span
        uint32_t *length
        uint8_t **spelling
        uint32_t *size
        int64_t min_count
        int tie_rule
        const uint8_t **excluded
        uint32_t *excluded_size
        uint64_t excluded_slots
        int (*poll)(void *, uint64_t, int64_t) except -1 with gil
        void *context
        void *pairs
        void *heap
        Neighbour *left
        Neighbour *right
        uint32_t *left_touched
        uint32_t *right_touched
        Event *left_events
        Event *right_events
        int text
        uint8_t *prefix
        uint32_t prefix_size, reserved, twin
        uint8_t *used
        uint32_t *by_spelling
        uint8_t *first_script
        uint8_t *last_script
        uint64_t spelling_slots
        int64_t *frequency
        uint32_t *first_of_left
        uint32_t *first_of_right
        void *links
        void *scored
        uint64_t bytes, peak_bytes
        uint32_t merges
        uint32_t *merge_left
        uint32_t *merge_right
        uint32_t *merge_made
        int64_t *merge_count
        int64_t *merge_replaced
        uint32_t overflow_left, overflow_right
    void free_pairs(Loop *)
    void *large_array(uint64_t)
    void account(Loop *, uint64_t less, uint64_t more)
    void index_groups(Loop *)
    uint32_t enter_spellings(Loop *)
    void exclude(Loop *, const uint8_t *, uint32_t size)
    uint64_t characters_of(const uint8_t *, const uint8_t *)
    int64_t count_word(const uint8_t *, const uint8_t *, int64_t, int64_t *)
    uint64_t fill_word(Loop *, const uint8_t *, const uint8_t *, const uint32_t *, uint32_t, uint32_t *, uint64_t)
    int learn(Loop *, uint32_t most, uint32_t most_tokens)

TIE_RULES = {"lowest_ids": LOWEST_IDS, "greatest_bytes": GREATEST_BYTES, "shortest": SHORTEST}
ANY_SCRIPT, SCRIPT_BEFORE = C_ANY_SCRIPT, C_SCRIPT_BEFORE
NO_SYMBOL = SENTINEL  # among the ids of characters: the word is cut there
CODE_POINTS, PLACES = C_CODE_POINTS, C_PLACES
STOP_REASONS = {VOCABULARY_FULL: "vocab_size", NO_PAIRS: "no_pairs", BELOW_MIN_PAIR_COUNT: "min_pair_count"}

cdef uint64_t MOST_CELLS = 0xFFFFFFFF  # positions are u32
cdef double POLL_SECONDS = 0.1


cdef int poll_python(void *context, uint64_t merges, int64_t count) except -1 with gil:
    """Let Ctrl-C through and report progress; an exception stops the loop."""
    cdef MergeLoop self = <MergeLoop>context
    PyErr_CheckSignals()
    cdef double now = time.monotonic()
    if self.progress is not None and now - self.reported >= POLL_SECONDS:
        self.reported = now
        self.progress(merges, count)
    return 0


cdef class MergeLoop:
    """Learn merges; in order: measure every chunk of words, allocate, add every chunk, run once.

    Args:
        counts: the distinct counts of the words, descending and positive (int64).
        spellings: the bytes of each initial symbol; their ids are 0, 1, 2, …
        min_pair_count: pairs with a lower count are not merged.
        max_token_length: in the unit of the lengths, inclusive.
        tie_rule: a value of TIE_RULES.
        lengths: of each initial symbol (uint32), in characters for example; None: spellings are bytes, and so counted.
            With them no two tokens are spelled alike: a merge whose spelling is there makes that token.
        prefix: of continuing pieces; the right part of a merge loses it.  It needs lengths.
        reserved: so many symbols, the first, have spellings that no merge may make.
        frequencies: of each initial symbol in the words (int64); the pair with the highest count(xy) / (count(x) *
            count(y)) is merged, of equal ones that with the higher count, then that with the smallest (left, right)
            spelling.  None: the pair with the highest count, ties by tie_rule.
        scripts: a number for the script of each initial symbol (uint8); no merge is of two.  ANY_SCRIPT goes with all;
            SCRIPT_BEFORE is that of the symbol before, and any at the beginning.  It needs lengths.
        excluded: spellings that no merge may make; the pair is left as it is.
    """

    cdef Loop loop
    cdef uint64_t *cursors       # cells of each group while measuring, then where its next word goes
    cdef uint64_t cells_size
    cdef object progress
    cdef list excluded           # keeps its bytes, which the loop points to
    cdef double reported
    cdef int stage               # 0 measuring, 1 adding, 2 run

    def __cinit__(self, const int64_t[::1] counts not None, list spellings not None, int64_t min_pair_count=1,
                  uint32_t max_token_length=0xFFFFFFFF, int tie_rule=LOWEST_IDS, const uint32_t[::1] lengths=None,
                  bytes prefix=b"", uint32_t reserved=0, const int64_t[::1] frequencies=None,
                  const uint8_t[::1] scripts=None, list excluded=None):
        cdef Loop *l = &self.loop
        cdef Py_ssize_t i, n = counts.shape[0]
        memset(l, 0, sizeof(Loop))
        if min_pair_count < 1:
            raise ValueError(f"min_pair_count is {min_pair_count}; it must be at least 1")
        for i in range(n):
            if counts[i] < 1 or (i and counts[i] >= counts[i - 1]):
                raise ValueError("counts must be positive, distinct and descending")
        l.min_count = min_pair_count
        l.max_length = max_token_length
        l.tie_rule = tie_rule
        l.text = lengths is not None
        l.reserved = reserved
        l.twin = NO_TOKEN
        if not l.text and (prefix or reserved or frequencies is not None):
            raise ValueError("prefix, reserved and frequencies need lengths")
        if ((lengths is not None and lengths.shape[0] != len(spellings))
                or (frequencies is not None and frequencies.shape[0] != len(spellings))):
            raise ValueError("lengths and frequencies are of every initial symbol")
        l.groups = n
        l.tokens = len(spellings)
        l.group_count = <int64_t *>malloc(8 * (n + 1))
        l.group_end = <uint64_t *>malloc(8 * (n + 1))
        self.cursors = <uint64_t *>calloc(n + 1, 8)
        l.length = <uint32_t *>malloc(4 * (len(spellings) + 1))
        l.spelling = <uint8_t **>calloc(len(spellings) + 1, sizeof(void *))
        l.size = <uint32_t *>malloc(4 * (len(spellings) + 1))
        l.used = <uint8_t *>calloc(len(spellings) + 1, 1)
        if not (l.group_count and l.group_end and self.cursors and l.length and l.spelling and l.size and l.used):
            raise MemoryError("no memory for the merge loop")
        if prefix:
            l.prefix = <uint8_t *>malloc(len(prefix))
            if l.prefix == NULL:
                raise MemoryError("no memory for the merge loop")
            memcpy(l.prefix, PyBytes_AS_STRING(prefix), len(prefix))
            l.prefix_size = len(prefix)
        if frequencies is not None:
            l.frequency = <int64_t *>malloc(8 * (len(spellings) + 1))
            if l.frequency == NULL:
                raise MemoryError("no memory for the merge loop")
            for i in range(len(spellings)):
                if frequencies[i] < 0:
                    raise ValueError(f"symbol {i} occurs {frequencies[i]} times")
                l.frequency[i] = frequencies[i]
        if scripts is not None:
            if not l.text or scripts.shape[0] != len(spellings):
                raise ValueError("scripts are of every initial symbol, and need lengths")
            l.first_script = <uint8_t *>malloc(len(spellings) + 1)
            l.last_script = <uint8_t *>malloc(len(spellings) + 1)
            if l.first_script == NULL or l.last_script == NULL:
                raise MemoryError("no memory for the merge loop")
            for i in range(len(spellings)):
                l.first_script[i] = l.last_script[i] = scripts[i]
        if excluded:
            self.exclude(excluded)
        if n:
            memcpy(l.group_count, &counts[0], 8 * n)
        l.capacity = l.tokens
        for i in range(l.tokens):
            self.spell(i, spellings[i])
            if lengths is not None:
                l.length[i] = lengths[i]

    cdef int spell(self, Py_ssize_t i, bytes spelling) except -1:
        if not spelling:
            raise ValueError("an initial symbol is spelled with at least one byte")
        self.loop.length[i] = len(spelling)
        self.loop.size[i] = len(spelling)
        self.loop.spelling[i] = <uint8_t *>malloc(len(spelling))
        if self.loop.spelling[i] == NULL:
            raise MemoryError("no memory for the merge loop")
        memcpy(self.loop.spelling[i], PyBytes_AS_STRING(spelling), len(spelling))
        return 0

    cdef int exclude(self, list spellings) except -1:
        cdef Loop *l = &self.loop
        cdef bytes spelling
        self.excluded = spellings
        l.excluded_slots = 16
        while l.excluded_slots < 2 * <uint64_t>len(spellings):
            l.excluded_slots *= 2
        l.excluded = <const uint8_t **>calloc(l.excluded_slots, sizeof(void *))
        l.excluded_size = <uint32_t *>malloc(4 * l.excluded_slots)
        if l.excluded == NULL or l.excluded_size == NULL:
            raise MemoryError("no memory for the merge loop")
        account(l, 0, 12 * l.excluded_slots)
        for spelling in spellings:
            exclude(l, <const uint8_t *>PyBytes_AS_STRING(spelling), len(spelling))
        return 0

    def __dealloc__(self):
        cdef Loop *l = &self.loop
        cdef uint32_t i
        free_pairs(l)
        if l.spelling:
            for i in range(l.capacity):
                free(l.spelling[i])
        for p in [<size_t>l.cells, <size_t>l.group_count, <size_t>l.group_end, <size_t>l.block_group,
                  <size_t>l.span, <size_t>l.length, <size_t>l.spelling, <size_t>l.pairs, <size_t>l.heap,
                  <size_t>l.left, <size_t>l.right, <size_t>l.left_touched, <size_t>l.right_touched,
                  <size_t>l.left_events, <size_t>l.right_events, <size_t>l.merge_left, <size_t>l.merge_right,
                  <size_t>l.merge_made, <size_t>l.merge_count, <size_t>l.merge_replaced, <size_t>self.cursors,
                  <size_t>l.size, <size_t>l.prefix, <size_t>l.used, <size_t>l.by_spelling, <size_t>l.frequency,
                  <size_t>l.first_of_left, <size_t>l.first_of_right, <size_t>l.links, <size_t>l.scored,
                  <size_t>l.first_script, <size_t>l.last_script,
                  <size_t>l.excluded, <size_t>l.excluded_size]:
            free(<void *><size_t>p)

    cdef Py_ssize_t group_of(self, int64_t count) noexcept nogil:
        """Index of the group of words of that count, or -1."""
        cdef Py_ssize_t low = 0, high = self.loop.groups - 1, middle
        if high >= 0 and self.loop.group_count[high] == count:  # most words have the lowest count
            return high
        while low <= high:
            middle = (low + high) >> 1
            if self.loop.group_count[middle] == count:
                return middle
            if self.loop.group_count[middle] > count:
                low = middle + 1
            else:
                high = middle - 1
        return -1

    def measure(self, const int64_t[::1] offsets not None, const int64_t[::1] counts not None):
        """Learn how many symbols each group holds; word i has offsets[i + 1] - offsets[i] of them."""
        cdef Py_ssize_t i, g, n = counts.shape[0]
        if self.stage != 0:
            raise ValueError("measure comes before allocate")
        if offsets.shape[0] != n + 1:
            raise ValueError("columns differ in length")
        with nogil:
            for i in range(n):
                if offsets[i] < 0 or offsets[i + 1] < offsets[i]:
                    with gil:
                        raise ValueError(f"offsets fall at row {i}")
                if counts[i] == 0:  # as if absent
                    continue
                g = self.group_of(counts[i])
                if g < 0:
                    with gil:
                        raise ValueError(f"count {counts[i]} of row {i} is not among the counts announced")
                if offsets[i + 1] - offsets[i] >= 2:  # a word of one symbol has no pair
                    self.cursors[g] += offsets[i + 1] - offsets[i] + 1

    def allocate(self):
        """Make room for the words measured."""
        cdef Loop *l = &self.loop
        cdef uint64_t at = 1, size
        cdef uint32_t g
        if self.stage != 0:
            raise ValueError("allocate comes once")
        for g in range(l.groups):
            size = self.cursors[g]
            self.cursors[g] = at
            at += size
            l.group_end[g] = at
        if at > MOST_CELLS:
            raise ValueError(f"the words have {at} bytes with one between them, more than {MOST_CELLS}: "
                             "leave out the rare ones (min_count)")
        l.n_cells = at
        l.cells = <uint32_t *>large_array(4 * at)
        l.block_group = <uint32_t *>malloc(4 * ((at >> BLOCK_SHIFT) + 1))
        if not l.cells or not l.block_group:
            raise MemoryError(f"no memory for {at} symbols")
        account(l, 0, 4 * at + 4 * (at >> BLOCK_SHIFT))
        l.cells[0] = SENTINEL
        self.stage = 1

    def add_bytes(self, const uint8_t[::1] data not None, const int64_t[::1] offsets not None,
                  const int64_t[::1] counts not None, const uint32_t[::1] ids not None):
        """Add words whose symbols are bytes; ids[b] is the id of byte b."""
        cdef Loop *l = &self.loop
        cdef Py_ssize_t i, n = counts.shape[0], size = data.shape[0]
        cdef int64_t j
        cdef Py_ssize_t g
        cdef uint64_t at
        if self.stage != 1 or ids.shape[0] != 256 or offsets.shape[0] != n + 1:
            raise ValueError("add_bytes comes after allocate, with 256 ids and one offset more than counts")
        for i in range(256):
            if ids[i] >= l.tokens:
                raise ValueError(f"byte {i} has id {ids[i]}, but there are {l.tokens} symbols")
        with nogil:
            for i in range(n):
                if offsets[i] < 0 or offsets[i + 1] > size:
                    with gil:
                        raise ValueError(f"row {i} lies beyond the data")
                if counts[i] == 0 or offsets[i + 1] - offsets[i] < 2:
                    continue
                g = self.group_of(counts[i])
                at = self.cursors[g] if g >= 0 else l.n_cells
                if at + (offsets[i + 1] - offsets[i]) + 1 > (l.group_end[g] if g >= 0 else 0):
                    with gil:
                        raise ValueError(f"row {i} was not measured")
                for j in range(offsets[i], offsets[i + 1]):
                    l.cells[at] = ids[data[j]]
                    at += 1
                l.cells[at] = SENTINEL
                self.cursors[g] = at + 1

    def add_characters(self, const uint8_t[::1] data not None, const int64_t[::1] offsets not None,
                       const int64_t[::1] counts not None, const uint32_t[:, ::1] ids not None,
                       uint32_t end_of_word=SENTINEL):
        """Add words of UTF-8 whose symbols are characters; they were measured with `symbol_offsets`.

        Args:
            ids: the symbol of each character by its place, of shape (PLACES, CODE_POINTS): the only character of a
                word, the first, an inner one, the last.  NO_SYMBOL: the word is cut there.
            end_of_word: a symbol that follows the last character of every word; NO_SYMBOL for none.
        """
        cdef Loop *l = &self.loop
        cdef Py_ssize_t i, g, n = counts.shape[0], size = data.shape[0]
        cdef uint64_t at, symbols, least = 2 if end_of_word == SENTINEL else 1
        if self.stage != 1 or not l.text or offsets.shape[0] != n + 1:
            raise ValueError("add_characters comes after allocate, with lengths of symbols and one offset more than counts")
        if ids.shape[0] != C_PLACES or ids.shape[1] != C_CODE_POINTS:
            raise ValueError(f"ids have the shape ({ids.shape[0]}, {ids.shape[1]}), not ({C_PLACES}, {C_CODE_POINTS})")
        if end_of_word != SENTINEL and end_of_word >= l.tokens:
            raise ValueError(f"the end of a word has id {end_of_word}, but there are {l.tokens} symbols")
        with nogil:
            for i in range(n):
                if offsets[i] < 0 or offsets[i + 1] < offsets[i] or offsets[i + 1] > size:
                    with gil:
                        raise ValueError(f"row {i} lies beyond the data")
                if counts[i] == 0 or offsets[i + 1] == offsets[i]:
                    continue
                symbols = characters_of(&data[0] + offsets[i], &data[0] + offsets[i + 1])
                if symbols < least:
                    continue
                g = self.group_of(counts[i])
                at = self.cursors[g] if g >= 0 else 0
                if g < 0 or at >= l.group_end[g]:
                    with gil:
                        raise ValueError(f"row {i} was not measured")
                symbols = fill_word(l, &data[0] + offsets[i], &data[0] + offsets[i + 1], &ids[0, 0], end_of_word,
                                    l.cells + at, l.group_end[g] - at - 1)
                if symbols == 0:
                    with gil:
                        raise ValueError(f"row {i} was not measured, or is not UTF-8, or has an id beyond the {l.tokens} symbols")
                l.cells[at + symbols] = SENTINEL
                self.cursors[g] = at + symbols + 1

    def run(self, uint32_t merges, progress=None, uint32_t tokens=0xFFFFFFFF):
        """Learn up to `merges` merges and return why it stopped, a value of STOP_REASONS.

        Args:
            progress: called now and then with (merges so far, count of the last one).  What it raises,
                and KeyboardInterrupt, stops the loop and passes through; the loop is then of no use.
            tokens: how many there may be, the initial ones included; fewer than merges where spellings arise twice.
        """
        cdef Loop *l = &self.loop
        cdef uint64_t capacity = <uint64_t>l.tokens + merges
        cdef uint32_t g, i
        cdef int outcome
        if self.stage != 1:
            raise ValueError("run comes once, after allocate")
        if tokens < l.tokens:
            raise ValueError(f"{tokens} tokens are fewer than the {l.tokens} initial symbols")
        if capacity > tokens:
            capacity = tokens
        if capacity >= 0xFFFFFFF0:
            raise ValueError(f"{capacity} tokens are more than fit into 32 bits")
        for g in range(l.groups):
            if self.cursors[g] != l.group_end[g]:
                raise ValueError("not all the words measured were added")
        self.stage = 2
        capacity += 1  # the newest token while it waits to be renamed
        self.widen(capacity)
        if l.text:
            l.spelling_slots = 1024
            while l.spelling_slots < 2 * capacity:
                l.spelling_slots *= 2
            l.by_spelling = <uint32_t *>calloc(l.spelling_slots, 4)
            if l.by_spelling == NULL:
                raise MemoryError("no memory for the merge loop")
            account(l, 0, 4 * l.spelling_slots)
            i = enter_spellings(l)
            if i != NO_TOKEN:
                raise ValueError(f"the initial symbol {self.spelled(i)!r} stands twice")
        l.poll = poll_python
        l.context = <void *>self
        self.progress = progress
        self.reported = time.monotonic()
        with nogil:
            outcome = learn_or_raise(l, merges, tokens)
        if outcome == COUNT_OVERFLOW:
            raise OverflowError(f"the pair ({self.spelled(l.overflow_left)!r}, {self.spelled(l.overflow_right)!r}) "
                                "counts more than 2**63 - 1")
        if outcome == FAILED_FOR_MEMORY:
            raise MemoryError(f"no memory for the pairs after {l.merges} merges")
        return STOP_REASONS[outcome]

    cdef int widen(self, uint64_t capacity) except -1:
        """Make room for so many tokens."""
        cdef Loop *l = &self.loop
        cdef uint32_t i
        length, spelling, size = <size_t>l.length, <size_t>l.spelling, <size_t>l.size
        used, frequency = <size_t>l.used, <size_t>l.frequency
        cdef uint8_t *scripts
        cdef uint64_t spelled = capacity if l.text or l.tie_rule != LOWEST_IDS or l.excluded_slots else l.tokens + 1
        l.span = <uint32_t *>malloc(4 * capacity)
        l.length = <uint32_t *>malloc(4 * capacity)
        l.spelling = <uint8_t **>calloc(spelled, sizeof(void *))
        l.size = <uint32_t *>malloc(4 * spelled)
        l.used = <uint8_t *>calloc(spelled, 1)
        l.left = <Neighbour *>calloc(capacity, sizeof(Neighbour))
        l.right = <Neighbour *>calloc(capacity, sizeof(Neighbour))
        l.left_touched = <uint32_t *>malloc(4 * capacity)
        l.right_touched = <uint32_t *>malloc(4 * capacity)
        if frequency:
            l.frequency = <int64_t *>calloc(capacity, 8)
            l.first_of_left = <uint32_t *>malloc(4 * capacity)
            l.first_of_right = <uint32_t *>malloc(4 * capacity)
        cdef bint enough = True
        for p in [<size_t>l.span, <size_t>l.length, <size_t>l.spelling, <size_t>l.size, <size_t>l.used, <size_t>l.left,
                  <size_t>l.right, <size_t>l.left_touched, <size_t>l.right_touched]:
            enough = enough and p != 0
        if frequency:
            enough = enough and l.frequency != NULL and l.first_of_left != NULL and l.first_of_right != NULL
        if enough:
            memcpy(l.length, <void *><size_t>length, 4 * l.tokens)
            memcpy(l.spelling, <void *><size_t>spelling, sizeof(void *) * l.tokens)
            memcpy(l.size, <void *><size_t>size, 4 * l.tokens)
            memcpy(l.used, <void *><size_t>used, l.tokens)
            if frequency:
                memcpy(l.frequency, <void *><size_t>frequency, 8 * l.tokens)
            for i in range(l.tokens):
                l.span[i] = 1
            l.capacity = spelled
        else:  # the spellings are freed here
            for i in range(l.tokens):
                free((<uint8_t **><size_t>spelling)[i])
            l.capacity = 0
        for p in [length, spelling, size, used, frequency]:
            free(<void *><size_t>p)
        if not enough:
            raise MemoryError("no memory for the merge loop")
        if l.first_script:
            scripts = <uint8_t *>realloc(l.first_script, capacity)
            if scripts:
                l.first_script = scripts
                scripts = <uint8_t *>realloc(l.last_script, capacity)
            if not scripts:
                raise MemoryError("no memory for the merge loop")
            l.last_script = scripts
        account(l, 0, capacity * (16 + 2 * sizeof(Neighbour) + (16 if frequency else 0)) + 13 * spelled)
        return 0

    cdef bytes spelled(self, uint32_t token):
        return PyBytes_FromStringAndSize(<char *>self.loop.spelling[token], self.loop.size[token])

    def merges(self):
        """Return left ids, right ids (uint32), counts, replacements (int64) and made ids (uint32) as packed numbers."""
        cdef Loop *l = &self.loop
        cdef uint64_t n = l.merges
        return (PyBytes_FromStringAndSize(<char *>l.merge_left, 4 * n),
                PyBytes_FromStringAndSize(<char *>l.merge_right, 4 * n),
                PyBytes_FromStringAndSize(<char *>l.merge_count, 8 * n),
                PyBytes_FromStringAndSize(<char *>l.merge_replaced, 8 * n),
                PyBytes_FromStringAndSize(<char *>l.merge_made, 4 * n))

    @property
    def peak_bytes(self):
        """The most memory that the loop's own structures took, in bytes."""
        return self.loop.peak_bytes


def count_characters(const uint8_t[::1] data not None, const int64_t[::1] offsets not None,
                     const int64_t[::1] counts not None, int64_t[:, ::1] found not None):
    """Add the occurrences of the characters of words of UTF-8 to found, of shape (PLACES, CODE_POINTS).

    Raises:
        ValueError: a word is not UTF-8; the message names it.
        OverflowError: a character counts more than 2**63 - 1.
    """
    cdef Py_ssize_t i, n = counts.shape[0], size = data.shape[0]
    cdef int64_t wrong
    if offsets.shape[0] != n + 1 or found.shape[0] != C_PLACES or found.shape[1] != C_CODE_POINTS:
        raise ValueError("columns differ in length, or found has another shape than (PLACES, CODE_POINTS)")
    with nogil:
        for i in range(n):
            if offsets[i] < 0 or offsets[i + 1] < offsets[i] or offsets[i + 1] > size:
                with gil:
                    raise ValueError(f"row {i} lies beyond the data")
            if counts[i] == 0 or offsets[i + 1] == offsets[i]:
                continue
            wrong = count_word(&data[0] + offsets[i], &data[0] + offsets[i + 1], counts[i], &found[0, 0])
            if wrong:
                with gil:
                    if wrong < 0:
                        word = bytes(data[offsets[i]:min(offsets[i] + 60, offsets[i + 1])])
                        raise ValueError(f"the word {word!r} is not UTF-8, so it has no characters")
                    raise OverflowError(f"the character {chr(wrong - 1)!r} counts more than 2**63 - 1")


def symbol_offsets(const uint8_t[::1] data not None, const int64_t[::1] offsets not None, int64_t more=0):
    """Return packed int64 offsets by which `MergeLoop.measure` learns the number of symbols of words of characters.

    Args:
        more: symbols of each word beside its characters: 1 where its end is one.
    """
    cdef Py_ssize_t i, n = offsets.shape[0] - 1, size = data.shape[0]
    if n < 0:
        raise ValueError("offsets are one more than the words")
    packed = PyBytes_FromStringAndSize(NULL, 8 * (n + 1))
    cdef int64_t *out = <int64_t *>PyBytes_AS_STRING(packed)
    with nogil:
        out[0] = 0
        for i in range(n):
            if offsets[i] < 0 or offsets[i + 1] < offsets[i] or offsets[i + 1] > size:
                with gil:
                    raise ValueError(f"row {i} lies beyond the data")
            out[i + 1] = out[i]
            if offsets[i + 1] > offsets[i]:
                out[i + 1] += characters_of(&data[0] + offsets[i], &data[0] + offsets[i + 1]) + more
    return packed


cdef int learn_or_raise(Loop *l, uint32_t merges, uint32_t tokens) except? -3 nogil:
    """Run the loop; when it was interrupted, the exception that poll_python left is raised."""
    return learn(l, merges, tokens)
