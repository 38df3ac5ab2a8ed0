"""Steps of a normalizer about spaces, and around user-defined symbols: equal to the components of their libraries."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe.added import AddedTokens
from beam_bpe.layout import AddedToken
from beam_bpe.normalize import normalize, normalize_bytes, steps_of
from beam_bpe.reference_sentencepiece import normalize as reference
from beam_bpe.rewriting import METASPACE, before_and_behind, not_first, replaced, replacing

TEXTS = st.text(st.sampled_from(" \t\n\u3000\u2581\x1c\x85ab."), max_size=12)


def words_of(component, text):
    return [word for word, _ in component.pre_tokenize_str(text)]


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_steps_are_components_of_tokenizers(text):
    tokenizers = pytest.importorskip("tokenizers")
    normalizers, pre_tokenizers = tokenizers.normalizers, tokenizers.pre_tokenizers
    runs = tokenizers.Regex(" {2,}")
    for name, theirs in {
        "strip_left": normalizers.Strip(right=False),
        "strip_right": normalizers.Strip(left=False),
        "strip_left+strip_right": normalizers.Strip(),
        "collapse_spaces": normalizers.Replace(runs, " "),
        "escape_runs": normalizers.Replace(runs, "\u2581"),
        replacing("a.", "b "): normalizers.Replace("a.", "b "),
        "dummy_prefix": normalizers.Prepend(" "),
        "dummy_prefix+escape_whitespaces": normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]),
    }.items():
        assert normalize(text, name) == theirs.normalize_str(text), name
    for scheme in ("always", "first", "never"):
        theirs = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
        assert normalize(text, METASPACE + scheme) == "".join(words_of(theirs, text))
    theirs = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    assert normalize(text, METASPACE + "words") == "".join(words_of(theirs, text))


def test_steps_about_words():
    assert normalize("\ta \u2581b\u3000\x1cc ", METASPACE + "words") == "\u2581a\u2581b\u2581\x1cc"
    assert normalize("a\u2581 b", METASPACE + "words") == "\u2581a\u2581\u2581b"
    assert normalize(" a", METASPACE + "always") == normalize("a", METASPACE + "always") == "\u2581a"
    assert [normalize(" \n", METASPACE + scheme) for scheme in ("words", "always", "never")] == ["", "\u2581\n", "\u2581\n"]


def test_names_of_replacements():
    step = replacing("a+b:c", "\u2581")
    assert replaced(step) == ("a+b:c", "\u2581") and steps_of(f"NFC+{step}")[1] == step
    assert normalize("a+b:ca+b:", step) == "\u2581a+b:"
    for broken in ("replace:", "replace:YQ==", "replace::", "replace:YQ==:=", "replace:YQ:Yg==", "replace:_w==:YQ==", "replace:YQ==:YQ==:"):
        with pytest.raises(ValueError, match="there is no normalizer"):
            steps_of(broken)


def test_what_runs_behind_the_search_for_added_tokens():
    assert before_and_behind(None) == (None, None)
    assert before_and_behind("NFC+lowercase") == ("NFC+lowercase", None)
    assert before_and_behind("Metaspace:words") == (None, "Metaspace:words")
    assert not_first("Metaspace:first") == "Metaspace:never" and not_first("Metaspace:always") == "Metaspace:always"
    tokens = [AddedToken("<m>", 1, normalized=True, lstrip=True), AddedToken("<s>", 2)]

    def segments(scheme, text):
        return [segment.data.decode() for segment in AddedTokens(tokens, METASPACE + scheme).cut(text.encode()) if segment.token is None]

    assert segments("first", "a b <m> c<s>d") == ["\u2581a\u2581b", "\u2581c", "d"]
    assert segments("first", "<s>a<m> c") == ["a", "\u2581c"]
    assert segments("always", "a b <m> c<s>d") == ["\u2581a\u2581b", "\u2581c", "\u2581d"]
    assert segments("words", "a b <m> c<s>d") == ["\u2581a\u2581b", "\u2581c", "\u2581d"]


# ---- around user-defined symbols -----------------------------------------------------------------

SYMBOLS = ("a  b", "  x", "\u2581\u2581", "b ", "\n")
SYMBOL_TEXTS = st.lists(st.sampled_from([*SYMBOLS, "a", "b", " ", "  ", "\u2581", "x"]), max_size=8).map("".join)


@settings(max_examples=300, deadline=None)
@given(SYMBOL_TEXTS, st.booleans())
def test_extra_spaces_in_symbols_stay(text, prefix):
    name = "remove_extra_whitespaces+" + "dummy_prefix+" * prefix + "escape_whitespaces"
    found = normalize_bytes(text.encode(), name, SYMBOLS).decode()
    assert found == reference(text, add_dummy_prefix=prefix, remove_extra_whitespaces=True, user_defined=SYMBOLS)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([*SYMBOLS, "①", "ﬁ", "a", "e\u0301", " ", "\u3000", "\x01", "\u2581", "Low"]), max_size=7).map("".join),
    st.sampled_from(["remove_extra_whitespaces+", ""]),
    st.sampled_from(["dummy_prefix+", "dummy_suffix+", ""]),
    st.sampled_from(["sentencepiece:nmt_nfkc+", ""]),
    st.booleans(),
)
def test_whole_normalizers_of_sentencepiece(text, removes, dummy, rule, with_symbols):
    spm = pytest.importorskip("sentencepiece")
    if "suffix" in dummy and removes and not rule and with_symbols and not text.strip(" "):
        return  # a symbol of spaces alone
    peer = peer_of(spm, removes, dummy, rule, with_symbols)
    name = f"{rule}{removes}{dummy}escape_whitespaces"
    assert normalize_bytes(text.encode(), name, SYMBOLS if with_symbols else ()).decode() == peer.normalize(text)


def peer_of(spm, removes, dummy, rule, with_symbols):
    from beam_bpe import charsmap
    from beam_bpe.formats.model_file import SentencePieceModel, content_of

    symbols = SYMBOLS if with_symbols else ()
    model = SentencePieceModel(
        ("<unk>", *symbols),
        [0.0] * (1 + len(symbols)),
        ("unknown", *["user_defined"] * len(symbols)),
        {"model_type": "bpe", "treat_whitespace_as_suffix": "suffix" in dummy},
        {
            "precompiled_charsmap": charsmap.shipped("nmt_nfkc") if rule else b"",
            "add_dummy_prefix": bool(dummy),
            "remove_extra_whitespaces": bool(removes),
        },
    )
    return spm.SentencePieceProcessor(model_proto=content_of(model))
