"""The encoders: `python encoders.py NAME WHAT ENCODING REFERENCE ARGUMENTS`; each answers with a line of JSON.

NAME is an encoder, WHAT one of the programs below, ENCODING a published one (cl100k_base …) or the name of what
--tokenizer-json and --codes hold, and REFERENCE the folder of its rank file and of patterns.json.  Every encoder is made from the same files, by the constructor of its
documentation, with special tokens as plain text, and has one thread where it lets itself be told so.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import pickle
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterable, NamedTuple, Sequence

#: Text that is encoded by one call where an encoder takes many documents: what the pipeline reads at a time.
BLOCK = 8 << 20
#: Documents of one digest.
DIGESTED = 64
SHORT = {
    "a word": "hi",
    "a sentence": "Tokenization is the first step of every language model.",
    "a Chinese sentence": "斷詞是每個語言模型的第一步。",
}

Call = Callable[[Any], Any]


def itself(value: Any) -> Any:
    """Return what is given."""
    return value


class Batches(NamedTuple):
    """A way to encode many documents by one call.

    Attributes:
        encode: the call.
        lay_out: what it is given, from a list of str; not measured, as in a pipeline the text lies there so.
        ids: the ids of each document in what it returns.
    """

    encode: Call
    lay_out: Call = list
    ids: Call = itself


@dataclass
class Encoder:
    """What an encoder can do; `made` is the object itself.

    Attributes:
        encode: one document (a str) a call, in the way of its documentation that costs least.
        ids: the ids in what `encode` returns.
        batches: ways to encode many documents a call, by name.
        decode: by name, whether ids come as an "array" or a "list", and a call to decode one document.
        latency: ways to encode one short string, by name.
    """

    made: Any
    encode: Call
    ids: Call = itself
    batches: dict[str, Batches] = field(default_factory=dict)
    decode: dict[str, tuple[str, Call]] = field(default_factory=dict)
    latency: dict[str, Call] = field(default_factory=dict)


@dataclass(frozen=True)
class Files:
    """Where an encoding comes from."""

    encoding: str
    reference: Path
    vocabulary: str | None = None
    tokenizer_json: str | None = None
    codes: str | None = None
    model: str | None = None

    @property
    def ranks(self) -> str:
        return str(self.reference / f"{self.encoding}.tiktoken")

    @property
    def published(self) -> dict[str, Any]:
        """Pattern and special tokens, as tiktoken has them."""
        with open(self.reference / "patterns.json", encoding="utf-8") as file:
            content: dict[str, Any] = json.load(file)[self.encoding]
        return content


# ---- ours --------------------------------------------------------------------------------------------


def beam_bpe(files: Files, source: str = "") -> Encoder:
    """Ours, from our folder, a rank file, a tokenizer.json or a .model: whichever is given."""
    import numpy as np

    from beam_bpe import Tokenizer

    paths = {"folder": files.vocabulary, "rank file": files.ranks, "tokenizer.json": files.tokenizer_json}
    paths["model"] = files.model
    tokenizer = Tokenizer.load(paths[source] if source else files.vocabulary or files.ranks)

    def laid_out(documents: Sequence[str]) -> tuple[bytes, Any]:
        encoded = [document.encode() for document in documents]
        ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        return b"".join(encoded), np.repeat(ends, 2)[1:-1]

    def encode(document: str) -> list[int]:
        return tokenizer.encode(document, disallowed_special=())

    def encode_batch(documents: Sequence[str]) -> list[list[int]]:
        return tokenizer.encode_batch(documents, disallowed_special=())

    return Encoder(
        tokenizer,
        encode,
        batches={
            "encode_documents": Batches(lambda block: tokenizer.encode_documents(*block), laid_out, lambda b: b.split()),
            "encode_batch": Batches(encode_batch),
        },
        decode={
            "decode_bytes of arrays": ("array", tokenizer.decode_bytes),
            "decode of lists": ("list", tokenizer.decode),
        },
        latency={"encode": tokenizer.encode},
    )


# ---- peers -------------------------------------------------------------------------------------------


def fastokens(files: Files, source: str = "") -> Encoder:
    """fastokens (its pool of threads ignores RAYON_NUM_THREADS)."""
    import fastokens as peer
    import numpy as np

    if files.encoding in ("cl100k_base", "o200k_base"):
        made = peer.Tokenizer.from_tiktoken(files.ranks, encoding=files.encoding)
    else:  # with a rank file and a pattern it takes three times as long; a tokenizer.json with holes it refuses
        made = peer.Tokenizer.from_file(str(files.tokenizer_json))
    return Encoder(
        made,
        lambda document: made.encode_ordinary(document).ids,
        batches={
            "encode_batch_flat": Batches(
                lambda block: made.encode_batch_flat(block, split_special_tokens=True),
                ids=lambda flat: cut(np.frombuffer(flat[0], np.uint32), np.frombuffer(flat[1], np.uint64)),
            )
        },
        decode={"decode of lists": ("list", made.decode)},
        latency={"encode_ordinary().ids": lambda text: made.encode_ordinary(text).ids},
    )


def gigatoken(files: Files, source: str = "") -> Encoder:
    """gigatoken; it takes special tokens for themselves, and cannot be told otherwise."""
    import gigatoken as peer

    made = peer.Tokenizer.from_tiktoken(files.ranks)
    compatible = made.as_tiktoken()
    return Encoder(
        made,
        made.encode,
        batches={
            "encode_batch": Batches(
                lambda block: made.encode_batch(block, parallel=False),
                lambda documents: [document.encode() for document in documents],
            )
        },
        decode={"decode of arrays": ("array", made.decode), "decode of lists": ("list", made.decode)},
        latency={"encode (array)": made.encode, "as_tiktoken().encode": compatible.encode},
    )


def quicktok(files: Files, source: str = "") -> Encoder:
    """quicktok, with the encodings that it brings along."""
    import quicktok as peer

    made = peer.Tokenizer(files.encoding, os.path.join(os.path.dirname(peer.__file__), "data"))
    return Encoder(
        made,
        made.encode_ordinary,
        batches={"encode_batch": Batches(lambda block: made.encode_batch(block, 1), ids=lambda flat: cut(*flat))},
        decode={"decode_bytes of lists": ("list", made.decode_bytes)},
        latency={"encode": made.encode, "encode_ordinary": made.encode_ordinary},
    )


def tiktoken(files: Files, source: str = "") -> Encoder:
    """tiktoken, from the rank file itself: its own loader would download it."""
    import tiktoken as peer

    with open(files.ranks, "rb") as lines:
        ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}
    known = files.published
    made = peer.Encoding(
        files.encoding, pat_str=known["pat_str"], mergeable_ranks=ranks, special_tokens=known["special_tokens"]
    )
    return Encoder(
        made,
        made.encode_ordinary,
        decode={"decode_bytes of lists": ("list", made.decode_bytes), "decode of lists": ("list", made.decode)},
        latency={"encode": made.encode, "encode_ordinary": made.encode_ordinary},
    )


def tokenizers(files: Files, source: str = "") -> Encoder:
    """Hugging Face's tokenizers, from a tokenizer.json."""
    import tokenizers as peer

    made = peer.Tokenizer.from_file(str(files.tokenizer_json))
    made.encode_special_tokens = True  # so they are text
    return Encoder(
        made,
        lambda document: made.encode(document, add_special_tokens=False),
        ids=lambda encoding: encoding.ids,
        batches={
            "encode_batch_fast": Batches(
                lambda block: made.encode_batch_fast(block, add_special_tokens=False),
                ids=lambda encodings: [encoding.ids for encoding in encodings],
            )
        },
        decode={"decode of lists": ("list", lambda ids: made.decode(ids, skip_special_tokens=False))},
        latency={"encode().ids": lambda text: made.encode(text, add_special_tokens=False).ids},
    )


