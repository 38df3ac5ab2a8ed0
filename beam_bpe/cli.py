"""The command `beam-bpe`: count words, train a vocabulary, show what an artifact holds."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import logging
import os
import re
import sys
import threading
import traceback
from typing import Any, NoReturn, Sequence

from beam_bpe import __version__, artifacts, console, foreign, progress, storage, words
from beam_bpe.documents import ERRORS, FORMATS, UNITS
from beam_bpe.pretokenize import DEFAULT_PATTERN, GAPS, PATTERNS, pre_tokenizer
from beam_bpe.special import SpecialTokens
from beam_bpe.training import TIE_BREAKS, check_memory, check_tie_break, check_vocab_size, train
from beam_bpe.formats.parquet import MERGES_FILE, VOCABULARY_FILE
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts

USAGE, FAILED, INTERRUPTED = 2, 1, 130


class UsageError(ValueError):
    """The words of the command are wrong."""


class _Parser(argparse.ArgumentParser):
    """An argument parser that raises instead of leaving, and suggests the option that was meant."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")

    def is_unknown(self, word: str) -> bool:
        return re.match(r"--\w", word) is not None and word.split("=")[0] not in self._option_string_actions

    def check_known(self, unknown: Sequence[str]) -> None:
        if not unknown:
            return
        word = unknown[0].split("=")[0]
        close = difflib.get_close_matches(word, list(self._option_string_actions), 1)
        hint = f"; did you mean {close[0]}?" if close else "."
        self.error(f"there is no option {word}{hint} Beam's own options come after --")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 1 (failed), 2 (usage), 130 (interrupted)."""
    if argv is not None:
        return _run(list(argv))
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
        getattr(sys, name).reconfigure(errors="backslashreplace")
    if "--debug" not in sys.argv:  # threads of Beam whose worker was ended with us; ours hand their errors over
        threading.excepthook = lambda _: None
    code = _run(sys.argv[1:])
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
    # Leave at once: after Ctrl-C Beam's threads would be waited for until the job's end, and Arrow's threads may
    # abort a Python that is ending.
    console.end_children()
    os._exit(code)


def _run(argv: list[str]) -> int:
    beam_flags = argv[argv.index("--") + 1 :] if "--" in argv else []
    own = argv[: argv.index("--")] if "--" in argv else argv
    debug = "--debug" in own
    logging.basicConfig(level=logging.INFO if debug else logging.ERROR, format="%(name)s: %(message)s")
    if not debug:  # what fails is said once, in one line
        logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    try:
        parser, commands = _parser()
        if not own:
            parser.print_help()
            return USAGE
        if own[0] in commands:
            chosen = commands[own[0]]  # misspelt options first: one that is demanded would be said to be missing
            chosen.check_known([word for word in own if chosen.is_unknown(word)])
            args, unknown = chosen.parse_known_intermixed_args(own[1:])
            args.command = own[0]
            chosen.check_known(unknown)
        else:
            args = parser.parse_args(own)
        args.beam_flags = beam_flags
        if getattr(args, "output", None) == "":
            raise UsageError("--output is empty")
        {"count": _count, "train": _train, "show": _show}[args.command](args)
        return 0
    except KeyboardInterrupt:
        print("\nbeam-bpe: interrupted; nothing half-written stands in the output", file=sys.stderr)
        if beam_flags:
            print("beam-bpe: the job was told to stop; its workers may still finish what they do", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has seen enough
        return FAILED
    except Exception as error:
        if debug:
            traceback.print_exc()
        else:
            print(f"beam-bpe: error: {_as_options(console.one_line(error))}", file=sys.stderr)
        return USAGE if isinstance(error, UsageError) else FAILED


# ---- arguments -----------------------------------------------------------------------------------


def _parser() -> tuple[_Parser, dict[str, _Parser]]:
    parser = _Parser(prog="beam-bpe", description=__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"beam-bpe {__version__}")
    added = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)
    commands = {}
    count = commands["count"] = added.add_parser(
        "count", help="count the words of a corpus", allow_abbrev=False, description=_COUNT_HELP
    )
    count.add_argument("inputs", nargs="+", metavar="INPUT", help="a file, glob, folder or URL")
    count.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where the table of words goes")
    _add_reading(count)
    _add_counting(count)
    _add_running(count)

    learn = commands["train"] = added.add_parser(
        "train", help="learn a vocabulary from a corpus or from counts", allow_abbrev=False, description=_TRAIN_HELP
    )
    learn.add_argument("inputs", nargs="*", metavar="INPUT", help="a file, glob, folder or URL")
    learn.add_argument(
        "--words",
        nargs="+",
        metavar="TABLE",
        help="learn from counts instead: folders of words, or .parquet, .csv, .tsv files made elsewhere",
    )
    learn.add_argument("--word-column", default="word", help="of a table made elsewhere (word)")
    learn.add_argument("--count-column", default="count", help="of a table made elsewhere (count)")
    learn.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where the vocabulary goes")
    learn.add_argument(
        "-n", "--vocab-size", type=int, required=True, help="tokens, the 256 bytes and the special tokens included"
    )
    learn.add_argument("--min-count", type=int, default=1, help="leave out words that occur less often (1)")
    learn.add_argument("--min-pair-count", type=int, default=2, help="do not merge pairs that occur less often (2)")
    learn.add_argument("--max-token-length", type=int, help="in bytes, inclusive (no limit)")
    learn.add_argument("--tie-break", choices=TIE_BREAKS, default=TIE_BREAKS[0], help="how equal counts are decided")
    learn.add_argument(
        "--train-on",
        choices=("submitter", "worker"),
        default="submitter",
        help="learn in this process, or as the last step of the pipeline (submitter)",
    )
    _add_reading(learn)
    _add_counting(learn)
    _add_running(learn)

    show = commands["show"] = added.add_parser("show", help="show what an artifact holds", allow_abbrev=False)
    show.add_argument("path", help="a folder of words, a vocabulary's folder, or one of its files")
    show.add_argument("--most", type=int, default=10, help="how many rows of each list (10)")
    show.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser, commands


_COUNT_HELP = "Count the words (pre-tokens) of a corpus into a folder of Parquet parts."
_TRAIN_HELP = (
    "Learn byte-level BPE merges from a corpus, or from counts. Writes merges.parquet and vocabulary.parquet, "
    "and the counts of a corpus as the folder words."
)


def _add_reading(parser: _Parser) -> None:
    group = parser.add_argument_group("reading")
    group.add_argument("--documents", choices=UNITS, default="file", help="what a document of a text file is (file)")
    group.add_argument("--separator", help=r"the text between documents, with --documents separator (\n, \r, \t and \\ are read)")
    group.add_argument("--field", default="text", help="of JSON lines (text)")
    group.add_argument("--column", default="text", help="of Parquet and Arrow tables (text)")
    group.add_argument("--format", choices=("auto", *FORMATS), default="auto", help="by default by each file's name")
    group.add_argument(
        "--errors",
        choices=ERRORS,
        default="replace",
        help="bytes that are not UTF-8 become U+FFFD, fail the job, or set their document aside; skip also sets "
        "broken lines and files aside (replace)",
    )
    group.add_argument("--rejected", metavar="FOLDER", help="for what --errors skip sets aside (OUTPUT/rejected)")
    group.add_argument("--range-bytes", type=int, help="bytes that one worker reads at a time (by the input)")


def _add_counting(parser: _Parser) -> None:
    group = parser.add_argument_group("counting")
    group.add_argument(
        "--pattern",
        help=f"how documents are cut into words: {', '.join(PATTERNS)}, or a regex, which is slow ({DEFAULT_PATTERN})",
    )
    group.add_argument("--split-with", metavar="MODULE:FUNCTION", help="cut documents with a function, which is slow")
    group.add_argument("--gaps", choices=GAPS, default="keep", help="text between the matches of a regex (keep)")
    group.add_argument("--time-limit", type=float, default=60.0, help="seconds a regex may take for a document (60)")
    group.add_argument(
        "--special-token", action="append", default=[], metavar="TEXT", help="cuts documents, is not learned; repeatable"
    )
    group.add_argument("--max-word-bytes", type=int, default=1 << 24, help="longer words are left out (16 MiB)")
    group.add_argument("--count-documents", action="store_true", help="count also the documents that hold a word, what stands between special tokens being one of its own")
    group.add_argument("--shards", type=int, help="parts of the table of words (by the input)")
    group.add_argument("--memory", type=int, default=512, help="MB for the tables of one process (512)")


def _add_running(parser: _Parser) -> None:
    group = parser.add_argument_group("running")
    group.add_argument("--workers", type=int, help="local workers (the cores, where the input pays for them)")
    group.add_argument("--overwrite", action="store_true", help="replace what stands in the output")
    group.add_argument("--progress", choices=console.MODES, default="auto", help="(auto: a bar on a terminal)")
    group.add_argument("--debug", action="store_true", help="show tracebacks and Beam's log")


# ---- count ---------------------------------------------------------------------------------------


def _count(args: argparse.Namespace) -> None:
    _count_into(args, args.output)


def _count_into(args: argparse.Namespace, folder: str, vocabulary: str | None = None) -> dict[str, Any]:
    """Run the counting pipeline into a folder of words, and learn in it if `vocabulary` names a folder."""
    from beam_bpe import transforms
    from beam_bpe.transforms import running
    from beam_bpe.transforms.count import shards_for

    chosen = _checked(
        lambda: pre_tokenizer(
            args.pattern or DEFAULT_PATTERN, split_with=args.split_with, gaps=args.gaps, time_limit=args.time_limit
        )
    )
    for name in ("workers", "shards", "range_bytes", "max_word_bytes", "memory"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')} is {value}; it must be at least 1")
    if chosen.scanner is None:
        _say(args, f"the pattern {chosen.pattern!r} has no native scanner: this is the slow path")
    rejected = args.rejected or storage.join(args.output, "rejected") if args.errors == "skip" else None
    read = _checked(
        lambda: transforms.ReadDocuments(
            args.inputs,
            documents=args.documents,
            separator=_unescaped(args.separator),
            field=args.field,
            column=args.column,
            format=args.format,
            errors=args.errors,
            pattern=None if args.split_with else args.pattern or DEFAULT_PATTERN,
            split_with=args.split_with,
            special_tokens=args.special_token,
            dead_letters=rejected,
            whole=args.count_documents,
            range_bytes=args.range_bytes,
        )
    )
    read.workers = running.workers_for(read.total_bytes, args.workers)
    try:
        options = running.options_for(args.beam_flags, read.workers, chosen.scanner is not None)
    except running.UnknownOption as error:
        raise UsageError(str(error)) from None
    count = transforms.CountWords(
        pattern=args.pattern or DEFAULT_PATTERN,
        split_with=args.split_with,
        gaps=args.gaps,
        special_tokens=args.special_token,
        max_word_bytes=args.max_word_bytes,
        shards=args.shards or shards_for(read.total_bytes),
        documents=args.count_documents,
        memory=args.memory << 20,
        time_limit=args.time_limit,
        threads=read.workers if chosen.scanner is not None and not args.beam_flags else 1,
    )

    if rejected and args.overwrite:
        for name in storage.list_names(rejected):
            if name.startswith("rejected-") and name.endswith(".jsonl"):
                storage.remove(storage.join(rejected, name))

    def build(pipeline: Any) -> None:
        written = pipeline | read | count | transforms.WriteWords(folder, overwrite=args.overwrite)
        if vocabulary is not None:
            written | transforms.TrainVocabulary(
                vocabulary, overwrite=args.overwrite, min_count=args.min_count, **_learning(args)
            )

    plain = not any(file.compression or read.format_of(file) == "parquet" for file in read.files)
    listed = read.total_bytes if plain else None  # what is stored is not what will be read

    wanted = check_vocab_size(args.vocab_size, args.special_token) if vocabulary is not None else 0

    counted = False

    def watch(state: str, seconds: float) -> None:
        nonlocal counted
        done = progress.done()
        if not done:
            line.show("running", 0, None, "bytes", state=state.lower())
        elif not counted:
            line.show("counting", done.get("bytes", 0), listed, "bytes", words=done.get("words", 0))
        if "distinct_words" in done:  # learning has begun
            counted = True
            line.show("learning", done.get("merges", 0), wanted, "merges")

    with contextlib.ExitStack() as quiet:
        stream = sys.stderr
        if running.spawns(options) and not args.debug:
            stream = quiet.enter_context(console.silent_children(stream))
        line = console.ProgressLine(args.progress, stream)
        quiet.callback(line.end)
        if not args.debug:
            quiet.enter_context(contextlib.redirect_stderr(console.WithoutTracebacks(stream)))
        try:
            running.run(build, options, watch)
        except Exception:
            _clear_empty(folder)
            raise
    manifest = artifacts.read_manifest(folder, words.KIND)
    _print_words(folder, manifest)
    if rejected and manifest["totals"]["skipped_documents"]:
        print(f"{'set aside':<11} {rejected}")
    if _clear_empty(folder):
        raise ValueError(f"the corpus has no words (files read: {len(read.files)})")
    return manifest


def _clear_empty(folder: str) -> bool:
    """Take the manifest of a table without words away, since it stands in the way of the next attempt."""
    manifest = storage.join(folder, artifacts.MANIFEST)
    empty = storage.exists(manifest) and not artifacts.read_manifest(folder, words.KIND)["totals"].get("words")
    if empty:
        storage.remove(manifest)
    return empty


def _unescaped(separator: str | None) -> str | None:
    r"""Read \n, \r, \t and \\ in a separator, which a shell cannot easily pass."""
    if separator is None:
        return None
    known = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}

    def meant(escape: re.Match[str]) -> str:
        if escape[1] not in known:
            raise UsageError(f"--separator knows the escapes \\n, \\r, \\t and \\\\, not {escape[0]}")
        return known[escape[1]]

    return re.sub(r"\\(.|$)", meant, separator, flags=re.S)


# ---- train ---------------------------------------------------------------------------------------


def _train(args: argparse.Namespace) -> None:
    if bool(args.inputs) == bool(args.words):
        raise UsageError("train takes either a corpus (INPUT …) or counts (--words TABLE …)")
    _checked(lambda: check_vocab_size(args.vocab_size, args.special_token))
    _checked(lambda: check_tie_break(args.tie_break))
    _checked(lambda: SpecialTokens(args.special_token))
    for name in ("min_count", "min_pair_count", "max_token_length"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')} is {value}; it must be at least 1")
    vocabulary = storage.join(args.output, VOCABULARY_FILE)
    if storage.exists(vocabulary):
        if not args.overwrite:
            raise FileExistsError(
                f"{args.output} already holds a vocabulary; choose another folder or overwrite it (--overwrite)"
            )
        storage.remove(vocabulary)  # first, so that no failure leaves it beside the words of another
    if args.words:
        _learn(args, _given_words(args))
        return
    folder = storage.join(args.output, "words")
    if storage.exists(storage.join(folder, artifacts.MANIFEST)) and not args.overwrite:
        raise FileExistsError(
            f"{folder} already holds words; learn from them (--words {folder}) or count again (--overwrite)"
        )
    if args.train_on == "worker":
        _count_into(args, folder, args.output)
        _print_vocabulary(args.output, Vocabulary.load(args.output))
        return
    manifest = _count_into(args, folder)
    parts = manifest["parts"]
    rows = sum(part["rows"] for part in parts)
    check_memory(sum(part["bytes"] for part in parts) + rows, rows)
    _learn(args, WordCounts.read(folder))


def _given_words(args: argparse.Namespace) -> WordCounts:
    files = [path for path in args.words if foreign.is_foreign(path)]
    if files and len(files) != len(args.words):
        raise UsageError("--words takes folders of words or files made elsewhere, not both")
    if files:
        if args.pattern is None:
            _say(args, "the vocabulary records no pre-tokenization: --pattern says how these words were cut")
        chosen = _checked(lambda: pre_tokenizer(args.pattern or "none", gaps=args.gaps))
        return WordCounts.read_foreign(
            files, word_column=args.word_column, count_column=args.count_column, pre_tokenizer=chosen
        )
    if args.pattern is not None:
        raise UsageError("--pattern goes with tables made elsewhere; a folder of words records its own")
    tables = [WordCounts.read(path) for path in args.words]
    return tables[0].merge(*tables[1:]) if len(tables) > 1 else tables[0]


def _learn(args: argparse.Namespace, table: WordCounts) -> None:
    if args.min_count > 1:
        table = table.prune(args.min_count)
    line = console.ProgressLine(args.progress)

    def report(done: int, wanted: int, count: int) -> None:
        line.show("learning", done, wanted, "merges", last=f"last pair {count:,} times" if count else "indexing")

    try:
        vocabulary = train(table, progress=report, **_learning(args))
        made = len(vocabulary.left)
        line.show("learning", made, made, "merges")
    finally:
        line.end()
    vocabulary.save(args.output, overwrite=args.overwrite)
    _print_vocabulary(args.output, vocabulary)


def _learning(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "vocab_size": args.vocab_size,
        "special_tokens": args.special_token,
        "min_pair_count": args.min_pair_count,
        "max_token_length": args.max_token_length,
        "tie_break": args.tie_break,
    }


# ---- show ----------------------------------------------------------------------------------------


def _show(args: argparse.Namespace) -> None:
    path = args.path
    if storage.exists(storage.join(path, artifacts.MANIFEST)) or _holds_parts(path):
        manifest = artifacts.read_manifest(path, words.KIND)
        _print_words(path, manifest)
        _print_parameters(manifest["parameters"])
        _print_most_common(args, WordCounts.read(path))
        return
    folder = path
    if not storage.exists(path):
        raise FileNotFoundError(f"{path} does not exist")
    if path.endswith(".parquet"):
        with artifacts.open_parquet(path) as file:
            header = artifacts.read_header(path, file)
        if header.get("kind") == words.KIND:
            _show_part(args, header)
            return
        folder = path[: -len(path.rpartition("/")[2])].rstrip("/") or "."
    vocabulary = Vocabulary.load(path)
    _print_vocabulary(folder, vocabulary)
    _print_parameters(vocabulary.parameters)
    _print_totals(vocabulary.totals)
    merges = vocabulary.merges
    for title, some in (("first", merges[: args.most]), ("last", merges[max(args.most, len(merges) - args.most) :])):
        if some:
            print(f"{title} merges (rank, count, left + right)")
        for merge in some:
            left, right = console.readable(merge.left), console.readable(merge.right)
            print(f"  {merge.rank:>7}  {merge.count:>14,}  {console.shortened(left)} + {console.shortened(right)}")


def _holds_parts(path: str) -> bool:
    try:
        return any(name.startswith("part-") for name in storage.list_names(path))
    except NotADirectoryError:
        return False


def _show_part(args: argparse.Namespace, header: dict[str, Any]) -> None:
    table = WordCounts(artifacts.read_parquet(args.path, words.KIND)[0])
    print(f"{'words':<11} {args.path}: {len(table):,} distinct, {table.occurrences:,} in all, one part of a table")
    _print_parameters(header["parameters"])
    _print_most_common(args, table)


def _print_most_common(args: argparse.Namespace, table: WordCounts) -> None:
    print(f"{args.most} most frequent words")
    for word, count in table.most_common(args.most):
        print(f"  {count:>14,}  {console.shortened(console.readable(word))}")


def _print_words(folder: str, manifest: dict[str, Any]) -> None:
    parts, totals = manifest["parts"], manifest["totals"]
    rows = sum(part["rows"] for part in parts)
    print(f"{'words':<11} {folder}: {rows:,} distinct, {totals['words']:,} in all, parts: {len(parts)}")
    _print_totals(totals)


def _print_totals(totals: Any) -> None:
    print(f"{'corpus':<11} {totals.get('documents', 0):,} documents, {console.amount(totals.get('bytes', 0), 'bytes')}")
    rest = {k: v for k, v in totals.items() if v and k not in ("documents", "bytes", "words", "distinct_words")}
    if rest:
        print(f"{'of which':<11} " + ", ".join(f"{v:,} {k.replace('_', ' ')}" for k, v in rest.items()))


def _print_parameters(parameters: Any) -> None:
    for name, value in sorted(parameters.items()):
        if name == "words":
            _print_parameters(value)
        elif isinstance(value, dict):
            print(f"{name:<11} " + ", ".join(f"{k} {console.shortened(str(v))}" for k, v in value.items()))
        else:
            print(f"{name:<11} {value}")


_STOPPED = {
    "vocab_size": "the vocabulary is full",
    "min_pair_count": "no pair left is frequent enough",
    "no_pairs": "no pair is left",
}


def _print_vocabulary(folder: str, vocabulary: Vocabulary) -> None:
    texts = (token for token in vocabulary.tokens if token.decode("utf-8", "replace").strip().isalpha())
    longest = sorted(texts, key=len, reverse=True)[:10]
    merges, tokens = storage.join(folder, MERGES_FILE), storage.join(folder, VOCABULARY_FILE)
    print(f"{'merges':<11} {merges}: {len(vocabulary.left):,}; {_STOPPED[vocabulary.stop_reason]}")
    print(f"{'vocabulary':<11} {tokens}: {len(vocabulary):,} tokens, fingerprint {vocabulary.fingerprint[:16]}")
    print(f"{'longest':<11} " + " ".join(console.shortened(console.readable(token), 40) for token in longest))


# ---- small things --------------------------------------------------------------------------------


def _checked(check: Any) -> Any:
    """Return what a check of arguments returns; what it refuses is an error of usage."""
    try:
        return check()
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from None


def _as_options(text: str) -> str:
    """Write the parameters of Python that a message names as options: errors='skip' as --errors skip."""
    return re.sub(r"\b(errors|documents)='(\w+)'", r"--\1 \2", text)


def _say(args: argparse.Namespace, text: str) -> None:
    if args.progress != "json":
        print(f"beam-bpe: note: {text}", file=sys.stderr)
