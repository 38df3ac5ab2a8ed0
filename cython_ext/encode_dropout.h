/* BPE-dropout (Provilkov, Emelianenko and Voita 2020, "BPE-Dropout: Simple and Effective Subword
 * Regularization"): before every merge each pair that could be merged is dropped with probability p; of the
 * rest that of the lowest rank is merged, the leftmost first; when none is left, the piece is done.
 *
 * Whether a pair is dropped need not be known before it is its turn.  So pairs are taken from a heap in their
 * order, dropped ones are laid aside, and put back behind the next merge, as Hugging Face's tokenizers do: the
 * distribution is the same, at 1 / (1 - p) draws for a merge.  Whole pieces that are tokens go through the
 * merges like others.  Merges that spell characters are no choices, and are never dropped. */
#ifndef BEAM_BPE_ENCODE_DROPOUT_H
#define BEAM_BPE_ENCODE_DROPOUT_H

#include "encode_merge.h"

static inline u64 draw(u64 *state) { /* 64 random bits (wyrand) */
    *state += 0xA0761D6478BD642Full;
    return mix(*state, *state ^ 0xE7037ED1A0B428DBull);
}

static inline int lay_aside(Scratch *s, u64 k, Candidate c) {
    if (k == s->aside_size) {
        u64 size = 2 * s->aside_size + 64;
        Candidate *aside = (Candidate *)realloc(s->aside, size * sizeof *aside);
        if (!aside) return OUT_OF_MEMORY;
        s->aside = aside;
        s->aside_size = size;
    }
    s->aside[k] = c;
    return 0;
}

/* A node is one symbol; a node that is gone has count 0. */
static inline int merge_dropout(const Model *m, Scratch *s, const u8 *p, u64 n, double dropout, u64 *state, Ids *out) {
    int error = scratch_reserve(s, n);
    if (!error) error = reserve(out, n);
    if (error) return error;
    for (u32 i = 0; i < n; i++) {
        s->node[i].id = m->byte_id[p[i]];
        s->node[i].count = 1;
        s->node[i].next = i + 1 < n ? i + 1 : END;
        s->node[i].previous = i ? i - 1 : END;
    }
    for (u32 i = 0; i + 1 < n && !error; i++) error = offer(s, m->byte_pair[p[i] << 8 | p[i + 1]], i, i);
    u64 aside = 0;
    while (s->n && !error) {
        Candidate c = take(s);
        Node *a = &s->node[c.node];
        u32 rank = (u32)(c.key >> 32), b = a->next;
        if (!a->count || b == END || pair_rank(m, a->id, s->node[b].id) != rank) continue;
        if (rank >= m->never_dropped && (double)(draw(state) >> 11) * 0x1p-53 < dropout) {
            error = lay_aside(s, aside++, c);
            continue;
        }
        s->node[b].count = 0;
        a->id = pair_made(m, rank, a->id, s->node[b].id);
        link_nodes(s, c.node, s->node[b].next);
        if (s->node[b].next == END) a->next = END;
        error = offer_behind(m, s, c.node);
        if (!error) error = offer_behind(m, s, a->previous);
        while (aside && !error) {
            aside--;
            error = offer(s, (u32)(s->aside[aside].key >> 32), (u32)s->aside[aside].key, s->aside[aside].node);
        }
    }
    for (u32 a = 0; a != END && !error; a = s->node[a].next) out->ids[out->n++] = s->node[a].id;
    return error;
}

#endif
