"""`beam-bpe measure` and `beam-bpe curve`: what vocabularies make of a corpus, or of its table of words."""

from __future__ import annotations

import argparse
import tempfile
from typing import Any, Sequence

from beam_bpe import console, measured, storage
from beam_bpe.commands.arguments import add_reading, add_running, reading_of
from beam_bpe.commands.given_corpus import print_left_out
from beam_bpe.commands.given_words import add_words, mismatch_as_option, read_words, read_words_by_cutting
from beam_bpe.commands.usage import Parser, UsageError, check_positive, checked, say
from beam_bpe.commands.vocabularies import add_vocabulary, load, load_all
from beam_bpe.costs import CostModel
from beam_bpe.curve import Curve, check_curve, check_merges, size_curve
from beam_bpe.distribution import EXACT
from beam_bpe.encoders import METHODS
from beam_bpe.measuring import measure_words
from beam_bpe.pretokenize import PATTERNS
from beam_bpe.report.wording import KNEE
from beam_bpe.statistics import BASELINES, UNITS, Measures, Statistics
from beam_bpe.tokenizer import SPECIAL_POLICIES
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts

_MEASURE_HELP = (
    "Measure vocabularies on a corpus, or on its table of words alone: tokens, compression, fertility, words kept whole, "
    "entropy, fairness among groups. All counts are exact."
)
_CURVE_HELP = (
    "Compute how many tokens a corpus has at each size of a vocabulary, by group, from its table of words: exactly, and "
    f"without learning again. Writes a Parquet table with what each size costs. The knee is {KNEE}."
)
_GROUPS_SHOWN = 40


def add(added: Any) -> dict[str, Parser]:
    """Add the parsers of the commands and return them by name."""
    parser: Parser = added.add_parser(
        "measure", help="measure vocabularies on a corpus or its words", allow_abbrev=False, description=_MEASURE_HELP
    )
    parser.add_argument("inputs", nargs="*", metavar="INPUT", help="a file, glob, folder or URL")
    add_words(parser, "instead of a corpus; each vocabulary is measured on those that were cut as it cuts")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="where statistics.json and the frequencies of tokens go")
    add_vocabulary(parser, several=True)
    group = parser.add_argument_group("measuring")
    group.add_argument(
        "--baseline",
        action="append",
        default=[],
        choices=BASELINES,
        help="measure the plainest tokens beside them; repeatable",
    )
    group.add_argument(
        "--group-by", metavar="COLUMN", help="measure apart what differs in this column, or field of JSON lines"
    )
    group.add_argument("--reference", metavar="GROUP", help="tell each group's premium over this one")
    group.add_argument(
        "--parity-unit",
        choices=UNITS,
        default="character",
        help="of the premium and the Gini coefficient: text where groups are translations (character)",
    )
    group.add_argument(
        "--special", choices=SPECIAL_POLICIES, default="text", help="what happens to special tokens in the text (text)"
    )
    group.add_argument("--method", choices=METHODS, default="rank", help="rank is BPE (rank)")
    add_reading(parser, format_option="--input-format")
    add_running(parser)
    parser.set_defaults(run=_measure)

    curve: Parser = added.add_parser(
        "curve", help="tokens at each size of a vocabulary", allow_abbrev=False, description=_CURVE_HELP
    )
    add_words(curve, "from the same pre-tokenization", required=True)
    curve.add_argument("-o", "--output", required=True, metavar="FILE.parquet", help="where the table goes")
    add_vocabulary(curve)
    curve.add_argument("--every", type=int, default=1, metavar="N", help="write each Nth size only (1)")
    curve.add_argument("--overwrite", action="store_true", help="replace a table that stands there")
    curve.add_argument("--check", action="store_true", help="encode at three sizes, and compare")
    add_costs(curve)
    curve.add_argument("--debug", action="store_true", help="show the traceback of an error")
    curve.set_defaults(run=_curve)
    return {"measure": parser, "curve": curve}


