"""The audit of a vocabulary: each kind of finding by worked examples, reachability against all words, the command."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from beam_bpe import Tokenizer, WordCounts, cli, formats, token_texts, train
from beam_bpe.audit import KINDS, OF_WORDS, SCHEMA, UNWANTED, audit
from beam_bpe.layout import Layout
from beam_bpe.pretokenize import pre_tokenizer
from beam_bpe.reachability import is_initial, unreachable
from beam_bpe.vocabulary import Vocabulary


def rows(found, kind: str) -> list[tuple]:
    """Return (token, detail, count, examples) of the findings of a kind."""
    return [(row["token"], row["detail"], row["count"], row["examples"]) for row in found.of_kind(kind).to_pylist()]


def tokens(found, kind: str) -> list[bytes]:
    return found.of_kind(kind)["token"].to_pylist()


def of_pieces(*pieces: str, pattern: str = "whitespace", **options) -> Vocabulary:
    """Return a byte-level vocabulary with tokens of that spelling, each made of the merges that its bytes need, from the left."""
    wanted = [piece.encode() for piece in pieces]
    known = [bytes([byte]) for byte in range(256)]
    left, right, merged = [], [], []
    for piece in wanted:
        for end in range(2, len(piece) + 1):
            if piece[:end] not in known:
                known.append(piece[:end])
                left.append(known.index(piece[: end - 1]))
                right.append(known.index(piece[end - 1 : end]))
                merged.append(len(known) - 1)
    sides = (np.array(side, np.uint32) for side in (left, right))
    layout = Layout(tokens=tuple(known), merged=np.array(merged, np.uint32), **options)
    return Vocabulary.imported(
        layout, format="test", pre_tokenizer=pre_tokenizer(pattern), **dict(zip(("left", "right"), sides))
    )


# ---- what is used, and where ---------------------------------------------------------------------


def test_unused():
    words = WordCounts.from_mapping({"lower": 5, "low": 3}, pre_tokenizer="whitespace")
    found = audit(of_pieces("lower", "low"), words)
    assert rows(found, "unused") == [(b"lo", "not in the table", 0, []), (b"lowe", "not in the table", 0, [])]
    # Of a word that counts nothing nothing is used.
    found = audit(of_pieces("low"), WordCounts.from_mapping({"low": 0, "x": 1}, pre_tokenizer="whitespace"))
    assert tokens(found, "unused") == [b"lo", b"low"]


def test_one_group_and_few_documents():
    documents = ["low low est", "low", "low", "low", "low est", "glitch glitch glitch"]
    words = WordCounts.from_documents(
        documents, pattern="whitespace", groups=["en", "en", "en", "en", "de", "en"], group_by="lang"
    )
    found = audit(of_pieces("low", "est", "glitch"), words)
    assert ("glitch".encode(), "only in 'en'", 3, ["glitch"]) in rows(found, "one_group")
    assert tokens(found, "one_group") == [b"glitch"]
    nearly = audit(of_pieces("low", "est", "glitch"), words, kinds=["one_group"], group_share=0.8)
    assert [(row[0], row[1], row[2]) for row in rows(nearly, "one_group")] == [
        (b"low", "83.33 % in 'en'", 6), (b"glitch", "only in 'en'", 3),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="more than a half"):
        audit(of_pieces("low"), words, group_share=0.5)
    assert "few_documents" not in found.kinds and set(KINDS) - set(found.kinds) == {"few_documents"}
    ungrouped = audit(of_pieces("low"), words.ungrouped())
    assert "one_group" not in ungrouped.kinds
    one = WordCounts.from_documents(["low", "low"], pattern="whitespace", groups=["en", "en"])
    assert "one_group" not in audit(of_pieces("low"), one).kinds


def test_special_tokens_of_the_vocabulary_are_found_in_text():
    vocabulary = train({"low": 5}, 259, special_tokens=["[DOC]"])
    found = audit(vocabulary, kinds=["special_in_text"], words=WordCounts.from_mapping({"[DOC]low": 2, "[doc]": 1}))
    assert [(row[0], row[2]) for row in rows(found, "special_in_text")] == [(b"[DOC]", 2)]
    assert found.findings["id"].to_pylist() == [vocabulary.special_ids["[DOC]"]] and not found.removable(["special_in_text"])


def test_few_documents_from_a_table_that_counts_them(tmp_path, capsys):
    lines = [*["low est low"] * 5, "glitch glitch", "glitched"]
    (tmp_path / "c.txt").write_text("\n".join(lines))
    count = ["count", str(tmp_path / "c.txt"), "--documents", "line", "--pattern", "whitespace", "--count-documents"]
    assert cli.main([*count, "--output", str(tmp_path / "words")]) == 0
    words = WordCounts.read(str(tmp_path / "words"))
    found = audit(of_pieces("low", "est", "glitch"), words, few_documents=2)
    assert rows(found, "few_documents") == [(b"glitch", "in at most 2 documents, 2 words", 3, ["glitch", "glitched"])]
    assert tokens(audit(of_pieces("low", "est", "glitch"), words, few_documents=1), "few_documents") == []


def test_examples_are_the_words_that_hold_most():
    words = WordCounts.from_mapping({"@qqx": 5, "@qqy@qq": 4, "@qqz": 1, "b": 9}, pre_tokenizer="whitespace")
    found = audit(of_pieces("@qq"), words, examples=2)
    assert rows(found, "email") == [(b"@qq", "@qq", 14, ["@qqy@qq", "@qqx"])]
    assert rows(audit(of_pieces("@qq"), words, examples=0), "email")[0][3] == []


def test_counts_of_any_size():
    words = WordCounts.from_mapping({"low": 10**15, "lowest": 3}, pre_tokenizer="whitespace")
    assert rows(audit(of_pieces("lowwww", "low"), words, long_run=3), "long_run")[0][2] == 0
    found = audit(of_pieces("low"), words, long_run=2, kinds=["unused"])
    assert rows(found, "unused") == [(b"lo", "not in the table", 0, [])]
    with pytest.raises(OverflowError, match="occurs more than 2"):
        audit(of_pieces("low"), WordCounts.from_mapping({"low": 2**63 - 1, "lowx": 5}, pre_tokenizer="whitespace"))


# ---- what a token's text tells -------------------------------------------------------------------


def test_what_the_text_of_a_token_tells():
    found = audit(
        of_pieces(
            "ann@example.org", "@gmail", "https://x", "www.low", "9f86d081884c7d65", "<|endoftext|>", "[INST]", "low",
            "機"[:1], pattern="none",
        ),
        kinds=["email", "url", "secret", "special_lookalike", "invalid_utf8"],
    )  # fmt: skip
    assert tokens(found, "email") == [b"ann@example.or", b"ann@example.org", b"@gmail"]
    assert b"https://x" in tokens(found, "url") and b"www.low" in tokens(found, "url") and b"low" not in tokens(found, "url")
    assert tokens(found, "secret") == [b"9f86d081884c7d65"]
    assert {b"<|endoftext|>", b"[INST]"} <= set(tokens(found, "special_lookalike"))
    assert ("機".encode()[:2], "ends within a character", None, []) in rows(found, "invalid_utf8")


def test_finders_see_the_shortest_texts_that_they_know():
    found = {
        "email": ["a@b.cc", "@QQ", "x@gmail "],
        "url": ["ftp:/x", "ftp://x", "WWW.x", "ab.com", "ab.de/"],
        "secret": ["xoxa-12345678", "eyJ123456789012", "0123456789abcdef", "sk-1234567890123456", "Aa1Bb2Cc3Dd4Ee5Ff6Gg"],
    }
    for kind, texts in found.items():
        for text in texts:
            assert token_texts.FINDERS[kind](text) and token_texts.FINDERS[kind](f"({text}"), text


@pytest.mark.parametrize("least", [2, 3, 4])
def test_long_runs_are_those_of_a_plain_count(least):
    made = of_pieces("aab", "\n\n\n", "----", "日日日", "xyyyyx", "\ufffd\ufffd\ufffd", pattern="none")
    expected = {}
    for token in made.tokens:
        length, character = token_texts.longest_run(token.decode("utf-8", "replace"))
        if len(token) > 1 and length >= least and character != "\ufffd":
            expected[token] = f"{length} x {character!r}"
    found = rows(audit(made, kinds=["long_run"], long_run=least), "long_run")
    assert {token: detail for token, detail, *_ in found} == expected and b"----" in expected


def test_halves_of_characters():
    whole = "機器"
    begins, both, ends = whole.encode()[1:3], whole.encode()[2:4], whole.encode()[:2]
    made = of_pieces("low")
    layout = made.layout
    known = [*layout.tokens, begins, both, ends, b"\xff\xfe"]
    made = Vocabulary.imported(
        Layout(tokens=tuple(known), merged=np.empty(0, np.uint32)), format="test", pre_tokenizer=pre_tokenizer("none")
    )
    details = {token: detail for token, detail, *_ in rows(audit(made), "invalid_utf8")}
    assert details == {
        begins: "begins within a character",
        both: "begins and ends within a character",
        ends: "ends within a character",
        b"\xff\xfe": "no UTF-8",
    }


def test_long_runs():
    found = audit(of_pieces("aaaaa", "x---", "    ", "ab" * 4, pattern="none"), kinds=["long_run"])
    assert [(token, detail) for token, detail, *_ in rows(found, "long_run")] == [
        (b"aaaa", "4 x 'a'"), (b"aaaaa", "5 x 'a'"), (b"    ", "4 x ' '"),
    ]  # fmt: skip
    found = audit(of_pieces("aaaaa", "x---", pattern="none"), kinds=["long_run"], long_run=3)
    assert tokens(found, "long_run") == [b"aaa", b"aaaa", b"aaaaa", b"x---"]


def test_near_duplicates():
    found = audit(of_pieces("low", " low", "Low", " LOW", "ｌｏｗ", "--", "=="), kinds=["near_duplicate"])
    whole = {
        token.decode(): detail for token, detail, *_ in rows(found, "near_duplicate") if len(token.decode().strip()) == 3
    }
    assert whole == {
        " low": "space: of 257 'low'",
        "Low": "case: of 257 'low'",
        " LOW": "case, space: of 257 'low'",
        "ｌｏｗ": "width: of 257 'low'",
    }


def test_marks_of_pieces_are_told_as_they_are(tmp_path, capsys):
    words = WordCounts.from_mapping({"xlow": 5, "xLow": 4, "#tag": 3, "    ": 2}, pre_tokenizer="whitespace")
    vocabulary = train(words, 40, algorithm="wordpiece")
    details = audit(vocabulary, kinds=["near_duplicate"]).findings["detail"].to_pylist()
    assert any("'##" in detail for detail in details) and "\\x23" not in "".join(details)
    vocabulary.save(str(tmp_path / "v"))
    assert cli.main(["audit", "--vocabulary", str(tmp_path / "v"), "--kind", "near_duplicate", "--most", "9"]) == 0
    said = capsys.readouterr().out
    assert "'##" in said and "\\x23" not in said


def test_texts_like_special_tokens_in_words():
    words = WordCounts.from_mapping(
        {"<|endoftext|>": 3, "a</s></s>": 2, "low": 9, "[inst]x": 1, "</s>": 0}, pre_tokenizer="whitespace"
    )
    found = audit(of_pieces("low"), words)
    assert rows(found, "special_in_text") == [
        (b"</s>", "in 1 word", 4, ["a</s></s>"]),
        (b"<|endoftext|>", "in 1 word", 3, ["<|endoftext|>"]),
        (b"[inst]", "in 1 word", 1, ["[inst]x"]),
    ]
    assert found.of_kind("special_in_text")["id"].null_count == 3


# ---- reachability --------------------------------------------------------------------------------


def test_unreachable_by_merges_and_by_the_pattern():
    known = [*(bytes([byte]) for byte in range(256)), b"bc", b"ab", b"abc", b"a b", b"1a"]
    pairs = [(98, 99, 256), (97, 98, 257), (257, 99, 258)]  # "abc" becomes a + bc: ab + c is never there
    left, right, merged = (np.array(side, np.uint32) for side in zip(*pairs))
    layout = Layout(tokens=tuple(known), merged=merged)
    vocabulary = Vocabulary.imported(layout, format="test", pre_tokenizer=pre_tokenizer("gpt2"), left=left, right=right)
    told = unreachable(vocabulary)
    assert told[258] == "merges make 'a' + 'bc' of it" and {256, 257}.isdisjoint(told)
    assert told[259] == "the pattern gpt2 makes 'a' + ' b' of it" and told[260] == "the pattern gpt2 makes '1' + 'a' of it"
    # With ignore_merges a word that is a token is that token; what the pattern cuts is no word all the same.
    whole = Vocabulary.imported(
        replace(layout, whole_pieces=True), format="test", pre_tokenizer=pre_tokenizer("gpt2"), left=left, right=right
    )
    assert set(unreachable(whole)) == {259, 260}
    assert Tokenizer(whole).encode("abc") == [258]


def test_what_is_whole_in_some_context_is_reachable():
    """Alone these are cut: white space that others follow, the beginning of a contraction."""
    for piece, pattern, text in [
        ("\n\n ", "cl100k", "\n\n \n"),
        (" I'", "o200k", " I'm"),
        ("  ", "gpt2", "   a"),
        ("'v", "gpt2", "'ve"),
    ]:
        vocabulary = of_pieces(piece, pattern=pattern)
        token = vocabulary.ids[piece.encode()]
        assert token in Tokenizer(vocabulary).encode(text) and token not in unreachable(vocabulary)


@pytest.mark.parametrize("seed", range(6))
def test_merges_in_any_order_against_all_words(seed):
    """A token that is said to be unreachable is in no word at all; each of the others is in one."""
    source = random.Random(seed)
    for _ in range(12):
        words = {
            "".join(source.choices("ab" if seed % 2 else "abc", k=source.randint(2, 6))): source.randint(1, 9)
            for _ in range(6)
        }
        learned = train(words, 256 + 6, min_pair_count=1)
        order = source.sample(range(len(learned.left)), len(learned.left))
        layout = Layout(tokens=tuple(learned.tokens), merged=learned.merged[order])
        shuffled = Vocabulary.imported(
            layout, format="test", pre_tokenizer=pre_tokenizer("none"), left=learned.left[order], right=learned.right[order]
        )
        tokenizer = Tokenizer(shuffled)
        longest = max(map(len, learned.tokens)) + 2
        texts = [
            "".join(text)
            for n in range(1, min(longest, 7) + 1)
            for text in itertools.product("abc"[: 2 + (seed + 1) % 2], repeat=n)
        ]
        used = {i for ids in tokenizer.encode_batch(texts) for i in ids.tolist()} - set(range(256))
        assert used.isdisjoint(unreachable(shuffled))
        small = {i for i, token in enumerate(learned.tokens) if 1 < len(token) <= 7}
        assert small - used <= set(unreachable(shuffled))


@pytest.mark.parametrize("attached", [False, True])
def test_characters_in_any_order_against_all_words(attached):
    source = random.Random(5 + attached)
    for _ in range(12):
        words = {"".join(source.choices("ab", k=source.randint(2, 6))): source.randint(1, 9) for _ in range(6)}
        learned = train(words, num_merges=6, unit="character", end_of_word="</w>", attached=attached, min_pair_count=1)
        order = source.sample(range(len(learned.left)), len(learned.left))
        columns = {name: getattr(learned, name)[order] for name in ("left", "right", "counts", "replaced")}
        shuffled = replace(learned, layout=replace(learned.layout, merged=learned.layout.merged[order]), **columns)
        tokenizer = Tokenizer(shuffled)
        texts = ["".join(text) for n in range(1, 8) for text in itertools.product("abx", repeat=n)]
        data = "".join(texts).encode()
        ends = np.cumsum([0, *map(len, texts)])
        used = set(tokenizer.encode_words(data, np.repeat(ends, 2)[1:-1]).ids.tolist())
        made = set(shuffled.merged.tolist())
        found = set(unreachable(shuffled))
        assert used.isdisjoint(found) and found <= made
        assert {i for i in made - used if len(shuffled.tokens[i].removesuffix(b"</w>")) <= 6} <= found


def test_learned_vocabularies_are_reachable():
    words = WordCounts.from_documents(["low lower newest 12 ab-c don't LOW été 機器學習 "] * 3, pattern="gpt2")
    assert unreachable(train(words, 320)) == {}
    assert unreachable(train(words, 120, unit="character", end_of_word="</w>")) == {}
    assert unreachable(train(words, 200, algorithm="wordpiece")) == {}


def test_scores():
    """A piece whose parts score higher together is never taken; SentencePiece's own Japanese model has one."""
    words = WordCounts.from_mapping(
        {"▁low": 50, "▁lower": 20, "▁newest": 60}, pre_tokenizer="metaspace", normalizer="metaspace"
    )
    for algorithm in ("unigram", "sentencepiece-bpe"):
        vocabulary = train(words, 16, algorithm=algorithm)
        assert unreachable(vocabulary) == {}
        found = audit(vocabulary, words)
        assert len(found.notes) == (algorithm == "unigram") and found.kinds == audit(vocabulary, words).kinds
    vocabulary = train(words, 16, algorithm="unigram")
    low = vocabulary.ids["▁low".encode()]
    scores = vocabulary.layout.scores.copy()
    scores[low] = -1000.0
    told = unreachable(replace(vocabulary, layout=replace(vocabulary.layout, scores=scores)))
    assert list(told) == [low] and told[low].startswith("scores make '▁' + 'l' + ")


