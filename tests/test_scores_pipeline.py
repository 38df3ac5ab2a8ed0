"""SentencePiece's BPE and Unigram through Beam, the command line and YAML: the same bytes, and text that comes back."""

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

from beam_bpe import Tokenizer, Vocabulary, WordCounts, train
from beam_bpe.cli import main
from beam_bpe.normalize import NAMES
from beam_bpe.transforms import CountWords, Decode, Encode, LearnVocabulary

TEXT = "The newest of the Löwlands is the widest,  newer than the lowest: 機器學習模型的訓練資料 2024。\n" * 30 + " ab" * 60 + "\n"
FAMILIES = {
    "bpe": dict(algorithm="sentencepiece-bpe", vocab_size=120, special_tokens=["<s>", "</s>"], byte_fallback=False),
    "fallback": dict(algorithm="sentencepiece-bpe", vocab_size=360, byte_fallback=True, character_coverage=0.97),
    "digits": dict(algorithm="sentencepiece-bpe", vocab_size=110, split_digits=True, user_defined_symbols=["Löw", "<sep>"]),
    "unigram": dict(algorithm="unigram", vocab_size=90, special_tokens=["<s>", "</s>"], seed_size=5000),
    "unigram-fallback": dict(algorithm="unigram", vocab_size=340, byte_fallback=True, limit_alphabet=30),
}
CUTTING = dict(pattern="metaspace", normalizer="metaspace")


