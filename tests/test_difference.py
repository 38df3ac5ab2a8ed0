"""Two vocabularies compared: tokens, ranks, words, groups, money, documents; the command."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from beam_bpe import Tokenizer, WordCounts, cli, formats, train
from beam_bpe.difference import DOCUMENTS, GROUPS, TOKENS, WORDS, DocumentChanges, compare, compare_documents, ranks
from beam_bpe.grouping import Groups
from beam_bpe.reading import documents_of


@pytest.fixture(scope="module")
def table() -> WordCounts:
    """Return words in two groups."""
    documents = ["low low lower newest widest", "newest widest low", "der niedrigste neueste", "机器 学习 机器 机器"]
    return WordCounts.from_documents(documents, pattern="whitespace", groups=["en", "en", "de", "zh"], group_by="lang")


def brute(a, b, words) -> list[tuple]:
    """Return (word, count, tokens of a, tokens of b) of the words that differ, those that differ most first."""
    found = []
    tokenizers = [Tokenizer(one) for one in (a, b)]
    for word, count in words.to_dict().items():
        batches = [one.encode_words(word, np.array([0, len(word)])) for one in tokenizers]
        first, second = (len(batch.ids) * count for batch in batches)
        if first != second:
            found.append((word, count, first, second))
    return sorted(found, key=lambda one: (-abs(one[3] - one[2]), one[0]))


# ---- tokens --------------------------------------------------------------------------------------


def test_shared_and_alone_and_shifts():
    low = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    a, b = train(low, 260), train(low, 261, exclude_tokens=["est"])
    assert [m.token for m in a.merges] == [b"es", b"est", b"lo", b"low"]
    assert [m.token for m in b.merges] == [b"es", b"lo", b"low", b"ew", b"new"]
    found = compare(a, b)
    assert found.only("a")["token"].to_pylist() == [b"est"] and found.only("b")["token"].to_pylist() == [b"ew", b"new"]
    learned = [row for row in found.shared.to_pylist() if row["rank_a"] is not None]
    told = [(row["token"], row["rank_a"], row["rank_b"], row["shift"]) for row in learned]
    assert told == [(b"lo", 2, 1, -1), (b"low", 3, 2, -1), (b"es", 0, 0, 0)]
    summary = found.summary()
    assert (summary["shared"], summary["only_a"], summary["only_b"], summary["moved"], summary["largest_shift"]) == (
        259,
        1,
        2,
        2,
        1,
    )
    assert found.groups is None and found.words is None


def test_the_same_vocabulary_differs_in_nothing(table):
    a = train(table.ungrouped(), 280)
    found = compare(a, a, table)
    assert len(found.shared) == len(a) and found.words.num_rows == 0
    assert set(found.groups["difference"].to_pylist()) == {0} and found.summary()["largest_shift"] == 0


def test_families_are_compared_by_what_tokens_decode_to():
    words = {"low": 5, "lower": 3}
    pieces = train(words, 30, algorithm="wordpiece")
    character = train(words, num_merges=2, unit="character", end_of_word="</w>", attached=True)
    found = compare(pieces, character)
    shared = {row["token"] for row in found.shared.to_pylist()}
    assert b"o" in shared  # "##o" and "o"; but "low" begins a word there, with a space, and ends one here
    assert b" low" in found.only("a")["token"].to_pylist() and b"low " in found.only("b")["token"].to_pylist()
    wordlevel = train({"b": 2, "a": 5}, algorithm="wordlevel")
    assert ranks(wordlevel) == {wordlevel.ids[b"a"]: 0, wordlevel.ids[b"b"]: 1}


# ---- words and groups ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_words_as_counted_one_by_one(seed):
    source = random.Random(seed)
    words = {"".join(source.choices("abcd", k=source.randint(1, 8))): source.choice([1, 2, 7, 10**12]) for _ in range(60)}
    counts = WordCounts.from_mapping(words)
    a, b = train(words, 256 + source.randrange(30)), train(words, 256 + source.randrange(30))
    for most in (1, 5, 100):
        found = compare(a, b, counts, most=most)
        columns = [found.words[name].to_pylist() for name in ("word", "count", "tokens_a", "tokens_b")]
        assert list(zip(*columns)) == brute(a, b, counts)[:most]
        assert found.words["difference"].to_pylist() == [y - x for x, y in zip(columns[2], columns[3])]
    assert found.groups["difference"].to_pylist() == [sum(y - x for _, _, x, y in brute(a, b, counts))]


def test_groups_and_money(table):
    a, b = train(table.ungrouped(), 262), train(table.ungrouped(), 280)
    found = compare(a, b, table, prices=(2.0, 4.0))
    rows = {row["group"]: row for row in found.groups.to_pylist()}
    assert list(rows) == [None, "de", "en", "zh"]
    for group in ("de", "en", "zh"):
        own = sum(len(Tokenizer(a).encode(word)) * count for word, count in table.of_group(group).to_dict().items())
        assert rows[group]["tokens_a"] == own
    assert rows[None]["tokens_a"] == sum(rows[group]["tokens_a"] for group in ("de", "en", "zh"))
    assert rows[None]["price_b"] == pytest.approx(rows[None]["tokens_b"] * 4 / 1e6, rel=1e-15)
    counted = sum(row["count_a"] for row in found.tokens.to_pylist() if row["count_a"])
    assert counted == rows[None]["tokens_a"]
    assert [row["count_b"] for row in found.only("a").to_pylist()] == [None] * len(found.only("a"))


def test_sharding_changes_nothing(table, tmp_path):
    a, b = train(table.ungrouped(), 262), train(table.ungrouped(), 280)
    for shards in (1, 7):
        table.write(str(tmp_path / f"words{shards}"), shards=shards)
        compare(a, b, WordCounts.read(str(tmp_path / f"words{shards}"))).save(str(tmp_path / f"out{shards}"))
    for name in ("tokens.parquet", "groups.parquet", "words.parquet", "difference.json"):
        assert (tmp_path / "out1" / name).read_bytes() == (tmp_path / "out7" / name).read_bytes()


def test_empty_words_and_words_that_count_nothing():
    a, b = train({"low": 2}, 257), train({"low": 2}, 258)
    for words in ({}, {"low": 0}):
        found = compare(a, b, WordCounts.from_mapping(words))
        assert found.words.num_rows == 0 and found.groups.to_pylist()[0]["tokens_a"] == 0


def test_what_int64_cannot_hold_is_told():
    a, b = train({"low": 2}, 256), train({"low": 2}, 258)
    with pytest.raises(OverflowError, match=r"more than 2\*\*63 - 1 tokens"):
        compare(a, b, WordCounts.from_mapping({"lowx": 2**62}))


def test_words_that_were_cut_differently_are_refused(table):
    a, b = train({"low": 2}, 257), train(table.ungrouped(), 270)
    with pytest.raises(ValueError, match="cut by 'whitespace'.*'none'.*allow_mismatch=True"):
        compare(a, b, table)
    assert "cut by 'whitespace'" in compare(a, b, table, allow_mismatch=True).notes[0]


# ---- documents -----------------------------------------------------------------------------------


def test_documents_that_change_most():
    words = {"low": 5, "newest": 3}
    a, b = train(words, 256), train(words, 265)
    texts = ["low low", "", "xyz", "newest newest newest", "low", "newest"]
    lengths = [[len(Tokenizer(one).encode(text)) for text in texts] for one in (a, b)]
    groups = Groups.of("lang", ["x", "x", "y", "x", "y", "y"])
    whole = compare_documents(a, b, [("f", documents_of(texts, "strict", groups))], most=3)
    order = sorted(range(len(texts)), key=lambda d: (-abs(lengths[1][d] - lengths[0][d]), d))[:3]
    assert [row["beginning"] for row in whole.documents.to_pylist()] == [texts[d] for d in order]
    assert [(row["tokens_a"], row["tokens_b"]) for row in whole.documents.to_pylist()] == [
        (lengths[0][d], lengths[1][d]) for d in order
    ]
    rows = {row["group"]: (row["tokens_a"], row["tokens_b"]) for row in whole.groups.to_pylist()}
    assert rows[None] == (sum(lengths[0]), sum(lengths[1]))
    assert rows["y"] == tuple(lengths[side][2] + lengths[side][4] + lengths[side][5] for side in (0, 1))
    changes = DocumentChanges(a, b, 3)
    for number, text in enumerate(texts):
        changes.add(documents_of([text], "strict", groups.take(np.array([number]))), "f")
    parts = changes.added_to(compare(a, b))
    assert parts.groups.equals(whole.groups)
    assert parts.documents.drop_columns("place").equals(whole.documents.drop_columns("place"))


def test_files_are_whole_and_the_same_again(table, tmp_path):
    a, b = train(table.ungrouped(), 262), train(table.ungrouped(), 280)
    found = compare(a, b, table, names=("first", "second"))
    assert found.save(str(tmp_path / "out")) == ["tokens.parquet", "groups.parquet", "words.parquet", "difference.json"]
    for name, schema in (("tokens", TOKENS), ("groups", GROUPS), ("words", WORDS)):
        assert pq.read_table(tmp_path / "out" / f"{name}.parquet").schema.remove_metadata().equals(schema)
    summary = json.loads((tmp_path / "out" / "difference.json").read_text())
    assert summary["a"]["name"] == "first" and summary["b"]["fingerprint"] == b.fingerprint and len(summary["groups"]) == 4
    with pytest.raises(FileExistsError, match="already holds a comparison"):
        found.save(str(tmp_path / "out"))
    documents = compare_documents(a, b, [("", documents_of(["low"], "strict"))])
    documents.save(str(tmp_path / "out"), overwrite=True)
    assert not (tmp_path / "out" / "words.parquet").exists()
    assert pq.read_table(tmp_path / "out" / "documents.parquet").schema.remove_metadata().equals(DOCUMENTS)


# ---- the command ---------------------------------------------------------------------------------


@pytest.fixture
def places(tmp_path, table):
    """Return two vocabularies, their words, and a corpus, as paths."""
    table.write(str(tmp_path / "words"))
    for name, size in (("a", 262), ("b", 300)):
        train(table.ungrouped(), size, min_pair_count=1).save(str(tmp_path / name))
    lines = [
        {"text": "low lower newest", "lang": "en"},
        {"text": "机器 学习 机器", "lang": "zh"},
        {"text": "low", "lang": None},
    ]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "words"), str(tmp_path / "c.jsonl")


def test_the_command_on_words(places, tmp_path, capsys):
    a, b, words, _ = places
    assert cli.main(["diff", a, b, "--words", words, "--price", "2.5", "--output", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert (
        "262 shared, 0 only in A" in said and "only in B" in said and "price A" in said and "words that change most" in said
    )
    assert any(line.split()[:1] == ["zh"] for line in said.splitlines())
    assert cli.main(["diff", a, b, "--words", words, "--output", str(tmp_path / "out")]) == 1
    assert "already holds a comparison" in capsys.readouterr().err
    assert cli.main(["diff", a, b, "--json", "--words", words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["shared"] == 262 and found["groups"][0]["group"] is None


def test_the_command_on_documents(places, capsys):
    a, b, _, corpus = places
    assert cli.main(["diff", a, b, corpus, "--group-by", "lang"]) == 0
    said = capsys.readouterr().out
    assert "documents that change most" in said and "c.jsonl at" in said and "(none)" in said
    assert cli.main(["diff", a, b, corpus]) == 0
    said = capsys.readouterr().out
    assert "all text" in said and "(none)" not in said


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["CORPUS", "--words", "WORDS"], "diff compares on a corpus (INPUT ...) or on its words"),
        (["--group-by", "lang"], "--group-by goes with a corpus"),
        (["--price", "1", "--price", "2", "--price", "3"], "--price is given once or twice"),
        (["--price", "-1"], "--price is given once or twice"),
        (["--most", "0"], "--most is 0"),
    ],
)
def test_what_is_wrong_is_told(places, more, message, capsys):
    a, b, words, corpus = places
    more = [{"CORPUS": corpus, "WORDS": words}.get(word, word) for word in more]
    assert cli.main(["diff", a, b, *more]) == 2
    assert message in capsys.readouterr().err


def test_tokens_are_told_as_their_vocabulary_spells_them(tmp_path, capsys):
    words = WordCounts.from_mapping({"newest": 6, "widest": 3, "low": 5, "est": 1}, pre_tokenizer="whitespace")
    pieces = train(words, 40, algorithm="wordpiece", special_tokens=["[UNK]"])
    for name, one in (("a", train(words, 262)), ("b", pieces)):
        one.save(str(tmp_path / name))
    words.write(str(tmp_path / "words"))
    found = compare(train(words, 262), pieces)
    assert b"[UNK]" in found.only("b")["token"].to_pylist()  # no space stands before it
    argv = ["diff", str(tmp_path / "a"), str(tmp_path / "b"), "--words", str(tmp_path / "words"), "--most", "99"]
    assert cli.main([*argv, "--report", str(tmp_path / "out")]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("only in B"))
    told = line.split("only in B")[1].split()
    assert "'[UNK]'" in told and "'low'" in told and set(told) == {f"'{pieces.tokens[i].decode() or '[UNK]'}'" for i in found.only("b")["id_b"].to_pylist()}
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert {one["token"] for one in report["b"]["tokens_alone"]} <= set(told)
    (row,) = (row for row in report["words"] if row["word"] == "'low'")
    assert row["pieces_b"] == ["'low'"] and "##" in json.dumps(report["words"])
    assert cli.main(["diff", str(tmp_path / "b"), str(tmp_path / "a")]) == 0
    assert "\\x23" not in capsys.readouterr().out


def test_groups_that_differ_in_a_few_characters_stay_apart(tmp_path, places, capsys):
    a, b, _, _ = places
    names = [f"an-organisation/documentation.{middle}/articles/of/the/year" for middle in ("fr-fr", "de-de", "ko-kr")]
    words = WordCounts.from_documents(["low", "lower", "newest"], pattern="whitespace", groups=names, group_by="lang")
    words.write(str(tmp_path / "long"))
    assert cli.main(["diff", a, b, "--words", str(tmp_path / "long"), "--allow-mismatch"]) == 0
    told = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines() if "…" in line]
    assert len(told) == len(set(told)) == 3


def test_a_terminal_without_unicode(places):
    a, b, words, corpus = places
    for more in (["--words", words], [corpus, "--group-by", "lang"]):
        done = subprocess.run(
            [sys.executable, "-m", "beam_bpe", "diff", a, b, *more],
            env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0 and done.stderr == b"" and done.stdout.isascii() and b"\\u673a" in done.stdout


def test_published_vocabularies(shared):
    a, b = (formats.load(str(shared / "reference" / f"{name}_base.tiktoken")) for name in ("cl100k", "o200k"))
    tokens = [set(one.tokens) | {token.text.encode() for token in one.added_tokens} for one in (a, b)]
    found = compare(a, b)
    assert set(found.shared["token"].to_pylist()) == tokens[0] & tokens[1] - {b""}
    assert len(found.only("b")) == len(tokens[1] - tokens[0] - {b""})
