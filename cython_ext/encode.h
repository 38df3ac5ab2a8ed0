/* The encoder: pieces (words of a pre-tokenization pattern) to token ids, and ids to bytes.
 *
 * Exact: at every step the pair of lowest rank is merged, the leftmost first (encode_merge.h), or the
 * longest token is taken (encode_model.h).
 *  - A cache maps pieces of up to 15 bytes that give up to 4 ids to them: an entry is 32 bytes, the key
 *    is the bytes themselves, and it is wiped when it is 3/4 full.  Another one is for up to 31 bytes.  Pieces chosen to fall into the
 *    same slots cost MOST_PROBES and no more.
 *  - Merge barriers: between two characters whose adjacency occurs inside no token that can be formed, no
 *    merge can cross.  Long pieces that are not ASCII are cut there, and the segments go through the cache.
 * The model is immutable and shared; a Cache belongs to one call at a time.
 */
#ifndef BEAM_BPE_ENCODE_H
#define BEAM_BPE_ENCODE_H

#include "encode_dropout.h"
#include "encode_merge.h"
#include "encode_recover.h"

enum { SHORT_PIECE = 15, WIDE_PIECE = 31, PIECES = 256, MOST_CACHED = 4, MOST_WIDE = 8, MOST_PROBES = 16, KEPT = 8 << 20 };
#define SEGMENT_FLAG ((u64)0x10 << 56) /* in a key: a segment, to which whole-piece look-up does not apply */
#define NO_LIMIT 0xFFFFFFFFFFFFFFFFull

/* ---- the cache ------------------------------------------------------------------------------ */

typedef struct {
    u64 lo, hi; /* the bytes, zero-padded; top byte of hi: length, and whether it is a segment; 0: empty */
    u32 ids[4]; /* number of ids - 1 in the two top bits of the first */
} Cached;

typedef struct { /* for pieces of 16 to 31 bytes; segments are not kept here */
    u64 key[4];
    u32 ids[8]; /* number of ids - 1 in the three top bits of the first */
} CachedWide;

typedef struct {
    Cached *entries;
    CachedWide *wide;
    u64 slots, used, wide_slots, wide_used; /* slots are fewer than 2**32 */
    Scratch scratch;
    Ids out;
} Cache;

/* Two thirds of the memory are for the short ones. */
static inline int cache_init(Cache *c, u64 bytes) {
    memset(c, 0, sizeof *c);
    c->slots = bytes / 3 * 2 / sizeof(Cached);
    c->wide_slots = bytes / 3 / sizeof(CachedWide);
    if (c->slots < 64) c->slots = 64;
    if (c->wide_slots < 16) c->wide_slots = 16;
    if (c->slots > 0xFFFFFFFFu) c->slots = 0xFFFFFFFFu;
    if (c->wide_slots > 0xFFFFFFFFu) c->wide_slots = 0xFFFFFFFFu;
    c->entries = (Cached *)zeroed(c->slots * sizeof(Cached));
    c->wide = (CachedWide *)zeroed(c->wide_slots * sizeof(CachedWide));
    return c->entries && c->wide ? 0 : OUT_OF_MEMORY;
}

static inline void cache_free(Cache *c) {
    free(c->entries);
    free(c->wide);
    c->entries = NULL;
    c->wide = NULL;
    scratch_free(&c->scratch);
    ids_free(&c->out);
}

static inline u64 slot_of(u64 hash, u64 slots) { return (hash >> 32) * slots >> 32; }

/* Between calls: the memory of unusual documents is given back. */
static inline void cache_rest(Cache *c) {
    if (scratch_bytes(&c->scratch) > KEPT) scratch_free(&c->scratch);
    if (4 * c->out.size > KEPT) ids_free(&c->out);
}

typedef struct {
    u64 lo, hi, slot;
} PieceKey;

/* KEEP + 16 - n: n bytes of ones, then zeros, of 16 */
static const u8 KEEP[32] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};

