"""SentencePiece's .model files: read, checked and written; damaged and hostile ones are told, in bounded memory."""

from __future__ import annotations

import ast
import io
import random
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe.artifacts import FormatError
from beam_bpe.formats import model_file, model_proto
from beam_bpe.formats.model_file import KINDS, SentencePieceModel, content_of, model_of, read_model, write_model
from beam_bpe.model import byte_token

spm = pytest.importorskip("sentencepiece")

MODELS = ("test_ja_model", "test_model", "trained_botchan_bpe_1000", "trained_botchan_bpe_2000_bytefallback")
MODELS += ("trained_botchan_unigram_1000",)


def small(**changes):
    given = {"pieces": ("<unk>", "▁", "a", "ab", "é"), "scores": [0, -3.5, -2, -1, -9], "kinds": ("unknown", *["normal"] * 4)}
    return SentencePieceModel(**{**given, "trainer": {"model_type": "unigram"}, "normalizer": {"name": "identity"}, **changes})


def trained(lines=("low lower lowest", "new newer newest"), **options):
    writer = io.BytesIO()
    usual = {"vocab_size": 40, "model_type": "bpe", "hard_vocab_limit": False, "minloglevel": 2}
    spm.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=writer, **{**usual, **options})
    return writer.getvalue()


# ---- there and back ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_the_same_bytes(name, shared, tmp_path):
    path = shared / "reference" / "spm" / f"{name}.model"
    model = read_model(str(path))
    peer = spm.SentencePieceProcessor(model_file=str(path))
    assert list(model.pieces) == [peer.id_to_piece(i) for i in range(len(peer))]
    assert model.scores.tolist() == [peer.get_score(i) for i in range(len(peer))]
    assert [kind == "control" for kind in model.kinds] == [peer.is_control(i) for i in range(len(peer))]
    assert [kind == "byte" for kind in model.kinds] == [peer.is_byte(i) for i in range(len(peer))]
    assert model.kinds.index("unknown") == peer.unk_id()
    write_model(model, str(tmp_path / "written.model"))
    assert (tmp_path / "written.model").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"model_type": "unigram", "normalization_rule_name": "nfkc_cf", "denormalization_rule_tsv": "rules"},
        {"model_type": "word"},
        {"model_type": "char", "required_chars": "lo"},
        {"byte_fallback": True, "vocab_size": 300, "split_digits": True, "user_defined_symbols": "<x>,▁y", "control_symbols": "<c>"},
        {"pad_id": 0, "unk_id": 3, "bos_id": -1, "unk_surface": "?", "unk_piece": "[UNK]", "normalization_rule_name": "identity"},
        {"treat_whitespace_as_suffix": True, "add_dummy_prefix": False, "remove_extra_whitespaces": False, "character_coverage": 0.99},
    ],
)  # fmt: skip
def test_what_the_library_trains(options, tmp_path):
    if "denormalization_rule_tsv" in options:
        (tmp_path / "rules").write_text("61\t62\n")
        options = {**options, "denormalization_rule_tsv": str(tmp_path / "rules")}
    data = trained(**options)
    model = model_of(data)
    assert content_of(model) == data
    assert (model.denormalizer is not None) == ("denormalization_rule_tsv" in options)
    for name in set(options) - {"normalization_rule_name", "denormalization_rule_tsv", "vocab_size", "character_coverage"}:
        said = model.option(name)
        assert (",".join(said) if isinstance(said, tuple) else said) == options[name]


def test_options_and_their_defaults():
    model = small()
    assert model.option("unk_surface") == " \u2047 " and model.option("pad_id") == -1 and model.option("input") == ()
    assert model.option("add_dummy_prefix") is True and model.option("model_type") == "unigram"
    assert model.option("character_coverage") == pytest.approx(0.9995) and model.option("precompiled_charsmap") == b""
    with pytest.raises(KeyError, match="'dummy' is no option"):
        model.option("dummy")