def test_published_scores(shared):
    vocabulary = formats.load(str(shared / "reference" / "spm" / "test_ja_model.model"))
    assert list(unreachable(vocabulary).values()) == ["scores make 'から' + 'の' of it"]


def test_wordpiece_by_normalizer_and_length(tmp_path):
    pieces = ["[UNK]", "low", "Low", "été", "##est", "##e st", "a" * 101, "##" + "a" * 100, "b" * 100, "!", "a!"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces), encoding="utf-8")
    vocabulary = formats.load(str(tmp_path / "vocab.txt"))
    told = {pieces[i]: detail for i, detail in unreachable(vocabulary).items()}
    assert told == {
        "Low": "the normalizer makes 'low' of it",
        "été": "the normalizer makes 'ete' of it",
        "##e st": "the pattern bert makes 'e' + 'st' of it",
        "a" * 101: "it has more than the 100 characters of a word",
        "##" + "a" * 100: "it has more than the 100 characters of a word",
        "a!": "the pattern bert makes 'a' + '!' of it",
    }


def test_initial_tokens():
    character = train({"low": 2}, num_merges=2, unit="character", end_of_word="</w>", byte_fallback=True)
    assert is_initial(character, b"</w>") and is_initial(character, b"<0xE4>") and is_initial(character, "機".encode())
    assert not is_initial(character, b"lo")
    attached = train({"low": 2}, num_merges=2, unit="character", end_of_word="</w>", attached=True)
    assert is_initial(attached, b"w</w>") and not is_initial(attached, b"ow</w>")
    words = train({"a": 2, "low": 2}, algorithm="wordlevel")
    assert not is_initial(words, b"a")


