"""Rows of a collection of one's own, written as shards."""

from __future__ import annotations

import typing

import apache_beam as beam
import pytest

from beam_bpe import Tokenizer, artifacts, encoding, shards, train
from beam_bpe.transforms import Encode, WriteShards

END = "<e>"
VOCABULARY = train({"low": 5, "lower": 2, "newest": 6, "widest": 3}, 269, special_tokens=[END])


class Document(typing.NamedTuple):
    id: int
    text: str
    lang: typing.Optional[str]


DOCUMENTS = [Document(i, f"lower newest {i}", "en" if i % 3 == 0 else None) for i in range(500)]


def run(build):
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        build(pipeline)


def rows_of(folder, tokenizer):
    """Return the rows of all shards, with their text decoded."""
    found = []
    for _, batch in encoding.read_documents(str(folder)):
        data, ends = tokenizer.decode_documents(batch.ids, batch.ends)
        starts = [0, *ends[:-1].tolist()]
        texts = [data[start:end].decode() for start, end in zip(starts, ends.tolist())]
        others = batch.columns.to_pylist() if batch.columns is not None else [{}] * len(texts)
        found += [{**row, "decoded": text} for row, text in zip(others, texts, strict=True)]
    return found


@pytest.mark.parametrize("format", shards.FORMATS)
@pytest.mark.parametrize("as_dicts", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_row_arrives_once(format, as_dicts, tmp_path):
    documents = [dict(document._asdict()) for document in DOCUMENTS] if as_dicts else DOCUMENTS

    def build(pipeline):
        rows = pipeline | beam.Create(documents) | Encode(VOCABULARY, eos=[END])
        rows | WriteShards(str(tmp_path / "out"), VOCABULARY, format=format, shards=3)

    run(build)
    found = rows_of(tmp_path / "out", Tokenizer(VOCABULARY))
    assert sorted((row["id"], row["text"], row["lang"]) for row in found if row["lang"]) == sorted(
        tuple(document) for document in DOCUMENTS if document.lang
    )
    assert sorted(row["id"] for row in found) == list(range(len(DOCUMENTS)))
    assert all(row["decoded"] == row["text"] + END for row in found)
    manifest = artifacts.read_manifest(str(tmp_path / "out"), shards.KIND)
    assert manifest["parameters"] == {"fingerprint": VOCABULARY.fingerprint, "vocab_size": len(VOCABULARY), "format": format}
    assert manifest["totals"]["encoded_documents"] == len(DOCUMENTS) and len(manifest["parts"]) == 3
    assert manifest["totals"]["tokens"] == sum(len(Tokenizer(VOCABULARY).encode(d.text)) + 1 for d in DOCUMENTS)


def test_only_ids(tmp_path):
    rows = [{"ids": [1, 2, 3]}, {"ids": []}, {"ids": [268]}]
    run(lambda p: p | beam.Create(rows) | WriteShards(str(tmp_path / "out"), VOCABULARY, shards=1))
    assert sorted(row["decoded"] for row in rows_of(tmp_path / "out", Tokenizer(VOCABULARY))) == sorted(
        Tokenizer(VOCABULARY).decode(row["ids"]) for row in rows
    )


def test_ids_of_another_vocabulary(tmp_path):
    with pytest.raises(ValueError, match="id 5000 is not below vocab_size=269"):
        run(lambda p: p | beam.Create([{"ids": [5000]}]) | WriteShards(str(tmp_path / "out"), VOCABULARY))
    assert not (tmp_path / "out" / artifacts.MANIFEST).exists()


@pytest.mark.parametrize(
    "element, error, message",
    [({"x": 1}, TypeError, "a dict, has no column 'ids'; it has x"), ("text", TypeError, "a str, has no column 'ids'; it has none")],
)
def test_elements_that_are_no_rows(element, error, message, tmp_path):
    with pytest.raises(error, match=message):
        run(lambda p: p | beam.Create([element]) | WriteShards(str(tmp_path / "out"), VOCABULARY))


def test_arguments(tmp_path):
    with pytest.raises(ValueError, match="shards is 0"):
        WriteShards("out", VOCABULARY, shards=0)
    with pytest.raises(ValueError, match="format='csv'"):
        WriteShards("out", VOCABULARY, format="csv")
    windowed = beam.WindowInto(beam.transforms.window.FixedWindows(10))
    with pytest.raises(ValueError, match="global window"):
        run(lambda p: p | beam.Create([{"ids": [1]}]) | windowed | WriteShards(str(tmp_path / "out"), VOCABULARY))


def test_a_folder_that_exists(tmp_path):
    def write(**options):
        run(lambda p: p | beam.Create([{"ids": [1]}]) | WriteShards(str(tmp_path / "out"), VOCABULARY, **options))

    write()
    with pytest.raises(FileExistsError):
        write()
    write(overwrite=True, format="npy")
    names = sorted(path.name for path in (tmp_path / "out").iterdir() if path.name.startswith("part"))
    assert names and not any(name.endswith(".parquet") and "documents" not in name for name in names)
