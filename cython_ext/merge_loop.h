/* The merge loop of byte-pair encoding on a table of distinct words with counts.
 *
 * Layout.  All words lie one after the other in `cells`, a SENTINEL before the first and after each.
 * Words of equal count are neighbours (a "group", higher counts first), so that the weight of a cell
 * follows from its position.  A token that spans several cells has its id in its first and its last
 * one: the token behind the one at i starts at i + span[id], the one before it ends at i - 1.
 *
 * Pairs.  A pair holds its exact count and the ascending list of positions where it was recorded.  An
 * entry is stale when its two cells no longer hold the pair (an id never comes back to a cell it left).
 * Ascending order merges runs such as aaaa from left to right.  During one merge the changes are
 * summed per neighbouring token, so the pair table is touched once per distinct neighbour.
 *
 * Epochs.  The count of an existing pair only falls, and a new pair is recorded whole at its birth:
 * whoever is born below a floor stays below it.  So pairs below `floor_count` are not recorded.  When
 * no pair of that count is left, the next epoch begins: cells are compacted (one per token; words that
 * are a single token drop out), all pairs are counted again, and the floor is lowered.
 *
 * Order.  A lazy 4-ary heap of (count, key): counts only fall, so an entry whose count is out of date
 * is put back with the true one, and an up-to-date one at the top is the best pair.
 *
 * The sum of a pair's occurrences can only overflow when pairs are first counted: a new pair never
 * counts more than the pair it came from.
 */
#ifndef BEAM_BPE_MERGE_LOOP_H
#define BEAM_BPE_MERGE_LOOP_H

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
enum { LOWEST_IDS = 0, GREATEST_BYTES = 1 };        /* tie rules */
enum { VOCABULARY_FULL = 0, NO_PAIRS = 1, BELOW_MIN_PAIR_COUNT = 2 }; /* why learning stopped */

#define SENTINEL 0xFFFFFFFFu
#define INSIDE 0xFFFFFFFEu /* a cell between the first and the last of a token: never read as an id */
#define NO_PAIR 0xFFFFFFFFu
#define BLOCK_SHIFT 8      /* cells per block of the group index: 2^8 */
#define SMALL_INPUT (1u << 20) /* cells below which one epoch is enough */
#define EPOCH_RATIO 1024   /* highest count of an epoch : its floor */
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
    u32 *length;     /* bytes, for max_length; saturates */
    u8 **spelling;   /* bytes, only under GREATEST_BYTES; the initial ones are set by the caller */
    /* parameters */
    i64 min_count;
    u32 max_length; /* bytes, inclusive */
    int tie_rule;
    Poll poll;
    void *context;
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
    u32 merges;
    u32 *merge_left, *merge_right;
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
        int order = memcmp(l->spelling[i], l->spelling[j], shorter(l->length[i], l->length[j]));
        if (order) return order > 0;
        if (l->length[i] != l->length[j]) return l->length[i] > l->length[j];
    }
    return 0;
}