@pytest.mark.parametrize("name", ["r50k_base", "cl100k_base"])
def test_published_vocabularies(name, shared):
    vocabulary = formats.load(str(shared / "reference" / f"{name}.tiktoken"))
    found = audit(vocabulary, kinds=["unreachable", "long_run", "email"])
    counts = found.counts
    assert counts["unreachable"] == 0 and counts["long_run"] > 100
    assert (b"@gmail" in tokens(found, "email")) == (name == "cl100k_base")


# ---- removal, and the second run -----------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"vocab_size": 340},
        {"num_merges": 70, "unit": "character", "end_of_word": "</w>"},
        {"vocab_size": 90, "algorithm": "wordpiece"},
        {"vocab_size": 20, "algorithm": "wordlevel"},
        {"vocab_size": 75, "algorithm": "sentencepiece-bpe", "max_token_length": 30},
        {"vocab_size": 60, "algorithm": "unigram", "max_token_length": 30},
    ],
)
def test_what_is_on_the_removal_list_is_gone(options, tmp_path):
    text = ["to ann.lee@example.org " * 9 + "aaaaaaaa " * 7 + "<|endoftext|> low lower newest " * 3]
    scored = "max_token_length" in options
    cutting = {"pattern": "metaspace", "normalizer": "metaspace"} if scored else {"pattern": "whitespace"}
    words = WordCounts.from_documents(text, **cutting)
    first = train(words, **options)
    before = audit(first, words)
    assert before.counts["email"] and before.counts["special_lookalike"]
    removed = before.removable(UNWANTED)
    assert before.write_removal_list(str(tmp_path / "list"), UNWANTED) == sum(map(len, removed.values()))
    gone = {token for some in removed.values() for token in some}
    second = train(words, exclude_tokens=sorted(gone), **options)
    assert gone and not gone & set(second.tokens)
    assert not {one for kind in UNWANTED for one in tokens(audit(second, words), kind)} & gone


