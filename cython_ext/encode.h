/* The encoder: pieces (words of a pre-tokenization pattern) to token ids.
 *
 * Exact: at every step the pair of lowest rank is merged, the leftmost first (encode_merge.h), or the
 * longest token is taken (encode_model.h); words of characters go their own ways (encode_characters.h,
 * encode_pieces.h) behind the same caches, as do whole texts (encode_chunks.h, encode_unigram.h).
 *  - Merge barriers: between two characters whose adjacency occurs inside no token that can be formed, no
 *    merge can cross.  Long pieces that are not ASCII are cut there, and the segments go through the cache.
 * The model is immutable and shared; a Cache belongs to one call at a time.
 */
#ifndef BEAM_BPE_ENCODE_H
#define BEAM_BPE_ENCODE_H

#include "encode_characters.h"
#include "encode_decode.h"
#include "encode_dropout.h"
#include "encode_recover.h"
#include "encode_unigram.h"

#define NO_LIMIT 0xFFFFFFFFFFFFFFFFull

/* Copy a piece of characters, and put the end of the word behind it. */
static inline const u8 *text_with_end(Cache *c, const u8 *p, u64 n) {
    if (n + 1 > c->text_size) {
        u8 *text = (u8 *)realloc(c->text, n + n / 2 + 1024);
        if (!text) return NULL;
        c->text = text;
        c->text_size = n + n / 2 + 1024;
    }
    memcpy(c->text, p, n);
    c->text[n] = END_OF_WORD;
    return c->text;
}

/* A piece or a segment of a vocabulary of characters.  May return NOT_KEPT. */
static __attribute__((noinline)) int encode_characters(const Model *m, Cache *c, const u8 *p, u64 n, u64 flag, Ids *out) {
    u32 few[LINEAR];
    u8 text[LINEAR];
    if (valid_until(p, p + n) < p + n) return NOT_UTF8;
    if (m->pieces) return match_word(m->pieces, p, n, out, &c->told);
    u32 whole = m->whole && !flag ? whole_token(m, p, n) : NO_TOKEN;
    if (whole != NO_TOKEN) return map_characters(m, p, n, &whole, 1, out);
    int end = m->characters->ends && flag != SEGMENT_FLAG;
    if (n < LINEAR && !m->trie.edges) {
        memcpy(text, p, n);
        text[n] = END_OF_WORD;
        return map_characters(m, text, n + end, few, merge_short(m, text, (u32)n + end, few), out);
    }
    if (end && !(p = text_with_end(c, p, n))) return OUT_OF_MEMORY;
    n += end;
    c->inner.n = 0;
    int error = m->trie.edges ? match_piece(m, p, n, &c->inner) : merge_piece(m, &c->scratch, p, n, &c->inner);
    return error ? error : map_characters(m, p, n, c->inner.ids, c->inner.n, out);
}

/* A piece of up to SHORT_PIECE bytes that is not in the cache; `e` is where it belongs, and what is there goes. */
static __attribute__((noinline)) int encode_missed(const Model *m, Cache *c, PieceKey key, Cached *e, const u8 *p, u64 n,
                                                   Ids *out) {
    if (reserve(out, SHORT_PIECE)) return OUT_OF_MEMORY;
    u64 before = out->n;
    u32 *to = out->ids + before, whole = NO_TOKEN;
    if (m->characters || m->pieces) {
        int error = encode_characters(m, c, p, n, key.hi & (SEGMENT_FLAG | LAST_FLAG), out);
        if (error) return error < 0 ? error : 0;
        to = out->ids + before;
    } else {
        if (m->whole && !(key.hi & SEGMENT_FLAG)) whole = whole_token(m, p, n);
        if (m->trie.edges) match_piece(m, p, n, out);
        else if (whole != NO_TOKEN) to[0] = whole, out->n++;
        else out->n += merge_short(m, p, (u32)n, to);
    }
    u64 k = out->n - before;
    if (k > MOST_CACHED) return 0;
    e = claim_short(c, e, key);
    for (u32 i = 0; i < MOST_CACHED; i++) e->ids[i] = i < k ? to[i] : 0;
    e->ids[0] |= (u32)(k - 1) << 30;
    return 0;
}

