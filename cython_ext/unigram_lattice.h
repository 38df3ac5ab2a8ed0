/* One step of expectation maximization, the best segmentation, and pruning, over the lattice of unigram_state.h.
 *
 * Sums of probabilities are kept as they are, not as logarithms: in steps of 2^-256, by which they are scaled exactly where
 * a segment is long, so nothing underflows and an edge costs a multiplication.  With the sums over what follows, beta, one
 * pass to the right spreads a segment's count over its segmentations: no second sum is needed.
 */
#ifndef BEAM_BPE_UNIGRAM_LATTICE_H
#define BEAM_BPE_UNIGRAM_LATTICE_H

#include "unigram_math.h"
#include "unigram_state.h"

#define STEP 0x1p256
#define MINUS_INFINITY (-__builtin_inf())

/* 2 to the power of -256 · steps; what is further away does not count. */
static inline double scaled_down(i64 steps) {
    return steps == 0 ? 1 : steps == 1 ? 0x1p-256 : steps == 2 ? 0x1p-512 : steps == 3 ? 0x1p-768 : 0;
}

/* Sums over the segmentations of what follows each position; returns their logarithm at the start. */
static inline double sum_backward(Unigram *u, u32 start, u32 n) {
    const Piece *pieces = u->pieces;
    const u64 *first_edge = u->first_edge + start, base = first_edge[0];
    int is_scaled = 0;
    u->beta[n] = 1;
    u->scale[n] = 0;
    for (u32 i = n; i-- > 0;) {
        u64 e = first_edge[i], stop = first_edge[i + 1];
        double sum = 0;
        i64 scale = 0;
        if (!is_scaled) {
            for (; e < stop; e++) {
                const Piece *piece = &pieces[u->edges[e]];
                sum += u->product[e - base] = piece->p * u->beta[i + piece->length];
            }
        } else {
            scale = u->scale[i + 1];
            for (u64 f = e; f < stop; f++) {
                const Piece *piece = &pieces[u->edges[f]];
                if (piece->p > 0 && u->scale[i + piece->length] < scale) scale = u->scale[i + piece->length];
            }
            for (; e < stop; e++) {
                const Piece *piece = &pieces[u->edges[e]];
                double beta = u->beta[i + piece->length] * scaled_down(u->scale[i + piece->length] - scale);
                sum += u->product[e - base] = piece->p * beta;
            }
        }
        if (sum < 1 / STEP) {
            is_scaled = 1;
            scale++;
            sum *= STEP;
            for (e = first_edge[i]; e < stop; e++) u->product[e - base] *= STEP;
        }
        u->beta[i] = sum;
        u->scale[i] = scale;
    }
    return log_of(u->beta[0]) - (double)u->scale[0] * (256 * (LN2_HIGH + LN2_LOW));
}

/* The expected occurrences of every piece, in `expected`; the logarithm of the likelihood of all words. */
static inline int expect(Unigram *u, double *likelihood) {
    Piece *pieces = u->pieces;
    for (u32 k = 0; k < u->n_pieces; k++) pieces[k].expected = 0;
    *likelihood = 0;
    for (u64 segment = 0; segment < u->n_segments; segment++) {
        const u32 start = u->starts[segment], n = end_of(u, segment) - start;
        const u64 *first_edge = u->first_edge + start, base = first_edge[0];
        const double count = (double)u->counts[segment];
        *likelihood += count * sum_backward(u, start, n);
        memset(u->gamma, 0, (n + 1) * sizeof(double));
        u->gamma[0] = count;
        for (u32 i = 0; i < n; i++) {
            const double share = u->gamma[i] / u->beta[i];
            if (!(share > 0)) continue;
            for (u64 e = first_edge[i]; e < first_edge[i + 1]; e++) {
                Piece *piece = &pieces[u->edges[e]];
                double through = share * u->product[e - base];
                piece->expected += through;
                u->gamma[i + piece->length] += through;
            }
        }
        if (poll_now_and_then(u, first_edge[n] - base)) return INTERRUPTED;
    }
    return 0;
}

/* Give pieces the scores of their expected occurrences, by the variational Bayes of a sparse prior: digamma in place of the
 * logarithm (Liang and Klein 2007, "Structured Bayesian Nonparametric Models with Variational Inference").  A piece expected
 * less often than `least` dies if `dropping`; else, and if it is a character, it counts as that much.  Returns the number of
 * pieces alive. */
static inline u32 maximize(Unigram *u, double least, int dropping) {
    double sum = 0;
    u32 alive = 0;
    for (u32 k = 0; k < u->n_pieces; k++) {
        Piece *piece = &u->pieces[k];
        if (piece->expected < least) piece->expected = k < u->n_characters || !dropping ? least : 0;
        if (piece->expected > 0) {
            sum += piece->expected;
            alive++;
        }
    }
    double all = digamma(sum);
    for (u32 k = 0; k < u->n_pieces; k++) {
        Piece *piece = &u->pieces[k];
        piece->score = piece->expected > 0 ? digamma(piece->expected) - all : MINUS_INFINITY;
        piece->p = exp_of(piece->score);
    }
    return alive;
}

/* The best segmentation of n symbols, without one piece as a whole, into `choice`: the piece that begins at each position.
 * Of equal ones that whose first piece is longest. */