# ---- the table of findings, errors ---------------------------------------------------------------


def test_findings_are_a_table_that_any_engine_reads(tmp_path):
    words = WordCounts.from_mapping({"low": 3}, pre_tokenizer="whitespace")
    found = audit(of_pieces("low"), words)
    found.save(str(tmp_path / "audit"))
    table = pq.read_table(tmp_path / "audit" / "findings.parquet")
    assert table.schema.remove_metadata().equals(SCHEMA) and table.to_pylist() == found.findings.to_pylist()
    header = json.loads(table.schema.metadata[b"beam_bpe"])
    assert (
        header["counts"] == found.counts
        and header["kind"] == "audit"
        and header["fingerprint"] == found.vocabulary.fingerprint
    )
    first = (tmp_path / "audit" / "findings.parquet").read_bytes()
    with pytest.raises(FileExistsError, match="already holds findings"):
        found.save(str(tmp_path / "audit"))
    audit(of_pieces("low"), words).save(str(tmp_path / "audit"), overwrite=True)
    assert (tmp_path / "audit" / "findings.parquet").read_bytes() == first


def test_without_a_table_nothing_is_counted():
    found = audit(of_pieces("aaaa"))
    assert set(found.kinds) == set(KINDS) - set(OF_WORDS) and found.findings["count"].null_count == len(found.findings)
    assert audit(of_pieces()).findings.num_rows == 0


