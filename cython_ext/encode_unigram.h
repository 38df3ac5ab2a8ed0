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
 * Scripts without spaces, and what is long, are cut in the text's own arithmetic and not cached.
 */
#ifndef BEAM_BPE_ENCODE_UNIGRAM_H
#define BEAM_BPE_ENCODE_UNIGRAM_H

#include "encode_cache.h"
#include "encode_unigram_model.h"

#define FURTHEST 100000.0
enum { MOST_ISLAND = 255 }; /* bytes between places that no piece crosses, in scripts without spaces */

typedef struct { /* how far a text has been encoded */
    double sum;
    int after_unknown;
} State;

/* a + b, rounded.  Single precision: both are, and so is their sum. */
static inline double added(double a, double b, int single) { return single ? (double)((float)a + (float)b) : a + b; }

/* ---- the best path -------------------------------------------------------------------------- */

/* The character of n bytes at p alone; return its score. */
static inline double alone_at(const Unigram *u, u32 code, int single, u32 *piece) {
    const Alone alone = u->alone[code];
    *piece = alone.piece ? alone.piece - 1 : u->unk;
    if (!single) return u->scores[*piece];
    return alone.piece ? (double)alone.score : u->unk_score;
}

/* What begins with a character and the one at p; NULL: nothing, or that one is cut off. */
static inline const Joint *joint_at(const Unigram *u, u32 code, const u8 *p, const u8 *end) {
    u64 length;
    if (p >= end || (length = character_bytes(*p)) > (u64)(end - p)) return NULL;
    u64 key = adjacency(code, code_point(p, length)), slot = joint_slot(u, key);
    return slot == NOWHERE ? NULL : joint_from(u, slot, key);
}

/* Reach all places from place i, whose sum is `base`, where a character `code` is; return its bytes.  all: also by none,
 * which scores -inf. */
static inline __attribute__((always_inline)) u64 reach_all(const Unigram *u, u32 code, const u8 *p, u64 i, u64 n, double base,
                                                           int single, int all, void (*reach)(void *, u64, double, u64, u32),
                                                           void *places) {
    u64 length = character_bytes(p[i]), at = i + length;
    u32 piece, next;
    double score = alone_at(u, code, single, &piece);
    reach(places, at, added(base, score, single), i, piece);
    if (at == n) return length;
    if ((code | p[at]) < 0x80) { /* a few nodes, which stay near */
        next = u->ascii[code];
    } else {
        const Joint *joint = joint_at(u, code, p + at, p + n);
        if (!joint) return length;
        at += character_bytes(p[at]);
        piece = joint->key & ((1u << PIECE_BITS) - 1);
        if (all || piece != u->none)
            reach(places, at, added(base, single ? (double)joint->score : u->scores[piece], single), i, piece);
        next = joint->base;
    }
    if (next == NOWHERE) return length;
    for (; at < n; at++) {
        const Branch *node = &u->branches[next + p[at]];
        if ((node->piece & LABEL_MASK) != p[at]) break;
        piece = node->piece >> LABEL_BITS;
        next = node->base;
        if (all || piece != u->none) reach(places, at + 1, added(base, u->scores[piece], single), i, piece);
    }
    return length;
}

static inline u32 code_in(const u8 *p) { return code_point(p, character_bytes(*p)); }

/* None of this is a branch, which nobody could foresee. */
static inline __attribute__((always_inline)) void reach_single(void *places, u64 at, double sum, u64 from, u32 piece) {
    Place *place = (Place *)places + at;
    float ours = (float)sum;
    int ahead = ours > place->single;
    place->single = ahead ? ours : place->single;
    place->from = ahead ? (u32)from : place->from;
    place->piece = ahead ? piece : place->piece;
}

static inline __attribute__((always_inline)) void reach_place(void *places, u64 at, double sum, u64 from, u32 piece) {
    Place *place = (Place *)places + at;
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
    for (u64 i = 0; i < n;) {
        if (single && !(magnitude(places[i].sum) <= FURTHEST)) {
            double base = places[i].sum;
            u64 stop = i + u->longest < n ? i + u->longest : n;
            for (u64 j = i; j <= stop; j++)
                if (places[j].from != NOWHERE) places[j].sum = rounded(places[j].sum - base, 1);
            places[i].sum = 0;
        }
        i += reach_all(u, code_in(p + i), p, i, n, places[i].sum, single, 0, reach_place, places);
    }
}

