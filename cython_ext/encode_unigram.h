/* Unigram (Kudo 2018, "Subword Regularization"): of all ways to cut a text into pieces that of the highest sum of scores.
 *
 * Sums are those of a text from its beginning, and of equal ones that counts whose last piece begins first.  In single
 * precision they are rounded to 32 bits after each addition, and a sum beyond FURTHEST becomes 0, as in SentencePiece: so
 * what comes out of near ties depends on all that stands before.  A chunk that no piece crosses is cached nevertheless:
 *  - Its best path by sums from 0, in double precision, is found once.  Let a node have k characters before it, and M be
 *    the largest magnitude of all sums.  A sum in the text, less that at the chunk's beginning, differs from the
 *    exact one by k half ulps of M at most.  So the best path is that of the text if at each of its nodes the best sum
 *    is ahead of the second by more than 2 k half ulps.
 *  - What is kept with it is the largest sum at its beginning for which that holds.  Beyond, it is cut anew in the text's
 *    own arithmetic.
 */
#ifndef BEAM_BPE_ENCODE_UNIGRAM_H
#define BEAM_BPE_ENCODE_UNIGRAM_H

#include "encode_cache.h"
#include "encode_chunks.h"

#include <math.h>

#define FURTHEST 100000.0

#define FREE 0x100u /* the label of a place without a node, and of the root */
#define LABEL_BITS 9

typedef struct { /* a node of a double array (Aoe 1989): that of a byte is at base + byte, if its label is that byte */
    u32 base;
    u32 piece; /* id, or the number of none, << LABEL_BITS | label */
} Branch;

typedef struct Unigram {
    Branch *branches; /* the root is 0 */
    double *scores; /* by id; then 0 of what fills up a cached chunk, and -inf of no piece */
    double largest; /* the largest magnitude of a score */
    u32 none;       /* the number of no piece */
    u64 longest;    /* bytes of a piece or a character */
    u32 unk;
    double unk_score; /* of a character that is no piece */
    const u32 *byte_ids; /* what an unknown character becomes; NULL: unk, and of neighbours one is left */
    u32 bytes[256];
    int single;
    Model barriers; /* only its tokens and which characters they have side by side */
    Chunks chunks;
} Unigram;

typedef struct { /* how far a text has been encoded */
    double sum;
    int after_unknown;
} State;

static inline double magnitude(double x) { return x < 0 ? -x : x; }

static inline double rounded(double sum, int single) { return single ? (double)(float)sum : sum; }

/* ---- making it ------------------------------------------------------------------------------ */

static inline void unigram_free(Unigram *u) {
    free(u->branches);
    free(u->scores);
    model_free(&u->barriers);
    chunks_free(&u->chunks);
    memset(u, 0, sizeof *u);
}

typedef struct { /* the pieces from `low` to `high` in the order of their bytes begin alike, up to a node */
    u32 low, high, depth, node;
} Range;

typedef struct {
    u32 id, length;
    const u8 *bytes;
} Key;