def test_empty_tables():
    found = audit(of_pieces("low"), WordCounts.from_mapping({}, pre_tokenizer="whitespace"))
    assert tokens(found, "unused") == [b"lo", b"low"] and found.counts["special_in_text"] == 0


def test_what_is_wrong_is_told():
    with pytest.raises(ValueError, match="no kind 'urls' of findings"):
        audit(of_pieces("low"), kinds=["urls"])
    with pytest.raises(ValueError, match="long_run=1"):
        audit(of_pieces("low"), long_run=1)
    other = WordCounts.from_mapping({"low": 3}, pre_tokenizer="gpt2")
    with pytest.raises(ValueError, match="cut by 'gpt2'.*'whitespace'.*allow_mismatch=True"):
        audit(of_pieces("low"), other)
    assert len(audit(of_pieces("low"), other, allow_mismatch=True).notes) == 1


# ---- the command ---------------------------------------------------------------------------------


@pytest.fixture
def places(tmp_path):
    """Return (vocabulary, words) as folders."""
    words = WordCounts.from_mapping(
        {"low": 9, "lower": 5, "a@b.com": 5, "機器": 4, "aaaaaaaa": 3}, pre_tokenizer="whitespace"
    )
    words.write(str(tmp_path / "words"))
    train(words, 300).save(str(tmp_path / "vocabulary"))
    return str(tmp_path / "vocabulary"), str(tmp_path / "words")


