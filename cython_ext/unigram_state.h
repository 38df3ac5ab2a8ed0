/* What the Unigram trainer works on: the words as one array of symbols, and the lattice of the pieces that occur in them.
 *
 * A symbol is 1 + the number of a character, by code point; 0 stands before, between and behind segments, which are words,
 * cut at characters that are not kept.  Whatever has a float sum runs over segments, positions, edges and pieces in their
 * order, so the result depends on nothing else.
 *
 * The lattice replaces a trie: of every position the pieces that begin there, shortest first, at least its own character.
 * Made once from the suffixes, it is only thinned out as pieces go.  Memory: 12 bytes a symbol and 4 an edge.
 */
#ifndef BEAM_BPE_UNIGRAM_STATE_H
#define BEAM_BPE_UNIGRAM_STATE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t i64;
typedef unsigned __int128 u128;

enum { OUT_OF_MEMORY = -1, COUNT_OVERFLOW = -2, INTERRUPTED = -3 };

#define POLL_WORK (1u << 24) /* edges between two calls of poll */
#define NOTHING 0xFFFFFFFFu

typedef struct { /* 32 bytes: one look into memory an edge */
    double p;     /* 0 where it is dead */
    double score; /* log p, -inf where it is dead */
    union {
        double expected;
        i64 used;
    };
    u32 length; /* in characters */
    u32 sample; /* a position where it stands */
} Piece;

typedef struct {
    u32 *symbols;
    u64 n_symbols;
    u32 *starts; /* of each segment; it ends before the next 0 */
    i64 *counts;
    u64 n_segments;
    u32 longest;       /* segment, in symbols */
    u32 max_length;    /* of a piece, in characters */
    u32 n_characters;
    u64 *first_edge;   /* of each position, and one more */
    u32 *edges;        /* piece ids */
    Piece *pieces;     /* characters first, then the others by seed score; never reordered */
    u32 n_pieces;
    /* buffers for one segment */
    double *beta, *gamma;
    i64 *scale;
    u32 *choice;
    double *product;   /* of each of its edges */
    u64 most_edges;    /* of a segment */
    u32 overflow;      /* position of what counts too much */
    u64 work;
    int (*poll)(void *);
    void *context;
} Unigram;

static inline int poll_now_and_then(Unigram *u, u64 work) {
    u->work += work;
    if (u->work < POLL_WORK) return 0;
    u->work = 0;
    return u->poll(u->context) ? INTERRUPTED : 0;
}

static inline u32 end_of(const Unigram *u, u64 segment) {
    return (segment + 1 < u->n_segments ? u->starts[segment + 1] : (u32)u->n_symbols) - 1;
}

#endif
