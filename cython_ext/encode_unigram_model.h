/* What a Unigram encoder knows: scores, a trie of the pieces, and how pieces begin.
 *
 * Immutable once made, and it owns all that it points to.  The trie is of bytes; most steps into it are spared: a character
 * alone is found by its code point, and two characters, one of which is not ASCII, by a hash of both.
 */
#ifndef BEAM_BPE_ENCODE_UNIGRAM_MODEL_H
#define BEAM_BPE_ENCODE_UNIGRAM_MODEL_H

#include "encode_cache.h"
#include "encode_chunks.h"
#include "utf8.h"

#include <math.h>

#define PIECE_BITS 22 /* of the number of a piece or none */
#define FREE 0x100u /* the label of a place without a node, and of the root */
#define LABEL_BITS 9
#define LABEL_MASK ((1u << LABEL_BITS) - 1)

typedef struct { /* a node of a double array (Aoe 1989): that of a byte is at base + byte, if its label is that byte */
    u32 base;
    u32 piece; /* id, or the number of none, << LABEL_BITS | label */
} Branch;

typedef struct { /* a character: the number of its piece + 1, or 0; scores beside numbers are those of single precision */
    u32 piece;
    float score;
} Alone;

typedef struct { /* two characters with which pieces begin: `adjacency` << PIECE_BITS | their piece or none; 0: empty */
    u64 key;
    u32 base; /* of the node behind them; NOWHERE: nothing follows */
    float score;
} Joint;

typedef struct Unigram {
    Branch *branches; /* the root is 0 */
    Alone *alone;     /* by code point */
    u32 ascii[128];   /* the base of its node, else NOWHERE */
    Joint *joints;    /* by hash */
    u64 *joint_bits;  /* by hash: most of the pairs in text are none, and these bits stay near */
    u64 joint_mask;
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

static inline double magnitude(double x) { return x < 0 ? -x : x; }

static inline double rounded(double sum, int single) { return single ? (double)(float)sum : sum; }

/* ---- making it ------------------------------------------------------------------------------ */

static inline void unigram_free(Unigram *u) {
    free(u->branches);
    free(u->alone);
    free(u->joints);
    free(u->joint_bits);
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
            node->piece = keys[r.low++].id << LABEL_BITS | (node->piece & LABEL_MASK);
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

static inline u64 joint_hash(u64 key) { return mix(key, 0xC2B2AE3D27D4EB4Full); }

/* Where the search for what begins with two characters starts; NOWHERE: nothing does. */
static inline u32 joint_slot(const Unigram *u, u64 key) {
    u64 hash = joint_hash(key), bit = hash >> 32 & (8 * u->joint_mask + 7);
    return u->joint_bits[bit >> 6] >> (bit & 63) & 1 ? (u32)(hash & u->joint_mask) : NOWHERE;
}

static inline const Joint *joint_from(const Unigram *u, u64 slot, u64 key) {
    for (; u->joints[slot].key; slot = (slot + 1) & u->joint_mask)
        if (u->joints[slot].key >> PIECE_BITS == key) return &u->joints[slot];
    return NULL;
}

/* Note how pieces begin; the trie is there. */
static inline int beginnings_make(Unigram *u, const Key *keys, u32 n) {
    u->joint_mask = slots_for(n) - 1;
    u->alone = (Alone *)calloc(CODE_POINTS, sizeof *u->alone); /* most of it is never touched */
    u->joints = (Joint *)zeroed((u->joint_mask + 1) * sizeof *u->joints);
    u->joint_bits = (u64 *)zeroed(u->joint_mask + 1);
    if (!u->alone || !u->joints || !u->joint_bits) return OUT_OF_MEMORY;
    memset(u->ascii, 0xFF, sizeof u->ascii);
    for (u32 k = 0; k < n; k++) {
        const u8 *p = keys[k].bytes;
        if (*p < 0x80) u->ascii[*p] = u->branches[u->branches[0].base + *p].base;
        u64 length = character_bytes(*p), both;
        u32 code = code_point(p, length), node = 0;
        float score = (float)u->scores[keys[k].id];
        if (length == keys[k].length) {
            u->alone[code] = (Alone){keys[k].id + 1, score};
            continue;
        }
        both = length + character_bytes(p[length]);
        u64 key = adjacency(code, code_point(p + length, both - length)), hash = joint_hash(key), s = hash & u->joint_mask;
        u64 bit = hash >> 32 & (8 * u->joint_mask + 7);
        u->joint_bits[bit >> 6] |= (u64)1 << (bit & 63);
        while (u->joints[s].key && u->joints[s].key >> PIECE_BITS != key) s = (s + 1) & u->joint_mask;
        if (both == keys[k].length) { /* it comes before those that it begins */
            u->joints[s] = (Joint){key << PIECE_BITS | keys[k].id, NOWHERE, score};
            continue;
        }
        if (!u->joints[s].key) u->joints[s] = (Joint){key << PIECE_BITS | u->none, NOWHERE, -INFINITY};
        for (u64 i = 0; i < both; i++) node = u->branches[node].base + p[i];
        u->joints[s].base = u->branches[node].base;
    }
    return 0;
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
    u->unk_score = unk_score = rounded(unk_score, single);
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
    if (!(error = branches_make(u, keys, n))) error = beginnings_make(u, keys, n);
done:
    free(keys);
    free(formed);
    return error;
}

#endif