/* Bytes up to `limit` may be read. */
static inline PieceKey piece_key(const Cache *c, const u8 *p, u64 n, const u8 *limit, u64 flag) {
    PieceKey key;
    if (limit - p >= 16) {
        key.lo = load64(p) & load64(KEEP + 16 - n); /* without a branch on the length, which nobody can foresee */
        key.hi = load64(p + 8) & load64(KEEP + 24 - n);
    } else if (n < 8) {
        key.lo = load_few(p, n);
        key.hi = 0;
    } else {
        key.lo = load64(p);
        key.hi = load_few(p + 8, n - 8);
    }
    key.hi |= n << 56 | flag;
    key.slot = slot_of(mix(key.lo ^ 0x9E3779B97F4A7C15ull, key.hi ^ 0xC2B2AE3D27D4EB4Full), c->slots);
    return key;
}

/* The key of a piece of 16 to 31 bytes, and its slot. */
static inline u64 wide_key(const Cache *c, const u8 *p, u64 n, u64 *key) {
    key[0] = load64(p);
    key[1] = load64(p + 8);
    if (n < 24) {
        key[2] = n > 16 ? load64(p + n - 8) >> (8 * (24 - n)) : 0;
        key[3] = 0;
    } else {
        key[2] = load64(p + 16);
        key[3] = n > 24 ? load64(p + n - 8) >> (8 * (32 - n)) : 0;
    }
    key[3] |= n << 56;
    return slot_of(mix(mix(key[0] ^ 0x9E3779B97F4A7C15ull, key[1] ^ 0xC2B2AE3D27D4EB4Full) ^ key[2], key[3] ^ 0x165667B19E3779F9ull),
                   c->wide_slots);
}

/* A piece of up to SHORT_PIECE bytes that is not in the cache; `e` is where it belongs, and what is there goes. */
static __attribute__((noinline)) int encode_missed(const Model *m, Cache *c, PieceKey key, Cached *e, const u8 *p, u64 n,
                                                   Ids *out) {
    if (reserve(out, SHORT_PIECE)) return OUT_OF_MEMORY;
    u64 before = out->n;
    u32 *to = out->ids + before, whole = NO_TOKEN;
    if (m->whole && !(key.hi & SEGMENT_FLAG)) whole = whole_token(m, p, n);
    if (m->edges) match_piece(m, p, n, out);
    else if (whole != NO_TOKEN) to[0] = whole, out->n++;
    else out->n += merge_short(m, p, (u32)n, to);
    u64 k = out->n - before;
    if (k > MOST_CACHED) return 0;
    if (!e->hi && 4 * (c->used + 1) > 3 * c->slots) {
        memset(c->entries, 0, c->slots * sizeof(Cached));
        c->used = 0;
        e = &c->entries[key.slot];
    }
    c->used += !e->hi;
    e->lo = key.lo;
    e->hi = key.hi;
    for (u32 i = 0; i < MOST_CACHED; i++) e->ids[i] = i < k ? to[i] : 0;
    e->ids[0] |= (u32)(k - 1) << 30;
    return 0;
}

static inline int encode_short(const Model *m, Cache *c, PieceKey key, const u8 *p, u64 n, Ids *out) {
    u64 s = key.slot;
    Cached *e;
    for (u32 probes = 1;; probes++) {
        e = &c->entries[s];
        if (e->lo != key.lo || e->hi != key.hi) {
            if (!e->hi || probes == MOST_PROBES) break;
            s = s + 1 < c->slots ? s + 1 : 0;
            continue;
        }
        if (reserve(out, 4)) return OUT_OF_MEMORY;
        u32 *to = out->ids + out->n; /* four are stored, and as many counted as there are */
        to[0] = e->ids[0] & 0x3FFFFFFFu;
        to[1] = e->ids[1];
        to[2] = e->ids[2];
        to[3] = e->ids[3];
        out->n += (e->ids[0] >> 30) + 1;
        return 0;
    }
    return encode_missed(m, c, key, e, p, n, out);
}

