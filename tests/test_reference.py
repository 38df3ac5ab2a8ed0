"""The reference: worked examples by hand, its own laws, and the peers whose tie rules it states."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe.reference import (
    BYTE_ORDER,
    Merge,
    count,
    decode,
    encode,
    learn,
    merge_word,
    pair_counts,
    pre_tokenize,
)

RULES = ["huggingface", "bytes", "lexicographic", "first"]

SENTENCE = (
    "low low low low low lower lower newest newest newest newest newest newest "
    "widest widest widest"
)
SPACE_AND_WORD = r" ?\w+"
WHOLE_TEXT = r"(?s).+"


def merged(learned):
    return [learned.tokens[merge.id] for merge in learned.merges]


def merge_counts(learned):
    return [merge.count for merge in learned.merges]


def byte_ids(rule):
    return {byte: k for k, byte in enumerate(BYTE_ORDER[rule])}


def segment(word, learned, rule):
    """Apply the merges to a word one after the other, in the order in which they were learned."""
    symbols = [byte_ids(rule)[byte] for byte in word]
    for merge in learned.merges:
        symbols, _ = merge_word(symbols, (merge.left, merge.right), merge.id)
    return symbols


# --- Worked examples ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule, merges",
    [
        ("first", "es est lo low ␣low ␣n ␣ne ␣new ␣newest ␣w"),
        ("huggingface", "es est lo low ew new ␣low ␣new ␣newest dest"),
        ("bytes", "es est lo low ␣n ␣low ew ␣new ␣newest ␣w"),
        ("lexicographic", "st est ow low west ne newest ␣newest ␣low wi"),
    ],
)
def test_sentence_under_every_rule(rule, merges):
    learned = learn(count([SENTENCE], SPACE_AND_WORD), 10, tie_break=rule)

    assert [token.decode().replace(" ", "␣") for token in merged(learned)] == merges.split()
    assert merge_counts(learned) == [9, 9, 7, 7, 6, 6, 6, 6, 6, 3]


def test_sentence_has_no_gaps_under_its_pattern():
    assert count([SENTENCE], SPACE_AND_WORD, "drop") == count([SENTENCE], SPACE_AND_WORD, "keep")
    assert count([SENTENCE], SPACE_AND_WORD) == {
        b"low": 1,
        b" low": 4,
        b" lower": 2,
        b" newest": 6,
        b" widest": 3,
    }


@pytest.mark.parametrize("rule", RULES)
def test_without_pre_tokenization_a_phrase_becomes_a_token(rule):
    learned = learn(count([SENTENCE], WHOLE_TEXT), 10, tie_break=rule)

    assert merged(learned)[9] == b"newest newest "
    # Six in a row are five overlapping pairs, and three replacements.
    assert (learned.merges[9].count, learned.merges[9].replaced) == (5, 3)


@pytest.mark.parametrize("rule", ["huggingface", "bytes"])
def test_low_lower_newest_widest(rule):
    learned = learn({b"low": 5, b"lower": 2, b"newest": 6, b"widest": 3}, 4, tie_break=rule)

    assert merged(learned) == [b"es", b"est", b"lo", b"low"]
    assert merge_counts(learned) == [9, 9, 7, 7]


@pytest.mark.parametrize("rule", RULES)
def test_hug_pug_pun_bun_hugs(rule):
    learned = learn({b"hug": 10, b"pug": 5, b"pun": 12, b"bun": 4, b"hugs": 5}, 99, tie_break=rule)

    assert merged(learned)[:4] == [b"ug", b"un", b"hug", b"pun"]
    assert sorted(merged(learned)[4:6]) == [b"hugs", b"pug"]
    assert merged(learned)[6:] == [b"bun"]
    assert merge_counts(learned) == [20, 16, 15, 12, 5, 5, 4]
    assert learned.stop == "no_pairs"


@pytest.mark.parametrize("rule", RULES)
def test_run_of_one_letter(rule):
    a = byte_ids(rule)[ord("a")]
    learned = learn({b"aaaaaaaa": 1}, 99, tie_break=rule)

    assert learned.merges == [
        Merge(a, a, 256, count=7, replaced=4),
        Merge(256, 256, 257, count=3, replaced=2),
        Merge(257, 257, 258, count=1, replaced=1),
    ]


@pytest.mark.parametrize("rule", RULES)
def test_one_token_per_byte_and_merge(rule):
    learned = learn(count([SENTENCE], SPACE_AND_WORD), 10, tie_break=rule)

    assert len(set(learned.tokens)) == len(learned.tokens) == 256 + 10
    assert [merge.id for merge in learned.merges] == list(range(256, 266))


# --- Words -------------------------------------------------------------------------------------


def test_text_between_matches_is_kept_or_dropped():
    assert pre_tokenize("low, low!", SPACE_AND_WORD) == ["low", ",", " low", "!"]
    assert pre_tokenize("low, low!", SPACE_AND_WORD, gaps="drop") == ["low", " low"]
    assert pre_tokenize("...", SPACE_AND_WORD) == ["..."]
    assert pre_tokenize("...", SPACE_AND_WORD, gaps="drop") == []
    assert pre_tokenize("", SPACE_AND_WORD) == []


def test_empty_matches_are_no_words_but_cut_a_gap():
    """As Hugging Face's Split with behavior "isolated" has it."""
    assert pre_tokenize("ab--cd", r"\w*") == ["ab", "-", "-", "cd"]
    assert pre_tokenize("ab--cd", r"\w*", gaps="drop") == ["ab", "cd"]
    assert pre_tokenize("hello world", r"\b") == ["hello", " ", "world"]


