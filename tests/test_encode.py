"""The encoder's kernel: by hand, and against plain Python that does the obvious thing."""

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from beam_bpe import WordCounts, _encode, _scan, reference, train

BYTES = [bytes([b]) for b in range(256)]
TEXT = (
    "The newest lowlands aren't lower than 12345 others… naïve café: größte Übergröße, x = y+1;\n\n    return 0\n"
    "機器學習模型的訓練資料和机器学习模型的训练数据。日本語のテキストと、한국어 텍스트. Это русский текст, самый новый! " * 5
)
CL100K = _scan.PATTERNS["cl100k"]
PIECE = -1  # each document is one piece
ALPHABETS = [b"a", b"ab", b"abc", b"abcd", "é的".encode(), "的机器a".encode()]
LENGTHS = [1, 2, 3, 5, 7, 8, 9, 14, 15, 16, 17, 23, 24, 25, 26, 30, 31, 32, 33, 130, 300]


# ---- models, and what they say in plain Python ----


class Toy:
    """A vocabulary of the 256 bytes and of merges (left, right), each id or bytes, by rank."""

    def __init__(self, merges, *, extra=(), **options):
        self.tokens = [*BYTES]
        self.merges = []
        for parts in merges:
            left, right = (self.tokens.index(part) if isinstance(part, bytes) else part for part in parts)
            joined = self.tokens[left] + self.tokens[right]
            if joined not in self.tokens:
                self.tokens.append(joined)
            self.merges.append((left, right, self.tokens.index(joined)))
        self.tokens += extra
        self.encoder = self.make(**options)

    def make(self, whole=None, **options):
        columns = np.array(self.merges, np.uint32).reshape(-1, 3).T
        if whole is not None:
            whole = np.array([token in whole for token in self.tokens], np.uint8)
        starts = np.cumsum([0, *map(len, self.tokens)], dtype=np.int64)
        ids = np.arange(256, dtype=np.uint32)
        return _encode.Encoder(b"".join(self.tokens), starts, ids, *map(np.ascontiguousarray, columns), whole=whole, **options)

    def by_rank(self, word):
        """Merge the leftmost pair of the lowest rank until none is left."""
        ranks = {(a, b): rank for rank, (a, b, _) in reversed(list(enumerate(self.merges)))}
        ids = list(word)
        while found := [(ranks[pair], i) for i, pair in enumerate(zip(ids, ids[1:])) if pair in ranks]:
            rank, i = min(found)
            ids[i : i + 2] = [self.merges[rank][2]]
        return ids

    def shuffled(self, rng):
        merges = self.merges[:]
        rng.shuffle(merges)
        other = Toy([])
        other.tokens, other.merges = self.tokens, merges
        other.encoder = other.make()
        return other


def random_toy(rng, alphabet, merges, **options):
    """Random merges in an order of learning; many never happen, for an earlier one takes their parts."""
    parts = [alphabet[i : i + 1] for i in range(len(alphabet))]
    pairs = []
    for _ in range(merges):
        left, right = rng.choice(parts), rng.choice(parts)
        if left + right not in parts and len(left + right) < 40:
            pairs.append((left, right))
            parts.append(left + right)
    return Toy(pairs, **options)


def numbers(packed, kind=np.uint32):
    return np.frombuffer(packed, kind).tolist()


def whole(data):
    return np.array([0, len(data)], np.int64)


def encode(encoder, data, pattern=PIECE, **options):
    return numbers(encoder.encode(data, whole(data), pattern, **options)[0])


def bounds_of(documents):
    stops = np.cumsum([0, *map(len, documents)], dtype=np.int64)
    return np.ascontiguousarray(np.repeat(stops, 2)[1:-1])


def split(ids, ends, kind=np.uint32):
    return [part.tolist() for part in np.split(np.frombuffer(ids, kind), np.frombuffer(ends, np.int64)[:-1])]


def random_word(rng, alphabet, length):
    """Letters, or runs of them, or a period."""
    kind = rng.randrange(3)
    if kind == 0:
        return bytes(rng.choices(alphabet, k=length))
    word = b""
    while len(word) < length:
        unit = bytes(rng.choices(alphabet, k=1 if kind == 1 else rng.randrange(1, 5)))
        word += unit * rng.choice([1, 2, 3, 7, 30, 200])
    return word[:length]


