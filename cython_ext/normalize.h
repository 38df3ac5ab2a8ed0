/* Normalization: a map of characters with the reordering of marks, and composition behind it.
 *
 * A Map tells for each character what it becomes (Entry), as strings of a pool:
 *   KEEP     itself
 *   STRING   pool: length, bytes
 *   SPACED   itself between two spaces
 *   DROP     nothing; the marks on either side of it are in one run
 *   BARRIER  nothing; a run of marks ends
 *   MARKED   pool: length of a string that ends the run before it, or NO_STRING; its bytes; number of marks
 *            that begin or go on a run; for each its combining class, its length, its bytes
 * A run of marks is written in the order of their combining classes, equal ones as they stood (Unicode, D108 and
 * D109).  Everything is linear in the text, whatever stands in it.
 */
#ifndef BEAM_BPE_NORMALIZE_H
#define BEAM_BPE_NORMALIZE_H

#include <stdlib.h>

#include "scan.h"

typedef uint16_t u16;

enum { KEEP = 0, STRING = 1, SPACED = 2, DROP = 3, BARRIER = 4, MARKED = 5, SLOW = 6 };
enum { NO_STRING = 255, MOST_BYTES = 1024 }; /* what a character becomes is shorter; Python checks it */

typedef struct {
    const u16 *block; /* of the 256 characters from code & ~255 on: number of their block of entries */
    const u32 *entry; /* kind | place in the pool << 3 */
    const u8 *pool;
    int fast;  /* what stands in an ASCII text is kept, but for the two below and for control characters */
    int fold;  /* A to Z become a to z */
    int clean; /* TAB, LF, CR become spaces; other control characters go their way through the table */
} Map;

typedef struct {
    u8 *start, *at, *end;
} Out;

/* Make room for what a character, or 16 bytes, become. */
static inline int room(Out *out, size_t bytes) {
    if ((size_t)(out->end - out->at) >= bytes) return 0;
    size_t used = (size_t)(out->at - out->start), size = 2 * (size_t)(out->end - out->start) + bytes + 4096;
    u8 *grown = (u8 *)realloc(out->start, size);
    if (!grown) return -1;
    out->start = grown;
    out->at = grown + used;
    out->end = grown + size;
    return 0;
}

/* The character at p (valid UTF-8) and its length in bytes. */
static inline u32 code_at(const u8 *p, u32 *length) {
    if (*p >= 0x80) return wide_code_at(p, length);
    *length = 1;
    return *p;
}

