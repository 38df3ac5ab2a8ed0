"""Broken and hostile tokenizer.json, vocab.json and merges.txt: FormatError with the path, in bounded time and memory."""

from __future__ import annotations

import copy
import dataclasses
import json
import random
import time
import warnings

import pytest

from beam_bpe import Tokenizer, WordCounts, formats, train
from beam_bpe.artifacts import FormatError
from beam_bpe.formats import bytelevel, gpt2, huggingface
from beam_bpe.pretokenize import PreTokenizationTimeout

TEXT = "The newest lowlands aren't lower than 12345 others, naïve café\n\n    return 0\n" * 9


@pytest.fixture(scope="module")
def content() -> dict:
    """Return a tokenizer.json with something of everything."""
    vocabulary = train(WordCounts.from_documents([TEXT], pattern="gpt2"), 262, special_tokens=["<s>", "</s>"])
    content = huggingface.content_of(vocabulary)
    split = {"type": "Split", "pattern": {"Regex": r"\d{1,3}"}, "behavior": "Isolated", "invert": False}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    content["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, {"type": "Digits", "individual_digits": True}, content["pre_tokenizer"]]}
    content["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "NFC"}]}
    content["post_processor"] = {
        "type": "Sequence",
        "processors": [
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            {
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, text],
                "pair": [text, text],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [len(vocabulary) - 2], "tokens": ["<s>"]}},
            },
        ],
    }
    content["truncation"] = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    return content


@pytest.fixture
def load(tmp_path):
    """Return what writes a file, reads it, and gives the tokenizer or None for a FormatError that names the path."""
    path = tmp_path / "tokenizer.json"

    def loaded(content, said=None):
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                vocabulary = formats.load(str(path))
        except FormatError as error:
            assert str(error).startswith(str(path)) and len(str(error)) < 2000
            assert said is not None and said in str(error) or said == "", error
            return None
        assert not said
        return Tokenizer(vocabulary)

    return loaded


def nodes(value, path=()):
    """Yield the path of each node of a tree, but of few of the tokens and merges."""
    yield path
    if isinstance(value, dict):
        for key in list(value)[:: 97 if len(value) > 200 else 1]:
            yield from nodes(value[key], (*path, key))
    elif isinstance(value, list):
        for i in range(0, len(value), 3 if len(value) > 5 else 1):
            yield from nodes(value[i], (*path, i))


VALUES = [None, 0, -1, 1 << 63, 1.5, True, False, "", "text", "\ud800", [], [0], [[]], {}, {"type": "Split"}, {"a": 1}, [None, None], float("inf"), float("nan")]  # fmt: skip


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 5))])
def test_every_node_replaced(part, content, load):
    cases = broken = 0
    for number, path in enumerate(nodes(content)):
        for value in VALUES[(number + part) % 5 :: 5]:
            changed = copy.deepcopy(content)
            at = changed
            for key in path[:-1]:
                at = at[key]
            if path:
                at[path[-1]] = value
            else:
                changed = value
            tokenizer = load(changed, "")
            cases += 1
            broken += tokenizer is None
            if tokenizer is not None and cases % 20 == 0:
                tokenizer.encode("low 12 <s>", allowed_special="all", add_special_tokens=True)
                huggingface.content_of(tokenizer.vocabulary)
    assert cases > 300 and broken > 150


def test_every_node_left_out_or_twice(content, load):
    for path in [*nodes(content)]:
        if not path:
            continue
        for twice in (False, True):
            changed = copy.deepcopy(content)
            at = changed
            for key in path[:-1]:
                at = at[key]
            if twice:
                if isinstance(at, list):
                    at.append(copy.deepcopy(at[path[-1]]))
                else:
                    at[f"{path[-1]}x"] = at[path[-1]]
            else:
                del at[path[-1]]
            load(changed, "")


def test_truncated(content, load):
    data = json.dumps(content, ensure_ascii=False, indent=1).encode()
    for part in range(50):
        load(data[: len(data) * part // 50], "not JSON" if part else "not JSON")
    assert load(data) is not None


def test_random_bytes_changed(content, load):
    data = json.dumps(content, ensure_ascii=False).encode()
    rng = random.Random(5)
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 5)):
            changed[rng.randrange(len(data))] = rng.choice(b'{}[]",:0-\\u\xff\x00nA9')
        load(bytes(changed), "")


