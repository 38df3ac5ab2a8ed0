"""tiktoken's rank files: a token in base64 and its rank, which is its id, on each line.

The file holds neither the pattern nor the special tokens.  They are known for the published files (which
are recognized by their hash) and are given by the caller for any other.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import Any, Mapping, NamedTuple

import numpy as np

from beam_bpe import _encode
from beam_bpe.artifacts import FormatError
from beam_bpe.formats import files
from beam_bpe.layout import MOST_IDS, AddedToken, Layout
from beam_bpe.pretokenize import PATTERNS, PreTokenizer, pre_tokenizer
from beam_bpe.vocabulary import Vocabulary


class Encoding(NamedTuple):
    """What a rank file does not say.

    Attributes:
        pattern: a name of `PATTERNS`.
        special_tokens: ids of the special tokens.
        sha256: of the published rank file.
    """

    pattern: str
    special_tokens: Mapping[str, int]
    sha256: str


_DIGITS = 9  # of a rank; more are no rank, and must not become a wide column
_END = "<|endoftext|>"
_R50K = "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"
_P50K = "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069"
_O200K = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
_FIM = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
_HARMONY = ("<|return|>", "<|constrain|>", None, "<|channel|>", "<|start|>", "<|end|>", "<|message|>", None, None, None, "<|call|>")

#: The published encodings: OpenAI's by tiktoken 0.14, and that of the first Qwen.  (tiktoken's o200k_harmony
#: gives the id 200018 to <|reserved_200018|> as well; an id is one token here.)
ENCODINGS: Mapping[str, Encoding] = {
    "r50k_base": Encoding("gpt2", {_END: 50256}, _R50K),
    "p50k_base": Encoding("gpt2", {_END: 50256}, _P50K),
    "p50k_edit": Encoding("gpt2", {_END: 50256, **{token: 50281 + i for i, token in enumerate(_FIM)}}, _P50K),
    "cl100k_base": Encoding(
        "cl100k",
        {_END: 100257, **{token: 100258 + i for i, token in enumerate(_FIM)}, "<|endofprompt|>": 100276},
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
    "o200k_base": Encoding("o200k", {_END: 199999, "<|endofprompt|>": 200018}, _O200K),
    "o200k_harmony": Encoding(
        "o200k",
        {
            "<|startoftext|>": 199998,
            _END: 199999,
            **{f"<|reserved_{i}|>": i for i in (200000, 200001)},
            **{token or f"<|reserved_{200002 + i}|>": 200002 + i for i, token in enumerate(_HARMONY)},
            **{"<|endofprompt|>" if i == 200018 else f"<|reserved_{i}|>": i for i in range(200013, 201088)},
        },
        _O200K,
    ),
    "qwen": Encoding(
        "qwen2",
        {
            token: 151643 + i
            for i, token in enumerate([_END, "<|im_start|>", "<|im_end|>", *(f"<|extra_{i}|>" for i in range(205))])
        },
        "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186",
    ),
}


def load(
    path: str,
    *,
    encoding: str | None = None,
    pattern: str | PreTokenizer | None = None,
    special_tokens: Mapping[str, int] | None = None,
    normalizer: str | None = None,
) -> Vocabulary:
    """Read a rank file; ids are those of `tiktoken.Encoding` with the same pattern and special tokens.

    Args:
        encoding: a name of `ENCODINGS`; by default the one whose published file this is.
        pattern: a name of `PATTERNS` or a regex as tiktoken takes it (there $ is the very end of a text; what
            its matches leave out is lost), if the file is not a published one.
        special_tokens: their ids; by default those of the encoding.
        normalizer: name of a normalizer (`beam_bpe.normalize`), or None.

    Raises:
        FormatError: the file is broken, or is not the published one of that encoding.
        ValueError: the file is not known, and no pattern is given.
    """
    data = files.read(path)
    digest = hashlib.sha256(data).hexdigest()
    if encoding is not None and encoding not in ENCODINGS:
        raise ValueError(f"encoding={encoding!r}: choose one of {', '.join(ENCODINGS)}, or give pattern and special_tokens")
    if encoding is not None and ENCODINGS[encoding].sha256 != digest:
        raise FormatError(
            f"{path} is not the published rank file of {encoding}: its SHA-256 is {digest}, not {ENCODINGS[encoding].sha256}; "
            "give pattern and special_tokens instead if it should be read all the same"
        )
    if encoding is None and pattern is None:
        encoding = next((name for name, known in ENCODINGS.items() if known.sha256 == digest), None)
        if encoding is None:
            raise ValueError(
                f"{path} is none of the published rank files, and a rank file holds no pattern: give one (pattern=, "
                f"--pattern: {', '.join(PATTERNS)}, or a regex), and special_tokens if there are any"
            )
    if encoding is not None:
        pattern = pattern or ENCODINGS[encoding].pattern
        special_tokens = ENCODINGS[encoding].special_tokens if special_tokens is None else special_tokens
    assert pattern is not None
    chosen = pattern if isinstance(pattern, PreTokenizer) else pre_tokenizer(_named(pattern), gaps="drop")
    tokens = _ranks(data, path)
    try:
        left, right, merged, _ = _encode.recover_merges(b"".join(tokens), np.cumsum([0, *map(len, tokens)], dtype=np.int64))
        specials = tuple(AddedToken(text, i) for text, i in sorted((special_tokens or {}).items(), key=lambda item: item[1]))
        layout = Layout(tuple(tokens), np.frombuffer(merged, np.uint32), specials, whole_pieces=True)
        return Vocabulary.imported(
            layout,
            format="tiktoken",
            pre_tokenizer=chosen,
            left=np.frombuffer(left, np.uint32),
            right=np.frombuffer(right, np.uint32),
            normalizer=normalizer,
            encoding=encoding,
        )
    except ValueError as error:
        raise FormatError(f"{path}: {error}") from None


def _named(pattern: str) -> str:
    """Return the name of a pattern that is given as its text, or the text for `regex`, whose end of a text is \\Z."""
    if pattern in PATTERNS:
        return pattern
    ours = {"$": r"\Z", r"\z": r"\Z"}
    translated = _ENDS.sub(lambda end: ours.get(end[0], end[0]), pattern)
    return next((name for name, text in PATTERNS.items() if text == pattern and name != "bert"), translated)


def _for_tiktoken(pattern: str) -> str:
    """Return the text of a regex of `regex` for tiktoken."""
    theirs = {"$": r"(?=\n?\z)", r"\Z": r"\z"}
    return _ENDS.sub(lambda end: theirs.get(end[0], end[0]), pattern)


_ENDS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^]\\])*\]|\$", re.DOTALL)  # an escape, a class, or $


def _ranks(data: bytes, path: str) -> list[bytes]:
    """Return the tokens by rank, b"" for a hole."""
    words = data.split()
    try:  # all lines at once; what is wrong with one is said by the loop below
        if not b"".join(words[1::2]).isdigit() or max(map(len, words[1::2])) > _DIGITS:
            raise ValueError("a rank is no number")
        tokens = [binascii.a2b_base64(word, strict_mode=True) for word in words[::2]]
        ranks = np.array(words[1::2]).astype(np.uint64)
    except (ValueError, TypeError, OverflowError):
        tokens, ranks = [], np.empty(0, np.uint64)
    regular = len(tokens) == len(ranks) == data.count(b"\n") + (data[-1:] not in (b"\n", b"")) and all(tokens)
    if not regular or not tokens or ranks.max() >= MOST_IDS or len(set(tokens)) < len(tokens) or len(np.unique(ranks)) < len(ranks):
        return _ranks_by_line(data, path)
    if len(ranks) and np.array_equal(ranks, np.arange(len(ranks), dtype=np.uint64)):
        return tokens
    by_rank = [b""] * (int(ranks.max()) + 1)
    for token, rank in zip(tokens, ranks.tolist()):
        by_rank[rank] = token
    return by_rank


def _ranks_by_line(data: bytes, path: str) -> list[bytes]:
    found: dict[int, bytes] = {}
    seen: set[bytes] = set()
    for number, line in enumerate(data.splitlines(), 1):
        if not line:
            continue
        parts = line.split()
        if len(parts) != 2:
            raise FormatError(f"{path}, line {number}: {line[:60]!r} is not a token in base64 and its rank")
        try:
            token = binascii.a2b_base64(parts[0], strict_mode=True)
        except binascii.Error as error:
            raise FormatError(f"{path}, line {number}: {parts[0][:60]!r} is not base64: {error}") from None
        rank = int(parts[1]) if parts[1].isdigit() and len(parts[1]) <= _DIGITS else -1
        if not 0 <= rank < MOST_IDS:
            raise FormatError(f"{path}, line {number}: {parts[1][:60]!r} is no rank; ranks are from 0 to {MOST_IDS - 1:,}")
        if not token:
            raise FormatError(f"{path}, line {number}: the token is empty")
        if rank in found or token in seen:
            raise FormatError(f"{path}, line {number}: the {'rank' if rank in found else 'token'} stands twice")
        found[rank] = token
        seen.add(token)
    if not found:
        raise FormatError(f"{path} holds no token")
    tokens = [b""] * (max(found) + 1)
    for rank, token in found.items():
        tokens[rank] = token
    return tokens


def encoding_arguments(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return what `tiktoken.Encoding` takes beside a name: pat_str, mergeable_ranks, special_tokens.

    Raises:
        ValueError: tiktoken cannot give the same ids; the message says why.
    """
    if not vocabulary.model.is_byte_level:
        raise ValueError(f"tiktoken has BPE of bytes only, and the vocabulary is {vocabulary.model.algorithm} of characters")
    chosen = vocabulary.pre_tokenizer
    if chosen.name in ("callable", "sequence") or chosen.gaps == "keep":
        raise ValueError(
            f"tiktoken has one regex and drops what it leaves out: the pre-tokenizer {chosen.name!r} (gaps: {chosen.gaps}) "
            "cannot be said so"
        )
    if chosen.name == "bert":  # its text is of people: the scanner goes by the punctuation of tokenizers
        raise ValueError("tiktoken has no regex of the words of 'bert'")
    if vocabulary.normalizer is not None:
        raise ValueError(f"tiktoken has no normalizer, and the vocabulary has {vocabulary.normalizer}")
    for token in vocabulary.added_tokens:
        if not token.special or not token.plain:
            raise ValueError(f"tiktoken has special tokens only, and {token.text!r} is an added token of another kind")
    tokens = vocabulary.tokens
    left, right, merged, unreachable = (
        np.frombuffer(column, np.uint32)
        for column in _encode.recover_merges(b"".join(tokens), np.cumsum([0, *map(len, tokens)], dtype=np.int64))
    )
    order = np.argsort(vocabulary.merged, kind="stable")
    ours = np.stack([vocabulary.left[order], vocabulary.right[order], vocabulary.merged[order]])
    if (np.diff(vocabulary.merged.astype(np.int64)) <= 0).any() or not np.array_equal(ours, np.stack([left, right, merged])):
        raise ValueError("tiktoken merges by the ids of tokens, and the merges of this vocabulary have another order")
    special = set(vocabulary.special_ids.values())
    if len(set(unreachable.tolist()) - special) and not (vocabulary.layout and vocabulary.layout.whole_pieces):
        raise ValueError("tiktoken takes a word that is a token for that token, which is not so in this vocabulary")
    return {
        "pat_str": chosen.pattern if chosen.name in PATTERNS else _for_tiktoken(chosen.pattern),
        "mergeable_ranks": {token: i for i, token in enumerate(tokens) if token and i not in special},
        "special_tokens": vocabulary.special_ids,
    }