def sentencepiece(files: Files, source: str = "") -> Encoder:
    """SentencePiece, from a .model; it has one thread where it is told so."""
    import sentencepiece as peer

    made = peer.SentencePieceProcessor(model_file=files.model)
    return Encoder(made, made.encode, batches={"encode": Batches(lambda block: made.encode(block, num_threads=1))})


def subword_nmt(files: Files, source: str = "") -> Encoder:
    """subword-nmt, from its codes; it gives strings, whose ids are those of the tokenizer.json."""
    from subword_nmt.apply_bpe import BPE

    with open(str(files.tokenizer_json), encoding="utf-8") as file:
        known: dict[str, int] = json.load(file)["model"]["vocab"]
    with open(str(files.codes), encoding="utf-8") as codes:
        made = BPE(codes)

    def ids(pieces: list[str]) -> list[int]:
        spelled = (piece.removesuffix("@@") if piece.endswith("@@") else piece + "</w>" for piece in pieces)
        return [known.get(piece, known["<unk>"]) for piece in spelled]

    return Encoder(made, lambda document: made.segment_tokens(document.split()), ids=ids)


def python(files: Files, source: str = "") -> Encoder:
    """Plain Python, which only decodes."""
    with open(files.ranks, "rb") as lines:
        tokens = {int(rank): base64.b64decode(token) for token, rank in map(bytes.split, lines)}

    def join(ids: Iterable[int]) -> bytes:
        return b"".join(map(tokens.__getitem__, ids))

    return Encoder(tokens, lambda document: [], decode={'b"".join of lists': ("list", join)})


