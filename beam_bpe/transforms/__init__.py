"""Beam transforms: read documents, count their words, write and read word tables, learn from them."""

from beam_bpe.transforms.count import CountWords as CountWords
from beam_bpe.transforms.count import MergeWords as MergeWords
from beam_bpe.transforms.learn import LearnVocabulary as LearnVocabulary
from beam_bpe.transforms.read import ReadDocuments as ReadDocuments
from beam_bpe.transforms.train import TrainVocabulary as TrainVocabulary
from beam_bpe.transforms.words import ReadWords as ReadWords
from beam_bpe.transforms.words import WordRows as WordRows
from beam_bpe.transforms.words import WriteWords as WriteWords
