/* What an encoder knows: tokens, the rank of each pair, whole tokens, and where no token can cross.
 *
 * Immutable once made, and it owns all that it points to.
 */
#ifndef BEAM_BPE_ENCODE_MODEL_H
#define BEAM_BPE_ENCODE_MODEL_H

#include "encode_trie.h"

#define NO_RANK 0xFFFFFFFFu
#define ID_BITS 21
#define RANK_BITS 22
enum { ADJACENT_BITS = 1 << 17 };
enum { PADDING = 16 }; /* bytes that may be read behind the last token */

typedef struct {
    u32 start, length; /* a token's bytes; a hole has none */
} Span;

typedef struct {
    u32 n_tokens, n_merges;
    u32 byte_id[256];
    u32 byte_pair[65536]; /* rank of a pair of bytes, by their values */
    u64 *pairs;           /* left (21 bits) | right (21) | rank + 1 (22); 0: empty */
    u64 pair_mask;
    u64 *pair_bits;       /* one bit of eight or more by hash of a pair: most pairs are none, and these bits stay near */
    u64 pair_bit_mask;
    u32 *merged;          /* id of the token that a merge makes, by rank */
    u64 *made;            /* the same by pair, as in `pairs`, where several tokens have one rank; NULL: none have */
    int ordered;          /* every part of a merge is a byte or made by an earlier merge */
    u8 *bytes;            /* of all tokens, and PADDING */
    Span *spans;
    u64 *whole;           /* set of tokens that whole pieces may be: id + 1 by hash of their bytes; NULL: none */
    u64 whole_mask;
    u64 *adjacent;        /* set of pairs of characters that stand side by side in a token, + 1 */
    u64 adjacent_mask;
    u64 adjacent_bits[ADJACENT_BITS / 64]; /* by hash: most pairs of characters in text are in no token */
    u64 torn[256 * 4];    /* bits: bytes that stand side by side in a token where one character is torn */
    Trie trie;            /* that of longest match, whose root is node 0; no edges: merge by rank */
    u32 never_dropped;    /* merges of lower ranks, which dropout leaves alone */
    const struct Characters *characters; /* what is merged are characters; NULL: bytes */
    const struct Pieces *pieces;         /* words are matched with pieces; NULL: merged */
    const struct Chunks *chunks;         /* whole texts are cut so; NULL: words are */
    const struct Unigram *unigram;       /* whole texts are segmented by scores; NULL: merged */
} Model;

static inline u64 slots_for(u64 entries) { /* a power of 2, at least twice as many */
    u64 slots = 1 << 10;
    while (slots < 2 * entries + 2) slots *= 2;
    return slots;
}

static inline u64 load64(const u8 *p) {
    u64 x;
    memcpy(&x, p, 8);
    return x;
}

static inline u32 load32(const u8 *p) {
    u32 x;
    memcpy(&x, p, 4);
    return x;
}

/* The n < 8 bytes at p, and none behind them. */
static inline u64 load_few(const u8 *p, u64 n) {
    if (n >= 4) return load32(p) | (u64)load32(p + n - 4) << (8 * (n - 4));
    if (!n) return 0;
    return p[0] | (u64)p[n >> 1] << (8 * (n >> 1)) | (u64)p[n - 1] << (8 * (n - 1));
}

static inline u64 hash_bytes(const u8 *p, u64 n) {
    u64 h = n * 0x9E3779B97F4A7C15ull, a, b = 0;
    for (; n > 16; p += 16, n -= 16) h = mix(load64(p) ^ 0xC2B2AE3D27D4EB4Full, load64(p + 8) ^ h);
    if (n >= 8) {
        a = load64(p);
        b = n == 16 ? load64(p + 8) : load_few(p + 8, n - 8);
    } else {
        a = load_few(p, n);
    }
    return mix(a ^ 0xA0761D6478BD642Full, b ^ h);
}

/* ---- tokens and pairs ----------------------------------------------------------------------- */

static inline u64 token_length(const Model *m, u32 id) { return m->spans[id].length; }
static inline const u8 *token_bytes(const Model *m, u32 id) { return m->bytes + m->spans[id].start; }