static inline u8 *put_code(u8 *to, u32 code) {
    if (code < 0x80) {
        *to++ = (u8)code;
    } else if (code < 0x800) {
        *to++ = (u8)(0xC0 | code >> 6);
        *to++ = (u8)(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        *to++ = (u8)(0xE0 | code >> 12);
        *to++ = (u8)(0x80 | (code >> 6 & 0x3F));
        *to++ = (u8)(0x80 | (code & 0x3F));
    } else {
        *to++ = (u8)(0xF0 | code >> 18);
        *to++ = (u8)(0x80 | (code >> 12 & 0x3F));
        *to++ = (u8)(0x80 | (code >> 6 & 0x3F));
        *to++ = (u8)(0x80 | (code & 0x3F));
    }
    return to;
}

static inline u32 entry_of(const Map *map, u32 code) { return map->entry[(u32)map->block[code >> 8] << 8 | (code & 255)]; }

static inline const u8 *pool_of(const Map *map, u32 entry) { return map->pool + (entry >> 3); }

static inline void put(Out *out, const u8 *bytes, size_t length) {
    memcpy(out->at, bytes, length);
    out->at += length;
}

/* ---- marks ---------------------------------------------------------------------------------- */

/* Where the marks of a MARKED character stand: (their number, then class, length, bytes of each). */
static inline const u8 *marks_of(const u8 *pooled) { return *pooled == NO_STRING ? pooled + 1 : pooled + 1 + *pooled; }

/* Write the marks of [p, end) class by class. */
static inline void put_sorted(const Map *map, const u8 *p, const u8 *end, Out *out) {
    size_t size[256] = {0};
    u8 *place[256], *to = out->at;
    for (int pass = 0; pass < 2; pass++) { /* sizes, then bytes */
        u32 length;
        for (const u8 *at = p; at < end; at += length) {
            u32 entry = entry_of(map, code_at(at, &length));
            if ((entry & 7) != MARKED) continue;
            const u8 *marks = marks_of(pool_of(map, entry));
            for (u32 n = *marks++; n; n--, marks += 2 + marks[1]) {
                if (!pass) {
                    size[marks[0]] += marks[1];
                    continue;
                }
                memcpy(place[marks[0]], marks + 2, marks[1]);
                place[marks[0]] += marks[1];
            }
        }
        for (u32 class = 0; !pass && class < 256; class++) {
            place[class] = to;
            to += size[class];
        }
    }
    out->at = to;
}

/* Write the run of marks that begins with the MARKED character at *at, and move *at behind it. */
static inline int put_run(const Map *map, const u8 **at, const u8 *end, Out *out) {
    const u8 *p = *at, *q = p, *marks;
    size_t bytes = 0;
    u32 length, n, highest = 0;
    int ordered = 1;
    while (q < end) { /* loop invariant: the characters of [p, q) are of the run */
        u32 entry = entry_of(map, code_at(q, &length));
        if ((entry & 7) == MARKED) {
            marks = pool_of(map, entry);
            if (q > p && *marks != NO_STRING) break;
            marks = marks_of(marks);
            for (n = *marks++; n; n--, marks += 2 + marks[1]) {
                ordered &= marks[0] >= highest;
                highest = marks[0];
                bytes += marks[1];
            }
        } else if ((entry & 7) != DROP) {
            break;
        }
        q += length;
    }
    *at = q;
    if (room(out, bytes + MOST_BYTES)) return -1;
    marks = pool_of(map, entry_of(map, code_at(p, &length)));
    if (*marks != NO_STRING) put(out, marks + 1, *marks);
    if (!ordered) {
        put_sorted(map, p, q, out);
        return 0;
    }
    for (; p < q; p += length) {
        u32 entry = entry_of(map, code_at(p, &length));
        if ((entry & 7) != MARKED) continue;
        marks = marks_of(pool_of(map, entry));
        for (n = *marks++; n; n--, marks += 2 + marks[1]) put(out, marks + 2, marks[1]);
    }
    return 0;
}

/* ---- a map ---------------------------------------------------------------------------------- */

/* Copy ASCII from *at on by the fast rules, up to the first byte that they do not know; there is room for 16 bytes more
 * than are left. */
static inline const u8 *put_ascii(const Map *map, const u8 *p, const u8 *end, Out *out) {
#if defined(__SSE2__)
    const __m128i space = _mm_set1_epi8(' '), fold = _mm_set1_epi8(map->fold ? 0x20 : 0);
    const __m128i shift = _mm_set1_epi8((char)(0x80 - 'A')), limit = _mm_set1_epi8((char)(0x80 + 26));
    if (!map->fast) return p;
    while (end - p >= 16) {
        if (room(out, 16)) return NULL;
        __m128i x = _mm_loadu_si128((const __m128i *)p);
        u32 other = (u32)_mm_movemask_epi8(x); /* not ASCII */
        if (map->clean) {
            __m128i tab = _mm_cmpeq_epi8(x, _mm_set1_epi8('\t')), lf = _mm_cmpeq_epi8(x, _mm_set1_epi8('\n'));
            __m128i white = _mm_or_si128(_mm_or_si128(tab, lf), _mm_cmpeq_epi8(x, _mm_set1_epi8('\r')));
            __m128i control = _mm_or_si128(_mm_cmplt_epi8(x, space), _mm_cmpeq_epi8(x, _mm_set1_epi8(0x7F)));
            other |= (u32)_mm_movemask_epi8(_mm_andnot_si128(white, control));
            x = _mm_or_si128(_mm_andnot_si128(white, x), _mm_and_si128(white, space));
        }
        __m128i upper = _mm_cmplt_epi8(_mm_add_epi8(x, shift), limit);
        _mm_storeu_si128((__m128i *)out->at, _mm_add_epi8(x, _mm_and_si128(upper, fold)));
        if (other) {
            u32 good = (u32)__builtin_ctz(other);
            out->at += good;
            return p + good;
        }
        out->at += 16;
        p += 16;
    }
#else
    (void)map, (void)end, (void)out;
#endif
    return p;
}

/* Write what the characters of [p, end) become. */
static inline int put_mapped(const Map *map, const u8 *p, const u8 *end, Out *out) {
    while (p < end) {
        p = put_ascii(map, p, end, out);
        if (!p) return -1;
        while (p < end) {
            u32 length, entry = entry_of(map, code_at(p, &length));
            if (room(out, MOST_BYTES)) return -1;
            switch (entry & 7) {
                case KEEP:
                case SLOW: put(out, p, length); break;
                case STRING: put(out, pool_of(map, entry) + 1, *pool_of(map, entry)); break;
                case SPACED:
                    *out->at++ = ' ';
                    put(out, p, length);
                    *out->at++ = ' ';
                    break;
                case MARKED:
                    if (put_run(map, &p, end, out)) return -1;
                    length = 0;
                    break;
                default: break; /* DROP, BARRIER */
            }
            p += length;
            if (p < end && *p < 0x80 && end - p >= 16) break; /* ASCII again */
        }
    }
    return 0;
}

/* ---- composition ---------------------------------------------------------------------------- */

typedef struct {
    Map quick;      /* what a character becomes where no mark or jamo stands behind it; SLOW: look at all of them */
    Map decomposed; /* its decomposition */
    const u64 *pairs; /* (first << 21 | second) << 21 | what they compose to, in order */
    size_t n_pairs;
    u32 *codes; /* scratch */
    size_t codes_size;
    Out scratch;
} Composer;

/* What two characters compose to, or 0 (Unicode, D114 to D117; Hangul by its arithmetic). */
static inline u32 composed(const Composer *composer, u32 first, u32 second) {
    if (first - 0x1100 < 19 && second - 0x1161 < 21) return 0xAC00 + ((first - 0x1100) * 21 + second - 0x1161) * 28;
    if (first - 0xAC00 < 11172 && (first - 0xAC00) % 28 == 0 && second - 0x11A8 < 27) return first + second - 0x11A7;
    u64 key = (u64)first << 21 | second;
    size_t low = 0, high = composer->n_pairs;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (composer->pairs[middle] >> 21 < key) low = middle + 1;
        else high = middle;
    }
    if (low < composer->n_pairs && composer->pairs[low] >> 21 == key) return (u32)(composer->pairs[low] & 0x1FFFFF);
    return 0;
}

