"""The programs of beam_bpe that are measured: `python ours.py NAME ARGUMENTS`; each answers with a line of JSON."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from typing import Any

import numpy as np
import pyarrow as pa

from beam_bpe import _merge, _scan, _words, cutting, merging, training, word_parts
from beam_bpe.pretokenize import PATTERNS, pre_tokenizer
from beam_bpe.words import WordCounts

RANGE = 8 << 20


class Clock:
    """Seconds, of the wall and of the CPU, since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, Any]:
        """Return {"seconds": …, "cpu": {"seconds": …}}."""
        return {"seconds": time.perf_counter() - self._wall, "cpu": {"seconds": time.process_time() - self._cpu}}


def ranges(path: str, pattern: str) -> list[bytes]:
    """Read a text in ranges of 8 MiB, cut where words end."""
    cutter = cutting.WordCutter(cutting.WordRule(pre_tokenizer(pattern)))
    with open(path, "rb") as file:
        return [piece for _, piece in cutting.read_pieces(file, 0, None, cutter, piece=RANGE)]


def count_into(table: _words.WordTable, pieces: list[bytes], pattern: str) -> None:
    """Scan and count the pieces of one document."""
    for i, piece in enumerate(pieces):
        bounds = np.array([0, len(piece)], np.int64)
        table.add_documents(piece, bounds, _scan.PATTERNS[pattern], 1 << 30, i > 0)


def count(path: str, pattern: str) -> dict[str, Any]:
    """Scan and count ranges that are in memory, in one thread; reading and checking UTF-8 told apart."""
    started = time.perf_counter()
    pieces = ranges(path, pattern)
    read = time.perf_counter()
    valid = all(_scan.invalid_utf8(piece) < 0 for piece in pieces)
    checked = time.perf_counter()
    clock = Clock()
    table = _words.WordTable()
    count_into(table, pieces, pattern)
    return {
        **clock.read(),
        "reading": read - started,
        "checking": checked - read,
        "valid": valid,
        "distinct": len(table),
        "words": table.total,
    }


def count_whole(path: str, pattern: str) -> dict[str, Any]:
    """Scan and count one document in one piece, wherever it could be cut."""
    with open(path, "rb") as file:
        data = file.read()
    clock = Clock()
    table = _words.WordTable()
    count_into(table, [data], pattern)
    return {**clock.read(), "distinct": len(table)}


def stages(path: str, pattern: str) -> dict[str, Any]:
    """Do what the counting job does, without Beam, and time each stage: where a job's time goes."""
    clock = Clock()
    took: dict[str, float] = {}
    last = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal last
        now = time.perf_counter()
        took[name] = now - last
        last = now

    pieces = ranges(path, pattern)
    for piece in pieces:
        _scan.invalid_utf8(piece)
    lap("read and check UTF-8")
    table = _words.WordTable()
    count_into(table, pieces, pattern)
    lap("scan and count")
    ordered = [(shard, _words.merge_packed([packed])) for shard, packed in table.pack(4, ordered=True)]
    lap("sort and sum shards")
    with tempfile.TemporaryDirectory() as folder:
        for _, packed in ordered:
            word_parts.write_part(folder, packed, {})
    lap("write Parquet")
    return {**clock.read(), "stages": took}


def tables(path: str, pattern: str, bundle: str) -> dict[str, Any]:
    """Count a text in bundles of so many bytes, and sum the tables; tell sizes, and CPU seconds of each step."""
    pieces = ranges(path, pattern)
    answer: dict[str, Any] = {"tables": 0, "packed": 0, "distinct": 0, "memory": 0}
    took = dict.fromkeys(("count", "pack", "merge"), 0.0)
    shards: dict[int, list[bytes]] = {}

    def timed(step: str, call: Any, *arguments: Any) -> Any:
        begun = time.process_time()
        result = call(*arguments)
        took[step] += time.process_time() - begun
        return result

    waiting: list[bytes] = []
    for number, piece in enumerate(pieces, 1):
        waiting.append(piece)
        if sum(map(len, waiting)) < int(bundle) and number < len(pieces):
            continue
        table = _words.WordTable()
        timed("count", count_into, table, waiting, pattern)
        waiting = []
        answer["tables"] += 1
        answer["distinct"] += len(table)
        answer["memory"] += table.nbytes
        for shard, packed in timed("pack", lambda: table.pack(16, ordered=True)):
            answer["packed"] += len(packed)
            shards.setdefault(shard, []).append(packed)
    merged = [timed("merge", _words.merge_packed, packed) for packed in shards.values()]
    return {**answer, "merged": sum(map(len, merged)), "cpu": took}


