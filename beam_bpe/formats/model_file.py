"""SentencePiece's .model file: pieces with scores, how they were trained, and how text is normalized.

It is read and written with the protobuf runtime (`formats.model_proto`); the sentencepiece package is not needed.  What it
means as a vocabulary is said in `formats.sentencepiece`.
What a file may hold is what the package loads, less what it would misread: scores that are no numbers, one piece twice, and
a precompiled normalizer whose tables point outside of themselves.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Iterator, Mapping

import numpy as np

from beam_bpe.artifacts import FormatError
from beam_bpe.formats import files, model_proto
from beam_bpe.layout import MOST_IDS
from beam_bpe.model import byte_token
from beam_bpe.precompiled import check_charsmap

ALGORITHMS = ("unigram", "bpe", "word", "char")
KINDS = ("normal", "unknown", "control", "user_defined", "unused", "byte")

#: The longest piece that sentencepiece loads, and the most bytes and fields of all else; models of today have 0.3 MB in three.
MOST_PIECE_BYTES = 7_999
MOST_SPEC_BYTES, MOST_FIELDS = 1 << 24, 1_000
_MOST_MESSAGE = MOST_PIECE_BYTES + 64  # of a piece, its score, its kind and their tags
_SPECS = {2: "trainer_spec", 3: "normalizer_spec", 5: "denormalizer_spec"}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, eq=False)
class SentencePieceModel:
    """What a .model file holds; checked when it is made.

    Attributes:
        pieces: their spellings by id, spaces as U+2581.
        scores: float32 by id; the logarithm of a probability (Unigram), or minus the rank of a merge (BPE).
        kinds: by id, each of `KINDS`; exactly one is unknown.
        trainer: what TrainerSpec says, by its names (model_type is one of `ALGORITHMS`); what is not there has its default,
            which `option` knows.
        normalizer: what NormalizerSpec says.
        denormalizer: what is done to decoded text, None for nothing.
        others: fields that are not known, by the message that they are of ("": the model), kept for the way back.
        scores_meta: the file has the scores of pieces that are not normal, 0; those of early versions leave them out.

    Raises:
        ValueError: the parts contradict each other.
    """

    pieces: tuple[str, ...]
    scores: np.ndarray
    kinds: tuple[str, ...]
    trainer: Mapping[str, Any] = field(default_factory=dict)
    normalizer: Mapping[str, Any] = field(default_factory=dict)
    denormalizer: Mapping[str, Any] | None = None
    others: Mapping[str, bytes] = field(default_factory=dict)
    scores_meta: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", np.asarray(self.scores, np.float32))
        if not len(self.pieces) == len(self.scores) == len(self.kinds):
            raise ValueError(f"there are {len(self.pieces)} pieces, {len(self.scores)} scores and {len(self.kinds)} kinds")
        _check_pieces(self.pieces, self.scores, self.kinds)
        _check_bytes(self.pieces, self.kinds, self.option("byte_fallback"))
        if self.option("model_type") not in ALGORITHMS:
            raise ValueError(f"model_type={self.option('model_type')!r}: choose one of {', '.join(ALGORITHMS)}")
        for spec in (self.normalizer, self.denormalizer or {}):
            check_charsmap(spec.get("precompiled_charsmap", b""))

    def option(self, name: str) -> Any:
        """Return an option of the trainer or the normalizer, or its default; KeyError if there is none of that name."""
        for message, spec in (("TrainerSpec", self.trainer), ("NormalizerSpec", self.normalizer)):
            described = model_proto.messages()[message].DESCRIPTOR.fields_by_name
            if name in described:
                return spec[name] if name in spec else _plain(described[name], model_proto.messages()[message]())
        raise KeyError(f"{name!r} is no option of a SentencePiece model")


def read_model(path: str) -> SentencePieceModel:
    """Read a .model file from a path or URL.

    Raises:
        FileNotFoundError: it is not there.
        FormatError: it is damaged, or contradicts itself; the message names path and place.
    """
    path = os.fspath(path)
    return model_of(files.read(path), path)


def write_model(model: SentencePieceModel, path: str, *, overwrite: bool = False) -> None:
    """Write a .model file, whole or not at all; one that sentencepiece wrote, read and written has the same bytes.

    Raises:
        FileExistsError: something else stands there, and `overwrite` is not set.
    """
    files.write(os.fspath(path), content_of(model), overwrite)


def model_of(data: bytes, path: str = "the model") -> SentencePieceModel:
    """Return the model of a file's bytes; `path` is for errors, which are as those of `read_model`."""
    _check_sizes(data, path)
    proto = model_proto.messages()["ModelProto"]()
    try:
        proto.ParseFromString(data)
    except Exception as error:  # of the runtime's own kind
        raise FormatError(f"{path}: {_damaged(data, path)} ({error})") from None
    others = _others(proto, path)
    try:
        return SentencePieceModel(
            pieces=tuple([_text(piece.piece, f"piece {i}") for i, piece in enumerate(proto.pieces)]),
            scores=np.array([piece.score for piece in proto.pieces], np.float32),
            kinds=tuple([KINDS[piece.type - 1] for piece in proto.pieces]),
            trainer=_spec(proto.trainer_spec),
            normalizer=_spec(proto.normalizer_spec),
            denormalizer=_spec(proto.denormalizer_spec) if proto.HasField("denormalizer_spec") else None,
            others=others,
            scores_meta=all(piece.HasField("score") for piece in proto.pieces),
        )
    except ValueError as error:
        raise FormatError(f"{path}: {str(error)[:1000]}") from None