@pytest.fixture(scope="module")
def learned():
    vocabulary = train(WordCounts.from_documents([TEXT], pattern="cl100k"), 700)
    byte_ids = np.array([vocabulary.ids[bytes([b])] for b in range(256)], np.uint32)
    starts = np.cumsum([0, *map(len, vocabulary.tokens)], dtype=np.int64)
    merged = np.arange(256, len(vocabulary.tokens), dtype=np.uint32)
    sides = np.ascontiguousarray(vocabulary.left, np.uint32), np.ascontiguousarray(vocabulary.right, np.uint32)

    def make(**options):
        return _encode.Encoder(b"".join(vocabulary.tokens), starts, byte_ids, *sides, merged, **options)

    make.tokens = vocabulary.tokens
    make.reference = lambda word: reference.encode(
        word, {(a, b): 256 + r for r, (a, b) in enumerate(zip(*map(np.ndarray.tolist, sides)))}, byte_ids.tolist()
    )
    return make


# ---- merging ----


def test_the_lowest_rank_and_not_the_longest():
    toy = Toy([(b"b", b"c"), (b"a", b"b"), (b"ab", b"c")])
    assert encode(toy.encoder, b"abc") == [97, 256]
    assert encode(toy.encoder, b"abab") == [257, 257]
    assert toy.encoder.ordered and not Toy([(b"b", b"c"), (b"bc", b"d"), (b"c", b"d"), (b"b", b"cd")]).encoder.ordered


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_short_pieces_and_heaps(alphabet, ordered):
    rng = random.Random(f"{alphabet}{ordered}")
    for _ in range(25):
        toy = random_toy(rng, alphabet, rng.randrange(0, 40))
        toy = toy if ordered else toy.shuffled(rng)
        for length in LENGTHS:
            word = random_word(rng, alphabet, length)
            assert encode(toy.encoder, word) == toy.by_rank(word), (toy.merges, word)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_windows(alphabet, ordered):
    """Pieces beyond 768 bytes are merged window by window; the plain loop does them in one."""
    rng = random.Random(f"windows {alphabet}{ordered}")
    for _ in range(8):
        toy = random_toy(rng, alphabet, rng.randrange(1, 60))
        toy = toy if ordered else toy.shuffled(rng)
        for length in (rng.choice([768, 769, 1024, 1025]), rng.randrange(770, 1500)):
            word = random_word(rng, alphabet, length)
            assert encode(toy.encoder, word) == toy.by_rank(word), (toy.merges, word)


def test_a_change_at_the_end_of_a_long_piece_reaches_its_beginning():
    """Merges that zip from the right: the last letter decides about all pairs to its left."""
    toy = Toy([(b"x", b"a"), (b"xa", b"b")])
    # every "ab" waits for what is right of it: b + x is made before a + b
    tokens, merges = [*BYTES, b"ab", b"ba"], []
    merges = [(97, 98, 256), (98, 97, 257)]
    for order in (merges, merges[::-1]):
        toy.tokens, toy.merges = tokens, order
        toy.encoder = toy.make()
        for word in (b"ba" * 600, b"ab" * 600 + b"a", b"b" + b"ab" * 600 + b"x", b"aab" * 400):
            assert encode(toy.encoder, word) == toy.by_rank(word)
    # c(i) + c(i+1) with ranks that fall to the right: whether c0 merges depends on the parity of the length
    letters = bytes(range(1, 256))
    chain = Toy([(letters[i : i + 1], letters[i + 1 : i + 2]) for i in range(253, -1, -1)])
    for length in (254, 255):
        word = letters[:length]
        assert encode(chain.encoder, word) == chain.by_rank(word)
    cycle = Toy([(letters[i : i + 1], letters[i + 1 : i + 2]) for i in range(253, -1, -1)] + [(b"\xff", b"\x01")])
    for cut in range(0, 255, 51):
        word = (letters * 8)[: 255 * 4 + cut]
        assert encode(cycle.encoder, word) == cycle.by_rank(word)