@pytest.fixture
def corpus(tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.txt").write_text(TEXT, encoding="utf-8")
    return str(tmp_path / "*.txt")


@pytest.fixture(scope="module")
def words():
    return WordCounts.from_documents(TEXT.splitlines(keepends=True) * 3, **CUTTING)


def options_of(family):
    """Return the options of the command."""
    argv = []
    for name, value in FAMILIES[family].items():
        option = "--" + {"special_tokens": "special-token", "user_defined_symbols": "user-defined-symbol"}.get(name, name.replace("_", "-"))
        if value is not False:
            argv += [option] if value is True else [part for one in (value if isinstance(value, list) else [value]) for part in (option, str(one))]
    return argv


@pytest.mark.parametrize("family", FAMILIES)
def test_one_learns_the_same_anywhere(family, words, corpus, tmp_path):
    expected = train(words, **FAMILIES[family])
    processes = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"] if family == "unigram" else []
    with beam.Pipeline("FnApiRunner", PipelineOptions(processes)) as p:
        p | LearnVocabulary(corpus, str(tmp_path / "beam"), documents="line", shards=3, **FAMILIES[family])
    argv = ["train", corpus, "-o", str(tmp_path / "command"), "--documents", "line", "--progress", "none", *options_of(family)]
    assert main(argv) == 0
    one, other = Vocabulary.load(str(tmp_path / "beam")), Vocabulary.load(str(tmp_path / "command"))
    assert one == other == expected
    assert len(one) == FAMILIES[family]["vocab_size"] or one.stop_reason in ("no_pairs", "no_pieces")
    assert (one.pre_tokenizer.name, one.normalizer) == ("metaspace", "metaspace")
    for name in ("merges.parquet", "vocabulary.parquet"):
        tables = [pq.read_table(tmp_path / folder / name) for folder in ("beam", "command")]
        assert tables[0].equals(tables[1]) and tables[0].schema.metadata == tables[1].schema.metadata


def test_lines_without_their_endings(corpus, tmp_path):
    expected = train(WordCounts.from_documents(TEXT.splitlines() * 3, **CUTTING), **FAMILIES["bpe"])
    argv = ["train", corpus, "-o", str(tmp_path / "v"), "--documents", "separator", "--separator", "\\n", "--progress", "none"]
    assert main([*argv, *options_of("bpe")]) == 0
    assert Vocabulary.load(str(tmp_path / "v")) == expected and b"\n" not in b"".join(expected.tokens)


@pytest.mark.parametrize("family", FAMILIES)
def test_collections_are_encoded_and_decoded(family, words):
    tokenizer = Tokenizer(train(words, **FAMILIES[family]))
    texts = ["the newest  Löwlands ", "", "機器 xyz ý<sep>", " low  low"]
    with beam.Pipeline("FnApiRunner") as p:
        encoded = p | beam.Create(texts) | Encode(tokenizer.vocabulary)
        decoded = encoded | beam.Map(lambda row: list(row.ids)) | Decode(tokenizer.vocabulary)
        assert_that(encoded | beam.Map(lambda row: (row.text, tuple(row.ids))), equal_to([(t, tuple(tokenizer.encode(t))) for t in texts]))
        assert_that(decoded, equal_to([tokenizer.decode(tokenizer.encode(t)) for t in texts]), label="decoded")
    if tokenizer.vocabulary.model.byte_fallback:
        assert [tokenizer.decode(tokenizer.encode(t)) for t in texts] == texts
    counted = {m.key.metric.name: m.attempted for m in p.result.metrics().query()["counters"] if m.key.metric.namespace == "beam_bpe"}
    unknown = sum(tokenizer.encode(t).count(tokenizer.vocabulary.unk_id) for t in texts)
    assert counted.get("unknown_tokens", 0) == unknown
    assert (unknown > 0) == (not tokenizer.vocabulary.model.byte_fallback)


@pytest.mark.parametrize("family", FAMILIES)
def test_arrays_of_many_documents(family, words):
    tokenizer = Tokenizer(train(words, **FAMILIES[family]))
    texts = [*TEXT.splitlines(), "ÉCOLE 2\u3000x\x00", "", "▁", "<sep>Löw Löw"]
    stops = np.cumsum([0, *(len(text.encode()) for text in texts)])
    batch = tokenizer.encode_documents("".join(texts).encode(), np.repeat(stops, 2)[1:-1])
    assert [ids.tolist() for ids in batch.split()] == [tokenizer.encode(text) for text in texts]
    assert [ids.tolist() for ids in tokenizer.encode_batch(texts)] == [tokenizer.encode(text) for text in texts]
    assert batch.unknown == int((batch.ids == tokenizer.vocabulary.unk_id).sum())
    data, ends = tokenizer.decode_documents(batch.ids, batch.ends)
    assert data.decode() == "".join(tokenizer.decode(tokenizer.encode(text)) for text in texts)
    assert [tokenizer.count(text) for text in texts] == np.diff([0, *batch.ends]).tolist()


def test_the_command_from_text_to_text(corpus, tmp_path, capsys):
    v, ids, text = (str(tmp_path / name) for name in ("v", "ids", "text"))
    argv = ["train", corpus, "-o", v, "--documents", "line", "--progress", "none", *options_of("unigram-fallback")]
    assert main(argv) == 0
    told = capsys.readouterr().out
    assert "tokens, fingerprint" in told and "fewer pieces are of use" in told and "merges.parquet" not in told
    assert main(["encode", corpus, "-v", v, "-o", ids, "--documents", "line", "--progress", "none"]) == 0
    assert main(["decode", ids, "-v", v, "-o", text, "--progress", "none"]) == 0
    capsys.readouterr()
    assert main(["show", v]) == 0
    shown = capsys.readouterr().out
    assert "likeliest pieces" in shown and "single_precision" in shown and "metaspace" in shown
    assert main(["tokens", "the newest", "-v", v]) == 0
    assert "▁the" in capsys.readouterr().out


def test_the_pattern_needs_its_normalizer(corpus, tmp_path, capsys):
    with pytest.raises(ValueError, match="choose normalizer='NFC\\+metaspace', or another pattern"):
        CountWords(pattern="metaspace", normalizer="NFC")
    argv = ["count", corpus, "-o", str(tmp_path / "w"), "--progress", "none", "--pattern", "metaspace"]
    assert main(argv) == 2
    assert "choose normalizer='metaspace'" in capsys.readouterr().err
    assert main([*argv, "--normalizer", "NFC+metaspace"]) == 0
    argv = ["train", corpus, "-o", str(tmp_path / "v"), "--progress", "none", "--algorithm", "unigram", "-n", "90"]
    assert main([*argv, "--normalizer", "NFC"]) == 2
    assert main([*argv, "--normalizer", "NFC+sentencepiece"]) == 0
    assert Vocabulary.load(str(tmp_path / "v")).normalizer == f"NFC+{NAMES['sentencepiece']}"


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(algorithm="unigram", vocab_size=10, score="count"), "score='count' has no meaning for unigram"),
        (dict(algorithm="unigram", vocab_size=10, unit="byte"), "is of characters"),
        (dict(algorithm="unigram", vocab_size=10, num_merges=3), "num_merges=3 has no meaning for unigram"),
        (dict(algorithm="sentencepiece-bpe", vocab_size=10, seed_size=7), "seed_size=7 has no meaning for sentencepiece-bpe"),
        (dict(algorithm="sentencepiece-bpe", vocab_size=90, character_coverage=0), "a number above 0 and at most 1"),
        (dict(vocab_size=300, split_digits=True), "split_digits=True has no meaning for bytes"),
    ],
)
def test_what_contradicts_itself_is_refused_before_anything_is_read(options, message, tmp_path):
    with pytest.raises((ValueError, TypeError), match=message):
        LearnVocabulary(str(tmp_path / "nothing.txt"), str(tmp_path), **options)
