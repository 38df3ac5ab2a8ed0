/* The word-count table: open addressing with linear probing over entries of 32 bytes.
 *
 * A word of up to 15 bytes lives in its entry (so most look-ups touch one cache line); a longer one
 * lives in the arena, a u32 length before its bytes, and its entry holds its hash and its place.
 *   short: lo, hi = the bytes, zero-padded, little-endian; top byte of hi = length (1..15)
 *   long:  lo = hash; top byte of hi = 0xFF, the rest = offset in the arena
 * hi == 0 marks an empty slot (no word is empty).  The hash of the table is seeded, so that chosen
 * words cannot make it quadratic; the shard of a word comes from the same function with fixed seeds,
 * so that it is one number for the whole job.
 * Functions return 0, or one of the negative errors below; on an error the table is whole but lacks
 * the words not yet added.
 */
#ifndef BEAM_BPE_WORD_TABLE_H
#define BEAM_BPE_WORD_TABLE_H

#include <stdlib.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "scan.h"

enum { OUT_OF_MEMORY = -1, COUNT_OVERFLOW = -2, CORRUPT = -3 };
enum { SHORT_WORD = 15, BATCH = 256 };
#define LONG_MARK 0xFFull
#define FIXED_SEED_0 0x9E3779B97F4A7C15ull
#define FIXED_SEED_1 0xC2B2AE3D27D4EB4Full

typedef struct {
    u64 lo, hi;
    i64 count;
    i64 documents; /* documents that hold the word; stays 0 unless they are counted */
} Entry;

typedef struct {
    Entry *entries;
    u32 *last_document; /* per slot, the last document that counted there; NULL unless counting documents */
    u64 slots, used;
    u8 *arena;
    u64 arena_used, arena_size;
    u64 seed_0, seed_1;
    u32 document; /* running number of the current document */
} WordTable;

/* ---- hashing ------------------------------------------------------------------------------- */

static inline u64 mix(u64 a, u64 b) {
    __uint128_t product = (__uint128_t)a * b;
    return (u64)product ^ (u64)(product >> 64);
}

static inline u64 load64(const u8 *p) {
    u64 x;
    memcpy(&x, p, 8);
    return x;
}

static inline u64 hash_short(u64 lo, u64 hi, u64 seed_0, u64 seed_1) {
    return mix(mix(lo ^ seed_0, hi ^ seed_1) ^ seed_0, FIXED_SEED_0);
}

/* length > SHORT_WORD */
static inline u64 hash_long(const u8 *p, u64 length, u64 seed_0, u64 seed_1) {
    u64 h = length ^ seed_1, left = length;
    for (; left > 16; p += 16, left -= 16) h = mix(load64(p) ^ seed_0, load64(p + 8) ^ h) ^ mix(h ^ seed_1, FIXED_SEED_1);
    p -= 16 - left; /* the last 16 bytes, which may overlap those before */
    h = mix(load64(p) ^ seed_0, load64(p + 8) ^ h);
    return mix(h ^ seed_1, FIXED_SEED_0);
}

static inline u64 arena_offset(const Entry *e) { return e->hi & ~(LONG_MARK << 56); }
static inline int is_long(const Entry *e) { return e->hi >> 56 == LONG_MARK; }

static inline const u8 *word_bytes(const WordTable *t, const Entry *e, u64 *length) {
    if (!is_long(e)) {
        *length = e->hi >> 56;
        return (const u8 *)&e->lo;
    }
    u32 n;
    const u8 *p = t->arena + arena_offset(e);
    memcpy(&n, p, 4);
    *length = n;
    return p + 4;
}

/* The shard of a word among `shards`: unseeded, the same in every process for ever. */
static inline u32 shard_of(const WordTable *t, const Entry *e, u32 shards) {
    u64 length, h;
    const u8 *p = word_bytes(t, e, &length);
    if (is_long(e)) h = hash_long(p, length, FIXED_SEED_0, FIXED_SEED_1);
    else h = hash_short(e->lo, e->hi, FIXED_SEED_0, FIXED_SEED_1);
    return (u32)((__uint128_t)h * shards >> 64);
}

