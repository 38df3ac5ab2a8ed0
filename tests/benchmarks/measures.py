"""The programs of P14: `python measures.py NAME ARGUMENTS`; each answers with a line of JSON."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from ours import Clock

LINES = 1 << 20  # bytes of documents that are handed over together


def table(folder: str, vocab_size: str) -> dict[str, Any]:
    """Learn from words that are in memory, measure the vocabulary on them with all ratios, compute its curve, report on it."""
    from beam_bpe import curve, measuring, training
    from beam_bpe.report import files, record
    from beam_bpe.words import WordCounts

    words = WordCounts.read(folder)
    together = words.ungrouped()
    took: dict[str, Any] = {}
    clock = Clock()
    vocabulary = training.train(together, int(vocab_size))
    took["training"] = clock.read()
    clock = Clock()
    (statistics,) = measuring.measure_words(words, [vocabulary])
    ratios = [statistics.gini(), statistics.renyi_efficiency(statistics.total)]
    ratios += [one.entropy for one in (*statistics.groups.values(), statistics.total)]
    took["measures"] = clock.read()
    clock = Clock()
    found = curve.size_curve(statistics, vocabulary)
    took["curve"] = clock.read()
    clock = Clock()
    with tempfile.TemporaryDirectory() as scratch:
        files.write(scratch, record.report_of(vocabulary, words, name="benchmark"))
        page = os.path.join(scratch, files.HTML_FILE)
        took["report"] = clock.read()
        size = os.path.getsize(page) if os.path.exists(page) else None
    exact = bool((-np.diff(found.total) == vocabulary.replaced).all())
    told = {
        "words": len(together),
        "groups": len(statistics.groups),
        "tokens": statistics.total.tokens,
        "ratios": len(ratios),
        "page": size,
    }
    return {**took, **told, "vocab_size": len(vocabulary), "exact": exact}


def _texts(path: str) -> tuple[list[str], list[str]]:
    columns = pq.read_table(path, columns=["text", "lang"])
    return columns["text"].to_pylist(), columns["lang"].to_pylist()


def documents(path: str, vocabulary: str, what: str) -> dict[str, Any]:
    """Pass over documents that lie in memory, in one thread: "encode", "measure" or "measure by group" them."""
    from beam_bpe import Tokenizer
    from beam_bpe.grouping import Groups
    from beam_bpe.measuring import Meter
    from beam_bpe.reading import documents_of

    texts, groups = _texts(path)
    tokenizer = Tokenizer.load(vocabulary)
    batches, start, size = [], 0, 0
    for number, text in enumerate(texts, 1):
        size += len(text)
        if size >= 8 * LINES or number == len(texts):
            told = Groups.of("lang", groups[start:number]) if what == "measure by group" else None
            batches.append(documents_of(texts[start:number], "strict", told))
            start, size = number, 0
    meter, tokens = Meter([tokenizer]), 0
    clock = Clock()
    for batch in batches:
        if what == "encode":
            tokens += len(tokenizer.encode_documents(batch.data, batch.bounds).ids)
        else:
            meter.add(batch)
    if what != "encode":
        tokens = sum(measures.tokens or 0 for measures in meter.take()[0].values())
    return {**clock.read(), "tokens": tokens, "bytes": sum(len(batch.data) for batch in batches)}


def groups(path: str, number: str) -> dict[str, Any]:
    """Count documents in one thread, by none ("0") or so many groups in turn, and learn 8,000 tokens from the table."""
    from beam_bpe import pre_tokenizer, training
    from beam_bpe.counting import WordCounter, count_batches
    from beam_bpe.cutting import WordRule
    from beam_bpe.grouping import Groups
    from beam_bpe.reading import documents_of
    from beam_bpe.special import SpecialTokens

    texts, wanted = _texts(path)[0], int(number)
    names = [f"group {i % max(1, wanted)}" for i in range(len(texts))]
    start = range(0, len(texts), 4096)
    batches = [
        documents_of(texts[i : i + 4096], "strict", Groups.of("group", names[i : i + 4096]) if wanted else None) for i in start
    ]
    cut, by = pre_tokenizer("o200k"), "group" if wanted else None
    counter = WordCounter(cut, SpecialTokens(()), group_by=by)
    clock = Clock()
    for batch in batches:
        counter.add(batch)
    took: dict[str, Any] = {"counting": clock.read()}
    held = counter.nbytes
    counter.close()
    clock = Clock()
    words = count_batches(batches, WordRule(cut), group_by=by)
    took["table"] = clock.read()
    together = words.ungrouped()
    clock = Clock()
    vocabulary = training.train(together, 8_000)
    took["training"] = clock.read()
    told = {"rows": words.table.num_rows, "words": len(together), "fingerprint": vocabulary.fingerprint}
    return {**took, **told, "megabytes": held / 1e6, "bytes": sum(len(batch.data) for batch in batches)}


def transform(path: str, vocabulary: str, what: str) -> dict[str, Any]:
    """Run a pipeline over the rows of a table, each of them an element, in one thread: "Encode", or "MeasureTokens"."""
    import apache_beam as beam
    from apache_beam.metrics import Metrics, MetricsFilter

    from beam_bpe import transforms

    counter = Metrics.counter("benchmark", "tokens")

    def rows_of(path: str) -> list[dict[str, Any]]:
        return pq.read_table(path, columns=["text", "lang"]).to_pylist()

    def ids_of(row: dict[str, Any]) -> None:
        counter.inc(len(row["ids"]))

    def tokens_of(found: Any) -> None:
        counter.inc(found.total.tokens)

    step = transforms.Encode(vocabulary)
    if what != "Encode":
        step = transforms.MeasureTokens(vocabulary, group_by="lang" if what == "MeasureTokens by group" else None)
    pipeline = beam.Pipeline(runner="FnApiRunner")
    rows = pipeline | beam.Create([path], reshuffle=False) | beam.FlatMap(rows_of).with_output_types(dict[str, str])
    rows | step | beam.Map(ids_of if what == "Encode" else tokens_of)
    clock = Clock()
    result = pipeline.run()
    result.wait_until_finish()
    took = clock.read()
    (counted,) = result.metrics().query(MetricsFilter().with_namespace("benchmark"))["counters"]
    return {**took, "tokens": counted.committed, "bytes": sum(len(text.encode()) for text in _texts(path)[0])}


def tokenizers(path: str, tokenizer_json: str, most: str) -> dict[str, Any]:
    """Count tokens as datatrove's TokensCounter does: encode_batch of `tokenizers`, and the length of its ids."""
    import tokenizers as peer

    texts, _ = _texts(path)
    kept, size = [], 0
    for text in texts:
        kept.append(text)
        size += len(text.encode())
        if size >= int(most):
            break
    tokenizer = peer.Tokenizer.from_file(tokenizer_json)
    tokenizer.encode_special_tokens = True
    clock, tokens = Clock(), 0
    for start in range(0, len(kept), 100):
        tokens += sum(len(one.ids) for one in tokenizer.encode_batch(kept[start : start + 100], add_special_tokens=False))
    return {**clock.read(), "tokens": tokens, "bytes": size}


if __name__ == "__main__":
    os.environ.setdefault("RAYON_NUM_THREADS", "1")
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
    sys.stdout.flush()
    os._exit(0)