ENCODERS: dict[str, Callable[..., Encoder]] = {
    "beam_bpe": beam_bpe,
    "fastokens": fastokens,
    "gigatoken": gigatoken,
    "quicktok": quicktok,
    "sentencepiece": sentencepiece,
    "subword_nmt": subword_nmt,
    "tiktoken": tiktoken,
    "tokenizers": tokenizers,
    "python": python,
}


# ---- what is measured --------------------------------------------------------------------------------


class Clock:
    """Seconds, of the wall and of the CPU (all threads), since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self, parts: int = 1) -> dict[str, Any]:
        """Return {"seconds": …, "cpu": {"seconds": …}}, for one of `parts` equal ones."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return {"seconds": wall / parts, "cpu": {"seconds": cpu / parts}}


def encode(make: Callable[[], Encoder], options: argparse.Namespace) -> dict[str, Any]:
    """Encode documents: `cold`, the first ones with a new object; `steady`, different ones after them.

    What is returned is dropped at once; with --digests all is encoded once more, outside the time, to tell the ids.
    """
    documents = read_documents(options.file, options.most)
    sizes = [len(document.encode()) for document in documents]
    half = min(options.cold, sum(sizes) // 2)
    cut = taken = 0
    while taken < half:
        taken += sizes[cut]
        cut += 1
    encoder = make()
    batches = None if options.way == "call" else encoder.batches[options.way]
    parts = {"cold": documents[:cut], "steady": documents[cut:]}
    answer: dict[str, Any] = {}
    for name, part in parts.items():
        call, arguments = encoder.encode, part
        if batches is not None:
            call, arguments = batches.encode, [batches.lay_out(block) for block in in_blocks(part)]
        clock = Clock()
        for argument in arguments:
            call(argument)
        answer[name] = {**clock.read(), "bytes": taken if name == "cold" else sum(sizes) - taken}
    if options.digests and batches is None:
        answer["digests"] = digests(encoder.ids(encoder.encode(document)) for document in documents)
    elif options.digests:
        encoded = (batches.ids(batches.encode(batches.lay_out(block))) for block in in_blocks(documents))
        answer["digests"] = digests(ids for block in encoded for ids in block)
    return answer


def long(make: Callable[[], Encoder], options: argparse.Namespace) -> dict[str, Any]:
    """Encode one string, the whole of a file, by one call."""
    with open(options.file, encoding="utf-8", newline="") as file:
        text = file.read()
    encoder = make()
    encoder.encode("A few words, for what is made when it is first used.")
    call, ids, argument = encoder.encode, encoder.ids, text
    if options.way != "call":
        call, lay_out, several = encoder.batches[options.way]
        ids, argument = lambda encoded: next(iter(several(encoded))), lay_out([text])
    clock = Clock()
    encoded = call(argument)
    took = clock.read()
    return {**took, "bytes": len(text.encode()), "digests": digests([ids(encoded)])}


def decode(make: Callable[[], Encoder], options: argparse.Namespace) -> dict[str, Any]:
    """Decode ids that lie side by side in a file, document by document or (--way documents) at once."""
    import numpy as np

    with np.load(options.file) as arrays:
        ids, ends, size, digest = (arrays[name] for name in ("ids", "ends", "size", "digest"))
    encoder = make()
    if options.way == "decode_documents":
        whole = encoder.made.decode_documents
        documents: list[Any] = [0]

        def call(_: Any) -> Any:
            return whole(ids, ends)[0]
    else:
        kind, call = encoder.decode[options.way]
        documents = np.split(ids, ends[:-1])
        if kind == "list":
            documents = [document.tolist() for document in documents]
    for document in documents[: len(documents) // 10 + 1]:
        call(document)
    times = 0
    clock = Clock()
    begun = time.process_time()
    while not times or time.process_time() - begun < options.seconds:
        for document in documents:
            call(document)
        times += 1
    took = clock.read(times)
    decoded = [call(document) for document in documents]
    joined = b"".join(part.encode() if isinstance(part, str) else bytes(part) for part in decoded)
    return {**took, "bytes": int(size), "same": hashlib.sha256(joined).hexdigest() == str(digest)}


def latency(make: Callable[[], Encoder], options: argparse.Namespace) -> dict[str, Any]:
    """Encode short strings again and again: the least CPU seconds of a call, text by text and way by way."""
    texts = {**SHORT, "4 KB": read_documents(options.file, 1)[0]}
    encoder = make()
    answer: dict[str, Any] = {}
    for name, text in texts.items():
        answer[name] = {}
        for way, call in encoder.latency.items():
            calls = 64
            repeated(call, text, calls)  # what is made at the first call is not its latency
            while repeated(call, text, calls) < 0.005:
                calls *= 2
            answer[name][way] = min(repeated(call, text, calls) for _ in range(options.repeats)) / calls
    return answer


def repeated(call: Call, text: str, calls: int) -> float:
    """Return the CPU seconds of some calls."""
    started = time.process_time()
    for _ in range(calls):
        call(text)
    return time.process_time() - started


def load(make: Callable[[], Encoder], options: argparse.Namespace) -> dict[str, Any]:
    """Make the encoder from its files, which it imports and the machine has read before; then pickle it."""
    import numpy  # noqa: F401  # whose import is nobody's figure
    import pyarrow.parquet  # noqa: F401

    __import__("beam_bpe.tokenizer" if options.name == "beam_bpe" else options.name)
    before = resident()
    clock = Clock()
    encoder = make()
    took = clock.read()
    encoder.encode("A few words.")
    answer = {**took, "grown": resident() - before}
    try:
        clock = Clock()
        pickled = pickle.dumps(encoder.made)
        answer["dumps"] = clock.read()
        clock = Clock()
        pickle.loads(pickled)
        answer["loads"] = clock.read()
        answer["pickled"] = len(pickled)
    except Exception as error:  # what a peer cannot do is its own affair
        answer["unpicklable"] = f"{type(error).__name__}: {error}"
    return answer


# ---- parts -------------------------------------------------------------------------------------------


def read_documents(path: str, most: int) -> list[str]:
    """Return the documents of a Parquet file, up to `most` bytes of them (0: all)."""
    import pyarrow.parquet

    documents: list[str] = pyarrow.parquet.read_table(path, use_threads=False)["text"].to_pylist()
    if most:
        size = 0
        for number, document in enumerate(documents):
            size += len(document.encode())
            if size >= most:
                return documents[: number + 1]
    return documents


def in_blocks(documents: list[str]) -> list[list[str]]:
    """Return the documents in groups of about BLOCK bytes."""
    blocks: list[list[str]] = [[]]
    size = 0
    for document in documents:
        if size >= BLOCK:
            blocks.append([])
            size = 0
        blocks[-1].append(document)
        size += len(document.encode())
    return blocks


def cut(ids: Any, offsets: Any) -> list[Any]:
    """Return the ids of each document, the offsets beginning with 0."""
    return [ids[start:end] for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist())]


def digests(documents: Iterable[Any]) -> list[str]:
    """Return a digest of the ids of every DIGESTED documents; what is left at the end gets none if there are others."""
    import numpy as np

    found: list[str] = []
    digest = hashlib.sha256()
    number = 0
    for number, ids in enumerate(documents, 1):
        array = np.asarray(ids, np.uint32)
        digest.update(len(array).to_bytes(8, "little") + array.tobytes())
        if number % DIGESTED == 0:
            found.append(digest.hexdigest()[:16])
    return found or [digest.hexdigest()[:16]] * min(number, 1)


def resident() -> int:
    """Return the resident memory in bytes, 0 where the system does not say."""
    try:
        with open("/proc/self/status", encoding="ascii") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))
    except (OSError, StopIteration):
        return 0


