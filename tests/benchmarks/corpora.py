"""Make the inputs of the benchmarks in a cache folder, out of the shared corpora or of fixed random numbers.

Each is made once, by a process of its own, so that the measuring process stays small:
`python corpora.py FILE SHARED` makes the FILE that its name tells.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

SEED = 20240229
MB = 1_000_000
LANGUAGES = {"english": "en", "chinese": "zh-hans", "code": "code"}
#: Languages that are told by their letters, so that the whole mixed text gives more of them.
SCRIPTS = ("chinese", "japanese", "russian")
CHUNK = 4096  # bytes of a document that is encoded


class NoCorpora(RuntimeError):
    """The shared corpora are not there."""


class Corpora:
    """The inputs by name; a path is asked for, and the file is made when it is not there yet.

    chunks-LANGUAGE-16m.parquet are documents of about 4 KB, cut at newlines and shuffled, lower-LANGUAGE-16m.parquet
    the same in small letters; documents-32.parquet is
    so many row groups of the shared documents (of 16, about 6 MB each); vocabulary-ENCODING and
    tokenizer-ENCODING.json are a rank file in other formats; tokenizer-bert.json is bert-base-uncased,
    tokenizer-wordpiece.json its vocabulary over words between whitespace, tokenizer-characters.json 32,000 tokens of characters, codes-characters.txt its merges; scores-bpe.model, scores-unigram.model what
    sentencepiece learns from mixed-20m.txt; ids-ENCODING-LANGUAGE-6m.npz are ids of chunks.
    """

    def __init__(self, cache: Path, shared: Path | None):
        self._cache = cache
        self._shared = shared

    def path(self, name: str) -> Path:
        """Return the path of `english.txt`, `mixed.txt`, `mixed-20m.txt`, `letters-1000k.txt`, …"""
        path = self._cache / name
        if not path.exists():
            from timing import environment

            argv = [sys.executable, __file__, str(path), str(self._shared or "")]
            made = subprocess.run(argv, env=environment(), cwd=self._cache, stderr=subprocess.PIPE, text=True)
            if made.returncode == 3:
                raise NoCorpora(made.stderr.strip())
            if made.returncode:
                raise RuntimeError(f"{name} could not be made: {made.stderr[-2000:]}")
        return path

    @property
    def reference(self) -> Path:
        """The folder of the published rank files.

        Raises:
            NoCorpora: it is not there.
        """
        return _reference(self._shared)


def make(path: Path, shared: Path | None) -> None:
    """Make one input; it stands under its name only when it is whole."""
    temporary = path.with_name(f".{os.getpid()}-{path.name}")
    kind, _, size = path.stem.partition("-")
    try:
        if path.name.startswith("words-"):
            _make_words(path, temporary, shared)
        elif kind == "chunks":
            _chunks(path, temporary, shared)
        elif kind == "documents":
            _documents(temporary, int(size), _corpora(shared))
        elif kind == "vocabulary":
            _vocabulary(size, shared).save(str(temporary))
        elif kind == "lower":
            _lower(path, temporary, shared)
        elif path.name in ("tokenizer-wordpiece.json", "tokenizer-bert.json"):
            _wordpiece_json(temporary, _reference(shared), whole=path.name == "tokenizer-bert.json")
        elif path.name == "tokenizer-characters.json":
            _characters_json(temporary, _made(path, "mixed-20m.txt", shared))
        elif kind == "scores":
            _scores(path, temporary, shared)
        elif path.name == "codes-characters.txt":
            _codes(temporary, _made(path, "tokenizer-characters.json", shared))
        elif kind == "tokenizer":
            _tokenizer_json(temporary, size, shared)
        elif kind == "ids":
            _ids(path, temporary, shared)
        elif kind == "han":
            _han(path, temporary, int(size.removesuffix("k")) * 1000, shared)
        elif kind in LANGUAGES:
            _by_language(temporary, LANGUAGES[kind], _corpora(shared))
        elif path.name == "mixed-twice.txt":
            _twice(temporary, _made(path, "mixed.txt", shared))
        elif path.name == "mixed-20m-twice.txt":
            _twice(temporary, _made(path, "mixed-20m.txt", shared))
        elif path.name == "mixed-1m.txt":
            shutil.copyfile(_corpora(shared) / path.name, temporary)
        elif kind == "mixed":
            _decompress(temporary, _corpora(shared) / f"{path.name}.zst")
        elif path.name == "tiny.txt":
            temporary.write_bytes(b"A kilobyte of text, to measure what a start costs.\n" * 20)
        else:
            temporary.write_bytes(_long_word(kind, int(size.removesuffix("k")) * 1000))
        os.replace(temporary, path)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        else:
            temporary.unlink(missing_ok=True)


def _corpora(shared: Path | None) -> Path:
    if shared is None or not (shared / "corpora").is_dir():
        raise NoCorpora("there are no shared corpora (set BEAM_BPE_SHARED to the folder that holds `corpora`)")
    return shared / "corpora"


def _reference(shared: Path | None) -> Path:
    if shared is None or not (shared / "reference").is_dir():
        raise NoCorpora("there are no rank files (set BEAM_BPE_SHARED to the folder that holds `reference`)")
    return shared / "reference"


def _made(path: Path, name: str, shared: Path | None) -> Path:
    """Return another input in the same cache, made if need be."""
    other = path.with_name(name)
    if not other.exists():
        make(other, shared)
    return other


def _decompress(path: Path, packed: Path) -> None:
    import zstandard

    with open(packed, "rb") as source, open(path, "wb") as plain:
        zstandard.ZstdDecompressor().copy_stream(source, plain)


def _twice(path: Path, source: Path) -> None:
    with open(path, "wb") as twice:
        for _ in range(2):
            with open(source, "rb") as once:
                shutil.copyfileobj(once, twice, 1 << 20)


def _by_language(path: Path, language: str, corpora: Path) -> None:
    """Join the documents of one language with newlines."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(corpora / "docs.parquet", columns=["text", "lang"])
    texts = table.filter(pc.equal(table["lang"], language))["text"].to_pylist()
    path.write_text("\n".join(texts), encoding="utf-8", newline="")