static inline __attribute__((always_inline)) int encode_short(const Model *m, Cache *c, PieceKey key, const u8 *p, u64 n,
                                                              Ids *out) {
    u64 s = key.slot;
    Cached *e;
    for (u32 probes = 1;; probes++) {
        e = &c->entries[s];
        if (e->lo != key.lo || e->hi != key.hi) {
            if (!e->hi || probes == MOST_PROBES) break;
            s = s + 1 < c->slots ? s + 1 : 0;
            continue;
        }
        if (reserve(out, 4)) return OUT_OF_MEMORY;
        u32 *to = out->ids + out->n; /* four are stored, and as many counted as there are */
        to[0] = e->ids[0] & 0x3FFFFFFFu;
        to[1] = e->ids[1];
        to[2] = e->ids[2];
        to[3] = e->ids[3];
        out->n += (e->ids[0] >> 30) + 1;
        return 0;
    }
    return encode_missed(m, c, key, e, p, n, out);
}

/* t: of characters, or NULL: of bytes, which the compiler is to know. */
static inline __attribute__((always_inline)) int encode_segment(const Model *m, const Characters *t, Cache *c, const u8 *p,
                                                                u64 n, const u8 *limit, u64 flag, Ids *out) {
    if (n <= SHORT_PIECE) return encode_short(m, c, piece_key(c, p, n, limit, flag), p, n, out);
    if (t) return encode_characters(m, c, p, n, flag, out);
    return m->trie.edges ? match_piece(m, p, n, out) : merge_piece(m, &c->scratch, p, n, out);
}

/* A longer piece: whole, or cut at merge barriers.  May stop behind `stop` ids. */
static inline __attribute__((always_inline)) int cut_piece(const Model *m, const Characters *t, Cache *c, const u8 *p, u64 n,
                                                           const u8 *limit, u64 stop, Ids *out) {
    const u8 *end = p + n, *at = p, *start = p;
    u64 flag = m->whole || (t && t->ends) ? SEGMENT_FLAG : 0, last_flag = !t ? flag : m->whole ? LAST_FLAG : 0, from;
    int after_unknown = 0, error;
    if (m->whole) {
        u32 id = whole_token(m, p, n);
        if (id != NO_TOKEN) {
            if (reserve(out, 1)) return OUT_OF_MEMORY;
            out->ids[out->n++] = t ? t->outer[id] : id;
            return 0;
        }
    }
    if (*p < 0x80 && n <= 64) {
        u8 some = 0;
        for (u64 i = 0; i < n; i++) some |= p[i];
        if (some < 0x80) return encode_segment(m, t, c, p, n, limit, last_flag, out); /* ASCII has no barriers */
    }
    u64 left = valid_length(at, end);
    u32 left_code = left ? code_point(at, left) : 0;
    at += left ? left : 1;
    while (at < end) {
        u64 right = valid_length(at, end);
        u32 right_code = right ? code_point(at, right) : 0;
        if (left && right && (left > 1 || right > 1) && !(m->torn[at[-1] * 4 + (*at >> 6)] >> (*at & 63) & 1) &&
            !are_adjacent(m, adjacency(left_code, right_code))) {
            from = out->n;
            error = encode_segment(m, t, c, start, (u64)(at - start), limit, flag, out);
            if (error) return error;
            if (t) fuse_joint(t, out, from, &after_unknown);
            if (out->n >= stop) return 0;
            settle(out);
            start = at;
        }
        at += right ? right : 1;
        left = right;
        left_code = right_code;
    }
    from = out->n;
    error = encode_segment(m, t, c, start, (u64)(end - start), limit, last_flag, out);
    if (t && !error) fuse_joint(t, out, from, &after_unknown);
    return error;
}

static __attribute__((noinline)) int encode_long_characters(const Model *m, Cache *c, const u8 *p, u64 n, const u8 *limit,
                                                            u64 stop, Ids *out) {
    if (m->pieces || !m->characters->cuts) return encode_characters(m, c, p, n, 0, out);
    return cut_piece(m, m->characters, c, p, n, limit, stop, out);
}

/* May return NOT_KEPT. */
static __attribute__((noinline)) int encode_long(const Model *m, Cache *c, const u8 *p, u64 n, const u8 *limit, u64 stop,
                                                 Ids *out) {
    if (m->characters || m->pieces) return encode_long_characters(m, c, p, n, limit, stop, out);
    return cut_piece(m, NULL, c, p, n, limit, stop, out);
}

