/* The order of WordPiece: the pair with the highest count(xy) / (count(x) * count(y)) first.
 *
 * A merge of (a, b) lowers the counts of a and b, so the scores of all their other pairs rise: a lazy heap would miss
 * that.  Here every recorded pair has its place in a 4-ary heap, and every token the lists of its pairs.  After a merge
 * the pairs of a, b and the new token are put where they belong; no others have changed.  That costs their number times
 * the heap's depth; the pairs that are merged are mostly of rare tokens, which have few.
 *
 * Scores are compared as integers, c1 * p2 against c2 * p1, of up to 189 bits.  Of equal ones the pair with the higher
 * count comes first, then that with the smallest (left, right) spelling.
 */
#ifndef BEAM_BPE_MERGE_LIKELIHOOD_H
#define BEAM_BPE_MERGE_LIKELIHOOD_H

#include "merge_state.h"

typedef unsigned __int128 u128;

/* The sign of the difference of the scores. */
static inline int compare_scores(const Scored *x, const Scored *y) {
    const u64 c = (u64)x->count, d = (u64)y->count;
    if (!((x->product | y->product) >> 64)) {
        u128 p = (u128)c * (u64)y->product, q = (u128)d * (u64)x->product;
        return (p > q) - (p < q);
    }
    u128 low_p = (u128)c * (u64)y->product, low_q = (u128)d * (u64)x->product;
    u128 p = (u128)c * (u64)(y->product >> 64) + (low_p >> 64);
    u128 q = (u128)d * (u64)(x->product >> 64) + (low_q >> 64);
    if (p != q) return p > q ? 1 : -1;
    return ((u64)low_p > (u64)low_q) - ((u64)low_p < (u64)low_q);
}

static inline u64 key_of(const Loop *l, u32 pair) { return (u64)l->pairs[pair].left << 32 | l->pairs[pair].right; }

static inline int likelier(const Loop *l, const Scored *x, const Scored *y) {
    int sign = compare_scores(x, y);
    if (sign) return sign > 0;
    if (x->count != y->count) return x->count > y->count;
    return greater_bytes(l, key_of(l, y->pair), key_of(l, x->pair));
}

static inline void put_scored(Loop *l, u32 place, Scored item) {
    l->scored[place] = item;
    l->links[item.pair].place = place;
}

/* Move an item from an empty place up to where it belongs; returns where that is. */
static inline u32 scored_up(Loop *l, u32 place, Scored item) {
    while (place) {
        u32 parent = (place - 1) >> 2;
        if (!likelier(l, &item, &l->scored[parent])) break;
        put_scored(l, place, l->scored[parent]);
        place = parent;
    }
    put_scored(l, place, item);
    return place;
}

static inline void scored_down(Loop *l, u32 place, Scored item) {
    for (;;) {
        u64 child = 4 * (u64)place + 1, stop = child + 4 < l->n_scored ? child + 4 : l->n_scored, best = child;
        if (child >= l->n_scored) break;
        for (u64 c = child + 1; c < stop; c++)
            if (likelier(l, &l->scored[c], &l->scored[best])) best = c;
        if (!likelier(l, &l->scored[best], &item)) break;
        put_scored(l, place, l->scored[best]);
        place = (u32)best;
    }
    put_scored(l, place, item);
}

static inline void place_scored(Loop *l, u32 place, Scored item) {
    if (scored_up(l, place, item) == place) scored_down(l, place, item);
}

static inline Scored score_of(const Loop *l, u32 pair) {
    const Pair *p = &l->pairs[pair];
    return (Scored){(u128)(u64)l->frequency[p->left] * (u64)l->frequency[p->right], p->count, pair};
}

static inline int reserve_scored(Loop *l) {
    if (l->n_scored < l->scored_size) return 0;
    u32 size = 2 * l->scored_size + 1024;
    Scored *scored = (Scored *)realloc(l->scored, size * sizeof *scored);
    if (!scored) return OUT_OF_MEMORY;
    account(l, l->scored_size * sizeof *scored, size * sizeof *scored);
    l->scored = scored;
    l->scored_size = size;
    return 0;
}

/* Enter a pair into the lists of its tokens; it is not in the heap yet. */
static inline int link_pair(Loop *l, u32 pair) {
    if (pair >= l->links_size) {
        Links *links = (Links *)realloc(l->links, l->pairs_size * sizeof *links);
        if (!links) return OUT_OF_MEMORY;
        account(l, l->links_size * sizeof *links, l->pairs_size * sizeof *links);
        l->links = links;
        l->links_size = l->pairs_size;
    }
    const Pair *p = &l->pairs[pair];
    l->links[pair] = (Links){NO_PAIR, l->first_of_left[p->left], l->first_of_right[p->right]};
    l->first_of_left[p->left] = l->first_of_right[p->right] = pair;
    return 0;
}

/* A new pair: into the heap by count, or into the lists by which the heap of scores is kept. */
static inline int offer(Loop *l, i64 count, u64 key, u32 pair) {
    return l->frequency ? link_pair(l, pair) : push(l, (HeapItem){count, key, pair});
}

static inline void forget_lists(Loop *l) {
    memset(l->first_of_left, 0xFF, 4 * (u64)l->tokens);
    memset(l->first_of_right, 0xFF, 4 * (u64)l->tokens);
}

/* Make the heap of all recorded pairs. */
static inline int order_by_score(Loop *l) {
    for (l->n_scored = 0; l->n_scored < l->n_pairs; l->n_scored++) {
        if (reserve_scored(l)) return OUT_OF_MEMORY;
        put_scored(l, l->n_scored, score_of(l, l->n_scored));
    }
    for (u32 i = l->n_scored / 4 + 1; i-- > 0;)
        if (i < l->n_scored) scored_down(l, i, l->scored[i]);
    return 0;
}

static inline void remove_scored(Loop *l, u32 pair) {
    u32 place = l->links[pair].place;
    if (place == NO_PAIR) return;
    l->links[pair].place = NO_PAIR;
    Scored last = l->scored[--l->n_scored];
    if (last.pair != pair) place_scored(l, place, last);
}

/* Put a pair where it belongs in the heap; returns 1 where it is no longer in question, for good: counts only fall. */
static inline int update_scored(Loop *l, u32 pair) {
    if (l->pairs[pair].count < l->floor_count) {
        remove_scored(l, pair);
        return 1;
    }
    if (l->links[pair].place == NO_PAIR) {
        if (reserve_scored(l)) return OUT_OF_MEMORY;
        l->links[pair].place = l->n_scored++;
    }
    if (++l->work % POLL_WORK == 0 && l->poll(l->context, l->merges, l->pairs[pair].count)) return INTERRUPTED;
    place_scored(l, l->links[pair].place, score_of(l, pair));
    return 0;
}

/* Put all pairs of a token where they belong, and drop those that are no longer in question from its lists. */
static inline int rescore(Loop *l, u32 token) {
    int gone;
    for (u32 *at = &l->first_of_left[token]; *at != NO_PAIR;) {
        if ((gone = update_scored(l, *at)) < 0) return gone;
        if (gone) *at = l->links[*at].next_of_left;
        else at = &l->links[*at].next_of_left;
    }
    for (u32 *at = &l->first_of_right[token]; *at != NO_PAIR;) {
        if ((gone = update_scored(l, *at)) < 0) return gone;
        if (gone) *at = l->links[*at].next_of_right;
        else at = &l->links[*at].next_of_right;
    }
    return 0;
}

/* The best pair, or NO_PAIR. */
static inline u32 likeliest(const Loop *l) { return l->n_scored ? l->scored[0].pair : NO_PAIR; }

#endif
