"""Vocabularies: checked when made, fingerprinted, written and read as a pair of files."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import beam_bpe
from beam_bpe import artifacts, storage, train
from beam_bpe.artifacts import FormatError
from beam_bpe.normalize import spec
from beam_bpe.pretokenize import PreTokenizer, pre_tokenizer
from beam_bpe.reference import BYTE_ORDER
from beam_bpe.formats.parquet import MERGES_FILE, VOCABULARY_FILE
from beam_bpe.vocabulary import Merge, Vocabulary
from beam_bpe.words import WordCounts

ROOT = Path(beam_bpe.__file__).parent.parent
COUNTS = {"low": 5, "lower": 2, "newest": 6, "widest": 3, "日本": 4}
MERGES, VOCABULARY = MERGES_FILE, VOCABULARY_FILE


def learn(size: int = 265, **options) -> Vocabulary:
    words = WordCounts.from_mapping(COUNTS, pre_tokenizer="gpt2")
    return train(words, size, **{"special_tokens": ["<|end|>", "<é>"], **options})


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return learn()


@pytest.fixture
def folder(vocabulary, tmp_path) -> Path:
    vocabulary.save(str(tmp_path / "v"))
    return tmp_path / "v"


def files(folder) -> dict[str, bytes]:
    return {name: (Path(folder) / name).read_bytes() for name in os.listdir(folder)}


def parts(vocabulary: Vocabulary) -> dict:
    return {field.name: getattr(vocabulary, field.name) for field in dataclasses.fields(vocabulary)}


def everything(vocabulary: Vocabulary) -> dict:
    """Return what a vocabulary holds as plain values."""
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in parts(vocabulary).items()}


def refused(folder, *named) -> str:
    with pytest.raises(FormatError) as caught:
        Vocabulary.load(str(folder))
    for name in named or [folder]:
        assert str(name) in str(caught.value)
    return str(caught.value)


def rewrite(path, change=lambda table: table, header=lambda header: header) -> None:
    """Change the table or the header of a file."""
    table = pq.read_table(path)
    artifacts.write_parquet(str(path), change(table), header(json.loads(table.schema.metadata[b"beam_bpe"])))


def replace_value(table: pa.Table, column: str, row: int, value) -> pa.Table:
    values = table[column].to_pylist()
    values[row] = value
    field = table.schema.field(column)
    return table.set_column(table.schema.get_field_index(column), field, pa.array(values, field.type))


# ---- what it holds ----


@pytest.mark.parametrize("specials", [(), ("<e>",), ("<e>", "<f>", "<g>")])
@pytest.mark.parametrize("merges", [0, 1, 5, 1000])
def test_the_size_is_256_and_merges_and_specials(merges, specials, tmp_path):
    made = learn(256 + merges + len(specials), special_tokens=specials)
    made.save(str(tmp_path))
    for one in (made, Vocabulary.load(str(tmp_path))):
        assert len(one) == 256 + len(one.merges) + len(one.special_tokens)
        assert len(one) == len(one.tokens) + len(one.special_ids) == len(set(one.tokens) | set(map(str.encode, specials)))
        assert len(one.merges) == min(merges, len(learn(10_000).merges))
    assert pq.read_metadata(tmp_path / VOCABULARY).num_rows == len(made)
    assert pq.read_metadata(tmp_path / MERGES).num_rows == len(made.merges)


def test_tokens_and_ids(vocabulary):
    alphabet = BYTE_ORDER["huggingface"]
    assert vocabulary.tokens[:256] == [bytes([byte]) for byte in alphabet]
    first = vocabulary.merges[0]
    assert first == Merge(0, b"e", b"s", b"es", 256, 9, 9)
    assert (vocabulary.left[0], vocabulary.right[0]) == (alphabet.index(b"e"), alphabet.index(b"s"))
    assert [merge.id for merge in vocabulary.merges] == list(range(256, 263))
    for merge in vocabulary.merges:
        assert merge.left + merge.right == merge.token == vocabulary.tokens[merge.id]
    assert all(vocabulary.ids[token] == i for i, token in enumerate(vocabulary.tokens))
    assert vocabulary.special_ids == {"<|end|>": 263, "<é>": 264}
    assert "265 tokens, gpt2" in repr(vocabulary) and vocabulary.fingerprint[:12] in repr(vocabulary)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"alphabet": bytes(range(255)) + b"\0"}, "each of the 256 bytes once"),
        ({"alphabet": bytes(range(255))}, "each of the 256 bytes once"),
        ({"left": np.array([1, 2], np.uint32)}, "differ in length"),
        ({"counts": np.array([1], np.int64)}, "differ in length"),
        ({"special_tokens": ("<e>", "")}, "special token 1 is empty"),
        ({"special_tokens": ("<e>", "<e>")}, "'<e>' stands twice"),
        ({"special_tokens": ("e",)}, "'e' is a byte or a learned token"),
        ({"special_tokens": ("<e>", "est")}, "'est' is a byte or a learned token"),
    ],
)
def test_parts_that_make_no_vocabulary(vocabulary, change, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary(**{**parts(vocabulary), **change})


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("rank, token", [(0, 256), (3, 259), (3, 300), (6, 2**32 - 1)])
def test_a_merge_of_what_comes_later(vocabulary, side, rank, token):
    ids = getattr(vocabulary, side).copy()
    ids[rank] = token
    with pytest.raises(ValueError, match=f"merge of rank {rank} is made of token {token}, which comes after it"):
        Vocabulary(**{**parts(vocabulary), side: ids})


def test_two_merges_that_give_the_same_bytes():
    def made(left, right):
        n = len(left)
        return Vocabulary(
            pre_tokenizer("gpt2"), bytes(range(256)), np.array(left, np.uint32), np.array(right, np.uint32),
            np.ones(n, np.int64), np.ones(n, np.int64),
        )  # fmt: skip

    assert made([97, 256, 98], [98, 99, 99]).tokens[256:] == [b"ab", b"abc", b"bc"]
    with pytest.raises(ValueError, match=r"tokens 257 and 259 are both b'abc'"):
        made([97, 256, 98, 97], [98, 99, 99, 258])
    with pytest.raises(ValueError, match=r"tokens 256 and 257 are both b'ab'"):
        made([97, 97], [98, 98])


def test_frozen(vocabulary):
    with pytest.raises(dataclasses.FrozenInstanceError):
        vocabulary.special_tokens = ()


# ---- fingerprint ----


def test_the_fingerprint_is_fixed():
    """It is written into artifacts: another value for the same vocabulary orphans them."""
    spec = {"name": "gpt2", "pattern": "p", "gaps": "none", "library": "unicode 16.0"}
    made = Vocabulary(
        PreTokenizer(**spec), bytes(range(256)), np.array([97], np.uint32), np.array([98], np.uint32),
        np.array([3], np.int64), np.array([3], np.int64), ("<e>",),
    )  # fmt: skip
    head = (
        '{"algorithm":"bpe","alphabet":"' + "".join(f"{byte:02x}" for byte in range(256)) + '","merges":1,"normalizer":null,'
        '"pre_tokenizer":{"gaps":"none","library":"unicode 16.0","name":"gpt2","pattern":"p"},"special_tokens":["<e>"],"unit":"byte"}'
    )
    assert made.fingerprint == hashlib.sha256(head.encode() + b"a\0\0\0" + b"b\0\0\0").hexdigest()


def test_each_ingredient_changes_the_fingerprint(vocabulary):
    whole = parts(vocabulary)
    left, right = vocabulary.left.copy(), vocabulary.right.copy()
    left[0], right[0] = right[0], left[0]
    spec = vocabulary.pre_tokenizer.spec()
    changes = [
        {"left": left, "right": right},
        {"left": vocabulary.left[:6], "right": vocabulary.right[:6], "counts": vocabulary.counts[:6], "replaced": vocabulary.replaced[:6]},
        {"special_tokens": ()},
        {"special_tokens": ("<|end|>",)},
        {"special_tokens": ("<é>", "<|end|>")},
        {"special_tokens": ("<|end|>", "<e>")},
        {"alphabet": bytes(range(256))},
        {"normalizer": "NFC"},
        *({"pre_tokenizer": PreTokenizer(**{**spec, key: "x"})} for key in spec),
    ]
    made = [Vocabulary(**{**whole, **change}) for change in changes]
    assert len({one.fingerprint for one in [vocabulary, *made]}) == 1 + len(changes)
    assert all(one != vocabulary for one in made)


@pytest.mark.parametrize(
    "change",
    [
        {"counts": np.arange(7)},
        {"replaced": np.arange(7)},
        {"stop_reason": "no_pairs"},
        {"parameters": {"x": 1}},
        {"totals": {"words": 3}},
        {"pre_tokenizer": pre_tokenizer("gpt2", time_limit=1)},
    ],
)
def test_nothing_else_changes_the_fingerprint(vocabulary, change):
    other = Vocabulary(**{**parts(vocabulary), **change})
    assert other.fingerprint == vocabulary.fingerprint and other == vocabulary and hash(other) == hash(vocabulary)


def test_ids_of_any_integer_type_have_one_fingerprint(vocabulary):
    whole = parts(vocabulary)
    for type_ in (np.int64, np.uint16, ">u4"):
        other = Vocabulary(**{**whole, "left": vocabulary.left.astype(type_), "right": vocabulary.right.astype(type_)})
        assert other.fingerprint == vocabulary.fingerprint


def test_the_fingerprint_is_that_of_the_words_not_of_their_scale():
    doubled = train(WordCounts.from_mapping(COUNTS, pre_tokenizer="gpt2").weigh(2), 265, special_tokens=["<|end|>", "<é>"])
    assert doubled == learn() and doubled.counts.tolist() != learn().counts.tolist()


def test_equality_with_something_else(vocabulary):
    assert vocabulary != vocabulary.fingerprint and vocabulary != 3 and vocabulary == learn()
    assert len({vocabulary, learn(), learn(264)}) == 2


def test_pickling(vocabulary):
    for _ in range(2):
        again = pickle.loads(pickle.dumps(vocabulary))
        assert again == vocabulary and everything(again) == everything(vocabulary) and again.tokens == vocabulary.tokens
    fresh, used = learn(), learn()
    assert used.tokens and used.ids and used.fingerprint
    assert len(pickle.dumps(used)) == len(pickle.dumps(fresh))


# ---- files ----


def test_round_trip(vocabulary, folder):
    again = Vocabulary.load(str(folder))
    assert again == vocabulary and everything(again) == everything(vocabulary)
    for path in (folder / MERGES, folder / VOCABULARY, f"{folder}/"):
        assert Vocabulary.load(str(path)) == vocabulary


@pytest.mark.parametrize("options", [{"tie_break": "bytes"}, {"tie_break": "lexicographic"}, {"max_token_length": 3}, {"special_tokens": ()}])
def test_round_trip_of_others(options, tmp_path):
    made = learn(**options)
    made.save(str(tmp_path))
    assert everything(Vocabulary.load(str(tmp_path))) == everything(made)


def test_the_names_are_enough_in_the_working_folder(vocabulary, folder, monkeypatch):
    monkeypatch.chdir(folder)
    for path in (".", MERGES, VOCABULARY):
        assert Vocabulary.load(path) == vocabulary


def test_without_merges(tmp_path):
    made = learn(258)
    made.save(str(tmp_path))
    assert Vocabulary.load(str(tmp_path)).merges == [] and everything(Vocabulary.load(str(tmp_path))) == everything(made)


def test_on_another_store(vocabulary):
    vocabulary.save("memory://test-vocabulary/v")
    assert everything(Vocabulary.load("memory://test-vocabulary/v")) == everything(vocabulary)
    assert Vocabulary.load("memory://test-vocabulary/v/merges.parquet") == vocabulary
    with pytest.raises(FileExistsError):
        learn(264).save("memory://test-vocabulary/v")
    learn(264).save("memory://test-vocabulary/v", overwrite=True)
    assert Vocabulary.load("memory://test-vocabulary/v") == learn(264)
    fsspec.filesystem("memory").rm("/test-vocabulary", recursive=True)


def test_schema_of_the_merges(vocabulary, folder):
    table = pq.read_table(folder / MERGES)
    assert [(field.name, str(field.type)) for field in table.schema] == [
        ("rank", "uint32"), ("left_id", "uint32"), ("right_id", "uint32"), ("id", "uint32"),
        ("left", "binary"), ("right", "binary"), ("token", "binary"), ("count", "int64"), ("replaced", "int64"),
    ]  # fmt: skip
    assert not any(field.nullable for field in table.schema)
    for row, merge in zip(table.to_pylist(), vocabulary.merges, strict=True):
        assert row == {
            **merge._asdict(), "left_id": vocabulary.ids[merge.left], "right_id": vocabulary.ids[merge.right],
        }  # fmt: skip


def test_schema_of_the_vocabulary(vocabulary, folder):
    table = pq.read_table(folder / VOCABULARY)
    assert [(field.name, str(field.type), field.nullable) for field in table.schema] == [
        ("id", "uint32", False), ("token", "binary", False), ("kind", "string", False), ("score", "double", True),
    ]  # fmt: skip
    assert table["id"].to_pylist() == list(range(265))
    assert table["token"].to_pylist() == [*vocabulary.tokens, b"<|end|>", "<é>".encode()]
    assert table["kind"].to_pylist() == ["byte"] * 256 + ["merge"] * 7 + ["special"] * 2
    assert table["score"].null_count == 265


def test_headers(vocabulary, folder):
    headers = []
    for name in (MERGES, VOCABULARY):
        metadata = pq.read_schema(folder / name).metadata
        assert list(metadata) == [b"beam_bpe"]
        headers.append(json.loads(metadata[b"beam_bpe"]))
    assert [header.pop("kind") for header in headers] == ["merges", "vocabulary"]
    assert headers[0] == headers[1]
    assert headers[0] == {
        "algorithm": "bpe", "unit": "byte", "fingerprint": vocabulary.fingerprint, "version": artifacts.__version__,
        "pre_tokenizer": pre_tokenizer("gpt2").spec(), "normalizer": None, "special_tokens": ["<|end|>", "<é>"],
        "stop_reason": "vocab_size", "parameters": vocabulary.parameters, "totals": vocabulary.totals,
    }  # fmt: skip
    assert vocabulary.totals["distinct_words"] == len(COUNTS) and vocabulary.totals["words"] == sum(COUNTS.values())
    assert vocabulary.parameters["words"] == WordCounts.from_mapping(COUNTS, pre_tokenizer="gpt2").parameters


def test_the_same_bytes_twice(vocabulary, tmp_path):
    vocabulary.save(str(tmp_path / "a"))
    Vocabulary.load(str(tmp_path / "a")).save(str(tmp_path / "elsewhere" / "b"))
    assert files(tmp_path / "a") == files(tmp_path / "elsewhere" / "b")
    code = (
        "import sys; from beam_bpe import WordCounts, train\n"
        f"words = WordCounts.from_mapping({COUNTS!r}, pre_tokenizer='gpt2')\n"
        "train(words, 265, special_tokens=['<|end|>', '<é>']).save(sys.argv[1])\n"
    )
    for seed in ("1", "2"):
        target = tmp_path / seed
        subprocess.run(
            [sys.executable, "-c", code, str(target)], check=True, cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )  # fmt: skip
        assert files(target) == files(tmp_path / "a")


def test_any_reader_of_parquet_reads_them(folder):
    code = (
        "import sys; sys.modules['pandas'] = None; sys.modules['numpy'] = None\n"
        "import pyarrow.parquet as pq\n"
        "for name in ('merges', 'vocabulary'): print(len(pq.read_table(f'{sys.argv[1]}/{name}.parquet').to_pylist()))\n"
        "assert not any(name.startswith('beam_bpe') for name in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], check=True, capture_output=True, text=True, cwd=folder)
    assert done.stdout.split() == ["7", "265"]


def test_pandas_is_not_needed(vocabulary, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert Vocabulary.load(str(folder)) == vocabulary


# ---- writing over another, and writes that fail ----


def test_another_vocabulary_is_not_overwritten(vocabulary, folder):
    before = files(folder)
    with pytest.raises(FileExistsError, match="already holds a vocabulary") as caught:
        learn(264).save(str(folder))
    assert str(folder) in str(caught.value) and files(folder) == before
    vocabulary.save(str(folder))  # itself
    assert files(folder) == before
    learn(264).save(str(folder), overwrite=True)
    assert Vocabulary.load(str(folder)) == learn(264)


def test_a_broken_vocabulary_is_not_overwritten_either(vocabulary, folder):
    (folder / MERGES).write_bytes(b"")
    with pytest.raises(FileExistsError):
        vocabulary.save(str(folder))
    vocabulary.save(str(folder), overwrite=True)
    assert Vocabulary.load(str(folder)) == vocabulary


class Full(OSError):
    pass


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("failing", [MERGES, VOCABULARY])
def test_a_write_that_fails_leaves_no_wrong_pair(folder, tmp_path, monkeypatch, failing, old):
    target = folder if old else tmp_path / "new"
    real = storage._Sink.write

    def write(self, data):
        if self.url.endswith(failing):
            real(self, data[: len(data) // 2])
            raise Full(28, "No space left on device")
        return real(self, data)

    monkeypatch.setattr(storage._Sink, "write", write)
    with pytest.raises(Full):
        learn(264).save(str(target), overwrite=True)
    monkeypatch.undo()
    assert VOCABULARY not in os.listdir(target) and not [n for n in os.listdir(target) if n.endswith(".tmp")]
    with pytest.raises(FileNotFoundError, match="holds no vocabulary"):
        Vocabulary.load(str(target))
    learn(264).save(str(target))
    assert Vocabulary.load(str(target)) == learn(264)


def test_every_state_between_the_writes_is_whole_or_refused(folder, monkeypatch):
    """Look after each step of a save over an old vocabulary, as a reader at that moment would."""
    new, seen = learn(264), []

    def look() -> None:
        try:
            seen.append(Vocabulary.load(str(folder)).fingerprint)
        except FileNotFoundError:
            seen.append("absent")

    for name in ("remove", "write_bytes"):
        real = getattr(storage, name)
        monkeypatch.setattr(storage, name, lambda *args, real=real: (real(*args), look())[0])
    real_write = artifacts.write_parquet
    monkeypatch.setattr(artifacts, "write_parquet", lambda *args: (real_write(*args), look())[0])
    look()
    new.save(str(folder), overwrite=True)
    assert seen == [learn().fingerprint, "absent", "absent", new.fingerprint]


# ---- files that are broken, or do not belong together ----


def test_nothing_there(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere", tmp_path / MERGES):
        with pytest.raises(FileNotFoundError, match="holds no vocabulary"):
            Vocabulary.load(str(path))


def test_one_file_missing(folder):
    (folder / MERGES).unlink()
    with pytest.raises(FileNotFoundError) as caught:
        Vocabulary.load(str(folder))
    assert str(folder / MERGES) in str(caught.value)


@pytest.mark.parametrize("name", [MERGES, VOCABULARY])
@pytest.mark.parametrize("share", [0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file(folder, name, share):
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: int(share * len(whole))])
    assert "not a whole Parquet file" in refused(folder, folder / name)


@pytest.mark.parametrize("name", [MERGES, VOCABULARY])
@pytest.mark.parametrize("seed", range(40))
def test_no_damage_leads_to_another_vocabulary(vocabulary, folder, name, seed):
    path, rng = folder / name, random.Random(seed)
    broken = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 4, 16))):
        broken[rng.randrange(len(broken))] = rng.randrange(256)
    path.write_bytes(broken)
    try:
        assert Vocabulary.load(str(folder)) == vocabulary
    except FormatError as error:
        assert str(folder) in str(error)


@pytest.mark.parametrize("other", [{"size": 264}, {"tie_break": "bytes"}, {"special_tokens": ["<|end|>", "<f>"]}])
@pytest.mark.parametrize("name", [MERGES, VOCABULARY])
def test_a_file_of_another_vocabulary(folder, tmp_path, name, other):
    learn(**other).save(str(tmp_path / "other"))
    (folder / name).write_bytes((tmp_path / "other" / name).read_bytes())
    assert "not of one vocabulary" in refused(folder, folder / MERGES, folder / VOCABULARY)


def test_the_two_files_swapped(folder):
    merges, vocabulary = (folder / name for name in (MERGES, VOCABULARY))
    both = merges.read_bytes(), vocabulary.read_bytes()
    vocabulary.write_bytes(both[0])
    merges.write_bytes(both[1])
    assert "holds 'merges', not 'vocabulary'" in refused(folder, vocabulary)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t.slice(0, 6), "fingerprint"),
        (lambda t: t.slice(1), "fingerprint|comes after|are both"),
        (lambda t: t.take([2, 1, 0, *range(3, 7)]), "fingerprint|comes after|are both"),
        (lambda t: replace_value(t, "left_id", 0, 5), "fingerprint"),
        (lambda t: replace_value(t, "right_id", 0, 256), "comes after it"),
        (lambda t: replace_value(t, "left_id", 6, 2**32 - 1), "comes after it"),
        (lambda t: replace_value(t, "token", 0, b"se"), "do not belong together"),
        (lambda t: replace_value(t, "left", 0, b"s"), "do not belong together"),
        (lambda t: replace_value(t, "rank", 0, 1), "do not belong together"),
        (lambda t: replace_value(t, "id", 0, 257), "do not belong together"),
        (lambda t: t.drop_columns(["replaced"]), "has the columns"),
        (lambda t: t.rename_columns([*t.column_names[:-1], "made"]), "has the columns"),
        (lambda t: t.set_column(0, "rank", t["rank"].cast(pa.int64())), "has the columns"),
        (lambda t: t.set_column(7, "count", pa.nulls(7, pa.int64())), "has the columns"),
    ],
)
def test_edited_merges(folder, change, message):
    rewrite(folder / MERGES, change)
    with pytest.raises(FormatError, match=message) as caught:
        Vocabulary.load(str(folder))
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t.slice(0, 255), "each of the 256 bytes once"),
        (lambda t: t.slice(0, 264), "the tokens are not those"),
        (lambda t: t.take([1, 0, *range(2, 265)]), "fingerprint"),
        (lambda t: t.take([*range(256), 257, 256, *range(258, 265)]), "the tokens are not those"),
        (lambda t: replace_value(t, "token", 0, b"!!"), "each of the 256 bytes once|argument should be|bytes"),
        (lambda t: replace_value(t, "token", 256, b"se"), "the tokens are not those"),
        (lambda t: replace_value(t, "token", 264, b"<f>"), "the tokens are not those"),
        (lambda t: replace_value(t, "id", 264, 263), "the tokens are not those"),
        (lambda t: replace_value(t, "kind", 264, "merge"), "the tokens are not those"),
        (lambda t: t.drop_columns(["score"]), "has the columns"),
    ],
)
def test_edited_tokens(folder, change, message):
    rewrite(folder / VOCABULARY, change)
    with pytest.raises(FormatError, match=message) as caught:
        Vocabulary.load(str(folder))
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("key", ["fingerprint", "algorithm", "unit"])
@pytest.mark.parametrize("name", [MERGES, VOCABULARY])
def test_a_header_that_lacks_what_the_pair_is_told_by(folder, name, key):
    rewrite(folder / name, header=lambda h: {k: v for k, v in h.items() if k != key})
    refused(folder, folder / name)


@pytest.mark.parametrize("key", ["pre_tokenizer", "normalizer", "special_tokens", "stop_reason", "parameters", "totals"])
def test_a_header_that_lacks_something_else(folder, key):
    rewrite(folder / VOCABULARY, header=lambda h: {k: v for k, v in h.items() if k != key})
    assert repr(key) in refused(folder, folder / VOCABULARY)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"special_tokens": ["<|end|>"]}, "fingerprint"),
        ({"special_tokens": ["<|end|>", "e"]}, "'e' is a byte or a learned token"),
        ({"normalizer": "NFC"}, "no 'normalizer_spec'"),
        ({"normalizer": "NFC", "normalizer_spec": spec("NFC")}, "fingerprint"),
        ({"normalizer": "NFC", "normalizer_spec": {"steps": []}}, "the normalizer 'NFC' was {'steps': []}; here it is"),
        ({"pre_tokenizer": pre_tokenizer("o200k").spec()}, "fingerprint"),
        ({"algorithm": "markov"}, "algorithm='markov': choose one of bpe, wordpiece, wordlevel"),
        ({"algorithm": "wordpiece"}, "algorithm='wordpiece' is of characters: choose unit='character'"),
        ({"unit": "character"}, "characters outside the alphabet have no token"),
        ({"unit": "character", "model": {"unk_token": "<unk>"}}, "a vocabulary of algorithm 'bpe' over characters has a layout"),
        ({"model": {"unk": "<unk>"}}, "the model has the property 'unk', which is not known"),
        ({"kind": "words"}, "holds 'words', not 'vocabulary'"),
        ({"fingerprint": "0" * 64}, "fingerprints differ"),
    ],
)
def test_an_edited_header(folder, change, message):
    rewrite(folder / VOCABULARY, header=lambda h: {**h, **change})
    assert message in refused(folder, folder)


@pytest.mark.parametrize("name", [MERGES, VOCABULARY])
def test_a_parquet_file_of_somebody_else(folder, name):
    pq.write_table(pa.table({"word": ["low"], "count": [1]}), folder / name)
    assert "was not written by beam_bpe" in refused(folder, folder / name)


# ---- functions as pre-tokenizers ----


def test_a_function_is_not_imported_unless_allowed(tmp_path, monkeypatch):
    trace, module = tmp_path / "imported", f"splitter_{os.getpid()}"
    (tmp_path / f"{module}.py").write_text(f"open({str(trace)!r}, 'w').close()\ndef words(text): return text.split()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    function = f"{module}:words"
    spec = {"name": "callable", "pattern": function, "gaps": "drop", "library": f"python {function}"}
    words = dataclasses.replace(WordCounts.from_mapping(COUNTS), parameters={"pre_tokenizer": spec})
    train(words, 260).save(str(tmp_path / "v"))
    loaded = Vocabulary.load(str(tmp_path / "v"), allow_callables=["other:function"])
    assert loaded.pre_tokenizer.spec() == spec and len(loaded) == 260
    with pytest.raises(ValueError, match="allow_callables"):
        loaded.pre_tokenizer.split("low")
    assert not trace.exists() and module not in sys.modules
    assert Vocabulary.load(str(tmp_path / "v"), allow_callables=[function]).pre_tokenizer.split("low er") == ["low", "er"]
    assert trace.exists()
    sys.modules.pop(module)
