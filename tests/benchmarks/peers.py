"""The other trainers: `python peers.py NAME FILE VOCAB_SIZE [OPTIONS]`; each answers with a line of JSON.

Where a trainer tells its phases, they are told apart in the same run, by the times at which its lines come:
gigabpe by GIGABPE_STATS, rustbpe by its log, tokenizers by its progress as JSON.
Phases: "count" (read, cut into words, count), "index" (first counts of the pairs), "merges"; each in seconds, and
under "cpu" in CPU seconds of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
PATTERNS = {"gpt2": GPT2, "cl100k": CL100K}
BLOCK = 64 << 10


def gigabpe(options: argparse.Namespace) -> dict[str, Any]:
    """Train gigabpe: byte level, gpt2 pattern, by line; it reads the file itself."""
    import gigabpe as peer

    common: dict[str, Any] = {"special_tokens": [], "pretokenizer": "bytelevel", "threads": options.threads}
    os.environ["GIGABPE_STATS"] = "1"
    with Lines() as lines:
        started = now()
        if options.save:
            peer.train_tokenizer([options.file], options.vocab_size, options.save, **common)
            merges = None
        else:
            _, merges = peer.train_bpe([options.file], options.vocab_size, **common)
        ended = now()
    if merges is not None and options.merges_to:
        _write_mapped(merges, options.merges_to)
    counted = _first(lines, "rss after combining", ended)  # said where the alphabet begins
    indexed = _first(lines, "stats:", ended)
    merged = _first(lines, "  phase2 merge loop", ended)
    return phases(started, counted, indexed, merged, ended)


def tokenizers(options: argparse.Namespace) -> dict[str, Any]:
    """Train Hugging Face's tokenizers: byte level, gpt2 pattern, files by line."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=options.vocab_size, special_tokens=[], show_progress=True, progress_format="json"
    )
    with Lines() as lines:
        started = now()
        tokenizer.train([options.file], trainer)
        ended = now()
    if options.save:
        tokenizer.save(options.save)
    if options.merges_to:
        _write_mapped(json.loads(tokenizer.to_str())["model"]["merges"], options.merges_to)
    counted, indexed = (_first(lines, f'{{"stage":"{stage}"', ended) for stage in ("Tokenize words", "Compute merges"))
    return phases(started, counted, indexed, ended, ended)


def tokenizers_characters(options: argparse.Namespace) -> dict[str, Any]:
    """Train Hugging Face's tokenizers: characters with an end of word, words between whitespace, files by line."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=options.vocab_size,
        min_frequency=2,
        end_of_word_suffix="</w>",
        show_progress=True,
        progress_format="json",
    )
    with Lines() as lines:
        started = now()
        tokenizer.train([options.file], trainer)
        ended = now()
    counted, indexed = (_first(lines, f'{{"stage":"{stage}"', ended) for stage in ("Tokenize words", "Compute merges"))
    return {**phases(started, counted, indexed, ended, ended), "tokens": tokenizer.get_vocab_size()}


def subword_nmt(options: argparse.Namespace) -> dict[str, Any]:
    """Learn with subword-nmt from a folder of words; vocab_size is the number of merges."""
    import io

    from subword_nmt import learn_bpe

    counts = _words(options.file)
    text = io.StringIO("".join(f"{word} {count}\n" for word, count in counts))
    out = io.StringIO()
    started = now()
    learn_bpe.learn_bpe(text, out, options.vocab_size, min_frequency=2, is_dict=True)
    ended = now()
    merges = [line.split(" ") for line in out.getvalue().splitlines()[1:]]
    if options.merges_to:
        pairs = "".join(f"{left.encode().hex()} {right.encode().hex()}\n" for left, right in merges)
        Path(options.merges_to).write_text(pairs)
    return {**phases(started, started, started, ended, ended), "merges_made": len(merges)}


def real_wordpiece(options: argparse.Namespace) -> dict[str, Any]:
    """Train real-wordpiece by likelihood from a folder of words; vocab_size is the number of merges.

    It counts words of texts; that is not timed.
    """
    from collections import Counter

    from real_wordpiece.trainer import RealWordPieceTrainer
    from tokenizers import Tokenizer, models

    counts = Counter(dict(_words(options.file)))
    trainer = RealWordPieceTrainer(min_frequency=2, special_tokens=["[UNK]"])
    trainer.vocab_size = 1 + len(trainer.compute_alphabet(counts)) + options.vocab_size
    trainer.calculate_word_counts = lambda tokenizer, texts: counts
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    started = now()
    trainer.train_tokenizer([], tokenizer)
    ended = now()
    return {**phases(started, started, started, ended, ended), "tokens": tokenizer.get_vocab_size()}


def rustbpe(options: argparse.Namespace) -> dict[str, Any]:
    """Train rustbpe, by blocks of lines."""
    import logging

    lines: list[tuple[Moment, str]] = []

    class Times(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append((now(), record.getMessage()))

    logging.basicConfig(level=logging.INFO, handlers=[Times()])
    import rustbpe as peer

    tokenizer = peer.Tokenizer()
    texts = _lines(options.file) if options.by_line else _blocks(options.file)
    started = now()
    tokenizer.train_from_iterator(texts, options.vocab_size, pattern=PATTERNS[options.pattern])
    ended = now()
    ranks = tokenizer.get_mergeable_ranks()
    if options.save:
        Path(options.save).write_text("".join(f"{bytes(token).hex()} {rank}\n" for token, rank in ranks))
    if options.merges_to:  # it gives tokens, not pairs
        tokens = sorted((rank, bytes(token)) for token, rank in ranks)
        Path(options.merges_to).write_text("".join(f"{token.hex()}\n" for _, token in tokens[256:]))
    counted, indexed = _first(lines, "Starting BPE", ended), _first(lines, "Building heap", ended)
    return phases(started, counted, indexed, ended, ended)


def sentencepiece(options: argparse.Namespace) -> dict[str, Any]:
    """Train SentencePiece's BPE over characters, with byte fallback."""
    import sentencepiece as peer

    with tempfile.TemporaryDirectory() as folder:
        started = now()
        peer.SentencePieceTrainer.train(
            input=options.file,
            model_prefix=str(Path(folder) / "model"),
            model_type="bpe",
            vocab_size=options.vocab_size,
            byte_fallback=True,
            num_threads=options.threads,
            max_sentence_length=1 << 20,
            minloglevel=2,
        )
        ended = now()
    return phases(started, ended, ended, ended, ended)


