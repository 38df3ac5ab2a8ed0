/* Whole texts, in which U+2581 stands for spaces, are cut into chunks that can be encoded alone.
 *
 * Nothing that is found in a text is longer than a piece.  So a text may be cut between two characters that no piece has
 * side by side: mostly before a U+2581, since few vocabularies have pieces with one inside.
 * User-defined symbols are found before all else, from the left, the longest of those that begin together, and no piece
 * reaches into them (SentencePiece's BPE; its Unigram has them as pieces).
 */
#ifndef BEAM_BPE_ENCODE_CHUNKS_H
#define BEAM_BPE_ENCODE_CHUNKS_H

#include "encode_model.h"

typedef struct Chunks {
    u8 joins[256];  /* by the last byte of a character: a piece has U+2581 behind such a one */
    u8 begins[256]; /* by byte: a symbol begins with it */
    Trie symbols;   /* no edges: there are none */
    u64 *joined;    /* bits by hash of two characters: a piece may have them side by side; few that none has are said to be */
    u64 joined_mask;
} Chunks;

static inline void chunks_free(Chunks *s) {
    free(s->symbols.edges);
    free(s->joined);
    memset(s, 0, sizeof *s);
}

static inline int is_metaspace(const u8 *p, const u8 *end) {
    return end - p >= 3 && p[0] == 0xE2 && p[1] == 0x96 && p[2] == 0x81;
}

static inline u64 joined_hash(u64 key) { return mix(key, 0x9E3779B97F4A7C15ull) >> 20; }

/* Note which characters stand side by side in the tokens of a model, and where U+2581 does behind another one. */
static inline int chunks_init(Chunks *s, const Model *m) {
    u64 pairs = 0;
    for (u64 i = 0; i <= m->adjacent_mask; i++) pairs += m->adjacent[i] != 0;
    s->joined_mask = 8 * slots_for(pairs) - 1;
    if (!(s->joined = (u64 *)zeroed((s->joined_mask + 1) / 8))) return OUT_OF_MEMORY;
    for (u64 i = 0, bit; i <= m->adjacent_mask; i++) {
        if (!m->adjacent[i]) continue;
        bit = joined_hash(m->adjacent[i]) & s->joined_mask;
        s->joined[bit >> 6] |= (u64)1 << (bit & 63);
    }
    for (u32 id = 0; id < m->n_tokens; id++) {
        const u8 *p = token_bytes(m, id);
        for (u64 i = 1; i + 3 <= token_length(m, id); i++)
            if (is_metaspace(p + i, p + token_length(m, id))) s->joins[p[i - 1]] = 1;
    }
    return 0;
}

static inline int add_symbol(Chunks *s, const u8 *p, u64 n, u32 id) {
    u32 node = 0;
    if (!n) return 0;
    if (!s->symbols.edges && trie_start(&s->symbols, 1)) return OUT_OF_MEMORY;
    s->begins[*p] = 1;
    for (u64 i = 0; i < n; i++) {
        Edge *e = trie_add(&s->symbols, node, p[i]);
        if (!e) return OUT_OF_MEMORY;
        node = e->node;
        if (i + 1 == n) e->token = id;
    }
    return 0;
}

/* Where the next symbol begins, else `end`. */
static inline const u8 *next_symbol(const Chunks *s, const u8 *p, const u8 *end, u32 *symbol, u64 *bytes) {
    for (; p < end; p++) {
        if (!s->begins[*p]) continue;
        *bytes = 0;
        const Edge *e;
        u32 node = 0;
        for (const u8 *q = p; q < end && (e = trie_edge(&s->symbols, node, *q)); node = e->node) {
            q++;
            if (e->token == NO_TOKEN) continue;
            *symbol = e->token;
            *bytes = (u64)(q - p);
        }
        if (*bytes) return p;
    }
    return end;
}

/* The first place behind p between two characters that no token has side by side, else `end`. */
static inline const u8 *next_barrier(const Chunks *s, const u8 *p, const u8 *end) {
    u64 length = character_bytes(*p);
    if (length >= (u64)(end - p)) return end;
    u32 left = code_point(p, length);
    for (p += length; p < end; p += length) {
        length = character_bytes(*p);
        if (length > (u64)(end - p)) return end; /* it is cut off */
        u32 right = code_point(p, length);
        u64 bit = joined_hash(adjacency(left, right)) & s->joined_mask;
        if (!(s->joined[bit >> 6] >> (bit & 63) & 1)) return p;
        left = right;
    }
    return end;
}

typedef struct { /* how far a text is cut; a long chunk is cut further, up to `until` */
    const u8 *at, *until, *end;
} Cutter;

/* Whether U+3000 or a later character stands at p, or behind U+2581: mostly of a script without spaces. */
static inline int is_dense(const u8 *p, const u8 *end) {
    if (is_metaspace(p, end)) p += 3;
    return p < end && *p >= 0xE3;
}

/* Whether a line ends in the n <= 16 bytes at p; they are searched only where 16 can be read. */
static inline int has_newline(const u8 *p, u64 n, const u8 *end) {
    if (end - p < 16) return 0;
    const u64 ones = 0x0101010101010101ull;
    u64 a = load64(p) ^ '\n' * ones, b = load64(p + 8) ^ '\n' * ones;
    a = (a - ones) & ~a & (ones << 7); /* the lowest bit that is set is right */
    b = (b - ones) & ~b & (ones << 7);
    u64 at = a ? (u64)__builtin_ctzll(a) >> 3 : b ? 8 + ((u64)__builtin_ctzll(b) >> 3) : 16;
    return at < n;
}

/* Put up to `most` chunks into `chunks`.  words: they end before each U+2581, whatever the pieces.  stops: fewer, where a
 * text that is dense begins.  Short ones are whole, but for lines: few vocabularies have pieces across their ends. */
static inline size_t cut_chunks(const Chunks *s, Cutter *cut, int words, int stops, u64 longest, Word *chunks,
                                size_t most) {
    size_t n = 0;
    for (const u8 *p = cut->at, *q; p < cut->end && n < most; p = q) {
        if (p == cut->until) {
            cut->until = next_metaspace(p, cut->end);
            while (cut->until < cut->end && s->joins[cut->until[-1]] && !words) cut->until = next_metaspace(cut->until, cut->end);
        }
        if (stops && is_dense(p, cut->end)) break;
        u64 left = (u64)(cut->until - p);
        q = left <= longest && !has_newline(p, left, cut->end) ? cut->until : next_barrier(s, p, cut->until);
        chunks[n].start = p;
        chunks[n++].length = (size_t)(q - p);
        cut->at = q;
    }
    return n;
}

#endif
