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
 * Text.  Where spellings have marks, one can arise twice: merge_spelling.h.  The other order, by likelihood, keeps all
 * pairs that reach min_count recorded, in one epoch: merge_likelihood.h.
 *
 * The sum of a pair's occurrences can only overflow when pairs are first counted: a new pair never
 * counts more than the pair it came from.
 */
#ifndef BEAM_BPE_MERGE_LOOP_H
#define BEAM_BPE_MERGE_LOOP_H

#include "merge_characters.h"
#include "merge_epoch.h"

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
        error = offer(l, side[t].count, new_key, (u32)p);
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

/* Make of a pair (a, b) the token x, wherever it stands. */
static inline int merge(Loop *l, u32 pair, const u32 x) {
    const u32 a = l->pairs[pair].left, b = l->pairs[pair].right, n = l->pairs[pair].size;
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
    l->span[x] = span_x;
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
    l->merge_made[l->merges] = l->twin == NO_TOKEN ? x : l->twin;
    l->merge_count[l->merges] = l->pairs[pair].count;
    l->merge_replaced[l->merges] = replaced;
    l->merges++;
    if (l->frequency) {
        l->frequency[a] -= replaced;
        l->frequency[b] -= replaced;
        l->frequency[x] = replaced;
        l->first_of_left[x] = l->first_of_right[x] = NO_PAIR;
    }
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

static inline int grow_merges(Loop *l) {
    u32 size = l->merges_size < UINT32_MAX / 2 ? 2 * l->merges_size + 1024 : UINT32_MAX;
    u32 **narrow[] = {&l->merge_left, &l->merge_right, &l->merge_made};
    i64 **wide[] = {&l->merge_count, &l->merge_replaced};
    for (int k = 0; k < 3; k++) {
        u32 *grown = (u32 *)realloc(*narrow[k], 4 * (u64)size);
        if (!grown) return OUT_OF_MEMORY;
        *narrow[k] = grown;
    }
    for (int k = 0; k < 2; k++) {
        i64 *grown = (i64 *)realloc(*wide[k], 8 * (u64)size);
        if (!grown) return OUT_OF_MEMORY;
        *wide[k] = grown;
    }
    account(l, 28 * (u64)l->merges_size, 28 * (u64)size);
    l->merges_size = size;
    return 0;
}

/* Whether a pair is left that could be merged if it were frequent enough. */
static inline int any_pair(Loop *l) {
    for (u64 i = 1; i + 1 < l->n_cells; i += l->cells[i] == SENTINEL ? 1 : l->span[l->cells[i]]) {
        if (l->cells[i] == SENTINEL) continue;
        u32 next = l->cells[i + l->span[l->cells[i]]];
        if (next == SENTINEL || !mergeable(l, l->cells[i], next)) continue;
        int forbidden = l->reserved || l->excluded_slots ? is_forbidden(l, l->cells[i], next) : 0;
        if (forbidden <= 0) return forbidden ? forbidden : 1;
    }
    return 0;
}

/* The best pair by count, or NO_PAIR where this epoch has none. */
static inline u32 most_frequent(Loop *l) {
    while (l->n_heap) {
        HeapItem top = l->heap[0];
        Pair *p = &l->pairs[top.pair];
        if (p->count < l->floor_count) drop_top(l);
        else if (p->count != top.count) {
            l->heap[0].count = p->count;
            sift_down(l, 0);
        } else {
            drop_top(l);
            return top.pair;
        }
    }
    return NO_PAIR;
}

static inline u32 distinct_tokens(const Loop *l) { return l->tokens - (l->twin != NO_TOKEN); }

/* Learn until there are `most` merges or `most_tokens` tokens; returns why it stopped, or an error. */
static inline int learn(Loop *l, u32 most, u32 most_tokens) {
    int error = 1; /* an epoch is to begin */
    while (l->merges < most && distinct_tokens(l) < most_tokens) {
        u32 left = most - l->merges, left_tokens = most_tokens - distinct_tokens(l);
        if (error && (error = begin_epoch(l, left < left_tokens ? left : left_tokens))) return error;
        u32 pair = l->frequency ? likeliest(l) : most_frequent(l), x;
        if (pair == NO_PAIR) {
            error = l->floor_count > l->min_count;
            if (error) continue;
            error = any_pair(l);
            return error < 0 ? error : error ? BELOW_MIN_PAIR_COUNT : NO_PAIRS;
        }
        const u32 a = l->pairs[pair].left, b = l->pairs[pair].right;
        const i64 count = l->pairs[pair].count;
        int named = name_merge(l, a, b, &x);
        if (named < 0) return named;
        if (named == FORBIDDEN) {
            l->pairs[pair].count = 0;
            forget_positions(l, &l->pairs[pair]);
            if (l->frequency && (error = rescore(l, a))) return error;
            continue;
        }
        if (l->merges == l->merges_size && (error = grow_merges(l))) return error;
        if ((error = merge(l, pair, x))) return error;
        if (l->twin != NO_TOKEN) error = 1;
        else if (l->frequency && ((error = rescore(l, a)) || (error = rescore(l, b)) || (error = rescore(l, x))))
            return error;
        if (l->merges % 64 == 0 && l->poll(l->context, l->merges, count)) return INTERRUPTED;
    }
    return VOCABULARY_FULL;
}

#endif