/* The same in single precision where no sum comes near to FURTHEST. */
static inline void best_singles(const Unigram *u, const u8 *p, u64 n, double begin, Place *places) {
    for (u64 i = 1; i <= n; i++) places[i].single = -INFINITY;
    places[0].single = (float)begin;
    for (u64 i = 0; i < n;) i += reach_all(u, code_in(p + i), p, i, n, places[i].single, 1, 1, reach_single, places);
    places[n].sum = places[n].single;
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

static inline __attribute__((always_inline)) void reach_short(void *places, u64 at, double sum, u64 from, u32 piece) {
    Short *s = (Short *)places;
    double best = s->best[at], lower = sum < best ? sum : best;
    s->last[at] = sum > best ? from << 32 | piece : s->last[at]; /* none of this is a branch, which nobody could foresee */
    s->best[at] = sum > best ? sum : best;
    s->second[at] = lower > s->second[at] ? lower : s->second[at];
}

/* The same from 0 in double precision for a short chunk, whose sums are all finite. */
static inline void best_short(const Unigram *u, const u8 *p, u64 n, Short *s) {
    for (u64 i = 0; i <= n; i++) s->best[i] = s->second[i] = -INFINITY;
    s->best[0] = 0;
    for (u64 i = 0; i < n;) i += reach_all(u, code_in(p + i), p, i, n, s->best[i], 0, 1, reach_short, s);
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

/* Append the path to place n; there is room. */
static inline void put_places(const Unigram *u, const u8 *p, u64 n, Place *places, State *state, Ids *out) {
    u32 *to = out->ids + out->n;
    state->sum = places[n].sum;
    link_path(places, n);
    for (u64 at = 0, end; at < n; at = end) {
        end = places[at].next;
        to = put_token(u, places[end].piece, p + at, end - at, state, to);
    }
    out->n = (u64)(to - out->ids);
}

/* A chunk, which is valid, in the text's own arithmetic. */
static __attribute__((noinline)) int segment_here(const Unigram *u, const u8 *p, u64 n, Place *places, State *state,
                                                  Ids *out) {
    if (reserve(out, n)) return OUT_OF_MEMORY;
    int near = magnitude(state->sum) + (double)n * u->largest < 0.99 * FURTHEST;
    if (u->single && near) best_singles(u, p, n, state->sum, places);
    else if (u->single) best_sums(u, p, n, state->sum, 1, places);
    else best_sums(u, p, n, state->sum, 0, places);
    put_places(u, p, n, places, state, out);
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

/* A chunk of up to WIDE_PIECE bytes: append its ids.  Return the *k tokens of its path, more than WIDE_PIECE where it must
 * not be cached, and for which sums it is that. */
static inline int segment_chunk(const Unigram *u, const u8 *p, u64 n, State *state, Ids *out, u32 *tokens, u64 *k,
                                double *most) {
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

/* ---- scripts without spaces ------------------------------------------------------------------
 *
 * Most of their characters begin no longer piece that is in the text, and are tokens alone.  Others are segmented up to the
 * next place that no piece crosses, mostly a few characters on: that is quicker than a look into a cache. */

typedef struct {
    Place places[MOST_ISLAND + 1];
    u64 reached; /* the furthest of them */
} Island;

static inline __attribute__((always_inline)) void reach_island(void *places, u64 at, double sum, u64 from, u32 piece) {
    Island *island = (Island *)places;
    while (island->reached < at) island->places[++island->reached].from = NOWHERE;
    reach_place(island->places, at, sum, from, piece);
}

/* Find the best sums from p to where all ways meet, so many bytes on, in the text's own arithmetic; 0: that is too far, or
 * not valid UTF-8. */
static inline __attribute__((always_inline)) u64 best_island(const Unigram *u, const u8 *p, const u8 *end, double begin,
                                                             int single, Island *island) {
    u64 i = 0;
    island->places[0].sum = begin;
    island->reached = 0;
    do {
        u64 length = valid_length(p + i, end);
        if (i + u->longest > MOST_ISLAND || !length) return 0;
        double base = island->places[i].sum;
        i += reach_all(u, code_point(p + i, length), p, i, (u64)(end - p), base, single, 0, reach_island, island);
    } while (i < island->reached);
    return i;
}

/* A text whose ends no piece crosses, or as much of it as gives `stop` ids: *at moves on. */
static inline __attribute__((always_inline)) int put_dense(const Unigram *u, Cache *c, const u8 **at, const u8 *end, u64 stop,
                                                           int single, State *state, Ids *out) {
    const double bound = 0.99 * FURTHEST - MOST_ISLAND * u->largest;
    Island island;
    for (const u8 *p = *at; p < end && out->n < stop; *at = p) {
        u64 n = valid_length(p, end);
        if (!n) return NOT_UTF8;
        u32 code = code_point(p, n), piece;
        if (!joint_at(u, code, p + n, end)) {
            if (single && !(magnitude(state->sum) <= FURTHEST)) state->sum = 0;
            state->sum = added(state->sum, alone_at(u, code, single, &piece), single);
            if (reserve(out, n)) return OUT_OF_MEMORY;
            out->n = (u64)(put_token(u, piece, p, n, state, out->ids + out->n) - out->ids);
        } else if ((!single || magnitude(state->sum) < bound) && (n = best_island(u, p, end, state->sum, single, &island))) {
            if (reserve(out, n)) return OUT_OF_MEMORY;
            put_places(u, p, n, island.places, state, out);
        } else {
            n = (u64)(next_barrier(&u->chunks, p, end) - p);
            int error = unigram_long(u, c, p, n, state, out);
            if (error) return error;
        }
        p += n;
        settle(out);
    }
    return 0;
}

static __attribute__((noinline)) int unigram_dense(const Unigram *u, Cache *c, const u8 **at, const u8 *end, u64 stop,
                                                   State *state, Ids *out) {
    return u->single ? put_dense(u, c, at, end, stop, 1, state, out) : put_dense(u, c, at, end, stop, 0, state, out);
}

/* ---- the cache ------------------------------------------------------------------------------
 *
 * Its ids are the tokens of a path.  In their top bits are their number, half of the bits of the largest sum, and whether
 * one is unknown. */

#define HAS_UNKNOWN 0x80000000u
#define SEE_WIDE 0xFFFFFFFFu /* in place of the first token of a short chunk: it has too many, and is among the wide ones */

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
    if (error || *k > MOST_WIDE) return error;
    pack_ids(u, claim_wide(c, e, key, slot)->ids, MOST_WIDE, tokens, *k, *most, 29);
    return 0;
}

/* A short one that is not there, or `seen` to be among the wide ones. */
static __attribute__((noinline)) int unigram_missed(const Unigram *u, Cache *c, PieceKey key, Cached *e, int seen,
                                                    const u8 *p, u64 n, State *state, Ids *out) {
    double most;
    u32 tokens[WIDE_PIECE];
    u64 k, wide[4] = {key.lo, key.hi & ~((u64)0xFF << 56), 0, n << 56};
    if (seen) return unigram_kept(u, c, wide, slot_of_wide(c, wide), p, n, state, out, tokens, &k, &most);
    int error = segment_chunk(u, p, n, state, out, tokens, &k, &most);
    if (error || k > MOST_WIDE) return error;
    e = claim_short(c, e, key);
    if (k > MOST_CACHED) e->ids[0] = SEE_WIDE;
    else pack_ids(u, e->ids, MOST_CACHED, tokens, k, most, 30);
    return 0;
}

static inline __attribute__((always_inline)) int unigram_short(const Unigram *u, Cache *c, PieceKey key, const u8 *p, u64 n,
                                                               State *state, Ids *out) {
    u64 s = key.slot;
    for (u32 probes = 1;; probes++) {
        Cached *e = &c->entries[s];
        if (e->lo == key.lo && e->hi == key.hi) {
            if (e->ids[0] == SEE_WIDE) return unigram_missed(u, c, key, e, 1, p, n, state, out);
            return put_packed(u, p, n, e->ids, MOST_CACHED, 30, state, out);
        }
        if (!e->hi || probes == MOST_PROBES) return unigram_missed(u, c, key, e, 0, p, n, state, out);
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

#endif