/* A piece of 16 to 31 bytes. */
static inline int encode_wide(const Model *m, Cache *c, const u8 *p, u64 n, const u8 *limit, Ids *out) {
    u64 key[4], slot = wide_key(c, p, n, key), s = slot, before, k;
    CachedWide *e;
    for (u32 probes = 1;; probes++) {
        e = &c->wide[s];
        if (((e->key[0] ^ key[0]) | (e->key[1] ^ key[1]) | (e->key[2] ^ key[2]) | (e->key[3] ^ key[3])) != 0) {
            if (!e->key[3] || probes == MOST_PROBES) break;
            s = s + 1 < c->wide_slots ? s + 1 : 0;
            continue;
        }
        if (reserve(out, MOST_WIDE)) return OUT_OF_MEMORY;
        memcpy(out->ids + out->n, e->ids, sizeof e->ids);
        out->ids[out->n] &= 0x1FFFFFFFu;
        out->n += (e->ids[0] >> 29) + 1;
        return 0;
    }
    if (reserve(out, WIDE_PIECE)) return OUT_OF_MEMORY; /* so that nothing is settled meanwhile but by counts */
    before = out->n;
    int counting = out->counting;
    out->counting = 0;
    int error = encode_long(m, c, p, n, limit, NO_LIMIT, out);
    out->counting = counting;
    k = out->n - before;
    if (error || k > MOST_WIDE) return error < 0 ? error : 0;
    e = claim_wide(c, e, key, slot);
    for (u32 i = 0; i < MOST_WIDE; i++) e->ids[i] = i < k ? out->ids[before + i] : 0;
    e->ids[0] |= (u32)(k - 1) << 29;
    return 0;
}

/* ---- documents ------------------------------------------------------------------------------ */

typedef struct {
    const u8 *data;
    u64 size;
    const i64 *bounds; /* document d is data[bounds[2d]:bounds[2d + 1]] */
    u64 documents;
    int pattern; /* < 0: each document is one piece */
    u64 most;    /* ids of a document */
    u32 unk;     /* a word of this one id is not kept whole; NO_TOKEN: none is */
} Batch;

/* Whether the scanner reads nothing behind the data: it may take up to three bytes behind a character that
 * is cut off, which matters where the data end.  Of a document of which few ids are wanted only so much is
 * checked as they are likely to need. */
static inline int is_readable(const Batch *batch, const u8 *at, const u8 *end) {
    const u8 *limit = batch->data + batch->size;
    u64 most = batch->most < (1u << 24) ? (64 << 10) + 64 * batch->most : NO_LIMIT;
    u8 some = 0;
    if (batch->pattern < 0 || limit - end >= 3) return 1;
    for (const u8 *p = end - at > 3 ? end - 3 : at; p < end; p++) some |= *p;
    if (some < 0x80) return 1;
    const u8 *until = (u64)(end - at) > most ? at + most : end;
    return until - valid_until(at, until) <= (until < end ? 3 : 0);
}

static inline size_t scan_pieces(int pattern, const u8 **at, const u8 *end, Word *words, size_t most) {
    size_t n = scan_words(pattern < 0 ? NONE : (enum pattern)pattern, at, end, words, most);
    if (n < most) *at = end;
    if (n && words[n - 1].length > (size_t)(end - words[n - 1].start)) words[n - 1].length = (size_t)(end - words[n - 1].start);
    return n;
}

/* Chunks of a text between user-defined symbols; may stop behind `stop` ids.  words: each that begins with U+2581 is a text
 * of its own. */
