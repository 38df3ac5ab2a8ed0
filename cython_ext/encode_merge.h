/* Merging one piece: always the pair of lowest rank, the leftmost first.
 *
 *  - Up to LINEAR bytes the pair of lowest rank is found by looking at all.
 *  - Up to MIDDLING bytes a heap finds it, in a few arrays that stay in the nearest cache.
 *  - Longer ones are merged window by window, see merge_windows.
 *  - Windows that must be long use a heap over runs of equal symbols (under ordered merges), so that a
 *    million spaces are one node.
 */
#ifndef BEAM_BPE_ENCODE_MERGE_H
#define BEAM_BPE_ENCODE_MERGE_H

#include "encode_model.h"

enum { LINEAR = 24, MIDDLING = 1024, WINDOW = 512, CONTEXT = 4 };

typedef struct {
    u32 *ids;
    u64 n, size;
    int counting; /* ids are counted and forgotten */
    u64 counted;
} Ids;

static inline int grow(Ids *out, u64 more) {
    u64 size = out->size + out->size / 2 + more + 1024;
    u32 *ids = (u32 *)realloc(out->ids, 4 * size);
    if (!ids) return OUT_OF_MEMORY;
    out->ids = ids;
    out->size = size;
    return 0;
}

static inline int reserve(Ids *out, u64 more) { return out->n + more <= out->size ? 0 : grow(out, more); }

static inline void settle(Ids *out) { /* no id so far will be looked at again */
    if (!out->counting) return;
    out->counted += out->n;
    out->n = 0;
}

static inline void ids_free(Ids *out) {
    free(out->ids);
    memset(out, 0, sizeof *out);
}

typedef struct {
    u64 key; /* rank << 32 | position of the pair's first symbol */
    u32 node;
} Candidate;

typedef struct { /* a run of equal symbols */
    u32 id, count, next, previous;
} Node;

typedef struct { /* by position of a symbol's first byte; MIDDLING is the end */
    u32 id[MIDDLING], rank[MIDDLING]; /* rank of the pair with the next symbol; NO_RANK: none, or no symbol */
    uint16_t next[MIDDLING], previous[MIDDLING];
    u64 heap[3 * MIDDLING]; /* rank << 32 | position; a merge adds two */
} Middling;

typedef struct {
    Node *node; /* by the position of its first byte */
    u64 size;
    Candidate *heap, *aside;
    u64 n, heap_size, aside_size;
    Ids window, pair;
    Middling middling;
} Scratch;

static inline void scratch_free(Scratch *s) {
    free(s->node);
    free(s->heap);
    free(s->aside);
    ids_free(&s->window);
    ids_free(&s->pair);
    memset(s, 0, offsetof(Scratch, middling));
}

static inline u64 scratch_bytes(const Scratch *s) {
    return s->size * sizeof(Node) + (s->heap_size + s->aside_size) * sizeof(Candidate) + 4 * (s->window.size + s->pair.size);
}

/* Positions are 32 bits wide, and so are the ranks beside them. */
static inline int scratch_reserve(Scratch *s, u64 bytes) {
    if (bytes >= 0xFFFFFFFFu) return TOO_LONG;
    s->n = 0;
    if (bytes <= s->size) return 0;
    free(s->node);
    s->node = (Node *)malloc(bytes * sizeof(Node));
    s->size = s->node ? bytes : 0;
    return s->node ? 0 : OUT_OF_MEMORY;
}

static inline int offer(Scratch *s, u32 rank, u32 position, u32 node) {
    if (rank == NO_RANK) return 0;
    if (s->n == s->heap_size) {
        u64 size = 2 * s->heap_size + 1024;
        Candidate *heap = (Candidate *)realloc(s->heap, size * sizeof *heap);
        if (!heap) return OUT_OF_MEMORY;
        s->heap = heap;
        s->heap_size = size;
    }
    Candidate c = {(u64)rank << 32 | position, node};
    u64 i = s->n++;
    for (u64 parent; i && s->heap[parent = (i - 1) >> 2].key > c.key; i = parent) s->heap[i] = s->heap[parent];
    s->heap[i] = c;
    return 0;
}

static inline Candidate take(Scratch *s) {
    Candidate top = s->heap[0], last = s->heap[--s->n];
    u64 i = 0;
    for (;;) {
        u64 child = 4 * i + 1, stop = child + 4 < s->n ? child + 4 : s->n, best = child;
        if (child >= s->n) break;
        for (u64 c = child + 1; c < stop; c++)
            if (s->heap[c].key < s->heap[best].key) best = c;
        if (s->heap[best].key >= last.key) break;
        s->heap[i] = s->heap[best];
        i = best;
    }
    if (s->n) s->heap[i] = last;
    return top;
}

