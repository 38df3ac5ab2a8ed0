"""Learn subword vocabularies from corpora of any size, with Apache Beam or without.

The names below are imported when they are first used, so `import beam_bpe` costs next to nothing and
Beam is loaded only by those who use `beam_bpe.transforms`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from beam_bpe.artifacts import FormatError as FormatError
    from beam_bpe.costs import CostModel as CostModel
    from beam_bpe.curve import size_curve as size_curve
    from beam_bpe.learning import Learning as Learning
    from beam_bpe.measuring import measure_words as measure_words
    from beam_bpe.model import Model as Model
    from beam_bpe.pretokenize import PATTERNS as PATTERNS
    from beam_bpe.pretokenize import PreTokenizer as PreTokenizer
    from beam_bpe.pretokenize import pre_tokenizer as pre_tokenizer
    from beam_bpe.statistics import Statistics as Statistics
    from beam_bpe.stores import storage_options as storage_options
    from beam_bpe.stream_decoder import StreamDecoder as StreamDecoder
    from beam_bpe.tokenizer import Tokenizer as Tokenizer
    from beam_bpe.training import train as train
    from beam_bpe.vocabulary import Vocabulary as Vocabulary
    from beam_bpe.words import WordCounts as WordCounts

_HOMES = {
    "CostModel": "costs",
    "FormatError": "artifacts",
    "Learning": "learning",
    "measure_words": "measuring",
    "Model": "model",
    "PATTERNS": "pretokenize",
    "PreTokenizer": "pretokenize",
    "pre_tokenizer": "pretokenize",
    "size_curve": "curve",
    "Statistics": "statistics",
    "storage_options": "stores",
    "StreamDecoder": "stream_decoder",
    "Tokenizer": "tokenizer",
    "train": "training",
    "Vocabulary": "vocabulary",
    "WordCounts": "words",
}
_KERNELS = ("_encode", "_merge", "_normalize", "_scan", "_statistics", "_unigram", "_words")
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _KERNELS:  # asked for only where the import of the extension itself has failed
        try:
            return import_module(f"beam_bpe.{name}")
        except ImportError as error:
            raise ImportError(
                f"the extension beam_bpe.{name} is not built ({error}): run `pip install -e .` "
                "in the checkout, which needs a C compiler; if it is installed already, this is another folder of the "
                "same name that comes before it: work elsewhere"
            ) from error
    if name not in _HOMES:
        raise AttributeError(f"module 'beam_bpe' has no attribute {name!r}")
    value = getattr(import_module(f"beam_bpe.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
