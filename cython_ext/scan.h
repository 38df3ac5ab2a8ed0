/* Scanners: where the words of a pre-tokenization pattern end in a run of valid UTF-8.
 *
 * next_PATTERN(p, end) returns the end of the word that starts at p < end, where `end` is the end of
 * the document; the words of a document lie side by side (but under `whitespace` and `bert`, which drop
 * white space).  Each function does what its regular expression does, alternative by alternative,
 * and is held against the `regex` package in tests/test_scan.py, `bert` against `tokenizers`.  All are
 * linear: a run of white space or of letters is read at most twice.
 */
#ifndef BEAM_BPE_SCAN_H
#define BEAM_BPE_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "bert_classes.h"
#include "unicode_classes.h"

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t i64;

enum pattern { GPT2 = 0, CL100K = 1, O200K = 2, LLAMA3 = 3, QWEN2 = 4, WHITESPACE = 5, BERT = 6, METASPACE = 7, NONE = 8 };

typedef struct {
    const u8 *start;
    size_t length; /* bytes, at least 1 */
} Word;

/* ---- characters ---------------------------------------------------------------------------- */

static inline u32 class_of(u32 code) { return CLASS_OF[CLASS_BLOCK[code >> 8]][code & 255]; }
static inline u32 bert_class_of(u32 code) { return BERT_CLASS_OF[BERT_BLOCK[code >> 8]][code & 255]; }

#if defined(__GNUC__)
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#else
#define ALWAYS_INLINE static inline
#endif

/* The character at p (valid UTF-8, not ASCII), and its length in bytes. */
ALWAYS_INLINE u32 wide_code_at(const u8 *p, u32 *length) {
    u32 c = p[0];
    if (c < 0xE0) {
        *length = 2;
        return (c & 0x1F) << 6 | (p[1] & 0x3Fu);
    }
    if (c < 0xF0) {
        *length = 3;
        return (c & 0x0F) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    }
    *length = 4;
    return (c & 0x07) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
}

/* Class of the character at p, and its length in bytes; the text is valid UTF-8. */
ALWAYS_INLINE u32 class_at(const u8 *p, u32 *length) {
    if (*p >= 0x80) return class_of(wide_code_at(p, length));
    *length = 1;
    return CLASS_OF[0][*p];
}

/* The same for what BERT's pre-tokenizer tells apart. */
ALWAYS_INLINE u32 bert_class_at(const u8 *p, u32 *length) {
    if (*p >= 0x80) return bert_class_of(wide_code_at(p, length));
    *length = 1;
    return BERT_CLASS_OF[0][*p];
}

/* A set of classes is a bit mask. */
#define SET(name) (1u << (name))
#define LETTERS (SET(UPPER) | SET(LOWER) | SET(LETTER))
#define SPACES (SET(SPACE) | SET(NEWLINE))
#define OTHERS (SET(OTHER) | SET(MARK))             /* [^\s\p{L}\p{N}] */
#define UPPERS (SET(UPPER) | SET(LETTER) | SET(MARK)) /* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] */
#define LOWERS (SET(LOWER) | SET(LETTER) | SET(MARK)) /* [\p{Ll}\p{Lm}\p{Lo}\p{M}] */

static inline int in_set(u32 set, u32 class) { return set >> class & 1; }

static inline const u8 *skip(const u8 *p, const u8 *end, u32 set) {
    u32 length;
    while (p < end && in_set(set, class_at(p, &length))) p += length;
    return p;
}

/* Skip ASCII letters (fold = 0x20) or ASCII lower-case letters (fold = 0), 16 at a time. */
static inline const u8 *skip_ascii_letters(const u8 *p, const u8 *end, int fold) {
#if defined(__SSE2__)
    const __m128i lowered = _mm_set1_epi8((char)fold);
    const __m128i shift = _mm_set1_epi8((char)(0x80 - 'a')), limit = _mm_set1_epi8((char)(0x80 + 26));
    while (end - p >= 16) {
        __m128i x = _mm_or_si128(_mm_loadu_si128((const __m128i *)p), lowered);
        u32 letters = (u32)_mm_movemask_epi8(_mm_cmplt_epi8(_mm_add_epi8(x, shift), limit));
        if (letters != 0xFFFF) return p + __builtin_ctz(~letters);
        p += 16;
    }
#endif
    while (p < end && (u8)((*p | fold) - 'a') < 26) p++;
    return p;
}