static inline int encode_segment(const Model *m, Cache *c, const u8 *p, u64 n, const u8 *limit, Ids *out) {
    if (n <= SHORT_PIECE)
        return encode_short(m, c, piece_key(c, p, n, limit, m->whole ? SEGMENT_FLAG : 0), p, n, out);
    return m->edges ? match_piece(m, p, n, out) : merge_piece(m, &c->scratch, p, n, out);
}

/* A longer piece: whole, or cut at merge barriers.  May stop behind `stop` ids. */
static __attribute__((noinline)) int encode_long(const Model *m, Cache *c, const u8 *p, u64 n, const u8 *limit, u64 stop, Ids *out) {
    const u8 *end = p + n, *at = p, *start = p;
    if (m->whole) {
        u32 id = whole_token(m, p, n);
        if (id != NO_TOKEN) {
            if (reserve(out, 1)) return OUT_OF_MEMORY;
            out->ids[out->n++] = id;
            return 0;
        }
    }
    if (*p < 0x80 && n <= 64) {
        u8 some = 0;
        for (u64 i = 0; i < n; i++) some |= p[i];
        if (some < 0x80) return encode_segment(m, c, p, n, limit, out); /* ASCII has no barriers */
    }
    u64 left = valid_length(at, end);
    u32 left_code = left ? code_point(at, left) : 0;
    at += left ? left : 1;
    while (at < end) {
        u64 right = valid_length(at, end);
        u32 right_code = right ? code_point(at, right) : 0;
        if (left && right && (left > 1 || right > 1) && !(m->torn[at[-1] * 4 + (*at >> 6)] >> (*at & 63) & 1) &&
            !are_adjacent(m, adjacency(left_code, right_code))) {
            int error = encode_segment(m, c, start, (u64)(at - start), limit, out);
            if (error) return error;
            if (out->n >= stop) return 0;
            settle(out);
            start = at;
        }
        at += right ? right : 1;
        left = right;
        left_code = right_code;
    }
    return encode_segment(m, c, start, (u64)(end - start), limit, out);
}

/* A piece of 16 to 31 bytes. */
static inline int encode_wide(const Model *m, Cache *c, const u8 *p, u64 n, const u8 *limit, Ids *out) {
    u64 key[4], slot = wide_key(c, p, n, key), s = slot, before, k;
    CachedWide *e;
    for (u32 probes = 1;; probes++) {
        e = &c->wide[s];
        if (((e->key[0] ^ key[0]) | (e->key[1] ^ key[1]) | (e->key[2] ^ key[2]) | (e->key[3] ^ key[3])) != 0) {
            if (!e->key[3] || probes == MOST_PROBES) break;
            s = s + 1 < c->wide_slots ? s + 1 : 0;
            continue;
        }
        if (reserve(out, MOST_WIDE)) return OUT_OF_MEMORY;
        memcpy(out->ids + out->n, e->ids, sizeof e->ids);
        out->ids[out->n] &= 0x1FFFFFFFu;
        out->n += (e->ids[0] >> 29) + 1;
        return 0;
    }
    if (reserve(out, WIDE_PIECE)) return OUT_OF_MEMORY; /* so that nothing is settled meanwhile but by counts */
    before = out->n;
    int counting = out->counting;
    out->counting = 0;
    int error = encode_long(m, c, p, n, limit, NO_LIMIT, out);
    out->counting = counting;
    k = out->n - before;
    if (error || k > MOST_WIDE) return error;
    if (!e->key[3] && 4 * (c->wide_used + 1) > 3 * c->wide_slots) {
        memset(c->wide, 0, c->wide_slots * sizeof(CachedWide));
        c->wide_used = 0;
        e = &c->wide[slot];
    }
    c->wide_used += !e->key[3];
    memcpy(e->key, key, sizeof key);
    for (u32 i = 0; i < MOST_WIDE; i++) e->ids[i] = i < k ? out->ids[before + i] : 0;
    e->ids[0] |= (u32)(k - 1) << 29;
    return 0;
}

