"""Beam YAML: what the provider tells of each transform, and pipelines without Python, on the local runner."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.portability.api import schema_pb2

from beam_bpe import Tokenizer, WordCounts, train, transforms
from beam_bpe.learning import Learning
from beam_bpe.transforms import yaml_provider

main = pytest.importorskip("apache_beam.yaml.main", reason="needs the extra beam_bpe[yaml]")
from apache_beam.yaml import yaml_provider as beam_yaml  # noqa: E402

EXAMPLES = Path(__file__).parents[1] / "examples"
PUBLIC = {name: each for name, each in vars(transforms).items() if inspect.isclass(each) and issubclass(each, beam.PTransform)}
#: Parameters that YAML has instead of Python's.
INSTEAD = {"vocabulary_options": ["pattern", "special_ids"]}
TEXT = "The newest of the lowlands is the widest, newer than the lowest. " * 40


@pytest.fixture(scope="module")
def providers():
    loaded = beam_yaml.merge_providers(list(beam_yaml.load_providers(str(yaml_provider.PROVIDER))))
    return {name: provider for name, (provider,) in loaded.items()}


def run(pipeline: str | Path, **variables: object) -> None:
    where = ["--yaml_pipeline_file", str(pipeline)] if isinstance(pipeline, Path) else ["--yaml_pipeline", pipeline]
    given = json.dumps({name: str(value) for name, value in variables.items()})
    main.run([*where, "--jinja_variables", given, "--runner=FnApiRunner"])


def written(folder: Path, name: str) -> list[dict]:
    """Return the rows of JSON that Beam wrote."""
    return [json.loads(line) for path in folder.glob(f"{name}*") for line in path.read_text().splitlines()]


# ---- the provider --------------------------------------------------------------------------------


def test_every_transform_is_provided(providers):
    assert set(providers) == set(PUBLIC)


def concrete(kind: schema_pb2.FieldType) -> bool:
    info = kind.WhichOneof("type_info")
    if info == "array_type":
        return concrete(kind.array_type.element_type)
    if info == "map_type":
        return concrete(kind.map_type.key_type) and concrete(kind.map_type.value_type)
    return info == "atomic_type"


@pytest.mark.parametrize("name", PUBLIC)
def test_parameters_have_types_and_texts(name, providers):
    fields = {field.name: field for field in providers[name].config_schema(name).fields}
    own = PUBLIC[name].__init__ is not beam.PTransform.__init__
    expected = [new for old in inspect.signature(PUBLIC[name]).parameters for new in INSTEAD.get(old, [old])] if own else []
    if "options" in expected:
        expected.remove("options")
        expected += [one.name for one in dataclasses.fields(Learning) if one.name not in expected]
    if name in ("Encode", "Decode"):
        expected[expected.index("dead_letters")] = "error_handling"
    assert list(fields) == expected
    assert [field for field, told in fields.items() if not concrete(told.type)] == []
    assert [field for field, told in fields.items() if not told.description] == []
    assert providers[name].description(name)


def test_any_is_seen_as_no_type():
    schema = beam_yaml.InlineProvider.config_schema_from_callable(transforms.Encode)
    assert "vocabulary" in [field.name for field in schema.fields if not concrete(field.type)]


def test_some_types(providers):
    fields = {field.name: field.type for field in providers["EncodeFiles"].config_schema("EncodeFiles").fields}
    for name, kind, nullable in [
        ("inputs", schema_pb2.STRING, False),
        ("most", schema_pb2.INT64, True),
        ("pad", schema_pb2.STRING, True),
        ("resume", schema_pb2.BOOLEAN, False),
    ]:
        assert (fields[name].atomic_type, fields[name].nullable) == (kind, nullable), name
    assert fields["eos"].array_type.element_type.atomic_type == schema_pb2.STRING
    assert fields["special_ids"].map_type.value_type.atomic_type == schema_pb2.INT64


def test_the_documentation_is_generated_by_beam(tmp_path):
    command = [sys.executable, "-m", "apache_beam.yaml.generate_yaml_docs", f"--markdown_file={tmp_path / 'docs.md'}"]
    subprocess.run([*command, f"--provider_source_file={yaml_provider.PROVIDER}"], check=True, capture_output=True)
    text = (tmp_path / "docs.md").read_text()
    assert re.findall(r"^## (\w+)$", text, re.M) == sorted(PUBLIC)
    assert "*  **max_token_length** `int64` (Optional)  : in bytes, or characters without marks, inclusive; None for no limit." in text
    assert "`?`" not in text and "dead_letters the output" not in text and "a Vocabulary, or" not in text


def test_the_path_of_the_provider_is_printed(tmp_path):
    done = subprocess.run([sys.executable, "-m", "beam_bpe.transforms.yaml_provider"], capture_output=True, text=True, cwd=tmp_path)
    assert Path(done.stdout.strip()) == yaml_provider.PROVIDER and yaml_provider.PROVIDER.is_file()


# ---- pipelines -----------------------------------------------------------------------------------


def test_the_examples(tmp_path):
    for i in range(2):
        (tmp_path / f"{i}.txt").write_text(TEXT)
    rows = {"lang": ["en", "fr", "en"], "text": ["The newest lowlands", "Les plaines", "bad <|endoftext|>"]}
    pq.write_table(pa.table(rows), tmp_path / "docs.parquet")
    run(EXAMPLES / "learn_vocabulary.yaml", inputs=tmp_path / "*.txt", vocabulary=tmp_path / "v")
    tokenizer = Tokenizer.load(str(tmp_path / "v"))
    assert WordCounts.read(str(tmp_path / "v" / "words")).totals["documents"] == 2
    run(EXAMPLES / "encode_files.yaml", inputs=tmp_path / "*.txt", vocabulary=tmp_path / "v", output=tmp_path / "tokens")
    expected = [*tokenizer.encode(TEXT), tokenizer.special_tokens["<|endoftext|>"]]
    encoded = pq.read_table([str(path) for path in (tmp_path / "tokens").glob("*.parquet")])
    assert encoded["ids"].to_pylist() == [expected] * 2
    run(EXAMPLES / "encode_rows.yaml", table=tmp_path / "docs.parquet", vocabulary=tmp_path / "v", output=tmp_path / "e")
    good = [(lang, text, tokenizer.encode(text)) for lang, text in zip(*rows.values()) if lang != "en" or "bad" not in text]
    found = [row for path in (tmp_path / "e").glob("rows*") for row in pq.read_table(str(path)).to_pylist()]
    assert sorted((row["lang"], row["text"], row["ids"]) for row in found) == sorted(good)
    assert sorted((row["lang"], row["tokens"]) for row in written(tmp_path / "e", "totals")) == sorted(
        (lang, len(ids)) for lang, _, ids in good
    )
    (failed,) = written(tmp_path / "e", "failed")
    assert "the special token '<|endoftext|>'" in failed["msg"] and "bad <|endoftext|>" in failed["element"]


COUNT = """
providers:
  - include: {{ provider }}