def content_of(model: SentencePieceModel) -> bytes:
    """Return the bytes of a .model file."""
    proto = model_proto.messages()["ModelProto"]()
    for piece, score, kind in zip(model.pieces, model.scores.tolist(), model.kinds):
        one = proto.pieces.add(piece=piece.encode())
        if score or kind == "normal" or model.scores_meta:
            one.score = score
        if kind != "normal":
            one.type = KINDS.index(kind) + 1
    specs = {"trainer_spec": model.trainer, "normalizer_spec": model.normalizer, "denormalizer_spec": model.denormalizer}
    for name, spec in specs.items():
        if spec is None:
            continue
        message = getattr(proto, name)
        message.SetInParent()
        for option, value in spec.items():
            _put(message, option, value)
        message.MergeFromString(model.others.get(name, b""))
    proto.MergeFromString(model.others.get("", b""))
    content: bytes = proto.SerializeToString(deterministic=True)
    return content


# ---- checks --------------------------------------------------------------------------------------


def _check_pieces(pieces: tuple[str, ...], scores: np.ndarray, kinds: tuple[str, ...]) -> None:
    if not 0 < len(pieces) <= MOST_IDS:
        raise ValueError(f"there are {len(pieces):,} pieces; a model has from 1 to {MOST_IDS:,}")
    seen: dict[str, int] = {}
    for i, piece in enumerate(pieces):
        if not piece:
            raise ValueError(f"piece {i} is empty")
        if "\0" in piece:
            raise ValueError(f"piece {i}, {piece[:60]!r}, holds a NUL, which ends pieces for sentencepiece")
        if len(piece) > MOST_PIECE_BYTES or len(piece.encode()) > MOST_PIECE_BYTES:
            raise ValueError(f"piece {i}, {piece[:60]!r}, has more than {MOST_PIECE_BYTES:,} bytes")
        if seen.setdefault(piece, i) != i:
            raise ValueError(f"pieces {seen[piece]} and {i} are both {piece[:60]!r}")
    if not np.isfinite(scores).all():
        i = int(np.argmin(np.isfinite(scores)))
        raise ValueError(f"piece {i}, {pieces[i][:60]!r}, has the score {scores[i]}, which is no finite number")
    if strange := set(kinds) - set(KINDS):
        raise ValueError(f"kind={min(strange)!r}: choose one of {', '.join(KINDS)}")
    unknown = [i for i, kind in enumerate(kinds) if kind == "unknown"]
    if len(unknown) != 1:
        found = f"pieces {unknown[0]} and {unknown[1]} are both unknown pieces" if unknown else "there is no unknown piece"
        raise ValueError(f"{found}; a model has one, for characters without a piece")


def _check_bytes(pieces: tuple[str, ...], kinds: tuple[str, ...], byte_fallback: bool) -> None:
    spelled = {byte_token(byte) for byte in range(256)}
    found = {piece: i for i, (piece, kind) in enumerate(zip(pieces, kinds)) if kind == "byte"}
    for piece, i in found.items():
        if piece not in spelled:
            raise ValueError(f"piece {i}, {piece[:60]!r}, is a byte and not spelled as one, such as {byte_token(0)}")
    if found and not byte_fallback:
        raise ValueError(f"{min(found)} is a byte, and byte_fallback is not set")
    if byte_fallback and len(found) < 256:
        raise ValueError(f"byte_fallback needs 256 bytes, and {min(spelled - found.keys())} is missing")


# ---- protobuf ------------------------------------------------------------------------------------