@pytest.mark.parametrize(
    "data, said",
    [
        (b"", "not JSON"),
        (b"\xef\xbb\xbf", "not JSON"),
        (b"\xff\xfe{\x00}\x00", "not UTF-8 at byte 0"),
        (b'{"a": "\xe9"}', "not UTF-8 at byte 7"),
        (b"[]", "holds a list, not an object"),
        (b"3", "holds a int"),
        (b"{}", "no model"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
        (b'{"model": {}, "model": {}}', "the key 'model' stands twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"a":' + b"[" * 300 + b"]" * 300 + b"}", "nested too deeply"),
        (b'{"a": "\\ud800"}', "half a surrogate pair"),
        (b'{"\\udc00": 1}', "half a surrogate pair"),
        (b'{"model": {"type": "BPE", "vocab": {"a": 0, "a": 1}, "merges": []}}', "the key 'a' stands twice"),
    ],
    ids=range(16),
)
def test_no_tokenizer_json(data, said, load):
    load(data, said)


def test_bom_and_surrogate_pairs_are_read(content, load):
    data = json.dumps({**content, "added_tokens": [*content["added_tokens"], {"id": len(content["model"]["vocab"]) + 2, "content": "😀"}]})
    assert "\\ud83d" in data
    tokenizer = load(b"\xef\xbb\xbf" + data.replace("\n", "\r\n").encode())
    assert tokenizer.encode("😀") == [len(content["model"]["vocab"]) + 2]


def changed(content, change):
    content = copy.deepcopy(content)
    model, vocab = content["model"], content["model"]["vocab"]
    change(content, model, vocab, model["merges"])
    return content


A, B = "Ġ", "l"


@pytest.mark.parametrize(
    "said, change",
    [
        ("ids from 0 to 1000000000", lambda c, m, v, s: v.update(zz=10**9)),
        ("ids from 0 to 9223372036854775808", lambda c, m, v, s: v.update(zz=1 << 63)),
        ("ids from -1 to", lambda c, m, v, s: v.update(zz=-1)),
        ("no whole number: 1.0", lambda c, m, v, s: v.update(zz=1.0)),
        ("no whole number: True", lambda c, m, v, s: v.update(zz=True)),
        ("have one id", lambda c, m, v, s: v.update(zz=7)),
        ("not spelt in the characters", lambda c, m, v, s: v.update({"a b": 9000})),
        ("not spelt in the characters", lambda c, m, v, s: v.update({"": 9000})),
        ("not spelt in the characters", lambda c, m, v, s: v.update({"▁the": 9000})),
        ("1 of the 256 bytes have no token, the first of them 0x41", lambda c, m, v, s: v.update(AAA=v.pop("A"))),
        ("has no vocab", lambda c, m, v, s: v.clear()),
        ("needs the token 'qzqz', which is not in the vocab", lambda c, m, v, s: s.append(["qz", "qz"]) or v.update(qz=9000)),
        ("needs the token 'qz'", lambda c, m, v, s: s.append(["qz", A])),
        ("not two tokens", lambda c, m, v, s: s.append("a")),
        ("not two tokens", lambda c, m, v, s: s.append("a b c")),
        ("not two tokens", lambda c, m, v, s: s.append(["a", "b", "c"])),
        ("not two tokens", lambda c, m, v, s: s.append(["a", None])),
        ("not two tokens", lambda c, m, v, s: s.append({"a": "b"})),
        ("needs the token ''", lambda c, m, v, s: s.append("a ")),
        ("are both of", lambda c, m, v, s: s.append(s[0])),
        ("stands twice, or its id is taken", lambda c, m, v, s: c["added_tokens"].append(c["added_tokens"][0])),
        ("stands twice, or its id is taken", lambda c, m, v, s: c["added_tokens"].append({**c["added_tokens"][0], "content": "other"})),
        ("ids are below", lambda c, m, v, s: c["added_tokens"].append({"id": 1 << 63, "content": "other"})),
        ("the id -1", lambda c, m, v, s: c["added_tokens"].append({"id": -1, "content": "other"})),
        ("is empty", lambda c, m, v, s: c["added_tokens"].append({"id": 9000, "content": ""})),
        ("no content or no id", lambda c, m, v, s: c["added_tokens"].append({"id": "3", "content": "other"})),
        ("neither true nor false", lambda c, m, v, s: c["added_tokens"].append({"id": 9000, "content": "other", "lstrip": 1})),
        ("spelt as the vocab spells", lambda c, m, v, s: c["added_tokens"].append({"id": v["Ġ"], "content": "Ġ"})),
        ("does not compile|no exact counterpart", lambda c, m, v, s: c["pre_tokenizer"]["pretokenizers"][0].update(pattern={"Regex": "(a"})),
        ("at most 32,768 are read", lambda c, m, v, s: c["pre_tokenizer"]["pretokenizers"][0].update(pattern={"String": "a" * 10**6})),
    ],
    ids=range(30),
)
def test_a_vocabulary_that_cannot_be(said, change, content, load, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(changed(content, change)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(FormatError, match=said) as caught:
            formats.load(str(path))
    assert str(caught.value).startswith(str(path)) and len(str(caught.value)) < 2000


def test_merges_that_look_like_a_circle(content, load):
    """A token is made of shorter ones, so that no merge can need what it makes; but merges may come before their parts'."""

    def circle(c, m, v, s):
        v.update(ab=9000, aba=9001, ba=9002, abab=9003)
        c["post_processor"] = None
        s[:0] = [merge.split() for merge in ("ab ab", "ab a", "a ba", "b a", "aba b", "a b")]

    tokenizer = load(changed(content, circle))
    theirs = pytest.importorskip("tokenizers").Tokenizer.from_str(json.dumps(changed(content, circle)))
    theirs.no_truncation()
    for text in ["ab", "aba", "abab", "ababa", "bababa", "a" * 9 + "b" * 9, "ab" * 50]:
        assert tokenizer.encode(text) == theirs.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("pattern", [r"(?:a*)*b", r"(?:a|a)*b", r"(?:a|aa)+$", r"(\w+\s?)*!"])
def test_a_pattern_that_backtracks_without_end(pattern, content, load):
    chosen = changed(content, lambda c, m, v, s: c["pre_tokenizer"]["pretokenizers"][0].update(pattern={"Regex": pattern}))
    tokenizer = load(chosen, "")
    if tokenizer is None:
        return
    pre_tokenizer = tokenizer.vocabulary.pre_tokenizer
    assert pre_tokenizer.steps[0].time_limit == 60
    steps = tuple(dataclasses.replace(step, time_limit=0.2) for step in pre_tokenizer.steps)
    limited = Tokenizer(dataclasses.replace(tokenizer.vocabulary, pre_tokenizer=dataclasses.replace(pre_tokenizer, steps=steps)))
    begun = time.monotonic()
    try:
        limited.encode("a" * 60 + "c" + "x " * 40 + "?")
    except PreTokenizationTimeout as error:
        assert "more than 0.2 s" in str(error)
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("many", [20_000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_many_added_tokens_load_and_are_found_in_seconds(many, content, load):
    """None of the work is that of every token with every other one."""
    big = copy.deepcopy(content)
    first = len(big["model"]["vocab"])
    rng = random.Random(3)
    texts = list({"<" + "".join(rng.choices("abcdefgh的é", k=rng.randrange(2, 9))) + ">" for _ in range(many)})
    big["added_tokens"] = [{"id": first + i, "content": text, "special": i % 2 == 0, "normalized": i % 3 == 0} for i, text in enumerate(texts)]
    big["post_processor"] = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": text}} for text in texts[: many // 4]] + [{"Sequence": {"id": "A"}}],
                             "special_tokens": {text: {"ids": [first + i]} for i, text in enumerate(texts[: many // 4])}}  # fmt: skip
    begun = time.process_time()
    tokenizer = load(big)
    assert tokenizer.encode("low" + "".join(texts[:1000]), allowed_special="all")[-1000:] == [first + i for i in range(1000)]
    assert tokenizer.encode("<" * 100_000, allowed_special="all")
    again = huggingface.content_of(tokenizer.vocabulary)
    assert len(again["added_tokens"]) == len(texts)
    assert time.process_time() - begun < 30


def test_a_key_twice_among_many_is_told_in_seconds(load):
    rows = ",".join(f'"k{i}":{i}' for i in range(200_000))
    begun = time.process_time()
    load(f'{{{rows},"k199999":1}}'.encode(), "the key 'k199999' stands twice")
    assert time.process_time() - begun < 10


@pytest.mark.parametrize("size", [1 << 20, pytest.param(100 << 20, marks=pytest.mark.slow)])
def test_a_long_token(size, content, load):
    def long(c, m, v, s):
        v["a" * size] = 9000
        c["post_processor"] = None

    tokenizer = load(changed(content, long))
    assert len(tokenizer.token_bytes(9000)) == size and tokenizer.encode("aaa")
    del tokenizer

    def long_added(c, m, v, s):
        c["added_tokens"].append({"id": len(v) + 2, "content": "b" * size})

    tokenizer = load(changed(content, long_added))
    assert tokenizer.encode("a" + "b" * size)[1:] == [len(content["model"]["vocab"]) + 2]


# ---- vocab.json and merges.txt ----


@pytest.fixture
def pair(tmp_path):
    counts = WordCounts.from_documents([TEXT], pattern="gpt2")
    gpt2.save(train(counts, 290, special_tokens=["<|endoftext|>"]), str(tmp_path))
    return tmp_path


def test_truncated_pairs(pair):
    for name in ("vocab.json", "merges.txt"):
        whole = (pair / name).read_bytes()
        for part in range(50):
            (pair / name).write_bytes(whole[: len(whole) * part // 50])
            try:
                formats.load(str(pair))
            except FormatError as error:
                assert str(pair) in str(error)
            else:
                assert name == "merges.txt"  # which may end behind any line
        (pair / name).write_bytes(whole)
    formats.load(str(pair))


def test_broken_pairs(pair):
    vocab, merges = (pair / "vocab.json").read_bytes(), (pair / "merges.txt").read_bytes()
    for name, data, said in [
        ("merges.txt", merges + b"a\n", "not two tokens"),
        ("merges.txt", merges + b"a b c\n", "not two tokens"),
        ("merges.txt", merges + b"a  b\n", "not two tokens"),
        ("merges.txt", merges + "的 b\n".encode(), "needs the token '的'"),
        ("merges.txt", merges + merges.split(b"\n")[1] + b"\n", "are both of"),
        ("merges.txt", merges + b"\xff\n", f"not UTF-8 at byte {len(merges)}"),
        ("merges.txt", merges.decode().encode("utf-16"), "not UTF-8"),
        ("vocab.json", b"", "not JSON"),
        ("vocab.json", b"[]", "not an object"),
        ("vocab.json", vocab.replace(b'"<|endoftext|>": ', b'"<|endoftext|>": -'), "ids from -"),
        ("vocab.json", vocab.replace(b'"<|endoftext|>": ', b'"<|endoftext|>": "x", "yy": '), "no whole number: 'x'"),
        ("vocab.json", vocab.replace(b'"!": 0', b'"!": 1'), "have one id"),
        ("vocab.json", vocab.replace(b'"!": 0', b'"!": 1000000000'), "1000000000"),
        ("vocab.json", vocab.replace(b'"!": 0', b'"\\ud800": 0'), "half a surrogate"),
    ]:
        (pair / name).write_bytes(data)
        with pytest.raises(FormatError, match=said) as caught:
            formats.load(str(pair))
        assert str(pair / name) in str(caught.value)
        (pair / "vocab.json").write_bytes(vocab)
        (pair / "merges.txt").write_bytes(merges)
    (pair / "merges.txt").write_bytes(b"")
    assert len(formats.load(str(pair)).merges) == 0
    (pair / "merges.txt").unlink()
    with pytest.raises(FileNotFoundError, match="merges.txt"):
        formats.load(str(pair))


def test_spellings_of_bytes():
    assert sorted(map(ord, bytelevel.CHARACTERS)) == sorted({ord(c) for c in bytelevel.CHARACTERS}) and len(bytelevel.CHARACTERS) == 256
    for token in [bytes(range(256)), b"", *(bytes([byte]) for byte in range(256))]:
        assert bytelevel.token_of(bytelevel.shown(token)) == token
    tokenizers = pytest.importorskip("tokenizers")
    assert sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()) == sorted(bytelevel.CHARACTERS)
