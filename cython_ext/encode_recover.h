/* The two parts that each token of a rank file, or piece with a score, was merged from. */
#ifndef BEAM_BPE_ENCODE_RECOVER_H
#define BEAM_BPE_ENCODE_RECOVER_H

#include "encode_merge.h"

/* tiktoken merges any two neighbours whose joined bytes are a token, the token of the lowest rank first, the
 * leftmost first.  No merge crosses the span of a token before it is formed, so a token is formed in any
 * context by the merges that form it alone, and there is one pair of parts at most for each.  The parts are
 * shorter than the token, so tokens are taken by length: when one is merged, the pairs of all tokens inside
 * it are known, whatever their ranks.  What is left of it are its two parts, or more: then no merges make it.
 *
 * ranks: by id, the same for tokens of equal scores, of which the leftmost is merged first; NULL: the ids.
 * left, right: by id, set to NO_TOKEN where no merges make the token, or it is a byte or a hole.  twice: two
 * ids of the same bytes, if there are any.  Costs what encoding the tokens does, without cache. */
static inline int recover_parts(u32 n, const u8 *tokens, const i64 *starts, const u32 *byte_ids, const u32 *ranks, u32 *left,
                                u32 *right, u32 *twice) {
    Model *m = (Model *)calloc(1, sizeof(Model));
    u32 *order = (u32 *)malloc(4 * ((u64)n + 1)), *behind = NULL;
    u64 longest = 0;
    Scratch s;
    Ids parts;
    memset(&s, 0, sizeof s);
    memset(&parts, 0, sizeof parts);
    int error = !m || !order ? OUT_OF_MEMORY : model_start(m, n, n, tokens, starts, byte_ids, ranks != NULL);
    twice[0] = twice[1] = NO_TOKEN;
    if (error) goto done;
    for (u32 id = 0; id < n; id++)
        if (token_length(m, id) > longest) longest = token_length(m, id);
    behind = (u32 *)calloc(longest + 2, 4); /* where the tokens of a length begin in the order */
    m->whole = (u64 *)zeroed(8 * slots_for(n));
    m->whole_mask = slots_for(n) - 1;
    if (!behind || !m->whole) {
        error = OUT_OF_MEMORY;
        goto done;
    }
    for (u32 id = 0; id < n; id++) {
        left[id] = right[id] = NO_TOKEN;
        behind[token_length(m, id) + 1]++;
        if (!token_length(m, id) || twice[1] != NO_TOKEN) continue;
        if ((twice[0] = whole_add(m, id)) != NO_TOKEN) twice[1] = id;
    }
    if (twice[1] != NO_TOKEN) goto done;
    for (u64 k = 1; k <= longest; k++) behind[k + 1] += behind[k];
    for (u32 id = 0; id < n; id++) order[behind[token_length(m, id)]++] = id;
    for (u32 i = 0; i < n && !error; i++) {
        u32 id = order[i];
        if (token_length(m, id) < 2) continue;
        parts.n = 0;
        error = merge_piece(m, &s, token_bytes(m, id), token_length(m, id), &parts);
        if (error || parts.n != 2) continue;
        left[id] = parts.ids[0];
        right[id] = parts.ids[1];
        pair_add(m, left[id], right[id], ranks ? ranks[id] : id, id);
    }
done:
    if (m) model_free(m);
    free(m);
    free(order);
    free(behind);
    scratch_free(&s);
    ids_free(&parts);
    return error;
}

#endif