/* ---- merging a piece ------------------------------------------------------------------------ */

#define END 0xFFFFFFFFu

static inline u32 last_position(const Model *m, const Scratch *s, u32 node) {
    return node + (u32)((s->node[node].count - 1) * token_length(m, s->node[node].id));
}

static inline int offer_inside(const Model *m, Scratch *s, u32 node) {
    return s->node[node].count < 2 ? 0 : offer(s, pair_rank(m, s->node[node].id, s->node[node].id), node, node);
}

static inline int offer_behind(const Model *m, Scratch *s, u32 node) {
    if (node == END || s->node[node].next == END) return 0;
    return offer(s, pair_rank(m, s->node[node].id, s->node[s->node[node].next].id), last_position(m, s, node), node);
}

static inline void link_nodes(Scratch *s, u32 a, u32 b) {
    if (a != END) s->node[a].next = b;
    if (b != END) s->node[b].previous = a;
}

/* Any length; the heap holds candidates, of which those that no longer stand are passed over. */
static inline int merge_long(const Model *m, Scratch *s, const u8 *p, u64 n, Ids *out) {
    int error = scratch_reserve(s, n);
    if (error) return error;
    u32 before = END;
    for (u64 i = 0, j; i < n; i = j) {
        for (j = i + 1; m->ordered && j < n && p[j] == p[i]; j++) {}
        s->node[i].id = m->byte_id[p[i]];
        s->node[i].count = (u32)(j - i);
        s->node[i].next = END;
        link_nodes(s, before, (u32)i);
        if (before == END) s->node[i].previous = END;
        before = (u32)i;
    }
    for (u32 a = 0; a != END && !error; a = s->node[a].next) {
        error = offer_inside(m, s, a);
        if (!error) error = offer_behind(m, s, a);
    }
    while (s->n && !error) {
        Candidate c = take(s);
        u32 rank = (u32)(c.key >> 32), position = (u32)c.key, a = c.node;
        if (!s->node[a].count) continue; /* the node is gone */
        if (position == a && s->node[a].count >= 2) { /* inside a run: merge all of it, from the left */
            if (pair_rank(m, s->node[a].id, s->node[a].id) != rank) continue;
            u32 old = s->node[a].id, k = s->node[a].count, x = m->merged[rank]; /* in runs, which no model with ties has */
            s->node[a].id = x;
            s->node[a].count = k / 2;
            if (k % 2) {
                u32 rest = a + (u32)(k / 2 * token_length(m, x)), behind = s->node[a].next;
                s->node[rest].id = old;
                s->node[rest].count = 1;
                s->node[rest].next = END;
                link_nodes(s, a, rest);
                link_nodes(s, rest, behind);
                error = offer_behind(m, s, rest);
            }
            if (!error) error = offer_inside(m, s, a);
            if (!error) error = offer_behind(m, s, a);
            if (!error) error = offer_behind(m, s, s->node[a].previous);
            continue;
        }
        u32 b = s->node[a].next;
        if (b == END || last_position(m, s, a) != position || pair_rank(m, s->node[a].id, s->node[b].id) != rank) continue;
        u32 behind = s->node[b].next;
        if (s->node[b].count > 1) { /* the run b begins one symbol later */
            u32 rest = b + (u32)token_length(m, s->node[b].id);
            s->node[rest].id = s->node[b].id;
            s->node[rest].count = s->node[b].count - 1;
            s->node[rest].next = END;
            link_nodes(s, rest, behind);
            behind = rest;
        }
        s->node[b].count = 0;
        u32 new_node = a, x = pair_made(m, rank, s->node[a].id, s->node[b].id);
        if (s->node[a].count > 1) {
            new_node = position;
            s->node[a].count--;
            s->node[new_node].next = END;
            link_nodes(s, a, new_node);
        }
        s->node[new_node].id = x;
        s->node[new_node].count = 1;
        link_nodes(s, new_node, behind);
        if (behind == END) s->node[new_node].next = END;
        if (behind != END && s->node[behind].count && behind != s->node[b].next) {
            error = offer_inside(m, s, behind);
            if (!error) error = offer_behind(m, s, behind);
        }
        if (!error) error = offer_behind(m, s, new_node);
        if (!error) error = offer_behind(m, s, s->node[new_node].previous);
    }
    for (u32 a = 0; a != END && !error; a = s->node[a].next) {
        error = reserve(out, s->node[a].count);
        for (u32 k = 0; k < s->node[a].count && !error; k++) out->ids[out->n++] = s->node[a].id;
    }
    return error;
}

