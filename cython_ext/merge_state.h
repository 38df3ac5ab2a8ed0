/* What the merge loop works on, and the small pieces it is made of: memory, the pair map, the heap.
 * merge_loop.h tells how they play together. */
#ifndef BEAM_BPE_MERGE_STATE_H
#define BEAM_BPE_MERGE_STATE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t i64;

enum { OUT_OF_MEMORY = -1, COUNT_OVERFLOW = -2, INTERRUPTED = -3 };
enum { LOWEST_IDS = 0, GREATEST_BYTES = 1, SHORTEST = 2 }; /* tie rules of the order by count */
enum { VOCABULARY_FULL = 0, NO_PAIRS = 1, BELOW_MIN_PAIR_COUNT = 2 }; /* why learning stopped */

#define SENTINEL 0xFFFFFFFFu
#define INSIDE 0xFFFFFFFEu /* a cell between the first and the last of a token: never read as an id */
#define NO_PAIR 0xFFFFFFFFu
#define NO_TOKEN 0xFFFFFFFFu
#define ANY_SCRIPT 0       /* goes with all */
#define SCRIPT_BEFORE 1    /* of an inherited script: that of the character before */
#define BLOCK_SHIFT 8      /* cells per block of the group index: 2^8 */
#define SMALL_INPUT (1u << 20) /* cells below which one epoch is enough */
#define EPOCH_RATIO 1024   /* highest count of an epoch : its floor */
#define SHORT_EPOCH 32     /* merges prepared for after a token was renamed */
#define POLL_WORK (1 << 20) /* occurrences between two calls of poll */

typedef struct {
    i64 count;
    u32 left, right;
    u32 *positions;
    u32 size; /* positions recorded */
} Pair;

typedef struct {
    i64 count; /* when pushed: never below the pair's own */
    u64 key;   /* left << 32 | right */
    u32 pair;
} HeapItem;

typedef struct { /* changes of the merge at work, per neighbouring token; all 0 between merges */
    i64 count;
    u32 occurrences;
    u32 pair; /* the new pair, or NO_PAIR where it is not recorded */
} Neighbour;

typedef struct {
    u32 neighbour, position;
} Event;

typedef struct { /* an open-addressing map of pair keys; the key ~0 is no pair's */
    u64 *keys;
    u32 *values; /* the pair's number */
    u64 slots, used;
} PairMap;

typedef struct { /* a pair under the order by likelihood, which is count / product */
    unsigned __int128 product; /* frequency of the left token times that of the right one */
    i64 count;
    u32 pair;
} Scored;

typedef struct { /* of a pair: its place in the heap of scores, and the next pair of the same left or right token */
    u32 place, next_of_left, next_of_right;
} Links;

typedef int (*Poll)(void *context, u64 merges, i64 count);

typedef struct {
    /* what is learned from */
    u32 *cells;
    u64 n_cells;
    u32 groups;
    i64 *group_count; /* descending */
    u64 *group_end;   /* one past the last cell of the group's words */
    u32 *block_group; /* group of the first cell of each block */
    /* tokens */
    u32 tokens, capacity;
    u32 *span;       /* cells, in this epoch */
    u32 *length;     /* bytes or characters, for max_length; saturates */
    u8 **spelling;   /* of initial tokens, set by the caller; of merges only if spelled() */
    u32 *size;       /* bytes of the spelling */
    /* parameters */
    i64 min_count;
    u32 max_length; /* inclusive */
    int tie_rule;
    const u8 **excluded; /* spellings that no merge may make, by open addressing (merge_spelling.h); NULL: none */
    u32 *excluded_size;
    u64 excluded_slots; /* 0 if there are none */
    Poll poll;
    void *context;
    /* text: a spelling can arise twice (merge_spelling.h) */
    int text;
    u8 *prefix; /* of continuing pieces: the right part of a merge loses it */
    u32 prefix_size;
    u32 reserved;     /* tokens with lower ids have spellings that no merge may make */
    u8 *used;         /* whether a token stands, or has stood, in cells */
    u32 *by_spelling; /* open addressing: id + 1, or 0 */
    u64 spelling_slots;
    u8 *first_script, *last_script; /* of a token, where no token is of two; else NULL */
    u32 twin; /* what the newest token is renamed to when the next epoch begins, or NO_TOKEN */
    /* the order by likelihood (merge_likelihood.h), if frequency is given */
    i64 *frequency; /* occurrences of a token, words of one token included */
    u32 *first_of_left, *first_of_right; /* lists of the pairs of a token */
    Links *links;                        /* by pair */
    u32 links_size;
    Scored *scored;
    u32 n_scored, scored_size;
    /* pairs of this epoch */
    i64 floor_count;
    Pair *pairs;
    u32 n_pairs, pairs_size;
    PairMap map;
    HeapItem *heap;
    u32 n_heap, heap_size;
    /* the merge at work */
    Neighbour *left, *right;
    u32 *left_touched, *right_touched;
    Event *left_events, *right_events;
    u64 events_size;
    u64 work, bytes, peak_bytes;
    /* what was learned */
    u32 merges, merges_size;
    u32 *merge_left, *merge_right, *merge_made;
    i64 *merge_count, *merge_replaced;
    u32 overflow_left, overflow_right;
} Loop;