def test_capture_groups_are_ignored():
    assert pre_tokenize("ab cd", r"(\w)(\w)| ") == ["ab", " ", "cd"]


@given(st.text(alphabet="ab ,\n"), st.sampled_from([SPACE_AND_WORD, r"\w*", r"a(b)", WHOLE_TEXT]))
def test_kept_words_are_the_text(text, pattern):
    assert "".join(pre_tokenize(text, pattern)) == text


def test_words_are_counted_as_utf8_in_the_order_first_seen():
    words = count(["b a é", "a b"], r"\S+", gaps="drop")

    assert list(words.items()) == [(b"b", 2), (b"a", 2), ("é".encode(), 1)]


def test_no_word_crosses_documents():
    assert count(["ab", "ab"], WHOLE_TEXT) == {b"ab": 2}


def test_special_tokens_cut_documents_and_are_not_counted():
    assert count(["ab<|end|>ab<|end|>"], WHOLE_TEXT, special_tokens=["<|end|>"]) == {b"ab": 2}
    assert count(["<s>"], WHOLE_TEXT, special_tokens=["<s>"]) == {}
    # Each side is a document of its own: the spaces before a cut end one.
    assert count(["a  <s>b"], r"\s+(?!\S)|\w+|\s", special_tokens=["<s>"]) == {
        b"a": 1,
        b"  ": 1,
        b"b": 1,
    }


def test_leftmost_then_longest_special_token_cuts():
    assert count(["x<s><s>y"], WHOLE_TEXT, special_tokens=["<s>", "<s><s>"]) == {b"x": 1, b"y": 1}
    assert count(["1abcd2"], WHOLE_TEXT, special_tokens=["abc", "bcd2"]) == {b"1": 1, b"d2": 1}
    assert count(["1abcd2"], WHOLE_TEXT, special_tokens=["ab", "abc"]) == {b"1": 1, b"d2": 1}
    assert count(["a.b"], WHOLE_TEXT, special_tokens=[".", "a|b"]) == {b"a": 1, b"b": 1}


# --- Learning ----------------------------------------------------------------------------------


def test_byte_order_is_a_permutation_under_every_rule():
    assert list(BYTE_ORDER) == RULES
    for order in BYTE_ORDER.values():
        assert sorted(order) == list(range(256))