PROGRAMS = {"encode": encode, "long": long, "decode": decode, "latency": latency, "load": load}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=ENCODERS)
    parser.add_argument("what", choices=PROGRAMS)
    parser.add_argument("encoding")
    parser.add_argument("reference", type=Path)
    parser.add_argument("file", nargs="?", default="")
    parser.add_argument("--vocabulary", help="the encoding as a folder of ours")
    parser.add_argument("--tokenizer-json", help="the encoding as a tokenizer.json")
    parser.add_argument("--codes", help="the encoding as codes of subword-nmt")
    parser.add_argument("--model", help="the encoding as SentencePiece's .model")
    parser.add_argument("--source", default="", help="of ours: folder, rank file, tokenizer.json, model")
    parser.add_argument("--way", default="call", help="call, or a way to take many documents")
    parser.add_argument("--most", type=int, default=0, help="bytes of text")
    parser.add_argument("--cold", type=int, default=8_000_000, help="bytes of text for the new object, at most half")
    parser.add_argument("--digests", action="store_true", help="tell the ids")
    parser.add_argument("--seconds", type=float, default=0.3, help="to decode for")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    # This folder must not hide the peers.
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]
    files = Files(options.encoding, options.reference, options.vocabulary, options.tokenizer_json, options.codes, options.model)
    answer = PROGRAMS[options.what](lambda: ENCODERS[options.name](files, options.source), options)
    print(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)  # freeing it all is nobody's figure


if __name__ == "__main__":
    main()
