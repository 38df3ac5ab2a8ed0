"""The native word table against collections.Counter, and its packed form against damage."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe import _scan, _words
from beam_bpe.reference import pre_tokenize
from beam_bpe._words import WordTable, merge_packed
from beam_bpe.pretokenize import PATTERNS

INT64_MAX = 2**63 - 1
# Lengths around the border of 15 bytes between the two kinds of entries, and words that differ in NULs.
EDGES = [
    b"a", b"a\0", b"a\0\0", b"\0", b"\0\0", b"\0a", b"a" * 15, b"a" * 16, b"a" * 14 + b"\0", b"a" * 15 + b"\0",
    b"a" * 16 + b"\0", b"\0" * 15, b"\0" * 16, b"\0" * 17, b"\xff" * 15, b"\xff" * 16, b"b" + b"a" * 15, b"a" * 15 + b"b",
    b"a" * 31, b"a" * 32, b"a" * 33, b"a" * 40, bytes(range(7)), bytes(range(8)), bytes(range(9)), b"\xff",
]  # fmt: skip


def bounds_of(documents: list[bytes]) -> np.ndarray:
    ends = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    return np.stack([ends[:-1], ends[1:]], 1).reshape(-1)


def add(table, documents: list[bytes], pattern: str, **options):
    return table.add_documents(b"".join(documents), bounds_of(documents), _scan.PATTERNS[pattern], **options)


def rows(packed: bytes) -> list[tuple]:
    """Return (word, count[, documents]) of each row of a packed table."""
    _, _, data, offsets, counts, documents = _words.unpack(packed)
    offsets = np.frombuffer(offsets, np.int64).tolist()
    columns = [np.frombuffer(numbers, np.int64).tolist() for numbers in (counts, documents) if numbers is not None]
    return list(zip((data[i:j] for i, j in zip(offsets, offsets[1:])), *columns, strict=True))


def contents(table) -> dict[bytes, int]:
    """Return {word: count}."""
    packed = table.pack()
    return {row[0]: row[1] for row in rows(packed[0][1])} if packed else {}


def held(table) -> dict[bytes, int]:
    """Return {word: documents}."""
    packed = table.pack()
    return {row[0]: row[2] for row in rows(packed[0][1])} if packed else {}


def filled(words: dict[bytes, int], **options):
    table = _words.WordTable(**options)
    for word, count in words.items():
        table.add(word, count)
    return table


def random_words(n: int, seed: int = 0) -> dict[bytes, int]:
    source = random.Random(seed)
    words = {}
    while len(words) < n:
        words[source.randbytes(source.choice([1, 2, 3, 5, 8, 14, 15, 16, 17, 30, 60]))] = source.choice([1, 2, 200, 10**9])
    return words


# --- Counting ----------------------------------------------------------------------------------

DOCUMENTS = st.lists(
    st.lists(
        st.sampled_from(["a", "b", " a", "  ", "\n", "1", "123", "'s", "é", "日本", "!", " the", "\0", "x" * 15, "y" * 16, "z" * 17]),
        max_size=12,
    ).map("".join),
    max_size=6,
)


@given(DOCUMENTS, st.sampled_from(list(PATTERNS)), st.integers(0, 2**128 - 1))
@settings(deadline=None, max_examples=300)
def test_counts_are_those_of_a_counter(documents, pattern, seed):
    words = [
        word.encode() for document in documents for word in pre_tokenize(document, PATTERNS[pattern], gaps="drop")
    ]
    table = _words.WordTable(seed=seed)
    scanned = add(table, [document.encode() for document in documents], pattern)

    assert scanned == (len(words), 0, 0)
    assert contents(table) == Counter(words)
    assert len(table) == len(set(words))
    assert table.total == len(words)


@given(st.lists(st.tuples(DOCUMENTS, st.booleans()), max_size=5), st.sampled_from(["whitespace", "gpt2", "none"]))
@settings(deadline=None, max_examples=300)
def test_documents_are_counted_once_for_each_word(calls, pattern):
    table = _words.WordTable(documents=True)
    counts, holders, document = Counter(), defaultdict(set), 0
    for documents, continues in calls:
        continues = continues and document > 0
        add(table, [text.encode() for text in documents], pattern, continues=continues)
        for i, text in enumerate(documents):
            document += i > 0 or not continues
            for word in pre_tokenize(text, PATTERNS[pattern], gaps="drop"):
                counts[word.encode()] += 1
                holders[word.encode()].add(document)

    assert contents(table) == counts
    assert held(table) == {word: len(documents) for word, documents in holders.items()}


def test_documents_of_more_words_than_a_batch_and_growth():
    source = random.Random(1)
    documents = [" ".join(str(source.randrange(3000)) for _ in range(source.choice([0, 1, 300, 2000]))) for _ in range(200)]
    table = _words.WordTable(documents=True)
    add(table, [document.encode() for document in documents], "whitespace")

    assert contents(table) == Counter(word.encode() for document in documents for word in document.split())
    assert held(table) == Counter(word.encode() for document in documents for word in set(document.split()))


def test_a_document_that_continues_is_counted_once():
    table = _words.WordTable(documents=True)
    for piece, continues in [(b"a b ", False), (b"a c", True), (b"a", True), (b"a", False)]:
        add(table, [piece], "whitespace", continues=continues)

    assert contents(table) == {b"a": 4, b"b": 1, b"c": 1}
    assert held(table) == {b"a": 2, b"b": 1, b"c": 1}


def test_an_empty_document_is_a_document():
    table = _words.WordTable(documents=True)
    for pieces, continues in [([b"a"], False), ([b""], False), ([b"a"], True)]:
        add(table, pieces, "none", continues=continues)

    assert held(table) == {b"a": 2}


def test_documents_may_leave_bytes_between_them():
    table = _words.WordTable()
    data = b"a b|c d|e"
    assert table.add_documents(data, np.array([0, 3, 4, 7, 8, 9], np.int64), _scan.PATTERNS["whitespace"]) == (5, 0, 0)
    assert contents(table) == dict.fromkeys([b"a", b"b", b"c", b"d", b"e"], 1)


def test_overlong_words_are_counted_and_left_out():
    table = _words.WordTable()
    documents = [b"x" * 3 + b" " + b"y" * 4 + b" " + b"z" * 5 + b" " + b"y" * 4, b"w" * 1000]

    assert add(table, documents, "whitespace", max_word_bytes=4) == (3, 2, 1005)
    assert contents(table) == {b"xxx": 1, b"yyyy": 2}
    assert add(table, documents, "whitespace", max_word_bytes=0) == (0, 5, 1016)
    assert contents(table) == {b"xxx": 1, b"yyyy": 2}


# --- Words of every kind -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2**64, 2**128 - 1, None])
def test_words_of_every_length_are_told_apart(seed):
    words = {letter * n: 100 * n + i for n in range(1, 41) for i, letter in enumerate([b"a", b"\0", b"\xff"])}
    words |= {word: 7 + i for i, word in enumerate(EDGES) if word not in words}
    table = filled(words, seed=seed)

    assert contents(table) == words
    for word in words:
        table.add(word, 1)
    assert contents(table) == {word: count + 1 for word, count in words.items()}


def test_words_at_the_very_end_of_the_data():
    # The look-up of a short word may read 16 bytes, but not behind the data.
    for length in range(1, 20):
        for before in range(20):
            table = _words.WordTable()
            add(table, [b"." * before, bytes(range(1, length + 1))], "none")
            assert bytes(range(1, length + 1)) in contents(table)


def test_a_word_of_a_megabyte():
    long, longer = b"x" * (1 << 20), b"x" * (1 << 20) + b"y"
    table = filled({long: 3, longer: 4})
    table.add(long, 1)

    assert contents(table) == {long: 4, longer: 4}
    assert table.nbytes > 2 << 20


def test_200_000_words():
    words = {b"%d" % (i * 7919): i % 1000 for i in range(100_000)}
    words |= {b"a longer word, %d" % i: i for i in range(100_000)}
    table = _words.WordTable()
    sizes = [table.nbytes]
    for i, (word, count) in enumerate(words.items()):
        table.add(word, count)
        if i % 50_000 == 0:
            sizes.append(table.nbytes)

    assert len(table) == len(words) == 200_000
    assert contents(table) == words
    assert table.total == sum(words.values())
    assert sizes[0] < 100_000
    assert sizes == sorted(sizes) and table.nbytes > 200_000 * 32 + 100_000 * 20


def test_a_table_that_counts_documents_is_larger():
    assert _words.WordTable(documents=True).nbytes > _words.WordTable().nbytes


# --- Shards and the packed form ----------------------------------------------------------------

# The shards of a job are one for ever: a change here divides every word between old and new jobs.
SHARD_OF_64 = {
    b"a": 52,
    b"b": 2,
    b" the": 48,
    b"\0": 0,
    b"x" * 15: 9,
    b"x" * 16: 23,
    b"x" * 17: 63,
    b"x" * 32: 33,
    b"x" * 33: 13,
    "日本語".encode(): 2,
    bytes(range(256)): 23,
}


@pytest.mark.parametrize("word, shard", SHARD_OF_64.items())
def test_the_shard_of_a_word_is_fixed(word, shard):
    for seed in (0, 1, None):
        for documents in (False, True):
            assert [i for i, _ in filled({word: 1}, seed=seed, documents=documents).pack(64)] == [shard]
    crowded = filled(random_words(3000) | {word: 1}, seed=5)
    assert [i for i, packed in crowded.pack(64) if word in {row[0] for row in rows(packed)}] == [shard]


@pytest.mark.parametrize("shards", [1, 2, 7, 16])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("documents", [False, True])
def test_every_word_is_in_one_shard(shards, ordered, documents):
    words = random_words(2000) | {word: i for i, word in enumerate(EDGES)}
    table = _words.WordTable(documents=documents)
    for i, (word, count) in enumerate(words.items()):
        table.add(word, count, i % 5 if documents else 0)
    packed = table.pack(shards, ordered=ordered)

    assert [i for i, _ in packed] == list(range(shards))
    assert [_words.unpack(blob)[:2] for _, blob in packed] == [(i, shards) for i in range(shards)]
    everything = [row for _, blob in packed for row in rows(blob)]
    expected = [(w, n, i % 5) if documents else (w, n) for i, (w, n) in enumerate(words.items())]
    assert sorted(everything) == sorted(expected)
    for _, blob in packed:
        in_order = [row[0] for row in rows(blob)]
        assert not ordered or in_order == sorted(in_order)
        assert len(in_order) > len(words) / shards / 2  # the hash spreads

    merged = _words.WordTable(documents=documents)
    for i, blob in reversed(packed):
        assert merged.add_packed(blob) == (i, shards)
    assert merged.pack(shards, ordered=True) == table.pack(shards, ordered=True)


def test_empty_shards_are_left_out():
    assert _words.WordTable().pack(16) == []
    packed = filled({b"a": 1, b"b": 1}).pack(1000)
    assert 1 <= len(packed) <= 2
    assert sorted(row for _, blob in packed for row in rows(blob)) == [(b"a", 1), (b"b", 1)]


@given(st.dictionaries(st.one_of(st.binary(min_size=1, max_size=20), st.sampled_from(EDGES)), st.integers(0, INT64_MAX), max_size=60),
       st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=200)
def test_neither_seed_nor_order_changes_the_output(words, source):
    shuffled = list(words.items())
    source.shuffle(shuffled)
    one, other = filled(words, seed=1), filled(dict(shuffled), seed=source.getrandbits(128))

    for shards in (1, 7):
        assert one.pack(shards, ordered=True) == other.pack(shards, ordered=True)
    in_order = [row for _, blob in one.pack(ordered=True) for row in rows(blob)]
    assert in_order == sorted(words.items())
    assert one.total == sum(words.values())


def test_a_large_table_is_sorted_by_bytes():
    words = random_words(5000, seed=3) | {b"prefix, the same" + word: 1 for word in random_words(3000, seed=4)}
    blob = filled(words).pack(ordered=True)[0][1]

    assert rows(blob) == sorted(words.items())


def test_two_seeds_hide_the_order_of_the_slots():
    words = random_words(1000)
    orders = {tuple(row[0] for row in rows(filled(words, seed=seed).pack()[0][1])) for seed in (1, 2, None, None)}

    assert len(orders) == 4
    assert len({frozenset(order) for order in orders}) == 1
    # Every bit of the seed counts, for short words and for long ones.
    base = random.Random(4).getrandbits(128)
    for length in (8, 15, 16, 24, 40):
        alike = {i.to_bytes(length, "big"): 1 for i in range(500)}
        seeds = [base, base ^ 1, base ^ 1 << 63, base ^ 1 << 64, base ^ 1 << 127]
        assert len({filled(alike, seed=seed).pack()[0][1] for seed in seeds}) == len(seeds)


def test_merged_tables_sum():
    one, other = Counter(random_words(500, seed=1)), Counter(random_words(500, seed=2))
    both = dict(list(one.items())[:200]) | other
    table = _words.WordTable(documents=True)
    for words in (one, both):
        part = _words.WordTable(documents=True)
        for word, count in words.items():
            part.add(word, count, 2)
        for _, blob in part.pack(3):
            table.add_packed(blob)

    assert contents(table) == Counter(one) + Counter(both)
    assert held(table) == {word: 2 * ((word in one) + (word in both)) for word in {*one, *both}}


def test_columns_are_added_like_words():
    words = random_words(300) | dict.fromkeys(EDGES, 3)
    data = b"".join(words)
    offsets = np.cumsum([0, *map(len, words)], dtype=np.int64)
    counts = np.array(list(words.values()), np.int64)
    table = _words.WordTable(documents=True)
    table.add_columns(data, offsets, counts, counts)
    assert contents(table) == held(table) == words

    table.add_columns(data, offsets, counts)
    table.add_columns(b"", np.zeros(1, np.int64), np.zeros(0, np.int64))
    assert contents(table) == {word: 2 * count for word, count in words.items()}
    assert held(table) == words


# --- Counts of 64 bits -------------------------------------------------------------------------


def by_word(table, count):
    table.add(b"a", count)


def by_column(table, count):
    table.add_columns(b"a", np.array([0, 1], np.int64), np.array([count], np.int64))


def by_packed(table, count):
    table.add_packed(filled({b"a": count}).pack()[0][1])


@pytest.mark.parametrize("add_one", [by_word, by_column, by_packed])
def test_a_count_beyond_int64_raises(add_one):
    table = _words.WordTable()
    add_one(table, 2**62)
    with pytest.raises(OverflowError, match=r"exceeds 2\*\*63 - 1"):
        for _ in range(3):
            add_one(table, 2**62)
    # What did not fit was not added.
    assert contents(table) == {b"a": 2**62}
    add_one(table, 2**62 - 1)
    assert contents(table) == {b"a": INT64_MAX}


def test_a_scanned_count_beyond_int64_raises():
    table = filled({b"a": INT64_MAX - 1})
    assert add(table, [b"a"], "none") == (1, 0, 0)
    with pytest.raises(OverflowError):
        add(table, [b"a"], "none")
    assert contents(table) == {b"a": INT64_MAX}


def test_documents_beyond_int64_raise():
    table = _words.WordTable(documents=True)
    table.add(b"a", 1, INT64_MAX)
    with pytest.raises(OverflowError):
        table.add(b"a", 1, 1)
    assert (contents(table), held(table)) == ({b"a": 1}, {b"a": INT64_MAX})


def test_the_total_is_exact_beyond_int64():
    table = _words.WordTable()
    for n, word in enumerate([b"a", b"b", b"c", b"d", b"e" * 20], 1):
        table.add(word, INT64_MAX)
        assert table.total == n * INT64_MAX
    for i in range(100):
        table.add(b"%d" % i, 2**62 + i)
    assert table.total == 5 * INT64_MAX + 100 * 2**62 + sum(range(100))


# --- Broken input ------------------------------------------------------------------------------


def readers(blob: bytes):
    yield lambda: _words.unpack(blob)
    yield lambda: _words.WordTable().add_packed(blob)
    yield lambda: _words.WordTable(documents=True).add_packed(blob)


@pytest.mark.parametrize("documents", [False, True])
def test_packed_words_that_are_cut_off_or_too_long_are_refused(documents):
    table = filled(random_words(40) | {b"x" * 300: INT64_MAX}, documents=documents)
    blob = table.pack()[0][1]

    for length in range(len(blob)):
        for read in readers(blob[:length]):
            with pytest.raises(ValueError):
                read()
    for read in readers(blob + b"\0"):
        with pytest.raises(ValueError, match="broken or cut off"):
            read()


@pytest.mark.parametrize("documents", [False, True])
def test_damaged_packed_words_never_crash(documents):
    blob = filled(random_words(30) | {b"x" * 300: 2**60}, documents=documents).pack()[0][1]
    source = random.Random(8)
    refused = 0
    for _ in range(4000):
        damaged = bytearray(blob)
        for _ in range(source.choice([1, 1, 2, 8])):
            i = source.randrange(source.choice([21, len(blob)]))
            damaged[i] = source.choice([0, 0x7F, 0x80, 0xFF, damaged[i] ^ 1 << source.randrange(8)])
        for read in readers(bytes(damaged)):
            try:
                read()
            except (ValueError, OverflowError):
                refused += 1
    assert refused > 2000


@pytest.mark.parametrize(
    "row",
    [
        b"\x00\x01",  # an empty word
        b"\x01" + b"\xff" * 9 + b"\x01" + b"a",  # a count of 2**64 - 1
        b"\x01" + b"\x80" * 9 + b"\x01" + b"a",  # a count of 2**63
        b"\x01" + b"\xff" * 9 + b"\x02" + b"a",  # a count of more than 64 bits
        b"\x01" + b"\xff" * 10 + b"\x01" + b"a",
        b"\xff" * 9 + b"\x01" + b"\x01a",  # a length of 2**64 - 1
        b"\x02\x01a",  # a length beyond the end
    ],
)
def test_broken_rows_are_refused(row):
    whole = filled({b"b": 1}).pack()[0][1][:21]
    assert rows(whole + b"\x01\x01b") == [(b"b", 1)]
    for read in readers(whole + row):
        with pytest.raises(ValueError, match="broken or cut off"):
            read()


def test_a_false_number_of_rows_is_refused():
    blob = filled({b"a": 1, b"b": 1}).pack()[0][1]
    for n in (0, 1, 3, 2**32, 2**63, 2**64 - 1):
        for read in readers(blob[:13] + n.to_bytes(8, "little") + blob[21:]):
            with pytest.raises(ValueError):
                read()


def test_bytes_that_are_not_packed_words_are_refused():
    for blob in (b"", b"bbw1", b"bbw2" + bytes(17), b"PAR1" + bytes(100)):
        for read in readers(blob):
            with pytest.raises(ValueError, match="not packed words"):
                read()


@pytest.mark.parametrize(
    "bounds, message",
    [
        ([0], "bounds has 1 numbers"),
        ([0, 4], r"document 0 is \[0:4\] of 3 bytes"),
        ([0, 1, -1, 2], r"document 1 is \[-1:2\] of 3 bytes"),
        ([2, 1], r"document 0 is \[2:1\] of 3 bytes"),
    ],
)
def test_false_bounds_are_refused(bounds, message):
    table = _words.WordTable()
    with pytest.raises(ValueError, match=message):
        table.add_documents(b"abc", np.array(bounds, np.int64), 0)
    assert len(table) == 0


@pytest.mark.parametrize("pattern", [-1, 9])
def test_a_pattern_without_a_scanner_is_refused(pattern):
    with pytest.raises(ValueError, match=f"no scanner of number {pattern}"):
        _words.WordTable().add_documents(b"a", np.array([0, 1], np.int64), pattern)


@pytest.mark.parametrize("word, count, documents", [(b"", 1, 0), (b"a", -1, 0), (b"a", 1, -1)])
def test_false_words_are_refused(word, count, documents):
    table = _words.WordTable()
    with pytest.raises(ValueError, match="a word has at least one byte and counts are not negative"):
        table.add(word, count, documents)
    assert len(table) == 0


@pytest.mark.parametrize(
    "offsets, counts, documents, message",
    [
        ([0, 1], [1, 2], None, "columns differ in length"),
        ([0, 1, 2], [1, 2], [1], "columns differ in length"),
        ([0, 1, 1], [1, 2], None, "row 1: an empty word"),
        ([0, 2, 1], [1, 2], None, "row 1"),
        ([-1, 1, 2], [1, 2], None, "row 0"),
        ([0, 1, 4], [1, 2], None, "row 1"),
        ([0, 1, 2], [1, -2], None, "row 1: .*a negative count"),
        ([0, 1, 2], [1, 2], [0, -1], "row 1: a negative number of documents"),
    ],
)
def test_false_columns_are_refused_whole(offsets, counts, documents, message):
    table = _words.WordTable(documents=True)
    columns = [np.array(numbers, np.int64) for numbers in (offsets, counts, documents) if numbers is not None]
    with pytest.raises(ValueError, match=message):
        table.add_columns(b"abc", *columns)
    assert len(table) == 0


@pytest.mark.parametrize("shards", [0, (1 << 24) + 1])
def test_a_false_number_of_shards_is_refused(shards):
    with pytest.raises(ValueError, match=f"shards is {shards}"):
        filled({b"a": 1}).pack(shards)


# --- Order of rows -----------------------------------------------------------------------------


@given(st.lists(st.binary(min_size=1, max_size=4), max_size=8), st.binary(max_size=4), st.booleans())
@settings(deadline=None, max_examples=300)
def test_first_unordered_row(words, before, in_order):
    if in_order:
        words = sorted(words)
    offsets = np.cumsum([0, *map(len, words)], dtype=np.int64)
    all_words = [before, *words]
    expected = next((i for i in range(len(words)) if all_words[i + 1] <= all_words[i]), -1)

    assert _words.first_unordered(b"".join(words), offsets, before) == expected


# ---- sums of packed tables ----


@pytest.mark.parametrize("documents", [False, True])
def test_merge_packed_equals_one_table(documents):
    rng = random.Random(5)
    for _ in range(200):
        shards = rng.choice([1, 3])
        packed = {shard: [] for shard in range(shards)}
        whole = WordTable(documents=documents)
        for _ in range(rng.randrange(1, 6)):
            table = WordTable(documents=documents)
            for _ in range(rng.randrange(40)):
                word = bytes(rng.choice(b"ab\0c") for _ in range(rng.choice([1, 2, 3, 15, 16, 20])))
                count, held = rng.choice([1, 5, 200, 2**40]), rng.choice([0, 3, 300]) * documents
                for one in (table, whole):
                    one.add(word, count, held)
            for shard, blob in table.pack(shards, ordered=True):
                packed[shard].append(blob)
        merged = [(shard, merge_packed(blobs)) for shard, blobs in packed.items() if blobs]
        assert merged == whole.pack(shards, ordered=True)


def packed_words(counts, shards=1, documents=False):
    table = WordTable(documents=documents)
    for word, count in counts.items():
        table.add(word, count)
    return [blob for _, blob in table.pack(shards, ordered=True)]


def test_merge_packed_refuses_what_does_not_belong_together():
    one = packed_words({b"a": 1, b"b": 2})
    with pytest.raises(ValueError, match="into 2 and into 1 shards"):
        merge_packed(one + packed_words({b"a": 1}, shards=2))
    with pytest.raises(ValueError, match="the shards"):
        merge_packed(packed_words({bytes([65 + i]): 1 for i in range(26)}, shards=2))
    with pytest.raises(ValueError, match="count documents"):
        merge_packed(one + packed_words({b"a": 1}, documents=True))
    with pytest.raises(ValueError, match="no packed words"):
        merge_packed([])
    with pytest.raises(OverflowError):
        merge_packed(packed_words({b"a": 2**62}) * 2)


def test_merge_packed_refuses_broken_and_unsorted_rows():
    blob = packed_words({b"apple": 1, b"banana": 300, b"cherry": 2})[0]
    for cut in range(len(blob)):
        with pytest.raises(ValueError):
            merge_packed([blob, blob[:cut]])
    swapped = blob.replace(b"apple", b"zebra")
    with pytest.raises(ValueError):
        merge_packed([blob, swapped])
    with pytest.raises(ValueError):
        merge_packed([blob, blob + b"x"])