def add_costs(parser: Parser) -> None:
    """Add the numbers of the cost model."""
    group = parser.add_argument_group("costs")
    for name, what in (
        ("d-model", "width of an embedding"),
        ("layers", "attention layers"),
        ("kv-width", "key-value heads times the width of one; by default d-model"),
        ("bytes-per-value", "of a number in the cache"),
        ("text-characters", "length of the text whose attention and cache are told"),
        ("context-tokens", "of the context window"),
    ):
        default = getattr(CostModel(), name.replace("-", "_"))
        told = "" if default is None else f" ({default})"
        group.add_argument(f"--{name}", type=int, default=default, metavar="N", help=f"{what}{told}")
    group.add_argument("--tied", action="store_true", help="input and output embeddings are one matrix")
    group.add_argument("--price", type=float, metavar="PRICE", help="of a million tokens")


def costs_of(args: argparse.Namespace) -> CostModel:
    """Return the cost model that the options say."""
    names = ("d_model", "tied", "layers", "kv_width", "bytes_per_value", "text_characters", "context_tokens", "price")
    costs: CostModel = checked(lambda: CostModel(**{name: getattr(args, name) for name in names}))
    return costs


# ---- measure -------------------------------------------------------------------------------------


def _measure(args: argparse.Namespace) -> None:
    if bool(args.inputs) == bool(args.words):
        raise UsageError("measure takes either a corpus (INPUT ...) or its words (--words TABLE ...)")
    if args.reference is not None and not (args.words or args.group_by):
        raise UsageError("--reference names a group: say by which column there are groups (--group-by COLUMN)")
    vocabularies = load_all(args)
    if args.words:
        statistics = _of_words(args, vocabularies)
    else:
        if args.allow_mismatch:
            raise UsageError("--allow-mismatch goes with --words: a corpus is cut as each vocabulary says")
        statistics = _of_corpus(args, vocabularies)
    for number, one in enumerate(statistics):
        if one.group_by is not None:
            print(end="\n" if number else "")
            print(_title(one))
            _print_rows([(name, measures, one) for name, measures in one.groups.items()] + [("all", one.total, one)], args)
            fairness = one.gini(args.parity_unit)
            if fairness is not None and len(one.groups) > 1:
                print(f"Gini coefficient of tokens per {args.parity_unit}: {fairness:.4f}")
    plain = [one for one in statistics if one.group_by is None]
    if plain:
        print(end="\n" if len(plain) < len(statistics) else "")
        _print_rows([(one.subject.name, one.total, one) for one in plain], args)
    for note in dict.fromkeys(note for one in statistics for note in one.notes):
        say(args, note)
    if statistics:
        print_left_out(statistics[0].left_out)
    if args.output:
        print(f"{'statistics':<11} {args.output}: {measured.STATISTICS_FILE}, frequencies of {len(vocabularies)}")
    for one in statistics if args.reference is not None else ():  # known only now, and no reason to lose what was measured
        if one.group_by is not None and args.reference not in one.groups:
            again = f"; what was measured stands in {args.output}: --overwrite replaces it" if args.output else ""
            raise ValueError(f"there is no group {args.reference!r}; there are {', '.join(map(repr, one.groups)) or 'none'}{again}")


def _of_words(args: argparse.Namespace, vocabularies: list[Vocabulary]) -> list[Statistics]:
    if args.group_by is not None:
        raise UsageError("--group-by goes with a corpus: a table of words has the groups that it was counted by")
    tables = read_words_by_cutting(args)
    if args.reference is not None and all(table.group_by is None for table in tables):
        raise UsageError(f"--reference {args.reference} names a group, and these words were not counted by group")
    if args.output:
        measured.claim(args.output, args.overwrite)
    statistics = _measured(
        args, tables, vocabularies, args.vocabulary, baselines=args.baseline, method=args.method
    )
    if args.output:
        measured.save(args.output, statistics, vocabularies, overwrite=args.overwrite)
    return statistics


def _measured(
    args: argparse.Namespace, tables: list[WordCounts], vocabularies: list[Vocabulary], names: list[str], **options: Any
) -> list[Statistics]:
    with mismatch_as_option():
        return measure_words(tables, vocabularies, names=names, allow_mismatch=args.allow_mismatch, **options)