/* Up to LINEAR bytes, which are fewer than 32.  Symbols stay where their first byte is: shifting the rest of a
 * few costs more than looking at places that are empty. */
static inline u32 merge_short(const Model *m, const u8 *p, u32 n, u32 *ids) {
    u32 keys[LINEAR + 1]; /* rank << 5 | position, of the pair with the next symbol; NO_RANK: none, or no symbol */
    u8 next[LINEAR + 1], previous[LINEAR + 1];
    for (u32 i = 0; i < n; i++) {
        ids[i] = m->byte_id[p[i]];
        next[i] = (u8)(i + 1);
        previous[i] = (u8)(i - 1);
    }
    for (u32 i = 0; i + 1 < n; i++) {
        u32 rank = m->byte_pair[p[i] << 8 | p[i + 1]];
        keys[i] = rank == NO_RANK ? NO_RANK : rank << 5 | i;
    }
    keys[n - 1] = NO_RANK;
    for (;;) {
        u32 best = keys[0];
        for (u32 i = 1; i < n; i++) best = keys[i] < best ? keys[i] : best;
        if (best == NO_RANK) break;
        u32 a = best & 31, b = next[a], after = next[b], x = pair_made(m, best >> 5, ids[a], ids[b]), rank = NO_RANK;
        ids[a] = x;
        keys[b] = NO_RANK;
        next[a] = (u8)after;
        if (after < n) {
            previous[after] = (u8)a;
            rank = pair_rank(m, x, ids[after]);
        }
        keys[a] = rank == NO_RANK ? NO_RANK : rank << 5 | a;
        if (a) {
            u32 before = previous[a];
            rank = pair_rank(m, ids[before], x);
            keys[before] = rank == NO_RANK ? NO_RANK : rank << 5 | before;
        }
    }
    u32 k = 0;
    for (u32 a = 0; a < n; a = next[a]) ids[k++] = ids[a];
    return k;
}

