/* The encoder: pieces (words of a pre-tokenization pattern) to token ids by the rank of merges.
 *
 * Exact: at every step the pair of lowest rank is merged, the leftmost first.
 *  - A cache maps pieces of up to 15 bytes that give up to 4 ids to them: an entry is 32 bytes, the key
 *    is the bytes themselves, and it is wiped when it is 3/4 full.
 *  - Merge barriers: between two characters whose adjacency occurs inside no token, no merge can cross.
 *    Long pieces that are not ASCII are cut there, and the segments go through the cache.
 *  - Up to LINEAR symbols the pair of lowest rank is found by looking at all; longer pieces use a heap over
 *    runs of equal symbols, so that a million spaces are one node.
 * The model is immutable and shared; a Cache belongs to one call at a time.
 */
#ifndef BEAM_BPE_ENCODE_H
#define BEAM_BPE_ENCODE_H

#include <stdlib.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "scan.h"

enum { OUT_OF_MEMORY = -1, UNKNOWN_ID = -2 };
enum { SHORT_PIECE = 15, LINEAR = 48, PIECES = 256, MOST_CACHED = 4 };
#define NO_RANK 0xFFFFFFFFu
#define ID_BITS 21
#define RANK_BITS 22
#define SEGMENT_FLAG ((u64)0x10 << 56) /* in a key: a segment, to which whole-piece look-up does not apply */

typedef struct {
    u32 n_tokens, n_merges;
    u32 byte_id[256];
    u32 byte_pair[65536]; /* rank of a pair of bytes, by their values */
    u64 *pairs;           /* left (21 bits) | right (21) | rank + 1 (22); 0: empty */
    u64 pair_mask;
    u32 *merged;          /* id of the token that a merge makes, by rank */
    int ordered;          /* every part of a merge is a byte or made by an earlier merge */
    int whole_pieces;     /* a piece that is a token is that token, whatever merges would give */
    const u8 *token_bytes;
    const i64 *token_starts; /* n_tokens + 1 */
    u64 *whole;           /* set of whole tokens: id + 1 by hash of their bytes; 0: empty */
    u64 whole_mask;
    u64 *adjacent;        /* set of pairs of characters that stand side by side in a token, + 1 */
    u64 adjacent_mask;
    u64 torn[256 * 4];    /* bits: bytes that stand side by side in a token where one character is torn */
} Model;

static inline u64 mix(u64 a, u64 b) {
    __uint128_t product = (__uint128_t)a * b;
    return (u64)product ^ (u64)(product >> 64);
}

static inline void *zeroed(u64 bytes) {
    void *p = NULL;
    if (posix_memalign(&p, bytes >= (1u << 21) ? (1u << 21) : 64, bytes)) return NULL;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (bytes >= (1u << 21)) madvise(p, bytes, MADV_HUGEPAGE);
#endif
    memset(p, 0, bytes);
    return p;
}

/* ---- the model ------------------------------------------------------------------------------ */

static inline u64 pair_hash(u32 a, u32 b) { return mix(((u64)a << 32 | b) ^ 0x9E3779B97F4A7C15ull, 0xC2B2AE3D27D4EB4Full); }

static inline u32 pair_rank(const Model *m, u32 a, u32 b) {
    u64 key = ((u64)a << ID_BITS | b) << RANK_BITS, slot;
    for (u64 s = pair_hash(a, b) & m->pair_mask; (slot = m->pairs[s]); s = (s + 1) & m->pair_mask)
        if ((slot ^ key) >> RANK_BITS == 0) return (u32)(slot & ((1u << RANK_BITS) - 1)) - 1;
    return NO_RANK;
}

static inline u64 load64(const u8 *p) {
    u64 x;
    memcpy(&x, p, 8);
    return x;
}

static inline u64 hash_bytes(const u8 *p, u64 n) {
    u64 h = n * 0x9E3779B97F4A7C15ull, a = 0, b = 0;
    for (; n > 16; p += 16, n -= 16) h = mix(load64(p) ^ 0xC2B2AE3D27D4EB4Full, load64(p + 8) ^ h);
    memcpy(&a, p, n < 8 ? n : 8);
    if (n > 8) memcpy(&b, p + 8, n - 8);
    return mix(a ^ 0xA0761D6478BD642Full, b ^ h);
}

static inline u64 token_length(const Model *m, u32 id) { return (u64)(m->token_starts[id + 1] - m->token_starts[id]); }

