/* Seed pieces: the maximal substrings of the words, by their suffixes in order, and the lattice of those that are taken.
 *
 * Suffixes are compared by at most max_length + 1 symbols, so sorting costs no more than that for each, also in a text that
 * repeats itself.  They are packed, several symbols in a 64-bit key, and sorted key by key; lengths of common prefixes fall
 * out of where keys differ.  A substring is a candidate if no extension to the right, or to the left within max_length,
 * has all of its occurrences: the others could only be pieces beside a longer one that is always there.
 */
#ifndef BEAM_BPE_UNIGRAM_SEEDS_H
#define BEAM_BPE_UNIGRAM_SEEDS_H

#include "unigram_math.h"
#include "unigram_state.h"

typedef struct {
    u64 key;
    u32 position;
} Suffix;

typedef struct {
    u128 score; /* occurrences times characters */
    i64 count;
    u32 first, size; /* among the suffixes in order */
    u32 depth;       /* characters */
    u32 id;
} Candidate;

typedef struct {
    Unigram *u;
    u32 *order;      /* positions, by suffix */
    u16 *common;     /* symbols that a suffix shares with the one before */
    u64 n;
    u32 bits, packed; /* of a symbol in a key, symbols in a key */
    Suffix *suffixes, *spare;
    Candidate *candidates;
    u64 n_candidates, size;
} Seeds;

/* Sort by key, equal ones as they stand: by bytes of the key where there are many, else by merging. */
static inline void sort_suffixes(Suffix *a, Suffix *spare, u64 n) {
    if (n < 512) {
        for (u64 start = 0; start < n; start += 8)
            for (u64 i = start + 1; i < start + 8 && i < n; i++) {
                Suffix one = a[i];
                u64 at = i;
                for (; at > start && a[at - 1].key > one.key; at--) a[at] = a[at - 1];
                a[at] = one;
            }
        for (u64 run = 8; run < n; run *= 2) {
            for (u64 start = 0; start + run < n; start += 2 * run) {
                u64 stop = start + 2 * run < n ? start + 2 * run : n, left = 0, right = start + run, out = start;
                memcpy(spare, a + start, run * sizeof *a);
                while (left < run && right < stop) a[out++] = a[right].key < spare[left].key ? a[right++] : spare[left++];
                memcpy(a + out, spare + left, (run - left) * sizeof *a);
            }
        }
        return;
    }
    u64 any = 0, all = ~0ull;
    for (u64 i = 0; i < n; i++) any |= a[i].key, all &= a[i].key;
    Suffix *from = a, *to = spare;
    for (u32 shift = 0; shift < 64; shift += 8) {
        if (!(((any ^ all) >> shift) & 0xFF)) continue;
        u64 at[257] = {0};
        for (u64 i = 0; i < n; i++) at[(from[i].key >> shift & 0xFF) + 1]++;
        for (u32 byte = 0; byte < 256; byte++) at[byte + 1] += at[byte];
        for (u64 i = 0; i < n; i++) to[at[from[i].key >> shift & 0xFF]++] = from[i];
        Suffix *other = from;
        from = to;
        to = other;
    }
    if (from != a) memcpy(a, from, n * sizeof *a);
}

static inline u64 key_at(const Seeds *s, u32 position, u32 depth) {
    const u32 *symbol = s->u->symbols + position + depth;
    u64 key = 0;
    u32 i = 0;
    for (; i < s->packed && *symbol; i++) key = key << s->bits | *symbol++;
    return key << s->bits * (s->packed - i);
}

/* Sort suffixes that share their first `depth` symbols, none of which is 0, and note what neighbours share. */
static inline int sort_deeper(Seeds *s, u64 first, u64 n, u32 depth) {
    u32 limit = s->u->max_length + 1;
    Suffix *a = s->suffixes + first;
    for (u64 i = 0; i < n; i++) a[i].key = key_at(s, a[i].position, depth);
    sort_suffixes(a, s->spare, n);
    if (poll_now_and_then(s->u, 8 * n)) return INTERRUPTED;
    const u64 last = (1ull << s->bits) - 1;
    u64 before = 0; /* a deeper level writes its own keys */
    for (u64 start = 0, stop; start < n; start = stop) {
        const u64 key = a[start].key, other = key ^ before;
        for (stop = start + 1; stop < n && a[stop].key == key; stop++)
            ;
        if (start) {
            u32 same = (u32)(__builtin_clzll(other) - (64 - s->bits * s->packed)) / s->bits;
            s->common[first + start] = (u16)(depth + same < limit ? depth + same : limit);
        }
        before = key;
        if (stop - start == 1) continue;
        u32 next = depth + s->packed;
        if ((key & last) && next < limit) {
            int outcome = sort_deeper(s, first + start, stop - start, next);
            if (outcome) return outcome;
            continue;
        }
        u32 same = 0; /* all end alike */
        while (same < s->packed && (key >> s->bits * (s->packed - 1 - same) & last)) same++;
        for (u64 i = start + 1; i < stop; i++) s->common[first + i] = (u16)(depth + same < limit ? depth + same : limit);
    }
    return 0;
}

