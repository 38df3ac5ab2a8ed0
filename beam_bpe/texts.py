"""Texts as bytes: str that holds surrogates, and bytes that are not UTF-8; bytes as texts that can be shown."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from beam_bpe import _scan
from beam_bpe.pretokenize import PreTokenizer

#: The White_Space of Unicode; Python's own str.isspace also has U+001C to U+001F.
WHITE_SPACE = ("\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
               "\u2028\u2029\u202f\u205f\u3000")  # fmt: skip


def bytes_of(text: str | bytes) -> bytes:
    """Return a text in UTF-8, lone surrogates as U+FFFD, or bytes as they are; TypeError if it is neither."""
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        if isinstance(text, (bytearray, memoryview)):
            return bytes(text)
        raise TypeError(f"a text is str or bytes, not {type(text).__name__}")  # bytes(5) would be five NULs
    try:
        return text.encode()
    except UnicodeEncodeError:  # surrogate pairs combine, lone ones are replaced
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def valid_bytes(data: bytes) -> bytes:
    """Return bytes as UTF-8, what is not valid as U+FFFD."""
    return data if _scan.invalid_utf8(data) < 0 else data.decode("utf-8", "replace").encode()


def readable(token: bytes) -> str:
    """Return a token as text in quotes, bytes that are no text as escapes.

    >>> readable(b" caf\\xc3\\xa9"), readable(b"\\xe2\\x96")
    ("' café'", "'\\\\xe2\\\\x96'")
    """
    text = token.decode("utf-8", "backslashreplace")
    shown = "".join(c if c.isprintable() or c == "\\" else repr(c)[1:-1] for c in text)
    return f"'{shown}'"


def shortened(text: str, width: int = 60, of: int | None = None) -> str:
    """Return a text cut to a width, saying how long it is: as it stands, or `of` characters where escapes stand for some."""
    return text if len(text) <= width else f"{text[:width]}… ({len(text) if of is None else of:,} characters)"


def is_text(data: memoryview, bounds: np.ndarray) -> bool:
    """Whether each document is valid UTF-8."""
    if not len(bounds) or not len(data):
        return True
    if _scan.invalid_utf8(data) >= 0:
        return False
    edges = bounds[bounds < len(data)]  # no document may begin or end inside a character
    return not bool(((np.frombuffer(data, np.uint8)[edges] & 0xC0) == 0x80).any())


def changed(data: Any, bounds: np.ndarray, change: Callable[[bytes], bytes]) -> tuple[bytes, bytes]:
    """Return documents, each of them changed, side by side, and their bounds as packed int64 numbers."""
    view = memoryview(data)
    made = [change(bytes(view[start:end])) for start, end in bounds.reshape(-1, 2).tolist()]
    ends = np.cumsum([0, *map(len, made)], dtype=np.int64)
    return b"".join(made), np.repeat(ends, 2)[1:-1].tobytes()


def pieces_of_invalid(data: bytes, pre_tokenizer: PreTokenizer) -> list[bytes]:
    """Cut bytes that are not UTF-8 where their text with U+FFFD would be cut, and keep the bytes."""
    lengths: list[int] = []  # bytes of data for each character of the text
    at = 0
    while at < len(data):
        bad = _scan.invalid_utf8(data, at)
        good = data[at:bad] if bad >= 0 else data[at:]
        lengths += [len(char.encode()) for char in good.decode()]
        if bad < 0:
            break
        try:
            data[bad : bad + 4].decode()
            width = 1
        except UnicodeDecodeError as error:
            width = error.end - error.start if error.start == 0 else 1
        lengths.append(width)
        at = bad + width
    pieces = []
    character = start = 0
    text, gaps = data.decode("utf-8", "replace"), pre_tokenizer.gaps == "drop"
    for word in pre_tokenizer.split(text):
        if gaps:  # the word does not begin where the one before ended
            place = text.find(word, character)
            if place < 0:  # a function may give other words than those of the text
                pieces.append(word.encode())
                continue
            start += sum(lengths[character:place])
            character = place
        size = sum(lengths[character : character + len(word)])
        pieces.append(data[start : start + size])
        character += len(word)
        start += size
    return pieces
