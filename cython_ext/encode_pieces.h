/* WordPiece: the longest piece from the left, then the longest that continues, to the end of the word; and whole words.
 *
 * LinMaxMatch (Song, Salcianu, Song, Dopson and Zhou 2021, "Fast WordPiece Tokenization").  A node of the trie is what
 * was read since the last piece that is certain.  Where it has no edge for the next byte, its failure pops are the
 * pieces that greedy matching takes from it, and its failure link is the node of what they leave.  No byte is read
 * twice.
 *  - There are two tries: node 0 is the root of pieces that begin a word, as they are spelled, and `inside` that of
 *    those that continue one, without the prefix.  A word that begins with the text of the prefix is thus taken as it
 *    is spelled, as BERT does.
 *  - Pops are chains that share their beginnings: a node's are those of its parent, and what its last byte made
 *    certain.  All together they are no longer than the tokens, since a pop takes a byte at least.
 *  - With unk_characters a character that no piece begins with is popped as unk, and its other bytes are skipped.
 */
#ifndef BEAM_BPE_ENCODE_PIECES_H
#define BEAM_BPE_ENCODE_PIECES_H

#include "encode_merge.h"

enum { NOT_KEPT = 1 }; /* encoded, but a cache must not keep it: such a word is counted each time */
#define NO_NODE 0xFFFFFFFFu
#define NO_POP 0xFFFFFFFFu

typedef struct {
    u32 link; /* NO_NODE: no pieces match, the word is unknown */
    u32 last; /* the last of its pops, or NO_POP */
    u32 pops;
    u32 skip; /* bytes to be skipped before `link`, those of a character whose beginning was popped */
} Failure;

typedef struct {
    u32 before, token;
} Pop;

typedef struct Pieces {
    Trie trie;
    u32 inside;
    Failure *failures; /* by node */
    Pop *chain;
    u64 pops, room;
    u32 unk;
    u64 most_chars; /* longer words are unknown; 0: no limit */
    int unk_characters;
    Model *words; /* whole words, in place of all of this */
} Pieces;

typedef struct { /* words that became unk: what was left of them matched no piece; they were too long */
    u64 unmatched, overlong;
    u64 words, kept; /* all words that were encoded into ids; those of one token, which is not unk */
} Told;

static inline u64 count_characters(const u8 *p, u64 n) {
    u64 k = 0;
    for (u64 i = 0; i < n; i++) k += (p[i] & 0xC0) != 0x80;
    return k;
}

static inline void pieces_free(Pieces *s) {
    free(s->trie.edges);
    free(s->failures);
    free(s->chain);
    if (s->words) model_free(s->words);
    free(s->words);
    memset(s, 0, sizeof *s);
}

/* ---- making it ------------------------------------------------------------------------------ */

typedef struct { /* by node, while it is made */
    u32 *parent, *depth, *token;
    u8 *byte;
} Making;

static inline int add_piece(Pieces *s, Making *making, u32 root, const u8 *p, u64 n, u32 id) {
    u32 node = root;
    for (u64 k = 0; k < n; k++) {
        u32 nodes = s->trie.nodes;
        const Edge *e = trie_add(&s->trie, node, p[k]);
        if (!e) return OUT_OF_MEMORY;
        if (e->node == nodes) {
            making->parent[nodes] = node;
            making->depth[nodes] = (u32)k + 1;
            making->token[nodes] = NO_TOKEN;
            making->byte[nodes] = p[k];
        }
        node = e->node;
    }
    if (n && making->token[node] == NO_TOKEN) making->token[node] = id;
    return 0;
}

static inline int add_pop(Pieces *s, Failure *f, u32 token) {
    if (s->pops == s->room) {
        u64 room = s->room + s->room / 2 + 4096;
        Pop *chain = room < NO_POP ? (Pop *)realloc(s->chain, room * sizeof *chain) : NULL;
        if (!chain) return OUT_OF_MEMORY;
        s->chain = chain;
        s->room = room;
    }
    s->chain[s->pops].before = f->last;
    s->chain[s->pops].token = token;
    f->last = (u32)s->pops++;
    f->pops++;
    return 0;
}