/* Put all suffixes in order: by their first symbol, then deeper. */
static inline int order_suffixes(Seeds *s) {
    Unigram *u = s->u;
    u64 *at = (u64 *)calloc(u->n_characters + 2, 8), most = 0;
    if (!at) return OUT_OF_MEMORY;
    for (u64 i = 0; i < u->n_symbols; i++)
        if (u->symbols[i]) at[u->symbols[i] + 1]++;
    for (u32 c = 1; c <= u->n_characters + 1; c++) at[c] += at[c - 1];
    for (u64 i = 0; i < u->n_symbols; i++)
        if (u->symbols[i]) s->order[at[u->symbols[i]]++] = (u32)i;
    for (u32 c = 1; c <= u->n_characters; c++)
        if (at[c] - at[c - 1] > most) most = at[c] - at[c - 1];
    int outcome = 0;
    s->suffixes = (Suffix *)malloc((most + 1) * sizeof *s->suffixes);
    s->spare = (Suffix *)malloc((most + 1) * sizeof *s->spare);
    if (!s->suffixes || !s->spare) outcome = OUT_OF_MEMORY;
    u16 *common = s->common;
    for (u32 c = 1; c <= u->n_characters && !outcome; c++) {
        u64 first = at[c - 1], n = at[c] - first;
        if (!n) continue;
        for (u64 i = 0; i < n; i++) s->suffixes[i].position = s->order[first + i];
        s->common = common + first;
        outcome = sort_deeper(s, 0, n, 1);
        for (u64 i = 0; i < n; i++) s->order[first + i] = s->suffixes[i].position;
        common[first] = 0;
    }
    s->common = common;
    free(s->suffixes);
    free(s->spare);
    free(at);
    return outcome;
}

#define MIXED 0u /* before the occurrences of a substring: a segment's start, or different symbols */

typedef struct {
    i64 count;
    u64 first;
    u32 depth, before;
} Node;

static inline void join(Node *node, const Node *child) {
    node->count += child->count;
    if (node->before != child->before) node->before = MIXED;
}

static inline int add_candidate(Seeds *s, const Node *node, u64 stop) {
    const Unigram *u = s->u;
    if (node->depth < 2 || node->depth > u->max_length || node->count < 2) return 0;
    if (node->before != MIXED && node->depth < u->max_length) return 0;
    if (s->n_candidates == s->size) {
        u64 size = 2 * s->size + 1024;
        Candidate *more = (Candidate *)realloc(s->candidates, size * sizeof *more);
        if (!more) return OUT_OF_MEMORY;
        s->candidates = more;
        s->size = size;
    }
    s->candidates[s->n_candidates++] = (Candidate){
        (u128)(u64)node->count * node->depth, node->count, (u32)node->first, (u32)(stop - node->first), node->depth, 0};
    return 0;
}

/* Walk over the tree of common prefixes, whose leaves are the suffixes.  No count is above that of its first character. */
static inline int find_candidates(Seeds *s, const u32 *owner) {
    Unigram *u = s->u;
    u32 limit = u->max_length + 1, height = 0;
    int outcome = 0;
    Node *stack = (Node *)malloc((limit + 2) * sizeof *stack); /* depths rise strictly */
    if (!stack) return OUT_OF_MEMORY;
    for (u64 i = 0; i <= s->n && !outcome; i++) {
        u32 common = i < s->n ? s->common[i] : 0;
        Node carried = {0, i, 0, MIXED};
        int carries = 0;
        while (height && stack[height - 1].depth > common) { /* it ends here */
            Node *top = &stack[--height];
            if (carries) join(top, &carried);
            carried = *top;
            carries = 1;
            if ((outcome = add_candidate(s, &carried, i))) break;
        }
        if (outcome || i == s->n) break;
        if (carries && common) {
            if (!height || stack[height - 1].depth < common) {
                stack[height++] = (Node){carried.count, carried.first, common, carried.before};
            } else {
                join(&stack[height - 1], &carried);
            }
        }
        u32 position = s->order[i], depth = 0;
        while (depth < limit && u->symbols[position + depth]) depth++;
        Node leaf = {u->counts[owner[position]], i, depth, u->symbols[position - 1]};
        if (height && stack[height - 1].depth == depth) { /* the same as the one before */
            join(&stack[height - 1], &leaf);
        } else {
            stack[height++] = leaf;
        }
    }
    free(stack);
    return outcome;
}

static inline int better_candidate(const void *one, const void *other) { /* total: no two are the same substring */
    const Candidate *a = (const Candidate *)one, *b = (const Candidate *)other;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return a->depth < b->depth ? -1 : a->depth > b->depth;
}

