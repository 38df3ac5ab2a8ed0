"""The reference of characters and WordPiece: worked examples by hand, and the peers whose rules it states."""

from __future__ import annotations

import io
import random

import pytest

from beam_bpe.reference_pieces import encode_wordpiece, learn_characters, learn_wordpiece, pieces_of, symbols_of

LOW = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
HUG = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}


def spelled(learned):
    return [learned.tokens[merge.id] for merge in learned.merges]


def counted(learned):
    return [merge.count for merge in learned.merges]


def segmented(word, learned, **options):
    """Apply the merges to a word one after the other, which is what they mean."""
    symbols = symbols_of(word, **options)
    for merge in learned.merges:
        left, right, made = (learned.tokens[i] for i in merge[:3])
        i = 0
        while i < len(symbols) - 1:
            if symbols[i : i + 2] == [left, right]:
                symbols[i : i + 2] = [made]
            i += 1
    return symbols


@pytest.mark.parametrize(
    "tie_break, merges",
    [("first", "es est est</w> lo"), ("huggingface", "es t</w> est</w> lo"), ("lexicographic", "t</w> st</w> est</w> ow")],
)
def test_the_textbook_with_a_separate_end(tie_break, merges):
    learned = learn_characters(LOW, 4, tie_break=tie_break)
    assert spelled(learned) == merges.split()
    assert learned.tokens[:11] == ["</w>", *"deilnorstw"]
    if tie_break != "lexicographic":
        assert segmented("low", learned) == ["lo", "w", "</w>"]
        assert segmented("widest", learned) == ["w", "i", "d", "est</w>"]


@pytest.mark.parametrize(
    "tie_break, merges", [("huggingface", "lo we r</w> lowe ewe"), ("lexicographic", "we lo wer wer</w> wes")]
)
def test_four_words_once_each(tie_break, merges):
    words = dict.fromkeys(["low", "lower", "lowest", "newer"], 1)
    assert spelled(learn_characters(words, 5, tie_break=tie_break)) == merges.split()


def test_without_a_mark():
    learned = learn_characters(HUG, 7, end_of_word=None)
    assert spelled(learned) == "ug un hug pun pug hugs bun".split()
    assert counted(learned) == [20, 16, 15, 12, 5, 5, 4]


def test_a_spelling_that_arises_twice_keeps_its_id():
    """Both `x</w>`: the letter at an end, and the merge of a letter with a word's own text `</w>` in its middle."""
    learned = learn_characters({"</w>z": 50, "a</w>b": 9, "xa": 2}, 9, attached=True)
    assert spelled(learned)[:5] == ["/w", "</w", "</w>", "</w>z</w>", "a</w>"]
    assert learned.merges[4].id == learned.tokens.index("a</w>") < learned.merges[0].id
    assert len(set(learned.tokens)) == len(learned.tokens)


def test_it_stops_where_no_pair_is_left():
    assert learn_characters({"ab": 3}, 9).stop == "no_pairs"
    assert learn_characters(LOW, 99, min_pair_count=7).stop == "min_pair_count"
    assert counted(learn_characters(LOW, 99, min_pair_count=7)) == [9, 9, 9, 7, 7]


# ---- WordPiece -----------------------------------------------------------------------------------


def test_likelihood_by_hand():
    learned = learn_wordpiece(HUG, 8)
    assert spelled(learned) == "##gs pu hu bu hugs hug bun pun".split()
    assert counted(learned)[:2] == [5, 17]  # 5 / (20 · 5) is 1/20; then six pairs tie at 1/36, of which pu counts most


def test_scores_are_no_floats():
    """1 / n² and 1 / ((n + 1) · (n - 1)), of which the second is higher: no float tells them apart."""
    n = 10**9
    words = {"ab": 1, "a": n - 1, "zb": n - 1, "cd": 1, "c": n, "yd": n - 2, "z": 10**18, "y": 10**18}
    assert 1 / (n * n) == 1 / ((n + 1) * (n - 1))
    merges = spelled(learn_wordpiece(words, 2))
    assert merges == ["cd", "ab"]


