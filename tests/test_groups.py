"""Words counted by group: sums that are exact, the same bytes however the work is cut, and names of any kind."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_bpe import _words, artifacts, cli, grouping, train
from beam_bpe.artifacts import FormatError
from beam_bpe.counting import WordCounter
from beam_bpe.documents import InputError, Reading, SourceRange
from beam_bpe.formats.parquet import MERGES_FILE, VOCABULARY_FILE
from beam_bpe.grouping import GROUP_TOTALS, Groups, group_name
from beam_bpe.model import default_cutting
from beam_bpe.pretokenize import pre_tokenizer
from beam_bpe.reading import documents_of, read_range
from beam_bpe.special import SpecialTokens
from beam_bpe.transforms import (
    CountWords,
    LearnVocabulary,
    MergeWords,
    ReadDocuments,
    ReadWords,
    TrainVocabulary,
    WordRows,
    WriteWindowedWords,
    WriteWords,
)
from beam_bpe.transforms import count as count_module
from beam_bpe.transforms.words import CountedWord, GroupedWord
from beam_bpe.word_rows import exact_sums, sums_by_group
from beam_bpe.totals import TOTALS
from beam_bpe.words import WordCounts, parameters_of

PROCESSES = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
LARGEST = 2**63 - 1


def counts_of(words: WordCounts) -> dict[tuple[str, bytes], int]:
    """Return {(group, word): count} of the rows."""
    return {(row["group"], row["word"]): row["count"] for row in words.table.to_pylist()}


def alike(one: WordCounts, other: WordCounts) -> bool:
    """Whether two tables hold the same, all that is told of them included."""
    return (
        one.table.to_pylist() == other.table.to_pylist()
        and one.parameters == other.parameters
        and one.totals == other.totals
        and one.group_totals == other.group_totals
    )


def run(build, *flags: str) -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(list(flags)))
    build(pipeline)
    pipeline.run().wait_until_finish()


def parts(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


# ---- tables --------------------------------------------------------------------------------------


def test_a_worked_example():
    words = WordCounts.from_documents(
        ["", "low low", "bas, löw", "low"], pattern="whitespace", groups=["none", "en", "fr", "en"], group_by="language"
    )
    assert words.table.to_pylist() == [
        {"word": b"bas,", "count": 1, "group": "fr"},
        {"word": b"low", "count": 3, "group": "en"},
        {"word": "löw".encode(), "count": 1, "group": "fr"},
    ]
    assert words.groups == tuple(words.group_totals) == ("en", "fr", "none") and words.group_by == words.parameters["group_by"] == "language"
    told = {group: {name: value for name, value in totals.items() if value} for group, totals in words.group_totals.items()}
    assert told == {
        "en": {"documents": 2, "bytes": 10, "characters": 10, "words": 3},
        "fr": {"documents": 1, "bytes": 9, "characters": 8, "words": 2},
        "none": {"documents": 1},
    }
    assert len(words) == 3 and words.occurrences == 5 and words.most_common(1) == [(b"low", 3)]
    assert words.of_group("none").to_dict() == {} and words.of_group("none").totals["documents"] == 1
    with pytest.raises(KeyError, match="there is no group 'de'; there are 'en', 'fr', 'none'"):
        words.of_group("de")
    without = WordCounts.from_documents(["low"], pattern="whitespace")
    assert without.groups == () and without.group_by is None and without.ungrouped() is without
    with pytest.raises(ValueError, match="were not counted by group"):
        without.word_and_group()


DOCUMENTS = st.lists(st.tuples(st.text("ab é", max_size=12), st.sampled_from(["", "x", "y", "zz"])), max_size=12)


def counted(pairs) -> WordCounts:
    return WordCounts.from_documents([text for text, _ in pairs], pattern="gpt2", groups=[group for _, group in pairs])


@given(DOCUMENTS, DOCUMENTS)
@settings(deadline=None, max_examples=60)
def test_groups_are_tables_of_their_own(some, others):
    words = counted(some)
    texts = [text for text, _ in some]
    assert alike(words.ungrouped(), WordCounts.from_documents(texts, pattern="gpt2"))
    assert words.groups == tuple(sorted({group for _, group in some}))
    for group in words.groups:
        own = WordCounts.from_documents([text for text, its in some if its == group], pattern="gpt2")
        found = words.of_group(group)
        assert found.table.to_pylist() == own.table.to_pylist() and found.parameters == own.parameters
        told = {name: found.totals[name] for name in GROUP_TOTALS if name != "characters"}
        assert told == {name: own.totals[name] for name in told}
        assert found.totals["characters"] == sum(len(text) for text, its in some if its == group)
    assert alike(words.merge(counted(others)), counted(some + others))
    assert alike(words.merge(), words)


@given(DOCUMENTS, st.integers(0, 5))
@settings(deadline=None, max_examples=60)
def test_pruning_goes_by_the_words_of_all_groups(pairs, least):
    words = counted(pairs)
    kept = words.prune(least)
    assert alike(kept.ungrouped(), words.ungrouped().prune(least))
    every = Counter(word for (_, word), count in counts_of(words).items() for _ in range(count))
    lost = {key: count for key, count in counts_of(words).items() if every[key[1]] < least}
    assert counts_of(kept) == {key: count for key, count in counts_of(words).items() if key not in lost}
    for group in words.groups:
        assert kept.group_totals[group]["pruned_words"] == sum(its == group for its, _ in lost)
        assert kept.group_totals[group]["pruned_occurrences"] == sum(n for (its, _), n in lost.items() if its == group)
    assert kept.groups == words.groups
    heavy = words.weigh(3)
    assert counts_of(heavy) == {key: 3 * count for key, count in counts_of(words).items()}
    assert [totals["words"] for totals in heavy.group_totals.values()] == [
        3 * totals["words"] for totals in words.group_totals.values()
    ]


@given(DOCUMENTS, st.integers(1, 5))
@settings(deadline=None, max_examples=20)
def test_written_and_read(tmp_path_factory, pairs, shards):
    folder = tmp_path_factory.mktemp("words")
    words = counted(pairs).prune(2)
    words.write(str(folder / "a"), shards=shards)
    found = WordCounts.read(str(folder / "a"))
    assert counts_of(found) == counts_of(words) and found.group_totals == words.group_totals
    assert (found.parameters, found.totals, len(found)) == (words.parameters, words.totals, len(words))
    assert len({tuple(chunk.dictionary.to_pylist()) for chunk in found.table["group"].chunks}) <= 1
    found.write(str(folder / "b"), shards=shards)
    assert parts(folder / "b") == parts(folder / "a")


@given(DOCUMENTS)
@settings(deadline=None, max_examples=30)
def test_rows_in_pieces(pairs):
    """A word may begin in one chunk of the table and go on in the next."""
    words = counted(pairs)
    for size in (1, 2, 3):
        table = pa.concat_tables([words.table.slice(i, size) for i in range(0, len(words.table), size)] or [words.table])
        cut = WordCounts(table, words.parameters, words.totals, words.group_totals)
        assert alike(cut.ungrouped(), words.ungrouped()) and len(cut) == len(words)
        assert alike(cut.merge(), words) and cut.prune(2).table.to_pylist() == words.prune(2).table.to_pylist()
        rows, groups = cut.word_and_group()
        distinct = list(cut.to_dict())
        found = zip((distinct[row] for row in rows), (cut.groups[group] for group in groups), table["count"].to_pylist())
        assert list(found) == [(row["word"], row["group"], row["count"]) for row in words.table.to_pylist()]
        assert groups.dtype == np.int32


def test_parts_of_several_row_groups(tmp_path, monkeypatch):
    """A word may begin in one row group and go on in the next, which has another dictionary of groups."""
    monkeypatch.setattr(artifacts, "ROW_GROUP", 2)
    words = WordCounts.from_documents(["a b", "a b c", "a c", "a d"], pattern="whitespace", groups="xyzw")
    words.write(str(tmp_path))
    assert pq.ParquetFile(tmp_path / "part-00000-of-00001.parquet").num_row_groups == 5
    found = WordCounts.read(str(tmp_path))
    assert alike(found, words) and alike(found.ungrouped(), words.ungrouped())
    assert alike(found.merge(found), words.merge(words))


def grouped_table(rows: list[tuple[bytes, int, str]]) -> WordCounts:
    words, counts, groups = zip(*rows)
    column = pa.array(groups).dictionary_encode()
    table = pa.table({"word": pa.array(words, pa.binary()), "count": pa.array(counts, pa.int64()), "group": column})
    return WordCounts(table, parameters_of("none", group_by="group"), {"words": sum(counts)})


def test_large_counts_are_summed_exactly(tmp_path):
    rows = [(b"high", LARGEST - 1, "x"), (b"high", 1, "y"), (b"low", 10**12, "x"), (b"low", 10**12 + 1, "z")]
    words = grouped_table(rows)
    assert words.groups == ("x", "y", "z") and words.to_dict() == {b"high": LARGEST, b"low": 2 * 10**12 + 1}
    words.write(str(tmp_path / "w"))
    found = WordCounts.read(str(tmp_path / "w"))
    assert counts_of(found) == counts_of(words) and found.occurrences == LARGEST + 2 * 10**12 + 1
    assert train(found, 258).counts.tolist() == train(words.to_dict(), 258).counts.tolist()
    lost = words.prune(3 * 10**12)
    assert lost.group_totals["x"]["pruned_occurrences"] == 10**12 and lost.groups == words.groups
    over = grouped_table([(b"a", 1, "x"), (b"high", LARGEST, "x"), (b"high", 1, "y")])
    with pytest.raises(OverflowError, match=r"the count of b'high' in all groups together exceeds 2\*\*63 - 1"):
        over.ungrouped()
    assert over.of_group("x").to_dict() == {b"a": 1, b"high": LARGEST}
    with pytest.raises(OverflowError, match="a count times 2 exceeds"):
        over.weigh(2)
    with pytest.raises(OverflowError, match="the count of a word exceeds"):
        over.merge(over)


@given(st.lists(st.lists(st.integers(0, LARGEST), min_size=1, max_size=4), max_size=6))
@settings(deadline=None, max_examples=100)
def test_sums_of_runs(runs):
    values = np.array([value for run in runs for value in run], np.int64)
    firsts = np.cumsum([0, *map(len, runs)])[:-1]
    sums, over = exact_sums(values, firsts)
    assert over.tolist() == [sum(run) > LARGEST for run in runs]
    assert [s for s, o in zip(sums.tolist(), over) if not o] == [sum(run) for run in runs if sum(run) <= LARGEST]
    groups = np.array([i % 2 for i, run in enumerate(runs) for _ in run], np.int32)
    assert sums_by_group(values, groups, 3) == [sum(map(sum, runs[0::2])), sum(map(sum, runs[1::2])), 0]


def test_tables_of_other_groups_are_not_summed():
    some = WordCounts.from_documents(["low"], pattern="whitespace", groups=["x"], group_by="source")
    for other in (
        WordCounts.from_documents(["low"], pattern="whitespace", groups=["x"], group_by="language"),
        WordCounts.from_documents(["low"], pattern="whitespace"),
    ):
        with pytest.raises(ValueError, match="cannot be summed: group_by source and"):
            some.merge(other)
        if other.group_by is None:
            with pytest.raises(ValueError, match="group_by None and source"):
                other.merge(some)
    for groups in ([], ["x", "y"]):
        with pytest.raises(ValueError, match="not as many groups as documents"):
            WordCounts.from_documents(["low"], groups=groups)


def test_special_tokens_overlong_words_and_normalizers():
    texts, groups = ["LOW<|end|>low", "x" * 20 + " low<|end|>", "Low"], ["a", "b", "a"]
    options = dict(pattern="whitespace", special_tokens=["<|end|>"], max_word_bytes=10, normalizer="lowercase")
    words = WordCounts.from_documents(texts, groups=groups, **options)
    assert counts_of(words) == {("a", b"low"): 3, ("b", b"low"): 1}
    assert words.group_totals["a"]["special_tokens"] == words.group_totals["b"]["special_tokens"] == 1
    assert (words.group_totals["b"]["overlong_words"], words.group_totals["b"]["overlong_bytes"]) == (1, 20)
    assert alike(words.ungrouped(), WordCounts.from_documents(texts, **options))
    counter = WordCounter(
        pre_tokenizer("whitespace"), SpecialTokens(["<|end|>"]), max_word_bytes=10, normalizer="lowercase", group_by="group"
    )
    counter.add(documents_of(texts, "strict", Groups.of("group", groups)))
    _, totals = counter.finish(1)
    assert totals == {**words.totals, "groups": words.group_totals}


# ---- names ---------------------------------------------------------------------------------------

HOSTILE = ["<script>alert(1)</script>", "a\nb\x00c\x1b[31m", "x" * 100_000, " ", "日本語", "../../etc", '"', "\u202e"]


def test_names_of_any_kind(tmp_path):
    words = WordCounts.from_documents(["low"] * len(HOSTILE), pattern="whitespace", groups=HOSTILE)
    words.write(str(tmp_path / "w"), shards=2)
    found = WordCounts.read(str(tmp_path / "w"))
    assert found.groups == tuple(sorted(HOSTILE)) and found.to_dict() == {b"low": len(HOSTILE)}
    assert all(found.of_group(name).to_dict() == {b"low": 1} for name in HOSTILE)
    assert [group_name(v) for v in (b"\xff", "\ud800", 10**30, -1.5, False)] == ["\ufffd", "\ufffd", str(10**30), "-1.5", "false"]
    for value in (["en"], {"a": 1}, ("en",)):
        with pytest.raises(TypeError, match="names no group"):
            group_name(value)


@pytest.mark.parametrize(
    "column, names",
    [
        (pa.array([3, None, 3, 5]), ["3", "", "3", "5"]),
        (pa.array([1.0, None, 1.5, 1.0]), ["1.0", "", "1.5", "1.0"]),
        (pa.array([1.5, None, 2, 1.5], pa.float16()), ["1.5", "", "2.0", "1.5"]),
        (pa.array([True, None, False, True]), ["true", "", "false", "true"]),
        (pa.array([0, None, 1, 0], pa.date32()), ["1970-01-01", "", "1970-01-02", "1970-01-01"]),
        (pa.array([1, None, 2, 1], pa.timestamp("ns")), [f"1970-01-01 00:00:00.00000000{n}" if n else "" for n in (1, 0, 2, 1)]),
        (pa.array(["en", None, "", "en"]), ["en", "", "", "en"]),
        (pa.array(["en", None, "", "en"], pa.string_view()), ["en", "", "", "en"]),
        (pa.array(["en", None, "", "en"]).dictionary_encode(), ["en", "", "", "en"]),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2]), pa.array(["en", None, "en"])), ["en", "", "", "en"]),
        (pa.array([b"en", None, b"\xff", b"en"]), ["en", "", "\ufffd", "en"]),
        (pa.array([None] * 4), [""] * 4),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_columns_of_many_types(column, names):
    for offset in (0, 1):
        groups = Groups.of_column("lang", column.slice(offset))
        assert [groups.names[i] for i in groups.index] == names[offset:]
        assert len(set(groups.names)) == len(groups.names)


@given(st.lists(st.tuples(st.binary(max_size=5), st.sampled_from("abc")), max_size=9))
@settings(deadline=None, max_examples=60)
def test_documents_are_split_by_group(pairs):
    texts, names = [text for text, _ in pairs], [name for _, name in pairs]
    bounds = np.repeat(np.cumsum([0, *map(len, texts)]), 2)[1:-1].astype(np.int64)
    found = {
        name: [bytes(data[start:end]) for start, end in zip(its[::2], its[1::2])]
        for name, data, its in Groups.of("g", names).split(b"".join(texts), bounds)
    }
    expected = defaultdict(list)
    for text, name in pairs:
        expected[name].append(text)
    assert found == expected


# ---- packed words --------------------------------------------------------------------------------


def packed(counts: dict[bytes, int], documents: bool = False) -> bytes:
    table = _words.WordTable(documents=documents, slots=16)
    for word, count in counts.items():
        table.add(word, count, 1 if documents else 0)
    return table.pack(1, ordered=True)[0][1]


COUNTS = st.dictionaries(st.text("ab", min_size=1, max_size=20).map(str.encode), st.integers(1, 10**13), min_size=1)


@given(st.lists(COUNTS, min_size=1, max_size=5), st.booleans())
@settings(deadline=None, max_examples=80)
def test_interleaved_rows(tables, documents):
    shard, shards, data, offsets, counts, held, of = _words.interleave([packed(one, documents) for one in tables])
    bounds = np.frombuffer(offsets, np.int64)
    words = [data[start:end] for start, end in zip(bounds, bounds[1:])]
    found = list(zip(words, np.frombuffer(of, np.int32).tolist(), np.frombuffer(counts, np.int64).tolist()))
    assert found == sorted((word, i, count) for i, one in enumerate(tables) for word, count in one.items())
    assert (shard, shards, held is not None) == (0, 1, documents)
    if documents:
        assert np.frombuffer(held, np.int64).tolist() == [1] * len(words)
    flags = _words.repeated(np.frombuffer(data, np.uint8), bounds, words[0])
    assert list(flags) == [1, *(a == b for a, b in zip(words, words[1:]))]


def test_broken_packed_words_are_refused():
    good = grouping.pack_groups([("a", packed({b"low": 1})), ("b", packed({b"low": 2, b"new": 1}))])
    assert [name for name, _ in grouping.unpack_groups(good)] == ["a", "b"]
    for size in range(4, len(good)):
        try:
            found = grouping.merge_packed([good[:size], good])
        except ValueError:
            continue
        assert grouping.unpack_groups(found)[0][0] == "a" and size in (4, 4 + 12 + 1 + len(packed({b"low": 1})))
    with pytest.raises(ValueError, match="by group and words that were not"):
        grouping.merge_packed([good, packed({b"low": 1})])
    plain = packed({b"b": 1, b"a": 1})
    unsorted = plain[:21] + plain[24:] + plain[21:24]
    for broken in ([unsorted], [packed({b"a": 1}), packed({b"a": 1}, True)], [], [b"bbw1"]):
        with pytest.raises(ValueError):
            _words.interleave(broken)
    for slots in (0, 8, 24, 2048):
        with pytest.raises(ValueError, match="a power of two from 16 to 1024"):
            _words.WordTable(slots=slots)
    assert _words.WordTable(slots=16).nbytes == 512


@pytest.mark.parametrize("change", ["groups", "order", "name", "column", "missing"])
def test_broken_artifacts_are_refused(change, tmp_path):
    words = WordCounts.from_documents(["low low", "low"], pattern="whitespace", groups=["a", "b"])
    words.write(str(tmp_path))
    (part,) = tmp_path.glob("*.parquet")
    manifest = json.loads((tmp_path / "_manifest.json").read_text())
    rows = pq.read_table(part)
    told = {
        "groups": "has no totals of its groups",
        "order": "the groups of a word are not in order at row 1",
        "name": "holds words of the group 'b', which its _manifest.json does not name",
        "column": "has the columns",
        "missing": "has the columns",
    }[change]
    if change == "groups":
        del manifest["groups"]
    elif change == "name":
        del manifest["groups"]["b"]
    elif change == "missing":
        del manifest["parameters"]["group_by"]
    header = {"kind": "words", "parameters": manifest["parameters"]}
    rows = rows.take([1, 0]) if change == "order" else rows
    rows = rows.set_column(2, "group", rows["group"].cast(pa.string())) if change == "column" else rows
    artifacts.write_parquet(str(part), rows, header)
    artifacts.write_manifest(str(tmp_path), manifest)
    with pytest.raises(FormatError, match=told):
        WordCounts.read(str(tmp_path))


# ---- reading -------------------------------------------------------------------------------------

TEXTS = ["low lower", "bas", None, "newest low", "", "löw"]
LANGS = ["en", "fr", "en", None, "fr", "de"]


def written(folder: Path, kind: str, texts=TEXTS, groups=LANGS) -> str:
    path = folder / f"docs.{kind}"
    if kind == "jsonl":
        lines = [json.dumps({"text": text, "lang": group, "n": i}) for i, (text, group) in enumerate(zip(texts, groups))]
        path.write_text("\n".join(lines))
    else:
        table = pa.table({"lang": pa.array(groups), "text": pa.array(texts, pa.string()), "n": range(len(texts))})
        if kind == "parquet":
            pq.write_table(table, path, row_group_size=max(2, len(texts) // 40))
        else:
            pa.feather.write_feather(table, str(path), compression="uncompressed", chunksize=4)
    return str(path)


def read_all(path: str, **options) -> list[tuple[str, str]]:
    """Return the (group, text) pairs of a file."""
    reading = Reading(group_by=options.pop("group_by", "lang"), **options)
    found = []
    for batch in read_range(SourceRange(path, None, reading.format_of(path), 0, None), reading):
        pairs = zip(batch.bounds[::2], batch.bounds[1::2])
        texts = [bytes(memoryview(batch.data)[start:end]).decode() for start, end in pairs]
        found += zip((batch.groups.names[i] for i in batch.groups.index), texts)
        assert len(batch.groups.index) == len(texts) and batch.groups.by == reading.group_by
    return found


PAIRS = [("" if group is None else group, text) for text, group in zip(TEXTS, LANGS) if text is not None]


@pytest.mark.parametrize("kind", ["parquet", "arrow", "jsonl"])
@pytest.mark.parametrize("places", [False, True])
def test_a_null_is_the_group_without_a_name(kind, places, tmp_path):
    assert read_all(written(tmp_path, kind), places=places, keep=("n",)) == PAIRS
    texts, groups = ["low"] * 5, [1, 2, 2, 1, 1]
    assert read_all(written(tmp_path, kind, texts, groups)) == [(str(n), "low") for n in groups]
    own = written(tmp_path, kind, ["a", "b"], ["x", "y"])
    assert read_all(own, group_by="text") == [("a", "a"), ("b", "b")]


@pytest.mark.parametrize("kind", ["parquet", "arrow", "jsonl"])
def test_a_column_that_is_missing_is_refused_with_those_that_are_there(kind, tmp_path):
    path = written(tmp_path, kind)
    told = "has no field 'language' to group by; it has 'text', 'lang', 'n'" if kind == "jsonl" else (
        "has no column 'language'; it has lang, text, n"
    )
    with pytest.raises(InputError, match=told):
        read_all(path, group_by="language")
    if kind == "jsonl":
        path = tmp_path / "nested.jsonl"
        path.write_text('{"text": "low", "lang": ["en"]}')
        told = r"line 1: the field 'lang' is a list, which names no group: \['en'\]"
    else:
        path = written(tmp_path, kind, ["low"], [["en"]])
        told = r"the column 'lang' holds list<.*>, which names no groups"
    with pytest.raises(InputError, match=told):
        read_all(str(path))


def test_lines_without_the_field_are_set_aside(tmp_path):
    path = tmp_path / "docs.jsonl"
    path.write_text('{"text": "low", "lang": "en"}\n{"text": "new"}')  # nothing else that must be read line by line
    with pytest.raises(InputError, match="line 2: the object has no field 'lang' to group by; it has 'text'"):
        read_all(str(path))
    path.write_text('{"text": "low", "lang": "en"}\n{"text": "new"}\n{"text": "old", "lang": null}\n{"text": "s", "lang": "\\ud800"}')
    with pytest.raises(InputError, match="line 2: the object has no field 'lang' to group by; it has 'text'"):
        read_all(str(path))
    reading = Reading(group_by="lang", errors="skip")
    (batch,) = read_range(SourceRange(str(path), None, "jsonl", 0, None), reading)
    assert [batch.groups.names[i] for i in batch.groups.index] == ["en", "", "\ufffd"]
    assert batch.totals["skipped_documents"] == 1


@pytest.mark.parametrize("values", [["en", "de"], ["en", 7], ["e\\n", "\\u00e9"], ["\\ud83d\\ude00", "\\ud83d"], ["a", "\\ude00"]])
def test_json_lines_in_one_and_line_by_line(values, tmp_path):
    """What Arrow reads at once has the groups that are read line by line."""
    path = tmp_path / "docs.jsonl"
    told = [value if isinstance(value, int) else f'"{value}"' for value in values]
    path.write_text("\n".join(f'{{"text": "low {i}", "lang": {value}}}' for i, value in enumerate(told)))
    assert read_all(str(path)) == read_all(str(path), places=True)
    assert read_all(str(path))[0][0] == json.loads(f'["{values[0]}"]')[0]


def test_text_has_no_columns(tmp_path):
    (tmp_path / "a.txt").write_text("low")
    p = beam.Pipeline(runner=FnApiRunner())
    with pytest.raises(InputError, match="a.txt is read as text, which has no column 'lang' to group by"):
        p | ReadDocuments(str(tmp_path / "*.txt"), group_by="lang")


def test_documents_that_are_not_utf8_leave_their_groups():
    batch = documents_of([b"\xff", "low", b"\xfe", "new"], "skip", Groups.of("g", ["a", "b", "c", "d"]))
    assert [batch.groups.names[i] for i in batch.groups.index] == ["b", "d"]
    assert batch.totals["skipped_documents"] == 2 and batch.totals["documents"] == 2


# ---- pipelines -----------------------------------------------------------------------------------


def made_corpus(folder: Path, documents: int = 1500, groups: int = 300) -> tuple[list[str], list[str], dict[str, str]]:
    """Write documents of many groups as Parquet and JSON lines; return them, their groups, and the paths."""
    draw = random.Random(0)
    known = ["".join(draw.choices("abcdefgé", k=draw.randrange(2, 19))) for _ in range(700)]
    texts = [" ".join(draw.choices(known, k=draw.randrange(30))) for _ in range(documents)]
    names = [f"group {i if i < groups else draw.randrange(20)}" for i in range(documents)]
    return texts, names, {kind: written(folder, kind, texts, names) for kind in ("parquet", "jsonl")}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return made_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def expected(corpus, tmp_path_factory):
    """Return the bytes of the folder with these words in three shards."""
    texts, names, _ = corpus
    folder = tmp_path_factory.mktemp("expected") / "words"
    words = WordCounts.from_documents(texts, pattern="gpt2", groups=names, group_by="lang")
    assert len(words.groups) == 300
    words.write(str(folder), shards=3)
    return parts(folder)


@pytest.mark.parametrize(
    "kind, flags, reading, counting",
    [
        ("parquet", [], {}, {}),
        ("parquet", [], {"range_bytes": 20_000}, {"memory": 100_000}),
        ("jsonl", [], {"range_bytes": 10_000}, {"threads": 3}),
        ("jsonl", PROCESSES, {"range_bytes": 20_000}, {"memory": 1_000_000}),
        pytest.param("parquet", PROCESSES, {"range_bytes": 10_000}, {}, marks=pytest.mark.slow),
    ],
)
def test_the_same_bytes_however_the_work_is_cut(kind, flags, reading, counting, corpus, expected, tmp_path):
    read = ReadDocuments(corpus[2][kind], group_by="lang", **reading)
    count = CountWords("gpt2", group_by="lang", shards=3, **counting)
    run(lambda p: p | read | count | WriteWords(str(tmp_path / "words")), *flags)
    assert parts(tmp_path / "words") == expected


def test_any_number_of_shards_holds_the_same(corpus, tmp_path):
    tables = []
    for shards in (1, 16):
        folder = str(tmp_path / f"{shards}")
        count = CountWords("gpt2", group_by="lang", shards=shards)
        run(lambda p: p | ReadDocuments(corpus[2]["jsonl"], group_by="lang") | count | WriteWords(folder))
        tables.append(WordCounts.read(folder))
    assert counts_of(tables[0]) == counts_of(tables[1]) and tables[0].group_totals == tables[1].group_totals
    manifest = artifacts.read_manifest(str(tmp_path / "16"), "words")
    assert sum(part["words"] for part in manifest["parts"]) == len(tables[0])
    assert sum(part["bytes"] for part in manifest["parts"]) == sum(map(len, tables[0].to_dict()))


def test_learning_from_groups_is_learning_from_their_sum(corpus, tmp_path):
    _, _, paths = corpus
    for name, by in (("grouped", "lang"), ("plain", None)):
        learn = LearnVocabulary(paths["parquet"], str(tmp_path / name), 400, "gpt2", group_by=by, min_count=2)
        run(lambda p, learn=learn: p | learn)
    folders = [tmp_path / "grouped", tmp_path / "plain"]
    grouped, plain = (WordCounts.read(str(folder / "words")) for folder in folders)
    assert grouped.group_by == "lang" and counts_of(grouped) and alike(grouped.ungrouped().merge(), plain.merge())
    for name, vocabulary in (("a", train(grouped, 400, min_count=2)), ("b", train(plain, 400, min_count=2))):
        vocabulary.save(str(tmp_path / name))
        folders.append(tmp_path / name)
    run(lambda p: p | beam.Create([str(folders[0] / "words")]) | TrainVocabulary(str(tmp_path / "c"), 400, min_count=2))
    folders.append(tmp_path / "c")
    for file in (MERGES_FILE, VOCABULARY_FILE):
        assert len({(folder / file).read_bytes() for folder in folders}) == 1


@pytest.mark.parametrize(
    "options",
    [{"unit": "character"}, *({"algorithm": name} for name in ("wordpiece", "wordlevel", "sentencepiece-bpe", "unigram"))],
)
def test_all_that_is_learned(options, corpus):
    texts, names, _ = corpus
    pattern, normalizer = default_cutting(options.get("algorithm", "bpe"))
    grouped = WordCounts.from_documents(texts, pattern=pattern, normalizer=normalizer, groups=names)
    plain = WordCounts.from_documents(texts, pattern=pattern, normalizer=normalizer)
    assert train(grouped, 100, **options).fingerprint == train(plain, 100, **options).fingerprint


def test_tables_are_read_and_summed_in_a_pipeline(corpus, expected, tmp_path):
    texts, names, _ = corpus
    for half in range(2):
        its = slice(half, None, 2)
        words = WordCounts.from_documents(texts[its], pattern="gpt2", groups=names[its], group_by="lang")
        words.write(str(tmp_path / f"half{half}"), shards=3)

    def build(p):
        halves = [p | f"{half}" >> ReadWords(str(tmp_path / f"half{half}")) for half in range(2)]
        halves | beam.Flatten() | MergeWords() | WriteWords(str(tmp_path / "words"))

    run(build)
    assert parts(tmp_path / "words") == expected
    plain = WordCounts.from_documents(["low"], pattern="gpt2")
    plain.write(str(tmp_path / "plain"), shards=3)
    with pytest.raises(Exception, match="counted with different parameters cannot be summed: group_by"):
        run(lambda p: [p | f"{n}" >> ReadWords(str(tmp_path / n)) for n in ("half0", "plain")] | beam.Flatten() | MergeWords())


ROWS = [{"body": "low low", "lang": "en"}, {"body": b"bas low", "lang": 7}, {"body": None, "lang": "en"}, {"body": "", "lang": None}]


@pytest.mark.parametrize("make", [dict, lambda row: beam.Row(**row)], ids=["dict", "Row"])
def test_rows_of_ones_own(make, tmp_path):
    def build(p):
        rows = p | beam.Create([0]) | beam.FlatMap(lambda _: [make(row) for row in ROWS]).with_output_types(beam.typehints.Any)
        counts = rows | CountWords("whitespace", column="body", group_by="lang", documents=True)
        counts | WriteWords(str(tmp_path / "w"))
        assert_that(counts | WordRows(), equal_to([CountedWord(b"bas", 1), CountedWord(b"low", 3)]), "sums")
        grouped = [GroupedWord(b"bas", 1, "7"), GroupedWord(b"low", 2, "en"), GroupedWord(b"low", 1, "7")]
        assert_that(counts | "Groups" >> WordRows(groups=True), equal_to(grouped), "groups")

    run(build)
    words = WordCounts.read(str(tmp_path / "w"))
    assert counts_of(words) == {("en", b"low"): 2, ("7", b"low"): 1, ("7", b"bas"): 1}
    assert words.groups == ("", "7", "en") and words.totals["null_documents"] == 1
    assert words.ungrouped().table["documents"].to_pylist() == [1, 2] and words.merge().table["documents"].to_pylist() == [1, 1, 1]


def test_rows_without_their_group_are_refused(tmp_path):
    p = beam.Pipeline(runner=FnApiRunner())
    with pytest.raises(ValueError, match="the rows have no column 'lang'; they have text"):
        p | beam.Create([beam.Row(text="low")]) | CountWords(group_by="lang")
    with pytest.raises(TypeError, match=r"group_by='lang'\) takes rows or DocumentBatch, not str"):
        p | "Texts" >> beam.Create(["low"]) | "Count" >> CountWords(group_by="lang")
    fn = count_module._CountFn(CountWords(group_by="lang"))
    fn.start_bundle()
    for element, told in [
        ({"text": "low"}, "the element, a dict, has no column 'lang'; it has text"),
        ({"text": "low", "lang": ["en"]}, "the column 'lang' to group by: a list, which names no group"),
        (b"low", "a document of type bytes has no column 'lang' to group by"),
    ]:
        with pytest.raises(TypeError, match=told):
            list(fn.process(element, None))
    with pytest.raises(Exception, match="takes words that were counted by group"):
        run(lambda p: p | beam.Create(["low"]) | CountWords() | WordRows(groups=True))


@pytest.mark.parametrize("read, count", [(None, "lang"), ("lang", None), ("lang", "n")])
def test_reading_and_counting_have_the_same_groups(read, count, tmp_path):
    path = written(tmp_path, "parquet")
    with pytest.raises(Exception, match=f"were read with group_by={read!r}, and are counted with {count!r}"):
        run(lambda p: p | ReadDocuments(path, group_by=read) | CountWords(group_by=count))


def test_windows(tmp_path):
    rows = [({"text": "low low", "lang": "en"}, 1), ({"text": "low", "lang": "fr"}, 2), ({"text": "bas", "lang": "fr"}, 12)]

    def build(p):
        stamped = p | beam.Create(rows) | beam.Map(lambda pair: TimestampedValue(pair[0], pair[1])).with_output_types(beam.typehints.Any)
        stamped | beam.WindowInto(FixedWindows(10)) | CountWords("whitespace", group_by="lang") | WriteWindowedWords(
            str(tmp_path), rolling=2
        )

    run(build)
    tables = [WordCounts.read(str(folder)) for folder in sorted(tmp_path.iterdir())]
    assert [counts_of(words) for words in tables] == [
        {("en", b"low"): 2, ("fr", b"low"): 1},
        {("en", b"low"): 2, ("fr", b"low"): 1, ("fr", b"bas"): 1},
        {("fr", b"bas"): 1},
    ]
    assert [words.group_totals["fr"]["documents"] for words in tables] == [1, 2, 1]


def test_memory_of_many_groups_is_bounded():
    """A group in each document: tables are sent on whenever they are too large."""
    memory = 200_000
    fn = count_module._CountFn(CountWords("whitespace", group_by="g", memory=memory, shards=2))
    fn._BATCH = 1 << 10
    fn.start_bundle()
    window = beam.transforms.window.GlobalWindow()
    emitted, largest = [], 0
    for i in range(2000):
        emitted += fn.process({"text": f"low {i}", "g": f"group {i}"}, window)
        largest = max(largest, *(bundle.counter.nbytes for bundle in fn._bundles.values()), 0) if fn._bundles else largest
    assert 100_000 < largest <= memory and len(emitted) > 20
    emitted += fn.finish_bundle()
    by_shard = defaultdict(list)
    for each in emitted:
        by_shard[each.value[0]].append(each.value[1])
    merged = [pair for shard, values in by_shard.items() for pair in count_module.merged(shard, values)]
    (totals,) = (json.loads(bytes(count_module.unframe(framed)[1])) for shard, framed in merged if shard < 0)
    assert len(totals["groups"]) == totals["documents"] == 2000 and totals["words"] == 4000
    assert set(totals) == {*TOTALS, "groups"}


# ---- the command ---------------------------------------------------------------------------------


def test_commands(corpus, tmp_path, capsys):
    _, _, paths = corpus
    out = tmp_path / "words"
    assert cli.main(["count", paths["parquet"], "-o", str(out), "--group-by", "lang", "--pattern", "gpt2", "--shards", "2"]) == 0
    said = capsys.readouterr().out
    words = WordCounts.read(str(out))
    assert f"words       {out}: {len(words):,} distinct, {words.occurrences:,} in all, parts: 2" in said
    assert "groups      300 by lang: 'group " in said
    assert cli.main(["show", str(out), "--most", "1"]) == 0
    (word, count), = words.most_common(1)
    assert f"{count:,}" in capsys.readouterr().out
    assert cli.main(["show", str(out / "part-00001-of-00002.parquet")]) == 0
    part = pq.read_table(out / "part-00001-of-00002.parquet")
    assert f"{len(set(part['word'].to_pylist())):,} distinct, {sum(part['count'].to_pylist()):,} in all" in capsys.readouterr().out
    plain = tmp_path / "plain"
    words.ungrouped().write(str(plain))
    for name, tables in (("a", [out]), ("b", [plain]), ("c", [out, plain]), ("d", [plain, plain])):
        command = ["train", "--words", *map(str, tables), "-n", "300", "-o", str(tmp_path / name)]
        assert cli.main(command) == 0, capsys.readouterr().err
    merges = [(tmp_path / name / MERGES_FILE).read_bytes() for name in "abcd"]
    assert merges[0] == merges[1] and merges[2] == merges[3] != merges[0]
    assert cli.main(["train", paths["jsonl"], "-n", "300", "-o", str(tmp_path / "e"), "--pattern", "gpt2", "--group-by", "lang"]) == 0
    assert (tmp_path / "e" / MERGES_FILE).read_bytes() == merges[0]
    assert WordCounts.read(str(tmp_path / "e" / "words")).groups == words.groups
    capsys.readouterr()
    (tmp_path / "a.txt").write_text("low")
    for command, code, told in [
        (["count", paths["parquet"], "--group-by", "language"], 1, "has no column 'language'; it has lang, text, n"),
        (["count", str(tmp_path / "a.txt"), "--group-by", "lang"], 1, "a.txt is read as text, which has no column 'lang'"),
        (["train", "--words", str(out), "-n", "300", "--group-by", "lang"], 2, "--group-by goes with a corpus"),
    ]:
        assert cli.main([*command, "-o", str(tmp_path / "f")]) == code
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("beam-bpe: error: ") and told in line
    assert not (tmp_path / "f" / "_manifest.json").exists()