static inline u64 pair_hash(u32 a, u32 b) { return mix(((u64)a << 32 | b) ^ 0x9E3779B97F4A7C15ull, 0xC2B2AE3D27D4EB4Full); }

static inline u32 pair_value(const u64 *table, u64 mask, u64 hash, u32 a, u32 b) {
    u64 key = ((u64)a << ID_BITS | b) << RANK_BITS, slot;
    for (u64 s = hash & mask; (slot = table[s]); s = (s + 1) & mask)
        if ((slot ^ key) >> RANK_BITS == 0) return (u32)(slot & ((1u << RANK_BITS) - 1)) - 1;
    return NO_RANK;
}

static inline u32 pair_rank(const Model *m, u32 a, u32 b) {
    u64 hash = pair_hash(a, b), bit = hash >> 32 & m->pair_bit_mask;
    if (!(m->pair_bits[bit >> 6] >> (bit & 63) & 1)) return NO_RANK;
    return pair_value(m->pairs, m->pair_mask, hash, a, b);
}

/* The token that a pair of that rank makes. */
static inline u32 pair_made(const Model *m, u32 rank, u32 a, u32 b) {
    return m->made ? pair_value(m->made, m->pair_mask, pair_hash(a, b), a, b) : m->merged[rank];
}

static inline void pair_put(u64 *table, u64 mask, u64 hash, u32 a, u32 b, u32 value) {
    u64 s = hash & mask;
    while (table[s]) s = (s + 1) & mask;
    table[s] = ((u64)a << ID_BITS | b) << RANK_BITS | (value + 1);
}

/* Of two merges of one pair the first counts. */
static inline void pair_add(Model *m, u32 a, u32 b, u32 rank, u32 made) {
    if (pair_rank(m, a, b) != NO_RANK) return;
    u64 hash = pair_hash(a, b), bit = hash >> 32 & m->pair_bit_mask;
    m->pair_bits[bit >> 6] |= (u64)1 << (bit & 63);
    pair_put(m->pairs, m->pair_mask, hash, a, b, rank);
    if (m->made) pair_put(m->made, m->pair_mask, hash, a, b, made);
    m->merged[rank] = made;
    if (token_length(m, a) == 1 && token_length(m, b) == 1) {
        u8 x = *token_bytes(m, a), y = *token_bytes(m, b);
        if (m->byte_id[x] == a && m->byte_id[y] == b) m->byte_pair[x << 8 | y] = rank;
    }
}

static inline u32 whole_token(const Model *m, const u8 *p, u64 n) {
    u64 slot;
    for (u64 s = hash_bytes(p, n) & m->whole_mask; (slot = m->whole[s]); s = (s + 1) & m->whole_mask)
        if (token_length(m, (u32)slot - 1) == n && !memcmp(token_bytes(m, (u32)slot - 1), p, n)) return (u32)slot - 1;
    return NO_TOKEN;
}

/* Add a token to the set; return the one of the same bytes that is there already, else NO_TOKEN. */
static inline u32 whole_add(Model *m, u32 id) {
    const u8 *p = token_bytes(m, id);
    u64 n = token_length(m, id);
    u32 there = whole_token(m, p, n);
    if (there != NO_TOKEN) return there;
    u64 s = hash_bytes(p, n) & m->whole_mask;
    while (m->whole[s]) s = (s + 1) & m->whole_mask;
    m->whole[s] = (u64)id + 1;
    return NO_TOKEN;
}

static inline void model_free(Model *m) {
    free(m->pairs);
    free(m->pair_bits);
    free(m->merged);
    free(m->made);
    free(m->bytes);
    free(m->spans);
    free(m->whole);
    free(m->adjacent);
    free(m->trie.edges);
    memset(m, 0, sizeof *m);
}

/* Copy the tokens, which together are shorter than 4 GiB, and make room for the pairs; tied: several tokens may have
 * one rank. */