def test_what_is_written_loads_in_the_library():
    peer = spm.SentencePieceProcessor(model_proto=content_of(small()))
    assert peer.encode("aba ab", out_type=str) == ["▁", "ab", "a", "▁", "ab"]
    tokens = ("<unk>", "<s>", *map(byte_token, range(256)), "a")
    kinds = ("unknown", "control", *["byte"] * 256, "normal")
    for algorithm in ("bpe", "unigram"):
        model = SentencePieceModel(tokens, np.zeros(259), kinds, {"model_type": algorithm, "byte_fallback": True})
        assert spm.SentencePieceProcessor(model_proto=content_of(model)).encode("é", out_type=str)[-2:] == ["<0xC3>", "<0xA9>"]


def test_fields_that_are_not_known_are_kept():
    """The samples of the self-test, which the library no longer has (number 4), and extensions (from 200)."""
    data = content_of(small())
    strange = data + b"\x22\x02hi" + b"\xc2\x0c\x01x"
    model = model_of(strange)
    assert model.others == {"": b"\x22\x02hi\xc2\x0c\x01x"} and content_of(model) == strange
    inside = data.replace(b"\x12\x02\x18\x01", b"\x12\x06\x18\x01\xc2\x0c\x01x")
    assert len(inside) == len(data) + 4
    model = model_of(inside)
    assert model.others == {"trainer_spec": b"\xc2\x0c\x01x"} and content_of(model) == inside


def test_a_file_is_not_replaced(tmp_path):
    path = str(tmp_path / "some.model")
    write_model(small(), path)
    write_model(small(), path)
    with pytest.raises(FileExistsError):
        write_model(small(scores=[0, -3, -2, -1, -9]), path)
    write_model(small(scores=[0, -3, -2, -1, -9]), path, overwrite=True)
    assert read_model(path).scores.tolist() == [0, -3, -2, -1, -9]
    with pytest.raises(FileNotFoundError):
        read_model(str(tmp_path / "none.model"))


