"""tiktoken's rank files: ids equal tiktoken's, both ways; broken files are refused by line."""

from __future__ import annotations

import base64
import random

import pytest

from beam_bpe import Tokenizer, WordCounts, formats, pre_tokenizer, train
from beam_bpe.artifacts import FormatError
from beam_bpe.formats import tiktoken as rank_files
from beam_bpe.formats.difficult import TEXTS, own_texts
from beam_bpe.pretokenize import PATTERNS, in_sequence

tiktoken = pytest.importorskip("tiktoken")

BYTES = [bytes([byte]) for byte in range(256)]
TEXT = "The newest lowlands aren't lower than 12345 others… naïve café x = y+1;\n\n    return 0\n機器學習模型的訓練資料 " * 9


def write(path, tokens, first=0, end=b"\n"):
    ranks = tokens.items() if isinstance(tokens, dict) else ((token, first + i) for i, token in enumerate(tokens))
    path.write_bytes(b"".join(base64.b64encode(token) + b" %d" % rank + end for token, rank in ranks))
    return str(path)


def both(path, tokens, pattern=r"(?s:.+)", special=None):
    """Return the two tokenizers of a rank file."""
    tokens = dict(tokens) if isinstance(tokens, dict) else {token: i for i, token in enumerate(tokens)}
    loaded = formats.load(write(path, tokens), pattern=pattern, special_tokens=special)
    text = PATTERNS.get(pattern, pattern)
    return Tokenizer(loaded), tiktoken.Encoding("theirs", pat_str=text, mergeable_ranks=tokens, special_tokens=special or {})


@pytest.mark.parametrize("name", ["r50k_base", "p50k_base", "cl100k_base", "o200k_base", "qwen"])
def test_published_files(name, shared, tmp_path):
    path = str(shared / "reference" / f"{name}.tiktoken")
    known = rank_files.ENCODINGS[name]
    loaded = formats.load(path)
    ours = Tokenizer(loaded)
    theirs = tiktoken.Encoding(
        name,
        pat_str=PATTERNS[known.pattern],
        mergeable_ranks={token: i for i, token in enumerate(loaded.tokens) if token},
        special_tokens=dict(known.special_tokens),
    )
    assert loaded.special_ids == known.special_tokens and len(loaded) == theirs.n_vocab
    ending = "a  <|endoftext|>b"
    for text in [*TEXTS[::15], TEXT, *list(own_texts(loaded))[::20]]:
        assert ours.encode(text, disallowed_special=()) == theirs.encode(text, disallowed_special=()), text
    assert ours.encode(ending, allowed_special="all") == theirs.encode(ending, allowed_special="all")
    if name != "p50k_base":
        return
    assert formats.load(path, encoding=name) == loaded == formats.load(path, pattern=known.pattern, special_tokens=known.special_tokens)
    assert formats.load(path, pattern=PATTERNS[known.pattern], special_tokens={}).special_ids == {}


@pytest.mark.parametrize("name", ["r50k_base", "p50k_base"])
def test_published_files_are_written_as_they_were(name, shared, tmp_path):
    path = shared / "reference" / f"{name}.tiktoken"
    rank_files.save(formats.load(str(path)), str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == path.read_bytes()


def test_a_hole_is_kept(shared):
    loaded = formats.load(str(shared / "reference" / "p50k_base.tiktoken"), encoding="p50k_edit")
    assert loaded.tokens[50256] == b"" and loaded.special_ids["<|fim_suffix|>"] == 50283
    with pytest.raises(FormatError, match="not the published rank file of r50k_base"):
        formats.load(str(shared / "reference" / "p50k_base.tiktoken"), encoding="r50k_base")


@pytest.mark.parametrize(
    "tokens, texts",
    [
        ([*BYTES, b"abc"], ["abc", "xabc", "abcx"]),  # nothing merges to it
        ([*BYTES, b"abc", b"ab"], ["abc", "xabc", "abab", "abcab"]),  # its part has a higher rank
        ([*BYTES, b"abcd", b"cd", b"ab"], ["abcd", "xabcd", "cdab"]),  # both have
        ([*BYTES, b"bc", b"ab", b"abc"], ["abc", "ab", "aabc", "abcabc"]),  # by (a, bc), not (ab, c)
        ([*BYTES, b"bc", b"ab", b"abcd", b"cd"], ["abcd", "abcdx", "xabcd"]),  # (ab, cd) never meet
        ([*BYTES, b"aa", b"aaa"], ["aaa", "aaaa", "aaaaa", "aaaaaaa"]),
        ([*BYTES, b"aaa", b"aa"], ["aaa", "aaaa", "aaaaa", "aaaaaaa"]),
        ([b"ab", *BYTES, b"abab"], ["abab", "ababab"]),  # merges before the bytes
    ],
)
def test_tokens_that_are_hard_to_reach(tokens, texts, tmp_path):
    ours, theirs = both(tmp_path / "v.tiktoken", tokens)
    for text in texts:
        assert ours.encode(text) == theirs.encode(text), text


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 30))])
def test_random_rank_files(seed, tmp_path):
    cases = 0
    for number in range(120):
        rng = random.Random(seed * 1000 + number)
        tokens = list(BYTES)
        for _ in range(rng.randrange(1, 50)):
            token = "".join(rng.choices("abc é", k=rng.randrange(2, 7))).encode()[: rng.randrange(2, 9)]
            if token not in tokens and len(token) > 1:
                tokens.append(token)
        if rng.random() < 0.5:
            rng.shuffle(tokens)
        ranks = dict(zip(tokens, sorted(rng.sample(range(len(tokens) + rng.choice([0, 30])), len(tokens)))))
        special = {"<a>": max(ranks.values()) + 5} if rng.random() < 0.5 else {}
        ours, theirs = both(tmp_path / "v.tiktoken", ranks, rng.choice([r"(?s:.+)", "gpt2", "o200k", "[ab]+|c"]), special)
        for _ in range(30):
            text = "".join(rng.choices([*"abc é\n", *special], k=rng.randrange(1, rng.choice([8, 40, 200]))))
            assert ours.encode(text, allowed_special="all") == theirs.encode(text, allowed_special="all"), (ranks, text)
            cases += 1
    assert cases == 3600