/* ---- memory -------------------------------------------------------------------------------- */

static inline void *aligned_zeroed(u64 bytes) {
    void *p = NULL;
    u64 alignment = bytes >= (1u << 22) ? (1u << 21) : 64;
    if (posix_memalign(&p, alignment, bytes)) return NULL;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (bytes >= (1u << 22)) madvise(p, bytes, MADV_HUGEPAGE); /* a hint: look-ups are bound by TLB misses */
#endif
    memset(p, 0, bytes);
    return p;
}

static inline u64 table_bytes(const WordTable *t) {
    return t->slots * (sizeof(Entry) + (t->last_document ? sizeof(u32) : 0)) + t->arena_size;
}

static inline void table_free(WordTable *t) {
    free(t->entries);
    free(t->last_document);
    free(t->arena);
    t->entries = NULL;
    t->last_document = NULL;
    t->arena = NULL;
    t->slots = t->used = t->arena_used = t->arena_size = 0;
}

static inline int table_init(WordTable *t, u64 slots, int documents) {
    t->entries = (Entry *)aligned_zeroed(slots * sizeof(Entry));
    t->last_document = documents ? (u32 *)aligned_zeroed(slots * sizeof(u32)) : NULL;
    t->slots = slots;
    t->used = t->arena_used = t->arena_size = 0;
    t->arena = NULL;
    t->document = 0;
    if (t->entries && (t->last_document || !documents)) return 0;
    table_free(t);
    return OUT_OF_MEMORY;
}

static inline u64 home_slot(const WordTable *t, u64 lo, u64 hi) {
    return (hi >> 56 == LONG_MARK ? lo : hash_short(lo, hi, t->seed_0, t->seed_1)) & (t->slots - 1);
}

/* Make room for `more` further words with at most 5/8 of the slots used. */
static inline int table_reserve(WordTable *t, u64 more) {
    u64 slots = t->slots;
    while ((t->used + more) * 8 > slots * 5) slots *= 2;
    if (slots == t->slots) return 0;
    Entry *entries = (Entry *)aligned_zeroed(slots * sizeof(Entry));
    u32 *last = t->last_document ? (u32 *)aligned_zeroed(slots * sizeof(u32)) : NULL;
    if (!entries || (t->last_document && !last)) {
        free(entries);
        free(last);
        return OUT_OF_MEMORY;
    }
    Entry *old = t->entries;
    u32 *old_last = t->last_document;
    u64 old_slots = t->slots;
    t->slots = slots;
    for (u64 i = 0; i < old_slots; i++) {
        if (!old[i].hi) continue;
        u64 s = home_slot(t, old[i].lo, old[i].hi);
        while (entries[s].hi) s = (s + 1) & (slots - 1);
        entries[s] = old[i];
        if (last) last[s] = old_last[i];
    }
    free(old);
    free(old_last);
    t->entries = entries;
    t->last_document = last;
    return 0;
}

/* ---- adding -------------------------------------------------------------------------------- */

typedef struct {
    u64 lo, hi, slot;
} Key;

/* The first `length` <= 15 bytes at p, zero-padded; reads past them when `limit` allows. */
static inline void load_short(const u8 *p, u64 length, const u8 *limit, u64 *lo, u64 *hi) {
    if (limit - p >= 16) {
        u64 a = load64(p), b = load64(p + 8);
        if (length < 8) {
            a &= ((u64)1 << (8 * length)) - 1;
            b = 0;
        } else {
            b &= ((u64)1 << (8 * (length - 8))) - 1;
        }
        *lo = a;
        *hi = b;
    } else {
        u64 x[2] = {0, 0};
        memcpy(x, p, length);
        *lo = x[0];
        *hi = x[1];
    }
}