static inline u32 whole_token(const Model *m, const u8 *p, u64 n) {
    u64 slot;
    for (u64 s = hash_bytes(p, n) & m->whole_mask; (slot = m->whole[s]); s = (s + 1) & m->whole_mask)
        if (token_length(m, (u32)slot - 1) == n && !memcmp(m->token_bytes + m->token_starts[slot - 1], p, n))
            return (u32)slot - 1;
    return NO_RANK;
}

static inline u32 code_point(const u8 *p, u64 n) {
    switch (n) {
        case 1: return p[0];
        case 2: return (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
        case 3: return (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
        default: return (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
    }
}

static inline u64 adjacency(u32 left, u32 right) { return ((u64)left << 21 | right) + 1; }

static inline int are_adjacent(const Model *m, u64 key) {
    for (u64 s = mix(key, 0x9E3779B97F4A7C15ull) & m->adjacent_mask; m->adjacent[s]; s = (s + 1) & m->adjacent_mask)
        if (m->adjacent[s] == key) return 1;
    return 0;
}

static inline void model_free(Model *m) {
    free(m->pairs);
    free(m->merged);
    free(m->whole);
    free(m->adjacent);
    m->pairs = m->whole = m->adjacent = NULL;
    m->merged = NULL;
}

/* Note each boundary between characters inside a token: as a pair of characters where both are whole,
 * else as a pair of bytes (which then stands for every pair of characters that those bytes may be of). */
static inline int model_barriers(Model *m) {
    u64 boundaries = 0, slots = 1 << 10;
    for (i64 i = 0; i < m->token_starts[m->n_tokens]; i++) boundaries += (m->token_bytes[i] & 0xC0) != 0x80;
    while (slots < 2 * boundaries + 2) slots *= 2;
    if (!(m->adjacent = (u64 *)zeroed(8 * slots))) return OUT_OF_MEMORY;
    m->adjacent_mask = slots - 1;
    u64 used = 0;
    for (u32 id = 0; id < m->n_tokens; id++) {
        const u8 *start = m->token_bytes + m->token_starts[id], *end = m->token_bytes + m->token_starts[id + 1];
        for (const u8 *at = start + 1; at < end; at++) {
            if ((*at & 0xC0) == 0x80) continue;
            const u8 *before = at - 1;
            while (before > start && at - before < 4 && (*before & 0xC0) == 0x80) before--;
            u64 left = valid_length(before, at), right = valid_length(at, end);
            if (left == (u64)(at - before) && right) {
                u64 key = adjacency(code_point(before, left), code_point(at, right));
                u64 s = mix(key, 0x9E3779B97F4A7C15ull) & m->adjacent_mask;
                while (m->adjacent[s] && m->adjacent[s] != key) s = (s + 1) & m->adjacent_mask;
                used += !m->adjacent[s];
                m->adjacent[s] = key;
            } else {
                m->torn[at[-1] * 4 + (*at >> 6)] |= (u64)1 << (*at & 63);
            }
        }
    }
    /* Few of the boundaries are distinct: keep the set small enough for the caches. */
    u64 fewer = 1 << 10;
    while (fewer < 2 * used + 2) fewer *= 2;
    if (fewer < slots) {
        u64 *set = (u64 *)zeroed(8 * fewer);
        if (!set) return OUT_OF_MEMORY;
        for (u64 i = 0; i < slots; i++) {
            if (!m->adjacent[i]) continue;
            u64 s = mix(m->adjacent[i], 0x9E3779B97F4A7C15ull) & (fewer - 1);
            while (set[s]) s = (s + 1) & (fewer - 1);
            set[s] = m->adjacent[i];
        }
        free(m->adjacent);
        m->adjacent = set;
        m->adjacent_mask = fewer - 1;
    }
    return 0;
}

/* The caller has set n_tokens, n_merges, byte_id, whole_pieces, token_bytes and token_starts, and checked
 * that ids and ranks fit.  Of two merges of one pair the first counts. */
static inline int model_init(Model *m, const u32 *left, const u32 *right, const u32 *merged) {
    u64 slots = 1 << 10;
    while (slots < 2 * (u64)m->n_merges + 2) slots *= 2;
    m->pairs = (u64 *)zeroed(8 * slots);
    m->merged = (u32 *)malloc(4 * ((u64)m->n_merges + 1));
    u32 *made = (u32 *)malloc(4 * ((u64)m->n_tokens + 1)); /* rank of the first merge that makes a token */
    if (!m->pairs || !m->merged || !made) {
        free(made);
        return OUT_OF_MEMORY;
    }
    m->pair_mask = slots - 1;
    memset(made, 0xFF, 4 * ((u64)m->n_tokens + 1));
    for (int b = 0; b < 256; b++) made[m->byte_id[b]] = 0;
    m->ordered = 1;
    for (u32 r = 0; r < m->n_merges; r++) {
        m->merged[r] = merged[r];
        if (made[left[r]] > r || made[right[r]] > r) m->ordered = 0;
        if (made[merged[r]] != NO_RANK) m->ordered = 0; /* made twice, or a byte */
        else made[merged[r]] = r;
        if (pair_rank(m, left[r], right[r]) != NO_RANK) continue;
        u64 s = pair_hash(left[r], right[r]) & m->pair_mask;
        while (m->pairs[s]) s = (s + 1) & m->pair_mask;
        m->pairs[s] = ((u64)left[r] << ID_BITS | right[r]) << RANK_BITS | (r + 1);
    }
    free(made);
    for (u32 a = 0; a < 256; a++)
        for (u32 b = 0; b < 256; b++) m->byte_pair[a << 8 | b] = pair_rank(m, m->byte_id[a], m->byte_id[b]);
    if (m->whole_pieces) {
        slots = 1 << 10;
        while (slots < 2 * (u64)m->n_tokens + 2) slots *= 2;
        if (!(m->whole = (u64 *)zeroed(8 * slots))) return OUT_OF_MEMORY;
        m->whole_mask = slots - 1;
        for (u32 id = 0; id < m->n_tokens; id++) {
            const u8 *p = m->token_bytes + m->token_starts[id];
            u64 n = token_length(m, id);
            if (!n || whole_token(m, p, n) != NO_RANK) continue;
            u64 s = hash_bytes(p, n) & m->whole_mask;
            while (m->whole[s]) s = (s + 1) & m->whole_mask;
            m->whole[s] = (u64)id + 1;
        }
    }
    return model_barriers(m);
}

/* ---- room for output and for long pieces ---------------------------------------------------- */

typedef struct {
    u32 *ids;
    u64 n, size;
} Ids;

static inline int reserve(Ids *out, u64 more) {
    if (out->n + more <= out->size) return 0;
    u64 size = out->size + out->size / 2 + more + 1024;
    u32 *ids = (u32 *)realloc(out->ids, 4 * size);
    if (!ids) return OUT_OF_MEMORY;
    out->ids = ids;
    out->size = size;
    return 0;
}

typedef struct {
    u64 key; /* rank << 32 | position of the pair's first symbol */
    u32 node;
} Candidate;

typedef struct { /* nodes are runs of equal symbols; a node's index is the position of its first byte */
    u32 *id, *count, *next, *previous;
    u64 size;
    Candidate *heap;
    u64 n, heap_size;
} Scratch;

static inline void scratch_free(Scratch *s) {
    free(s->id);
    free(s->count);
    free(s->next);
    free(s->previous);
    free(s->heap);
    memset(s, 0, sizeof *s);
}

static inline int scratch_reserve(Scratch *s, u64 bytes) {
    if (bytes <= s->size) return 0;
    free(s->id);
    free(s->count);
    free(s->next);
    free(s->previous);
    s->id = (u32 *)malloc(4 * bytes);
    s->count = (u32 *)malloc(4 * bytes);
    s->next = (u32 *)malloc(4 * bytes);
    s->previous = (u32 *)malloc(4 * bytes);
    s->size = s->id && s->count && s->next && s->previous ? bytes : 0;
    return s->size ? 0 : OUT_OF_MEMORY;
}

static inline int offer(Scratch *s, u32 rank, u32 position, u32 node) {
    if (rank == NO_RANK) return 0;
    if (s->n == s->heap_size) {
        u64 size = 2 * s->heap_size + 1024;
        Candidate *heap = (Candidate *)realloc(s->heap, size * sizeof *heap);
        if (!heap) return OUT_OF_MEMORY;
        s->heap = heap;
        s->heap_size = size;
    }
    Candidate c = {(u64)rank << 32 | position, node};
    u64 i = s->n++;
    for (u64 parent; i && s->heap[parent = (i - 1) >> 2].key > c.key; i = parent) s->heap[i] = s->heap[parent];
    s->heap[i] = c;
    return 0;
}

static inline Candidate take(Scratch *s) {
    Candidate top = s->heap[0], last = s->heap[--s->n];
    u64 i = 0;
    for (;;) {
        u64 child = 4 * i + 1, stop = child + 4 < s->n ? child + 4 : s->n, best = child;
        if (child >= s->n) break;
        for (u64 c = child + 1; c < stop; c++)
            if (s->heap[c].key < s->heap[best].key) best = c;
        if (s->heap[best].key >= last.key) break;
        s->heap[i] = s->heap[best];
        i = best;
    }
    if (s->n) s->heap[i] = last;
    return top;
}

/* ---- merging a piece ------------------------------------------------------------------------ */

#define END 0xFFFFFFFFu

static inline u32 last_position(const Model *m, const Scratch *s, u32 node) {
    return node + (u32)((s->count[node] - 1) * token_length(m, s->id[node]));
}

static inline int offer_inside(const Model *m, Scratch *s, u32 node) {
    return s->count[node] < 2 ? 0 : offer(s, pair_rank(m, s->id[node], s->id[node]), node, node);
}

static inline int offer_behind(const Model *m, Scratch *s, u32 node) {
    if (node == END || s->next[node] == END) return 0;
    return offer(s, pair_rank(m, s->id[node], s->id[s->next[node]]), last_position(m, s, node), node);
}

static inline void link_nodes(Scratch *s, u32 a, u32 b) {
    if (a != END) s->next[a] = b;
    if (b != END) s->previous[b] = a;
}

/* Any length; the heap holds candidates, of which those that no longer stand are passed over. */
static inline int merge_long(const Model *m, Scratch *s, const u8 *p, u64 n, Ids *out) {
    int error = scratch_reserve(s, n);
    if (!error) error = reserve(out, n);
    if (error) return error;
    s->n = 0;
    u32 before = END;
    for (u64 i = 0, j; i < n; i = j) {
        for (j = i + 1; m->ordered && j < n && p[j] == p[i]; j++) {}
        s->id[i] = m->byte_id[p[i]];
        s->count[i] = (u32)(j - i);
        s->next[i] = END;
        link_nodes(s, before, (u32)i);
        if (before == END) s->previous[i] = END;
        before = (u32)i;
    }
    for (u32 a = 0; a != END && !error; a = s->next[a]) {
        error = offer_inside(m, s, a);
        if (!error) error = offer_behind(m, s, a);
    }
    while (s->n && !error) {
        Candidate c = take(s);
        u32 rank = (u32)(c.key >> 32), position = (u32)c.key, a = c.node;
        if (!s->count[a]) continue; /* the node is gone */
        u32 x = m->merged[rank];
        if (position == a && s->count[a] >= 2) { /* inside a run: merge all of it, from the left */
            if (pair_rank(m, s->id[a], s->id[a]) != rank) continue;
            u32 old = s->id[a], k = s->count[a];
            s->id[a] = x;
            s->count[a] = k / 2;
            if (k % 2) {
                u32 rest = a + (u32)(k / 2 * token_length(m, x)), behind = s->next[a];
                s->id[rest] = old;
                s->count[rest] = 1;
                s->next[rest] = END;
                link_nodes(s, a, rest);
                link_nodes(s, rest, behind);
                error = offer_behind(m, s, rest);
            }
            if (!error) error = offer_inside(m, s, a);
            if (!error) error = offer_behind(m, s, a);
            if (!error) error = offer_behind(m, s, s->previous[a]);
            continue;
        }
        u32 b = s->next[a];
        if (b == END || last_position(m, s, a) != position || pair_rank(m, s->id[a], s->id[b]) != rank) continue;
        u32 behind = s->next[b];
        if (s->count[b] > 1) { /* the run b begins one symbol later */
            u32 rest = b + (u32)token_length(m, s->id[b]);
            s->id[rest] = s->id[b];
            s->count[rest] = s->count[b] - 1;
            s->next[rest] = END;
            link_nodes(s, rest, behind);
            behind = rest;
        }
        s->count[b] = 0;
        u32 new_node = a;
        if (s->count[a] > 1) {
            new_node = position;
            s->count[a]--;
            s->next[new_node] = END;
            link_nodes(s, a, new_node);
        }
        s->id[new_node] = x;
        s->count[new_node] = 1;
        link_nodes(s, new_node, behind);
        if (behind == END) s->next[new_node] = END;
        if (behind != END && s->count[behind] && behind != s->next[b]) {
            error = offer_inside(m, s, behind);
            if (!error) error = offer_behind(m, s, behind);
        }
        if (!error) error = offer_behind(m, s, new_node);
        if (!error) error = offer_behind(m, s, s->previous[new_node]);
    }
    if (error) return error;
    for (u32 a = 0; a != END; a = s->next[a])
        for (u32 k = 0; k < s->count[a]; k++) out->ids[out->n++] = s->id[a];
    return 0;
}

/* Up to LINEAR bytes. */
static inline u32 merge_short(const Model *m, const u8 *p, u32 n, u32 *ids) {
    u32 ranks[LINEAR];
    for (u32 i = 0; i < n; i++) ids[i] = m->byte_id[p[i]];
    for (u32 i = 0; i + 1 < n; i++) ranks[i] = m->byte_pair[p[i] << 8 | p[i + 1]];
    while (n > 1) {
        u32 best = 0;
        for (u32 i = 1; i + 1 < n; i++)
            if (ranks[i] < ranks[best]) best = i;
        if (ranks[best] == NO_RANK) break;
        ids[best] = m->merged[ranks[best]];
        n--;
        for (u32 i = best + 1; i < n; i++) ids[i] = ids[i + 1];
        for (u32 i = best + 1; i + 1 < n; i++) ranks[i] = ranks[i + 1];
        if (best + 1 < n) ranks[best] = pair_rank(m, ids[best], ids[best + 1]);
        if (best) ranks[best - 1] = pair_rank(m, ids[best - 1], ids[best]);
    }
    return n;
}

static inline int merge_piece(const Model *m, Scratch *s, const u8 *p, u64 n, Ids *out) {
    if (n > LINEAR) return merge_long(m, s, p, n, out);
    if (reserve(out, n)) return OUT_OF_MEMORY;
    out->n += merge_short(m, p, (u32)n, out->ids + out->n);
    return 0;
}

/* ---- the cache ------------------------------------------------------------------------------ */

typedef struct {
    u64 lo, hi; /* the bytes, zero-padded; top byte of hi: length, and whether it is a segment; 0: empty */
    u32 ids[4]; /* number of ids - 1 in the two top bits of the first */
} Cached;

typedef struct {
    Cached *entries;
    u64 slots, used;
    Scratch scratch;
} Cache;

static inline int cache_init(Cache *c, u64 slots) {
    memset(c, 0, sizeof *c);
    c->entries = (Cached *)zeroed(slots * sizeof(Cached));
    c->slots = slots;
    return c->entries ? 0 : OUT_OF_MEMORY;
}

static inline void cache_free(Cache *c) {
    free(c->entries);
    c->entries = NULL;
    scratch_free(&c->scratch);
}

typedef struct {
    u64 lo, hi, slot;
} PieceKey;

static inline PieceKey piece_key(const Cache *c, const u8 *p, u64 n, const u8 *limit, u64 flag) {
    PieceKey key;
    if (limit - p >= 16) {
        key.lo = load64(p);
        key.hi = load64(p + 8);
        if (n < 8) {
            key.lo &= ((u64)1 << (8 * n)) - 1;
            key.hi = 0;
        } else {
            key.hi &= ((u64)1 << (8 * (n - 8))) - 1;
        }
    } else {
        u64 x[2] = {0, 0};
        memcpy(x, p, n);
        key.lo = x[0];
        key.hi = x[1];
    }
    key.hi |= n << 56 | flag;
    key.slot = mix(key.lo ^ 0x9E3779B97F4A7C15ull, key.hi ^ 0xC2B2AE3D27D4EB4Full) & (c->slots - 1);
    return key;
}

/* A piece of up to SHORT_PIECE bytes through the cache. */
static inline int encode_short(const Model *m, Cache *c, PieceKey key, const u8 *p, u64 n, Ids *out) {
    u64 s = key.slot;
    Cached *e;
    for (; (e = &c->entries[s])->hi; s = (s + 1) & (c->slots - 1)) {
        if (e->lo != key.lo || e->hi != key.hi) continue;
        if (reserve(out, 4)) return OUT_OF_MEMORY;
        u32 *to = out->ids + out->n; /* four are stored, and as many counted as there are */
        to[0] = e->ids[0] & 0x3FFFFFFFu;
        to[1] = e->ids[1];
        to[2] = e->ids[2];
        to[3] = e->ids[3];
        out->n += (e->ids[0] >> 30) + 1;
        return 0;
    }
    if (reserve(out, SHORT_PIECE)) return OUT_OF_MEMORY;
    u32 *to = out->ids + out->n, k = 1, whole = NO_RANK;
    if (m->whole_pieces && !(key.hi & SEGMENT_FLAG)) whole = whole_token(m, p, n);
    if (whole != NO_RANK) to[0] = whole;
    else k = merge_short(m, p, (u32)n, to);
    out->n += k;
    if (k > MOST_CACHED) return 0;
    if (4 * (c->used + 1) > 3 * c->slots) {
        memset(c->entries, 0, c->slots * sizeof(Cached));
        c->used = 0;
        e = &c->entries[key.slot];
    }
    c->used++;
    e->lo = key.lo;
    e->hi = key.hi;
    for (u32 i = 0; i < MOST_CACHED; i++) e->ids[i] = i < k ? to[i] : 0;
    e->ids[0] |= (k - 1) << 30;
    return 0;
}

/* A longer piece: whole, or cut at merge barriers. */
static inline int encode_long(const Model *m, Cache *c, const u8 *p, u64 n, const u8 *limit, Ids *out) {
    const u8 *end = p + n, *at = p, *start = p;
    if (m->whole_pieces) {
        u32 id = whole_token(m, p, n);
        if (id != NO_RANK) {
            if (reserve(out, 1)) return OUT_OF_MEMORY;
            out->ids[out->n++] = id;
            return 0;
        }
    }
    u64 flag = m->whole_pieces ? SEGMENT_FLAG : 0, left = valid_length(at, end);
    u32 left_code = left ? code_point(at, left) : 0;
    at += left ? left : 1;
    while (at < end) {
        u64 right = valid_length(at, end);
        u32 right_code = right ? code_point(at, right) : 0;
        if (left && right && (left > 1 || right > 1) && !(m->torn[at[-1] * 4 + (*at >> 6)] >> (*at & 63) & 1) &&
            !are_adjacent(m, adjacency(left_code, right_code))) {
            int error = (u64)(at - start) <= SHORT_PIECE
                            ? encode_short(m, c, piece_key(c, start, (u64)(at - start), limit, flag), start, (u64)(at - start), out)
                            : merge_piece(m, &c->scratch, start, (u64)(at - start), out);
            if (error) return error;
            start = at;
        }
        at += right ? right : 1;
        left = right;
        left_code = right_code;
    }
    if ((u64)(end - start) <= SHORT_PIECE)
        return encode_short(m, c, piece_key(c, start, (u64)(end - start), limit, flag), start, (u64)(end - start), out);
    return merge_piece(m, &c->scratch, start, (u64)(end - start), out);
}

/* Encode documents; document d is data[bounds[2d]:bounds[2d + 1]], and ends[d] is set to the number of
 * ids up to its end.  pattern < 0: each document is one piece.  Stops behind `most` ids. */
static inline int encode_documents(const Model *m, Cache *c, const u8 *data, u64 size, const i64 *bounds, u64 documents,
                                   int pattern, u64 most, Ids *out, i64 *ends) {
    Word words[PIECES];
    PieceKey keys[PIECES];
    const u8 *limit = data + size;
    for (u64 d = 0; d < documents; d++) {
        const u8 *at = data + bounds[2 * d], *end = data + bounds[2 * d + 1];
        while (at < end && out->n < most) {
            size_t n = scan_words(pattern < 0 ? NONE : (enum pattern)pattern, &at, end, words, PIECES);
            if (n < PIECES) at = end;
            for (size_t i = 0; i < n; i++) {
                if (words[i].length > SHORT_PIECE) continue;
                keys[i] = piece_key(c, words[i].start, words[i].length, limit, 0);
                __builtin_prefetch(&c->entries[keys[i].slot]);
            }
            for (size_t i = 0; i < n; i++) {
                int error = words[i].length <= SHORT_PIECE
                                ? encode_short(m, c, keys[i], words[i].start, words[i].length, out)
                                : encode_long(m, c, words[i].start, words[i].length, limit, out);
                if (error) return error;
            }
        }
        ends[d] = (i64)out->n;
    }
    return 0;
}

#endif