@pytest.mark.parametrize(
    "pattern", [r"\w+|\s+$|\S", r"[^\s]+$|\S|\s", r"a$\n?|.|\n", r" ?\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s", r"(?i:'s|k)|[$a]+\$?|\w\z|\w+", r"\S+(?=\s*$)|\S"]
)
def test_a_pattern_of_ones_own(pattern, tmp_path):
    ours, theirs = both(tmp_path / "v.tiktoken", [*BYTES, b"wo", b"word", b"\n\n", b"  ", b" a", b"a\n", b" \n"], pattern)
    for text in [*TEXTS[::5], "a\n", "word\n", "a\n\n", "$a$", " \n"]:
        assert ours.encode(text) == theirs.encode(text), text
    again = tiktoken.Encoding("again", **rank_files.encoding_arguments(ours.vocabulary))
    for text in [*TEXTS[::9], "a\n", "word\n", " \n"]:
        assert ours.encode(text) == again.encode(text), text
    rank_files.save(ours.vocabulary, str(tmp_path / "out"))


def test_a_pattern_that_the_two_read_in_two_ways_is_refused(tmp_path):
    counts = WordCounts.from_documents([TEXT], pattern=pre_tokenizer(r"[a&&b]+|\w+", gaps="drop"))
    with pytest.raises(ValueError, match="in another way|cannot take"):
        rank_files.save(train(counts, 300), str(tmp_path / "out"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("pattern", [name for name in PATTERNS if name != "bert"])
def test_what_is_trained_goes_to_tiktoken_and_back(pattern, tmp_path):
    vocabulary = train(WordCounts.from_documents([TEXT], pattern=pattern), 500, special_tokens=["<|end|>", "<é的>"])
    path = str(tmp_path / "v.tiktoken")
    formats.save(vocabulary, path, "tiktoken")
    theirs = tiktoken.Encoding("ours", **rank_files.encoding_arguments(vocabulary))
    read = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in open(path, "rb"))}
    assert read == rank_files.encoding_arguments(vocabulary)["mergeable_ranks"]
    ours, back = Tokenizer(vocabulary), Tokenizer(formats.load(path, pattern=pattern, special_tokens=vocabulary.special_ids))
    for text in [*TEXTS[::5], TEXT, "a <|end|>b<é的>"]:
        ids = ours.encode(text, allowed_special="all")
        assert ids == theirs.encode(text, allowed_special="all") == back.encode(text, allowed_special="all"), text
    assert [merge[1:5] for merge in back.vocabulary.merges] == [merge[1:5] for merge in vocabulary.merges]