def counting_phase(path: str, pattern: str, workers: str, output: str) -> dict[str, Any]:
    """Run the command `count` and time its counting itself: from the first batch read to the last one counted.

    What comes before (starting Beam) and after (sorting, summing, Parquet) is the rest of the whole.
    """
    from beam_bpe import cli, reading
    from beam_bpe.counting import WordCounter
    from beam_bpe.transforms import read

    times: list[float] = []
    count, read_range = WordCounter._count, reading.read_range

    def timed_count(self: Any, batch: Any) -> Any:
        result = count(self, batch)
        times.append(time.perf_counter())
        return result

    def timed_read(*arguments: Any) -> Any:
        times.append(time.perf_counter())
        return read_range(*arguments)

    WordCounter._count, read.read_range = timed_count, timed_read
    clock = Clock()
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        code = cli.main(["count", path, "-o", output, "--pattern", pattern, "--workers", workers, "--overwrite"])
    if code:
        raise SystemExit(code)
    return {**clock.read(), "counting": max(times) - min(times)}


def encode_kernel(path: str, vocabulary: str) -> dict[str, Any]:
    """Encode documents that lie in memory, as the job reads them, in one thread."""
    from beam_bpe import Tokenizer, documents, shards
    from beam_bpe.encoding import reading_for
    from beam_bpe.reading import read_range

    tokenizer = Tokenizer.load(vocabulary)
    reading = reading_for(tokenizer)
    sources = list(documents.ranges(documents.find_files(path, reading), reading, RANGE))
    batches = [(batch.data, batch.bounds) for source in sources for batch in read_range(source, reading)]
    width = shards.dtype_for(tokenizer.vocab_size).itemsize
    tokens = 0
    clock = Clock()
    for data, bounds in batches:
        tokens += len(tokenizer.encode_documents(data, bounds, width=width).ids)
    took = clock.read()
    return {**took, "tokens": tokens, "bytes": sum(int((bounds[1::2] - bounds[::2]).sum()) for _, bounds in batches)}


def encode_phase(path: str, vocabulary: str, workers: str, output: str) -> dict[str, Any]:
    """Run the command `encode` and time the encoding itself, from the first range begun to the last shard closed.

    Its stages are timed by the threads that do them; pyarrow's own threads are not among those.
    """
    from beam_bpe import cli, encoding
    from beam_bpe.shards import ShardWriter
    from beam_bpe.tokenizer import Tokenizer

    moments: list[tuple[float, float]] = []
    spans: list[tuple[str, float, float]] = []

    def timed(stage: str, call: Any) -> Any:
        def wrapper(*arguments: Any, **options: Any) -> Any:
            moments.append((time.perf_counter(), time.process_time()))
            wall, cpu = time.perf_counter(), time.thread_time()
            try:
                return call(*arguments, **options)
            finally:
                spans.append((stage, time.perf_counter() - wall, time.thread_time() - cpu))
                moments.append((time.perf_counter(), time.process_time()))

        return wrapper

    def timed_read(*arguments: Any) -> Any:
        batches = iter(read_range(*arguments))
        following = timed("read", lambda: next(batches, None))
        while (batch := following()) is not None:
            yield batch

    read_range = encoding.read_range
    encoding.read_range = timed_read
    Tokenizer.encode_documents = timed("encode", Tokenizer.encode_documents)
    ShardWriter.write = timed("write", ShardWriter.write)
    ShardWriter.close = timed("write", ShardWriter.close)
    clock = Clock()
    argv = ["encode", path, "-v", vocabulary, "-o", output, "--workers", workers, "--overwrite"]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        code = cli.main(argv)
    if code:
        raise SystemExit(code)
    took = clock.read()
    walls, cpus = zip(*moments)
    stages = {stage: {"seconds": 0.0, "cpu": 0.0} for stage in ("read", "encode", "write")}
    for stage, wall, cpu in spans:
        stages[stage]["seconds"] += wall
        stages[stage]["cpu"] += cpu
    took["cpu"]["encoding"] = max(cpus) - min(cpus)
    return {**took, "encoding": max(walls) - min(walls), "stages": stages}