def test_the_command(places, tmp_path, capsys):
    vocabulary, words = places
    command = ["audit", "--vocabulary", vocabulary, "--words", words]
    out, removal = str(tmp_path / "out"), str(tmp_path / "removal.txt")
    assert cli.main([*command, "--output", out, "--removal-list", removal]) == 0
    said = capsys.readouterr().out
    assert "email" in said and "'a@b.com'" in said and "not told by the table: one_group, few_documents" in said
    assert {b"a@b.com", b"aaaaaaaa"} <= set(pq.read_table(f"{out}/findings.parquet")["token"].to_pylist())
    assert cli.main([*command, "--output", out]) == 1 and "overwrite" in capsys.readouterr().err
    assert cli.main([*command, "--output", out, "--overwrite", "--removal-list", removal]) == 0
    capsys.readouterr()
    again = str(tmp_path / "again")
    assert cli.main(["train", "--words", words, "--vocab-size", "300", "--exclude-tokens", removal, "--output", again]) == 0
    capsys.readouterr()
    assert cli.main(["audit", "--vocabulary", again, "--words", words, "--fail-on", "email"]) == 0
    capsys.readouterr()
    assert cli.main(["diff", vocabulary, again, "--words", words]) == 0  # what it cost
    assert "'a@b.com'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--fail-on", "email"], 3, "the audit found 1 of email (0 allowed)"),
        (["--fail-on", "email=1"], 0, ""),
        (["--fail-on", "any=2", "--fail-on", "email"], 3, "of any (2 allowed), 1 of email (0 allowed)"),
        (["--fail-on", "one_group"], 2, "--fail-on one_group: the table does not tell that"),
        (["--fail-on", "mail"], 2, "--fail-on is 'mail'; it must be KIND or KIND=N"),
        (["--fail-on", "email=-1"], 2, "it must be KIND or KIND=N"),
        (["--kind", "url", "--fail-on", "email"], 2, "--fail-on email is not looked for"),
        (["--group-share", "0.5"], 2, "--group-share is 0.5; it must be more than 0.5"),
        (["--long-run", "1"], 2, "--long-run is 1; it must be at least 2"),
    ],
)
def test_exit_codes(places, options, code, message, capsys):
    vocabulary, words = places
    assert cli.main(["audit", "--vocabulary", vocabulary, "--words", words, *options]) == code
    assert message in capsys.readouterr().err