/* \p{L}* */
static inline const u8 *skip_letters(const u8 *p, const u8 *end) {
    for (;;) {
        u32 length;
        p = skip_ascii_letters(p, end, 0x20);
        if (p >= end || *p < 0x80) return p;
        do {
            if (!in_set(LETTERS, class_at(p, &length))) return p;
            p += length;
        } while (p < end && *p >= 0x80);
    }
}

/* [\p{Ll}\p{Lm}\p{Lo}\p{M}]* */
static inline const u8 *skip_lowers(const u8 *p, const u8 *end) {
    for (;;) {
        u32 length;
        p = skip_ascii_letters(p, end, 0);
        if (p >= end || *p < 0x80) return p;
        do {
            if (!in_set(LOWERS, class_at(p, &length))) return p;
            p += length;
        } while (p < end && *p >= 0x80);
    }
}

/* At most `most` characters of \p{N}, of which the first, `length` bytes long, is known. */
static inline const u8 *skip_numbers(const u8 *p, const u8 *end, u32 length, int most) {
    p += length;
    while (--most > 0 && p < end && class_at(p, &length) == NUMBER) p += length;
    return p;
}

/* Bytes of (?i:'s|'t|'re|'ve|'m|'ll|'d) at p, else 0.  Case folding makes U+017F an s. */
static inline size_t contraction(const u8 *p, const u8 *end) {
    if (end - p < 2 || *p != '\'') return 0;
    u8 a = p[1] | 0x20;
    if (p[1] < 0x80 && (a == 's' || a == 't' || a == 'm' || a == 'd')) return 2;
    if (end - p < 3) return 0;
    if (p[1] == 0xC5 && p[2] == 0xBF) return 3;
    u8 b = p[2] | 0x20;
    if (p[1] >= 0x80 || p[2] >= 0x80) return 0;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* The white space at p, under the alternatives of the pattern:
 *   gpt2                 \s++$ | \s+(?!\S) | \s
 *   cl100k               \s++$ | \s*[\r\n] | \s+(?!\S) | \s
 *   o200k llama3 qwen2   \s*[\r\n]+ | \s+(?!\S) | \s+  */
static inline const u8 *white_space(const u8 *p, const u8 *end, enum pattern pattern) {
    const u8 *q = p, *last = p, *after_newline = NULL;
    while (q < end) {
        u32 length, class = class_at(q, &length);
        if (!in_set(SPACES, class)) break;
        last = q;
        q += length;
        if (class == NEWLINE) after_newline = q;
    }
    if (pattern == CL100K && q == end) return q;
    if (pattern != GPT2 && after_newline) return after_newline;
    return q == end || last == p ? q : last; /* the last one is left to the word behind it */
}

/* ---- the words of which most text is made --------------------------------------------------- */

#if defined(__SSE2__)
/* Bits of the 16 bytes at p that are ASCII letters of lower case; with fold = 0x20, of both. */
ALWAYS_INLINE u32 ascii_letters(__m128i bytes, int fold) {
    __m128i x = _mm_or_si128(bytes, _mm_set1_epi8((char)fold));
    return (u32)_mm_movemask_epi8(
        _mm_cmplt_epi8(_mm_add_epi8(x, _mm_set1_epi8((char)(0x80 - 'a'))), _mm_set1_epi8((char)(0x80 + 26))));
}
#endif

/* Whether an ASCII character is one of [^\r\n\p{L}\p{N}'], which the letters behind it take with them. */
ALWAYS_INLINE u32 is_prefix(u8 c) { return (c < 0x80) & in_set(SET(OTHER) | SET(SPACE), CLASS_OF[0][c]) & (c != '\''); }

/* The end of ` ?[A-Za-z]+` at p where that is the word under gpt2, or of `[^\r\n\p{L}\p{N}']?[A-Za-z]+` under the
 * family of cl100k (any), else NULL: with one branch that is nearly always taken. */
ALWAYS_INLINE const u8 *plain_word(const u8 *p, const u8 *end, int any) {
#if defined(__SSE2__)
    if (end - p <= 16) return NULL;
    u32 letters = ascii_letters(_mm_loadu_si128((const __m128i *)p), 0x20);
    u32 run = letters | ((letters >> 1) & (any ? is_prefix(*p) : *p == ' '));
    u32 length = (u32)__builtin_ctz(~run);
    if ((run & 1) && length < 16 && p[length] < 0x80) return p + length;
#else
    (void)p, (void)end, (void)any;
#endif
    return NULL;
}

ALWAYS_INLINE const u8 *plain_spaced(const u8 *p, const u8 *end) { return plain_word(p, end, 0); }
ALWAYS_INLINE const u8 *plain_prefixed(const u8 *p, const u8 *end) { return plain_word(p, end, 1); }

/* The end of `[^\r\n\p{L}\p{N}']?[A-Z]?[a-z]+` at p where that is the word under o200k, else NULL. */
ALWAYS_INLINE const u8 *plain_cased_word(const u8 *p, const u8 *end) {
#if defined(__SSE2__)
    if (end - p <= 16) return NULL;
    __m128i bytes = _mm_loadu_si128((const __m128i *)p);
    u32 lower = ascii_letters(bytes, 0), first = 1u << is_prefix(*p);
    u32 upper = ascii_letters(bytes, 0x20) & ~lower & first;
    u32 run = lower | upper | (first - 1);
    u32 length = (u32)__builtin_ctz(~run);
    /* the first letter, and behind one of upper case one of lower case */
    if ((lower & (first + upper)) && length < 16 && p[length] < 0x80 && p[length] != '\'') return p + length;
#else
    (void)p, (void)end;
#endif
    return NULL;
}

/* ---- patterns ------------------------------------------------------------------------------ */

static inline const u8 *next_gpt2(const u8 *p, const u8 *end) {
    const u8 *q = p;
    if (*p == '\'' && end - p >= 2) {
        u8 a = p[1], b = end - p >= 3 ? p[2] : 0;
        if (a == 's' || a == 't' || a == 'm' || a == 'd') return p + 2;
        if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return p + 3;
    }
    if (*p == ' ' && end - p >= 2) q++;
    u32 length, class = class_at(q, &length);
    if (in_set(LETTERS, class)) return skip_letters(q + length, end);
    if (class == NUMBER) return skip(q + length, end, SET(NUMBER));
    if (in_set(OTHERS, class)) return skip(q + length, end, OTHERS);
    return white_space(p, end, GPT2);
}

/* What cl100k, llama3, qwen2 (and, behind its letters, o200k) share: digits, others, white space. */
static inline const u8 *next_rest(const u8 *p, const u8 *end, u32 class, u32 length, int digits,
                                  enum pattern pattern) {
    if (class == NUMBER) return skip_numbers(p, end, length, digits);
    const u8 *q = p;
    if (*p == ' ' && end - p >= 2) class = class_at(++q, &length);
    if (!in_set(OTHERS, class)) return white_space(p, end, pattern);
    q = skip(q + length, end, OTHERS);
    while (q < end && (*q == '\r' || *q == '\n' || (pattern == O200K && *q == '/'))) q++;
    return q;
}

/* (?i:'s|…)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|white space */
static inline const u8 *next_cl100k_family(const u8 *p, const u8 *end, int digits, enum pattern pattern) {
    u32 length, class = class_at(p, &length), length2;
    if (in_set(LETTERS, class)) return skip_letters(p + length, end);
    if (*p == '\'') {
        size_t bytes = contraction(p, end);
        if (bytes) return p + bytes;
    }
    if (class != NUMBER && class != NEWLINE && p + length < end &&
        in_set(LETTERS, class_at(p + length, &length2)))
        return skip_letters(p + length + length2, end);
    return next_rest(p, end, class, length, digits, pattern);
}

static inline const u8 *next_cl100k(const u8 *p, const u8 *end) {
    return next_cl100k_family(p, end, 3, CL100K);
}
static inline const u8 *next_llama3(const u8 *p, const u8 *end) {
    return next_cl100k_family(p, end, 3, LLAMA3);
}
static inline const u8 *next_qwen2(const u8 *p, const u8 *end) {
    return next_cl100k_family(p, end, 1, QWEN2);
}

/* UPPERS* LOWERS+ at p as a backtracking engine finds it, else NULL; *run is the end of UPPERS*.
 * With a lower-case letter behind the run, the whole run is taken; otherwise the run is given back
 * up to its last letter that is in both sets. */
static inline const u8 *uppers_lowers(const u8 *p, const u8 *end, const u8 **run) {
    const u8 *both = NULL;
    while (p < end) {
        u32 length, class = class_at(p, &length);
        if (class == LOWER) return skip_lowers(p + length, end);
        if (!in_set(UPPERS, class)) break;
        p += length;
        if (class != UPPER) both = p;
    }
    *run = p;
    return both;
}

static inline const u8 *next_o200k(const u8 *p, const u8 *end) {
    u32 length, class = class_at(p, &length);
    const u8 *q = NULL, *run = p;
    if (in_set(SET(OTHER) | SET(MARK) | SET(SPACE), class)) { /* [^\r\n\p{L}\p{N}]? taken */
        const u8 *body = p + length;
        q = uppers_lowers(body, end, &run);
        if (!q && class == MARK) q = body; /* given back: a mark is in LOWERS, and here the last of them */
        if (!q && run > body) q = run;     /* second alternative: UPPERS+, behind which no LOWERS stand */
    } else if (in_set(LETTERS, class)) {
        q = uppers_lowers(p, end, &run);
        if (!q) q = run;
    }
    if (q) return q + contraction(q, end);
    return next_rest(p, end, class, length, 3, O200K);
}

static inline const u8 *next_whitespace(const u8 *p, const u8 *end) {
    u32 length;
    while (p < end && !in_set(SPACES, class_at(p, &length))) p += length;
    return p;
}

static inline const u8 *skip_bert_spaces(const u8 *p, const u8 *end) {
    u32 length;
    while (p < end && bert_class_at(p, &length) == BERT_SPACE) p += length;
    return p;
}

/* A punctuation character, or what stands up to the next one or white space; none begins at p. */
static inline const u8 *next_bert(const u8 *p, const u8 *end) {
    u32 length;
    if (bert_class_at(p, &length) == BERT_PUNCTUATION) return p + length;
    do {
        p = skip_ascii_letters(p, end, 0x20);
        if (p >= end || bert_class_at(p, &length) != BERT_WORD) return p;
        p += length;
    } while (p < end);
    return p;
}

/* The end of `[A-Za-z]+` at p where that is the word under bert, else NULL. */
ALWAYS_INLINE const u8 *plain_bert(const u8 *p, const u8 *end) {
#if defined(__SSE2__)
    if (end - p <= 16) return NULL;
    u32 length = (u32)__builtin_ctz(~ascii_letters(_mm_loadu_si128((const __m128i *)p), 0x20));
    if (length && length < 16 && p[length] < 0x80 && BERT_CLASS_OF[0][p[length]] != BERT_WORD) return p + length;
#else
    (void)p, (void)end;
#endif
    return NULL;
}

/* Where the next U+2581 behind the one at p, or behind what stands there, begins, else `end`. */
static inline const u8 *next_metaspace(const u8 *p, const u8 *end) {
    for (p++; (p = (const u8 *)memchr(p, 0xE2, (size_t)(end - p))); p++)
        if (end - p >= 3 && p[1] == 0x96 && p[2] == 0x81) return p;
    return end;
}

/* Put up to `most` words from *at on into `words` and move *at behind them; fewer: the end. */
static inline size_t scan_words(enum pattern pattern, const u8 **at, const u8 *end, Word *words, size_t most) {
    const u8 *p = *at;
    size_t n = 0;
#define SCAN(plain, next)                \
    while (n < most && p < end) {        \
        const u8 *q = plain(p, end);     \
        if (!q) q = next(p, end);        \
        words[n].start = p;              \
        words[n++].length = (size_t)(q - p); \
        p = q;                           \
    }                                    \
    break;
    switch (pattern) {
        case GPT2: SCAN(plain_spaced, next_gpt2)
        case CL100K: SCAN(plain_prefixed, next_cl100k)
        case O200K: SCAN(plain_cased_word, next_o200k)
        case LLAMA3: SCAN(plain_prefixed, next_llama3)
        case QWEN2: SCAN(plain_prefixed, next_qwen2)
        case WHITESPACE:
            while (n < most) {
                p = skip(p, end, SPACES);
                if (p >= end) break;
                const u8 *q = next_whitespace(p, end);
                words[n].start = p;
                words[n++].length = (size_t)(q - p);
                p = q;
            }
            break;
        case BERT:
            while (n < most) {
                p = skip_bert_spaces(p, end);
                if (p >= end) break;
                const u8 *q = plain_bert(p, end);
                if (!q) q = next_bert(p, end);
                words[n].start = p;
                words[n++].length = (size_t)(q - p);
                p = q;
            }
            break;
        case METASPACE:
            while (n < most && p < end) {
                const u8 *q = next_metaspace(p, end);
                words[n].start = p;
                words[n++].length = (size_t)(q - p);
                p = q;
            }
            break;
        case NONE:
            if (p < end && most) {
                words[n].start = p;
                words[n++].length = (size_t)(end - p);
                p = end;
            }
            break;
    }
#undef SCAN
    *at = p;
    return n;
}

/* ---- validity and cuts --------------------------------------------------------------------- */

/* Length of the valid UTF-8 sequence at p, else 0. */
static inline size_t valid_length(const u8 *p, const u8 *end) {
    size_t left = (size_t)(end - p);
    u8 c = p[0];
    if (c < 0x80) return 1;
    if (c < 0xC2 || left < 2 || (p[1] & 0xC0) != 0x80) return 0;
    if (c < 0xE0) return 2;
    if (left < 3 || (p[2] & 0xC0) != 0x80) return 0;
    if (c < 0xF0) return (c == 0xE0 && p[1] < 0xA0) || (c == 0xED && p[1] > 0x9F) ? 0 : 3;
    if (c > 0xF4 || left < 4 || (p[3] & 0xC0) != 0x80) return 0;
    return (c == 0xF0 && p[1] < 0x90) || (c == 0xF4 && p[1] > 0x8F) ? 0 : 4;
}

/* Where the first byte that is not valid UTF-8 stands, else `end`. */
static inline const u8 *valid_until(const u8 *p, const u8 *end) {
    while (p < end) {
        u64 a, b;
        while (end - p >= 16) { /* ASCII, 16 at a time */
            memcpy(&a, p, 8);
            memcpy(&b, p + 8, 8);
            if ((a | b) & 0x8080808080808080ull) break;
            p += 16;
        }
        const u8 *stop = end - p >= 16 ? p + 16 : end; /* some of these are not, or the end is near */
        while (p < stop) {
            if (*p < 0x80) {
                p++;
                continue;
            }
            /* E1..EC, EE, EF: any two continuation bytes do; nearly all characters beyond Latin are these, and often two */
            while (end - p >= 8) {
                memcpy(&a, p, 8);
                if ((a & 0xC0C0F0C0C0F0ull) != 0x8080E08080E0ull) break;
                if ((0x2001u >> (p[0] & 15) | 0x2001u >> (p[3] & 15)) & 1) break; /* E0 or ED */
                p += 6;
            }
            if (p >= stop) break;
            if (end - p >= 3 && (u8)(*p - 0xE1) < 0x0F && *p != 0xED && (p[1] & 0xC0) == 0x80 && (p[2] & 0xC0) == 0x80) {
                p += 3;
                continue;
            }
            size_t length = valid_length(p, end);
            if (!length) return p;
            p += length;
        }
    }
    return p;
}

/* Whether a letter or number is one or more of them, and perhaps marks, under every normal form, and is no mark to
 * another version of Unicode (all but U+037A, U+1CF2, U+1CF3 and a few from U+FB50 on; tests/test_normalize.py). */
static inline int stays(const u8 *p) {
    return p[0] != 0xEF && !(p[0] == 0xCD && p[1] == 0xBA) && !(p[0] == 0xE1 && p[1] == 0xB3 && (p[2] & 0xFE) == 0xB2);
}

/* Whether a word ends at `at`, whatever stands further to the left: the character before and the one
 * after are both validly encoded, and the pattern separates them in every context.
 *   letter or number | anything but letter, number, mark, apostrophe
 *   other            | white space except CR and LF
 *   CR or LF         | anything but white space and '/'          (not under gpt2)
 *   whitespace, bert: non-space | space
 * `none` and `metaspace` have no such place.
 * If the text is `normalized` before it is scanned, only places stay that end a word in what it becomes, too: before a
 * space, which no normalizer changes or joins to what stands before it (as little as TAB, CR and LF, which may
 * become spaces); and where spaces are words or parts of them, behind a letter that stays, since others may vanish. */
static inline int is_cut(enum pattern pattern, int normalized, const u8 *begin, const u8 *at, const u8 *end) {
    const u8 *before = at;
    u32 length;
    if (at <= begin || at >= end) return 0;
    do before--;
    while (before > begin && at - before < 4 && (*before & 0xC0) == 0x80);
    if (valid_length(before, at) != (size_t)(at - before) || !valid_length(at, end)) return 0;
    u32 left = class_at(before, &length), right = class_at(at, &length);
    if (pattern == NONE || pattern == METASPACE) return 0;
    if (normalized) {
        int drops = pattern == WHITESPACE || pattern == BERT;
        if (*at != ' ' && !(drops && (*at == '\t' || *at == '\n' || *at == '\r'))) return 0;
        if (!drops && !(in_set(LETTERS | SET(NUMBER), left) && stays(before))) return 0;
    }
    if (pattern == BERT) return bert_class_at(before, &length) != BERT_SPACE && bert_class_at(at, &length) == BERT_SPACE;
    if (pattern == WHITESPACE) return !in_set(SPACES, left) && in_set(SPACES, right);
    if (in_set(LETTERS | SET(NUMBER), left))
        return !in_set(LETTERS | SET(NUMBER) | SET(MARK), right) && *at != '\'';
    if (in_set(OTHERS, left)) return right == SPACE;
    return left == NEWLINE && pattern != GPT2 && !in_set(SPACES, right) && *at != '/';
}

#endif