def test_hugging_face_order_is_that_of_the_shown_characters():
    order = BYTE_ORDER["huggingface"]

    assert list(order[:94]) == list(range(33, 127))
    assert list(order[94:188]) == [*range(161, 173), *range(174, 256)]
    assert list(order[188:]) == [*range(33), *range(127, 161), 173]


def test_pairs_overlap_and_are_replaced_from_left_to_right():
    assert pair_counts([([1, 1, 1], 5), ([1, 2], 3)]) == {(1, 1): 10, (1, 2): 3}
    assert merge_word([1, 1, 1], (1, 1), 9) == ([9, 1], 1)
    assert merge_word([1, 2, 1, 2, 3], (1, 2), 9) == ([9, 9, 3], 2)
    assert merge_word([2, 1], (1, 2), 9) == ([2, 1], 0)
    assert merge_word([], (1, 2), 9) == ([], 0)


def test_first_follows_the_order_of_words_and_no_other_rule_does():
    words = {b"xy": 2, b"ab": 2}
    turned = {b"ab": 2, b"xy": 2}

    assert merged(learn(words, 2, tie_break="first")) == [b"xy", b"ab"]
    assert merged(learn(turned, 2, tie_break="first")) == [b"ab", b"xy"]
    for rule in ["huggingface", "bytes", "lexicographic"]:
        assert learn(words, 2, tie_break=rule) == learn(turned, 2, tie_break=rule)


def test_lexicographic_compares_bytes_and_not_ids():
    # ab has the id 256, z has 122; yet z is the greater text.
    assert merged(learn({b"ab": 9, b"abc": 3, b"zq": 3}, 3, tie_break="lexicographic")) == [
        b"ab",
        b"zq",
        b"abc",
    ]
    # The left sides first, then the right sides: (z, b) over (z, a) over (y, z).
    assert merged(learn({b"yz": 1, b"za": 1, b"zb": 1}, 3, tie_break="lexicographic")) == [
        b"zb",
        b"za",
        b"yz",
    ]


def test_stop_tells_why():
    assert learn({b"abc": 3}, 0).stop == "vocab_size"
    assert learn({b"abc": 3}, 2).stop == "vocab_size"
    assert learn({b"abc": 3}, 3).stop == "no_pairs"
    assert learn({}, 1).stop == "no_pairs"
    assert learn({b"a": 5, b"": 5}, 1).stop == "no_pairs"
    assert learn({b"abc": 3}, 2, min_pair_count=3).stop == "vocab_size"
    assert learn({b"abc": 3}, 2, min_pair_count=4).stop == "min_pair_count"
    assert learn({b"abc": 3}, 9, max_token_length=2).stop == "no_pairs"


def test_max_token_length_is_in_bytes_and_inclusive():
    assert merged(learn({b"abcd": 1}, 9, max_token_length=1)) == []
    assert merged(learn({b"abcd": 1}, 9, max_token_length=2)) == [b"ab", b"cd"]
    assert merged(learn({b"abcd": 1}, 9, max_token_length=3)) == [b"ab", b"cd"]
    assert merged(learn({b"abcd": 1}, 9, max_token_length=4)) == [b"ab", b"cd", b"abcd"]
    two = "éé".encode()
    assert merged(learn({two: 1}, 9, max_token_length=3)) == [two[:2]]
    assert merged(learn({two: 1}, 9, max_token_length=4)) == [two[:2], two]


def test_words_that_count_nothing_are_as_if_absent():
    assert learn({b"ab": 0, b"cd": 1}, 9) == learn({b"cd": 1}, 9)
    assert learn({b"ab": 0}, 9).stop == "no_pairs"


