"""`beam-bpe count`: from a corpus to the table of its words, or to several, each cut in another way."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple, Sequence

from beam_bpe import artifacts, console, storage, word_parts
from beam_bpe.commands import show
from beam_bpe.commands.arguments import add_counting, add_reading, add_running, reading_of
from beam_bpe.commands.usage import Parser, UsageError, check_positive, checked, say
from beam_bpe.counting import check_spaces
from beam_bpe.learning import Learning
from beam_bpe.model import default_cutting
from beam_bpe.pretokenize import DEFAULT_PATTERN, PATTERNS, pre_tokenizer
from beam_bpe.report import files

_COUNT_HELP = (
    "Count the words (pre-tokens) of a corpus into a folder of Parquet parts. With several patterns the corpus is read "
    "once, and each has a table of its own: the folder OUTPUT/NAME of the pattern's name, or OUTPUT/pattern-N of a regex."
)


class Counted(NamedTuple):
    """A table of words that is to be made: its folder, and how documents are cut."""

    folder: str
    pattern: str
    normalizer: str | None


def add(added: Any) -> dict[str, Parser]:
    """Add the parser of the command and return it by name."""
    count: Parser = added.add_parser(
        "count", help="count the words of a corpus", allow_abbrev=False, description=_COUNT_HELP
    )
    count.add_argument("inputs", nargs="+", metavar="INPUT", help="a file, glob, folder or URL")
    count.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where the table of words goes")
    add_reading(count)
    add_counting(count, several=True)
    add_running(count)
    count.set_defaults(run=_count)
    return {"count": count}


def _count(args: argparse.Namespace) -> None:
    tables = _tables(args)
    if len(tables) > 1 and storage.exists(storage.join(args.output, artifacts.MANIFEST)):
        raise FileExistsError(f"{args.output} holds a table of words itself: choose another folder for several")
    count_into(args, tables)


def _tables(args: argparse.Namespace) -> list[Counted]:
    """Return the tables that the options name."""
    patterns, normalizers = args.pattern or [None], args.normalizer or [None]
    if len(normalizers) == 1:
        normalizers = normalizers * len(patterns)
    if len(normalizers) != len(patterns):
        raise UsageError(
            f"--normalizer is given {len(normalizers)} times and --pattern {len(patterns)} times: give it once for all "
            "patterns, or once for each in their order (none for nothing)"
        )
    if args.split_with and len(patterns) > 1:
        raise UsageError("--split-with is what cuts documents: it goes with one --pattern at most")
    for pattern in filter(None, patterns):
        if "," in pattern and set(pattern.split(",")) <= PATTERNS.keys():
            raise UsageError(f"--pattern {pattern} would be one regex: give each of these a --pattern of its own")
    tables: list[Counted] = []
    for number, (pattern, normalizer) in enumerate(zip(patterns, normalizers), 1):
        name = pattern if pattern in PATTERNS else f"pattern-{number}"
        folder = args.output if len(patterns) == 1 else storage.join(args.output, name)
        if folder in (table.folder for table in tables):
            raise UsageError(f"--pattern {pattern} is given twice, and its folder would be {folder}: count it in another run")
        chosen = None if normalizer == "none" else normalizer
        tables.append(Counted(folder, *cutting(pattern, chosen, args.split_with)))
    return tables


def cutting(
    pattern: str | None, normalizer: str | None, split_with: str | None, algorithm: str = "bpe"
) -> tuple[str, str | None]:
    """Return the pattern and the normalizer, those that are usual for the algorithm where no pattern is given."""
    usual, usual_normalizer = default_cutting(algorithm)
    if pattern or split_with:
        usual, usual_normalizer = pattern or DEFAULT_PATTERN, None
    chosen = normalizer or usual_normalizer
    checked(lambda: check_spaces(pre_tokenizer(usual), chosen))
    return usual, chosen


def count_into(
    args: argparse.Namespace, tables: Sequence[Counted], learning: Learning | None = None, stale: str | None = None
) -> list[dict[str, Any]]:
    """Count a corpus into tables in one pipeline, which reads it once, and return their manifests.

    Args:
        learning: what the pipeline then learns from the only table, into the output.
        stale: a file that is taken away once the inputs were found, as what it holds will be of other words.
    """
    from beam_bpe import transforms
    from beam_bpe.transforms import running
    from beam_bpe.transforms.count import shards_for

    check_positive(args, "workers", "shards", "range_bytes", "max_word_bytes", "memory")
    cutters = [
        checked(lambda: pre_tokenizer(one.pattern, split_with=args.split_with, gaps=args.gaps, time_limit=args.time_limit))
        for one in tables
    ]
    native = all(cutter.scanner is not None for cutter in cutters)
    for cutter in cutters:
        if cutter.scanner is None:
            say(args, f"the pattern {cutter.pattern!r} has no native scanner: this is the slow path")
    rejected = args.rejected or storage.join(args.output, "rejected") if args.errors == "skip" else None
    read = checked(
        lambda: transforms.ReadDocuments(
            args.inputs,
            **reading_of(args),
            format=args.format,
            pattern=None if args.split_with else [one.pattern for one in tables],
            split_with=args.split_with,
            special_tokens=args.special_token,
            normalizer=tables[0].normalizer if args.split_with else [one.normalizer for one in tables],
            dead_letters=rejected,
            whole=args.count_documents,
            range_bytes=args.range_bytes,
            group_by=args.group_by,
        )
    )
    read.workers = running.workers_for(read.total_bytes, args.workers)
    try:
        options = running.options_for(args.beam_flags, read.workers, native)
    except running.BadFlags as error:
        raise UsageError(str(error)) from None
    counts = [
        transforms.CountWords(
            pattern=one.pattern,
            split_with=args.split_with,
            gaps=args.gaps,
            special_tokens=args.special_token,
            normalizer=one.normalizer,
            max_word_bytes=args.max_word_bytes,
            shards=args.shards or shards_for(read.total_bytes),
            documents=args.count_documents,
            memory=args.memory << 20,
            time_limit=args.time_limit,
            threads=read.workers if native and not args.beam_flags else 1,
            group_by=args.group_by,
        )
        for one in tables
    ]

    if stale is not None:
        storage.remove(stale)
        files.remove(args.output)
    if rejected and args.overwrite:
        for name in storage.list_names(rejected):
            if name.startswith("rejected-") and name.endswith(".jsonl"):
                storage.remove(storage.join(rejected, name))

    def build(pipeline: Any) -> None:
        documents = pipeline | read
        for number, (one, count) in enumerate(zip(tables, counts), 1):
            told = f" {number}" if len(tables) > 1 else ""
            written = (
                documents
                | f"CountWords{told}" >> count
                | f"WriteWords{told}" >> transforms.WriteWords(one.folder, overwrite=args.overwrite)
            )
            if learning is not None:
                written | transforms.TrainVocabulary(args.output, overwrite=args.overwrite, **vars(learning))

    plain = not any(file.compression or read.format_of(file) == "parquet" for file in read.files)
    listed = read.total_bytes if plain else None  # what is stored is not what will be read

    wanted = 0 if learning is None else learning.merges or learning.vocab_size or 0
    counted = False

    def watch(seen: Any) -> None:
        nonlocal counted
        done = seen.done
        if "bytes" not in done:
            line.tasks(seen.state, seen.tasks)
        elif not counted:
            line.show("counting", done["bytes"], listed, "bytes", words=done.get("words", 0))
        if done.get("distinct_words") or done.get("merges"):  # learning has begun
            counted = True
            line.show("learning", done.get("merges", 0), wanted, "merges")

    with console.watching(args.progress, spawns=running.spawns(options), debug=args.debug) as line:
        try:
            running.run(build, options, watch)
        except Exception:
            for one in tables:
                _clear_empty(one.folder)
            raise
    manifests = [artifacts.read_manifest(one.folder, word_parts.KIND) for one in tables]
    for one, manifest in zip(tables, manifests):
        show.print_words(one.folder, manifest)
    if rejected and manifests[0]["totals"]["skipped_documents"]:
        print(f"{'set aside':<11} {rejected}")
    empty = [one for one in tables if _clear_empty(one.folder)]
    if empty:
        under = "" if len(tables) == 1 else " under " + ", ".join(repr(one.pattern) for one in empty)
        raise ValueError(f"the corpus has no words{under} (files read: {len(read.files)})")
    return manifests


def _clear_empty(folder: str) -> bool:
    """Take the manifest of a table without words away, since it stands in the way of the next attempt."""
    manifest = storage.join(folder, artifacts.MANIFEST)
    empty = storage.exists(manifest) and not artifacts.read_manifest(folder, word_parts.KIND)["totals"].get("words")
    if empty:
        storage.remove(manifest)
    return empty
