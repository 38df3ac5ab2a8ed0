"""Count, learn and encode on every engine: the same bytes everywhere, whatever the shards, order and hash seeds."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_bpe import Vocabulary, WordCounts, measure_words, measured
from beam_bpe import train as learn
from submitting import Engine

VOCAB_SIZE = 4000
RANGE_BYTES = 1 << 20
SHARDS = (1, 2, 7, 16)
# (engine, shards, hash seed of the submitting process, in another order, learn on, further arguments)
CASES = [
    ("local", 2, 1, True, "submitter", ["--workers", "2"]),
    ("local", 16, 2, False, "worker", []),
    ("processes", 7, 1, True, "submitter", []),
    ("prism", 1, 2, False, "worker", []),
    ("prism", 16, 1, True, "submitter", []),
    ("spark-local", 7, 1, True, "submitter", []),
    pytest.param("flink-cluster", 2, 1, False, "worker", [], marks=pytest.mark.slow),
    pytest.param("spark-cluster", 16, 2, True, "worker", [], marks=pytest.mark.slow),
    pytest.param("flink-cluster", 7, 2, True, "submitter", [], marks=pytest.mark.slow),
]
SLOW_SPARK = pytest.param("spark-cluster", marks=pytest.mark.slow)
SLOW_FLINK = pytest.param("flink-cluster", marks=pytest.mark.slow)
SLOW_LOCAL_SPARK = pytest.param("spark-local", marks=pytest.mark.slow)
#: The job by group encodes on Spark and Flink as well.
ENCODING = ["local", "processes", "prism", SLOW_LOCAL_SPARK, SLOW_SPARK, SLOW_FLINK]
PIPELINES = Path(__file__).parent / "pipelines"


@pytest.fixture(scope="session")
def documents(shared) -> list[dict[str, str]]:
    """Return about 20 MB of documents in many languages, and code."""
    table = pq.read_table(shared / "corpora" / "docs.parquet")
    return table.take(list(range(0, table.num_rows, 10))).to_pylist()


def write_corpus(folder: Path, documents: list[dict[str, str]], names: str, rng: random.Random | None) -> Path:
    """Write documents in four formats; `rng` puts those that have no order into another one."""
    zstandard = pytest.importorskip("zstandard")
    text, lines, rows, packed = (list(documents[i::4]) for i in range(4))
    if rng:
        rng.shuffle(lines)
        rng.shuffle(rows)
    folder.mkdir()
    (folder / f"{names[0]}.txt").write_bytes("\n\n".join(row["text"] for row in text).encode())
    with gzip.open(folder / f"{names[1]}.jsonl.gz", "wt", compresslevel=1, encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in lines)
    group = 40 if rng else 64
    pq.write_table(pa.Table.from_pylist(rows), folder / f"{names[2]}.parquet", row_group_size=group)
    joined = "\n\n".join(row["text"] for row in packed).encode()
    (folder / f"{names[3]}.txt.zst").write_bytes(zstandard.ZstdCompressor(1).compress(joined))
    return folder


@pytest.fixture(scope="session")
def corpus(documents, tmp_path_factory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "mixed", documents, "abcd", None)


@pytest.fixture(scope="session")
def reordered(documents, tmp_path_factory) -> Path:
    """The same documents: files of other names, lines and rows in another order and in other row groups."""
    return write_corpus(tmp_path_factory.mktemp("reordered") / "mixed", documents, "zyxw", random.Random(5))


def train(engine, corpus, folder, shards, *arguments, seed=0):
    sizes = ["--vocab-size", VOCAB_SIZE, "--shards", shards, "--range-bytes", RANGE_BYTES, "--no-report"]
    return engine.beam_bpe("train", corpus, "--output", folder, *sizes, *arguments, seed=seed)


@pytest.fixture(scope="session")
def expected(workers, submit_from, corpus, tmp_path_factory):
    """What the local runner makes, by the number of shards."""
    made = {}
    local = Engine("local", [], submit_from)

    def of(shards: int) -> Path:
        if shards not in made:
            folder = tmp_path_factory.mktemp(f"expected-{shards}") / "out"
            train(local, corpus, folder, shards)
            made[shards] = folder
        return made[shards]

    return of


@pytest.fixture(scope="session")
def encoded(workers, submit_from, corpus, expected, tmp_path_factory) -> Path:
    """The shards of ids that the local runner makes."""
    folder = tmp_path_factory.mktemp("encoded") / "out"
    encode(Engine("local", [], submit_from), corpus, folder, expected(1))
    return folder


def encode(engine, corpus, folder, vocabulary, *arguments, seed=0):
    chosen = ["--vocabulary", vocabulary, "--range-bytes", RANGE_BYTES]
    return engine.beam_bpe("encode", corpus, "--output", folder, *chosen, *arguments, seed=seed)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def differing(found: dict[str, bytes], wanted: dict[str, bytes]) -> list[str]:
    """Return the names of files that are not the same, which says more than a page of bytes."""
    return sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))


def test_shards_change_neither_words_nor_vocabulary(expected):
    first = expected(SHARDS[0])
    table = WordCounts.read(str(first / "words")).to_dict()
    assert len(table) > 100_000
    for shards in SHARDS[1:]:
        assert WordCounts.read(str(expected(shards) / "words")).to_dict() == table
        for name in ("merges.parquet", "vocabulary.parquet"):
            assert (expected(shards) / name).read_bytes() == (first / name).read_bytes(), (shards, name)


@pytest.mark.parametrize("engine, shards, seed, shuffled, where, more", CASES, indirect=["engine"])
def test_words_and_vocabulary(engine, shards, seed, shuffled, where, more, corpus, reordered, expected, tmp_path):
    read = reordered if shuffled else corpus
    train(engine, read, tmp_path / "out", shards, "--train-on", where, *more, seed=seed)
    assert differing(contents(tmp_path / "out"), contents(expected(shards))) == []


PIECES = ["--algorithm", "wordpiece", "--pattern", "bert", "--normalizer", "bert", "--limit-alphabet", 2000, "--vocab-size", 12_000, "--no-report"]


@pytest.fixture(scope="session")
def pieces(workers, submit_from, corpus, tmp_path_factory) -> tuple[Path, Path]:
    """WordPiece of normalized text, and shards of its ids, that the local runner makes."""
    local, folder = Engine("local", [], submit_from), tmp_path_factory.mktemp("pieces")
    local.beam_bpe("train", corpus, "--output", folder / "out", "--shards", 3, "--range-bytes", RANGE_BYTES, *PIECES)
    encode(local, corpus, folder / "ids", folder / "out")
    return folder / "out", folder / "ids"


@pytest.mark.parametrize(
    "engine", ["prism", *(pytest.param(name, marks=pytest.mark.slow) for name in ("spark-cluster", "flink-cluster"))], indirect=True
)
def test_wordpiece_of_normalized_text(engine, corpus, reordered, pieces, tmp_path):
    arguments = ["--shards", 3, "--range-bytes", RANGE_BYTES, "--train-on", "worker", *PIECES]
    engine.beam_bpe("train", reordered, "--output", tmp_path / "out", *arguments, seed=1)
    assert differing(contents(tmp_path / "out"), contents(pieces[0])) == []
    encode(engine, corpus, tmp_path / "ids", pieces[0], seed=2)
    assert differing(contents(tmp_path / "ids"), contents(pieces[1])) == []
    totals = json.loads((tmp_path / "ids" / "_manifest.json").read_text())["totals"]
    assert totals["unknown_tokens"] > 1000 and totals["overlong_words"] > 0


@pytest.mark.parametrize("engine", ENCODING, indirect=True)
def test_shards_of_ids(engine, corpus, expected, encoded, tmp_path):
    encode(engine, corpus, tmp_path / "out", expected(1), seed=1)
    assert len(contents(encoded)) > 10
    assert differing(contents(tmp_path / "out"), contents(encoded)) == []


@pytest.fixture(scope="session")
def vocabularies(documents, tmp_path_factory) -> list[Path]:
    """Two vocabularies of some of the documents: BPE of bytes, and Unigram with the bytes of what it does not know."""
    folder, texts = tmp_path_factory.mktemp("vocabularies"), [row["text"] for row in documents[::12]]
    learn(WordCounts.from_documents(texts, pattern="o200k"), 3000).save(str(folder / "bytes"))
    pieces = WordCounts.from_documents(texts, pattern="metaspace", normalizer="metaspace")
    learn(pieces, 3000, algorithm="unigram", byte_fallback=True, limit_alphabet=1500).save(str(folder / "unigram"))
    return [folder / "bytes", folder / "unigram"]


def one_job(engine: Engine, read: Path, encoded: Path, folder: Path, vocabularies: list[Path], seed: int = 0) -> None:
    """Count by language, measure, learn pieces and encode, all in one job."""
    engine.python(PIPELINES / "groups.py", read, encoded, folder, *vocabularies, "--", seed=seed)


@pytest.fixture(scope="session")
def of_one_job(workers, submit_from, corpus, vocabularies, tmp_path_factory) -> Path:
    """What the local runner makes of it."""
    folder = tmp_path_factory.mktemp("one-job") / "out"
    one_job(Engine("local", ["--runner=FnApiRunner"], submit_from), corpus, corpus, folder, vocabularies)
    return folder


def test_measures_of_one_job(of_one_job, vocabularies):
    """Documents have the measures of their words, but for their lengths, whether they come in batches or as rows."""
    statistics = of_one_job / "statistics"
    assert differing(contents(statistics), contents(of_one_job / "of-rows")) == []
    of_documents = {one.subject.name: one for one in measured.load(str(statistics))}
    assert set(of_documents) == {*map(str, vocabularies), "byte", "trigram"}
    path, words = str(vocabularies[0]), WordCounts.read(str(of_one_job / "words"))
    for of_words in measure_words(words, [Vocabulary.load(path)], names=[path], baselines=["byte"]):
        groups = of_documents[of_words.subject.name].groups
        assert len(groups) == 13 and min(measures.tokens for measures in groups.values()) > 1000
        assert {name: replace(measures, lengths=None) for name, measures in groups.items()} == of_words.groups


@pytest.mark.parametrize("engine", ["prism", "spark-local", "flink-cluster", SLOW_SPARK], indirect=True)
def test_one_job_by_group(engine, corpus, reordered, vocabularies, of_one_job, tmp_path):
    """Words and statistics by group, vocabularies of pieces and shards of their ids, all of one job."""
    one_job(engine, reordered, corpus, tmp_path / "out", vocabularies, seed=3)
    assert differing(contents(tmp_path / "out"), contents(of_one_job)) == []


@pytest.fixture(scope="session")
def of_all_documents(workers, submit_from, shared, tmp_path_factory) -> dict[str, dict[str, bytes]]:
    """What the local runner makes of docs.parquet, whose shards are 39 MB."""
    folder, local = tmp_path_factory.mktemp("all"), Engine("local", [], submit_from)
    return all_documents(local, shared, folder)


def all_documents(engine: Engine, shared: Path, folder: Path) -> dict[str, dict[str, bytes]]:
    source = shared / "corpora" / "docs.parquet"
    engine.beam_bpe("train", source, "--output", folder / "v", "--vocab-size", VOCAB_SIZE, "--train-on", "worker")
    engine.beam_bpe("encode", source, "--output", folder / "ids", "--vocabulary", folder / "v")
    return {name: contents(folder / name) for name in ("v", "ids")}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["processes", "prism", "spark-local", "spark-cluster", "flink-cluster"], indirect=True)
def test_all_documents(engine, shared, of_all_documents, tmp_path):
    found = all_documents(engine, shared, tmp_path)
    assert len(found["ids"]) > 5 and sum(map(len, found["ids"].values())) > 30e6
    for name, wanted in of_all_documents.items():
        assert differing(found[name], wanted) == []


@pytest.mark.parametrize("engine", ["spark-cluster", SLOW_FLINK], indirect=True)
def test_work_spreads(engine, workers, tmp_path):
    """24 ranges are read in as many processes as the cluster has slots, all of them with the package of the wheel."""
    (tmp_path / "seen").mkdir()
    (tmp_path / "text.txt").write_text("".join(f"{number:06} low lower newest\n" for number in range(24_000)))
    engine.python(PIPELINES / "spread.py", tmp_path / "text.txt", tmp_path / "seen", 24_000, more=engine.service.spread)
    seen = list((tmp_path / "seen").iterdir())
    processes, ranges = zip(*(path.name.split("-") for path in seen))
    assert len(set(ranges)) == 24
    assert len(set(processes)) == 4
    assert all(Path(path.read_text()).is_relative_to(workers) for path in seen)


def test_runners_that_lose_elements_are_refused(workers, submit_from, tmp_path):
    """Those that drop what is emitted at the end of a bundle, before anything runs and in one line."""
    (tmp_path / "lossy.py").write_text(
        "from apache_beam.runners.portability.fn_api_runner import FnApiRunner\n"
        "class DaskRunner(FnApiRunner): pass\n"
        "class PySparkRunner(FnApiRunner): pass\n"
    )
    (tmp_path / "text.txt").write_text("low lower newest widest " * 50)
    for name in ("DaskRunner", "PySparkRunner"):
        lossy = Engine(name, [f"--runner=lossy.{name}"], submit_from, variables={"PYTHONPATH": str(tmp_path)})
        done = lossy.beam_bpe("count", tmp_path / "text.txt", "--output", tmp_path / "out", fails=True)
        assert f"{name} loses what is emitted at the end of a bundle" in done.stderr
        assert done.stderr.count("\n") == 1 and not (tmp_path / "out").exists()
