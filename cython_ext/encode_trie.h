/* A trie of bytes in one table: an edge is found by its node and its byte. */
#ifndef BEAM_BPE_ENCODE_TRIE_H
#define BEAM_BPE_ENCODE_TRIE_H

#include <stdlib.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "scan.h"

enum { OUT_OF_MEMORY = -1, TOO_LONG = -2, NOT_UTF8 = -3 };
#define NO_TOKEN 0xFFFFFFFFu

typedef struct {
    u64 key; /* node << 8 | byte, + 1; 0: empty */
    u32 node, token; /* where the byte leads, and the token that ends there, else NO_TOKEN */
} Edge;

typedef struct {
    Edge *edges; /* NULL: there is no trie */
    u64 mask;
    u32 nodes; /* each edge leads to a node of its own */
} Trie;

static inline u64 mix(u64 a, u64 b) {
    __uint128_t product = (__uint128_t)a * b;
    return (u64)product ^ (u64)(product >> 64);
}

static inline void *zeroed(u64 bytes) {
    void *p = NULL;
    if (posix_memalign(&p, bytes >= (1u << 21) ? (1u << 21) : 64, bytes)) return NULL;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (bytes >= (1u << 21)) madvise(p, bytes, MADV_HUGEPAGE);
#endif
    memset(p, 0, bytes);
    return p;
}

static inline u64 edge_key(u32 node, u8 byte) { return ((u64)node << 8 | byte) + 1; }

static inline Edge *edge_slot(Edge *edges, u64 mask, u64 key) { /* the edge, or the empty slot for it */
    u64 s = mix(key ^ 0x9E3779B97F4A7C15ull, 0xC2B2AE3D27D4EB4Full) & mask;
    while (edges[s].key && edges[s].key != key) s = (s + 1) & mask;
    return &edges[s];
}

/* The edge of a byte, or NULL. */
static inline const Edge *trie_edge(const Trie *t, u32 node, u8 byte) {
    const Edge *e = edge_slot(t->edges, t->mask, edge_key(node, byte));
    return e->key ? e : NULL;
}

static inline int trie_grow(Trie *t, u64 slots) {
    Edge *edges = (Edge *)zeroed(slots * sizeof(Edge));
    if (!edges) return OUT_OF_MEMORY;
    for (u64 i = 0; t->edges && i <= t->mask; i++)
        if (t->edges[i].key) *edge_slot(edges, slots - 1, t->edges[i].key) = t->edges[i];
    free(t->edges);
    t->edges = edges;
    t->mask = slots - 1;
    return 0;
}

/* With so many nodes that have no edge to them: the roots. */
static inline int trie_start(Trie *t, u32 roots) {
    t->nodes = roots;
    return trie_grow(t, 1 << 12);
}

/* The edge of a byte, which is made if there is none; NULL: out of memory. */
static inline Edge *trie_add(Trie *t, u32 node, u8 byte) {
    if (2 * (u64)t->nodes > t->mask && trie_grow(t, 2 * (t->mask + 1))) return NULL;
    u64 key = edge_key(node, byte);
    Edge *e = edge_slot(t->edges, t->mask, key);
    if (!e->key) {
        e->key = key;
        e->node = t->nodes++;
        e->token = NO_TOKEN;
    }
    return e;
}

#endif