static inline int outer_candidate(const void *one, const void *other) {
    const Candidate *a = (const Candidate *)one, *b = (const Candidate *)other;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return a->depth < b->depth ? -1 : a->depth > b->depth;
}

/* Enter the pieces at every place where they stand: candidates are in the order of their first suffix, outer ones first. */
static inline int make_lattice(Seeds *s) {
    Unigram *u = s->u;
    u64 total = 0;
    u32 *open = (u32 *)malloc((u->max_length + 2) * sizeof *open);
    u->first_edge = (u64 *)calloc(u->n_symbols + 1, 8);
    if (!open || !u->first_edge) {
        free(open);
        return OUT_OF_MEMORY;
    }
    for (int filling = 0; filling < 2; filling++) {
        u32 height = 0;
        u64 next = 0;
        for (u64 i = 0; i < s->n; i++) {
            while (height && (u64)s->candidates[open[height - 1]].first + s->candidates[open[height - 1]].size <= i) height--;
            while (next < s->n_candidates && s->candidates[next].first == i) open[height++] = (u32)next++;
            u32 position = s->order[i];
            if (filling) {
                u32 *edge = u->edges + u->first_edge[position];
                *edge++ = u->symbols[position] - 1;
                for (u32 k = 0; k < height; k++) *edge++ = s->candidates[open[k]].id;
            } else {
                u->first_edge[position] = 1 + height;
            }
        }
        if (filling) break;
        for (u64 position = 0; position <= u->n_symbols; position++) {
            u64 here = u->first_edge[position];
            u->first_edge[position] = total;
            total += here;
        }
        u->edges = (u32 *)malloc((total + 1) * 4);
        if (!u->edges) {
            free(open);
            return OUT_OF_MEMORY;
        }
    }
    free(open);
    return 0;
}

/* Let pieces be the characters and at most so many substrings, by occurrences times characters; equal ones by spelling. */
static inline int take_candidates(Seeds *s, u64 most) {
    Unigram *u = s->u;
    qsort(s->candidates, s->n_candidates, sizeof *s->candidates, better_candidate);
    if (s->n_candidates > most) s->n_candidates = most;
    u64 n = u->n_characters + s->n_candidates;
    Piece *pieces = (Piece *)realloc(u->pieces, (n + 1) * sizeof *pieces);
    if (!pieces) return OUT_OF_MEMORY;
    u->pieces = pieces;
    double sum = 0;
    for (u32 i = 0; i < u->n_characters; i++) sum += pieces[i].p = pieces[i].used ? (double)pieces[i].used : 0.5;
    for (u64 i = 0; i < s->n_candidates; i++) {
        Candidate *c = &s->candidates[i];
        c->id = (u32)(u->n_characters + i);
        pieces[c->id] = (Piece){.p = (double)c->score, .length = c->depth, .sample = s->order[c->first]};
        sum += pieces[c->id].p;
    }
    u->n_pieces = (u32)n;
    double log_sum = log_of(sum);
    for (u64 i = 0; i < n; i++) {
        pieces[i].score = log_of(pieces[i].p) - log_sum;
        pieces[i].p = exp_of(pieces[i].score);
    }
    qsort(s->candidates, s->n_candidates, sizeof *s->candidates, outer_candidate);
    return make_lattice(s);
}

static inline int seed_pieces(Unigram *u, u64 most) {
    Seeds s = {.u = u};
    u32 *owner = (u32 *)malloc(4 * u->n_symbols + 4);
    int outcome = 0;
    for (s.bits = 1; u->n_characters >> s.bits; s.bits++)
        ;
    s.packed = 63 / s.bits;
    s.n = u->n_symbols - 1 - u->n_segments;
    s.order = (u32 *)malloc(4 * s.n + 4);
    s.common = (u16 *)calloc(s.n + 1, 2);
    u->pieces = (Piece *)calloc(u->n_characters + 1, sizeof *u->pieces);
    if (!owner || !s.order || !s.common || !u->pieces) outcome = OUT_OF_MEMORY;
    if (!outcome) {
        for (u64 segment = 0; segment < u->n_segments; segment++)
            for (u32 i = u->starts[segment]; i < end_of(u, segment); i++) {
                Piece *character = &u->pieces[u->symbols[i] - 1];
                owner[i] = (u32)segment;
                character->sample = i;
                if (__builtin_add_overflow(character->used, u->counts[segment], &character->used)) {
                    u->overflow = i;
                    outcome = COUNT_OVERFLOW;
                }
            }
        for (u32 i = 0; i < u->n_characters; i++) u->pieces[i].length = 1;
        if (!outcome) outcome = order_suffixes(&s);
    }
    if (!outcome) outcome = find_candidates(&s, owner);
    free(owner);
    if (!outcome) outcome = take_candidates(&s, most);
    free(s.order);
    free(s.common);
    free(s.candidates);
    return outcome;
}

#endif