/* Write [p, end) decomposed and composed again. */
static inline int put_composed(Composer *composer, const u8 *p, const u8 *end, Out *out) {
    Out *scratch = &composer->scratch;
    u32 *codes, length;
    size_t n = 0, starter = 0, i;
    int starts = 0; /* codes[starter] is the last starter */
    u32 last = 0;   /* combining class of the mark before, 0 right behind the starter */
    scratch->at = scratch->start;
    if (put_mapped(&composer->decomposed, p, end, scratch)) return -1;
    size_t most = (size_t)(scratch->at - scratch->start);
    if (most > composer->codes_size) {
        codes = (u32 *)realloc(composer->codes, 2 * most * sizeof(u32));
        if (!codes) return -1;
        composer->codes = codes;
        composer->codes_size = 2 * most;
    }
    codes = composer->codes;
    for (const u8 *at = scratch->start; at < scratch->at; at += length) {
        u32 code = code_at(at, &length), entry = entry_of(&composer->decomposed, code), class = 0;
        if ((entry & 7) == MARKED) class = marks_of(pool_of(&composer->decomposed, entry))[1];
        if (starts && (last < class || n == starter + 1)) { /* nothing between the starter and this one blocks it */
            u32 made = composed(composer, codes[starter], code);
            if (made) {
                codes[starter] = made;
                continue;
            }
        }
        if (!class) {
            starts = 1;
            starter = n;
        }
        last = class;
        codes[n++] = code;
    }
    if (room(out, 4 * n + 16)) return -1;
    for (i = 0; i < n; i++) out->at = put_code(out->at, codes[i]);
    return 0;
}