def test_windows_that_grow_to_the_piece():
    """A wave of dependence longer than any window: merges of pairs that overlap, lower ranks to the right."""
    size = 3000
    marks = [b"a%04d" % i for i in range(size)]
    toy = Toy([])
    tokens, merges, seen = [*BYTES], [], {}

    def token(text):
        if len(text) == 1:
            return text[0]
        if text not in seen:
            left, right = token(text[:-1]), token(text[-1:])
            seen[text] = len(tokens)
            tokens.append(text)
            merges.append((left, right, seen[text]))
        return seen[text]

    singles = [token(mark) for mark in marks]
    for i in range(size - 2, -1, -1):
        tokens.append(marks[i] + marks[i + 1])
        merges.append((singles[i], singles[i + 1], len(tokens) - 1))
    toy.tokens, toy.merges = tokens, merges
    encoder = toy.make()
    lengths = {}
    for count in (size, size - 1):
        ids = encode(encoder, b"".join(marks[:count]))
        lengths[count] = [len(tokens[i]) for i in ids]
    assert lengths[size] == [10] * (size // 2)  # 2998 2999, 2996 2997, …
    assert lengths[size - 1] == [5] + [10] * (size // 2 - 1)


def test_runs():
    toy = Toy([(b"a", b"a"), (b"aa", b"aa"), (b"aa", b"a"), (b"aaaa", b"aaaa")])
    for length in range(1, 60):
        assert encode(toy.encoder, b"a" * length) == toy.by_rank(b"a" * length)
        assert encode(toy.encoder, b"b" + b"a" * length + b"c") == toy.by_rank(b"b" + b"a" * length + b"c")
    long = b"x" + b"a" * 1101 + b"b" + b"a" * 300 + b"y"
    assert encode(toy.encoder, long) == toy.by_rank(long)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_million_equal_letters_are_no_attack(ordered):
    merges = [(b"a", b"a"), (b"aa", b"aa"), (b"aaaa", b"aaaa"), (b"aaaaaaaa", b"a")]
    toy = Toy(merges)
    if not ordered:
        toy.merges = [toy.merges[i] for i in (1, 3, 0, 2)]
    encoder = toy.make()
    assert encoder.ordered == ordered
    begin = time.process_time()
    for data in (b"a" * 1_000_000, b" " * 1_000_000 + b"x", b"ab" * 500_000, bytes(random.Random(1).choices(b"ab", k=1_000_000))):
        ids = encode(encoder, data)
        assert encoder.decode(np.array(ids, np.uint32)) == data
    assert time.process_time() - begin < 10
    assert encode(encoder, b"a" * 1_000_000)[-100:] == toy.by_rank(b"a" * 1600)[-100:]


def test_barriers_and_the_reference(learned):
    """Text that is not ASCII is cut where no token that merges make can cross."""
    rng = random.Random(3)
    encoder = learned()
    for _ in range(150):
        word = "".join(rng.choices(TEXT.replace(" ", ""), k=rng.choice([3, 20, 60]))).encode()
        word = word[rng.randrange(3) : len(word) - rng.randrange(3)]
        assert encode(encoder, word) == learned.reference(word)


def test_whole_pieces():
    toy = Toy([(b"b", b"c"), (b"a", b"b"), (b"ab", b"c"), (b"d", b"e")], extra=[b"xyz", b"longer than fifteen", b"de"])
    for found in ([], [b"abc"], [b"abc", b"xyz", b"longer than fifteen"]):
        encoder = toy.make(whole=found)
        for word in (b"abc", b"xyz", b"longer than fifteen", b"xyzabc", b"de"):
            expected = [toy.tokens.index(word)] if word in found else toy.by_rank(word)
            for _ in range(2):  # from the cache too
                assert encode(encoder, word) == expected
    assert encode(toy.make(whole=[b"de"]), b"de") == [toy.tokens.index(b"de")]  # of two the first


def test_whole_pieces_make_no_barrier_and_are_found_in_no_segment():
    cjk = ["机", "器", "学", "习"]
    toy = Toy([(c.encode()[:1], c.encode()[1:2]) for c in cjk[:1]], extra=["机器".encode(), "学习机器学习".encode(), "器学".encode()])
    encoder = toy.make(whole=toy.tokens)
    assert encode(encoder, "机器".encode()) == [toy.tokens.index("机器".encode())]
    assert encode(encoder, "学习机器学习".encode()) == [toy.tokens.index("学习机器学习".encode())]
    for word in ("机器学习机器", "器学机器学习学", "学习机器学习机"):
        for _ in range(2):
            assert encode(encoder, word.encode()) == toy.by_rank(word.encode())


def test_longest_match_by_hand():
    toy = Toy([(b"a", b"b"), (b"ab", b"c"), (b"c", b"d")], extra=[b"abcde", b"zz"])
    encoder = toy.make(longest_match=True)
    index = toy.tokens.index
    assert encode(encoder, b"abcdab") == [index(b"abc"), index(b"d"), index(b"ab")]
    assert encode(encoder, b"abcdezz") == [index(b"abc"), index(b"d"), index(b"e"), index(b"z"), index(b"z")]
    assert encode(toy.make(longest_match=True, whole=[b"abcde", b"zz"]), b"abcdezz") == [index(b"abcde"), index(b"zz")]


@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_longest_match(alphabet):
    rng = random.Random(f"longest {alphabet}")
    for _ in range(20):
        toy = random_toy(rng, alphabet, rng.randrange(0, 40))
        found = rng.sample(toy.tokens, 3)
        made = {toy.tokens[i] for _, _, i in toy.merges} | {*found, *BYTES}
        encoder = toy.make(longest_match=True, whole=found)
        for length in LENGTHS:
            word, expected, at = random_word(rng, alphabet, length), [], 0
            while at < len(word):
                token = next(word[at:stop] for stop in range(min(len(word), at + 50), at, -1) if word[at:stop] in made)
                expected.append(toy.tokens.index(token))
                at += len(token)
            assert encode(encoder, word) == expected == encode(encoder, word)


# ---- documents, limits, widths ----


def documents(rng, count=40):
    return ["".join(rng.choices(TEXT, k=rng.choice([0, 1, 3, 20, 200, 900]))).encode() for _ in range(count)]


@pytest.mark.parametrize("options", [{}, {"longest_match": True}])
def test_caches_of_any_size_lists_counts_widths_and_threads_agree(learned, options):
    rng = random.Random(5)
    texts = documents(rng)
    data, bounds = b"".join(texts), bounds_of(texts)
    encoder, small = learned(**options), learned(cache_bytes=0, **options)
    for pattern in (CL100K, PIECE):
        ids, ends = encoder.encode(data, bounds, pattern)
        parts = split(ids, ends)
        assert (ids, ends) == small.encode(data, bounds, pattern) == encoder.encode(data, bounds, pattern)
        assert parts == [encoder.encode_list(text, pattern) for text in texts]
        assert parts == [encode(encoder, text, pattern) for text in texts]
        assert numbers(encoder.count(data, bounds, pattern), np.int64) == [len(part) for part in parts]
        narrow, narrow_ends = encoder.encode(data, bounds, pattern, width=2)
        assert (numbers(narrow, np.uint16), narrow_ends) == (numbers(ids), ends)
        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(lambda _: encoder.encode(data, bounds, pattern), range(20))) == {(ids, ends)}
            for result in pool.map(lambda text: encoder.encode_list(text, pattern), texts * 3):
                assert result in parts
        assert encoder.decode(np.frombuffer(ids, np.uint32)) == data
        expected = data, np.cumsum([len(text) for text in texts], dtype=np.int64).tobytes()
        assert encoder.decode_documents(np.frombuffer(ids, np.uint32), np.frombuffer(ends, np.int64)) == expected
        assert encoder.decode_documents(np.frombuffer(narrow, np.uint16), np.frombuffer(ends, np.int64)) == expected
        lengths = [len(learned.tokens[i]) for i in numbers(ids)]
        for array in (np.frombuffer(ids, np.uint32), np.frombuffer(narrow, np.uint16)):
            assert numbers(encoder.lengths(array), np.int64) == lengths


def test_caches_that_are_wiped_again_and_again(learned):
    rng = random.Random(15)
    encoders = [learned(cache_bytes=size) for size in (0, 1 << 13, 1 << 16, 16 << 20)]
    texts = [bytes(rng.choices(b"abcdefgh", k=rng.randrange(1, 34))) for _ in range(3000)]
    texts = rng.choices(texts, k=9000)
    data, bounds = b"".join(texts), bounds_of(texts)
    results = {encoder.encode(data, bounds, PIECE) for encoder in encoders for _ in range(2)}
    assert len(results) == 1
    memo = {text: learned.reference(text) for text in set(texts[:400])}
    assert split(*results.pop())[:400] == [memo[text] for text in texts[:400]]


@pytest.mark.parametrize("pattern", [CL100K, PIECE])
def test_a_limit_is_the_first_ids_of_each_document(learned, pattern):
    rng = random.Random(6)
    texts = documents(rng, 12) + [TEXT.replace(" ", "").encode()[:600]]
    texts[-1] = texts[-1].decode("utf-8", "ignore").encode()
    data, bounds = b"".join(texts), bounds_of(texts)
    encoder = learned()
    full = split(*encoder.encode(data, bounds, pattern))
    for most in [*range(0, 40), 255, 256, 257, 10**6, 1 << 70]:
        assert split(*encoder.encode(data, bounds, pattern, most=most)) == [part[:most] for part in full]
    with pytest.raises(ValueError, match="most=-1"):
        encoder.encode(data, bounds, pattern, most=-1)


def test_a_limit_stops_the_scan(learned):
    encoder, data = learned(), TEXT.encode() * 30_000

    def took(most):
        begin = time.process_time()
        ids = encode(encoder, data, CL100K, most=most)
        return time.process_time() - begin, ids

    rounds = [took(10) for _ in range(5)]
    assert all(ids == encoder.encode_list(TEXT.encode(), CL100K)[:10] for _, ids in rounds)
    assert min(rounds)[0] < took(None)[0] / 3


def test_equal_numbers_of_lists_are_one_object(learned):
    encoder = learned()
    ids = encoder.encode_list(TEXT.encode() * 2, CL100K)
    again = encoder.encode_list(TEXT.encode() * 2, CL100K)
    assert ids == again and all(a is b for a, b in zip(ids, again))
    assert encoder.encode_list(b"", CL100K) == []


def test_many_ids_need_four_bytes():
    toy = Toy([], extra=[b"%06d" % i for i in range(65536 - 256)])
    assert numbers(toy.encoder.encode(b"ab", whole(b"ab"), PIECE, width=2)[0], np.uint16) == [97, 98]
    toy.tokens.append(b"one more")
    with pytest.raises(ValueError, match="width=2 holds ids below 65536, and there are 65537"):
        toy.make().encode(b"ab", whole(b"ab"), PIECE, width=2)
    with pytest.raises(ValueError, match="width=3"):
        toy.encoder.encode(b"ab", whole(b"ab"), PIECE, width=3)


# ---- decoding ----


def test_decoding_random_ids():
    rng = random.Random(8)
    toy = Toy([], extra=[bytes(rng.choices(b"xyz", k=rng.choice([1, 2, 15, 16, 17, 33, 400]))) for _ in range(200)])
    for count in [0, 1, 2, 3, 5, 17, 100, 1000]:
        ids = np.array(rng.choices(range(len(toy.tokens)), k=count), np.uint32)
        data = b"".join(toy.tokens[i] for i in ids)
        cuts = sorted(rng.choices(range(count + 1), k=5)) + [count]
        ends = np.array(cuts, np.int64)
        byte_ends = [len(b"".join(toy.tokens[i] for i in ids[:cut])) for cut in cuts]
        for array in (ids, ids.astype(np.uint16)):
            assert toy.encoder.decode(array) == toy.encoder.decode_list(array.tolist()) == data
            got, got_ends = toy.encoder.decode_documents(array, ends)
            assert (got, numbers(got_ends, np.int64)) == (data, byte_ends)
            assert numbers(toy.encoder.lengths(array), np.int64) == [len(toy.tokens[i]) for i in ids]


def test_wrong_ids_are_named():
    toy = Toy([], extra=[b"", b"abc"])
    for wrong in (256, 258, 65535, 4_000_000_000):
        ids = np.array([97, 98, 257, wrong, 97], np.uint32)
        for call in (toy.encoder.decode, toy.encoder.lengths, lambda i: toy.encoder.decode_documents(i, np.array([1, 2, 5]))):
            with pytest.raises(KeyError, match=f"id {wrong} at position 3 is no token of this vocabulary"):
                call(ids)
            with pytest.raises(KeyError, match=f"id {wrong} at position 3 is no token of this vocabulary"):
                toy.encoder.decode_list(ids.tolist())
            if wrong < 65536:
                with pytest.raises(KeyError, match=f"id {wrong} at position 3"):
                    call(ids.astype(np.uint16))
    for ids in (np.array([1]), np.array([1.0]), np.array([[1]], np.uint32), b"abc", np.array([1], np.int32)):
        with pytest.raises(ValueError, match="ids are an array of uint16 or uint32"):
            toy.encoder.decode(ids)
    ids = np.array([97, 98], np.uint32)
    for ends in ([1], [3], [2, 1, 2], [-1, 2]):
        with pytest.raises(ValueError, match="the ids of document"):
            toy.encoder.decode_documents(ids, np.array(ends, np.int64))
    with pytest.raises(ValueError, match="end at 0, and there are 2"):
        toy.encoder.decode_documents(ids, np.empty(0, np.int64))
    assert toy.encoder.decode_documents(ids[:0], np.empty(0, np.int64)) == (b"", b"")


# ---- rank files ----


def merged_by_bytes(ranks, word, stop_at=1):
    """Merge as tiktoken does; return the parts that are left when one merge more would leave one."""
    parts = [word[i : i + 1] for i in range(len(word))]
    while len(parts) > stop_at:
        found = [(ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]
        if not found:
            break
        _, i = min(found)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts


def recover(tokens):
    columns = _encode.recover_merges(b"".join(tokens), np.cumsum([0, *map(len, tokens)], dtype=np.int64))
    *sides, unreachable = map(numbers, columns)
    return list(zip(*sides)), unreachable


def test_parts_by_hand():
    tokens = [*BYTES, b"ab", b"", b"bc", b"abc", b"xyz", b"abcd"]
    merges, unreachable = recover(tokens)
    assert merges == [(97, 98, 256), (98, 99, 258), (256, 99, 259), (259, 100, 261)]
    assert unreachable == [260]
    later = [*BYTES, b"abc", b"ab"]  # the part has the higher rank
    assert recover(later) == ([(257, 99, 256), (97, 98, 257)], [])
    assert recover(BYTES) == ([], [])


@pytest.mark.parametrize("alphabet", [b"a", b"ab", b"abc"])
def test_parts_are_those_of_plain_merging(alphabet):
    rng = random.Random(f"ranks {alphabet}")
    strange = 0
    for _ in range(300):
        tokens = {bytes(rng.choices(alphabet, k=rng.randrange(2, 9))) for _ in range(rng.randrange(1, 25))}
        tokens = sorted(tokens, key=lambda token: (len(token) + rng.choice([0, 0, 3]), token))
        rng.random() < 0.5 and rng.shuffle(tokens)
        tokens = [*BYTES, *tokens]
        ranks = {token: i for i, token in enumerate(tokens)}
        expected, lost = [], []
        for i, token in enumerate(tokens[256:], 256):
            parts = merged_by_bytes(ranks, token, 2)
            if len(parts) == 2:
                expected.append((ranks[parts[0]], ranks[parts[1]], i))
            else:
                lost.append(i)
        assert recover(tokens) == (expected, lost)
        strange += any(max(a, b) > c for a, b, c in expected) and bool(lost)
        columns = np.array(expected, np.uint32).reshape(-1, 3).T
        encoder = _encode.Encoder(
            b"".join(tokens), np.cumsum([0, *map(len, tokens)], dtype=np.int64), np.arange(256, dtype=np.uint32),
            *map(np.ascontiguousarray, columns), whole=np.ones(len(tokens), np.uint8)
        )  # fmt: skip
        for length in (1, 2, 4, 8, 12, 30, 60):
            word = random_word(rng, alphabet, length)
            parts = [word] if word in ranks else merged_by_bytes(ranks, word)
            assert encode(encoder, word) == [ranks[part] for part in parts]
    assert strange or alphabet == b"a"


def test_long_tokens_are_no_attack():
    rng = random.Random(9)
    tokens = [*BYTES, b"ab", b"aa", b"abaa"]
    tokens += [b"a" * 300_000, b"ab" * 200_000, bytes(rng.choices(b"ab", k=500_000)), bytes(rng.choices(range(256), k=500_000))]
    begin = time.process_time()
    assert recover(tokens)[1] == [259, 260, 261, 262]
    assert time.process_time() - begin < 5


def test_rank_files_that_make_no_sense():
    with pytest.raises(ValueError, match="ids 256 and 258 are the same token b'ab'"):
        recover([*BYTES, b"ab", b"abc", b"ab"])
    with pytest.raises(ValueError, match="ids 97 and 256 are the same token b'a'"):
        recover([*BYTES, b"a"])
    with pytest.raises(ValueError, match="byte 255 has no token"):
        recover(BYTES[:-1])
    with pytest.raises(ValueError, match="outside of the tokens"):
        _encode.recover_merges(b"abc", np.array([0, 2, 9], np.int64))
    with pytest.raises(ValueError, match="byte 0 has no token"):
        _encode.recover_merges(b"", np.array([0], np.int64))
    with pytest.raises(ValueError, match="-1 tokens"):
        _encode.recover_merges(b"", np.array([], np.int64))


# ---- dropout ----


def test_dropout_of_none_and_of_all(learned):
    rng = random.Random(10)
    texts = documents(rng)
    data, bounds = b"".join(texts), bounds_of(texts)
    encoder = learned(whole=np.ones(len(learned.tokens), np.uint8))
    for pattern in (CL100K, PIECE):
        assert encoder.encode_dropout(data, bounds, pattern, 0.0, 7) == encoder.encode(data, bounds, pattern)
        almost = encoder.encode_dropout(data, bounds, pattern, 1e-300, 7)
        assert almost == learned().encode(data, bounds, pattern)  # the heap alone
        ids, ends = encoder.encode_dropout(data, bounds, pattern, 1.0, 7)
        assert [learned.tokens[i] for i in numbers(ids)] == [bytes([b]) for b in data]
        assert numbers(ends, np.int64) == bounds[1::2].tolist()


@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_dropout_without_drops_is_merging_by_rank(alphabet):
    rng = random.Random(f"dropout {alphabet}")
    for ordered in (True, False):
        for _ in range(10):
            toy = random_toy(rng, alphabet, rng.randrange(0, 40))
            toy = toy if ordered else toy.shuffled(rng)
            for length in LENGTHS:
                word = random_word(rng, alphabet, length)
                ids, _ = toy.encoder.encode_dropout(word, whole(word), PIECE, 1e-300, 1)
                assert numbers(ids) == toy.by_rank(word)


def test_dropout_depends_on_seed_and_document_only(learned):
    rng = random.Random(12)
    texts = [text for text in documents(rng) if len(text) > 60]
    encoder = learned()
    data, bounds = b"".join(texts), bounds_of(texts)
    ids, ends = encoder.encode_dropout(data, bounds, CL100K, 0.3, 5)
    parts = split(ids, ends)
    assert (ids, ends) == learned(cache_bytes=0).encode_dropout(data, bounds, CL100K, 0.3, 5)
    for text, part in zip(texts, parts):
        assert numbers(encoder.encode_dropout(text, whole(text), CL100K, 0.3, 5)[0]) == part
        assert numbers(encoder.encode_dropout(b"xx" + text, np.array([2, 2 + len(text)]), CL100K, 0.3, 5)[0]) == part
        assert b"".join(learned.tokens[i] for i in part) == text
    assert encoder.encode_dropout(data, bounds, CL100K, 0.3, 6)[0] != ids
    assert numbers(encoder.encode_dropout(data, bounds, CL100K, 0.3, 5, width=2)[0], np.uint16) == numbers(ids)


def test_dropout_draws_as_the_paper_says():
    """Frequencies of the encodings of a word against those of the definition, step by step."""
    toy = Toy([(b"a", b"b"), (b"b", b"c"), (b"ab", b"c"), (b"a", b"bc")])
    rng = random.Random(13)
    ranks = {(a, b): (rank, token) for rank, (a, b, token) in enumerate(toy.merges)}

    def drawn(word, dropout):
        ids = list(word)
        while True:
            found = [(*ranks[pair], i) for i, pair in enumerate(zip(ids, ids[1:])) if pair in ranks]
            left = [one for one in found if rng.random() >= dropout]
            if not left:
                return tuple(ids)
            _, token, i = min(left)
            ids[i : i + 2] = [token]

    draws = 20_000
    for dropout in (0.1, 0.5, 0.9):
        for word in (b"abc", b"abcab"):
            expected = Counter(drawn(word, dropout) for _ in range(draws))
            # documents that differ only behind a piece of their own: whitespace drops what lies between
            texts = [word + b" %d" % i for i in range(draws)]
            ids, ends = toy.encoder.encode_dropout(b"".join(texts), bounds_of(texts), _scan.PATTERNS["whitespace"], dropout, 3)
            got = Counter(tuple(part[: len(part) - len(str(i))]) for i, part in enumerate(split(ids, ends)))
            for outcome in expected | got:
                assert abs(expected[outcome] - got[outcome]) < 5 * (2 * draws * 0.25) ** 0.5, (dropout, word, outcome)
                assert abs(expected[outcome] - got[outcome]) < 6 * (expected[outcome] + got[outcome] + 9) ** 0.5


def test_dropout_of_long_pieces():
    toy = Toy([(b"a", b"a"), (b"aa", b"aa"), (b"a", b"b")])
    data = b"a" * 200_000 + b"ab" * 100_000
    begin = time.process_time()
    for dropout in (0.1, 0.5, 0.9):
        ids, _ = toy.encoder.encode_dropout(data, whole(data), PIECE, dropout, 1)
        assert toy.encoder.decode(np.frombuffer(ids, np.uint32)) == data
    assert time.process_time() - begin < 10


def test_dropout_that_is_refused(learned):
    for dropout in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="choose a probability from 0 to 1"):
            learned().encode_dropout(b"ab", whole(b"ab"), PIECE, dropout, 1)
    with pytest.raises(ValueError, match="longest match makes none"):
        learned(longest_match=True).encode_dropout(b"ab", whole(b"ab"), PIECE, 0.5, 1)


# ---- what is refused ----


def test_wrong_models_are_refused():
    with pytest.raises(ValueError, match="parts of the merge of rank 0 do not make its token"):
        toy = Toy([(b"a", b"b")])
        toy.tokens[256] = b"ac"
        toy.make()
    ids, none = np.arange(256, dtype=np.uint32), np.empty(0, np.uint32)
    starts = np.arange(257, dtype=np.int64)
    with pytest.raises(ValueError, match="`whole` has 3 entries for 256 tokens"):
        _encode.Encoder(b"".join(BYTES), starts, ids, none, none, none, whole=np.ones(3, np.uint8))
    with pytest.raises(ValueError, match="columns differ"):
        _encode.Encoder(b"".join(BYTES), starts, ids[:9], none, none, none)
    with pytest.raises(ValueError, match="-1 tokens"):
        _encode.Encoder(b"".join(BYTES), starts[:0], ids, none, none, none)


def test_a_model_does_not_change_with_the_arrays_it_is_made_from():
    tokens, starts = np.frombuffer(b"".join(BYTES) + b"ab", np.uint8).copy(), np.array([*range(257), 258], np.int64)
    columns = [np.array([i], np.uint32) for i in (97, 98, 256)]
    encoder = _encode.Encoder(tokens, starts, np.arange(256, dtype=np.uint32), *columns)
    tokens[:], starts[:] = 0, 0
    assert encode(encoder, b"abc") == [256, 99] and encoder.decode(np.array([256], np.uint32)) == b"ab"


def test_wrong_documents_are_refused(learned):
    encoder = learned()
    calls = [encoder.encode, encoder.count, lambda *a: encoder.encode_dropout(*a, 0.5, 1)]
    for call in calls:
        for bounds in ([0, 9], [-1, 2], [2, 1], [0, 1, 2, 9]):
            with pytest.raises(ValueError, match=r"document \d is \["):
                call(b"abc", np.array(bounds, np.int64), CL100K)
        with pytest.raises(ValueError, match="a start and an end"):
            call(b"abc", np.array([0], np.int64), CL100K)
        with pytest.raises(ValueError, match=f"numbered from 0 to {_scan.PATTERNS['none']}"):
            call(b"abc", np.array([0, 1], np.int64), 1 + max(_scan.PATTERNS.values()))
        for cut in (b"ab\xe7", b"ab\xe7\x9a", b"ab \xf0\x9f\x98", b"\xc3", b"\x80"):
            with pytest.raises(ValueError, match="document 1 is not valid UTF-8"):
                call(b"abc" + cut, np.array([0, 3, 3, 3 + len(cut)], np.int64), CL100K)
            call(b"abc" + cut, np.array([0, 3, 3, 3 + len(cut)], np.int64), PIECE)
        call(b"", np.empty(0, np.int64), CL100K)
    with pytest.raises(ValueError, match="document 0 is not valid UTF-8"):
        encoder.encode("的".encode()[:-1], np.array([0, 2], np.int64), CL100K, most=5)
    with pytest.raises(ValueError, match="numbered"):
        encoder.encode_list(b"abc", 1 + max(_scan.PATTERNS.values()))
    with pytest.raises(TypeError):
        encoder.encode_list("abc", CL100K)
    assert encoder.encode_list(b"abc", PIECE) == encode(encoder, b"abc")


def test_documents_that_are_no_text_end_where_they_end(learned):
    """What scanners make of bytes that are no text is not promised, but no piece crosses documents."""
    rng = random.Random(14)
    encoder = learned()
    for _ in range(200):
        texts = [bytes(rng.choices(b"a \xe7\x9a\x84\xf0\xc3", k=rng.randrange(0, 12))) for _ in range(5)] + [b"end"]
        for pattern in range(5):
            ids, ends = encoder.encode(b"".join(texts), bounds_of(texts), pattern)
            assert [b"".join(learned.tokens[i] for i in part) for part in split(ids, ends)] == texts
