"""Characters, WordPiece and whole words through Beam and the command line: the same bytes, totals, and files."""

import json

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

from beam_bpe import Learning, Tokenizer, Vocabulary, WordCounts, train
from beam_bpe.cli import main
from beam_bpe.transforms import Decode, Encode, LearnVocabulary, TrainVocabulary

TEXT = "The newest of the Löwlands is the widest, newer than the lowest: 機器學習模型的訓練資料。\n" * 30 + "ab" * 60 + "\n"
FAMILIES = {
    "separate": dict(unit="character", end_of_word="</w>", num_merges=40),
    "attached": dict(unit="character", end_of_word="</w>", attached=True, num_merges=40, tie_break="lexicographic"),
    "fallback": dict(unit="character", end_of_word="</w>", byte_fallback=True, character_coverage=0.99, vocab_size=340),
    "characters": dict(unit="character", vocab_size=70),
    "wordpiece": dict(algorithm="wordpiece", vocab_size=90, special_tokens=["[PAD]", "[UNK]"]),
    "count": dict(algorithm="wordpiece", vocab_size=90, score="count", seed_words=5, both_forms=True),
    "wordlevel": dict(algorithm="wordlevel", vocab_size=12),
}
COUNTING = dict(pattern="bert", normalizer="bert")


@pytest.fixture
def corpus(tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.txt").write_text(TEXT, encoding="utf-8")
    return str(tmp_path / "*.txt")


@pytest.fixture(scope="module")
def words():
    return WordCounts.from_documents([TEXT] * 3, **COUNTING)


def options_of(family):
    """Return the options of the command."""
    argv = []
    for name, value in FAMILIES[family].items():
        option = "--" + ("special-token" if name == "special_tokens" else name.replace("_", "-"))
        argv += [option] if value is True else [part for one in (value if isinstance(value, list) else [value]) for part in (option, str(one))]
    return argv


@pytest.mark.parametrize("family", FAMILIES)
def test_one_learns_the_same_anywhere(family, words, corpus, tmp_path):
    expected = train(words, **FAMILIES[family])
    processes = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"] if family == "wordpiece" else []
    options = PipelineOptions(processes)
    with beam.Pipeline("FnApiRunner", options) as p:
        p | LearnVocabulary(corpus, str(tmp_path / "beam"), documents="line", shards=3, **COUNTING, **FAMILIES[family])
    argv = ["train", corpus, "-o", str(tmp_path / "command"), "--pattern", "bert", "--normalizer", "bert", "--documents", "line"]
    assert main([*argv, "--progress", "none", *options_of(family)]) == 0
    one, other = Vocabulary.load(str(tmp_path / "beam")), Vocabulary.load(str(tmp_path / "command"))
    assert one == other == expected and one.normalizer == "bert" and one.model == Learning(**FAMILIES[family]).model
    for name in ("merges.parquet", "vocabulary.parquet"):
        tables = [pq.read_table(tmp_path / folder / name) for folder in ("beam", "command")]
        assert tables[0].equals(tables[1]) and tables[0].schema.metadata == tables[1].schema.metadata


@pytest.mark.parametrize("family", FAMILIES)
def test_collections_are_encoded_and_decoded(family, words):
    tokenizer = Tokenizer(train(words, **FAMILIES[family]))
    texts = ["the newest lowlands", "", "機器 xyz", "low  low"]
    with beam.Pipeline("FnApiRunner") as p:
        encoded = p | beam.Create(texts) | Encode(tokenizer.vocabulary)
        decoded = encoded | beam.Map(lambda row: list(row.ids)) | Decode(tokenizer.vocabulary)
        assert_that(encoded | beam.Map(lambda row: (row.text, tuple(row.ids))), equal_to([(t, tuple(tokenizer.encode(t))) for t in texts]))
        assert_that(decoded, equal_to([tokenizer.decode(tokenizer.encode(t)) for t in texts]), label="decoded")
    result = p.result
    counted = {m.key.metric.name: m.attempted for m in result.metrics().query()["counters"] if m.key.metric.namespace == "beam_bpe"}
    unknown = sum(tokenizer.encode(t).count(tokenizer.vocabulary.unk_id) for t in texts)
    assert counted.get("unknown_tokens", 0) == unknown and (unknown > 0) == (family != "fallback")


def test_the_command_tells_what_is_unknown(corpus, words, tmp_path, capsys):
    vocabulary = train(words, algorithm="wordpiece", vocab_size=90, limit_alphabet=20)
    vocabulary.save(str(tmp_path / "v"))
    argv = ["encode", corpus, "-v", str(tmp_path / "v"), "-o", str(tmp_path / "ids"), "--documents", "line", "--progress", "none"]
    assert main(argv) == 0
    manifest = json.loads((tmp_path / "ids" / "_manifest.json").read_text())
    lines = TEXT.splitlines() * 3
    ids = [Tokenizer(vocabulary).encode(line) for line in lines]
    unknown = sum(one.count(vocabulary.unk_id) for one in ids)
    assert manifest["totals"]["unknown_tokens"] == unknown > 0
    assert manifest["totals"]["overlong_words"] == 3  # of 120 characters
    assert f"3 overlong words, {unknown:,} unknown tokens" in capsys.readouterr().out
    stored = pq.read_table(tmp_path / "ids" / "part-00000-of-00003.parquet")["ids"].to_pylist()
    assert stored == ids[: len(ids) // 3]
    assert main(["decode", str(tmp_path / "ids"), "-v", str(tmp_path / "v"), "-o", str(tmp_path / "text"), "--progress", "none"]) == 0


def test_learning_again_from_a_table_that_says_its_normalizer(words, tmp_path):
    words.write(str(tmp_path / "words"))
    with beam.Pipeline("FnApiRunner") as p:
        p | beam.Create([str(tmp_path / "words")]) | TrainVocabulary(str(tmp_path / "v"), algorithm="wordlevel", min_count=90)
    found = Vocabulary.load(str(tmp_path / "v"))
    assert found.normalizer == "bert" and found.pre_tokenizer.name == "bert"
    assert set(found.ids) == {word for word, count in words.to_dict().items() if count >= 90}
    argv = ["train", "--words", str(tmp_path / "words"), "-o", str(tmp_path / "w"), "--algorithm", "wordlevel", "--progress", "none"]
    assert main([*argv, "--normalizer", "NFC"]) == 2
    assert main([*argv, "--min-count", "90"]) == 0 and Vocabulary.load(str(tmp_path / "w")) == found


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(unit="byte", end_of_word="</w>", vocab_size=300), "end_of_word='</w>' has no meaning for bytes"),
        (dict(algorithm="wordpiece", unit="byte", vocab_size=300), "algorithm='wordpiece' is of characters"),
        (dict(unit="character", vocab_size=300, num_merges=3), "two limits"),
        (dict(algorithm="wordpiece"), "vocab_size is None"),
        (dict(algorithm="markov", vocab_size=300), "choose one of bpe, wordpiece, wordlevel"),
        (dict(unit="character", vocab_size=300, character_coverage=1.5), "it must be a number above 0 and at most 1"),
    ],
)
def test_what_contradicts_itself_is_refused_before_anything_is_read(options, message, tmp_path):
    with pytest.raises((ValueError, TypeError), match=message):
        TrainVocabulary(str(tmp_path), **options)
    with pytest.raises((ValueError, TypeError), match=message):
        LearnVocabulary(str(tmp_path / "nothing.txt"), str(tmp_path), **options)


@pytest.mark.parametrize("family", FAMILIES)
def test_arrays_of_many_documents(family, words):
    tokenizer = Tokenizer(train(words, **FAMILIES[family]))
    texts = [*TEXT.splitlines(), "ÉCOLE 2\u3000x\x00", ""]
    stops = np.cumsum([0, *(len(text.encode()) for text in texts)])
    batch = tokenizer.encode_documents("".join(texts).encode(), np.repeat(stops, 2)[1:-1])
    assert [ids.tolist() for ids in batch.split()] == [tokenizer.encode(text) for text in texts]
    assert batch.unknown == int((batch.ids == tokenizer.vocabulary.unk_id).sum())
    data, ends = tokenizer.decode_documents(batch.ids, batch.ends)
    assert data.decode() == "".join(tokenizer.decode(tokenizer.encode(text)) for text in texts)
    assert [tokenizer.count(text) for text in texts] == np.diff([0, *batch.ends]).tolist()