static inline double best_backward(Unigram *u, u32 start, u32 n, u32 without) {
    u->beta[n] = 0;
    for (u32 i = n; i-- > 0;) {
        double best = MINUS_INFINITY;
        for (u64 e = u->first_edge[start + i]; e < u->first_edge[start + i + 1]; e++) {
            u32 k = u->edges[e];
            const Piece *piece = &u->pieces[k];
            if (piece->length > n - i) break; /* the longest come last */
            if (k == without) continue;
            double score = piece->score + u->beta[i + piece->length];
            if (score >= best && score > MINUS_INFINITY) {
                best = score;
                u->choice[i] = k;
            }
        }
        u->beta[i] = best;
    }
    return u->beta[0];
}

/* Count the pieces of the best segmentations, in `used`; their sum. */
static inline int count_best(Unigram *u, u128 *sum) {
    for (u32 k = 0; k < u->n_pieces; k++) u->pieces[k].used = 0;
    *sum = 0;
    for (u64 segment = 0; segment < u->n_segments; segment++) {
        const u32 start = u->starts[segment], n = end_of(u, segment) - start;
        best_backward(u, start, n, NOTHING);
        for (u32 i = 0; i < n; i += u->pieces[u->choice[i]].length) {
            u->pieces[u->choice[i]].used += u->counts[segment]; /* no more than its occurrences, which fit */
            *sum += (u64)u->counts[segment];
        }
        if (poll_now_and_then(u, u->first_edge[start + n] - u->first_edge[start])) return INTERRUPTED;
    }
    return 0;
}

/* How much less likely the words' best segmentations get without a piece, if the best one of its own spelling replaces it
 * everywhere (Kudo 2018); -inf where that is better than the piece, or it is not used. */
static inline double loss_of(Unigram *u, u32 k, u128 sum) {
    const Piece *piece = &u->pieces[k];
    if (!piece->used) return MINUS_INFINITY;
    if (best_backward(u, piece->sample, piece->length, k) > piece->score) return MINUS_INFINITY;
    double used = (double)piece->used, others = 0;
    u32 parts = 0;
    for (u32 i = 0; i < piece->length; i += u->pieces[u->choice[i]].length, parts++)
        others += log_of((double)((u64)u->pieces[u->choice[i]].used + (u64)piece->used));
    double log_sum = log_of((double)sum), log_more = log_of((double)(sum + (u128)(u64)piece->used * (parts - 1)));
    return used * ((log_of(used) - log_sum) - (others - parts * log_more));
}

typedef struct {
    double value;
    u32 id;
} Ranked;

static inline int better_ranked(const void *one, const void *other) {
    const Ranked *a = (const Ranked *)one, *b = (const Ranked *)other;
    if (a->value != b->value) return a->value > b->value ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Leave the characters and the `most` best of the other pieces, of equal ones those of the better seeds; those whose value
 * is -inf go in any case.  The rest keeps its order. */
static inline int keep_best(Unigram *u, const double *values, u64 most) {
    const u32 n = u->n_pieces;
    u32 *renamed = (u32 *)malloc(4 * (u64)n + 4);
    Ranked *ranked = (Ranked *)malloc((n + 1) * sizeof *ranked);
    if (!renamed || !ranked) {
        free(renamed);
        free(ranked);
        return OUT_OF_MEMORY;
    }
    u64 candidates = 0;
    for (u32 k = 0; k < n; k++) {
        renamed[k] = k < u->n_characters ? 0 : NOTHING;
        if (k >= u->n_characters && values[k] > MINUS_INFINITY) ranked[candidates++] = (Ranked){values[k], k};
    }
    if (candidates > most) {
        qsort(ranked, candidates, sizeof *ranked, better_ranked);
        candidates = most;
    }
    for (u64 i = 0; i < candidates; i++) renamed[ranked[i].id] = 0;
    free(ranked);
    u32 kept = 0;
    for (u32 k = 0; k < n; k++)
        if (renamed[k] != NOTHING) {
            u->pieces[kept] = u->pieces[k];
            renamed[k] = kept++;
        }
    u->n_pieces = kept;
    u64 out = 0;
    for (u64 i = 0, e = 0; i < u->n_symbols; i++) {
        u64 stop = u->first_edge[i + 1];
        u->first_edge[i] = out;
        for (; e < stop; e++)
            if (renamed[u->edges[e]] != NOTHING) u->edges[out++] = renamed[u->edges[e]];
    }
    u->first_edge[u->n_symbols] = out;
    free(renamed);
    u32 *fewer = (u32 *)realloc(u->edges, 4 * (out + 1));
    if (fewer) u->edges = fewer;
    return 0;
}

/* Leave at most so many pieces that are no characters: those whose loss would be highest. */
static inline int prune(Unigram *u, u64 most) {
    u128 sum;
    int outcome = count_best(u, &sum);
    double *loss = (double *)malloc((u->n_pieces + 1) * sizeof *loss);
    if (!loss) outcome = OUT_OF_MEMORY;
    for (u32 k = u->n_characters; k < u->n_pieces && !outcome; k++) {
        loss[k] = loss_of(u, k, sum);
        outcome = poll_now_and_then(u, u->pieces[k].length * 8);
    }
    if (!outcome) outcome = keep_best(u, loss, most);
    free(loss);
    return outcome;
}

/* Leave at most so many pieces that are no characters: those of the highest scores. */
static inline int keep_likeliest(Unigram *u, u64 most) {
    double *scores = (double *)malloc((u->n_pieces + 1) * sizeof *scores);
    if (!scores) return OUT_OF_MEMORY;
    for (u32 k = 0; k < u->n_pieces; k++) scores[k] = u->pieces[k].score;
    int outcome = keep_best(u, scores, most);
    free(scores);
    return outcome;
}

#endif