static inline int encode_chunks(const Model *m, Cache *c, const u8 *at, const u8 *end, const u8 *limit, int words, u64 stop,
                                State *state, Ids *out) {
    Word chunks[PIECES];
    PieceKey keys[PIECES];
    Cutter cut = {at, at, end};
    const Unigram *u = m->unigram;
    while (cut.at < end && out->n < stop) {
        size_t most = stop - out->n < PIECES ? stop - out->n : PIECES;
        size_t n = cut_chunks(m->chunks, &cut, words, u != NULL, SHORT_PIECE, chunks, most);
        for (size_t i = 0; i < n; i++) {
            if (chunks[i].length <= SHORT_PIECE) {
                keys[i] = piece_key(c, chunks[i].start, chunks[i].length, limit, 0);
                __builtin_prefetch(&c->entries[keys[i].slot]);
            } else if (chunks[i].length <= WIDE_PIECE) {
                u64 key[4];
                __builtin_prefetch(&c->wide[wide_key(c, chunks[i].start, chunks[i].length, key)]);
            }
        }
        for (size_t i = 0; i < n && out->n < stop; i++) {
            const u8 *p = chunks[i].start;
            u64 length = chunks[i].length, from = out->n;
            int error;
            if (u) {
                if (words && is_metaspace(p, end)) *state = (State){0, 0};
                error = length <= SHORT_PIECE  ? unigram_short(u, c, keys[i], p, length, state, out)
                        : length <= WIDE_PIECE ? unigram_wide(u, c, p, length, state, out)
                                               : unigram_long(u, c, p, length, state, out);
            } else {
                error = length <= SHORT_PIECE  ? encode_short(m, c, keys[i], p, length, out)
                        : length <= WIDE_PIECE ? encode_wide(m, c, p, length, limit, out)
                                               : encode_characters(m, c, p, length, 0, out);
                fuse_joint(m->characters, out, from, &state->after_unknown);
            }
            if (error) return error;
        }
        if (u && cut.at < cut.until && is_dense(cut.at, end) && out->n < stop) {
            if (words && is_metaspace(cut.at, end)) *state = (State){0, 0};
            int error = unigram_dense(u, c, &cut.at, cut.until, stop, state, out);
            if (error) return error;
        }
        settle(out);
    }
    return 0;
}

/* Append the ids of a document that is a whole text.  If that is not valid UTF-8, one of its chunks is not: it is in no cache,
 * and is refused when it is to be encoded. */
static __attribute__((noinline)) int encode_whole(const Model *m, Cache *c, const Batch *batch, u64 d, u64 stop, Ids *out) {
    const u8 *at = batch->data + batch->bounds[2 * d], *end = batch->data + batch->bounds[2 * d + 1];
    const u8 *limit = batch->data + batch->size;
    int words = m->unigram && !m->unigram->single && batch->pattern == METASPACE;
    State state = {0, 0};
    while (at < end && out->n < stop) {
        u64 bytes = 0;
        u32 symbol = NO_TOKEN;
        const u8 *until = m->chunks->symbols.edges ? next_symbol(m->chunks, at, end, &symbol, &bytes) : end;
        int error = encode_chunks(m, c, at, until, limit, words, stop, &state, out);
        if (error) return error;
        if (symbol != NO_TOKEN) {
            if (reserve(out, 1)) return OUT_OF_MEMORY;
            out->ids[out->n++] = symbol;
            state.after_unknown = 0;
        }
        at = until + bytes;
    }
    if (out->n > stop) out->n = stop;
    return 0;
}

/* Append the ids of document d. */
static inline int encode_document(const Model *m, Cache *c, const Batch *batch, u64 d, Ids *out) {
    Word words[PIECES];
    PieceKey keys[PIECES];
    const u8 *at = batch->data + batch->bounds[2 * d], *end = batch->data + batch->bounds[2 * d + 1];
    const u8 *limit = batch->data + batch->size;
    u64 stop = batch->most < NO_LIMIT - out->n ? out->n + batch->most : NO_LIMIT;
    if (m->chunks) return encode_whole(m, c, batch, d, stop, out);
    if (!is_readable(batch, at, end)) return NOT_UTF8;
    while (at < end && out->n < stop) {
        size_t n = scan_pieces(batch->pattern, &at, end, words, stop - out->n < PIECES ? stop - out->n : PIECES);
        for (size_t i = 0; i < n; i++) {
            if (words[i].length <= SHORT_PIECE) {
                keys[i] = piece_key(c, words[i].start, words[i].length, limit, 0);
                __builtin_prefetch(&c->entries[keys[i].slot]);
            } else if (words[i].length <= WIDE_PIECE) {
                u64 key[4];
                __builtin_prefetch(&c->wide[wide_key(c, words[i].start, words[i].length, key)]);
            }
        }
        c->told.words += n;
        for (size_t i = 0; i < n && out->n < stop; i++) {
            const u8 *p = words[i].start;
            u64 length = words[i].length, before = out->n;
            int error = length <= SHORT_PIECE  ? encode_short(m, c, keys[i], p, length, out)
                        : length <= WIDE_PIECE ? encode_wide(m, c, p, length, limit, out)
                                               : encode_long(m, c, p, length, limit, stop, out);
            if (error < 0) return error;
            c->told.kept += (out->n == before + 1) & (out->ids[out->n - (out->n > 0)] != batch->unk); /* no branch */
        }
        settle(out);
    }
    if (out->n > stop) out->n = stop;
    return 0;
}