/* ---- memory, with its peak ------------------------------------------------------------------ */

static inline void account(Loop *l, u64 less, u64 more) {
    l->bytes += more - less;
    if (l->bytes > l->peak_bytes) l->peak_bytes = l->bytes;
}

/* Big arrays that are read at random are bound by TLB misses: ask for huge pages. */
static inline void *large_array(u64 bytes) {
    void *p = NULL;
    if (posix_memalign(&p, bytes >= (1u << 22) ? (1u << 21) : 64, bytes ? bytes : 64)) return NULL;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (bytes >= (1u << 22)) madvise(p, bytes, MADV_HUGEPAGE);
#endif
    return p;
}

static inline u64 mix_key(u64 x) {
    x *= 0x9E3779B97F4A7C15ull;
    return x ^ x >> 32;
}

static inline void map_free(Loop *l, PairMap *m) {
    account(l, m->slots * 12, 0);
    free(m->keys);
    free(m->values);
    memset(m, 0, sizeof *m);
}

static inline int map_init(Loop *l, PairMap *m, u64 slots) {
    m->keys = (u64 *)large_array(8 * slots);
    m->values = (u32 *)large_array(4 * slots);
    m->slots = slots;
    m->used = 0;
    account(l, 0, slots * 12);
    if (!m->keys || !m->values) {
        map_free(l, m);
        return OUT_OF_MEMORY;
    }
    memset(m->keys, 0xFF, 8 * slots);
    return 0;
}

/* The slot of the key, or the empty one where it belongs. */
static inline u64 map_slot(const PairMap *m, u64 key) {
    u64 s = mix_key(key) & (m->slots - 1);
    while (m->keys[s] != key && m->keys[s] != ~0ull) s = (s + 1) & (m->slots - 1);
    return s;
}

static inline int map_grow(Loop *l, PairMap *m) {
    PairMap wider;
    int error = map_init(l, &wider, m->slots * 2);
    if (error) return error;
    for (u64 s = 0; s < m->slots; s++) {
        if (m->keys[s] == ~0ull) continue;
        u64 t = map_slot(&wider, m->keys[s]);
        wider.keys[t] = m->keys[s];
        wider.values[t] = m->values[s];
    }
    wider.used = m->used;
    map_free(l, m);
    *m = wider;
    return 0;
}

/* Enter a key, which is not there yet or has its slot returned. */
static inline i64 map_enter(Loop *l, PairMap *m, u64 key) {
    u64 s = map_slot(m, key);
    if (m->keys[s] == key) return (i64)s;
    if (3 * (m->used + 1) > 2 * m->slots) {
        if (map_grow(l, m)) return OUT_OF_MEMORY;
        s = map_slot(m, key);
    }
    m->keys[s] = key;
    m->values[s] = 0;
    m->used++;
    return (i64)s;
}

/* ---- the heap ------------------------------------------------------------------------------- */

static inline u32 shorter(u32 a, u32 b) { return a < b ? a : b; }

/* Whether the left and right bytes of key a come after those of key b. */
static inline int greater_bytes(const Loop *l, u64 a, u64 b) {
    u32 i = (u32)(a >> 32), j = (u32)(b >> 32);
    for (int side = 0; side < 2; side++, i = (u32)a, j = (u32)b) {
        if (i == j) continue;
        int order = memcmp(l->spelling[i], l->spelling[j], shorter(l->size[i], l->size[j]));
        if (order) return order > 0;
        if (l->size[i] != l->size[j]) return l->size[i] > l->size[j];
    }
    return 0;
}

/* Whether what key a makes is shorter than what key b makes, or as long and smaller. */
static inline int shorter_or_smaller(const Loop *l, u64 a, u64 b) {
    const u32 i[2] = {(u32)(a >> 32), (u32)a}, j[2] = {(u32)(b >> 32), (u32)b};
    const u64 length = (u64)l->length[i[0]] + l->length[i[1]], other = (u64)l->length[j[0]] + l->length[j[1]];
    if (length != other) return length < other;
    u32 x = 0, y = 0, n = l->size[i[0]], m = l->size[j[0]]; /* the parts at work, and their bytes that are left */
    for (;;) {
        const u32 common = shorter(n, m);
        int order = memcmp(l->spelling[i[x]] + (l->size[i[x]] - n), l->spelling[j[y]] + (l->size[j[y]] - m), common);
        if (order) return order < 0;
        n -= common;
        m -= common;
        if (!n && ++x < 2) n = l->size[i[x]];
        if (!m && ++y < 2) m = l->size[j[y]];
        if (x == 2 || y == 2) return x != y ? x == 2 : a < b;
    }
}