/* Put the pops of another node, which are chained backwards, behind those of f. */
static inline int add_pops(Pieces *s, Failure *f, const Failure *other, Ids *some) {
    some->n = 0;
    if (reserve(some, other->pops)) return OUT_OF_MEMORY;
    for (u32 k = other->last; k != NO_POP; k = s->chain[k].before) some->ids[some->n++] = s->chain[k].token;
    while (some->n)
        if (add_pop(s, f, some->ids[--some->n])) return OUT_OF_MEMORY;
    return 0;
}

static inline int is_root(const Pieces *s, u32 node) { return node == 0 || node == s->inside; }

/* Nodes come in the order of their depth: what a shorter one fails to is known. */
static inline int make_failure(Pieces *s, const Making *making, u32 node, Ids *some) {
    Failure none = {NO_NODE, NO_POP, 0, 0}, f = none;
    u32 parent = making->parent[node], at = s->failures[parent].link;
    u8 byte = making->byte[node];
    u64 before = s->pops;
    int error = 0;
    if (making->token[node] != NO_TOKEN) {
        f.link = s->inside;
        error = add_pop(s, &f, making->token[node]);
    } else if (is_root(s, parent)) {
        if (s->unk_characters) {
            f.link = s->inside;
            f.skip = character_bytes(byte) - 1;
            error = add_pop(s, &f, s->unk);
        }
    } else if (at != NO_NODE) {
        f = s->failures[parent];
        if (f.skip) {
            f.skip--;
        } else {
            for (;;) {
                const Edge *e = trie_edge(&s->trie, at, byte);
                if (e) {
                    f.link = e->node;
                    break;
                }
                if (is_root(s, at)) {
                    f.link = s->unk_characters ? s->inside : NO_NODE;
                    f.skip = s->unk_characters ? character_bytes(byte) - 1 : 0;
                    if (s->unk_characters) error = add_pop(s, &f, s->unk);
                    break;
                }
                const Failure *next = &s->failures[at];
                if (next->link == NO_NODE) {
                    f.link = NO_NODE;
                    break;
                }
                if ((error = add_pops(s, &f, next, some))) break;
                at = next->link;
                if (next->skip) { /* this byte is one of them */
                    f.link = at;
                    f.skip = next->skip - 1;
                    break;
                }
            }
        }
    }
    if (f.link == NO_NODE) { /* nothing is popped from a word that is unknown */
        f = none;
        s->pops = before;
    }
    s->failures[node] = f;
    return error;
}

/* Tokens are text, holes are empty; those that no word can hold, being longer than most_chars, are left out.
 * Of two tokens of the same text the first counts. */
static inline int pieces_init(Pieces *s, u32 n_tokens, const u8 *tokens, const i64 *starts, const u8 *prefix, u64 prefix_bytes,
                              u32 unk, u64 most_chars, int unk_characters) {
    u64 bound = 2, longest = 0;
    Ids some;
    Making making;
    u32 *order = NULL, *behind = NULL;
    int error = OUT_OF_MEMORY;
    memset(&some, 0, sizeof some);
    s->unk = unk;
    s->most_chars = most_chars;
    s->unk_characters = unk_characters;
    s->inside = prefix_bytes ? 1 : 0;
    for (u32 id = 0; id < n_tokens; id++) {
        u64 n = (u64)(starts[id + 1] - starts[id]);
        if (most_chars && n > 4 * (most_chars + prefix_bytes)) continue;
        bound += 2 * n;
        if (n > longest) longest = n;
    }
    if (bound >= NO_NODE) return OUT_OF_MEMORY;
    making.parent = (u32 *)malloc(4 * bound);
    making.depth = (u32 *)malloc(4 * bound);
    making.token = (u32 *)malloc(4 * bound);
    making.byte = (u8 *)malloc(bound);
    if (!making.parent || !making.depth || !making.token || !making.byte || trie_start(&s->trie, 2)) goto done;
    for (u32 id = 0; id < n_tokens; id++) {
        const u8 *p = tokens + starts[id];
        u64 n = (u64)(starts[id + 1] - starts[id]);
        if (most_chars && n > 4 * (most_chars + prefix_bytes)) continue;
        int continues = prefix_bytes && n > prefix_bytes && !memcmp(p, prefix, prefix_bytes);
        if (!most_chars || count_characters(p, n) <= most_chars)
            if (add_piece(s, &making, 0, p, n, id)) goto done;
        if (continues && (!most_chars || count_characters(p + prefix_bytes, n - prefix_bytes) < most_chars))
            if (add_piece(s, &making, 1, p + prefix_bytes, n - prefix_bytes, id)) goto done;
    }
    u32 nodes = s->trie.nodes;
    s->failures = (Failure *)malloc(nodes * sizeof(Failure));
    order = (u32 *)malloc(4 * (u64)nodes);
    behind = (u32 *)calloc(longest + 2, 4); /* where the nodes of a depth begin in the order */
    if (!s->failures || !order || !behind) goto done;
    for (u32 root = 0; root < 2; root++) {
        Failure none = {NO_NODE, NO_POP, 0, 0};
        s->failures[root] = none;
    }
    for (u32 node = 2; node < nodes; node++) behind[making.depth[node] + 1]++;
    for (u64 k = 1; k <= longest; k++) behind[k + 1] += behind[k];
    for (u32 node = 2; node < nodes; node++) order[behind[making.depth[node]]++] = node;
    error = 0;
    for (u32 i = 0; i + 2 < nodes && !error; i++) error = make_failure(s, &making, order[i], &some);
done:
    free(making.parent);
    free(making.depth);
    free(making.token);
    free(making.byte);
    free(order);
    free(behind);
    ids_free(&some);
    return error;
}