static inline int by_bytes(const void *one, const void *other) {
    const Key *a = (const Key *)one, *b = (const Key *)other;
    int order = memcmp(a->bytes, b->bytes, a->length < b->length ? a->length : b->length);
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

typedef struct { /* a double array while it is made */
    Branch *branches;
    u32 *next, *previous; /* the free places are a list; 0 is its end, since the root is never free */
    u8 *used;             /* by base: a node has it */
    u64 size;
    u32 first, last, none;
} Growing;

static inline int branches_grow(Growing *g, u64 size) {
    if (size <= g->size) return 0;
    size += size / 2 + 1024;
    if (size >= NOWHERE) return OUT_OF_MEMORY;
    void *branches = realloc(g->branches, size * sizeof *g->branches), *next, *previous, *used;
    if (branches) g->branches = (Branch *)branches;
    if ((next = realloc(g->next, 4 * size))) g->next = (u32 *)next;
    if ((previous = realloc(g->previous, 4 * size))) g->previous = (u32 *)previous;
    if ((used = realloc(g->used, size))) g->used = (u8 *)used;
    if (!branches || !next || !previous || !used) return OUT_OF_MEMORY;
    memset(g->used + g->size, 0, size - g->size);
    for (u64 i = g->size; i < size; i++) {
        g->branches[i] = (Branch){0, g->none << LABEL_BITS | FREE};
        if (!i) continue;
        g->next[i] = 0;
        g->previous[i] = g->last;
        if (g->last) g->next[g->last] = (u32)i;
        else g->first = (u32)i;
        g->last = (u32)i;
    }
    g->size = size;
    return 0;
}

static inline void take_place(Growing *g, u32 at, u8 label) {
    if (g->previous[at]) g->next[g->previous[at]] = g->next[at];
    else g->first = g->next[at];
    if (g->next[at]) g->previous[g->next[at]] = g->previous[at];
    else g->last = g->previous[at];
    g->branches[at].piece = g->none << LABEL_BITS | label;
}

static inline int is_free(const Growing *g, u64 at) { return at >= g->size || (g->branches[at].piece & FREE); }

/* A base that no other node has and where all children find room; a few are tried, behind the end there is one always. */
static inline u32 find_base(const Growing *g, const u8 *children, u32 n, u64 end) {
    u32 tried = 0;
    for (u32 at = g->first; at && at < end && tried < 64; at = g->next[at], tried++) {
        u32 k = 1;
        if (at < children[0] || g->used[at - children[0]]) continue;
        while (k < n && is_free(g, at - children[0] + (u64)children[k])) k++;
        if (k == n) return at - children[0];
    }
    return (u32)end; /* where no base is used yet, or only those of the children of the root */
}

/* The trie of sorted keys, depth first: so the nodes of a piece lie near to each other. */
static inline int branches_make(Unigram *u, const Key *keys, u32 n) {
    u64 queued = 1, room = 1024, end = 1;
    Growing g;
    memset(&g, 0, sizeof g);
    g.none = u->none;
    Range *queue = (Range *)malloc(room * sizeof *queue);
    int error = !queue || branches_grow(&g, 1024) ? OUT_OF_MEMORY : 0;
    if (!error) queue[0] = (Range){0, n, 0, 0};
    while (queued && !error) {
        Range r = queue[--queued];
        Branch *node = &g.branches[r.node];
        u8 children[256];
        u32 starts[257], k = 0;
        if (r.low < r.high && keys[r.low].length == r.depth)
            node->piece = keys[r.low++].id << LABEL_BITS | (node->piece & ((1u << LABEL_BITS) - 1));
        for (u32 j = r.low; j < r.high; j++)
            if (!k || children[k - 1] != keys[j].bytes[r.depth]) {
                starts[k] = j;
                children[k++] = keys[j].bytes[r.depth];
            }
        node->base = NOWHERE;
        if (!k) continue;
        starts[k] = r.high;
        u32 base = find_base(&g, children, k, end);
        if ((error = branches_grow(&g, (u64)base + 256))) break;
        if (queued + k > room) {
            Range *more = (Range *)realloc(queue, (room = 2 * room + k) * sizeof *queue);
            if (!more) {
                error = OUT_OF_MEMORY;
                break;
            }
            queue = more;
        }
        g.used[base] = 1;
        g.branches[r.node].base = base;
        for (u32 j = 0; j < k; j++) {
            take_place(&g, base + children[j], children[j]);
            queue[queued++] = (Range){starts[j], starts[j + 1], r.depth + 1, base + children[j]};
            if (base + children[j] >= end) end = (u64)base + children[j] + 1;
        }
    }
    if (!error) error = branches_grow(&g, end + 256);
    for (u64 i = 0; i < g.size && !error; i++) /* behind the end nothing is found */
        if (g.branches[i].base == NOWHERE) g.branches[i].base = (u32)end;
    u->branches = g.branches;
    free(g.next);
    free(g.previous);
    free(g.used);
    free(queue);
    return error;
}

/* Tokens are text, holes are empty; no two are the same.  byte_ids: of 256 bytes, or NULL. */
static inline int unigram_init(Unigram *u, u32 n_tokens, const u8 *tokens, const i64 *starts, const double *scores, u32 unk,
                               double unk_score, const u32 *byte_ids, int single) {
    u32 no_bytes[256], n = 0;
    Key *keys = (Key *)malloc(((u64)n_tokens + 1) * sizeof *keys);
    u8 *formed = (u8 *)malloc((u64)n_tokens + 1);
    int error = OUT_OF_MEMORY;
    memset(no_bytes, 0xFF, sizeof no_bytes);
    u->scores = (double *)malloc(8 * ((u64)n_tokens + 2));
    if (!keys || !formed || !u->scores) goto done;
    if ((error = model_start(&u->barriers, n_tokens, 0, tokens, starts, no_bytes, 0))) goto done;
    memset(formed, 1, (u64)n_tokens + 1);
    if ((error = model_barriers(&u->barriers, formed))) goto done;
    if ((error = chunks_init(&u->chunks, &u->barriers))) goto done;
    u->unk = unk;
    u->unk_score = unk_score;
    u->single = single;
    if (byte_ids) memcpy(u->bytes, byte_ids, sizeof u->bytes);
    u->byte_ids = byte_ids ? u->bytes : NULL;
    u->longest = 4;
    u->largest = magnitude(unk_score);
    for (u32 id = 0; id < n_tokens; id++) {
        u64 length = token_length(&u->barriers, id);
        u->scores[id] = rounded(scores[id], single);
        if (!length) continue;
        if (magnitude(u->scores[id]) > u->largest) u->largest = magnitude(u->scores[id]);
        keys[n++] = (Key){id, (u32)length, token_bytes(&u->barriers, id)};
        if (length > u->longest) u->longest = length;
    }
    u->scores[unk] = unk_score;
    u->scores[n_tokens] = 0;
    u->scores[u->none = n_tokens + 1] = -INFINITY;
    qsort(keys, n, sizeof *keys, by_bytes);
    error = branches_make(u, keys, n);
done:
    free(keys);
    free(formed);
    return error;
}

/* ---- the best path -------------------------------------------------------------------------- */

static inline void reach(Place *place, double sum, u64 from, u32 piece) {
    if (place->from != NOWHERE && !(sum > place->sum)) return;
    place->sum = sum;
    place->from = (u32)from;
    place->piece = piece;
}

/* Find the best sums of n bytes, which are places[0] to places[n], from `begin` on.  single: in single precision. */
static inline __attribute__((always_inline)) void best_sums(const Unigram *u, const u8 *p, u64 n, double begin, int single,
                                                            Place *places) {
    for (u64 i = 1; i <= n; i++) places[i].from = NOWHERE;
    places[0].sum = begin;
    places[0].from = 0;
    for (u64 i = 0, length; i < n; i += length) {
        length = character_bytes(p[i]);
        if (single && !(magnitude(places[i].sum) <= FURTHEST)) {
            double base = places[i].sum;
            u64 stop = i + u->longest < n ? i + u->longest : n;
            for (u64 j = i; j <= stop; j++)
                if (places[j].from != NOWHERE) places[j].sum = rounded(places[j].sum - base, 1);
            places[i].sum = 0;
        }
        double base = places[i].sum;
        int alone = 0;
        const Branch *node = u->branches;
        for (u64 j = i; j < n; j++) {
            node = &u->branches[node->base + p[j]];
            if ((node->piece & ((1u << LABEL_BITS) - 1)) != p[j]) break;
            u32 piece = node->piece >> LABEL_BITS;
            if (piece == u->none) continue;
            reach(&places[j + 1], rounded(base + u->scores[piece], single), i, piece);
            alone |= j + 1 == i + length;
        }
        if (!alone) reach(&places[i + length], rounded(base + u->unk_score, single), i, u->unk);
    }
}

/* Link the best path from the left: the place behind a piece is `next` of the one before it. */
static inline void link_path(Place *places, u64 n) {
    for (u64 at = n; at;) {
        u32 from = places[at].from;
        places[from].next = at; /* in place of its sum, which is not needed any more */
        at = from;
    }
}

typedef struct { /* the places of a short chunk, with the sum of the second best way to each */
    double best[WIDE_PIECE + 1], second[WIDE_PIECE + 1];
    u64 last[WIDE_PIECE + 1]; /* of the best way: where its last piece begins << 32 | the piece */
} Short;

static inline void reach_short(Short *s, u64 at, double sum, u64 last) {
    double best = s->best[at], lower = sum < best ? sum : best;
    s->last[at] = sum > best ? last : s->last[at]; /* none of this is a branch, which nobody could foresee */
    s->best[at] = sum > best ? sum : best;
    s->second[at] = lower > s->second[at] ? lower : s->second[at];
}

/* The same from 0 in double precision for a short chunk, whose sums are all finite. */
static inline void best_short(const Unigram *u, const u8 *p, u64 n, Short *s) {
    for (u64 i = 0; i <= n; i++) s->best[i] = s->second[i] = -INFINITY;
    s->best[0] = 0;
    for (u64 i = 0, length; i < n; i += length) {
        length = character_bytes(p[i]);
        double base = s->best[i];
        int alone = 0;
        const Branch *node = u->branches;
        for (u64 j = i; j < n; j++) {
            node = &u->branches[node->base + p[j]];
            if ((node->piece & ((1u << LABEL_BITS) - 1)) != p[j]) break;
            u32 piece = node->piece >> LABEL_BITS; /* `none` scores -inf, and nothing changes */
            reach_short(s, j + 1, base + u->scores[piece], i << 32 | piece);
            alone |= (j + 1 == i + length) & (piece != u->none);
        }
        if (!alone) reach_short(s, i + length, base + u->unk_score, i << 32 | u->unk);
    }
}

/* Put down the tokens of the best path, *k of them; return by how much it is ahead at each of its places, at least, in
 * shares of 2 additions for each character. */
static inline double short_path(const u8 *p, u64 n, const Short *s, u32 *tokens, u64 *k) {
    double share = INFINITY, characters = (double)count_characters(p, n);
    u64 pieces = 0;
    for (u64 at = n; at; at = s->last[at] >> 32) pieces++;
    *k = pieces;
    for (u64 at = n; at; at = s->last[at] >> 32) {
        double ahead = (s->best[at] - s->second[at]) / (2.0 * characters); /* places have no more characters than all */
        share = ahead < share ? ahead : share;
        tokens[--pieces] = (u32)s->last[at];
    }
    return share;
}

/* The largest magnitude of a sum at the beginning from which the path comes out the same; 0: none. */
static inline double certified(double share, double furthest, int single) {
    double most = share / (single ? 0x1.001p-24 : 0x1.001p-52) - furthest; /* half an ulp is so many times a number at most */
    double bound = single ? 0.99 * FURTHEST - furthest : 1e38;
    if (!(most < bound)) most = bound;
    return most > 0 ? most : 0;
}

/* Append a token of n bytes at p: unknown ones as their bytes, or of neighbours one. */
static inline u32 *put_token(const Unigram *u, u32 token, const u8 *p, u64 n, State *state, u32 *to) {
    if (token != u->unk) {
        *to++ = token;
        state->after_unknown = 0;
        return to;
    }
    if (!u->byte_ids && !state->after_unknown) *to++ = token;
    for (u64 i = 0; u->byte_ids && i < n; i++) *to++ = u->byte_ids[p[i]];
    state->after_unknown = 1;
    return to;
}

/* Whether a path that was found by sums from 0 is that of the text here. */
static inline int is_valid(const Unigram *u, const State *state, double most) {
    return magnitude(state->sum) < most || (!u->single && state->sum == 0);
}

/* A chunk, which is valid, in the text's own arithmetic. */
static __attribute__((noinline)) int segment_here(const Unigram *u, const u8 *p, u64 n, Place *places, State *state, Ids *out) {
    if (reserve(out, n)) return OUT_OF_MEMORY;
    if (u->single) best_sums(u, p, n, state->sum, 1, places);
    else best_sums(u, p, n, state->sum, 0, places);
    state->sum = places[n].sum;
    link_path(places, n);
    u32 *to = out->ids + out->n;
    for (u64 at = 0, end; at < n; at = end) {
        end = places[at].next;
        to = put_token(u, places[end].piece, p + at, end - at, state, to);
    }
    out->n = (u64)(to - out->ids);
    return 0;
}

/* Append a path that was found by sums from 0, and add its scores to the text's sum one by one, as its own search does. */
static inline int put_path(const Unigram *u, const u8 *p, const u32 *tokens, u64 k, State *state, Ids *out) {
    if (reserve(out, WIDE_PIECE)) return OUT_OF_MEMORY;
    u32 *to = out->ids + out->n;
    for (u64 i = 0; i < k; i++) {
        u64 length = tokens[i] == u->unk ? character_bytes(*p) : token_length(&u->barriers, tokens[i]);
        to = put_token(u, tokens[i], p, length, state, to);
        state->sum = rounded(state->sum + u->scores[tokens[i]], u->single);
        p += length;
    }
    out->n = (u64)(to - out->ids);
    return 0;
}

/* A chunk of up to WIDE_PIECE bytes: append its ids.  Return the *k tokens of its path, more than WIDE_PIECE where it must not
 * be cached, and for which sums it is that. */
static inline int segment_chunk(const Unigram *u, const u8 *p, u64 n, State *state, Ids *out, u32 *tokens, u64 *k, double *most) {
    Place places[WIDE_PIECE + 1];
    Short s;
    double furthest = (double)n * u->largest;
    *k = WIDE_PIECE + 1;
    if (valid_until(p, p + n) < p + n) return NOT_UTF8;
    if (!(furthest < 1e300)) return segment_here(u, p, n, places, state, out);
    best_short(u, p, n, &s);
    *most = certified(short_path(p, n, &s, tokens, k), furthest, u->single);
    return is_valid(u, state, *most) ? put_path(u, p, tokens, *k, state, out) : segment_here(u, p, n, places, state, out);
}

/* ---- the cache ------------------------------------------------------------------------------
 *
 * Its ids are the tokens of a path.  In their top bits are their number, half of the bits of the largest sum, and whether
 * one is unknown. */

#define HAS_UNKNOWN 0x80000000u

static inline void pack_ids(const Unigram *u, u32 *to, u32 room, const u32 *tokens, u64 k, double most, int shift) {
    float limit = (float)most; /* the upper half of its bits is no more than it is */
    u32 bits;
    memcpy(&bits, &limit, 4);
    for (u32 i = 0; i < room; i++) to[i] = i < k ? tokens[i] : u->barriers.n_tokens;
    for (u32 i = 0; i < k; i++)
        if (tokens[i] == u->unk) to[3] |= HAS_UNKNOWN;
    to[0] |= (u32)(k - 1) << shift;
    to[1] |= bits >> 24 << 24;
    to[2] |= bits >> 16 << 24;
}

static inline double packed_most(const u32 *ids) {
    u32 bits = (ids[1] & 0xFF000000u) | (ids[2] >> 24 << 16);
    float limit;
    memcpy(&limit, &bits, 4);
    return limit;
}

static inline u32 packed_token(u32 id) { return id & ((1u << ID_BITS) - 1); }

static __attribute__((noinline)) int put_packed_unknown(const Unigram *u, const u8 *p, const u32 *ids, u32 k, State *state,
                                                        Ids *out) {
    u32 tokens[MOST_WIDE];
    for (u32 i = 0; i < k; i++) tokens[i] = packed_token(ids[i]);
    return put_path(u, p, tokens, k, state, out);
}

static inline __attribute__((always_inline)) int put_packed(const Unigram *u, const u8 *p, u64 n, const u32 *ids, u32 room,
                                                            int shift, State *state, Ids *out) {
    if (!is_valid(u, state, packed_most(ids))) {
        Place places[WIDE_PIECE + 1];
        return segment_here(u, p, n, places, state, out);
    }
    if (ids[3] & HAS_UNKNOWN) return put_packed_unknown(u, p, ids, (ids[0] >> shift) + 1, state, out);
    if (reserve(out, room)) return OUT_OF_MEMORY;
    u32 *to = out->ids + out->n;
    for (u32 i = 0; i < room; i++) to[i] = packed_token(ids[i]);
    if (u->single) {
        float sum = (float)state->sum; /* which it is; so each step is one addition */
        for (u32 i = 0; i < room; i++) sum += (float)u->scores[to[i]]; /* of those that fill up 0 */
        state->sum = sum;
    } else {
        for (u32 i = 0; i < room; i++) state->sum += u->scores[to[i]];
    }
    state->after_unknown = 0;
    out->n += (ids[0] >> shift) + 1;
    return 0;
}

/* A chunk of up to WIDE_PIECE bytes by the cache of wide ones. */
static inline int unigram_kept(const Unigram *u, Cache *c, const u64 *key, u64 slot, const u8 *p, u64 n, State *state, Ids *out,
                               u32 *tokens, u64 *k, double *most) {
    u64 s = slot;
    CachedWide *e;
    *k = WIDE_PIECE + 1;
    for (u32 probes = 1;; probes++) {
        e = &c->wide[s];
        if (((e->key[0] ^ key[0]) | (e->key[1] ^ key[1]) | (e->key[2] ^ key[2]) | (e->key[3] ^ key[3])) == 0)
            return put_packed(u, p, n, e->ids, MOST_WIDE, 29, state, out);
        if (!e->key[3] || probes == MOST_PROBES) break;
        s = s + 1 < c->wide_slots ? s + 1 : 0;
    }
    int error = segment_chunk(u, p, n, state, out, tokens, k, most);
    if (error || *k > MOST_WIDE || (n <= SHORT_PIECE && *k <= MOST_CACHED)) return error;
    pack_ids(u, claim_wide(c, e, key, slot)->ids, MOST_WIDE, tokens, *k, *most, 29);
    return 0;
}

/* One that is not among the short ones, perhaps since it has too many tokens. */
static __attribute__((noinline)) int unigram_missed(const Unigram *u, Cache *c, PieceKey key, Cached *e, const u8 *p, u64 n,
                                                    State *state, Ids *out) {
    double most;
    u32 tokens[WIDE_PIECE];
    u64 k, wide[4] = {key.lo, key.hi & ~((u64)0xFF << 56), 0, n << 56};
    int error = unigram_kept(u, c, wide, slot_of_wide(c, wide), p, n, state, out, tokens, &k, &most);
    if (error || k > MOST_CACHED) return error;
    pack_ids(u, claim_short(c, e, key)->ids, MOST_CACHED, tokens, k, most, 30);
    return 0;
}

static inline __attribute__((always_inline)) int unigram_short(const Unigram *u, Cache *c, PieceKey key, const u8 *p, u64 n,
                                                               State *state, Ids *out) {
    u64 s = key.slot;
    for (u32 probes = 1;; probes++) {
        Cached *e = &c->entries[s];
        if (e->lo == key.lo && e->hi == key.hi) return put_packed(u, p, n, e->ids, MOST_CACHED, 30, state, out);
        if (!e->hi || probes == MOST_PROBES) return unigram_missed(u, c, key, e, p, n, state, out);
        s = s + 1 < c->slots ? s + 1 : 0;
    }
}

/* 16 to 31 bytes. */
static inline int unigram_wide(const Unigram *u, Cache *c, const u8 *p, u64 n, State *state, Ids *out) {
    u64 key[4], slot = wide_key(c, p, n, key), k;
    double most;
    u32 tokens[WIDE_PIECE];
    return unigram_kept(u, c, key, slot, p, n, state, out, tokens, &k, &most);
}

static inline int places_reserve(Cache *c, u64 n) {
    if (n >= NOWHERE) return TOO_LONG;
    if (n + 1 <= c->places_size) return 0;
    free(c->places);
    c->places_size = 0;
    if (!(c->places = (Place *)malloc((n + 1) * sizeof(Place)))) return OUT_OF_MEMORY;
    c->places_size = n + 1;
    return 0;
}

static inline int unigram_long(const Unigram *u, Cache *c, const u8 *p, u64 n, State *state, Ids *out) {
    if (valid_until(p, p + n) < p + n) return NOT_UTF8;
    int error = places_reserve(c, n);
    return error ? error : segment_here(u, p, n, c->places, state, out);
}

#endif