static inline int model_start(Model *m, u32 n_tokens, u32 n_merges, const u8 *tokens, const i64 *starts,
                              const u32 *byte_ids, int tied) {
    u64 first = (u64)starts[0], total = (u64)starts[n_tokens] - first, slots = slots_for(n_merges);
    m->n_tokens = n_tokens;
    m->n_merges = n_merges;
    m->bytes = (u8 *)calloc(total + PADDING, 1);
    m->spans = (Span *)malloc(sizeof(Span) * ((u64)n_tokens + 1));
    m->pairs = (u64 *)zeroed(8 * slots);
    m->pair_bits = (u64 *)zeroed(slots / 2); /* 4 bits for a slot */
    m->pair_bit_mask = 4 * slots - 1;
    m->merged = (u32 *)malloc(4 * ((u64)n_merges + 1));
    if (tied) m->made = (u64 *)zeroed(8 * slots);
    if (!m->bytes || !m->spans || !m->pairs || !m->pair_bits || !m->merged || (tied && !m->made)) return OUT_OF_MEMORY;
    if (total) memcpy(m->bytes, tokens + first, total);
    for (u32 i = 0; i < n_tokens; i++) {
        m->spans[i].start = (u32)((u64)starts[i] - first);
        m->spans[i].length = (u32)(starts[i + 1] - starts[i]);
    }
    m->pair_mask = slots - 1;
    memcpy(m->byte_id, byte_ids, sizeof m->byte_id);
    memset(m->byte_pair, 0xFF, sizeof m->byte_pair);
    return 0;
}

/* ---- merge barriers ------------------------------------------------------------------------- */

static inline u32 character_bytes(u8 lead) { return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4; }