def learn(folder: str, vocab_size: str, tie_break: str, merges_to: str) -> dict[str, Any]:
    """Learn from words that are in memory, and write the merges down for comparison."""
    table = WordCounts.read(folder)
    clock = Clock()
    vocabulary = training.train(table, int(vocab_size), tie_break=tie_break)
    took = clock.read()
    with open(merges_to, "w", encoding="ascii") as file:
        file.writelines(f"{merge.left.hex()} {merge.right.hex()}\n" for merge in vocabulary.merges)
    return {**took, "words": len(table), "merges": len(vocabulary.left), "stop": vocabulary.stop_reason}


def learn_pieces(folder: str, options: str, merges_to: str = "") -> dict[str, Any]:
    """Learn characters, pieces or words from words that are in memory; options of `train` as JSON.

    Words with other whitespace inside are left out, as `peers.py` leaves them out.
    """
    table = WordCounts.read(folder)
    kept = [not any(map(str.isspace, word.decode())) for word in table.table["word"].to_pylist()]
    table = WordCounts(table.table.filter(pa.array(kept)), table.parameters, table.totals)
    loops = []
    run = merging.run

    def recorded(loop: _merge.MergeLoop, *arguments: Any, **more: Any) -> merging.Merges:
        loops.append(loop)
        return run(loop, *arguments, **more)

    merging.run = recorded  # train does not give its loop away
    clock = Clock()
    vocabulary = training.train(table, **json.loads(options))
    took = clock.read()
    symbols = sum(len(word.decode()) + 1 for word in table.table["word"].to_pylist())
    if merges_to:
        with open(merges_to, "w", encoding="ascii") as file:
            file.writelines(f"{merge.left.hex()} {merge.right.hex()}\n" for merge in vocabulary.merges)
    return {
        **took,
        "words": len(table),
        "symbols": symbols,
        "merges": len(vocabulary.left),
        "tokens": len(vocabulary),
        "stop": vocabulary.stop_reason,
        "peak_bytes": loops[0].peak_bytes if loops else 0,
    }


def learn_word(path: str, merges: str) -> dict[str, Any]:
    """Learn from a table that holds one word, the whole of a file."""
    with open(path, "rb") as file:
        table = WordCounts.from_mapping({file.read(): 1})
    clock = Clock()
    vocabulary = training.train(table, 256 + int(merges))
    return {**clock.read(), "merges": len(vocabulary.left), "stop": vocabulary.stop_reason}


def memory(folder: str, vocab_size: str) -> dict[str, Any]:
    """Learn from a folder of words and tell what the merge loop held at its peak."""
    table = WordCounts.read(folder)
    size = sum(int(batch.offsets[-1] - batch.offsets[0]) for batch in table.batches())
    loops = []
    make = _merge.MergeLoop

    def recorded(*arguments: Any) -> _merge.MergeLoop:
        loops.append(make(*arguments))
        return loops[-1]

    _merge.MergeLoop = recorded  # train does not give its loop away
    before = resident()
    reset_peak()
    clock = Clock()
    vocabulary = training.train(table, int(vocab_size))
    return {
        **clock.read(),
        "words": len(table),
        "bytes": size,
        "merges": len(vocabulary.left),
        "peak_bytes": loops[0].peak_bytes,
        "rss_before": before,
        "rss_grown": resident("VmHWM") - before,
    }


def resident(which: str = "VmRSS") -> int:
    """Return the resident memory (or its peak, VmHWM) in bytes, 0 where the system does not say."""
    try:
        with open("/proc/self/status", encoding="ascii") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(which))
    except (OSError, StopIteration):
        return 0


def reset_peak() -> None:
    """Let the peak begin anew, where the system can."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        pass


def python_count(path: str, pattern: str, most: str) -> dict[str, Any]:
    """Count with `regex` and Counter, as plain Python does: the first `most` bytes of a file."""
    from collections import Counter

    import regex

    with open(path, "rb") as file:
        text = file.read(int(most)).decode("utf-8", "ignore")
    compiled = regex.compile(PATTERNS[pattern])
    clock = Clock()
    counted = Counter(compiled.findall(text))
    return {**clock.read(), "distinct": len(counted), "bytes": len(text.encode())}


if __name__ == "__main__":
    sys.stdout.flush()
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
    sys.stdout.flush()
    os._exit(0)  # freeing gigabytes word by word is nobody's figure