def _of_corpus(args: argparse.Namespace, vocabularies: list[Vocabulary]) -> list[Statistics]:
    with tempfile.TemporaryDirectory(prefix="beam_bpe-") as scratch:
        folder = args.output or f"{scratch}/statistics"
        rejected = args.rejected or storage.join(folder, "rejected") if args.errors == "skip" else None
        _measure_into(folder, rejected, args, vocabularies)
        found = _letters(rejected) if rejected else []
        if found and (args.output or args.rejected):
            print(f"{'set aside':<11} {rejected}")
        elif found:
            skipped = sum(storage.read_bytes(letters).count(b"\n") for letters in found)
            print(f"{'set aside':<11} {skipped:,} documents, which --output or --rejected keeps")
        return measured.load(folder)


def _letters(rejected: str) -> list[str]:
    """Return the files of documents that were set aside in a folder."""
    names = storage.list_names(rejected)
    return [storage.join(rejected, name) for name in names if name.startswith("rejected-") and name.endswith(".jsonl")]


def _measure_into(folder: str, rejected: str | None, args: argparse.Namespace, vocabularies: list[Vocabulary]) -> None:
    """Run the pipeline that measures a corpus and writes into a folder."""
    from beam_bpe import transforms
    from beam_bpe.transforms import running

    check_positive(args, "workers", "range_bytes")
    if args.beam_flags and not args.output:
        raise UsageError("on a cluster the statistics need a place that its workers reach: give --output")
    read = checked(
        lambda: transforms.ReadDocuments(
            args.inputs,
            **reading_of(args),
            format=args.input_format,
            dead_letters=rejected,
            whole=True,
            range_bytes=args.range_bytes,
            group_by=args.group_by,
            **_common_cutting(vocabularies),
        )
    )
    measure = checked(
        lambda: transforms.MeasureTokens(
            vocabularies,
            names=args.vocabulary,
            baselines=args.baseline,
            group_by=args.group_by,
            special=args.special,
            method=args.method,
        )
    )
    for vocabulary in vocabularies:
        if vocabulary.pre_tokenizer.scanner is None:
            say(args, f"the pattern {vocabulary.pre_tokenizer.pattern!r} has no native scanner: this is the slow path")
    read.workers = running.workers_for(read.total_bytes, args.workers)
    try:
        options = running.options_for(args.beam_flags, 1 if args.workers is None else args.workers, False)
    except running.BadFlags as error:
        raise UsageError(str(error)) from None
    plain = not any(file.compression or read.format_of(file) == "parquet" for file in read.files)
    listed = read.total_bytes if plain else None

    def watch(seen: Any) -> None:
        if "bytes" in seen.done:
            line.show("measuring", seen.done["bytes"], listed, "bytes")
        else:
            line.tasks(seen.state, seen.tasks)

    write = transforms.WriteStatistics(folder, vocabularies, overwrite=args.overwrite)
    for letters in _letters(rejected) if rejected and args.overwrite else []:
        storage.remove(letters)
    with console.watching(args.progress, spawns=running.spawns(options), debug=args.debug) as line:
        running.run(lambda pipeline: pipeline | read | measure | write, options, watch)


def _common_cutting(vocabularies: Sequence[Vocabulary]) -> dict[str, Any]:
    """Return how a large document may be cut between words of all vocabularies; nothing if nowhere."""
    rules = dict.fromkeys((one.pre_tokenizer.name, one.normalizer) for one in vocabularies)
    tokens = {token.text for one in vocabularies for token in one.added_tokens}
    if not all(one.pre_tokenizer.name in PATTERNS for one in vocabularies):
        return {}
    if not all(token.plain for one in vocabularies for token in one.added_tokens):  # some take spaces beside them
        return {}
    patterns, normalizers = zip(*rules)
    return {"pattern": patterns, "normalizer": normalizers, "special_tokens": tuple(sorted(tokens))}


def _title(statistics: Statistics) -> str:
    subject = statistics.subject
    if subject.is_baseline:
        return f"{subject.name} (baseline), by {statistics.group_by}"
    return f"{subject.name}: {subject.tokens:,} tokens, pattern {subject.pre_tokenizer}, by {statistics.group_by}"


