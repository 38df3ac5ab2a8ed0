"""Learn the pieces of WordPiece (Schuster and Nakajima 2012, as BERT has them): by likelihood, or by count as Hugging Face.

Hugging Face's trainer counts pairs as BPE does, and gives out ids of pieces in the order of a hash table; its
`limit_alphabet` too depends on that order.  Here both scores are exact, and the vocabulary follows from the counts alone.
"""

from __future__ import annotations

from beam_bpe.alphabet import FIRST, INNER, LAST, ONLY, Alphabet, Form, count_characters, make_alphabet
from beam_bpe.characters import learn_symbols
from beam_bpe.learning import Learning
from beam_bpe.merging import Progress
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts


def learn(words: WordCounts, learning: Learning, progress: Progress | None = None) -> Vocabulary:
    """Learn a vocabulary of pieces; those behind the first of a word begin with the continuing-subword prefix."""
    prefix = learning.continuing_subword_prefix
    if prefix:
        forms = [Form((ONLY, FIRST)), Form((INNER, LAST), before=prefix)]
    else:
        forms = [Form((ONLY, FIRST, INNER, LAST))]
    alphabet = make_alphabet(count_characters(words), learning, forms, learning.both_forms)
    return learn_symbols(
        words,
        learning,
        alphabet,
        progress,
        kept_whole=_most_frequent_words(words, learning, alphabet),
        by_likelihood=learning.score == "likelihood",
    )


def _most_frequent_words(words: WordCounts, learning: Learning, alphabet: Alphabet) -> list[bytes]:
    """Return the words that are kept whole: the most frequent that are no token yet and that can be matched."""
    if not learning.seed_words:
        return []
    taken = {*(token.encode() for token in [*learning.fixed, *alphabet.symbols]), *learning.excluded}
    most = learning.max_input_chars_per_word
    kept: list[bytes] = []
    wanted = 2 * learning.seed_words + 256
    while True:
        candidates = words.most_common(wanted)
        kept = [
            word
            for word, count in candidates
            if count and word not in taken and (most is None or len(word) <= most or len(word.decode()) <= most)
        ]
        if len(kept) >= learning.seed_words or wanted >= len(words):
            return kept[: learning.seed_words]
        wanted *= 2