/* ---- documents ------------------------------------------------------------------------------ */

typedef struct {
    const u8 *data;
    u64 size;
    const i64 *bounds; /* document d is data[bounds[2d]:bounds[2d + 1]] */
    u64 documents;
    int pattern; /* < 0: each document is one piece */
    u64 most;    /* ids of a document */
} Batch;

/* Whether the scanner reads nothing behind the data: it may take up to three bytes behind a character that
 * is cut off, which matters where the data end.  Of a document of which few ids are wanted only so much is
 * checked as they are likely to need. */
static inline int is_readable(const Batch *batch, const u8 *at, const u8 *end) {
    const u8 *limit = batch->data + batch->size;
    u64 most = batch->most < (1u << 24) ? (64 << 10) + 64 * batch->most : NO_LIMIT;
    u8 some = 0;
    if (batch->pattern < 0 || limit - end >= 3) return 1;
    for (const u8 *p = end - at > 3 ? end - 3 : at; p < end; p++) some |= *p;
    if (some < 0x80) return 1;
    const u8 *until = (u64)(end - at) > most ? at + most : end;
    return until - valid_until(at, until) <= (until < end ? 3 : 0);
}

static inline size_t scan_pieces(int pattern, const u8 **at, const u8 *end, Word *words, size_t most) {
    size_t n = scan_words(pattern < 0 ? NONE : (enum pattern)pattern, at, end, words, most);
    if (n < most) *at = end;
    if (n && words[n - 1].length > (size_t)(end - words[n - 1].start)) words[n - 1].length = (size_t)(end - words[n - 1].start);
    return n;
}

/* Append the ids of document d. */
static inline int encode_document(const Model *m, Cache *c, const Batch *batch, u64 d, Ids *out) {
    Word words[PIECES];
    PieceKey keys[PIECES];
    const u8 *at = batch->data + batch->bounds[2 * d], *end = batch->data + batch->bounds[2 * d + 1];
    const u8 *limit = batch->data + batch->size;
    u64 stop = batch->most < NO_LIMIT - out->n ? out->n + batch->most : NO_LIMIT;
    if (!is_readable(batch, at, end)) return NOT_UTF8;
    while (at < end && out->n < stop) {
        size_t n = scan_pieces(batch->pattern, &at, end, words, stop - out->n < PIECES ? stop - out->n : PIECES);
        for (size_t i = 0; i < n; i++) {
            if (words[i].length <= SHORT_PIECE) {
                keys[i] = piece_key(c, words[i].start, words[i].length, limit, 0);
                __builtin_prefetch(&c->entries[keys[i].slot]);
            } else if (words[i].length <= WIDE_PIECE) {
                u64 key[4];
                __builtin_prefetch(&c->wide[wide_key(c, words[i].start, words[i].length, key)]);
            }
        }
        for (size_t i = 0; i < n; i++) {
            const u8 *p = words[i].start;
            u64 length = words[i].length;
            int error = length <= SHORT_PIECE  ? encode_short(m, c, keys[i], p, length, out)
                        : length <= WIDE_PIECE ? encode_wide(m, c, p, length, limit, out)
                                               : encode_long(m, c, p, length, limit, stop, out);
            if (error) return error;
        }
        settle(out);
    }
    if (out->n > stop) out->n = stop;
    return 0;
}

/* Set ends[d] to the number of ids up to the end of document d.  On an error *at is its document. */
static inline int encode_documents(const Model *m, Cache *c, const Batch *batch, i64 *ends, u64 *at) {
    c->out.n = c->out.counted = 0;
    c->out.counting = 0;
    for (*at = 0; *at < batch->documents; ++*at) {
        int error = encode_document(m, c, batch, *at, &c->out);
        if (error) return error;
        ends[*at] = (i64)c->out.n;
    }
    return 0;
}