def _print_rows(rows: list[tuple[str, Measures, Statistics]], args: argparse.Namespace) -> None:
    """Print a line for each; the longest names are shortened, and a column of which nothing is known is left out."""
    head = ["", "documents", "characters", "words", "tokens", "chars/token", "bytes/token", "tokens/word", "kept whole"]
    head += ["1 char", "1 byte", "unknown", "used", "entropy", "Renyi eff.", "tokens/doc", "median", "premium"]
    lines = [head]
    unknown = any(measures.unknown_tokens for _, measures, _ in rows)  # else the column tells nothing
    hidden = len(rows) - _GROUPS_SHOWN if len(rows) > _GROUPS_SHOWN + 1 else 0
    for name, measures, one in rows[: _GROUPS_SHOWN - 1] + rows[-1:] if hidden else rows:
        premium = None
        if args.reference in one.groups and name in one.groups and measures is one.groups[name]:
            premium = one.parity_premiums(args.reference, args.parity_unit)[name]
        median = None if measures.lengths is None else measures.lengths.quantile(0.5)
        lines.append(
            [
                _printable(name),
                *(_whole(number) for number in (measures.documents, measures.characters, measures.words, measures.tokens)),
                _decimal(measures.compression_ratio, ".3f"),
                _decimal(measures.bytes_per_token, ".3f"),
                _decimal(measures.fertility, ".3f"),
                *(
                    _decimal(share, ".1%")
                    for share in (measures.kept_share, measures.single_character_share, measures.single_byte_share)
                ),
                _decimal(measures.unknown_rate if unknown else None, ".2%"),
                _decimal(one.used_share(measures), ".1%"),
                _decimal(measures.entropy, ".3f"),
                _decimal(one.renyi_efficiency(measures), ".4f"),
                _decimal(measures.tokens_per_document, ",.1f"),
                _whole(median) if median is None or median < EXACT else f"~{median:,}",
                _decimal(premium, ".3f"),
            ]
        )
    shown = [i for i in range(len(head)) if i == 0 or any(line[i] != "-" for line in lines[1:])]
    print(*console.aligned([[line[i] for i in shown] for line in lines]), sep="\n")
    if hidden:
        print(f"{hidden:,} more groups are in the statistics (--output)")


def _printable(name: str) -> str:
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in name) or "(none)"
    return shown if len(shown) <= 40 else f"...{shown[-37:]}"


def _whole(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _decimal(number: float | None, form: str) -> str:
    return "-" if number is None else format(number, form)


# ---- curve ---------------------------------------------------------------------------------------


def _curve(args: argparse.Namespace) -> None:
    costs = costs_of(args)
    check_positive(args, "every")
    vocabulary = load(args)
    check_merges(vocabulary)
    if storage.exists(args.output) and not args.overwrite:
        raise FileExistsError(f"{args.output} is there already; choose another place or overwrite it (--overwrite)")
    table = read_words(args)
    (statistics,) = _measured(args, [table], [vocabulary], [args.vocabulary])
    curve = size_curve(statistics, vocabulary)
    if args.check:
        sizes = check_curve(curve, table, vocabulary)
        print(f"{'checked':<11} " + ", ".join(f"{tokens:,} tokens at {size:,}" for size, tokens in sizes.items()))
    curve.save(args.output, costs, args.every, overwrite=args.overwrite)
    _print_curve(args.output, curve, costs)
    for note in curve.notes:
        print(f"{'note':<11} {note}")


def _print_curve(path: str, curve: Curve, costs: CostModel) -> None:
    groups = f", groups: {len(curve.groups):,}" if curve.group_by is not None else ""
    print(f"{'curve':<11} {path}: {len(curve.sizes):,} sizes from {curve.sizes[0]:,}, without merges, to {curve.sizes[-1]:,}{groups}")
    knee = curve.knees()[None]
    first, last = int(curve.sizes[0]), int(curve.sizes[-1])
    powers = [1 << bits for bits in range(9, 31) if first < 1 << bits < last]
    print(f"{'size':>11} {'tokens':>17} {'chars/token':>12} {'embeddings':>14}")
    for size in sorted({first, *powers, knee, last}):
        tokens = int(curve.at(size).sum())
        characters = curve.total_characters
        ratio = "-" if characters is None or not tokens else f"{characters / tokens:.3f}"
        mark = "  knee" if size == knee else ""
        embeddings = int(costs.embedding_parameters(curve.sizes[[size - first]])[0])
        print(f"{size:>11,} {tokens:>17,} {ratio:>12} {embeddings:>14,}{mark}")
    print(f"{'knee':<11} {knee:,}: {KNEE}")