def save(vocabulary: Vocabulary, path: str, *, overwrite: bool = False, verify: bool = True) -> None:
    """Write a rank file (without the pattern and the special tokens, which it cannot hold).

    `encoding_arguments` gives those to `tiktoken.Encoding`.

    Args:
        verify: with a regex of one's own, which two libraries may read in two ways, first encode a set of
            difficult texts with `tiktoken` (which must be installed) and compare their ids with ours.

    Raises:
        ValueError: tiktoken cannot give the same ids; the message says why, or for which text.
        ImportError: `tiktoken` is not installed, and it is wanted.
    """
    arguments = encoding_arguments(vocabulary)
    if verify and vocabulary.pre_tokenizer.name not in PATTERNS:
        _verify(vocabulary, arguments)
    ranks = arguments["mergeable_ranks"]
    lines = [base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items()]
    files.write(path, b"".join(lines), overwrite)


def _verify(vocabulary: Vocabulary, arguments: Mapping[str, Any]) -> None:
    from beam_bpe.formats.difficult import TEXTS, own_texts
    from beam_bpe.tokenizer import Tokenizer

    try:
        import tiktoken
    except ImportError:
        raise ImportError(
            "a pattern of one's own is compared with `tiktoken` before a rank file is written: pip install tiktoken, or give "
            "verify=False (--no-verify)"
        ) from None
    ours = Tokenizer(vocabulary)
    try:
        theirs = tiktoken.Encoding("ours", **arguments)
    except Exception as error:  # of its own kinds
        raise ValueError(f"tiktoken cannot take the pattern {vocabulary.pre_tokenizer.pattern!r}: {error}") from None
    for text in [*TEXTS, *own_texts(vocabulary)]:
        expected, found = theirs.encode(text, disallowed_special=()), ours.encode(text, disallowed_special=())
        if found != expected:
            raise ValueError(
                f"tiktoken would encode {text[:80]!r} as {expected[:12]}, we do as {found[:12]}: it reads the pattern "
                f"{vocabulary.pre_tokenizer.pattern!r} in another way"
            )
