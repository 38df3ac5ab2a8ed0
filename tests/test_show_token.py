"""`show TOKEN` and `tokens`: what a token is made of and comes from; one text in several vocabularies."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe import Tokenizer, WordCounts, cli, train
from beam_bpe.curve import first_merges
from beam_bpe.lineage import Lineage, find_token
from beam_bpe.pretokenize import PATTERNS
from beam_bpe.provenance import Source, sources, spread

LOW = {"low": 5, "lower": 2, "newest": 6, "widest": 3}


@pytest.fixture
def said(capsys):
    """Return a function that runs a command which succeeds, and returns what it prints."""

    def run(*argv: str) -> str:
        capsys.readouterr()
        assert cli.main(list(argv)) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return run


@pytest.fixture
def places(tmp_path):
    """Return (vocabulary, words) as folders; the words are in two groups."""
    documents = ["low low low low low lower lower", "newest " * 6 + "widest " * 3, "机器"]
    words = WordCounts.from_documents(documents, pattern="whitespace", groups=["a", "b", "c"], group_by="source")
    words.write(str(tmp_path / "words"))
    train(words, 262, special_tokens=["<|end|>"]).save(str(tmp_path / "vocabulary"))
    return str(tmp_path / "vocabulary"), str(tmp_path / "words")


# ---- lineage -------------------------------------------------------------------------------------


def test_tree_and_parts():
    vocabulary = train(LOW, 262)
    assert [m.token for m in vocabulary.merges] == [b"es", b"est", b"lo", b"low", b"ew", b"new"]
    lineage = Lineage(vocabulary)
    new = vocabulary.ids[b"new"]
    assert [(branch.depth, branch.token) for branch in lineage.tree(new)] == [
        (0, b"new"),
        (1, b"n"),
        (1, b"ew"),
        (2, b"e"),
        (2, b"w"),
    ]
    assert [merge.token for merge in lineage.made_of(vocabulary.ids[b"e"])] == [b"es", b"ew"]
    assert lineage.merge_of(vocabulary.ids[b"e"]) is None and lineage.merge_of(new).count == 6


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(st.text("ab", min_size=1, max_size=20), st.integers(1, 5), min_size=1, max_size=8))
def test_the_leaves_of_a_tree_spell_its_token(words):
    vocabulary = train(words, 275)
    lineage = Lineage(vocabulary)
    for i, token in enumerate(vocabulary.tokens):
        branches = list(lineage.tree(i))
        assert b"".join(branch.token for branch in branches if branch.merge is None) == token
        assert branches[0].id == i and len(branches) == 2 * len(token) - 1


def test_a_tree_as_deep_as_its_token_is_long():
    vocabulary = train({"abcdefghijklmnopqrstuvwxyz0123456789" * 60: 1}, 3000, min_pair_count=1)
    longest = max(range(len(vocabulary.tokens)), key=lambda i: len(vocabulary.tokens[i]))
    assert len(list(Lineage(vocabulary).tree(longest))) == 2 * len(vocabulary.tokens[longest]) - 1


def test_a_token_is_found_by_its_spelling():
    vocabulary = train({" low": 9, "low": 9, " est": 9, "機": 3}, 267, special_tokens=["<|end|>"])
    assert find_token(vocabulary, "<|end|>") == vocabulary.special_ids["<|end|>"]
    for text, token in (
        ("low", b"low"),
        (" low", b" low"),
        ("\\x20low", b" low"),
        ("機", "機".encode()),
        ("\\xe6", b"\xe6"),
        ("est", b" est"),
    ):
        assert find_token(vocabulary, text) == vocabulary.ids[token]
    assert find_token(vocabulary, f"id:{vocabulary.ids[b'low']}") == vocabulary.ids[b"low"]
    pieces = train(LOW, 40, algorithm="wordpiece")
    assert pieces.tokens[find_token(pieces, "s")] == b"##s"  # no word begins with it
    with pytest.raises(ValueError, match="'es t' is no token of this vocabulary, nor a part of one"):
        find_token(vocabulary, "es t")
    with pytest.raises(ValueError, match="'ow' is no token of this vocabulary; it is a part of 'low', ' low'"):
        find_token(train({" low": 9, "low": 9, "lo": 20}, 259), "ow")
    with pytest.raises(ValueError, match="id 9999 is no token"):
        find_token(vocabulary, "id:9999")


# ---- where tokens come from ----------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=9), st.integers(0, 5), min_size=1, max_size=20),
    st.integers(0, 12),
    st.integers(1, 4),
)
def test_sources_as_counted_one_by_one(words, merges, most):
    counts = WordCounts.from_mapping(words)
    vocabulary = train({"abcabc": 5, "abab": 3, "cc": 9}, 256 + merges)
    tokenizer = Tokenizer(vocabulary)
    expected: dict[int, list[Source]] = {i: [] for i in range(len(vocabulary))}
    for word, count in words.items():
        ids = tokenizer.encode(word)
        for i in set(ids) if count else ():
            expected[i].append(Source(word.encode(), ids.count(i) * count))
    ordered = {i: sorted(some, key=lambda one: (-one.occurrences, one.word)) for i, some in expected.items()}
    assert sources(counts, tokenizer, range(len(vocabulary)), most) == {i: some[:most] for i, some in ordered.items()}
    found = spread(counts, tokenizer)
    assert found.documents is None and found.words.tolist() == [len(some) for some in ordered.values()]
    assert found.occurrences.tolist() == [sum(one.occurrences for one in some) for some in ordered.values()]


def test_sources_of_large_counts():
    vocabulary = train({"abab": 5}, 257)
    found = sources(WordCounts.from_mapping({"abab": 2**61, "ab": 5}), Tokenizer(vocabulary), [256], 9)
    assert found == {256: [Source(b"abab", 2**62), Source(b"ab", 5)]}
    with pytest.raises(OverflowError):
        sources(WordCounts.from_mapping({"abab": 2**62, "ab": 5}), Tokenizer(vocabulary), [256], 9)


# ---- show TOKEN ----------------------------------------------------------------------------------


def test_show_a_token(places, said):
    vocabulary, words = places
    lines = said("show", "est", "--vocabulary", vocabulary, "--words", words).splitlines()
    assert lines[:3] == ["token       'est', id 257", "bytes       3: 65 73 74", "text        'est', 3 characters"]
    assert "merge       rank 1: 'es' + 't', counted 9 times, 9 replaced" in lines
    assert lines[4:9] == [
        "made of     'est'  rank 1",
        "              'es'  rank 0",
        "                'e'",
        "                's'",
        "              't'",
    ]
    at = lines.index("by source")
    assert lines[at + 1].split() == ["9", "100.0%", "'b'"]
    assert [line.split() for line in lines[lines.index("in words") + 1 :]] == [
        ["6", "66.7%", "'newest'"],
        ["3", "33.3%", "'widest'"],
    ]


def test_a_part_of_larger_tokens_comes_from_where_it_was_merged(places, said):
    """ "es" is in no word any more, since all of them became "est"; yet it comes from newest and widest."""
    vocabulary, words = places
    told = said("show", "es", "--vocabulary", vocabulary, "--words", words)
    assert "used        0 times" in told and "9 occurrences when it was merged" in told and "'newest'" in told
    assert "part of     1 merge: 'est'" in told
    byte = said("show", "e", "--vocabulary", vocabulary, "--words", words)
    assert "17 occurrences before any merge" in byte and "no merge makes it" in byte


def test_occurrences_when_a_token_was_merged_are_the_replacements():
    words = WordCounts.from_mapping({"aaaa": 3, "aaab": 2, "abab": 7, "low": 5, "lower": 4})
    vocabulary = train(words, 270)
    for merge in vocabulary.merges:
        then = Tokenizer(first_merges(vocabulary, merge.rank + 1))
        assert sum(one.occurrences for one in sources(words, then, [merge.id], 99)[merge.id]) == merge.replaced


def test_shares_and_what_is_left(places, said):
    vocabulary, words = places
    told = said("show", "e", "--vocabulary", vocabulary, "--words", words, "--most", "1").splitlines()
    at = told.index("in words")
    assert told[at + 1].split() == ["12", "70.6%", "'newest'"] and told[at + 2].split() == [
        "5",
        "29.4%",
        "in",
        "other",
        "words",
    ]
    assert "  1 more groups" in told


def test_show_special_and_halves_and_other_families(places, said, tmp_path):
    vocabulary, words = places
    assert "special token" in said("show", "<|end|>", "--vocabulary", vocabulary, "--words", words)
    assert "none: it begins or ends within a character" in said("show", "\\xe6", "--vocabulary", vocabulary)
    for name, options in (
        ("pieces", {"vocab_size": 40, "algorithm": "wordpiece"}),
        ("characters", {"num_merges": 9, "unit": "character", "end_of_word": "</w>", "attached": True}),
        ("whole", {"vocab_size": 5, "algorithm": "wordlevel"}),
    ):
        train(WordCounts.read(words), **options).save(str(tmp_path / name))
        told = said("show", "newest", "--vocabulary", str(tmp_path / name), "--words", words)
        assert "'newest'" in told and "100.0%" in told


def test_the_space_that_decoding_brings_is_no_text_of_a_token(places, said, tmp_path):
    _, words = places
    pieces = train(WordCounts.read(words), 40, algorithm="wordpiece")
    pieces.save(str(tmp_path / "pieces"))
    first, behind = (next(i for i, token in enumerate(pieces.tokens) if token == one) for one in (b"low", b"##s"))
    lines = said("show", f"id:{first}", "--vocabulary", str(tmp_path / "pieces")).splitlines()
    assert lines[0] == f"token       'low', id {first}" and lines[1] == "bytes       3: 6c 6f 77"
    assert lines[2] == "text        'low', 3 characters; decoding puts a space before it"
    lines = said("show", "##s", "--vocabulary", str(tmp_path / "pieces")).splitlines()
    assert lines[:3] == [f"token       '##s', id {behind}", "bytes       1: 73", "text        's', 1 character"]
    train(WordCounts.read(words), num_merges=9, unit="character", end_of_word="</w>", attached=True).save(str(tmp_path / "codes"))
    lines = said("show", "low</w>", "--vocabulary", str(tmp_path / "codes")).splitlines()
    assert lines[1:3] == ["bytes       3: 6c 6f 77", "text        'low', 3 characters; decoding puts a space behind it"]


def test_paths_are_shown_as_before(places, said, capsys):
    vocabulary, words = places
    assert "first merges" in said("show", vocabulary) and "most frequent words" in said("show", words)
    assert cli.main(["show", vocabulary, "--words", words]) == 2
    assert "give the token's --vocabulary" in capsys.readouterr().err
    assert cli.main(["show", "xyzzy", "--vocabulary", vocabulary]) == 1
    assert "'xyzzy' is no token of this vocabulary" in capsys.readouterr().err
    other = str(words) + "-other"
    WordCounts.from_mapping({"low": 2}, pre_tokenizer="gpt2").write(other)
    assert cli.main(["show", "es", "--vocabulary", vocabulary, "--words", other]) == 1
    assert "--allow-mismatch goes on all the same" in capsys.readouterr().err
    assert "note" in said("show", "es", "--vocabulary", vocabulary, "--words", other, "--allow-mismatch")


# ---- tokens --------------------------------------------------------------------------------------

TEXTS = ["機器學習模型的訓練資料", "机器学习模型的训练数据", "電腦程式設計", "电脑程序设计"]
STEP = "Tokenization is the first step of every language model."


@pytest.fixture(scope="module")
def published(shared) -> list[str]:
    """Return the options that name three published vocabularies."""
    return [
        word for name in ("r50k", "cl100k", "o200k") for word in ("-v", str(shared / "reference" / f"{name}_base.tiktoken"))
    ]


def tiktoken_of(path: str):
    """Return tiktoken's own encoding of cl100k's rank file."""
    tiktoken = pytest.importorskip("tiktoken")
    from tiktoken.load import load_tiktoken_bpe

    ranks = load_tiktoken_bpe(path)
    return tiktoken.Encoding("cl100k", pat_str=PATTERNS["cl100k"], mergeable_ranks=ranks, special_tokens={})


def counts_of(table: str) -> list[list[int]]:
    return [list(map(int, line.replace(",", "").split()[:6])) for line in table.splitlines()[1:]]


def test_texts_in_several_vocabularies(published, said):
    table = said("tokens", *TEXTS, STEP, *published, "--counts-only")
    assert table.splitlines()[0].split() == [
        "byte", "character", "trigram", "r50k_base.tiktoken", "cl100k_base.tiktoken", "o200k_base.tiktoken",
    ]  # fmt: skip
    assert counts_of(table) == [
        [33, 11, 9, 26, 20, 11],
        [33, 11, 9, 27, 13, 6],
        [18, 6, 4, 16, 10, 7],
        [18, 6, 4, 16, 6, 3],
        [55, 55, 53, 11, 11, 11],
    ]
    assert table.splitlines()[1].endswith("機器學習模型的訓練資料")


def test_a_json_text_indented_and_compact(published, said):
    value = {"model": "bpe", "sizes": [256, 32000, 200000], "options": {"tie_break": "huggingface", "normalizer": None}}
    indented, compact = json.dumps(value, indent=4), json.dumps(value, separators=(",", ":"))
    table = counts_of(said("tokens", indented, compact, *published, "--counts-only"))
    assert table == [[174, 174, 172, 104, 55, 55], [98, 98, 96, 32, 30, 30]]
    cl100k = tiktoken_of(published[3])
    assert [row[4] for row in table] == [len(cl100k.encode(indented)), len(cl100k.encode(compact))]


def test_pieces_and_then_the_table(places, said):
    vocabulary, _ = places
    told = said("tokens", "lowest", "newest", "-v", vocabulary)
    assert told.count(vocabulary) == 2 and "low|est" in told
    assert told.splitlines()[-3:] == [
        "byte  character  trigram  vocabulary",
        "   6          6        4           2  lowest",
        "   6          6        4           3  newest",
    ]
    assert "trigram" not in said("tokens", "lowest", "-v", vocabulary)
    assert said("tokens", "lowest", "low", "-v", vocabulary, "--ids-only").count("\n") == 2
    assert cli.main(["tokens", "x", "-v", vocabulary, "--ids-only", "--counts-only"]) == 2


def test_names_that_are_alike_are_told_whole(places, said):
    vocabulary, _ = places
    head = said("tokens", "low", "-v", vocabulary, "-v", vocabulary, "--counts-only").splitlines()[0]
    assert head.split()[3:] == [vocabulary, vocabulary]


def test_terminals_without_colour_or_unicode(places):
    vocabulary, words = places
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "NO_COLOR": "1", "TERM": "dumb"}
    for command in (
        ["tokens", "机器", "\udcff\u202e", "-v", vocabulary],
        ["show", "id:40", "--vocabulary", vocabulary, "--words", words],
        ["show", words],
        ["show", vocabulary],
        ["measure", "--words", words, "--vocabulary", vocabulary],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "beam_bpe", *command], env=environment, capture_output=True, check=False
        )
        assert done.returncode == 0 and done.stderr == b"" and done.stdout.isascii() and b"\x1b" not in done.stdout, command


def test_counts_of_the_plainest_tokens_of_what_is_no_text(places, said):
    vocabulary, _ = places
    assert said("tokens", "a\udcffb", "-v", vocabulary, "--counts-only").splitlines()[1].split()[:4] == ["3", "3", "1", "3"]