@pytest.mark.parametrize("rule", RULES)
def test_counts_up_to_int64_are_exact(rule):
    assert merge_counts(learn({b"ab": 2**32, b"abb": 2**62}, 2, tie_break=rule)) == [
        2**62 + 2**32,
        2**62,
    ]
    assert merge_counts(learn({b"ab": 2**62, b"xab": 2**62 - 1}, 1, tie_break=rule)) == [2**63 - 1]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("words", [{b"ab": 2**62, b"xab": 2**62}, {b"ab": 2**63}])
def test_counts_beyond_int64_raise_and_name_the_pair(rule, words):
    with pytest.raises(OverflowError, match=r"\(b'a', b'b'\) counts 9223372036854775808"):
        learn(words, 1, tie_break=rule)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: pre_tokenize("a", "a", gaps="lose"), "gaps='lose': choose 'keep' or 'drop'"),
        (lambda: count(["a"], "a", gaps="lose"), "gaps='lose'"),
        (lambda: count(["a"], "a", special_tokens=["<s>", ""]), "special_tokens holds ''"),
        (
            lambda: learn({}, 1, tie_break="random"),
            "tie_break='random': choose one of huggingface, bytes, lexicographic, first",
        ),
        (lambda: learn({}, -1), "num_merges=-1: choose 0 or more"),
        (lambda: learn({}, 1, min_pair_count=0), "min_pair_count=0: choose 1 or more"),
        (lambda: learn({}, 1, max_token_length=0), "max_token_length=0: choose 1 or more, or None"),
        (lambda: learn({b"ab": -1}, 1), "the word b'ab' counts -1: a count is 0 or more"),
    ],
)
def test_bad_arguments_name_the_value_and_what_is_allowed(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value)


# --- Laws --------------------------------------------------------------------------------------

WORDS = st.dictionaries(
    st.lists(st.sampled_from([b"a", b"b", b"\xc3", b" "]), max_size=12).map(b"".join),
    st.integers(0, 5),
    max_size=8,
)


@given(WORDS, st.sampled_from(RULES), st.sampled_from([None, 2, 3, 5]))
@settings(deadline=None)
def test_encoding_a_learned_word_gives_its_learned_segmentation(words, rule, max_token_length):
    learned = learn(words, 20, tie_break=rule, max_token_length=max_token_length)
    merges = {(merge.left, merge.right): merge.id for merge in learned.merges}

    for word in words:
        ids = encode(word, merges, byte_ids(rule))
        assert ids == segment(word, learned, rule)
        assert decode(ids, learned.tokens) == word


@given(WORDS, st.sampled_from(RULES), st.binary(max_size=40))
@settings(deadline=None)
def test_decoding_an_encoded_word_gives_it_back(words, rule, word):
    learned = learn(words, 20, tie_break=rule)
    merges = {(merge.left, merge.right): merge.id for merge in learned.merges}

    assert decode(encode(word, merges, byte_ids(rule)), learned.tokens) == word


@given(WORDS, st.sampled_from(RULES))
@settings(deadline=None)
def test_replacements_account_for_every_symbol(words, rule):
    learned = learn(words, 20, tie_break=rule)

    for merge in learned.merges:
        assert merge.replaced <= merge.count
        assert merge.replaced == merge.count or merge.left == merge.right
    before = sum(len(word) * n for word, n in words.items())
    after = sum(len(segment(word, learned, rule)) * n for word, n in words.items())
    assert before - after == sum(merge.replaced for merge in learned.merges)


def learn_from_text(chunks, num_merges):
    """Learn as the textbooks do: no table of words, every occurrence in the order of the text."""
    chunks = [list(chunk) for chunk in chunks]
    merges = []
    while len(merges) < num_merges:
        stats = {}
        for chunk in chunks:
            for pair in zip(chunk, chunk[1:]):
                stats[pair] = stats.get(pair, 0) + 1
        if not stats:
            break
        pair = max(stats, key=stats.get)
        new = 256 + len(merges)
        merges.append((*pair, new, stats[pair]))
        for chunk in chunks:
            i = 0
            while i < len(chunk) - 1:
                if (chunk[i], chunk[i + 1]) == pair:
                    chunk[i : i + 2] = [new]
                i += 1
    return merges


