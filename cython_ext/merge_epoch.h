/* An epoch of the merge loop: compact the cells, count all pairs, record those above a floor. */
#ifndef BEAM_BPE_MERGE_EPOCH_H
#define BEAM_BPE_MERGE_EPOCH_H

#include "merge_likelihood.h"
#include "merge_spelling.h"

/* One cell per token; drop the words that are a single token.  The newest token becomes its twin, if it has one. */
static inline void compact(Loop *l) {
    const u32 renamed = l->twin == NO_TOKEN ? INSIDE : l->tokens - 1;
    u64 out = 1, i = 1;
    u32 g = 0;
    while (i < l->n_cells) {
        u64 start = out;
        while (i >= l->group_end[g]) l->group_end[g++] = out;
        for (u32 id; (id = l->cells[i]) != SENTINEL; i += l->span[id]) l->cells[out++] = id == renamed ? l->twin : id;
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
 * hardly need a count below half of that of the as-many-th pair there is.  Where a token was renamed the next one may
 * be soon, so few merges are prepared for. */
static inline i64 choose_floor(const Loop *l, const Census *c, i64 highest, u32 wanted, int short_epoch) {
    i64 floor_count = highest / EPOCH_RATIO;
    u64 pairs_of[64] = {0}, left = wanted; /* by the power of two of their counts */
    if (l->frequency || (l->n_cells < SMALL_INPUT && !short_epoch)) return l->min_count;
    if (short_epoch && left > SHORT_EPOCH) left = SHORT_EPOCH;
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
        if ((error = offer(l, c->counts[i], c->keys[i], (u32)p))) return error;
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
static inline int begin_epoch(Loop *l, u32 wanted) {
    Census c;
    i64 highest = 0;
    const int renamed = l->twin != NO_TOKEN;
    const i64 floor_before = renamed ? 0 : l->floor_count; /* no pair of that count is left, but of spellings that are forbidden */
    free_pairs(l);
    if (l->floor_count) { /* not the first epoch */
        u64 before = l->n_cells;
        compact(l);
        account(l, 4 * before, 4 * l->n_cells);
    }
    if (renamed) drop_renamed(l);
    index_groups(l);
    if (l->frequency) forget_lists(l);
    int error = census_init(l, &c);
    if (!error) error = take_census(l, &c, &highest);
    if (!error) {
        map_free(l, &c.map);
        l->floor_count = choose_floor(l, &c, highest, wanted, renamed);
        if (floor_before && l->floor_count > floor_before / 2)
            l->floor_count = floor_before / 2 > l->min_count ? floor_before / 2 : l->min_count;
        error = record_pairs(l, &c);
    }
    if (!error && l->frequency) error = order_by_score(l);
    census_free(l, &c);
    return error;
}

#endif
