"""The models of a tokenizer.json: BPE of bytes or of characters, WordPiece, word level and Unigram, with vocab and merges.

What cannot be represented exactly is refused by name.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Callable, Collection, Mapping, NamedTuple, Sequence

import numpy as np

from beam_bpe.formats import bytelevel, scored, spaces
from beam_bpe.formats.unsupported import Unsupported
from beam_bpe.layout import MOST_IDS, AddedToken
from beam_bpe.model import SCORED, Model, byte_token
from beam_bpe.normalize import steps_of
from beam_bpe.vocabulary import Vocabulary

KINDS = ("BPE", "WordPiece", "WordLevel", "Unigram")
#: max_input_chars_per_word from here on is no limit: no word is so long.
_NO_LIMIT = 1 << 31


class Read(NamedTuple):
    """What a model's section holds.

    Attributes:
        tokens: bytes by id, b"" for a hole; special tokens of a model of characters are not among them.
        left, right, merged: ids of each merge, by rank.
        whole_pieces: ignore_merges.
        kept: entries that change no id, for the way back.
        scores: of the vocab by id, if it has them.
    """

    model: Model
    tokens: list[bytes]
    left: np.ndarray
    right: np.ndarray
    merged: np.ndarray
    whole_pieces: bool
    kept: dict[str, Any]
    scores: np.ndarray | None = None


def read_model(content: Mapping[str, Any], added: tuple[AddedToken, ...], byte_level: bool) -> Read:
    """Return a model.

    Args:
        content: the section "model".
        added: the added tokens of the file.
        byte_level: whether the pre-tokenizer spells bytes as characters.
    """
    kind = content.get("type", "BPE")
    if kind not in KINDS:
        raise Unsupported(f"the model {kind} cannot be represented; {', '.join(KINDS)} can")
    if byte_level and kind != "BPE":
        raise Unsupported(f"the model {kind} behind the pre-tokenizer ByteLevel cannot be represented; BPE can")
    if kind == "BPE":
        if not isinstance(content.get("merges"), list):
            raise ValueError("the model BPE has no list of merges")
        return _read_bytes(content, added) if byte_level else _read_characters(content, added)
    if kind == "Unigram":
        return _read_unigram(content, added)
    tokens = read_pieces(content.get("vocab"), added)
    if kind == "WordPiece":
        most = content.get("max_input_chars_per_word", 100)
        model = Model(
            algorithm="wordpiece",
            unit="character",
            continuing_subword_prefix=content.get("continuing_subword_prefix", "##") or None,
            unk_token=content.get("unk_token", "[UNK]"),
            max_input_chars_per_word=None if type(most) is int and most >= _NO_LIMIT else most,
        )
    else:
        model = Model(algorithm="wordlevel", unit="character", unk_token=content.get("unk_token"))
    _check_unk(model, content["vocab"])
    none = np.empty(0, np.uint32)
    return Read(model, tokens, none, none, none, False, {})


def _refuse(content: Mapping[str, Any], names: Collection[str]) -> None:
    for name in names:
        if content.get(name):
            raise Unsupported(f"the model's {name}={content[name]!r} cannot be represented")


def _flag(content: Mapping[str, Any], name: str) -> bool:
    value = content.get(name)
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"the model has {name}={value!r}, neither true nor false")
    return bool(value)


def _check_unk(model: Model, vocab: Mapping[str, int]) -> None:
    if model.unk_token not in vocab:
        raise ValueError(f"unk_token is {model.unk_token!r}, which is not in the vocab: unknown text could not be encoded")


# ---- BPE of bytes ----


def _read_bytes(content: Mapping[str, Any], added: tuple[AddedToken, ...]) -> Read:
    _refuse(content, ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"))
    whole = bool(content.get("ignore_merges"))
    tokens = read_vocab(content.get("vocab"), added, whole_pieces=whole)
    columns = read_merges(content["merges"], tokens)
    kept = {name: content[name] for name in ("unk_token", "fuse_unk") if content.get(name)}
    return Read(Model(), tokens, *columns, whole, kept)


def _check_vocab(vocab: Any) -> None:
    """Raise ValueError unless it gives texts different ids that are possible."""
    if not isinstance(vocab, dict) or not vocab:
        raise ValueError("the model has no vocab")
    ids = vocab.values()
    if not all(type(i) is int for i in ids):
        raise ValueError(f"the id of a token is no whole number: {next(i for i in ids if type(i) is not int)!r}")
    if min(ids) < 0 or max(ids) >= MOST_IDS:
        raise ValueError(f"the vocab has ids from {min(ids)} to {max(ids)}; they must be from 0 to {MOST_IDS - 1:,}")
    if len(set(ids)) != len(vocab):
        seen: dict[int, str] = {}
        first, second = next((seen[i], text) for text, i in vocab.items() if seen.setdefault(i, text) != text)
        raise ValueError(f"the tokens {first[:80]!r} and {second[:80]!r} of the vocab have one id")


def read_vocab(vocab: Any, added: tuple[AddedToken, ...], whole_pieces: bool = False) -> list[bytes]:
    """Return the tokens by id, b"" for a hole, of the vocab of a byte-level model (token → id)."""
    _check_vocab(vocab)
    outside = {token.text: token.id for token in added}
    tokens = [b""] * (max(vocab.values()) + 1)
    for text, i in vocab.items():
        token = bytelevel.token_of(text)
        if text in outside:
            if outside[text] != i:
                raise ValueError(f"the added token {text!r} has the id {outside[text]}, in the vocab it has {i}")
            if token is None or (token != text.encode() and len(token) > 1 and not whole_pieces):
                continue  # of another spelling than that of the model's bytes: no merge and no word gives it
            if token != text.encode():
                raise ValueError(f"the added token {text!r} is spelt as the vocab spells the token {token!r}")
        if not token:
            raise ValueError(f"the token {text!r} of id {i} is not spelt in the characters of a byte-level vocabulary")
        tokens[i] = token
    return tokens


def read_merges(
    merges: list[Any],
    tokens: list[bytes],
    spelt: Callable[[str], bytes | None] = bytelevel.token_of,
    special: Collection[str] = (),
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ids of the parts and of the token of each merge, given as "a b" or ["a", "b"].

    Args:
        spelt: gives the bytes of a token of the file, or None.
        special: texts of special tokens, which no merge may need.
    """
    ids = {token: i for i, token in enumerate(tokens) if token}
    columns = np.empty((3, len(merges)), np.uint32)
    for rank, merge in enumerate(merges):
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, str) for part in parts):
            raise ValueError(f"the merge of rank {rank} is {str(merge)[:80]!r}, not two tokens")
        a, b = spelt(parts[0]), spelt(parts[1])
        for text, token in ((parts[0], a), (parts[1], b), (parts[0] + parts[1], a + b if a and b else None)):
            if token not in ids:
                what = "a special token" if text in special else "not in the vocab"
                raise ValueError(f"the merge of rank {rank} needs the token {text[:80]!r}, which is {what}")
        assert a is not None and b is not None
        columns[0, rank], columns[1, rank], columns[2, rank] = ids[a], ids[b], ids[a + b]
    return columns[0].copy(), columns[1].copy(), columns[2].copy()