/* Readable bytes end at `limit`.  The key of a long word has no arena offset yet. */
static inline Key key_of(const WordTable *t, const u8 *p, u64 length, const u8 *limit) {
    Key key;
    if (length <= SHORT_WORD) {
        load_short(p, length, limit, &key.lo, &key.hi);
        key.hi |= length << 56;
        key.slot = hash_short(key.lo, key.hi, t->seed_0, t->seed_1);
    } else {
        key.lo = hash_long(p, length, t->seed_0, t->seed_1);
        key.hi = LONG_MARK << 56;
        key.slot = key.lo;
    }
    key.slot &= t->slots - 1;
    return key;
}

/* The slot of the word, entered with count 0 if it is new; room has been reserved. */
static inline i64 table_slot(WordTable *t, Key key, const u8 *p, u64 length) {
    u64 s = key.slot, mask = t->slots - 1;
    Entry *e;
    if (key.hi >> 56 != LONG_MARK) {
        for (; (e = &t->entries[s])->hi; s = (s + 1) & mask)
            if (e->lo == key.lo && e->hi == key.hi) return (i64)s;
    } else {
        for (; (e = &t->entries[s])->hi; s = (s + 1) & mask) {
            if (e->lo != key.lo || !is_long(e)) continue;
            u64 n;
            const u8 *bytes = word_bytes(t, e, &n);
            if (n == length && !memcmp(bytes, p, length)) return (i64)s;
        }
        u64 need = t->arena_used + 4 + length;
        if (need > t->arena_size) {
            u64 size = t->arena_size + t->arena_size / 2 + 4096;
            if (size < need) size = need;
            u8 *arena = (u8 *)realloc(t->arena, size);
            if (!arena) return OUT_OF_MEMORY;
            t->arena = arena;
            t->arena_size = size;
        }
        u32 n = (u32)length;
        memcpy(t->arena + t->arena_used, &n, 4);
        memcpy(t->arena + t->arena_used + 4, p, length);
        key.hi |= t->arena_used;
        t->arena_used = need;
    }
    e->lo = key.lo;
    e->hi = key.hi;
    t->used++;
    return (i64)s;
}

static inline int table_add(WordTable *t, const u8 *p, u64 length, i64 count, i64 documents, const u8 *limit) {
    int error = table_reserve(t, 1);
    if (error) return error;
    i64 s = table_slot(t, key_of(t, p, length, limit), p, length);
    if (s < 0) return (int)s;
    Entry *e = &t->entries[s];
    i64 occurrences, held;
    if (__builtin_add_overflow(e->count, count, &occurrences) ||
        __builtin_add_overflow(e->documents, documents, &held))
        return COUNT_OVERFLOW;
    e->count = occurrences;
    e->documents = held;
    return 0;
}

typedef struct {
    i64 words, overlong, overlong_bytes; /* `words` leaves the overlong ones out */
} Scanned;

/* Count the words of `documents` documents; the bytes of document d are [bounds[2d], bounds[2d+1]).
 * Look-ups are done in batches, so that the slots of one batch are fetched from memory together. */