pipeline:
  transforms:
    - type: Create
      config: {elements: [{body: low low}, {body: lower}, {body: null}]}
    - type: CountWords
      input: Create
      config: {pattern: whitespace, column: body, shards: 2}
    - type: WriteWords
      input: CountWords
      config: {folder: {{ words }} }
    - type: TrainVocabulary
      input: WriteWords
      config: {output: {{ vocabulary }}, vocab_size: 258}
    - type: WordRows
      input: CountWords
    - type: MapToFields
      input: WordRows
      config:
        language: python
        fields:
          word: {callable: "lambda row: row.word.decode()"}
          count: count
    - type: WriteToJson
      input: MapToFields
      config: {path: {{ rows }} }
"""


def test_rows_are_counted_by_a_column(tmp_path):
    run(COUNT, provider=yaml_provider.PROVIDER, words=tmp_path / "w", vocabulary=tmp_path / "v", rows=tmp_path / "rows")
    table = WordCounts.read(str(tmp_path / "w"))
    assert table.to_dict() == {b"low": 2, b"lower": 1} and table.totals["null_documents"] == 1
    assert len(Tokenizer.load(str(tmp_path / "v")).vocabulary) == 258
    assert sorted((row["word"], row["count"]) for row in written(tmp_path, "rows")) == [("low", 2), ("lower", 1)]


PIECES = """
providers:
  - include: {{ provider }}
pipeline:
  transforms:
    - type: LearnVocabulary
      config: {inputs: {{ text }}, output: {{ vocabulary }}, vocab_size: 40, algorithm: wordpiece, pattern: bert, normalizer: bert,
               special_tokens: ["[PAD]", "[UNK]"], limit_alphabet: 20, seed_words: 2, max_input_chars_per_word: 9, score: count}