static inline u32 code_point(const u8 *p, u64 n) {
    switch (n) {
        case 1: return p[0];
        case 2: return (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
        case 3: return (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
        default: return (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
    }
}

static inline u64 adjacency(u32 left, u32 right) { return ((u64)left << 21 | right) + 1; }

static inline u64 adjacency_slot(u64 key, u64 mask) { return mix(key, 0x9E3779B97F4A7C15ull) & mask; }

static inline int are_adjacent(const Model *m, u64 key) {
    u64 hash = mix(key, 0x9E3779B97F4A7C15ull), bit = hash >> 40 & (ADJACENT_BITS - 1);
    if (!(m->adjacent_bits[bit >> 6] >> (bit & 63) & 1)) return 0;
    for (u64 s = hash & m->adjacent_mask; m->adjacent[s]; s = (s + 1) & m->adjacent_mask)
        if (m->adjacent[s] == key) return 1;
    return 0;
}

/* Note each boundary between characters inside a token that can be formed: as a pair of characters where
 * both are whole, else as a pair of bytes (which stands for every pair of characters they may be of). */
static inline int model_barriers(Model *m, const u8 *formed) {
    u64 boundaries = 0, used = 0;
    for (u32 id = 0; id < m->n_tokens; id++)
        for (u64 i = 1; formed[id] && i < token_length(m, id); i++) boundaries += (token_bytes(m, id)[i] & 0xC0) != 0x80;
    u64 slots = slots_for(boundaries);
    if (!(m->adjacent = (u64 *)zeroed(8 * slots))) return OUT_OF_MEMORY;
    m->adjacent_mask = slots - 1;
    for (u32 id = 0; id < m->n_tokens; id++) {
        const u8 *start = token_bytes(m, id), *end = start + token_length(m, id);
        for (const u8 *at = start + 1; formed[id] && at < end; at++) {
            if ((*at & 0xC0) == 0x80) continue;
            const u8 *before = at - 1;
            while (before > start && at - before < 4 && (*before & 0xC0) == 0x80) before--;
            u64 left = valid_length(before, at), right = valid_length(at, end);
            if (left == (u64)(at - before) && right) {
                u64 key = adjacency(code_point(before, left), code_point(at, right));
                u64 s = adjacency_slot(key, m->adjacent_mask);
                while (m->adjacent[s] && m->adjacent[s] != key) s = (s + 1) & m->adjacent_mask;
                used += !m->adjacent[s];
                m->adjacent[s] = key;
                u64 bit = mix(key, 0x9E3779B97F4A7C15ull) >> 40 & (ADJACENT_BITS - 1);
                m->adjacent_bits[bit >> 6] |= (u64)1 << (bit & 63);
            } else {
                m->torn[at[-1] * 4 + (*at >> 6)] |= (u64)1 << (*at & 63);
            }
        }
    }
    /* Few of the boundaries are distinct: keep the set small enough for the caches. */
    u64 fewer = slots_for(used);
    if (fewer < slots) {
        u64 *set = (u64 *)zeroed(8 * fewer);
        if (!set) return OUT_OF_MEMORY;
        for (u64 i = 0; i < slots; i++) {
            if (!m->adjacent[i]) continue;
            u64 s = adjacency_slot(m->adjacent[i], fewer - 1);
            while (set[s]) s = (s + 1) & (fewer - 1);
            set[s] = m->adjacent[i];
        }
        free(m->adjacent);
        m->adjacent = set;
        m->adjacent_mask = fewer - 1;
    }
    return 0;
}

/* ---- the trie of longest match -------------------------------------------------------------- */

/* Of two tokens of the same bytes the first counts, but of one byte that of byte_id. */
static inline int model_trie(Model *m, const u8 *formed) {
    if (trie_start(&m->trie, 1)) return OUT_OF_MEMORY;
    for (u64 i = 0; i < 256 + (u64)m->n_tokens; i++) {
        u32 id = i < 256 ? m->byte_id[i] : (u32)(i - 256), node = 0;
        Edge *e = NULL;
        for (u64 k = 0; (i < 256 || formed[id]) && k < token_length(m, id); k++) {
            if (!(e = trie_add(&m->trie, node, token_bytes(m, id)[k]))) return OUT_OF_MEMORY;
            node = e->node;
        }
        if (e && e->token == NO_TOKEN) e->token = id;
    }
    return 0;
}

/* The longest token at p, and every byte is one.  Costs the length of the longest way into the trie. */
static inline u32 longest_match(const Model *m, const u8 *p, const u8 *end) {
    u32 node = 0, token = NO_TOKEN;
    while (p < end) {
        const Edge *e = trie_edge(&m->trie, node, *p++);
        if (!e) break;
        if (e->token != NO_TOKEN) token = e->token;
        node = e->node;
    }
    return token;
}

/* ---- the model ------------------------------------------------------------------------------ */

/* The caller has checked that ids, ranks and starts fit.  ranks: of each merge, never falling and below their number;
 * NULL: each has its own.  whole: nonzero where a piece that is exactly this token is this token, or NULL; tokens that
 * are neither made by a merge nor in it are never found. */
static inline int model_init(Model *m, u32 n_tokens, u32 n_merges, const u8 *tokens, const i64 *starts, const u32 *byte_ids,
                             const u32 *left, const u32 *right, const u32 *merged, const u32 *ranks, const u8 *whole,
                             int longest) {
    int error = model_start(m, n_tokens, n_merges, tokens, starts, byte_ids, ranks != NULL);
    u32 *made = (u32 *)malloc(4 * ((u64)n_tokens + 1)); /* rank of the first merge that makes a token */
    u8 *formed = (u8 *)calloc((u64)n_tokens + 1, 1);
    if (error || !made || !formed) {
        error = OUT_OF_MEMORY;
        goto done;
    }
    memset(made, 0xFF, 4 * ((u64)n_tokens + 1));
    for (int b = 0; b < 256; b++) made[m->byte_id[b]] = 0;
    m->ordered = !ranks;
    for (u32 r = 0; r < n_merges; r++) {
        formed[merged[r]] = 1;
        if (made[left[r]] > r || made[right[r]] > r) m->ordered = 0;
        if (made[merged[r]] != NO_RANK) m->ordered = 0; /* made twice, or a byte */
        else made[merged[r]] = r;
        pair_add(m, left[r], right[r], ranks ? ranks[r] : r, merged[r]);
    }
    if (whole && longest) {
        for (u32 id = 0; id < n_tokens; id++) formed[id] |= whole[id] != 0;
    } else if (whole) {
        u64 members = 0;
        for (u32 id = 0; id < n_tokens; id++) members += whole[id] && token_length(m, id);
        u64 slots = slots_for(members);
        if (members && !(m->whole = (u64 *)zeroed(8 * slots))) {
            error = OUT_OF_MEMORY;
            goto done;
        }
        m->whole_mask = slots - 1;
        for (u32 id = 0; id < n_tokens; id++)
            if (whole[id] && token_length(m, id)) whole_add(m, id);
    }
    error = model_barriers(m, formed);
    if (!error && longest) error = model_trie(m, formed);
done:
    free(made);
    free(formed);
    return error;
}

#endif