static inline int count_documents(WordTable *t, const u8 *data, u64 size, const i64 *bounds, u64 documents,
                                  enum pattern pattern, u64 max_word, int continues, Scanned *scanned) {
    Word words[BATCH];
    Key keys[BATCH];
    u32 stamps[BATCH];
    const u8 *limit = data + size, *at = NULL, *end = NULL;
    u64 d = 0;
    size_t n = 0;
    for (;;) {
        while (n < BATCH) { /* loop invariant: words[:n] wait, [at, end) is what is left of document d-1 */
            if (at == end) {
                if (d == documents) break;
                at = data + bounds[2 * d];
                end = data + bounds[2 * d + 1];
                if (d++ || !continues || !t->document) t->document++;
                continue;
            }
            size_t fresh = scan_words(pattern, &at, end, words + n, BATCH - n);
            if (n + fresh < BATCH) at = end; /* under `whitespace` a document may end in what is dropped */
            if (t->last_document)
                for (size_t i = n; i < n + fresh; i++) stamps[i] = t->document;
            n += fresh;
        }
        if (!n) return 0;
        int error = table_reserve(t, n);
        if (error) return error;
        for (size_t i = 0; i < n; i++) {
            keys[i] = key_of(t, words[i].start, words[i].length, limit);
            __builtin_prefetch(&t->entries[keys[i].slot], 1);
        }
        for (size_t i = 0; i < n; i++) {
            if (words[i].length > max_word) {
                scanned->overlong++;
                scanned->overlong_bytes += (i64)words[i].length;
                continue;
            }
            i64 s = table_slot(t, keys[i], words[i].start, words[i].length);
            if (s < 0) return (int)s;
            Entry *e = &t->entries[s];
            if (e->count == INT64_MAX) return COUNT_OVERFLOW;
            e->count++;
            if (t->last_document && t->last_document[s] != stamps[i]) {
                t->last_document[s] = stamps[i];
                e->documents++;
            }
            scanned->words++;
        }
        n = 0;
    }
}

/* ---- the packed form ------------------------------------------------------------------------
 * "bbw1", u8 flags (1: with document counts), u32 shard, u32 shards, u64 rows, all little-endian;
 * then a row after the other: varint length, varint count, [varint documents,] the bytes. */

enum { PACKED_HEADER = 21, WITH_DOCUMENTS = 1 };

static inline u64 varint_size(u64 x) {
    u64 n = 1;
    for (; x >= 0x80; x >>= 7) n++;
    return n;
}

static inline u8 *put_varint(u8 *p, u64 x) {
    for (; x >= 0x80; x >>= 7) *p++ = (u8)(x | 0x80);
    *p++ = (u8)x;
    return p;
}

/* NULL where the bytes end within the number or it has more than 64 bits. */
static inline const u8 *get_varint(const u8 *p, const u8 *end, u64 *x) {
    u64 value = 0;
    for (int shift = 0; p < end && shift < 64; shift += 7) {
        u8 byte = *p++;
        if (shift == 63 && byte > 1) return NULL;
        value |= (u64)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *x = value;
            return p;
        }
    }
    return NULL;
}

static inline u64 packed_size(const WordTable *t, const Entry *e, int documents) {
    u64 length;
    word_bytes(t, e, &length);
    return varint_size(length) + varint_size((u64)e->count) +
           (documents ? varint_size((u64)e->documents) : 0) + length;
}

static inline u8 *pack_entry(u8 *out, const WordTable *t, const Entry *e, int documents) {
    u64 length;
    const u8 *bytes = word_bytes(t, e, &length);
    out = put_varint(out, length);
    out = put_varint(out, (u64)e->count);
    if (documents) out = put_varint(out, (u64)e->documents);
    memcpy(out, bytes, length);
    return out + length;
}

static inline u8 *put_header(u8 *out, int documents, u32 shard, u32 shards, u64 rows) {
    memcpy(out, "bbw1", 4);
    out[4] = documents ? WITH_DOCUMENTS : 0;
    memcpy(out + 5, &shard, 4);
    memcpy(out + 9, &shards, 4);
    memcpy(out + 13, &rows, 8);
    return out + PACKED_HEADER;
}

typedef struct {
    const u8 *bytes;
    u64 length;
    i64 count, documents;
} Row;

/* The row at p, and where the next one starts; NULL where it is broken. */
static inline const u8 *get_row(const u8 *p, const u8 *end, int documents, Row *row) {
    u64 count, held = 0;
    if (!(p = get_varint(p, end, &row->length)) || !(p = get_varint(p, end, &count))) return NULL;
    if (documents && !(p = get_varint(p, end, &held))) return NULL;
    if (!row->length || row->length > (u64)(end - p) || count > INT64_MAX || held > INT64_MAX) return NULL;
    row->bytes = p;
    row->count = (i64)count;
    row->documents = (i64)held;
    return p + row->length;
}