# ---- BPE of characters, and pieces ----


def _read_characters(content: Mapping[str, Any], added: tuple[AddedToken, ...]) -> Read:
    _refuse(content, ("dropout", "continuing_subword_prefix", "ignore_merges"))
    mark, unk = content.get("end_of_word_suffix") or None, content.get("unk_token") or None
    if unk is not None and not isinstance(unk, str):
        raise ValueError(f"the model has unk_token={str(unk)[:80]}, which is no text")
    fallback, fuse = _flag(content, "byte_fallback"), _flag(content, "fuse_unk")
    if not unk and not fallback:
        raise Unsupported(
            "the model BPE has no unk_token and no byte_fallback: tokenizers loses characters that have no token, which "
            "cannot be represented"
        )
    if fallback and mark:
        raise Unsupported(f"the model's end_of_word_suffix={mark!r} with byte_fallback cannot be represented")
    tokens = read_pieces(content.get("vocab"), added)
    vocab = content["vocab"]
    if fallback and unk not in vocab:
        unk = None  # every byte has a token, so that it is never wanted
    never_fused = fuse and (fallback or unk is None)
    model = Model(
        unit="character",
        end_of_word=mark,
        attached=mark is not None,
        unk_token=unk,
        byte_fallback=fallback,
        fuse_unk=fuse and not never_fused,
    )
    if not fallback:
        _check_unk(model, vocab)
    special = {token.text for token in added if token.special}
    columns = read_merges(content["merges"], tokens, str.encode, special)
    _check_merges(model, tokens, *columns[:2])
    kept = {"fuse_unk": True} if never_fused else {}
    if content.get("unk_token") and unk is None:
        kept["unk_token"] = content["unk_token"]
    return Read(model, tokens, *columns, False, kept)