static inline void sift_down(u64 *heap, u64 n, u64 i, u64 key) {
    for (;;) {
        u64 child = 2 * i + 1;
        if (child >= n) break;
        child += child + 1 < n && heap[child + 1] < heap[child];
        if (heap[child] >= key) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = key;
}

/* Up to MIDDLING bytes.  A candidate whose rank is no longer that of its position is passed over: symbols only
 * grow, so a pair that is gone from a position never comes back. */
static inline u32 merge_middling(const Model *m, Middling *s, const u8 *p, u32 n, u32 *ids) {
    u64 *heap = s->heap, candidates = 0;
    for (u32 i = 0; i < n; i++) {
        s->id[i] = m->byte_id[p[i]];
        s->next[i] = (uint16_t)(i + 1 < n ? i + 1 : MIDDLING);
        s->previous[i] = (uint16_t)(i ? i - 1 : MIDDLING);
        s->rank[i] = i + 1 < n ? m->byte_pair[p[i] << 8 | p[i + 1]] : NO_RANK;
        if (s->rank[i] != NO_RANK) heap[candidates++] = (u64)s->rank[i] << 32 | i;
    }
    for (u64 i = candidates / 2; i-- > 0;) sift_down(heap, candidates, i, heap[i]);
    while (candidates) {
        u32 a = (u32)heap[0], rank = (u32)(heap[0] >> 32), before = MIDDLING, at_a = NO_RANK, at_before = NO_RANK;
        if (s->rank[a] == rank) {
            u32 b = s->next[a], after = s->next[b], x = pair_made(m, rank, s->id[a], s->id[b]);
            before = s->previous[a];
            s->id[a] = x;
            s->next[a] = (uint16_t)after;
            s->rank[b] = NO_RANK;
            if (after != MIDDLING) {
                s->previous[after] = (uint16_t)a;
                at_a = pair_rank(m, x, s->id[after]);
            }
            s->rank[a] = at_a;
            if (before != MIDDLING) s->rank[before] = at_before = pair_rank(m, s->id[before], x);
        }
        if (at_a != NO_RANK) sift_down(heap, candidates, 0, (u64)at_a << 32 | a);
        else if (--candidates) sift_down(heap, candidates, 0, heap[candidates]);
        if (at_before != NO_RANK) {
            u64 i = candidates++, key = (u64)at_before << 32 | before;
            for (; i && heap[(i - 1) / 2] > key; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
            heap[i] = key;
        }
    }
    u32 k = 0;
    for (u32 a = 0; a != MIDDLING; a = s->next[a]) ids[k++] = s->id[a];
    return k;
}

/* Whether a piece is mostly runs of equal bytes, such as the lines of tables: then a few nodes are all of it. */
static inline int is_of_runs(const Model *m, const u8 *p, u64 n) {
    u32 changes = 0;
    for (u64 i = 1; i < n; i++) changes += p[i] != p[i - 1];
    return m->ordered && 8 * changes < n;
}

static inline int merge_beyond(const Model *m, Scratch *s, const u8 *p, u64 n, Ids *out) { /* than LINEAR */
    if (n > MIDDLING || is_of_runs(m, p, n)) return merge_long(m, s, p, n, out);
    if (reserve(out, n)) return OUT_OF_MEMORY;
    out->n += merge_middling(m, &s->middling, p, (u32)n, out->ids + out->n);
    return 0;
}

/* Whether two tokens that stand side by side at p are what their bytes together give. */
static inline int stand_together(const Model *m, Scratch *s, const u8 *p, u32 a, u32 b, int *error) {
    u64 n = token_length(m, a) + token_length(m, b);
    u32 few[LINEAR];
    if (n <= LINEAR) return merge_short(m, p, (u32)n, few) == 2 && few[0] == a && few[1] == b;
    s->pair.n = 0;
    *error = merge_beyond(m, s, p, n, &s->pair);
    return !*error && s->pair.n == 2 && s->pair.ids[0] == a && s->pair.ids[1] == b;
}

/* Any length, in a small working set: WINDOW bytes at a time, together with the last tokens before them.
 *
 * Tokens t1 .. tn are what their bytes give if and only if each two neighbours are what the bytes of the two
 * give.  For the first merge across a boundary of tokens joins parts of two neighbours, and until then merges
 * within the two happened in the order in which they happen without the rest: the leftmost pair of the lowest
 * rank of all is that of the two.  (The argument is that of rust-gems' bpe, and needs no order of merges.)
 * So the tokens of [0, from) and of [from, stop) are those of [0, stop) if the two at `from` stand together;
 * else the window begins further to the left.  Where windows grow so much that the whole costs several times
 * its length, the heap takes it all: the cost is O(n log n) whatever the merges. */
static inline int merge_windows(const Model *m, Scratch *s, const u8 *p, u64 n, Ids *out) {
    u64 first = out->n, spent = 0;
    for (u64 at = 0, stop; at < n; at = stop) {
        stop = n - at > WINDOW + WINDOW / 2 ? at + WINDOW : n;
        while (m->ordered && stop < n && p[stop] == p[stop - 1]) stop++; /* a run is one node */
        u64 from = at, back = 0, known = out->n - first;
        for (u64 want = CONTEXT;; want *= 2) {
            for (; back < want && back < known; back++) from -= token_length(m, out->ids[out->n - 1 - back]);
            spent += stop - from;
            s->window.n = 0;
            int error = spent > 8 * stop + (64 << 10) ? TOO_LONG : merge_beyond(m, s, p + from, stop - from, &s->window);
            if (!error && back < known) {
                u32 a = out->ids[out->n - 1 - back], b = s->window.ids[0];
                spent += token_length(m, a) + token_length(m, b);
                if (!stand_together(m, s, p + from - token_length(m, a), a, b, &error) && !error) continue;
            }
            if (error == TOO_LONG) {
                out->n = first;
                return merge_long(m, s, p, n, out);
            }
            if (!error) {
                out->n -= back;
                error = reserve(out, s->window.n);
            }
            if (error) return error;
            memcpy(out->ids + out->n, s->window.ids, 4 * s->window.n);
            out->n += s->window.n;
            break;
        }
    }
    return 0;
}

static inline int merge_piece(const Model *m, Scratch *s, const u8 *p, u64 n, Ids *out) {
    if (n > WINDOW + WINDOW / 2) return merge_windows(m, s, p, n, out);
    if (n > LINEAR) return merge_beyond(m, s, p, n, out);
    if (reserve(out, n)) return OUT_OF_MEMORY;
    out->n += merge_short(m, p, (u32)n, out->ids + out->n);
    return 0;
}

/* Longest match from the left: any length. */
static inline int match_piece(const Model *m, const u8 *p, u64 n, Ids *out) {
    for (const u8 *end = p + n; p < end;) {
        if (reserve(out, 1)) return OUT_OF_MEMORY;
        u32 id = longest_match(m, p, end);
        out->ids[out->n++] = id;
        p += token_length(m, id);
    }
    return 0;
}

#endif