def _chunks(path: Path, temporary: Path, shared: Path | None) -> None:
    """Cut a text at newlines into documents of about 4 KB, shuffle them, and keep so many bytes of a language."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    _, language, size = path.stem.split("-")
    wanted = int(size.removesuffix("m")) * MB
    if language in SCRIPTS:
        source = _made(path, "mixed.txt" if wanted > 4 * MB else "mixed-20m.txt", shared)
    else:
        source = _made(path, f"{language}.txt", shared)
    documents = []
    with open(source, "rb") as file:
        while chunk := b"".join(file.readlines(CHUNK)):
            if language not in SCRIPTS or _script(chunk) == language:
                documents.append(chunk.decode())
    random.Random(SEED).shuffle(documents)
    total = 0
    for number, document in enumerate(documents):
        total += len(document.encode())
        if total >= wanted:
            del documents[number + 1 :]
            break
    pq.write_table(pa.table({"text": documents}), temporary)


def _lower(path: Path, temporary: Path, shared: Path | None) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    chunks = _made(path, path.name.replace("lower-", "chunks-"), shared)
    documents = [text.lower() for text in pq.read_table(chunks)["text"].to_pylist()]
    pq.write_table(pa.table({"text": documents}), temporary)


def _wordpiece_json(path: Path, reference: Path, whole: bool) -> None:
    """Write BERT's pieces as a tokenizer.json: the `whole` of it, or over words between whitespace without its normalizer."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    pieces = (reference / "bert-base-uncased-vocab.txt").read_text(encoding="utf-8").splitlines()
    ids = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer() if whole else pre_tokenizers.WhitespaceSplit()
    if whole:
        tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.save(str(path))


