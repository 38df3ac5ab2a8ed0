"""Decode ids one at a time."""

from __future__ import annotations

import codecs

from beam_bpe.tokenizer import Tokenizer


class StreamDecoder:
    """Turn ids into text one at a time, never giving half a character.

    An invalid byte becomes U+FFFD once, as Python's incremental decoder has it.

    >>> from beam_bpe import Tokenizer, train
    >>> tokenizer = Tokenizer(train({"é": 1}, 256))
    >>> stream = StreamDecoder(tokenizer)
    >>> [stream.push(i) for i in tokenizer.encode("é!")], stream.flush()
    (['', 'é', '!'], '')
    """

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._before: list[int] = []  # the last token, which decides on the space between it and the next one

    def push(self, token_id: int) -> str:
        """Return what the token completes."""
        known = self._tokenizer.decode_bytes(self._before)
        data = self._tokenizer.decode_bytes([*self._before, token_id])
        self._before = [token_id]
        return self._decoder.decode(data[len(known) :])

    def flush(self) -> str:
        """Return what is left at the end."""
        text = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        self._before = []
        return text
