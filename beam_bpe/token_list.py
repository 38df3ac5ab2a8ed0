"""Tokens as lines of text: lists of them that people read and change, such as what training is to leave out.

A line is the token as text, in which `\\xNN` is a byte, `\\n`, `\\r` and `\\t` are what they usually are, and `\\\\` is a backslash.
Written so are what is no text or cannot be seen, spaces at the end, and `#` at the beginning: lines that begin with it,
and empty ones, tell nothing.
"""

from __future__ import annotations

import re
from typing import Iterable, Mapping, Sequence

from beam_bpe import storage
from beam_bpe.artifacts import FormatError
from beam_bpe.texts import bytes_of, shortened

_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\"}
_ESCAPE = re.compile(rb"\\(?:x([0-9A-Fa-f]{2})|(.?))", re.S)


def escaped(token: bytes) -> str:
    """Return a token as a line of a list.

    >>> print(escaped(b" caf\\xc3\\xa9"), escaped(b"\\xe2\\x96"), escaped(b"#\\n"), escaped(b"a\\\\b "))
     café \\xe2\\x96 \\x23\\n a\\\\b\\x20
    """
    shown = _printable(token)
    spaces = len(shown) - len(shown.rstrip(" "))
    shown = shown[: len(shown) - spaces] + "\\x20" * spaces
    return "\\x23" + shown[1:] if shown.startswith("#") else shown


def _printable(token: bytes) -> str:
    text = token.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(c if c.isprintable() else _spelled(c) for c in text)


def _spelled(character: str) -> str:
    for name, byte in _ESCAPES.items():
        if character == byte.decode():
            return "\\" + name
    return "".join(f"\\x{byte:02x}" for byte in character.encode())


def shown(token: bytes, width: int = 60) -> str:
    """Return a token in quotes, cut to a width: with the escapes of a list, but for what only a whole line needs.

    >>> print(shown(b"low"), shown(b"##est "), shown(b" \\n" * 300, 6))
    'low' '##est ' ' \\n \\n… (600 characters)'
    """
    return f"'{shortened(_printable(token), width, len(token.decode('utf-8', 'replace')))}'"


def unescaped(line: str) -> bytes:
    """Return the token that a line spells; ValueError if it holds another escape.

    >>> unescaped("\\\\x23 caf\\\\xc3\\\\xa9\\\\\\\\")
    b'# caf\\xc3\\xa9\\\\'
    """

    def meant(escape: re.Match[bytes]) -> bytes:
        if escape[1] is not None:
            return bytes([int(escape[1], 16)])
        name = escape[2].decode("latin-1")
        if name not in _ESCAPES:
            raise ValueError(
                f"{line!r} holds the escape \\{name}; those of a token are \\xNN, \\n, \\r, \\t, and \\\\ for a backslash"
            )
        return _ESCAPES[name]

    return _ESCAPE.sub(meant, bytes_of(line))


def in_order(tokens: Iterable[str | bytes]) -> tuple[str, ...]:
    """Return tokens, given as lines or as their bytes, as lines: each once, in the order of their bytes.

    Raises:
        TypeError: they are one text, or one of them is neither text nor bytes.
        ValueError: one is empty, or holds an escape that is none.

    >>> in_order(["low", b"\\xff", "low"])
    ('low', '\\\\xff')
    """
    if isinstance(tokens, (str, bytes)):
        raise TypeError(f"a list of tokens is needed, not one: {tokens[:60]!r}")
    found = {token if isinstance(token, bytes) else unescaped(token) for token in tokens}
    if b"" in found:
        raise ValueError("a list of tokens holds an empty one")
    return tuple(map(escaped, sorted(found)))


def read(url: str) -> tuple[str, ...]:
    """Read a list; FormatError names the line that is none."""
    try:
        lines = storage.read_bytes(url).decode().removeprefix("\ufeff").split("\n")
    except UnicodeDecodeError as error:
        raise FormatError(f"{url} is not UTF-8: {error}") from None
    found = []
    for number, line in enumerate(lines, 1):
        line = line.removesuffix("\r")
        if line and not line.startswith("#"):
            try:
                found.append(unescaped(line))
            except ValueError as error:
                raise FormatError(f"{url}, line {number}: {error}") from None
    return in_order(found)


def write(url: str, tokens: Mapping[str, Sequence[bytes]]) -> None:
    """Write a list, whole or not at all.

    Args:
        tokens: under titles, which become lines that tell nothing.
    """
    lines = []
    for title, some in tokens.items():
        lines += [f"# {title}", *map(escaped, some)]
    storage.write_bytes(url, "".join(f"{line}\n" for line in lines).encode())
