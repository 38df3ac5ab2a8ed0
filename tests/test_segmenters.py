"""Word segmenters of other packages as pre-tokenization: words, tables of them, and workers."""

import os
import subprocess
import sys

import pytest

from beam_bpe import WordCounts, train
from beam_bpe.pretokenize import pre_tokenizer

CHINESE = "小明今天去郊游,明天去上班"
CHINESE_WORDS = ["小明", "今天", "去", "郊游", ",", "明天", "去", "上班"]
ENGLISH = 'The "newest" lowlands aren\'t low, are they? (No.)'


def test_nltk_words():
    tokenizer = pytest.importorskip("nltk.tokenize").NLTKWordTokenizer()
    words = pre_tokenizer(split_with="beam_bpe.segmenters:nltk_words").split(ENGLISH)
    assert words == tokenizer.tokenize(ENGLISH)
    assert words[:5] == ["The", "``", "newest", "''", "lowlands"] and ["are", "n't"] == words[5:7]  # quotes are rewritten


def test_jieba_words():
    jieba = pytest.importorskip("jieba")
    chosen = pre_tokenizer(split_with="beam_bpe.segmenters:jieba_words")
    assert chosen.split(CHINESE) == CHINESE_WORDS
    text = "机器学习模型的训练数据,他来到了网易杭研大厦 and English."
    assert chosen.split(text) == list(jieba.cut(text)) and "".join(chosen.split(text)) == text
    assert "杭研" in chosen.split(text)  # which is not in the dictionary: the HMM finds it


def test_a_dictionary_of_ones_own(tmp_path):
    pytest.importorskip("jieba")
    (tmp_path / "words.txt").write_text("去郊游 100000 v\n", encoding="utf-8")
    (tmp_path / "my_words.py").write_text(
        "import jieba\n"
        "segmenter = jieba.Tokenizer()\n"
        f"segmenter.load_userdict({str(tmp_path / 'words.txt')!r})\n"
        "def words(text):\n"
        "    return segmenter.cut(text)\n"
    )
    code = f"from beam_bpe.pretokenize import pre_tokenizer as p; print(*p(split_with='my_words:words').split({CHINESE!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.stdout.split() == ["小明", "今天", "去郊游", ",", "明天", "去", "上班"], done.stderr[-2000:]


def test_stemmers_and_stop_words_are_a_function(tmp_path, monkeypatch):
    pytest.importorskip("nltk")
    (tmp_path / "my_stems.py").write_text(
        "from nltk.stem import PorterStemmer\n"
        "from beam_bpe.segmenters import nltk_words\n"
        "stem = PorterStemmer().stem\n"
        "def words(text):\n"
        "    return [stem(word) for word in nltk_words(text.lower()) if word not in ('the', 'of', 'are')]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    table = WordCounts.from_documents(["The lowering of the lowlands", "lowered"], pattern=pre_tokenizer(split_with="my_stems:words"))
    assert table.to_dict() == {b"lower": 2, b"lowland": 1}


@pytest.mark.parametrize("name, text, frequent", [("nltk_words", ENGLISH, "lowlands"), ("jieba_words", CHINESE, "去")])
def test_workers_count_what_one_process_counts(name, text, frequent, tmp_path):
    pytest.importorskip(name.split("_")[0])
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    from beam_bpe import transforms

    split_with = f"beam_bpe.segmenters:{name}"
    texts = [text] * 6
    options = PipelineOptions(["--direct_running_mode=multi_processing", "--direct_num_workers=2"])
    with beam.Pipeline("FnApiRunner", options) as p:
        counted = p | beam.Create(texts) | beam.Reshuffle() | transforms.CountWords(split_with=split_with, shards=2)
        counted | transforms.WriteWords(str(tmp_path / "words"))
    table = WordCounts.read(str(tmp_path / "words"))
    expected = WordCounts.from_documents(texts, pattern=pre_tokenizer(split_with=split_with))
    assert table.to_dict() == expected.to_dict() and table.to_dict()[frequent.encode()] % 6 == 0
    vocabulary = train(table, algorithm="wordlevel", vocab_size=100, min_count=1)
    assert frequent.encode() in vocabulary.ids
