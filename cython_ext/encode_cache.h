/* The cache of encoded pieces.
 *
 * Pieces of up to 15 bytes that give up to 4 ids are mapped to them: an entry is 32 bytes, the key is the bytes
 * themselves, and the cache is wiped when it is 3/4 full.  Another one is for up to 31 bytes.  Pieces chosen to fall
 * into the same slots cost MOST_PROBES and no more.
 */
#ifndef BEAM_BPE_ENCODE_CACHE_H
#define BEAM_BPE_ENCODE_CACHE_H

#include "encode_merge.h"
#include "encode_pieces.h"

enum { SHORT_PIECE = 15, WIDE_PIECE = 31, PIECES = 256, MOST_CACHED = 4, MOST_WIDE = 8, MOST_PROBES = 16, KEPT = 8 << 20 };
#define SEGMENT_FLAG ((u64)0x10 << 56) /* in a key: a segment, to which whole-piece look-up does not apply */
#define LAST_FLAG ((u64)0x20 << 56)    /* the same of characters, with the end of the word behind it */

typedef struct {
    u64 lo, hi; /* the bytes, zero-padded; top byte of hi: length, and whether it is a segment; 0: empty */
    u32 ids[4]; /* number of ids - 1 in the two top bits of the first */
} Cached;

typedef struct { /* for pieces of 16 to 31 bytes; segments are not kept here */
    u64 key[4];
    u32 ids[8]; /* number of ids - 1 in the three top bits of the first */
} CachedWide;

#define NOWHERE 0xFFFFFFFFu

typedef struct { /* a place in a chunk that scores segment; NOWHERE: it has not been reached */
    union {
        double sum; /* of the best way to it */
        float single; /* in single precision */
        u64 next;   /* then the next place of the best path */
    };
    u32 from, piece; /* the last piece of the best way */
} Place;

typedef struct {
    Cached *entries;
    CachedWide *wide;
    u64 slots, used, wide_slots, wide_used; /* slots are fewer than 2**32 */
    Scratch scratch;
    Ids out, inner;
    Place *places; /* of a long chunk */
    u64 places_size;
    u8 *text; /* a long piece of characters with its end of word */
    u64 text_size;
    Told told;
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
    ids_free(&c->inner);
    free(c->places);
    free(c->text);
}

static inline u64 slot_of(u64 hash, u64 slots) { return (hash >> 32) * slots >> 32; }

/* Between calls: the memory of unusual documents is given back. */
static inline void cache_rest(Cache *c) {
    if (scratch_bytes(&c->scratch) > KEPT) scratch_free(&c->scratch);
    if (4 * c->out.size > KEPT) ids_free(&c->out);
    if (sizeof(Place) * c->places_size > KEPT) {
        free(c->places);
        c->places = NULL;
        c->places_size = 0;
    }
    if (4 * c->inner.size + c->text_size > KEPT) {
        ids_free(&c->inner);
        free(c->text);
        c->text = NULL;
        c->text_size = 0;
    }
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

static inline u64 slot_of_wide(const Cache *c, const u64 *key) {
    u64 hash = mix(key[0] ^ 0x9E3779B97F4A7C15ull, key[1] ^ 0xC2B2AE3D27D4EB4Full);
    return slot_of(mix(hash ^ key[2], key[3] ^ 0x165667B19E3779F9ull), c->wide_slots);
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
    return slot_of_wide(c, key);
}

/* Where a piece that is not there is put: its slot, or that of the piece that goes. */
static inline Cached *claim_short(Cache *c, Cached *e, PieceKey key) {
    if (!e->hi && 4 * (c->used + 1) > 3 * c->slots) {
        memset(c->entries, 0, c->slots * sizeof(Cached));
        c->used = 0;
        e = &c->entries[key.slot];
    }
    c->used += !e->hi;
    e->lo = key.lo;
    e->hi = key.hi;
    return e;
}

static inline CachedWide *claim_wide(Cache *c, CachedWide *e, const u64 *key, u64 slot) {
    if (!e->key[3] && 4 * (c->wide_used + 1) > 3 * c->wide_slots) {
        memset(c->wide, 0, c->wide_slots * sizeof(CachedWide));
        c->wide_used = 0;
        e = &c->wide[slot];
    }
    c->wide_used += !e->key[3];
    memcpy(e->key, key, sizeof e->key);
    return e;
}

#endif
