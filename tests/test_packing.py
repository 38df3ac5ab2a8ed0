"""Marks around documents and rows of one length, against plain Python."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe.packing import Packer, Packing, Wrapping
from beam_bpe.shards import Encoded

PAD = 9


def encoded(documents, dtype=np.uint16) -> Encoded:
    ids = np.array([each for document in documents for each in document], dtype)
    return Encoded(ids, np.cumsum([len(document) for document in documents], dtype=np.int64), None)


def split(ids, ends) -> list[list[int]]:
    return [part.tolist() for part in np.split(ids, ends[:-1])] if len(ends) else []


def batched(documents, cuts):
    bounds = [0, *sorted(min(cut, len(documents)) for cut in cuts), len(documents)]
    return [documents[start:stop] for start, stop in zip(bounds, bounds[1:])]


def packed(packing, batches) -> tuple[list, Packer]:
    """Return rows as (ids, segments, first document, documents), and the packer."""
    packer, rows = Packer(packing), []
    for filled in [*(packer.push(encoded(batch)) for batch in batches), packer.flush()]:
        if filled is not None:
            assert len(filled) and filled.columns.schema.names == ["first_document", "documents"]
            assert filled.columns.schema.types == [pa.int64(), pa.int32()]
            segments = split(filled.segments, filled.ends) if packing.segments else [None] * len(filled)
            columns = (filled.columns["first_document"].to_pylist(), filled.columns["documents"].to_pylist())
            rows += zip(split(filled.ids, filled.ends), segments, *columns)
    return rows, packer


def reference(packing: Packing, documents) -> tuple[list, dict]:
    """Lay one id after the other."""
    rows: list[list[tuple[int, int | None]]] = [[]]
    padding = 0

    def lay(token, document):
        if len(rows[-1]) == packing.length:
            rows.append([])
        rows[-1].append((token, document))

    for index, document in enumerate(documents):
        if not packing.split and len(document) <= packing.length and rows[-1]:
            rest = packing.length - len(rows[-1])
            if rest < len(document):
                for _ in range(rest):
                    lay(packing.pad_id, None)
                padding += rest
        for token in document:
            lay(token, index)
    dropped = 0
    if len(rows[-1]) < packing.length:
        if packing.remainder == "drop":
            dropped = len(rows.pop())
        elif packing.remainder == "pad" and rows[-1]:
            while len(rows[-1]) < packing.length:
                lay(packing.pad_id, None)
                padding += 1
    expected = []
    for row in rows:
        seen: list[int] = []
        segments = []
        for _, document in row:
            if document is not None and document not in seen:
                seen.append(document)
            segments.append(0 if document is None else seen.index(document) + 1)
        if row:
            tokens = [token for token, _ in row]
            expected.append((tokens, segments if packing.segments else None, seen[0], len(seen)))
    totals = {"rows": len(expected), "documents": len(documents), "dropped_tokens": dropped, "padding_tokens": padding}
    return expected, totals


many = st.lists(st.integers(0, 9), max_size=24).flatmap(
    lambda lengths: st.tuples(*(st.lists(st.integers(0, 8), min_size=n, max_size=n) for n in lengths)).map(list)
)


@settings(deadline=None, max_examples=400)
@given(
    many, st.lists(st.integers(0, 24), max_size=4), st.integers(1, 12), st.sampled_from(["drop", "pad", "keep"]),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_rows_are_those_of_plain_python(documents, cuts, length, remainder, split_, segments):
    packing = Packing(length, remainder if split_ else "pad", PAD, split_, segments)
    rows, packer = packed(packing, batched(documents, cuts))
    assert (rows, packer.totals) == reference(packing, documents)
    assert packer.flush() is None


@settings(deadline=None)
@given(many, st.integers(1, 12))
def test_no_document_that_fits_is_cut(documents, length):
    documents = [[i] * len(document) for i, document in enumerate(documents)]
    rows, _ = packed(Packing(length, "pad", 1000, split=False), [documents])
    for i, document in enumerate(documents):
        assert sum(row.count(i) for row, *_ in rows) == len(document)
        assert len(document) > length or sum(i in row for row, *_ in rows) <= 1


def test_many_documents_in_many_batches():
    rng = np.random.default_rng(0)
    documents = [rng.integers(0, 8, n).tolist() for n in rng.geometric(0.02, 3000)]
    for packing in (Packing(64, "drop"), Packing(64, "keep"), Packing(64, "pad", PAD), Packing(64, "pad", PAD, split=False)):
        rows, packer = packed(packing, batched(documents, range(0, 3000, 7)))
        assert (rows, packer.totals) == reference(packing, documents)


def test_a_packer_goes_on_after_flush_with_a_new_row():
    packer = Packer(Packing(4, "keep"))
    assert packer.push(encoded([[1, 1]])) is None
    assert packer.flush().ids.tolist() == [1, 1]
    rows = packer.push(encoded([[2, 2, 2, 2]]))
    assert rows.ids.tolist() == [2, 2, 2, 2] and rows.columns.to_pylist() == [{"first_document": 1, "documents": 1}]


def test_nothing_is_packed_of_nothing():
    packer = Packer(Packing(4, "pad", 0))
    assert packer.push(encoded([])) is None and packer.push(encoded([[], []])) is None and packer.flush() is None
    assert packer.totals == {"rows": 0, "documents": 2, "dropped_tokens": 0, "padding_tokens": 0}


def test_rows_have_the_type_of_the_documents():
    packer = Packer(Packing(2, "pad", 70_000))
    assert packer.push(encoded([[1, 2, 3]], np.uint32)).ids.dtype == np.uint32
    assert packer.flush().ids.tolist() == [3, 70_000]
    with pytest.raises(ValueError, match="pad_id 70000 does not fit into ids of uint16"):
        packer.push(encoded([[1]]))


def test_packed_rows_are_not_packed_again():
    rows = Packer(Packing(2, "drop")).push(encoded([[1, 2]]))
    with pytest.raises(ValueError, match="packed rows"):
        Packer(Packing(2, "drop")).push(rows)


@pytest.mark.parametrize(
    "arguments, kind, told",
    [
        ((0, "drop"), ValueError, "length=0: must lie between 1"),
        ((2.0, "drop"), TypeError, "length=2.0: must be a whole number"),
        ((8, "crop"), ValueError, "remainder='crop': must be one of drop, pad, keep"),
        ((8, "pad"), ValueError, "pad_id=None: remainder='pad' needs"),
        ((8, "pad", -1), ValueError, "pad_id=-1: must lie between 0"),
        ((8, "keep", 1, False), ValueError, "split=False pads rows: it needs remainder='pad'"),
    ],
)
def test_a_packing_that_cannot_be(arguments, kind, told):
    with pytest.raises(kind, match=told):
        Packing(*arguments)


@pytest.mark.parametrize("split_", [True, False])
@pytest.mark.parametrize("mean", [5, 100, 700])
def test_millions_of_short_documents_a_minute(split_, mean):
    """250,000 documents in less than 3 s (measured: 0.05 s of 5 ids each to 1 s of 700)."""
    rng = np.random.default_rng(0)
    batch = encoded([], np.uint32)
    lengths = rng.integers(1, 2 * mean, 25_000)
    batch = Encoded(rng.integers(0, 50_000, lengths.sum(), np.uint32), np.cumsum(lengths).astype(np.int64), None)
    packer = Packer(Packing(1024, "pad", 0, split_))
    began = time.process_time()
    for _ in range(10):
        packer.push(batch)
    packer.flush()
    assert time.process_time() - began < 3
    assert packer.documents == 250_000


# ---- marks ----


@settings(deadline=None, max_examples=300)
@given(many, st.lists(st.integers(0, 99), max_size=3), st.lists(st.integers(0, 99), max_size=3), st.integers(1, 12), st.booleans())
def test_wrapping_is_that_of_plain_python(documents, bos, eos, room, limited):
    most = len(bos) + len(eos) + room if limited else None
    wrapping, batch = Wrapping(bos, eos, most), encoded(documents)
    ids, ends = wrapping.apply(batch.ids, batch.ends)
    kept = [document[:room] if limited else document for document in documents]
    assert split(ids, ends) == [bos + document + eos for document in kept]
    assert ids.dtype == np.uint16 and ends.dtype == np.int64
    Encoded(ids, ends, None)
    lost = [len(document) - len(short) for document, short in zip(documents, kept)]
    assert wrapping.cut(batch.ends) == {"cut_documents": sum(map(bool, lost)), "cut_tokens": sum(lost)}


def test_the_limit_holds_with_the_marks():
    ids, ends = Wrapping([1], [2, 3], 5).apply(np.full(10, 7, np.uint16), np.array([10], np.int64))
    assert ids.tolist() == [1, 7, 7, 2, 3] and ends.tolist() == [5]


def test_wrapping_leaves_what_it_was_given():
    batch = encoded([[1, 2, 3], [4]])
    Wrapping([9], [9], 4).apply(batch.ids, batch.ends)
    assert batch.ids.tolist() == [1, 2, 3, 4] and batch.ends.tolist() == [3, 4]


@pytest.mark.parametrize(
    "arguments, kind, told",
    [
        ((1,), TypeError, "bos=1: must be a sequence of ids"),
        (([-1],), ValueError, "an id of bos=-1: must lie between 0"),
        (([], ["a"]), TypeError, "an id of eos='a': must be a whole number"),
        (([1], [2], 2), ValueError, "most=2: must be more than the 2 ids of bos and eos"),
        (([], [], 0), ValueError, "most=0: must lie between 1"),
    ],
)
def test_a_wrapping_that_cannot_be(arguments, kind, told):
    with pytest.raises(kind, match=told):
        Wrapping(*arguments)


def test_marks_that_do_not_fit_the_ids():
    with pytest.raises(ValueError, match="an id of eos 70000 does not fit into ids of uint16"):
        Wrapping([], [70_000]).apply(np.zeros(1, np.uint16), np.array([1], np.int64))