def _check_merges(model: Model, tokens: Sequence[bytes], left: np.ndarray, right: np.ndarray) -> None:
    """Raise Unsupported for merges of what stands for characters without a token: tokenizers applies them there, too."""
    names = [byte_token(byte) for byte in range(256)] if model.byte_fallback else [model.unk_token or ""]
    spelt = {name.encode() for name in names}
    ids = np.array([i for i, token in enumerate(tokens) if token in spelt], np.uint32)
    for side in (left, right):
        found = np.isin(side, ids)
        if found.any():
            rank = int(np.argmax(found))
            text = tokens[side[rank]].decode()[:80]
            raise Unsupported(
                f"the merge of rank {rank} is of {text!r}, which stands for characters without a "
                "token and is not merged here, but by tokenizers"
            )


def read_pieces(vocab: Any, added: tuple[AddedToken, ...]) -> list[bytes]:
    """Return the tokens of a vocab (token → id) of characters by id, b"" for a hole; special tokens are not among them.

    So text never becomes a special token where that is not allowed.  (tokenizers gives one where the normalizer makes
    its text of another.)
    """
    _check_vocab(vocab)
    special = {token.text for token in added if token.special}
    tokens = [b""] * (max(vocab.values()) + 1)
    for text, i in vocab.items():
        if not text:
            raise ValueError(f"the token of id {i} is empty")
        if text not in special:
            tokens[i] = text.encode()
    while tokens and not tokens[-1]:
        tokens.pop()
    return tokens


# ---- Unigram ----


def _read_unigram(content: Mapping[str, Any], added: tuple[AddedToken, ...]) -> Read:
    vocab, scores = read_scores(content.get("vocab"))
    unk = content.get("unk_id")
    if unk is None:
        raise Unsupported("the model Unigram has no unk_id: tokenizers fails on unknown characters, which cannot be represented")
    if type(unk) is not int or not 0 <= unk < len(vocab):
        raise ValueError(f"the model has unk_id={str(unk)[:80]}, and ids from 0 to {len(vocab) - 1:,}")
    model = Model(
        algorithm="unigram",
        unit="character",
        unk_token=next(islice(vocab, unk, None)),
        byte_fallback=_flag(content, "byte_fallback"),
    )
    tokens = read_pieces(vocab, added)
    if model.byte_fallback and tokens[unk : unk + 1] not in ([], [b""]):
        raise Unsupported(
            f"the model's byte_fallback with an unk token {model.unk_token!r} that is not special cannot be represented"
        )
    normal = np.array([bool(token) for token in tokens] + [False] * (len(vocab) - len(tokens)))
    if not normal.any():
        raise ValueError("the model Unigram has special tokens only")
    if not normal.all() and scores[~normal].min() < scores[normal].min():
        i = int(np.argmin(np.where(normal, np.inf, scores)))
        raise Unsupported(
            f"the special token of id {i} has the lowest score, by which tokenizers scores unknown characters: this cannot be represented"
        )
    none = np.empty(0, np.uint32)
    return Read(model, tokens, none, none, none, False, {}, scores)


