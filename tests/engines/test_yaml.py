"""Beam YAML on Prism: the examples, from raw files to encoded Parquet without a line of Python."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import prepare
from beam_bpe import Tokenizer

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXT = "The newest of the lowlands is the widest, newer than the lowest. " * 40


def run(engine, name: str, **variables: object) -> None:
    given = json.dumps({name: str(value) for name, value in variables.items()})
    arguments = ["apache_beam.yaml.main", f"--yaml_pipeline_file={EXAMPLES / name}", f"--jinja_variables={given}"]
    engine.python("-m", *arguments)


@pytest.mark.parametrize("engine", ["prism"], indirect=True)
def test_the_examples(engine, tmp_path):
    for i in range(2):
        (tmp_path / f"{i}.txt").write_text(TEXT)
    rows = {"lang": ["en", "fr", "en"], "text": ["The newest lowlands", "Les plaines", "bad <|endoftext|>"]}
    pq.write_table(pa.table(rows), tmp_path / "docs.parquet")
    run(engine, "learn_vocabulary.yaml", inputs=tmp_path / "*.txt", vocabulary=tmp_path / "v")
    run(engine, "encode_files.yaml", inputs=tmp_path / "*.txt", vocabulary=tmp_path / "v", output=tmp_path / "tokens")
    run(engine, "encode_rows.yaml", table=tmp_path / "docs.parquet", vocabulary=tmp_path / "v", output=tmp_path / "e")
    tokenizer = Tokenizer.load(str(tmp_path / "v"))
    expected = [*tokenizer.encode(TEXT), tokenizer.special_tokens["<|endoftext|>"]]
    shards = [pq.read_table(path) for path in (tmp_path / "tokens").glob("*.parquet")]
    assert [shard["ids"].to_pylist() for shard in shards] == [[expected]] * 2
    found = [row for path in (tmp_path / "e").glob("rows*") for row in pq.read_table(str(path)).to_pylist()]
    assert sorted((row["text"], row["ids"]) for row in found) == sorted((text, tokenizer.encode(text)) for text in rows["text"][:2])
    failed = [line for path in (tmp_path / "e").glob("failed*") for line in path.read_text().splitlines()]
    assert len(failed) == 1 and "the special token '<|endoftext|>'" in failed[0]


def test_the_provider_is_in_the_wheel(workers):
    (provider,) = prepare.workers_home().glob("lib/*/site-packages/beam_bpe/transforms/provider.yaml")
    assert "- type: python" in provider.read_text()
