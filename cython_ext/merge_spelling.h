/* The spellings of tokens, where they matter: for the tie rule of bytes, where some are excluded, and where one can arise
 * twice.
 *
 * A spelling arises twice only when a word holds the text of a mark, such as </w> or ##.  The merge then makes the
 * token that is there already.  If that stands in cells, the merge is made with a new id, and an epoch begins in
 * which the id is renamed: all is counted again (one pass over the cells), which is exact, and rare.  If it stands
 * nowhere (a word that was kept whole and taken out), its id is simply used.
 */
#ifndef BEAM_BPE_MERGE_SPELLING_H
#define BEAM_BPE_MERGE_SPELLING_H

#include "merge_state.h"

enum { FORBIDDEN = 1 };

static inline u64 hash_spelling(const u8 *spelling, u32 size) {
    u64 hash = 0xCBF29CE484222325ull;
    for (u32 i = 0; i < size; i++) hash = (hash ^ spelling[i]) * 0x100000001B3ull;
    return mix_key(hash);
}

/* The slot of a spelling, or the empty one where it belongs. */
static inline u32 *spelling_slot(const Loop *l, const u8 *spelling, u32 size) {
    u64 s = hash_spelling(spelling, size) & (l->spelling_slots - 1);
    for (u32 id; (id = l->by_spelling[s]); s = (s + 1) & (l->spelling_slots - 1))
        if (l->size[id - 1] == size && !memcmp(l->spelling[id - 1], spelling, size)) break;
    return &l->by_spelling[s];
}

/* Enter the initial tokens; returns the first whose spelling stands twice, or NO_TOKEN. */
static inline u32 enter_spellings(Loop *l) {
    for (u32 id = 0; id < l->tokens; id++) {
        u32 *slot = spelling_slot(l, l->spelling[id], l->size[id]);
        if (*slot) return id;
        *slot = id + 1;
    }
    return NO_TOKEN;
}

/* Whether no merge may make a spelling, since it was entered here. */
static inline int is_excluded(const Loop *l, const u8 *spelling, u32 size) {
    if (!l->excluded_slots) return 0;
    u64 s = hash_spelling(spelling, size) & (l->excluded_slots - 1);
    for (; l->excluded[s]; s = (s + 1) & (l->excluded_slots - 1))
        if (l->excluded_size[s] == size && !memcmp(l->excluded[s], spelling, size)) return 1;
    return 0;
}

/* Enter a spelling, which the caller keeps, into a table that has room. */
static inline void exclude(Loop *l, const u8 *spelling, u32 size) {
    u64 s = hash_spelling(spelling, size) & (l->excluded_slots - 1);
    while (l->excluded[s]) s = (s + 1) & (l->excluded_slots - 1);
    l->excluded[s] = spelling;
    l->excluded_size[s] = size;
}

/* The spelling of the merge of (a, b), which the caller frees; NULL where memory does not suffice. */
static inline u8 *spell(const Loop *l, u32 a, u32 b, u32 *size) {
    const u8 *right = l->spelling[b];
    u32 right_size = l->size[b];
    if (l->prefix_size && right_size >= l->prefix_size && !memcmp(right, l->prefix, l->prefix_size)) {
        right += l->prefix_size;
        right_size -= l->prefix_size;
    }
    u64 sum = (u64)l->size[a] + right_size;
    u8 *spelling = sum < UINT32_MAX ? (u8 *)malloc(sum + !sum) : NULL;
    if (!spelling) return NULL;
    memcpy(spelling, l->spelling[a], l->size[a]);
    memcpy(spelling + l->size[a], right, right_size);
    *size = (u32)sum;
    return spelling;
}

/* Whether the merge of (a, b) has a spelling that is reserved or excluded. */
static inline int is_forbidden(const Loop *l, u32 a, u32 b) {
    u32 size, id = 0;
    u8 *spelling = spell(l, a, b, &size);
    if (!spelling) return OUT_OF_MEMORY;
    if (l->reserved) id = *spelling_slot(l, spelling, size);
    int found = (id && id <= l->reserved) || is_excluded(l, spelling, size);
    free(spelling);
    return found;
}

/* Choose the id of the merge of (a, b), or return FORBIDDEN.  Sets Loop.twin where the spelling is there already.
 * A token that is there keeps its length: that of a symbol with a mark is not the sum of its parts'. */
static inline int name_merge(Loop *l, u32 a, u32 b, u32 *x) {
    u64 length = (u64)l->length[a] + l->length[b];
    *x = l->tokens;
    l->length[*x] = length < UINT32_MAX ? (u32)length : UINT32_MAX;
    if (l->first_script) join_scripts(l, a, b, *x);
    if (!l->text && l->tie_rule == LOWEST_IDS && !l->excluded_slots) {
        l->tokens++;
        return 0;
    }
    u32 size;
    u8 *spelling = spell(l, a, b, &size);
    if (!spelling) return OUT_OF_MEMORY;
    if (is_excluded(l, spelling, size)) {
        free(spelling);
        return FORBIDDEN;
    }
    if (l->text) {
        u32 *slot = spelling_slot(l, spelling, size);
        if (*slot && (*slot <= l->reserved || !l->used[*slot - 1])) {
            free(spelling);
            if (*slot <= l->reserved) return FORBIDDEN;
            *x = *slot - 1;
            l->used[*x] = 1;
            return 0;
        }
        if (*slot) l->twin = *slot - 1;
        else *slot = l->tokens + 1;
        l->used[*x] = 1;
    }
    account(l, 0, size);
    l->spelling[*x] = spelling;
    l->size[*x] = size;
    l->tokens++;
    return 0;
}

/* Give up the newest token, which has become its twin.  The sum of their frequencies does not overflow: each occurrence
 * of either ends in another occurrence of one and the same character. */
static inline void drop_renamed(Loop *l) {
    u32 twin = l->twin, renamed = --l->tokens;
    l->twin = NO_TOKEN;
    account(l, l->size[renamed], 0);
    free(l->spelling[renamed]);
    l->spelling[renamed] = NULL;
    if (l->frequency) l->frequency[twin] += l->frequency[renamed];
}

#endif
