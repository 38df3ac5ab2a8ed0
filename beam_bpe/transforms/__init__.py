"""Beam transforms: read documents, count their words, learn from them, encode and decode."""

from beam_bpe.transforms.count import CountWords as CountWords
from beam_bpe.transforms.count import MergeWords as MergeWords
from beam_bpe.transforms.encode import Decode as Decode
from beam_bpe.transforms.encode import Encode as Encode
from beam_bpe.transforms.encode_files import EncodeFiles as EncodeFiles
from beam_bpe.transforms.learn import LearnVocabulary as LearnVocabulary
from beam_bpe.transforms.measure import MeasureTokens as MeasureTokens
from beam_bpe.transforms.measure import WriteStatistics as WriteStatistics
from beam_bpe.transforms.read import ReadDocuments as ReadDocuments
from beam_bpe.transforms.shards import WriteShards as WriteShards
from beam_bpe.transforms.train import TrainVocabulary as TrainVocabulary
from beam_bpe.transforms.windowed import WriteWindowedWords as WriteWindowedWords
from beam_bpe.transforms.words import ReadWords as ReadWords
from beam_bpe.transforms.words import WordRows as WordRows
from beam_bpe.transforms.words import WriteWords as WriteWords
