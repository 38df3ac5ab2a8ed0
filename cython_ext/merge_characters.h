/* From words of UTF-8 to the symbols that merges start from: a symbol by character and its place in the word. */
#ifndef BEAM_BPE_MERGE_CHARACTERS_H
#define BEAM_BPE_MERGE_CHARACTERS_H

#include "merge_state.h"
#include "utf8.h"

enum { ONLY = 0, FIRST = 1, INNER = 2, LAST = 3, PLACES = 4 };

static inline int place_of(int is_first, int is_last) {
    return is_first ? (is_last ? ONLY : FIRST) : (is_last ? LAST : INNER);
}

/* Add the occurrences of the characters of a word to found[PLACES][CODE_POINTS].  Returns 0, -1 where the word is not
 * UTF-8, or one more than a character that counts more than 64 bits hold. */
static inline i64 count_word(const u8 *p, const u8 *end, i64 count, i64 *found) {
    for (const u8 *start = p; p < end;) {
        u32 c, size = decode_character(p, end, &c);
        if (!size) return -1;
        i64 *sum = &found[(u64)place_of(p == start, p + size == end) * CODE_POINTS + c];
        if (__builtin_add_overflow(*sum, count, sum)) return (i64)c + 1;
        p += size;
    }
    return 0;
}

static inline u64 characters_of(const u8 *p, const u8 *end) {
    u64 n = 0;
    for (; p < end; p++) n += (*p & 0xC0) != 0x80;
    return n;
}

/* Write the symbols of a word, which ids[PLACES][CODE_POINTS] gives, to cells, and that of its end unless it is SENTINEL.
 * Returns the cells written; 0 where the word is not UTF-8 or does not fit into `room`, or an id is none. */
static inline u64 fill_word(Loop *l, const u8 *p, const u8 *end, const u32 *ids, u32 end_of_word, u32 *cells, u64 room) {
    u64 n = 0;
    for (const u8 *start = p; p < end;) {
        u32 c, size = decode_character(p, end, &c);
        if (!size || n == room) return 0;
        u32 id = ids[(u64)place_of(p == start, p + size == end) * CODE_POINTS + c];
        if (id != SENTINEL) {
            if (id >= l->tokens) return 0;
            l->used[id] = 1;
        }
        cells[n++] = id;
        p += size;
    }
    if (end_of_word != SENTINEL) {
        if (n == room) return 0;
        l->used[end_of_word] = 1;
        cells[n++] = end_of_word;
    }
    return n;
}

#endif
