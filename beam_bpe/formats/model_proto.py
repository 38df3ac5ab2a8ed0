"""The messages of a SentencePiece model file, for the protobuf runtime.

The module that sentencepiece ships is generated for one version of the runtime and newer ones: that of 0.2.3 for protobuf 7,
which Beam 2.77 does not allow.  So the messages are described here, as sentencepiece_model.proto has them, and live in a pool
of their own, where they meet no other description of the same names.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Iterator

_PACKAGE = "sentencepiece"
_ENUMS = {
    ("TrainerSpec", "ModelType"): {"UNIGRAM": 1, "BPE": 2, "WORD": 3, "CHAR": 4},
    ("SentencePiece", "Type"): {"NORMAL": 1, "UNKNOWN": 2, "CONTROL": 3, "USER_DEFINED": 4, "UNUSED": 5, "BYTE": 6},
}
#: Message: fields, each with its number, type ("*" behind it: repeated) and default, if it has one.
#: A text is bytes here, so that one that is not UTF-8 can be told.
_FIELDS = {
    "SentencePiece": """
        piece 1 bytes
        score 2 float
        type 3 Type NORMAL""",
    "TrainerSpec": """
        input 1 bytes*
        model_prefix 2 bytes
        model_type 3 ModelType UNIGRAM
        vocab_size 4 int32 8000
        accept_language 5 bytes*
        self_test_sample_size 6 int32 0
        input_format 7 bytes
        character_coverage 10 float 0.9995
        input_sentence_size 11 uint64 0
        mining_sentence_size 12 int32
        training_sentence_size 13 int32
        seed_sentencepiece_size 14 int32 1000000
        shrinking_factor 15 float 0.75
        num_threads 16 int32 16
        num_sub_iterations 17 int32 2
        max_sentence_length 18 int32 4192
        shuffle_input_sentence 19 bool true
        max_sentencepiece_length 20 int32 16
        split_by_unicode_script 21 bool true
        split_by_whitespace 22 bool true
        split_by_number 23 bool true
        treat_whitespace_as_suffix 24 bool false
        split_digits 25 bool false
        allow_whitespace_only_pieces 26 bool false
        control_symbols 30 bytes*
        user_defined_symbols 31 bytes*
        vocabulary_output_piece_score 32 bool true
        hard_vocab_limit 33 bool true
        use_all_vocab 34 bool false
        byte_fallback 35 bool false
        required_chars 36 bytes
        unk_id 40 int32 0
        bos_id 41 int32 1
        eos_id 42 int32 2
        pad_id 43 int32 -1
        unk_surface 44 bytes \x20\u2047\x20
        unk_piece 45 bytes <unk>
        bos_piece 46 bytes <s>
        eos_piece 47 bytes </s>
        pad_piece 48 bytes <pad>
        train_extremely_large_corpus 49 bool false
        enable_differential_privacy 50 bool false
        differential_privacy_noise_level 51 float 0
        differential_privacy_clipping_threshold 52 uint64 0
        pretokenization_delimiter 53 bytes
        seed_sentencepieces_file 54 bytes
        auto_character_coverage 55 bool false""",
    "NormalizerSpec": """
        name 1 bytes
        precompiled_charsmap 2 bytes
        add_dummy_prefix 3 bool true
        remove_extra_whitespaces 4 bool true
        escape_whitespaces 5 bool true
        normalization_rule_tsv 6 bytes""",
    "ModelProto": """
        pieces 1 SentencePiece*
        trainer_spec 2 TrainerSpec
        normalizer_spec 3 NormalizerSpec
        denormalizer_spec 5 NormalizerSpec""",
}
#: Fields whose bytes are no text.
BINARY = frozenset({"precompiled_charsmap"})


def fields(message: str) -> Iterator[tuple[str, int, str, bool, str | None]]:
    """Yield (name, number, type, repeated, default) of each field of a message."""
    for line in _FIELDS[message].split("\n")[1:]:
        name, number, kind, *default = line.lstrip(" ").split(" ", 3)
        yield name, int(number), kind.rstrip("*"), kind.endswith("*"), default[0] if default else None


@lru_cache(1)
def messages() -> dict[str, Any]:
    """Return the class of each message by its name; ImportError, which says how to help it, without protobuf."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise ImportError("a SentencePiece model is read and written with protobuf: pip install protobuf") from None
    one = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="sentencepiece_model.proto", package=_PACKAGE, syntax="proto2")
    for message in _FIELDS:
        described = file.message_type.add(name=message)
        for (owner, enum), values in _ENUMS.items():
            if owner == message:
                described.enum_type.add(name=enum).value.extend(
                    descriptor_pb2.EnumValueDescriptorProto(name=value, number=number) for value, number in values.items()
                )
        for name, number, kind, repeated, default in fields(message):
            field = described.field.add(name=name, number=number, label=one.LABEL_REPEATED if repeated else one.LABEL_OPTIONAL)
            if (message, kind) in _ENUMS:
                field.type, field.type_name = one.TYPE_ENUM, f".{_PACKAGE}.{message}.{kind}"
            elif kind in _FIELDS:
                field.type, field.type_name = one.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                field.type = getattr(one, f"TYPE_{kind.upper()}")
            if default is not None:
                field.default_value = "".join(f"\\{byte:03o}" for byte in default.encode()) if kind == "bytes" else default
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _FIELDS}