def read_scores(vocab: Any) -> tuple[dict[str, int], np.ndarray]:
    """Return the ids of the pieces of a vocab that lists [piece, score], and the scores by id."""
    if not isinstance(vocab, list) or not 0 < len(vocab) <= MOST_IDS:
        many = f" of {len(vocab):,}" if isinstance(vocab, list) and vocab else ""
        raise ValueError(
            f"the model Unigram has no vocab that lists pieces and scores, or one{many} pieces; at most {MOST_IDS:,} are read"
        )
    ids: dict[str, int] = {}
    scores = np.empty(len(vocab))
    for i, entry in enumerate(vocab):
        if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], str) or type(entry[1]) not in (int, float):
            raise ValueError(f"the entry of id {i} of the vocab is {str(entry)[:80]}, not a piece and its score")
        piece, score = entry
        if ids.setdefault(piece, i) != i:
            raise ValueError(f"the pieces of ids {ids[piece]} and {i} of the vocab are both {piece[:60]!r}")
        try:
            scores[i] = score
        except OverflowError:
            scores[i] = np.inf
    if not np.isfinite(scores).all():
        i = int(np.argmin(np.isfinite(scores)))
        raise ValueError(
            f"the piece of id {i} of the vocab, {vocab[i][0][:60]!r}, has the score {str(vocab[i][1])[:20]}, no finite number"
        )
    return ids, scores


def ids_of(model: Mapping[str, Any]) -> dict[str, int]:
    """Return the ids of the vocab of a model's section that was read."""
    vocab: dict[str, int] = read_scores(model["vocab"])[0] if isinstance(model["vocab"], list) else model["vocab"]
    return vocab


# ---- writing ----


def write_vocab(vocabulary: Vocabulary) -> dict[str, int]:
    """Return the ids of the model's tokens by their spelling in the file."""
    spell: Callable[[bytes], str] = bytelevel.shown if vocabulary.model.is_byte_level else bytes.decode
    return {spell(token): i for i, token in enumerate(vocabulary.tokens) if token}


def write_model(vocabulary: Vocabulary, vocab: Mapping[str, int], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section "model"; the merges by which pieces were learned, which decide nothing, are not in it.

    Args:
        vocab: the ids by spelling, with those of added tokens.
        kept: what `read_model` kept.

    Raises:
        Unsupported: tokenizers has no such model; the message says what would be lost.
    """
    model = vocabulary.model
    if model.is_scored:
        return scored.write_model(vocabulary, vocab)
    if model.algorithm == "wordlevel":
        return {"type": "WordLevel", "vocab": vocab, "unk_token": model.unk_token}
    if model.algorithm == "wordpiece":
        if model.unk_characters:
            raise Unsupported("WordPiece of tokenizers makes whole words unk_token: unk_characters would be lost")
        most = model.max_input_chars_per_word
        return {
            "type": "WordPiece",
            "unk_token": model.unk_token,
            "continuing_subword_prefix": model.continuing_subword_prefix or "",
            "max_input_chars_per_word": _NO_LIMIT if most is None else most,
            "vocab": vocab,
        }
    if model.end_of_word and not model.attached:
        raise Unsupported(
            f"tokenizers attaches the end of a word to its last character: {model.end_of_word!r} as a symbol of its own "
            "would be lost"
        )
    if model.end_of_word and model.byte_fallback:
        raise Unsupported(f"tokenizers spells the bytes of {model.end_of_word!r} too under byte_fallback: ids would differ")
    spell: Callable[[bytes], str] = bytelevel.shown if model.is_byte_level else bytes.decode
    if not model.is_byte_level:
        _check_merges(model, vocabulary.tokens, vocabulary.left, vocabulary.right)
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": model.unk_token,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": model.end_of_word,
        "fuse_unk": model.fuse_unk,
        "byte_fallback": model.byte_fallback,
        "ignore_merges": vocabulary.layout is not None and vocabulary.layout.whole_pieces,
        **kept,
        "vocab": vocab,
        "merges": [[spell(merge.left), spell(merge.right)] for merge in vocabulary.merges],
    }


def write_decoder(model: Model, normalizer: str | None) -> dict[str, Any] | None:
    """Return the component "decoder" of a model behind a normalizer."""
    steps = "+".join(steps_of(normalizer)) if normalizer is not None else None
    if model.algorithm in ("bpe", *SCORED) and (found := spaces.write_decoder(steps, model.byte_fallback)):
        return found
    if model.is_byte_level:
        return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    if model.algorithm == "wordlevel":
        return None  # which joins tokens by spaces
    if model.algorithm == "wordpiece":
        return {"type": "WordPiece", "prefix": model.continuing_subword_prefix or "", "cleanup": False}
    if model.end_of_word:
        return {"type": "BPEDecoder", "suffix": model.end_of_word}
    if model.byte_fallback:
        return {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]}
    return {"type": "Fuse"}