static inline int better(const Loop *l, const HeapItem *a, const HeapItem *b) {
    if (a->count != b->count) return a->count > b->count;
    if (l->tie_rule == LOWEST_IDS) return a->key < b->key;
    return l->tie_rule == GREATEST_BYTES ? greater_bytes(l, a->key, b->key) : shorter_or_smaller(l, a->key, b->key);
}

static inline void sift_down(Loop *l, u32 i) {
    HeapItem item = l->heap[i];
    for (;;) {
        u64 child = 4 * (u64)i + 1, stop = child + 4 < l->n_heap ? child + 4 : l->n_heap, best = child;
        if (child >= l->n_heap) break;
        for (u64 c = child + 1; c < stop; c++)
            if (better(l, &l->heap[c], &l->heap[best])) best = c;
        if (!better(l, &l->heap[best], &item)) break;
        l->heap[i] = l->heap[best];
        i = (u32)best;
    }
    l->heap[i] = item;
}

static inline void drop_top(Loop *l) {
    l->heap[0] = l->heap[--l->n_heap];
    if (l->n_heap) sift_down(l, 0);
}

static inline int push(Loop *l, HeapItem item) {
    if (l->n_heap == l->heap_size) {
        u32 size = 2 * l->heap_size + 1024;
        HeapItem *heap = (HeapItem *)realloc(l->heap, size * sizeof *heap);
        if (!heap) return OUT_OF_MEMORY;
        account(l, l->heap_size * sizeof *heap, size * sizeof *heap);
        l->heap = heap;
        l->heap_size = size;
    }
    u32 i = l->n_heap++;
    while (i) {
        u32 parent = (i - 1) >> 2;
        if (!better(l, &item, &l->heap[parent])) break;
        l->heap[i] = l->heap[parent];
        i = parent;
    }
    l->heap[i] = item;
    return 0;
}

/* ---- pairs ---------------------------------------------------------------------------------- */

/* Whether no character of b is of another script than the one before it; a token that is all of inherited scripts
 * has none of its own. */
static inline int of_one_script(const Loop *l, u32 a, u32 b) {
    const u8 left = l->last_script[a], right = l->first_script[b];
    return left == right || left <= SCRIPT_BEFORE || right <= SCRIPT_BEFORE;
}

static inline int mergeable(const Loop *l, u32 a, u32 b) {
    return (u64)l->length[a] + l->length[b] <= l->max_length && (!l->first_script || of_one_script(l, a, b));
}

/* Give the merge x of (a, b) its scripts. */
static inline void join_scripts(Loop *l, u32 a, u32 b, u32 x) {
    l->first_script[x] = l->first_script[l->first_script[a] == SCRIPT_BEFORE ? b : a];
    l->last_script[x] = l->last_script[l->last_script[b] == SCRIPT_BEFORE ? a : b];
}

/* Record a pair with room for `size` positions and return its index; `size` of it starts at 0. */
static inline i64 new_pair(Loop *l, u32 a, u32 b, i64 count, u32 size) {
    if (l->n_pairs == l->pairs_size) {
        u32 more = 2 * l->pairs_size + 1024;
        Pair *pairs = (Pair *)realloc(l->pairs, more * sizeof *pairs);
        if (!pairs) return OUT_OF_MEMORY;
        account(l, l->pairs_size * sizeof *pairs, more * sizeof *pairs);
        l->pairs = pairs;
        l->pairs_size = more;
    }
    Pair *p = &l->pairs[l->n_pairs];
    p->positions = (u32 *)malloc(4 * (u64)size);
    if (!p->positions) return OUT_OF_MEMORY;
    account(l, 0, 4 * (u64)size + 16);
    p->count = count;
    p->left = a;
    p->right = b;
    p->size = 0;
    return l->n_pairs++;
}

static inline void forget_positions(Loop *l, Pair *p) {
    if (p->positions) account(l, 4 * (u64)p->size + 16, 0);
    free(p->positions);
    p->positions = NULL;
}

static inline void free_pairs(Loop *l) {
    for (u32 i = 0; i < l->n_pairs; i++) forget_positions(l, &l->pairs[i]);
    l->n_pairs = l->n_heap = l->n_scored = 0;
    map_free(l, &l->map);
}

#endif