static inline int better(const Loop *l, const HeapItem *a, const HeapItem *b) {
    if (a->count != b->count) return a->count > b->count;
    return l->tie_rule == LOWEST_IDS ? a->key < b->key : greater_bytes(l, a->key, b->key);
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

static inline int mergeable(const Loop *l, u32 a, u32 b) {
    return (u64)l->length[a] + l->length[b] <= l->max_length;
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
    l->n_pairs = l->n_heap = 0;
    map_free(l, &l->map);
}

/* ---- an epoch ------------------------------------------------------------------------------- */

/* One cell per token; drop the words that are a single token. */
static inline void compact(Loop *l) {
    u64 out = 1, i = 1;
    u32 g = 0;
    while (i < l->n_cells) {
        u64 start = out;
        while (i >= l->group_end[g]) l->group_end[g++] = out;
        for (u32 id; (id = l->cells[i]) != SENTINEL; i += l->span[id]) l->cells[out++] = id;
        i++;
        if (out - start < 2) out = start;
        else l->cells[out++] = SENTINEL;
    }
    while (g < l->groups) l->group_end[g++] = out;
    l->n_cells = out;
    for (u32 t = 0; t < l->tokens; t++) l->span[t] = 1;
    u32 *cells = (u32 *)realloc(l->cells, 4 * out); /* on failure the wider array stays */
    if (cells) l->cells = cells;
}

static inline void index_groups(Loop *l) {
    u32 g = 0;
    for (u64 block = 0; block <= l->n_cells >> BLOCK_SHIFT; block++) {
        while (g + 1 < l->groups && block << BLOCK_SHIFT >= l->group_end[g]) g++;
        l->block_group[block] = g;
    }
}

/* All pairs of an epoch, numbered as they are first seen, while they are counted. */
typedef struct {
    u64 *keys;
    i64 *counts;
    u32 *sizes;  /* occurrences */
    u32 *record; /* index in Loop.pairs, or NO_PAIR */
    u64 n, size;
    u32 *of_cell; /* number of the pair that starts at a cell; NULL while every key fits into 16 bits */
    PairMap map;  /* key -> number */
} Census;

static inline void census_free(Loop *l, Census *c) {
    account(l, c->size * 24 + (c->of_cell ? 4 * l->n_cells : 0), 0);
    free(c->keys);
    free(c->counts);
    free(c->sizes);
    free(c->record);
    free(c->of_cell);
    map_free(l, &c->map);
    memset(c, 0, sizeof *c);
}

static inline int census_widen(Loop *l, Census *c, u64 size) {
    u64 *keys = (u64 *)realloc(c->keys, 8 * size);
    if (keys) c->keys = keys;
    i64 *counts = (i64 *)realloc(c->counts, 8 * size);
    if (counts) c->counts = counts;
    u32 *sizes = (u32 *)realloc(c->sizes, 4 * size);
    if (sizes) c->sizes = sizes;
    u32 *record = (u32 *)realloc(c->record, 4 * size);
    if (record) c->record = record;
    if (!keys || !counts || !sizes || !record) return OUT_OF_MEMORY;
    account(l, c->size * 24, size * 24);
    c->size = size;
    return 0;
}

static inline void census_start(Census *c, u64 number, u64 key) {
    c->keys[number] = key;
    c->counts[number] = 0;
    c->sizes[number] = 0;
}

/* With up to 256 symbols the number of a pair is its two ids; otherwise the map gives it. */
static inline int census_init(Loop *l, Census *c) {
    memset(c, 0, sizeof *c);
    int error = census_widen(l, c, 1 << 16);
    if (error) return error;
    if (l->tokens <= 256) {
        for (u64 i = 0; i < 1 << 16; i++) census_start(c, i, i >> 8 << 32 | (i & 255));
        c->n = 1 << 16;
        return 0;
    }
    if (!(c->of_cell = (u32 *)large_array(4 * l->n_cells))) return OUT_OF_MEMORY;
    account(l, 0, 4 * l->n_cells);
    return map_init(l, &c->map, 1 << 17);
}

static inline int add_to_census(Loop *l, Census *c, u64 number, i64 weight, i64 *highest) {
    if (__builtin_add_overflow(c->counts[number], weight, &c->counts[number])) {
        l->overflow_left = (u32)(c->keys[number] >> 32);
        l->overflow_right = (u32)c->keys[number];
        return COUNT_OVERFLOW;
    }
    if (c->counts[number] > *highest) *highest = c->counts[number];
    c->sizes[number]++;
    return 0;
}

enum { LOOK_AHEAD = 64 }; /* cells whose map slots are fetched from memory together */

/* Count every pair of neighbouring cells (one per token). */
static inline int take_census(Loop *l, Census *c, i64 *highest) {
    u64 keys[LOOK_AHEAD], work = 0;
    u32 g = 0;
    int error;
    for (u64 start = 1; start + 1 < l->n_cells; start += LOOK_AHEAD) {
        u64 stop = start + LOOK_AHEAD < l->n_cells - 1 ? start + LOOK_AHEAD : l->n_cells - 1;
        if ((work += LOOK_AHEAD) % POLL_WORK == 0 && l->poll(l->context, l->merges, 0)) return INTERRUPTED;
        for (u64 i = start; i < stop; i++) {
            u32 a = l->cells[i], b = l->cells[i + 1];
            int pair = a != SENTINEL && b != SENTINEL && mergeable(l, a, b);
            keys[i - start] = pair ? (u64)a << 32 | b : ~0ull;
            if (pair && c->of_cell) __builtin_prefetch(&c->map.keys[mix_key(keys[i - start]) & (c->map.slots - 1)]);
        }
        if (!c->of_cell) {
            for (u64 i = start; i < stop; i++) {
                while (i >= l->group_end[g]) g++;
                u64 key = keys[i - start];
                if (key == ~0ull) continue;
                if ((error = add_to_census(l, c, key >> 24 | (key & 255), l->group_count[g], highest))) return error;
            }
            continue;
        }
        for (u64 i = start; i < stop; i++) {
            c->of_cell[i] = NO_PAIR;
            if (keys[i - start] == ~0ull) continue;
            u64 before = c->map.used;
            i64 s = map_enter(l, &c->map, keys[i - start]);
            if (s < 0) return OUT_OF_MEMORY;
            if (c->map.used != before) {
                if (c->n == c->size && (error = census_widen(l, c, 2 * c->size))) return error;
                if (c->n == NO_PAIR) return OUT_OF_MEMORY;
                census_start(c, c->n, keys[i - start]);
                c->map.values[s] = (u32)c->n++;
            }
            c->of_cell[i] = c->map.values[s];
            __builtin_prefetch(&c->counts[c->of_cell[i]], 1);
            __builtin_prefetch(&c->sizes[c->of_cell[i]], 1);
        }
        for (u64 i = start; i < stop; i++) {
            while (i >= l->group_end[g]) g++;
            if (c->of_cell[i] == NO_PAIR) continue;
            if ((error = add_to_census(l, c, c->of_cell[i], l->group_count[g], highest))) return error;
        }
    }
    return 0;
}

/* The floor below which pairs are not recorded in this epoch: high enough to save memory and time,
 * low enough that the epochs are few.  Any floor gives the same merges.  The remaining merges will
 * hardly need a count below half of that of the as-many-th pair there is. */
static inline i64 choose_floor(const Loop *l, const Census *c, i64 highest, u32 most) {
    i64 floor_count = highest / EPOCH_RATIO;
    u64 pairs_of[64] = {0}, left = most - l->merges; /* by the power of two of their counts */
    if (l->n_cells < SMALL_INPUT) return l->min_count;
    for (u64 i = 0; i < c->n; i++)
        if (c->counts[i]) pairs_of[63 - __builtin_clzll((u64)c->counts[i])]++;
    for (int power = 63; power > 0; power--) {
        if (pairs_of[power] > left) {
            i64 likely = (i64)1 << (power - 1);
            if (likely > floor_count) floor_count = likely;
            break;
        }
        left -= pairs_of[power];
    }
    return floor_count > l->min_count ? floor_count : l->min_count;
}

/* Record the pairs whose count reaches the floor, with the positions where they start. */
static inline int record_pairs(Loop *l, Census *c) {
    u64 recorded = 0, slots = 1 << 10;
    int error;
    for (u64 i = 0; i < c->n; i++) recorded += c->counts[i] >= l->floor_count;
    while (slots < 4 * recorded) slots *= 2;
    if ((error = map_init(l, &l->map, slots))) return error;
    for (u64 i = 0; i < c->n; i++) {
        c->record[i] = NO_PAIR;
        if (c->counts[i] < l->floor_count) continue;
        i64 p = new_pair(l, (u32)(c->keys[i] >> 32), (u32)c->keys[i], c->counts[i], c->sizes[i]);
        i64 s = p < 0 ? p : map_enter(l, &l->map, c->keys[i]);
        if (s < 0) return OUT_OF_MEMORY;
        l->map.values[s] = c->record[i] = (u32)p;
        if ((error = push(l, (HeapItem){c->counts[i], c->keys[i], (u32)p}))) return error;
    }
    for (u64 i = 1; i + 1 < l->n_cells; i++) { /* ascending, so every list is */
        if (i % POLL_WORK == 0 && l->poll(l->context, l->merges, 0)) return INTERRUPTED;
        u32 number;
        if (c->of_cell) number = c->of_cell[i];
        else {
            u32 a = l->cells[i], b = l->cells[i + 1];
            number = a == SENTINEL || b == SENTINEL ? NO_PAIR : a << 8 | b;
        }
        if (number == NO_PAIR || c->record[number] == NO_PAIR) continue;
        Pair *p = &l->pairs[c->record[number]];
        p->positions[p->size++] = (u32)i;
    }
    return 0;
}

/* Count all pairs, choose the floor, record the pairs above it and make the heap. */
static inline int begin_epoch(Loop *l, u32 most) {
    Census c;
    i64 highest = 0;
    free_pairs(l);
    if (l->floor_count) { /* not the first epoch */
        u64 before = l->n_cells;
        compact(l);
        account(l, 4 * before, 4 * l->n_cells);
    }
    index_groups(l);
    int error = census_init(l, &c);
    if (!error) error = take_census(l, &c, &highest);
    if (!error) {
        map_free(l, &c.map);
        l->floor_count = choose_floor(l, &c, highest, most);
        error = record_pairs(l, &c);
    }
    census_free(l, &c);
    return error;
}

/* ---- a merge -------------------------------------------------------------------------------- */

/* Take the changes on one side of the merge of (a, b) into token x: for each neighbour the count of
 * its pair with the old token falls, and its pair with the new token is born. */
static inline int settle(Loop *l, Neighbour *side, u32 *touched, u32 n_touched, Event *events, u64 n_events,
                         int is_left, u32 old, u32 x, u64 merged_key) {
    int error = 0;
    for (u32 i = 0; i < n_touched; i++) {
        u32 t = touched[i];
        u64 old_key = is_left ? (u64)t << 32 | old : (u64)old << 32 | t;
        u64 new_key = is_left ? (u64)t << 32 | x : (u64)x << 32 | t;
        if (old_key != merged_key) {
            u64 s = map_slot(&l->map, old_key);
            if (l->map.keys[s] == old_key) {
                Pair *p = &l->pairs[l->map.values[s]];
                p->count -= side[t].count;
                if (p->count < l->floor_count) forget_positions(l, p);
            }
        }
        side[t].pair = NO_PAIR;
        if (error || side[t].count < l->floor_count || !mergeable(l, (u32)(new_key >> 32), (u32)new_key)) continue;
        i64 p = new_pair(l, (u32)(new_key >> 32), (u32)new_key, side[t].count, side[t].occurrences);
        i64 s = p < 0 ? p : map_enter(l, &l->map, new_key);
        if (s < 0) {
            error = OUT_OF_MEMORY;
            continue;
        }
        l->map.values[s] = side[t].pair = (u32)p;
        error = push(l, (HeapItem){side[t].count, new_key, (u32)p});
    }
    for (u64 e = 0; e < n_events; e++) {
        u32 pair = side[events[e].neighbour].pair;
        if (pair == NO_PAIR) continue;
        Pair *p = &l->pairs[pair];
        p->positions[p->size++] = events[e].position;
    }
    for (u32 i = 0; i < n_touched; i++) side[touched[i]] = (Neighbour){0, 0, 0};
    return error;
}

static inline void note(Neighbour *side, u32 *touched, u32 *n_touched, Event *events, u64 *n_events,
                        u32 neighbour, u32 position, i64 weight) {
    if (!side[neighbour].occurrences++) touched[(*n_touched)++] = neighbour;
    side[neighbour].count += weight;
    events[(*n_events)++] = (Event){neighbour, position};
}

static inline int merge(Loop *l, u32 pair) {
    const u32 a = l->pairs[pair].left, b = l->pairs[pair].right, x = l->tokens, n = l->pairs[pair].size;
    const u32 span_a = l->span[a], span_b = l->span[b], span_x = span_a + span_b;
    const u64 key = (u64)a << 32 | b;
    u32 *cells = l->cells, *positions = l->pairs[pair].positions;
    u32 n_left = 0, n_right = 0, g = 0;
    u64 left_events = 0, right_events = 0;
    i64 replaced = 0;
    if (n > l->events_size) {
        Event *e = (Event *)realloc(l->left_events, n * sizeof(Event));
        if (e) l->left_events = e;
        Event *f = (Event *)realloc(l->right_events, n * sizeof(Event));
        if (f) l->right_events = f;
        if (!e || !f) return OUT_OF_MEMORY;
        account(l, 2 * l->events_size * sizeof(Event), 2 * (u64)n * sizeof(Event));
        l->events_size = n;
    }
    if (l->tie_rule == GREATEST_BYTES) {
        u8 *spelling = (u8 *)malloc((u64)l->length[a] + l->length[b]);
        if (!spelling) return OUT_OF_MEMORY;
        account(l, 0, (u64)l->length[a] + l->length[b]);
        memcpy(spelling, l->spelling[a], l->length[a]);
        memcpy(spelling + l->length[a], l->spelling[b], l->length[b]);
        l->spelling[x] = spelling;
    }
    l->span[x] = span_x;
    u64 bytes = (u64)l->length[a] + l->length[b];
    l->length[x] = bytes < UINT32_MAX ? (u32)bytes : UINT32_MAX;
    l->tokens++;
    for (u32 q = 0; q < n; q++) {
        if (q + 24 < n) __builtin_prefetch(&cells[positions[q + 24]], 1);
        const u32 i = positions[q], j = i + span_a, k = j + span_b;
        if (cells[i] != a || cells[j] != b) continue; /* stale */
        if (l->block_group[i >> BLOCK_SHIFT] > g) g = l->block_group[i >> BLOCK_SHIFT];
        while (i >= l->group_end[g]) g++;
        const i64 weight = l->group_count[g];
        const u32 before = cells[i - 1], behind = cells[k];
        replaced += weight;
        /* Invariant: positions below i that hold (a, b) have become x.  A run of pairs: the pair behind
         * becomes x in its turn and then finds this x before it, so it is noted once, there. */
        if (before != SENTINEL)
            note(l->left, l->left_touched, &n_left, l->left_events, &left_events, before, i - l->span[before], weight);
        if (behind != SENTINEL && !(behind == a && cells[k + span_a] == b))
            note(l->right, l->right_touched, &n_right, l->right_events, &right_events, behind, i, weight);
        cells[j - 1] = INSIDE;
        cells[j] = INSIDE;
        cells[i] = x;
        cells[k - 1] = x;
        if (++l->work % POLL_WORK == 0 && l->poll(l->context, l->merges, l->pairs[pair].count)) {
            /* The state is torn within this merge; the caller must give the loop up. */
            return INTERRUPTED;
        }
    }
    l->merge_left[l->merges] = a;
    l->merge_right[l->merges] = b;
    l->merge_count[l->merges] = l->pairs[pair].count;
    l->merge_replaced[l->merges] = replaced;
    l->merges++;
    l->pairs[pair].count = 0;
    forget_positions(l, &l->pairs[pair]);
    /* Where x stands before x, the old pair was (b, a), not (x, a): move that loss to its place. */
    Neighbour runs = l->left[x];
    if (runs.occurrences) {
        u64 old_key = (u64)b << 32 | a, s = map_slot(&l->map, old_key);
        if (old_key != key && l->map.keys[s] == old_key) {
            Pair *p = &l->pairs[l->map.values[s]];
            p->count -= runs.count;
            if (p->count < l->floor_count) forget_positions(l, p);
        }
    }
    int error = settle(l, l->left, l->left_touched, n_left, l->left_events, left_events, 1, a, x, key);
    if (error) return error;
    return settle(l, l->right, l->right_touched, n_right, l->right_events, right_events, 0, b, x, key);
}

static inline int any_pair(const Loop *l) {
    for (u64 i = 1; i + 1 < l->n_cells; i += l->cells[i] == SENTINEL ? 1 : l->span[l->cells[i]]) {
        if (l->cells[i] == SENTINEL) continue;
        u32 next = l->cells[i + l->span[l->cells[i]]];
        if (next != SENTINEL && mergeable(l, l->cells[i], next)) return 1;
    }
    return 0;
}

/* Learn merges until there are `most`; returns why it stopped, or an error. */
static inline int learn(Loop *l, u32 most) {
    int error = begin_epoch(l, most);
    if (error) return error;
    while (l->merges < most) {
        if (!l->n_heap) {
            if (l->floor_count <= l->min_count) return any_pair(l) ? BELOW_MIN_PAIR_COUNT : NO_PAIRS;
            if ((error = begin_epoch(l, most))) return error;
            continue;
        }
        HeapItem top = l->heap[0];
        Pair *p = &l->pairs[top.pair];
        if (p->count < l->floor_count) drop_top(l);
        else if (p->count != top.count) {
            l->heap[0].count = p->count;
            sift_down(l, 0);
        } else {
            drop_top(l);
            if ((error = merge(l, top.pair))) return error;
            if (l->merges % 64 == 0 && l->poll(l->context, l->merges, top.count)) return INTERRUPTED;
        }
    }
    return VOCABULARY_FULL;
}

#endif
