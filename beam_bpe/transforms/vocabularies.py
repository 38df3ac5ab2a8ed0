"""How a vocabulary comes to the workers: with the job, or from its path."""

from typing import Any, Dict, NamedTuple, Optional, Tuple, Union

from beam_bpe import formats
from beam_bpe.tokenizer import Tokenizer
from beam_bpe.vocabulary import Vocabulary


class VocabularySource(NamedTuple):
    """Where a worker gets the vocabulary: it travels by content, or is read from a path."""

    vocabulary: Optional[Vocabulary]
    path: Optional[str]
    options: Dict[str, Any]
    fingerprint: str
    method: str

    def tokenizer(self) -> Tokenizer:
        vocabulary = self.vocabulary
        if vocabulary is None:
            assert self.path is not None
            vocabulary = formats.load(self.path, **self.options)
        if vocabulary.fingerprint != self.fingerprint:
            raise ValueError(
                f"the vocabulary of {self.path} has the fingerprint {vocabulary.fingerprint[:12]}…, and the job was built "
                f"with {self.fingerprint[:12]}…: it was changed in between"
            )
        return Tokenizer(vocabulary, method=self.method)


def source_of(vocabulary: Union[str, Vocabulary], method: str, by_path: bool, options: Dict[str, Any]) -> Tuple[VocabularySource, Tokenizer]:
    """Return where workers get a vocabulary, and its tokenizer here."""
    loaded = vocabulary if isinstance(vocabulary, Vocabulary) else formats.load(vocabulary, **options)
    if by_path and isinstance(vocabulary, Vocabulary):
        raise ValueError("by_path=True goes with the path of a vocabulary, not with a Vocabulary")
    path = None if isinstance(vocabulary, Vocabulary) else vocabulary
    return VocabularySource(None if by_path else loaded, path, options, loaded.fingerprint, method), Tokenizer(loaded, method=method)