def test_refused(tmp_path):
    learned = train({"low": 5, "lower": 2}, 260)
    for pattern, said in [
        (pre_tokenizer(r"\w+", gaps="keep"), "gaps: keep"),
        (pre_tokenizer(split_with="string:capwords"), "'callable'"),
        (in_sequence([pre_tokenizer(r"\d"), pre_tokenizer("gpt2")]), "'sequence'"),
    ]:
        counts = WordCounts.from_documents(["low low"], pattern=pattern)
        with pytest.raises(ValueError, match=said):
            rank_files.save(train(counts, 258), str(tmp_path / "v"))
    path = write(tmp_path / "v.tiktoken", BYTES)
    with pytest.raises(ValueError, match="holds no pattern: give one"):
        formats.load(path)
    with pytest.raises(ValueError, match="choose one of r50k_base"):
        formats.load(path, encoding="r60k")
    with pytest.raises(ValueError, match="there is no pattern named"):
        formats.load(path, pattern="gpt9")
    with pytest.raises(TypeError):
        formats.load(path, pattern="gpt2", merges=3)
    with pytest.raises(FormatError, match="there is no normalizer 'NFX'"):
        formats.load(path, pattern="gpt2", normalizer="NFX")
    with pytest.raises(ValueError, match="no regex of the words of 'bert'"):
        rank_files.save(formats.load(path, pattern="bert"), str(tmp_path / "w"))
    assert formats.load(path, pattern=PATTERNS["bert"]).pre_tokenizer.name == "custom"
    with pytest.raises(ValueError, match="no normalizer"):
        rank_files.save(formats.load(path, pattern="gpt2", normalizer="NFC"), str(tmp_path / "w"))
    with pytest.raises(FormatError, match="has the id 65, where the model has b'A'"):
        formats.load(path, pattern="gpt2", special_tokens={"<a>": 65})
    assert len(learned) == 260


LINES = b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(BYTES))


@pytest.mark.parametrize(
    "data, said",
    [
        (b"", "no token"),
        (b"\n\n", "no token"),
        (LINES[:-5], "the first of them 0xff|line 256|0xff|byte 255"),
        (LINES + b"YWI=\n", "line 257: .* is not a token in base64 and its rank"),
        (LINES + b"YWI= 256 1\n", "line 257"),
        (LINES + b"YWI 256\n", "line 257: b'YWI' is not base64"),
        (LINES + b"YW?= 256\n", "line 257: .* is not base64"),
        (LINES + b"YWI= -1\n", "line 257: b'-1' is no rank"),
        (LINES + b"YWI= 1_0\n", "line 257: b'1_0' is no rank"),
        (LINES + b"YWI= 1e3\n", "no rank"),
        (LINES + b"YWI= 2.5\n", "no rank"),
        (LINES + b"YWI= 1000000000\n", "line 257: b'1000000000' is no rank"),
        (LINES + b"YWI= 999999999\n", "no rank"),
        (LINES + b"YWI= 9223372036854775808\n", "no rank"),
        (LINES + b"YWI= " + b"9" * 100_000 + b"\n", "no rank"),
        (LINES + b"YWI= \xd9\xa3\n", "no rank"),
        (LINES + b"YWI= 255\n", "line 257: the rank stands twice"),
        (LINES + b"QQ== 256\n", "line 257: the token stands twice"),
        (LINES + b"= 256\n", "line 257"),
        (LINES[5:], "line 1|0x00|byte 0"),
        (b"\xef\xbb\xbf" + LINES, "line 1"),
        (LINES.decode().encode("utf-16"), "line 1"),
        (b'{"model": {}}', "line 1"),
        (bytes(range(256)) * 50, "line"),
    ],
)
def test_broken_files(data, said, tmp_path):
    path = tmp_path / "v.tiktoken"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=said) as caught:
        formats.load(str(path), pattern="gpt2")
    assert str(path) in str(caught.value)


def test_other_ends_of_lines_and_blank_ones(tmp_path):
    path = tmp_path / "v.tiktoken"
    for data in (LINES.replace(b"\n", b"\r\n"), LINES[:-1], LINES + b"\n\n", LINES.replace(b" ", b"\t")):
        path.write_bytes(data)
        assert list(formats.load(str(path), pattern="gpt2").tokens) == BYTES


def test_truncated_files(tmp_path):
    whole = LINES + b"".join(base64.b64encode(b"a" * n) + b" %d\n" % (254 + n) for n in range(2, 60))
    path = tmp_path / "v.tiktoken"
    for part in range(50):
        path.write_bytes(whole[: len(whole) * part // 50])
        try:
            formats.load(str(path), pattern="gpt2")
        except FormatError as error:
            assert str(path) in str(error)


def test_many_lines_with_one_wide_number(tmp_path):
    """A column of numbers as wide as the widest would take 40 GB."""
    path = tmp_path / "v.tiktoken"
    path.write_bytes(LINES + b"".join(base64.b64encode(b"%06d" % i) + b" %d\n" % i for i in range(256, 40_000)) + b"YWI= " + b"1" * (1 << 20))
    with pytest.raises(FormatError, match="no rank"):
        formats.load(str(path), pattern="gpt2")


@pytest.mark.parametrize("size", [1 << 20, pytest.param(100 << 20, marks=pytest.mark.slow)])
def test_a_long_token(size, tmp_path):
    ours, path = None, tmp_path / "v.tiktoken"
    path.write_bytes(LINES + base64.b64encode(b"ab" * (size // 2)) + b" 256\nYWI= 257\n")
    ours = Tokenizer(formats.load(str(path), pattern="none"))
    assert ours.encode("abab") == [257, 257] and len(ours.token_bytes(256)) == size
