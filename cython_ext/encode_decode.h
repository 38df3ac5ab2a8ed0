/* Ids to bytes. */
#ifndef BEAM_BPE_ENCODE_DECODE_H
#define BEAM_BPE_ENCODE_DECODE_H

#include "encode_model.h"

enum { SPACE_BEFORE = 1, SPACE_BEHIND = 2 };

typedef struct {
    u32 n;
    const u8 *bytes; /* of all tokens, and PADDING */
    const Span *spans;
    const u8 *spaces; /* by id: the space that it brings, which is dropped at that end of a document; NULL: none */
} Texts;

static inline u32 id_at(const void *ids, u64 i, int width) {
    return width == 2 ? ((const uint16_t *)ids)[i] : ((const u32 *)ids)[i];
}

static inline int drops(const Texts *t, const void *ids, u64 i, int width, int space) {
    return t->spaces && t->spaces[id_at(ids, i, width)] == space;
}

/* Add up the bytes of a document ids[begin:end]; *wrong is the first position of an id that is no token, else `end`. */
static inline u64 decoded_length(const Texts *t, const void *ids, u64 begin, u64 end, int width, u64 *wrong) {
    u64 total = 0, i;
    for (i = begin; i < end; i++) {
        u32 id = id_at(ids, i, width), length = id < t->n ? t->spans[id].length : 0;
        if (!length) break;
        total += length;
    }
    *wrong = i;
    if (i == end && begin < end)
        total -= drops(t, ids, begin, width, SPACE_BEFORE) + drops(t, ids, end - 1, width, SPACE_BEHIND);
    return total;
}

/* Write the bytes of checked ids, where all to `stop` will be written; return where they end. */
static inline u8 *decode_ids(const Texts *t, const void *ids, u64 i, u64 end, int width, u8 *to, const u8 *stop) {
    for (; i < end && stop - to >= 16; i++) {
        Span span = t->spans[id_at(ids, i, width)];
        const u8 *p = t->bytes + span.start;
        if (span.length > 16) memcpy(to, p, span.length);
        else memcpy(to, p, 16); /* there is room in `to`, and PADDING behind the tokens */
        to += span.length;
    }
    for (; i < end; i++) {
        Span span = t->spans[id_at(ids, i, width)];
        memcpy(to, t->bytes + span.start, span.length);
        to += span.length;
    }
    return to;
}

static inline u8 *decode_document(const Texts *t, const void *ids, u64 begin, u64 end, int width, u8 *to, const u8 *stop) {
    if (begin < end && drops(t, ids, begin, width, SPACE_BEFORE)) {
        Span span = t->spans[id_at(ids, begin++, width)];
        memcpy(to, t->bytes + span.start + 1, span.length - 1);
        to += span.length - 1;
    }
    if (begin == end || !drops(t, ids, end - 1, width, SPACE_BEHIND)) return decode_ids(t, ids, begin, end, width, to, stop);
    Span span = t->spans[id_at(ids, end - 1, width)];
    to = decode_ids(t, ids, begin, end - 1, width, to, stop);
    memcpy(to, t->bytes + span.start, span.length - 1);
    return to + span.length - 1;
}

static inline u64 decoded_length_of(const Texts *t, const void *ids, u64 begin, u64 end, int width, u64 *wrong) {
    return width == 2 ? decoded_length(t, ids, begin, end, 2, wrong) : decoded_length(t, ids, begin, end, 4, wrong);
}

/* Write the documents that end at `ends` (NULL: all n ids are one), which are to[0:total]. */
static inline void decode_documents(const Texts *t, const void *ids, u64 n, const i64 *ends, u64 documents, int width, u8 *to,
                                    u64 total) {
    const u8 *stop = to + total;
    u64 begin = 0;
    if (!t->spaces || !ends) {
        if (width == 2) decode_document(t, ids, 0, n, 2, to, stop);
        else decode_document(t, ids, 0, n, 4, to, stop);
        return;
    }
    for (u64 d = 0; d < documents; d++) {
        to = decode_document(t, ids, begin, (u64)ends[d], width, to, stop);
        begin = (u64)ends[d];
    }
}

#endif