def test_longest_pieces_first():
    assert encode_wordpiece("unhappiness", ["un", "##happi", "##ness", "unh"][:3]) == ["un", "##happi", "##ness"]
    assert encode_wordpiece("happybirthday", ["happy", "##birthday", "h"]) == ["happy", "##birthday"]
    assert encode_wordpiece("newday", ["n", "##e", "##w", "##d", "##a", "##y"]) == pieces_of("newday")
    assert encode_wordpiece("x" * 101, ["x", "##x"]) == ["[UNK]"] and len(encode_wordpiece("x" * 100, ["x", "##x"])) == 100
    assert encode_wordpiece("unx", ["un", "##h"]) == ["[UNK]"]


# ---- peers ---------------------------------------------------------------------------------------


def random_words(seed, alphabet="abcdeé日本"):
    rng = random.Random(seed)
    letters = alphabet[: rng.randint(2, len(alphabet))]
    return {"".join(rng.choices(letters, k=rng.randint(1, 8))): rng.randint(1, 30) for _ in range(rng.randint(2, 40))}


def trained(trainer, model, words):
    from tokenizers import Tokenizer, pre_tokenizers

    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator((word for word, count in words.items() for _ in range(count)), trainer)
    return tokenizer


def alphabet_of(tokenizer, size):
    by_id = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    return [token for token, _ in by_id[:size]]


@pytest.mark.parametrize("seed", range(40))
def test_characters_as_tokenizers(seed):
    """In this sense: ids of `x</w>` are handed out in the order of a hash, so the alphabet is taken from its output."""
    import json

    from tokenizers import models, trainers

    words = random_words(seed)
    size = len({symbol for word in words for symbol in symbols_of(word, attached=True)})
    trainer = trainers.BpeTrainer(vocab_size=size + 25, end_of_word_suffix="</w>", show_progress=False)
    tokenizer = trained(trainer, models.BPE(), words)
    model = json.loads(tokenizer.to_str())["model"]
    theirs = [tuple(merge) if isinstance(merge, list) else tuple(merge.split(" ")) for merge in model["merges"]]
    # Letters that never stand at an end, or only there, are in its alphabet as well.
    most = len(model["vocab"]) - len({a + b for a, b in theirs})
    order = alphabet_of(tokenizer, most)
    learned = learn_characters(words, len(theirs), attached=True, alphabet_order=order)
    assert [(learned.tokens[m.left], learned.tokens[m.right]) for m in learned.merges] == theirs


@pytest.mark.parametrize("seed", range(40))
def test_wordpiece_by_count_as_tokenizers(seed):
    from tokenizers import models, trainers

    words = random_words(seed)
    trainer = trainers.WordPieceTrainer(vocab_size=60, show_progress=False, special_tokens=["[UNK]"])
    tokenizer = trained(trainer, models.WordPiece(unk_token="[UNK]"), words)
    vocabulary = alphabet_of(tokenizer, 60)
    chars = {char for word in words for char in word}
    pieces = {piece for word in words for piece in pieces_of(word)}
    alphabet = vocabulary[: 1 + len(chars | pieces)]
    learned = learn_wordpiece(words, 60 - len(alphabet), score="count", alphabet_order=alphabet)
    distinct = list(dict.fromkeys(spelled(learned)))
    assert vocabulary[: len(alphabet) + len(distinct)] == alphabet + distinct


@pytest.mark.parametrize("seed", range(40))
def test_characters_as_subword_nmt(seed):
    from subword_nmt import learn_bpe

    words = random_words(seed)
    out = io.StringIO()
    text = io.StringIO("".join(f"{word} {count}\n" for word, count in words.items()))
    try:
        learn_bpe.learn_bpe(text, out, 30, min_frequency=2, is_dict=True)
    except ValueError:  # it fails where no pair is left
        pass
    theirs = [tuple(line.split(" ")) for line in out.getvalue().splitlines()[1:]]
    learned = learn_characters(words, len(theirs), attached=True, tie_break="lexicographic", min_pair_count=2)
    assert [(learned.tokens[m.left], learned.tokens[m.right]) for m in learned.merges] == theirs