def test_the_messages_are_those_of_the_package():
    """Names, numbers, types and defaults, as its generated module describes them; texts are bytes here."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    source = (Path(spm.__file__).parent / "sentencepiece_model_pb2.py").read_text()
    described = [
        node.args[0].value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "AddSerializedFile"
    ]
    theirs = descriptor_pb2.FileDescriptorProto.FromString(described[0])
    messages = {message.name: message for message in theirs.message_type}
    messages |= {nested.name: nested for message in theirs.message_type for nested in message.nested_type}
    types = descriptor_pb2.FieldDescriptorProto
    for name, message in messages.items():
        expected = set()
        for field in message.field:
            kind = field.type_name.rsplit(".")[-1] or types.Type.Name(field.type)[5:].lower().replace("string", "bytes")
            repeated = field.label == types.LABEL_REPEATED
            expected.add((field.name, field.number, kind, repeated, field.default_value or None))
        assert set(model_proto.fields(name)) == expected
        for enum in message.enum_type:
            assert model_proto._ENUMS[name, enum.name] == {value.name: value.number for value in enum.value}


# ---- damaged and hostile -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said, changes",
    [
        ("piece 2 is empty", {"pieces": ("<unk>", "▁", "", "ab", "é")}),
        ("pieces 1 and 4 are both '▁'", {"pieces": ("<unk>", "▁", "a", "ab", "▁")}),
        ("pieces 0 and 4 are both '<unk>'", {"pieces": ("<unk>", "▁", "a", "ab", "<unk>")}),
        ("piece 3, 'a\\x00b', holds a NUL", {"pieces": ("<unk>", "▁", "a", "a\0b", "é")}),
        ("has more than 7,999 bytes", {"pieces": ("<unk>", "▁", "a", "é" * 4000, "é")}),
        ("has the score nan", {"scores": [0, -1, float("nan"), -1, 0]}),
        ("piece 3, 'ab', has the score inf", {"scores": [0, -1, 0, float("inf"), 0]}),
        ("has the score -inf", {"scores": [0, -1, 0, -1e39, 0]}),
        ("there is no unknown piece", {"kinds": ("control", *["normal"] * 4)}),
        ("pieces 0 and 3 are both unknown", {"kinds": ("unknown", "normal", "normal", "unknown", "normal")}),
        ("kind='strange'", {"kinds": ("unknown", "normal", "normal", "strange", "normal")}),
        ("5 pieces, 4 scores and 5 kinds", {"scores": [0, 0, 0, 0]}),
        ("there are 0 pieces", {"pieces": (), "scores": [], "kinds": ()}),
        ("<0x00> is missing", {"trainer": {"byte_fallback": True}}),
        ("'ab', is a byte and not spelled as one", {"kinds": ("unknown", "normal", "normal", "byte", "normal")}),
        ("<0x41> is a byte, and byte_fallback is not set", {"pieces": ("<unk>", "<0x41>", "a", "b", "c"), "kinds": ("unknown", "byte", *["normal"] * 3)}),
        ("model_type='lm'", {"trainer": {"model_type": "lm"}}),
    ],
)  # fmt: skip
def test_what_contradicts_itself(said, changes):
    with np.errstate(over="ignore"), pytest.raises(ValueError) as error:
        small(**changes)
    assert said in str(error.value)


def raw(field, content):
    """Return a field of bytes, with a number below 16."""
    size, length = len(content), b""
    while size >= 0x80:
        length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
    return bytes([field << 3 | 2]) + length + bytes([size]) + content


@pytest.mark.parametrize(
    "said, data",
    [
        ("there are 0 pieces", b""),
        ("field at byte 0 has 2,147,483,648 bytes, and 3 are left", b"\x0a\x80\x80\x80\x80\x08abc"),
        ("field at byte 4 has 18,446,744,073,709,551,615 bytes", raw(1, b"\x0a\x00") + b"\x12" + b"\xff" * 9 + b"\x01"),
        ("the number at byte 1 has more than 10 bytes", b"\x0a" + b"\xff" * 10),
        ("the number at byte 1 has no end", b"\x0a\xff"),
        ("byte 0 begins no field", b"\x0b\x0c"),
        ("byte 4 begins no field", raw(1, b"\x0a\x00") + b"\x07"),
        ("byte 0 begins no field", b"{}"),
        ("piece 1 at byte 7 is damaged", raw(1, b"\x0a\x03abc") + raw(1, b"\x0a\x09abc")),
        ("trainer_spec at byte 7 is damaged", raw(1, b"\x0a\x03abc") + raw(2, b"\x0a\x09abc")),
        ("piece 0, b'\\xff', is not UTF-8", raw(1, b"\x0a\x01\xff")),
        ("control_symbols, b'\\xff', is not UTF-8", raw(1, b"\x0a\x01a") + raw(2, b"\xf2\x01\x01\xff")),
        ("piece 0 at byte 0 has 0 bytes", raw(1, b"")),
        ("piece 1 at byte 7 has 9,003 bytes; a piece has from 1 to 7,999", raw(1, b"\x0a\x03abc") + raw(1, raw(1, b"a" * 9000))),
        ("piece 0 has a kind that is not known", raw(1, b"\x0a\x01a\x18\x09")),
        ("model_type that is not known", raw(1, b"\x0a\x01a\x18\x02") + raw(2, b"\x18\x09")),
    ],
)  # fmt: skip
def test_damaged_bytes(said, data, tmp_path):
    path = tmp_path / "damaged.model"
    path.write_bytes(data)
    with pytest.raises(FormatError) as error:
        read_model(str(path))
    assert str(error.value).startswith(str(path)) and said in str(error.value)


@pytest.mark.parametrize(
    "data, said",
    [
        (raw(1, b"\x0a\x00") * 30_000, "more than 20,000 pieces"),
        (raw(1, b"") * 1_000_000, "piece 0 at byte 0 has 0 bytes"),
        (raw(2, raw(1, b"") * (1 << 23)), "more than 16,777,216 bytes that are no pieces"),
        (b"\x28\x00" * 1_000_000, "more than 1,000 fields that are no pieces"),
        (raw(1, raw(1, b"a" * 20_000)) * 100, "piece 0 at byte 0 has 20,004 bytes"),
    ],
)
def test_bounded_memory(data, said, monkeypatch):
    """The runtime, which takes up to 30 times the bytes, does not see what is refused."""
    monkeypatch.setattr(model_file, "MOST_IDS", 20_000)
    monkeypatch.setattr(model_proto, "messages", lambda: pytest.fail("the runtime is called"))
    tracemalloc.start()
    try:
        with pytest.raises(FormatError) as error:
            model_of(data)
        assert said in str(error.value) and tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def told_or_whole(data):
    """Return the model, None for a FormatError of one line; what is read can be written and read again."""
    try:
        model = model_of(data, "some.model")
    except FormatError as error:
        assert str(error).startswith("some.model") and "\n" not in str(error) and len(str(error)) < 2000
        return None
    again = model_of(content_of(model))
    assert (again.pieces, again.kinds, again.trainer, again.normalizer) == (
        model.pieces,
        model.kinds,
        model.trainer,
        model.normalizer,
    )
    return model


def test_cut_off_anywhere():
    data = content_of(small(normalizer={}, trainer={}))  # and so only pieces have bytes
    whole = [told_or_whole(data[:end]) for end in range(len(data))]
    ends = [end for end, model in enumerate(whole) if model is not None]
    assert 1 < len(ends) < 8 and all(len(whole[end].pieces) < 6 for end in ends)


def test_random_bytes_changed():
    data = trained(user_defined_symbols="<x>", model_type="unigram", normalization_rule_name="identity", vocab_size=30)
    rng = random.Random(11)
    broken = 0
    for _ in range(2000):
        changed = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(len(data))] = rng.randrange(256)
        broken += told_or_whole(bytes(changed)) is None
    assert 500 < broken < 2000


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes(data):
    told_or_whole(data)


SCORES = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.text(min_size=1, max_size=5), SCORES, st.sampled_from(KINDS[2:5] + KINDS[:1])),
        max_size=8,
        unique_by=lambda one: one[0],
    )
)
def test_any_pieces(rows):
    rows = [("<unk>", 0.0, "unknown"), *[row for row in rows if "\0" not in row[0] and row[0] != "<unk>"]]
    pieces, scores, kinds = zip(*rows)
    model = SentencePieceModel(pieces, scores, kinds)
    again = model_of(content_of(model))
    assert again.pieces == pieces and again.kinds == kinds and again.scores.tolist() == model.scores.tolist()


def test_a_damaged_normalizer():
    """Its tables are walked by native code of the library, which trusts them."""
    data = trained(normalization_rule_name="nmt_nfkc")
    model = model_of(data)
    charsmap = model.option("precompiled_charsmap")
    size = int.from_bytes(charsmap[:4], "little")

    def refused(changed):
        with pytest.raises(ValueError, match="precompiled normalizer"):
            replace(model, normalizer={**model.normalizer, "precompiled_charsmap": changed})

    for changed in (
        charsmap[:1000],
        charsmap[:-1],
        b"\xff\xff\xff\x7f" + charsmap[4:],
        charsmap[:3],
        b"\0\0\0\0" + charsmap[4:],
    ):
        refused(changed)
    units = np.frombuffer(charsmap, "<u4", size // 4, offset=4)
    leaf = int(np.argmax(units >> 31 == 1))
    for place, unit in ((0, 0x7FFFFE00), (leaf, 0x80FFFFFF), (3, 0x3FFFFF00)):
        changed = units.copy()
        changed[place] = unit
        refused(charsmap[:4] + changed.tobytes() + charsmap[4 + size :])


@pytest.mark.parametrize(
    "data",
    [
        raw(1, b"\x0a\x01a\x15\0\0\0\0"),
        raw(1, b"\x0a\x01u\x18\x02") + raw(1, b"\x0a\x01a\x15\0\0\xc0\x7f"),
        raw(1, b"\x0a\x01u\x18\x02") + raw(1, b"\x0a\x01a") * 2,
        raw(1, b"\x0a\x01u\x18\x02") * 2,
        raw(1, b"\x0a\x01u\x18\x02") + raw(1, b"\x15\0\0\0\0"),
        raw(1, b"\x0a\x01u\x18\x02") + raw(1, b"\x0a\x06<0x00>\x18\x06"),
    ],
)
def test_the_library_refuses_it_too(data):
    with pytest.raises(FormatError):
        model_of(data)
    with pytest.raises(RuntimeError):
        spm.SentencePieceProcessor(model_proto=data)


def test_the_module_needs_no_package():
    assert "import sentencepiece" not in Path(model_file.__file__).read_text()