@given(st.text(alphabet="aab ", max_size=60))
@settings(deadline=None)
def test_first_is_the_textbook_on_the_running_text(text):
    learned = learn(count([text], r" ?a*b*"), 12, tie_break="first")

    chunks = [word.encode() for word in pre_tokenize(text, r" ?a*b*")]
    assert [tuple(merge)[:4] for merge in learned.merges] == learn_from_text(chunks, 12)


# --- Peers -------------------------------------------------------------------------------------


def random_words(random_source, alphabet):
    """Draw words with runs of one letter and small counts, so that ties are the rule."""
    words = {}
    for _ in range(random_source.randint(1, 12)):
        word = b""
        for _ in range(random_source.randint(1, 6)):
            letter = random_source.choice(alphabet)
            word += letter * random_source.choice([1, 1, 1, 2, 3, 5])
        words[word] = random_source.randint(1, 6)
    return words


def test_huggingface_rule_is_that_of_tokenizers():
    tokenizers = pytest.importorskip("tokenizers")
    # GPT-2's characters for the bytes, by definition: bytes_to_unicode.
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    character = {byte: chr(byte) for byte in shown}
    character |= {byte: chr(256 + k) for k, byte in enumerate(hidden)}
    # Bytes whose order differs between the two alphabets, shown and hidden.
    alphabets = [b"a", b"ab", b"abc", b"a ", b" \n~", b"\x00 \x7f\xad", b"\xc3\xa9\xa0z", b"\xad!a"]

    for seed in range(300):
        source = random.Random(seed)
        alphabet = [bytes([byte]) for byte in source.choice(alphabets)]
        words = random_words(source, alphabet)
        num_merges = source.choice([5, 20, 100])
        min_pair_count = source.choice([1, 1, 2, 5])
        max_token_length = source.choice([None, None, 2, 3, 5, 8])

        peer = tokenizers.Tokenizer(tokenizers.models.BPE())
        peer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        peer.train_from_iterator(
            [
                "".join(character[byte] for byte in word)
                for word, n in words.items()
                for _ in range(n)
            ],
            tokenizers.trainers.BpeTrainer(
                vocab_size=256 + num_merges,
                min_frequency=min_pair_count,
                # tokenizers compares with <, the reference with <=.
                max_token_length=max_token_length and max_token_length + 1,
                initial_alphabet=sorted(character.values()),
                show_progress=False,
            ),
        )
        learned = learn(
            words, num_merges, min_pair_count=min_pair_count, max_token_length=max_token_length
        )

        spelling = ["".join(character[byte] for byte in token) for token in learned.tokens]
        assert [[spelling[m.left], spelling[m.right]] for m in learned.merges] == json.loads(
            peer.to_str()
        )["model"]["merges"], f"seed {seed}"
        # The alphabet is full and no special token is given, so ids are equal as well.
        assert {token: k for k, token in enumerate(spelling)} == peer.get_vocab(), f"seed {seed}"


def test_bytes_rule_is_that_of_rustbpe():
    rustbpe = pytest.importorskip("rustbpe")
    alphabets = ["a", "ab", "abc", "~!a", "aé", "日本", "aZ0_"]

    for seed in range(300):
        source = random.Random(seed)
        words = random_words(source, [c.encode() for c in source.choice(alphabets)])
        num_merges = source.choice([5, 20, 100])

        peer = rustbpe.Tokenizer()
        peer.train_from_iterator(
            iter([word.decode() for word, n in words.items() for _ in range(n)]),
            256 + num_merges,
            pattern=r"\S+",
        )
        learned = learn(words, num_merges, tie_break="bytes")

        ranks = {bytes(token): k for token, k in peer.get_mergeable_ranks()}
        assert {token: k for k, token in enumerate(learned.tokens)} == ranks, f"seed {seed}"