"""


def test_wordpiece_is_learned(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    run(PIECES, provider=yaml_provider.PROVIDER, text=tmp_path / "a.txt", vocabulary=tmp_path / "v")
    options = {"limit_alphabet": 20, "seed_words": 2, "max_input_chars_per_word": 9, "score": "count"}
    words = WordCounts.from_documents([TEXT], pattern="bert", normalizer="bert")
    expected = train(words, 40, algorithm="wordpiece", special_tokens=["[PAD]", "[UNK]"], **options)
    assert Tokenizer.load(str(tmp_path / "v")).vocabulary == expected and expected.model.max_input_chars_per_word == 9


SCORED = """
providers:
  - include: {{ provider }}
pipeline:
  transforms:
    - type: LearnVocabulary
      config: {inputs: {{ text }}, output: {{ vocabulary }}, vocab_size: 290, algorithm: unigram, byte_fallback: true,
               user_defined_symbols: ["<x>"], special_tokens: ["<s>"], character_coverage: 0.9, shrinking_factor: 0.8}
"""


def test_unigram_is_learned(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    run(SCORED, provider=yaml_provider.PROVIDER, text=tmp_path / "a.txt", vocabulary=tmp_path / "v")
    words = WordCounts.from_documents([TEXT], special_tokens=["<s>"], pattern="metaspace", normalizer="metaspace")
    options = {"byte_fallback": True, "user_defined_symbols": ["<x>"], "special_tokens": ["<s>"]}
    expected = train(words, 290, algorithm="unigram", character_coverage=0.9, shrinking_factor=0.8, **options)
    assert Tokenizer.load(str(tmp_path / "v")).vocabulary == expected and expected.model.byte_fallback


CHAIN = """
providers:
  - include: {{ provider }}
pipeline:
  type: chain
  transforms:
    - type: ReadFromText
      config: {path: {{ text }} }
    - type: Encode
      config: {vocabulary: {{ vocabulary }}, column: line, pattern: gpt2, special_ids: {"<|end|>": 300}, eos: ["<|end|>"]}
    - type: WriteShards
      config: {folder: {{ shards }}, vocabulary: {{ vocabulary }}, shards: 1, pattern: gpt2, special_ids: {"<|end|>": 300} }
"""


def test_a_vocabulary_that_does_not_tell_its_pattern(tmp_path):
    from beam_bpe import formats

    ranks = tmp_path / "ranks.tiktoken"
    formats.save(train(WordCounts.from_documents([TEXT], pattern="gpt2"), 280), str(ranks), "tiktoken")
    (tmp_path / "lines.txt").write_text("the newest\nlowlands\n")
    run(CHAIN, provider=yaml_provider.PROVIDER, text=tmp_path / "lines.txt", vocabulary=ranks, shards=tmp_path / "s")
    tokenizer = Tokenizer(formats.load(str(ranks), pattern="gpt2", special_tokens={"<|end|>": 300}))
    (shard,) = (tmp_path / "s").glob("*.parquet")
    assert sorted(pq.read_table(shard)["ids"].to_pylist()) == sorted([*tokenizer.encode(line), 300] for line in ("the newest", "lowlands"))


def test_an_error_output_has_only_a_name(tmp_path):
    train(WordCounts.from_documents([TEXT]), 260).save(str(tmp_path / "v"))
    with pytest.raises(ValueError, match="give it `output`, the name of the output of what fails, alone"):
        yaml_provider.Decode(vocabulary=str(tmp_path / "v"), error_handling={"outputs": "failed"})


MEASURE = """
providers:
  - include: {{ provider }}
pipeline:
  type: chain
  transforms:
    - type: Create
      config: {elements: [{body: low low, lang: en}, {body: lower, lang: de}, {body: low, lang: en}]}
    - type: MeasureTokens
      config: {vocabularies: [{{ vocabulary }}], baselines: [byte], column: body, group_by: lang}
    - type: WriteStatistics
      config: {folder: {{ statistics }}, vocabularies: [{{ vocabulary }}]}
"""


def test_vocabularies_are_measured(tmp_path):
    from beam_bpe import measured

    train({"low": 2}, 258).save(str(tmp_path / "v"))
    run(MEASURE, provider=yaml_provider.PROVIDER, vocabulary=tmp_path / "v", statistics=tmp_path / "out")
    found, byte = measured.load(str(tmp_path / "out"))
    assert {name: (one.tokens, one.documents) for name, one in found.groups.items()} == {"de": (3, 1), "en": (4, 2)}
    assert byte.total.tokens == 15 and found.group_by == "lang"
