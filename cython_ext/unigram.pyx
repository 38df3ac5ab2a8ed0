"""Learn the pieces of a Unigram language model from a table of distinct words with counts.

Words and numbers go in, pieces and scores come out; how many pieces go when is the caller's business.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.math cimport INFINITY
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

cdef extern from "utf8.h" nogil:
    uint32_t CODE_POINTS
    uint32_t decode_character(const uint8_t *, const uint8_t *, uint32_t *)

cdef extern from "unigram_lattice.h" nogil:
    int COUNT_OVERFLOW
    int FAILED_FOR_MEMORY "OUT_OF_MEMORY"
    ctypedef struct Piece:
        double p, score, expected
        int64_t used
        uint32_t length, sample
    ctypedef struct Unigram:
        uint32_t *symbols
        uint64_t n_symbols
        uint32_t *starts
        int64_t *counts
        uint64_t n_segments
        uint32_t longest, max_length, n_characters
        uint64_t *first_edge
        uint32_t *edges
        Piece *pieces
        uint32_t n_pieces
        double *beta
        double *gamma
        int64_t *scale
        uint32_t *choice
        double *product
        uint32_t overflow
        int (*poll)(void *) except -1 with gil
        void *context
    uint32_t end_of(const Unigram *, uint64_t)
    int expect(Unigram *, double *)
    uint32_t maximize(Unigram *, double, int)
    int c_prune "prune"(Unigram *, uint64_t)
    int c_keep_likeliest "keep_likeliest"(Unigram *, uint64_t)
    double log_of(double)
    double exp_of(double)
    double c_digamma "digamma"(double)

cdef extern from "unigram_seeds.h" nogil:
    int seed_pieces(Unigram *, uint64_t)

cdef uint64_t MOST_SYMBOLS = 0xFFFFFFFF  # positions are u32
cdef uint32_t MOST_LENGTH = 0xFFFE
LONGEST_PIECE = MOST_LENGTH  # in characters


cdef int poll_python(void *context) except -1 with gil:
    """Let Ctrl-C through."""
    PyErr_CheckSignals()
    return 0


cdef class UnigramLearner:
    """Learn pieces; in order: measure every batch of words, allocate, add every batch, seed, then as often as is wanted
    expect, maximize and prune.

    Args:
        characters: the code points that have a piece, ascending (uint32); words are cut at all others.
        max_piece_length: in characters, inclusive.
    """

    cdef Unigram u
    cdef uint32_t *numbers      # by code point: 1 + the character's number, 0 where it is not kept
    cdef uint32_t *code_points  # by number
    cdef readonly uint64_t symbols  # measured, with one before, between and behind segments
    cdef uint64_t segments      # measured
    cdef int stage              # 0 measuring, 1 adding, 2 seeded, 3 seeded and expected

    def __cinit__(self, const uint32_t[::1] characters not None, uint32_t max_piece_length=16):
        cdef Py_ssize_t i, n = characters.shape[0]
        memset(&self.u, 0, sizeof(Unigram))
        if not 1 <= max_piece_length <= MOST_LENGTH:
            raise ValueError(f"max_piece_length is {max_piece_length}; it lies between 1 and {MOST_LENGTH}")
        self.numbers = <uint32_t *>calloc(CODE_POINTS, 4)
        self.code_points = <uint32_t *>malloc(4 * (n + 1))
        if not (self.numbers and self.code_points):
            raise MemoryError("no memory for the characters")
        for i in range(n):
            if characters[i] >= CODE_POINTS or (i and characters[i] <= characters[i - 1]):
                raise ValueError("characters are distinct code points, ascending")
            self.numbers[characters[i]] = i + 1
            self.code_points[i] = characters[i]
        self.u.n_characters = n
        self.u.max_length = max_piece_length
        self.u.n_symbols = 1
        self.symbols = 1

    def __dealloc__(self):
        cdef Unigram *u = &self.u
        for p in [<size_t>u.symbols, <size_t>u.starts, <size_t>u.counts, <size_t>u.first_edge, <size_t>u.edges,
                  <size_t>u.pieces, <size_t>u.beta, <size_t>u.gamma, <size_t>u.scale, <size_t>u.choice,
                  <size_t>u.product, <size_t>self.numbers, <size_t>self.code_points]:
            free(<void *><size_t>p)

    cdef int walk(self, const uint8_t[::1] data, const int64_t[::1] offsets, const int64_t[::1] counts) except -1:
        """Measure words, or add them once there is room."""
        cdef Unigram *u = &self.u
        cdef Py_ssize_t row, n = counts.shape[0], size = data.shape[0]
        cdef const uint8_t *p
        cdef const uint8_t *end
        cdef uint32_t character, length
        cdef bint adding = self.stage == 1, inside
        if offsets.shape[0] != n + 1:
            raise ValueError("columns differ in length")
        with nogil:
            for row in range(n):
                if offsets[row] < 0 or offsets[row + 1] < offsets[row] or offsets[row + 1] > size or counts[row] < 0:
                    with gil:
                        raise ValueError(f"row {row} lies beyond the data, or its count is negative")
                if counts[row] == 0 or offsets[row + 1] == offsets[row]:
                    continue
                p, end = &data[0] + offsets[row], &data[0] + offsets[row + 1]
                inside = False
                while p < end:
                    length = decode_character(p, end, &character)
                    if length == 0:
                        with gil:
                            word = bytes(data[offsets[row]:min(offsets[row] + 60, offsets[row + 1])])
                            raise ValueError(f"the word {word!r} is not UTF-8, so it has no characters")
                    p += length
                    if self.numbers[character] == 0:
                        inside = False
                        continue
                    if not adding:
                        self.segments += not inside
                        self.symbols += 1 + <bint>(not inside)  # one between segments
                    else:
                        if u.n_symbols + 1 >= self.symbols + inside or (not inside and u.n_segments == self.segments):
                            with gil:
                                raise ValueError("more words are added than were measured")
                        if not inside:
                            u.starts[u.n_segments] = u.n_symbols
                            u.counts[u.n_segments] = counts[row]
                            u.n_segments += 1
                            u.n_symbols += 1  # the 0 behind it, which moves on with every symbol
                        u.symbols[u.n_symbols - 1] = self.numbers[character]
                        u.n_symbols += 1
                        u.longest = max(u.longest, <uint32_t>(u.n_symbols - 1 - u.starts[u.n_segments - 1]))
                    inside = True
        return 0

    def measure(self, const uint8_t[::1] data not None, const int64_t[::1] offsets not None,
                const int64_t[::1] counts not None):
        """Learn how much room words need; word i is data[offsets[i]:offsets[i + 1]]."""
        if self.stage != 0:
            raise ValueError("measure comes before allocate")
        self.walk(data, offsets, counts)

    def allocate(self):
        """Make room for the words that were measured."""
        cdef Unigram *u = &self.u
        if self.stage != 0:
            raise ValueError("allocate comes once, after measure")
        if self.symbols > MOST_SYMBOLS:
            raise OverflowError(f"the distinct words have {self.symbols:,} characters; at most "
                                f"{MOST_SYMBOLS:,} are possible: leave out rare words")
        u.symbols = <uint32_t *>calloc(self.symbols + 1, 4)
        u.starts = <uint32_t *>malloc(4 * (self.segments + 1))
        u.counts = <int64_t *>malloc(8 * (self.segments + 1))
        if not (u.symbols and u.starts and u.counts):
            raise MemoryError("no memory for the words")
        self.stage = 1

    def add(self, const uint8_t[::1] data not None, const int64_t[::1] offsets not None,
            const int64_t[::1] counts not None):
        """Add words, in one order whatever order they come in: sums depend on it, by their last bits."""
        if self.stage != 1:
            raise ValueError("add comes after allocate, before seed")
        self.walk(data, offsets, counts)

    def seed(self, uint64_t most):
        """Let pieces be the characters and at most so many maximal substrings, those with the highest occurrences times
        characters; return their number."""
        cdef Unigram *u = &self.u
        cdef uint64_t segment, edges, most_edges = 0
        cdef int outcome
        if self.stage != 1:
            raise ValueError("seed comes once, after add")
        if u.n_symbols != self.symbols:
            raise ValueError("fewer words were added than were measured")
        if u.n_segments == 0:
            raise ValueError("there are no words to learn from")
        u.poll = poll_python
        self.stage = 4
        most = min(most, <uint64_t>0xFFFFFFF0 - u.n_characters)
        with nogil:
            outcome = run_seed(u, most)
        self.check(outcome)
        for segment in range(u.n_segments):
            edges = u.first_edge[end_of(u, segment)] - u.first_edge[u.starts[segment]]
            most_edges = max(most_edges, edges)
        n = max(u.longest, u.max_length) + 1
        u.beta = <double *>malloc(8 * n)
        u.gamma = <double *>malloc(8 * n)
        u.scale = <int64_t *>malloc(8 * n)
        u.choice = <uint32_t *>malloc(4 * n)
        u.product = <double *>malloc(8 * (most_edges + 1))
        if not (u.beta and u.gamma and u.scale and u.choice and u.product):
            raise MemoryError("no memory for the longest word")
        self.stage = 2
        return u.n_pieces

    def exclude(self, spellings):
        """Give pieces of these spellings, characters excepted, the probability 0; return how many there were."""
        cdef Unigram *u = &self.u
        cdef uint32_t k
        if self.stage != 2:
            raise ValueError("exclude comes after seed")
        excluded = set(spellings)
        lengths = set(map(len, excluded))
        found = 0
        for k in range(u.n_characters, u.n_pieces):
            if u.pieces[k].length in lengths and self.spelled(k) in excluded:
                u.pieces[k].p = 0
                u.pieces[k].score = -INFINITY
                found += 1
        return found

    cdef str spelled(self, uint32_t k):
        cdef Unigram *u = &self.u
        cdef uint32_t i
        return "".join([chr(self.code_points[u.symbols[u.pieces[k].sample + i] - 1]) for i in range(u.pieces[k].length)])

    cdef int check(self, int outcome) except -1:
        cdef uint32_t at
        if outcome == FAILED_FOR_MEMORY:
            raise MemoryError("no memory for the pieces")
        if outcome == COUNT_OVERFLOW:
            at = self.u.overflow
            raise OverflowError(f"the character {chr(self.code_points[self.u.symbols[at] - 1])!r} counts more than 2**63 - 1")
        return 0

    def expect(self):
        """Compute how often each piece is expected in the words; return the logarithm of the likelihood of them all."""
        cdef double likelihood = 0
        cdef int outcome
        if self.stage not in (2, 3):
            raise ValueError("expect comes after seed")
        self.stage = 4
        with nogil:
            outcome = run_expect(&self.u, &likelihood)
        self.check(outcome)
        self.stage = 3
        return likelihood

    def maximize(self, double least=0.5, bint dropping=True):
        """Give pieces the scores of their expected occurrences, and return how many are alive.

        Args:
            least: what a character counts at least.
            dropping: a piece expected less often has probability 0 from now on; else it counts as a character does.
        """
        if self.stage != 3:
            raise ValueError("maximize comes after expect")
        if not least > 0:
            raise ValueError(f"least is {least}; it must be above 0")
        self.stage = 2
        return maximize(&self.u, least, dropping)

    def prune(self, uint64_t most):
        """Leave the characters and at most so many other pieces, those whose loss would be highest; return the number."""
        return self.keep(most, True)

    def keep_likeliest(self, uint64_t most):
        """Leave the characters and at most so many other pieces, those of the highest scores; return the number."""
        return self.keep(most, False)

    cdef keep(self, uint64_t most, bint by_loss):
        cdef int outcome
        if self.stage not in (2, 3):
            raise ValueError("pieces are left out after seed")
        self.stage = 4
        with nogil:
            outcome = run_keep(&self.u, most, by_loss)
        self.check(outcome)
        self.stage = 2
        return self.u.n_pieces

    def pieces(self):
        """Return spellings, and scores (natural logarithms of probabilities); characters first, by code point."""
        cdef Unigram *u = &self.u
        cdef uint32_t k
        if self.stage not in (2, 3):
            raise ValueError("there are no pieces before seed")
        spellings, scores = [], []
        for k in range(u.n_pieces):
            if k < u.n_characters:
                spellings.append(chr(self.code_points[k]))
            else:
                spellings.append(self.spelled(k))
            scores.append(u.pieces[k].score)
        return spellings, scores

    @property
    def edges(self):
        """Places where a piece stands, over all words."""
        return self.u.first_edge[self.u.n_symbols] if self.u.first_edge else 0


def logarithm(double x):
    """Return the natural logarithm of a normal positive number."""
    return log_of(x)


def exponential(double x):
    """Return e to the power of x."""
    return exp_of(x)


def digamma(double x):
    """Return the derivative of the logarithm of the gamma function at x > 0."""
    return c_digamma(x)


cdef int run_seed(Unigram *u, uint64_t most) except? -3 nogil:
    """Run it; when it was interrupted, the exception that poll_python left is raised."""
    return seed_pieces(u, most)


cdef int run_expect(Unigram *u, double *likelihood) except? -3 nogil:
    return expect(u, likelihood)


cdef int run_keep(Unigram *u, uint64_t most, bint by_loss) except? -3 nogil:
    return c_prune(u, most) if by_loss else c_keep_likeliest(u, most)
