"""How tokens are told to people: as their vocabulary spells them, and what of the text is theirs.

Families mark what begins or continues a word: `##est`, `▁low`, `low</w>`.  Decoding turns such marks into a space between
words, which is no text of the token: `.` of WordPiece decodes to " .", and is one byte.
"""

from __future__ import annotations

from beam_bpe.encoders import decoded_tokens
from beam_bpe.vocabulary import Vocabulary


def spellings(vocabulary: Vocabulary) -> list[bytes]:
    """Return each token by id as its vocabulary spells it, added ones as their text; b"" of a hole.

    >>> from beam_bpe import train
    >>> vocabulary = train({"low": 5, "lo": 2}, 6, algorithm="wordpiece", unk_token="[UNK]")
    >>> spellings(vocabulary)
    [b'[UNK]', b'##o', b'##w', b'l', b'lo', b'low']
    """
    tokens = [*vocabulary.tokens, *[b""] * (len(vocabulary) - len(vocabulary.tokens))]
    for added in vocabulary.added_tokens:
        tokens[added.id] = added.text.encode()
    return tokens


def own_texts(vocabulary: Vocabulary) -> list[bytes]:
    """Return what each token by id decodes to but for the space that it brings; b"" of a hole, and of a space alone (`▁`).

    >>> from beam_bpe import train
    >>> vocabulary = train({"low": 5, "lo": 2}, 6, algorithm="wordpiece", unk_token="[UNK]")
    >>> own_texts(vocabulary)
    [b'[UNK]', b'o', b'w', b'l', b'lo', b'low']
    """
    tokens, spaces = decoded_tokens(vocabulary)
    if spaces is None:
        return tokens
    bounds = {0: slice(None), 1: slice(1, None), 2: slice(-1)}  # none, one before it, one behind it
    return [token[bounds[space]] for token, space in zip(tokens, spaces.tolist())]