/* Write [p, end) in a composed form.  Text that has this form already is copied; else from the character before
 * one that is SLOW up to the next one that is not, which nothing before it can change. */
static inline int put_normal_form(Composer *composer, const u8 *p, const u8 *end, Out *out) {
    const Map *map = &composer->quick;
    const u8 *last = p; /* the last character that was written, and where what it became begins in `out` */
    size_t from = (size_t)(out->at - out->start);
    while (p < end) {
        const u8 *q = put_ascii(map, p, end, out);
        if (!q) return -1;
        if (q > p) {
            last = q - 1;
            from = (size_t)(out->at - out->start) - 1;
            p = q;
        }
        while (p < end) {
            u32 length, entry = entry_of(map, code_at(p, &length));
            if (room(out, MOST_BYTES)) return -1;
            if ((entry & 7) == SLOW) {
                do p += length;
                while (p < end && (entry_of(map, code_at(p, &length)) & 7) == SLOW);
                out->at = out->start + from;
                if (put_composed(composer, last, p, out)) return -1;
                last = p;
                from = (size_t)(out->at - out->start);
                continue;
            }
            last = p;
            from = (size_t)(out->at - out->start);
            if ((entry & 7) == STRING) put(out, pool_of(map, entry) + 1, *pool_of(map, entry));
            else put(out, p, length);
            p += length;
            if (p < end && *p < 0x80 && end - p >= 16) break;
        }
    }
    return 0;
}

/* ---- spaces, as SentencePiece treats them ---------------------------------------------------- */

typedef struct {
    int squeeze; /* U+0020 goes at both ends and behind another one, U+2581 at the end */
    int before, behind; /* a text that is not empty gets one more */
    int escape; /* U+0020 becomes U+2581 */
} Spacing;

static const u8 METASPACE_BYTES[3] = {0xE2, 0x96, 0x81};

static inline void put_space(const Spacing *s, Out *out) {
    if (s->escape) put(out, METASPACE_BYTES, 3);
    else *out->at++ = ' ';
}

static inline int put_spaced(const Spacing *s, const u8 *p, const u8 *end, Out *out) {
    while (s->squeeze && p < end && *p == ' ') p++;
    if (p == end) return 0;
    for (int trimmed = s->squeeze; trimmed;) {
        trimmed = 0;
        if (end > p && end[-1] == ' ') end--, trimmed = 1;
        else if (end - p >= 3 && !memcmp(end - 3, METASPACE_BYTES, 3)) end -= 3, trimmed = 1;
    }
    if (room(out, 8)) return -1;
    if (s->before && p < end) put_space(s, out); // one before nothing but U+2581 is dropped with them, one behind is not
    while (p < end) {
        const u8 *q = end - p > 256 ? p + 256 : end; /* most words are short: they are copied as they are searched */
        if (room(out, (size_t)(q - p) + 16)) return -1;
        for (; q - p >= 8; p += 8, out->at += 8) {
            u64 bytes, others, spaces;
            memcpy(&bytes, p, 8);
            memcpy(out->at, &bytes, 8);
            others = bytes ^ 0x2020202020202020ull;
            spaces = (others - 0x0101010101010101ull) & ~others & 0x8080808080808080ull; /* its lowest bit is right */
            if (!spaces) continue;
            q = p + (__builtin_ctzll(spaces) >> 3);
            out->at += q - p;
            p = q;
            break;
        }
        while (p < q && *p != ' ') *out->at++ = *p++;
        if (p == end || *p != ' ') continue;
        put_space(s, out);
        do p++;
        while (s->squeeze && p < end && *p == ' ');
    }
    if (s->behind) put_space(s, out);
    return 0;
}

#endif