/* Set ends[d] to the number of ids up to the end of document d.  On an error *at is its document. */
static inline int encode_documents(const Model *m, Cache *c, const Batch *batch, i64 *ends, u64 *at) {
    c->out.n = c->out.counted = 0;
    c->out.counting = 0;
    memset(&c->told, 0, sizeof c->told);
    for (*at = 0; *at < batch->documents; ++*at) {
        int error = encode_document(m, c, batch, *at, &c->out);
        if (error) return error;
        ends[*at] = (i64)c->out.n;
    }
    return 0;
}

static inline int count_documents(const Model *m, Cache *c, const Batch *batch, i64 *counts, u64 *at) {
    int error = 0;
    c->out.n = 0;
    c->out.counting = 1;
    memset(&c->told, 0, sizeof c->told);
    for (*at = 0; *at < batch->documents; ++*at) {
        c->out.counted = 0;
        if ((error = encode_document(m, c, batch, *at, &c->out))) break;
        settle(&c->out);
        counts[*at] = (i64)c->out.counted;
    }
    c->out.counting = 0;
    return error;
}

static inline int dropout_piece(const Model *m, Cache *c, const u8 *p, u64 n, double dropout, u64 *state) {
    if (!m->characters) return merge_dropout(m, &c->scratch, p, n, dropout, state, &c->out);
    if (valid_until(p, p + n) < p + n) return NOT_UTF8;
    if (m->characters->ends && !(p = text_with_end(c, p, n++))) return OUT_OF_MEMORY;
    c->inner.n = 0;
    int error = merge_dropout(m, &c->scratch, p, n, dropout, state, &c->inner);
    return error ? error : map_characters(m, p, n, c->inner.ids, c->inner.n, &c->out);
}

/* A whole text: what is between its user-defined symbols. */
static inline int dropout_whole(const Model *m, Cache *c, const u8 *at, const u8 *end, double dropout, u64 *state) {
    while (at < end) {
        u64 bytes = 0;
        u32 symbol = NO_TOKEN;
        const u8 *until = m->chunks->symbols.edges ? next_symbol(m->chunks, at, end, &symbol, &bytes) : end;
        int error = at < until ? dropout_piece(m, c, at, (u64)(until - at), dropout, state) : 0;
        if (!error) error = reserve(&c->out, 1);
        if (error) return error;
        if (symbol != NO_TOKEN) c->out.ids[c->out.n++] = symbol;
        at = until + bytes;
    }
    return 0;
}

/* The draws of a document depend on the seed and its bytes, and on nothing else. */
static inline int dropout_documents(const Model *m, Cache *c, const Batch *batch, double dropout, u64 seed, i64 *ends,
                                    u64 *at) {
    Word words[PIECES];
    c->out.n = c->out.counted = 0;
    c->out.counting = 0;
    for (*at = 0; *at < batch->documents; ++*at) {
        const u8 *p = batch->data + batch->bounds[2 * *at], *end = batch->data + batch->bounds[2 * *at + 1];
        u64 state = mix(seed ^ 0x8EBC6AF09C88C6E3ull, hash_bytes(p, (u64)(end - p)) ^ 0x589965CC75374CC3ull);
        if (m->chunks) {
            int error = dropout_whole(m, c, p, end, dropout, &state);
            if (error) return error;
            p = end;
        }
        if (!is_readable(batch, p, end)) return NOT_UTF8;
        while (p < end) {
            size_t n = scan_pieces(batch->pattern, &p, end, words, PIECES);
            for (size_t i = 0; i < n; i++) {
                int error = dropout_piece(m, c, words[i].start, words[i].length, dropout, &state);
                if (error) return error;
            }
        }
        ends[*at] = (i64)c->out.n;
    }
    return 0;
}

#endif
