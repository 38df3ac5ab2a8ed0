/* Merges of characters, done by merges of bytes.
 *
 * An inner byte-level model merges the bytes of each character of the alphabet first, then characters as the
 * vocabulary says.  The end of a word is the byte 0xFF, which is in no text.  What is left unmerged belongs to
 * characters outside of the alphabet: no merge of the vocabulary has a part that is not a token of it.
 * Inner ids are mapped to the vocabulary's before they are cached.
 */
#ifndef BEAM_BPE_ENCODE_CHARACTERS_H
#define BEAM_BPE_ENCODE_CHARACTERS_H

#include "encode_merge.h"

enum { END_OF_WORD = 0xFF };

typedef struct Characters {
    u32 *outer;         /* by inner id: the vocabulary's, or NO_TOKEN */
    u32 by_byte[256];   /* what a byte of something that has no token becomes, or NO_TOKEN: nothing */
    u32 fused;          /* of neighbours of this id that stand for unknown characters one is left; or NO_TOKEN */
    int ends;           /* END_OF_WORD is put behind each piece */
    int cuts;           /* long pieces may be cut at merge barriers */
} Characters;

/* Append the ids of inner tokens, which are the n bytes at p. */
static inline int map_characters(const Model *m, const u8 *p, u64 n, const u32 *inner, u64 k, Ids *out) {
    const Characters *t = m->characters;
    if (reserve(out, n)) return OUT_OF_MEMORY;
    u32 *to = out->ids + out->n;
    int after_unknown = 0;
    for (u64 i = 0; i < k; i++) {
        u32 id = t->outer[inner[i]];
        u64 length = token_length(m, inner[i]);
        if (id != NO_TOKEN) {
            *to++ = id;
            after_unknown = 0;
        }
        for (u64 j = 0; id == NO_TOKEN && j < length; j++) {
            u32 one = t->by_byte[p[j]];
            if (one == NO_TOKEN || (after_unknown && one == t->fused)) continue;
            *to++ = one;
            after_unknown = one == t->fused;
        }
        p += length;
    }
    out->n = (u64)(to - out->ids);
    return 0;
}

/* Where a piece was cut before out[from]: two unknown characters that met there are one. */
static inline void fuse_joint(const Characters *t, Ids *out, u64 from, int *after_unknown) {
    if (t->fused == NO_TOKEN) return;
    if (*after_unknown && from < out->n && out->ids[from] == t->fused) {
        out->n--;
        memmove(out->ids + from, out->ids + from + 1, 4 * (out->n - from));
    }
    if (from < out->n) *after_unknown = out->ids[out->n - 1] == t->fused;
}

#endif
