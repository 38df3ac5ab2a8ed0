"""Word segmenters of other packages as pre-tokenization: ``split_with="beam_bpe.segmenters:jieba_words"``.

Each takes a document and gives its words; the package is imported at the first call, on workers too.  A segmenter with
settings of your own (a user dictionary, other stop words, a stemmer) is a function of three lines in a module of yours.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any


def nltk_words(text: str) -> list[str]:
    """Return the words of English text, as NLTK's NLTKWordTokenizer cuts it (the Penn Treebank's rules).

    It is lossy: whitespace is dropped and quotes are rewritten (a straight double quote becomes two backquotes or two
    apostrophes), so text is not restored by decoding.  Needs the package nltk, and no download.
    """
    return list(_nltk().tokenize(text))


def jieba_words(text: str) -> list[str]:
    """Return the words of Chinese text, as jieba cuts it with its HMM for words that are not in its dictionary.

    Nothing is dropped: the words joined are the text.  Needs the package jieba, which loads its dictionary at the first
    call of a process (about a second).
    """
    return list(_jieba().cut(text, HMM=True))


@lru_cache(1)
def _nltk() -> Any:
    try:
        from nltk.tokenize import NLTKWordTokenizer
    except ImportError:
        raise ImportError("beam_bpe.segmenters:nltk_words needs NLTK: pip install nltk") from None
    return NLTKWordTokenizer()


@lru_cache(1)
def _jieba() -> Any:
    try:
        import jieba
    except ImportError:
        raise ImportError("beam_bpe.segmenters:jieba_words needs jieba: pip install jieba") from None
    jieba.setLogLevel("WARNING")  # it tells of its dictionary on stderr
    return jieba