class Moment(NamedTuple):
    """A time of the wall, and the CPU time of the process until then."""

    wall: float
    cpu: float


def now() -> Moment:
    """Return this moment."""
    return Moment(time.perf_counter(), time.process_time())


def phases(started: Moment, counted: Moment, indexed: Moment, merged: Moment, ended: Moment) -> dict[str, Any]:
    """Return the seconds of the phases between moments."""

    def between(clock: int) -> dict[str, float]:
        return {
            "seconds": ended[clock] - started[clock],
            "count": counted[clock] - started[clock],
            "index": indexed[clock] - counted[clock],
            "merges": merged[clock] - indexed[clock],
        }

    return {**between(0), "cpu": between(1)}


def _first(lines: list[tuple[Moment, str]], beginning: str, otherwise: Moment) -> Moment:
    return next((moment for moment, line in lines if line.startswith(beginning)), otherwise)


class Lines:
    """What is written to standard error while this is open, as (moment, line) pairs."""

    def __enter__(self) -> list[tuple[Moment, str]]:
        self._lines: list[tuple[Moment, str]] = []
        read, write = os.pipe()
        self._saved = os.dup(2)
        os.dup2(write, 2)
        os.close(write)
        self._thread = threading.Thread(target=self._listen, args=(read,))
        self._thread.start()
        return self._lines

    def _listen(self, read: int) -> None:
        with open(read, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                self._lines.append((now(), line.rstrip("\n")))

    def __exit__(self, *_: object) -> None:
        os.dup2(self._saved, 2)
        os.close(self._saved)
        self._thread.join()


def _lines(path: str) -> Iterator[str]:
    with open(path, encoding="utf-8", newline="\n") as file:
        yield from file


def _words(folder: str) -> list[tuple[str, int]]:
    """Return the words of a folder and their counts; those with other whitespace inside are left out."""
    from beam_bpe.words import WordCounts

    words = ((word.decode(), count) for word, count in WordCounts.read(folder).to_dict().items())
    return [(word, count) for word, count in words if not any(map(str.isspace, word))]


def _blocks(path: str) -> Iterator[str]:
    """Yield texts of about 64 KiB that end with a line."""
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            yield (block + file.readline()).decode()


def _write_mapped(merges: Any, path: str) -> None:
    """Write merges of the byte-level alphabet as pairs of hex bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    characters = {byte: chr(byte) for byte in plain}
    for byte in range(256):
        if byte not in characters:
            characters[byte] = chr(256 + len(characters) - len(plain))
    hexes = {character: f"{byte:02x}" for byte, character in characters.items()}
    with open(path, "w", encoding="ascii") as file:
        for left, right in merges:
            file.write("".join(hexes[c] for c in left) + " " + "".join(hexes[c] for c in right) + "\n")


PEERS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "gigabpe": gigabpe,
    "real-wordpiece": real_wordpiece,
    "rustbpe": rustbpe,
    "sentencepiece": sentencepiece,
    "subword-nmt": subword_nmt,
    "tokenizers": tokenizers,
    "tokenizers-characters": tokenizers_characters,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("file")
    parser.add_argument("vocab_size", type=int)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pattern", choices=PATTERNS, default="gpt2")
    parser.add_argument("--by-line", action="store_true", help="feed rustbpe single lines")
    parser.add_argument("--save", help="write the vocabulary")
    parser.add_argument("--merges-to", help="write the merges for comparison")
    options = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(options.threads)
    # Here and not above: this folder must not hide the peers, and its own names are not theirs.
    sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]
    print(json.dumps(PEERS[options.peer](options)))


if __name__ == "__main__":
    main()