/* Whole words: the set of them. */
static inline int words_init(Pieces *s, u32 n_tokens, const u8 *tokens, const i64 *starts, u32 unk) {
    u32 no_bytes[256];
    u64 slots = slots_for(n_tokens);
    memset(no_bytes, 0xFF, sizeof no_bytes);
    s->unk = unk;
    s->words = (Model *)calloc(1, sizeof(Model));
    if (!s->words || model_start(s->words, n_tokens, 0, tokens, starts, no_bytes, 0)) return OUT_OF_MEMORY;
    if (!(s->words->whole = (u64 *)zeroed(8 * slots))) return OUT_OF_MEMORY;
    s->words->whole_mask = slots - 1;
    for (u32 id = 0; id < n_tokens; id++)
        if (token_length(s->words, id)) whole_add(s->words, id);
    return 0;
}

/* ---- matching ------------------------------------------------------------------------------- */

static inline void pop_pieces(const Pieces *s, const Failure *f, Ids *out) {
    u32 *to = out->ids + (out->n += f->pops);
    for (u32 k = f->last; k != NO_POP; k = s->chain[k].before) *--to = s->chain[k].token;
}

/* A word, which is valid UTF-8, into pieces; as many as it has bytes at most. */
static inline int match_word(const Pieces *s, const u8 *p, u64 n, Ids *out, Told *told) {
    const u8 *at = p, *end = p + n;
    u64 before = out->n;
    u32 node = 0;
    if (s->most_chars && n > s->most_chars && count_characters(p, n) > s->most_chars) {
        if (reserve(out, 1)) return OUT_OF_MEMORY;
        told->overlong++;
        out->ids[out->n++] = s->unk;
        return NOT_KEPT;
    }
    if (reserve(out, n)) return OUT_OF_MEMORY;
    if (s->words) {
        u32 id = whole_token(s->words, p, n);
        out->ids[out->n++] = id == NO_TOKEN ? s->unk : id;
        told->unmatched += id == NO_TOKEN;
        return id == NO_TOKEN ? NOT_KEPT : 0;
    }
    while (at < end || !is_root(s, node)) {
        const Edge *e = at < end ? trie_edge(&s->trie, node, *at) : NULL;
        const Failure *f = &s->failures[node];
        if (e) {
            node = e->node;
            at++;
        } else if (is_root(s, node) && s->unk_characters) {
            out->ids[out->n++] = s->unk;
            at += character_bytes(*at);
            node = s->inside;
        } else if (f->link != NO_NODE) {
            pop_pieces(s, f, out);
            at += f->skip;
            node = f->link;
        } else {
            out->n = before;
            out->ids[out->n++] = s->unk;
            told->unmatched++;
            return NOT_KEPT;
        }
    }
    return 0;
}

#endif