static inline int count_documents(const Model *m, Cache *c, const Batch *batch, i64 *counts, u64 *at) {
    int error = 0;
    c->out.n = 0;
    c->out.counting = 1;
    for (*at = 0; *at < batch->documents; ++*at) {
        c->out.counted = 0;
        if ((error = encode_document(m, c, batch, *at, &c->out))) break;
        settle(&c->out);
        counts[*at] = (i64)c->out.counted;
    }
    c->out.counting = 0;
    return error;
}

/* The draws of a document depend on the seed and its bytes, and on nothing else. */
static inline int dropout_documents(const Model *m, Cache *c, const Batch *batch, double dropout, u64 seed, i64 *ends,
                                    u64 *at) {
    Word words[PIECES];
    c->out.n = c->out.counted = 0;
    c->out.counting = 0;
    for (*at = 0; *at < batch->documents; ++*at) {
        const u8 *p = batch->data + batch->bounds[2 * *at], *end = batch->data + batch->bounds[2 * *at + 1];
        u64 state = mix(seed ^ 0x8EBC6AF09C88C6E3ull, hash_bytes(p, (u64)(end - p)) ^ 0x589965CC75374CC3ull);
        if (!is_readable(batch, p, end)) return NOT_UTF8;
        while (p < end) {
            size_t n = scan_pieces(batch->pattern, &p, end, words, PIECES);
            for (size_t i = 0; i < n; i++) {
                int error = merge_dropout(m, &c->scratch, words[i].start, words[i].length, dropout, &state, &c->out);
                if (error) return error;
            }
        }
        ends[*at] = (i64)c->out.n;
    }
    return 0;
}

/* ---- decoding ------------------------------------------------------------------------------- */

static inline u32 id_at(const void *ids, u64 i, int width) {
    return width == 2 ? ((const uint16_t *)ids)[i] : ((const u32 *)ids)[i];
}

/* Add up the bytes of ids[begin:end]; *wrong is the first position of an id that is no token, else `end`. */
static inline u64 decoded_length(const Model *m, const void *ids, u64 begin, u64 end, int width, u64 *wrong) {
    u64 total = 0, i;
    for (i = begin; i < end; i++) {
        u32 id = id_at(ids, i, width), length = id < m->n_tokens ? m->spans[id].length : 0;
        if (!length) break;
        total += length;
    }
    *wrong = i;
    return total;
}

/* Write the bytes of n checked ids, which are to[0:total]. */
static inline void decode_ids(const Model *m, const void *ids, u64 n, int width, u8 *to, u64 total) {
    const u8 *stop = to + total;
    u64 i = 0;
    for (; i < n && stop - to >= 16; i++) {
        Span span = m->spans[id_at(ids, i, width)];
        const u8 *p = m->bytes + span.start;
        if (span.length > 16) memcpy(to, p, span.length);
        else memcpy(to, p, 16); /* there is room in `to`, and PADDING behind the tokens */
        to += span.length;
    }
    for (; i < n; i++) {
        u32 id = id_at(ids, i, width);
        memcpy(to, token_bytes(m, id), token_length(m, id));
        to += token_length(m, id);
    }
}

static inline u64 decoded_length_of(const Model *m, const void *ids, u64 begin, u64 end, int width, u64 *wrong) {
    return width == 2 ? decoded_length(m, ids, begin, end, 2, wrong) : decoded_length(m, ids, begin, end, 4, wrong);
}

static inline void decode(const Model *m, const void *ids, u64 n, int width, u8 *to, u64 total) {
    if (width == 2) decode_ids(m, ids, n, 2, to, total);
    else decode_ids(m, ids, n, 4, to, total);
}

#endif
