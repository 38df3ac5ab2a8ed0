"""The characters by which GPT-2 and Hugging Face's ByteLevel show bytes (Radford et al. 2019, encoder.py)."""

from __future__ import annotations

_SHOWN = {*range(33, 127), *range(161, 173), *range(174, 256)}
_HIDDEN = [byte for byte in range(256) if byte not in _SHOWN]

#: The character of each byte: printable ones stand for themselves, the other 68 are U+0100, U+0101, ...
CHARACTERS = [chr(byte) if byte in _SHOWN else chr(256 + _HIDDEN.index(byte)) for byte in range(256)]
_TO_CHARACTERS = str.maketrans({chr(byte): character for byte, character in enumerate(CHARACTERS)})
_TO_BYTES = str.maketrans({character: chr(byte) for byte, character in enumerate(CHARACTERS)})
_KNOWN = frozenset(CHARACTERS)


def shown(token: bytes) -> str:
    """Return the characters of a token.

    >>> shown(b" low"), shown("é".encode())
    ('Ġlow', 'Ã©')
    """
    return token.decode("latin-1").translate(_TO_CHARACTERS)


def token_of(text: str) -> bytes | None:
    """Return the bytes that characters stand for, or None if one of them stands for none.

    >>> token_of("Ġlow"), token_of("a b")
    (b' low', None)
    """
    if not _KNOWN.issuperset(text):
        return None
    return text.translate(_TO_BYTES).encode("latin-1")