def test_what_is_written_stands_though_nobody_reads_what_is_printed(places, tmp_path):
    vocabulary, words = places
    command = [sys.executable, "-m", "beam_bpe", "audit", "--vocabulary", vocabulary, "--words", words, "--fail-on", "email"]
    command += ["--output", str(tmp_path / "out"), "--removal-list", str(tmp_path / "list")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.close()
        told = running.stderr.read().decode()
    assert running.returncode == 3 and "the audit found 1 of email" in told, told
    assert (tmp_path / "out" / "findings.parquet").exists() and "a@b.com" in (tmp_path / "list").read_text()


def test_fail_on_what_needs_words(places, capsys):
    assert cli.main(["audit", "--vocabulary", places[0], "--fail-on", "unused"]) == 2
    assert "--fail-on unused needs a corpus, or a table of its words" in capsys.readouterr().err


def test_on_a_corpus_the_findings_are_those_of_its_table(tmp_path, capsys):
    texts = [("en", "low lower a@b.com <|im_start|>"), ("fr", "bas plus bas low"), (None, "機器 low"), ("fr", "plus plus plus")]
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"text": text, "lang": lang}) + "\n" for lang, text in texts * 3))
    words, vocabulary = str(tmp_path / "words"), str(tmp_path / "vocabulary")
    count = ["count", str(corpus), "--pattern", "gpt2", "--group-by", "lang", "--count-documents", "-o", words]
    assert cli.main(count) == 0
    assert cli.main(["train", "--words", words, "--vocab-size", "290", "--no-report", "-o", vocabulary]) == 0
    audit = ["audit", "--vocabulary", vocabulary]
    assert cli.main([*audit, "--words", words, "-o", str(tmp_path / "a")]) == 0
    assert cli.main([*audit, str(corpus), "--group-by", "lang", "-o", str(tmp_path / "b"), "--fail-on", "one_group=99"]) == 0
    assert "one_group " in capsys.readouterr().out
    some, others = (pq.read_table(str(tmp_path / name / "findings.parquet")).to_pylist() for name in "ab")
    # The words of this pattern hold no look-alike: the text does.
    assert [row for row in others if row["kind"] != "special_in_text"] == some
    (seen,) = [row for row in others if row["kind"] == "special_in_text"]
    assert cli.main([*audit, str(corpus), "--kind", "special_in_text", "--errors", "skip"]) == 0
    assert "left out" not in capsys.readouterr().out
    assert (seen["token"], seen["count"]) == (b"<|im_start|>", 3) and {"one_group", "unused"} <= {row["kind"] for row in some}
    assert cli.main([*audit, str(corpus), "--words", words]) == 2
    assert "a corpus (INPUT ...) or its words (--words TABLE ...), not both" in capsys.readouterr().err
    assert cli.main([*audit, "--words", words, "--group-by", "lang"]) == 2
    assert cli.main([*audit, str(corpus), "--fail-on", "one_group"]) == 2
    assert "does not tell that" in capsys.readouterr().err
    corpus.write_bytes(corpus.read_bytes() + b'{"text": \n{"text": "low"}\n')
    assert cli.main([*audit, str(corpus), "--errors", "skip", "-o", str(tmp_path / "c")]) == 0
    said = capsys.readouterr().out
    assert "left out    skipped documents 1" in said and f"set aside   {tmp_path / 'c' / 'rejected'}" in said
    assert list((tmp_path / "c" / "rejected").iterdir())
    corpus.write_bytes(b'{"text": \n')
    assert cli.main([*audit, str(corpus), "--errors", "skip"]) == 1
    assert "the corpus has no words (files read: 1)" in capsys.readouterr().err


def test_a_terminal_without_unicode(places):
    vocabulary, words = places
    for more in (
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TERM": "dumb"},
    ):
        done = subprocess.run(
            [sys.executable, "-m", "beam_bpe", "audit", "--vocabulary", vocabulary, "--words", words, "--most", "99"],
            env={**os.environ, **more}, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0 and done.stderr == b"" and done.stdout.isascii() and b"\\x" in done.stdout