static inline int add_packed(WordTable *t, const u8 *p, const u8 *end, int documents, u64 rows) {
    Row row;
    for (; rows; rows--) {
        if (!(p = get_row(p, end, documents, &row))) return CORRUPT;
        int error = table_add(t, row.bytes, row.length, row.count, row.documents, end);
        if (error) return error;
    }
    return p == end ? 0 : CORRUPT;
}

/* ---- summing packed tables ------------------------------------------------------------------ */

typedef struct { /* reads a packed table whose rows are sorted */
    const u8 *at, *end;
    u64 left; /* rows behind the one at hand */
    Row row;
} Cursor;

static inline int row_order(const Row *a, const Row *b) {
    int order = memcmp(a->bytes, b->bytes, a->length < b->length ? a->length : b->length);
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

/* Go to the next row: 1, 0 at the end, CORRUPT where rows are broken or not in order. */
static inline int advance(Cursor *c, int documents) {
    Row before = c->row;
    if (!c->left) return c->at == c->end ? 0 : CORRUPT;
    c->left--;
    if (!(c->at = get_row(c->at, c->end, documents, &c->row))) return CORRUPT;
    return before.bytes && row_order(&before, &c->row) >= 0 ? CORRUPT : 1;
}

/* With `stable` equal words are in the order of their tables; it is constant where it is given. */
static inline int cursor_order(const Cursor *a, const Cursor *b, int stable) {
    int order = row_order(&a->row, &b->row);
    return order || !stable ? order : (a > b) - (a < b);
}

static inline void settle_cursor(Cursor **heap, u32 n, u32 i, int stable) {
    Cursor *c = heap[i];
    for (u32 child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && cursor_order(heap[child + 1], heap[child], stable) < 0) child++;
        if (cursor_order(heap[child], c, stable) >= 0) break;
        heap[i] = heap[child];
    }
    heap[i] = c;
}

/* Go to the first row of n tables; heap[0] is then the first in order, `live` how many have rows. */
static inline int start_cursors(Cursor *cursors, Cursor **heap, u32 n, int documents, int stable, u32 *live) {
    *live = 0;
    for (u32 i = 0; i < n; i++) {
        int more = advance(&cursors[i], documents);
        if (more < 0) return more;
        if (more) heap[(*live)++] = &cursors[i];
    }
    for (u32 i = *live; i-- > 0;) settle_cursor(heap, *live, i, stable);
    return 0;
}

/* Leave the row of heap[0] behind. */
static inline int next_row(Cursor **heap, int documents, int stable, u32 *live) {
    int more = advance(heap[0], documents);
    if (more < 0) return more;
    if (!more) heap[0] = heap[--*live];
    if (*live) settle_cursor(heap, *live, 0, stable);
    return 0;
}

/* Merge n sorted packed tables into `out`, which has room for all their rows; sets what was written.
 * A sum takes no more bytes than the rows it is of. */
static inline int merge_packed(Cursor *cursors, Cursor **heap, u32 n, int documents, u8 *out, u64 *bytes, u64 *rows) {
    u8 *start = out;
    u32 live;
    *rows = 0;
    int error = start_cursors(cursors, heap, n, documents, 0, &live);
    if (error) return error;
    while (live) {
        Row sum = heap[0]->row;
        sum.count = sum.documents = 0;
        do {
            Row *row = &heap[0]->row;
            if (__builtin_add_overflow(sum.count, row->count, &sum.count)) return COUNT_OVERFLOW;
            if (__builtin_add_overflow(sum.documents, row->documents, &sum.documents)) return COUNT_OVERFLOW;
            if ((error = next_row(heap, documents, 0, &live))) return error;
        } while (live && !row_order(&heap[0]->row, &sum));
        out = put_varint(out, sum.length);
        out = put_varint(out, (u64)sum.count);
        if (documents) out = put_varint(out, (u64)sum.documents);
        memcpy(out, sum.bytes, sum.length);
        out += sum.length;
        ++*rows;
    }
    *bytes = (u64)(out - start);
    return 0;
}