def _characters_json(path: Path, text: Path) -> None:
    """Learn merges of characters with an attached end of word by `tokenizers`, over words between whitespace."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.BPEDecoder("</w>")
    options = {"special_tokens": ["<unk>"], "end_of_word_suffix": "</w>", "limit_alphabet": 1000, "show_progress": False}
    tokenizer.train([str(text)], trainers.BpeTrainer(vocab_size=32_000, **options))
    tokenizer.save(str(path))


def _scores(path: Path, temporary: Path, shared: Path | None) -> None:
    """Learn a model of SentencePiece from the lines of a text: scores-bpe, scores-unigram, scores-unigram-nmt; -1m: a small one."""
    import sentencepiece

    _, algorithm, *options = path.stem.split("-")
    small = "1m" in options
    sentencepiece.SentencePieceTrainer.train(
        input=str(_made(path, "mixed-1m.txt" if small else "mixed-20m.txt", shared)),
        model_prefix=str(temporary.with_suffix("")),
        model_type=algorithm,
        vocab_size=8_000 if small else 32_000,
        normalization_rule_name="nmt_nfkc" if "nmt" in options else "identity",
        remove_extra_whitespaces="nmt" in options,
        split_by_unicode_script=False,
        split_by_number=False,
        num_threads=1,
        minloglevel=2,
    )
    temporary.with_suffix(".vocab").unlink()


def _codes(path: Path, tokenizer: Path) -> None:
    """Write the merges of a tokenizer.json as subword-nmt reads them."""
    import json

    merges = json.loads(tokenizer.read_text(encoding="utf-8"))["model"]["merges"]
    path.write_text("#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in merges), encoding="utf-8")


def _script(text: bytes) -> str:
    """Return the language that most of a text is written in, as far as its letters tell."""
    kana = sum(text.count(lead) for lead in (b"\xe3\x81", b"\xe3\x82", b"\xe3\x83"))
    han = sum(text.count(bytes([lead])) for lead in range(0xE4, 0xEA))
    cyrillic = text.count(b"\xd0") + text.count(b"\xd1")
    if 6 * (han + kana) > len(text):  # half of it, at three bytes each
        return "chinese" if 50 * kana < han else "japanese" if 5 * kana > han else ""
    return "russian" if 4 * cyrillic > len(text) else ""


def _documents(path: Path, groups: int, corpora: Path) -> None:
    """Write so many row groups of the shared documents, from the first again after the last."""
    import pyarrow.parquet as pq

    source = pq.ParquetFile(corpora / "docs.parquet")
    with pq.ParquetWriter(path, source.schema_arrow) as writer:
        for number in range(groups):
            writer.write_table(source.read_row_group(number % source.num_row_groups))


def _vocabulary(encoding: str, shared: Path | None):
    from beam_bpe import formats

    return formats.load(str(_reference(shared) / f"{encoding}.tiktoken"))


def _tokenizer_json(path: Path, encoding: str, shared: Path | None) -> None:
    from beam_bpe import formats

    formats.save(_vocabulary(encoding, shared), str(path), "huggingface", verify=False)


def _ids(path: Path, temporary: Path, shared: Path | None) -> None:
    """Write the ids of chunks, where each document ends, and the size and digest of the text."""
    import hashlib

    import numpy as np
    import pyarrow.parquet as pq

    from beam_bpe import Tokenizer

    _, encoding, language, size = path.stem.split("-")
    texts = pq.read_table(_made(path, f"chunks-{language}-{size}.parquet", shared))["text"].to_pylist()
    documents = [text.encode() for text in texts]
    data = b"".join(documents)
    bounds = np.repeat(np.cumsum([0, *map(len, documents)], dtype=np.int64), 2)[1:-1]
    batch = Tokenizer(_vocabulary(encoding, shared)).encode_documents(data, bounds)
    with open(temporary, "wb") as file:
        np.savez(file, ids=batch.ids, ends=batch.ends, size=len(data), digest=hashlib.sha256(data).hexdigest())


def _han(path: Path, temporary: Path, size: int, shared: Path | None) -> None:
    """Write the Han characters of the mixed text without anything between them."""
    import re

    source = _made(path, "mixed.txt" if size > MB else "mixed-20m.txt", shared)
    found = 0
    with open(source, encoding="utf-8", newline="") as text, open(temporary, "wb") as file:
        while found < size and (block := text.read(1 << 20)):
            found += file.write("".join(re.findall("[\u4e00-\u9fff]+", block)).encode())
        file.truncate(size - size % 3)


def _long_word(kind: str, size: int) -> bytes:
    numbers = random.Random(SEED)
    if kind == "letters":
        return numbers.randbytes(size).translate(bytes(97 + i % 26 for i in range(256)))
    if kind == "digits":
        return numbers.randbytes(size).translate(bytes(48 + i % 10 for i in range(256)))
    if kind == "spaces":
        return b" " * size + b"x"
    if kind in ("letter", "newlines"):
        return (b"a" if kind == "letter" else b"\n") * size
    raise ValueError(f"no input is named {kind}")


def _make_words(path: Path, temporary: Path, shared: Path | None) -> None:
    """Make a folder of words: words-TEXT (TEXT.txt counted by line, gpt2), words-spaced-TEXT (the same between whitespace),
    words-grouped-N (documents-N by language, gpt2), or words-10m, words-1m.
    """
    from timing import beam_bpe

    name = path.name.removeprefix("words-")
    if name in ("10m", "1m"):
        real = _made(path, "words-mixed" if name == "10m" else "words-mixed-20m", shared)
        _crossed_words(temporary, real, int(name.removesuffix("m")) * MB)
        return
    if name.startswith("grouped-"):
        rows = _made(path, f"documents-{name.removeprefix('grouped-')}.parquet", shared)
        beam_bpe("count", rows, "-o", temporary, "--pattern", "gpt2", "--group-by", "lang")()
        return
    pattern = "whitespace" if name.startswith("spaced-") else "gpt2"
    text = _made(path, f"{name.removeprefix('spaced-')}.txt", shared)
    beam_bpe("count", text, "-o", temporary, "--pattern", pattern, "--documents", "line")()


def _crossed_words(folder: Path, real: Path, wanted: int) -> None:
    """Write `wanted` distinct words: the first half of a real word, and the second half of another.

    So lengths and spellings are those of real words, and so are counts: a word has that of a third one.
    """
    import numpy as np
    import pyarrow as pa

    from beam_bpe import _words
    from beam_bpe.word_parts import unpack_table
    from beam_bpe.words import WordCounts

    words = WordCounts.read(str(real))
    batches = list(words.batches())
    data = np.concatenate([batch.data[batch.offsets[0] : batch.offsets[-1]] for batch in batches])
    lengths = np.concatenate([np.diff(batch.offsets) for batch in batches])
    counts = np.concatenate([batch.counts for batch in batches])
    starts = np.cumsum(lengths) - lengths
    halves = lengths // 2
    for _ in range(3):  # back to the start of a character
        inside = (halves > 0) & ((data[starts + halves] & 0xC0) == 0x80)
        halves = halves - inside
    numbers = np.random.Generator(np.random.PCG64(SEED))
    table = _words.WordTable()
    while len(table) < wanted:
        rows = min(MB, wanted - len(table))
        first, second, third = numbers.integers(0, len(counts), (3, rows))
        pieces = np.stack([halves[first], (lengths - halves)[second]], 1).reshape(-1)
        begins = np.stack([starts[first], (starts + halves)[second]], 1).reshape(-1)
        ends = np.cumsum(pieces)
        picked = data[np.arange(ends[-1]) + np.repeat(begins - (ends - pieces), pieces)]
        offsets = np.concatenate([[0], ends[1::2]]).astype(np.int64)
        table.add_columns(picked, offsets, np.ascontiguousarray(counts[third]))
    columns = unpack_table(table.pack(1, ordered=True)[0][1])[2]
    assert isinstance(columns, pa.Table)
    WordCounts(columns, words.parameters, {"words": table.total}).write(str(folder))


if __name__ == "__main__":
    try:
        make(Path(sys.argv[1]), Path(sys.argv[2]) if sys.argv[2] else None)
    except NoCorpora as error:
        print(error, file=sys.stderr)
        sys.exit(3)