def _fields(data: bytes, path: str) -> Iterator[tuple[int, int, int, int]]:
    """Yield (number, start, start of the content, end) of the fields of a message; FormatError where it is damaged."""
    at = 0
    while at < len(data):
        start = at
        tag, at = _varint(data, at, path)
        wire = tag & 7
        if wire == _BYTES:
            size, at = _varint(data, at, path)
        elif wire == _VARINT:
            size = _varint(data, at, path)[1] - at
        elif wire in (_FIXED32, _FIXED64) and tag >> 3:
            size = 4 if wire == _FIXED32 else 8
        else:
            raise FormatError(f"{path} is no SentencePiece model: byte {start:,} begins no field of one")
        if size > len(data) - at:
            raise FormatError(
                f"{path} is cut off or damaged: the field at byte {start:,} has {size:,} bytes, and {len(data) - at:,} are left"
            )
        yield tag >> 3, start, at, at + size
        at += size


def _check_sizes(data: bytes, path: str) -> None:
    """Refuse what is damaged or too large, without memory of its own: the runtime would take 30 times that of empty pieces."""
    pieces = others = size = 0
    for number, start, content, end in _fields(data, path):
        if number != 1:
            others, size = others + 1, size + end - start
            if others > MOST_FIELDS or size > MOST_SPEC_BYTES:
                many = f"{MOST_FIELDS:,} fields" if others > MOST_FIELDS else f"{MOST_SPEC_BYTES:,} bytes"
                raise FormatError(f"{path} has more than {many} that are no pieces")
            continue
        if not 0 < end - content <= _MOST_MESSAGE:
            allowed = f"a piece has from 1 to {MOST_PIECE_BYTES:,} bytes"
            raise FormatError(f"{path}: piece {pieces} at byte {start:,} has {end - content:,} bytes; {allowed}")
        pieces += 1
        if pieces > MOST_IDS:
            raise FormatError(f"{path} has more than {MOST_IDS:,} pieces")


def _varint(data: bytes, at: int, path: str) -> tuple[int, int]:
    """Return a number and where it ends."""
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1
    value = 0
    for i in range(10):
        if at + i >= len(data):
            raise FormatError(f"{path} is cut off: the number at byte {at:,} has no end")
        value |= (data[at + i] & 0x7F) << (7 * i)
        if data[at + i] < 0x80:
            return value, at + i + 1
    raise FormatError(f"{path} is no SentencePiece model: the number at byte {at:,} has more than 10 bytes")


def _damaged(data: bytes, path: str) -> str:
    """Return which field the runtime cannot read."""
    kinds = {1: "SentencePiece", 2: "TrainerSpec", 3: "NormalizerSpec", 5: "NormalizerSpec"}
    pieces = 0
    for number, start, content, end in _fields(data, path):
        try:
            if number in kinds:
                model_proto.messages()[kinds[number]].FromString(data[content:end])
        except Exception:  # of the runtime's own kind
            return f"{_SPECS.get(number, f'piece {pieces}')} at byte {start:,} is damaged"
        pieces += number == 1
    return "it is no SentencePiece model"


def _others(proto: Any, path: str) -> dict[str, bytes]:
    """Return the fields that are not known; FormatError where they change what a piece or the algorithm is."""
    known = type(proto)()
    known.CopyFrom(proto)
    known.DiscardUnknownFields()
    if known.ByteSize() == proto.ByteSize():
        return {}
    for i, (piece, less) in enumerate(zip(proto.pieces, known.pieces)):
        if piece.ByteSize() != less.ByteSize():
            raise FormatError(f"{path}: piece {i} has a kind that is not known, or another field")
    others = {}
    for name in ("", *_SPECS.values()):
        message = type(proto)() if not name else type(getattr(proto, name))()
        message.CopyFrom(getattr(proto, name) if name else proto)
        for described, _ in message.ListFields():
            message.ClearField(described.name)
        if raw := message.SerializeToString():
            others[name] = raw
    if any(number == 3 for number, _, _, _ in _fields(others.get("trainer_spec", b""), path)):
        raise FormatError(f"{path}: trainer_spec has a model_type that is not known")
    return others


def _text(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{what}, {data[:60]!r}, is not UTF-8") from None


def _spec(message: Any) -> dict[str, Any]:
    return {described.name: _plain(described, message) for described, _ in message.ListFields()}


def _plain(described: Any, message: Any) -> Any:
    """Return the value of a field: an enumeration's name in lower case, text as str, several of them as a tuple."""
    value = getattr(message, described.name)
    if described.enum_type:
        return described.enum_type.values_by_number[value].name.lower()
    if described.type != described.TYPE_BYTES or described.name in model_proto.BINARY:
        return value
    if isinstance(value, bytes):
        return _text(value, described.name)
    return tuple(_text(one, described.name) for one in value)


def _put(message: Any, name: str, value: Any) -> None:
    described = message.DESCRIPTOR.fields_by_name[name]
    if isinstance(value, tuple):
        getattr(message, name).extend([one.encode() for one in value])
    elif described.enum_type:
        setattr(message, name, described.enum_type.values_by_name[value.upper()].number)
    else:
        setattr(message, name, value.encode() if isinstance(value, str) else value)