typedef struct { /* columns with room for all rows of some tables */
    u8 *data;
    i64 *offsets, *counts, *documents; /* documents may be NULL */
    int32_t *tables;                       /* which table a row is of */
} Columns;

/* Write the rows of n sorted packed tables in order, those of one word in the order of the tables. */
static inline int interleave_packed(Cursor *cursors, Cursor **heap, u32 n, int documents, Columns *out) {
    u32 live;
    u64 size = 0, rows = 0;
    int error = start_cursors(cursors, heap, n, documents, 1, &live);
    if (error) return error;
    for (; live; rows++) {
        const Row *row = &heap[0]->row;
        out->offsets[rows] = (i64)size;
        memcpy(out->data + size, row->bytes, row->length);
        size += row->length;
        out->counts[rows] = row->count;
        if (documents) out->documents[rows] = row->documents;
        out->tables[rows] = (int32_t)(heap[0] - cursors);
        if ((error = next_row(heap, documents, 1, &live))) return error;
    }
    out->offsets[rows] = (i64)size;
    return 0;
}

/* ---- order by bytes ------------------------------------------------------------------------ */

typedef struct {
    u64 first, second; /* the first 16 bytes, big-endian, zero-padded */
    const Entry *entry;
} Sorted;

static inline Sorted sorted_item(const WordTable *t, const Entry *e) {
    u64 length, lo = e->lo, hi = e->hi & ~(LONG_MARK << 56);
    if (is_long(e)) {
        const u8 *p = word_bytes(t, e, &length);
        lo = load64(p);
        hi = load64(p + 8);
    }
    return (Sorted){__builtin_bswap64(lo), __builtin_bswap64(hi), e};
}

/* Between words that agree in 16 bytes, padding included. */
static inline int precedes_beyond(const WordTable *t, const Sorted *a, const Sorted *b) {
    u64 n, m;
    const u8 *p = word_bytes(t, a->entry, &n), *q = word_bytes(t, b->entry, &m);
    int order = memcmp(p, q, n < m ? n : m);
    return order ? order < 0 : n < m;
}

static inline int precedes(const WordTable *t, const Sorted *a, const Sorted *b) {
    if (a->first == b->first && a->second == b->second) return precedes_beyond(t, a, b);
    /* no branch: which comes first cannot be predicted */
    return (a->first < b->first) | ((a->first == b->first) & (a->second < b->second));
}

/* Sort items[:n] by the bytes of their words: insertion sort of runs of 8, then merges bottom-up
 * through scratch[:n]; returns the one of the two arrays that holds the result. */
static inline Sorted *sort_by_bytes(const WordTable *t, Sorted *items, Sorted *scratch, u64 n) {
    for (u64 start = 0; start < n; start += 8) {
        u64 stop = start + 8 < n ? start + 8 : n;
        for (u64 i = start + 1; i < stop; i++) {
            Sorted x = items[i];
            u64 j = i;
            for (; j > start && precedes(t, &x, &items[j - 1]); j--) items[j] = items[j - 1];
            items[j] = x;
        }
    }
    for (u64 width = 8; width < n; width *= 2) {
        for (u64 start = 0; start < n; start += 2 * width) {
            u64 middle = start + width < n ? start + width : n, stop = start + 2 * width < n ? start + 2 * width : n;
            u64 i = start, j = middle, k = start;
            while (i < middle && j < stop) {
                u64 right = (u64)precedes(t, &items[j], &items[i]);
                scratch[k++] = items[right ? j : i];
                j += right;
                i += 1 - right;
            }
            memcpy(scratch + k, items + i, (middle - i) * sizeof *items);
            k += middle - i;
            memcpy(scratch + k, items + j, (stop - j) * sizeof *items);
        }
        Sorted *swap = items;
        items = scratch;
        scratch = swap;
    }
    return items;
}

#endif
