"""Options that several commands have."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any

from beam_bpe import console, token_list
from beam_bpe.commands.usage import Once, Parser, UsageError, checked, unescaped
from beam_bpe.documents import ERRORS, FORMATS, UNITS
from beam_bpe.learning import SCORES, TIE_BREAKS, Learning
from beam_bpe.model import ALGORITHMS
from beam_bpe.model import UNITS as MODEL_UNITS
from beam_bpe.normalize import NAMES, STEPS
from beam_bpe.pretokenize import DEFAULT_PATTERN, GAPS, MAX_WORD_BYTES, PATTERNS


def add_reading(parser: Parser, format_option: str = "--format") -> None:
    """Add how documents are read."""
    group = parser.add_argument_group("reading")
    group.add_argument("--documents", choices=UNITS, default="file", help="what a document of a text file is (file)")
    group.add_argument("--separator", help=r"the text between documents, with --documents separator (\n, \r, \t and \\ are read)")
    group.add_argument("--field", default="text", help="of JSON lines (text)")
    group.add_argument("--column", default="text", help="of Parquet and Arrow tables (text)")
    group.add_argument(
        format_option, choices=("auto", *FORMATS), default="auto", help="of the inputs, by default by each file's name"
    )
    group.add_argument(
        "--errors",
        choices=ERRORS,
        default="replace",
        help="bytes that are not UTF-8 become U+FFFD, fail the job, or set their document aside; skip also sets "
        "broken lines and files aside (replace)",
    )
    group.add_argument("--rejected", metavar="FOLDER", help="for what --errors skip sets aside (OUTPUT/rejected)")
    group.add_argument("--range-bytes", type=int, help="bytes that one worker reads at a time (by the input)")


def reading_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return how documents are read, as arguments that readers of all kinds have."""
    names = ("documents", "field", "column", "errors")
    return {**{name: getattr(args, name) for name in names}, "separator": unescaped(args.separator)}


def add_counting(parser: Parser, several: bool = False) -> None:
    """Add how words are counted.

    Args:
        several: more than one pattern may be given, and a normalizer to each.
    """
    action, again = ("append", "; repeatable") if several else (Once, "")
    group = parser.add_argument_group("counting")
    group.add_argument(
        "--pattern",
        action=action,
        help=f"how documents are cut into words: {', '.join(PATTERNS)}, or a regex, which is slow ({DEFAULT_PATTERN}; "
        f"metaspace, behind the normalizer metaspace, to learn sentencepiece-bpe or unigram){again}",
    )
    group.add_argument("--split-with", metavar="MODULE:FUNCTION", help="cut documents with a function, which is slow")
    group.add_argument(
        "--normalizer",
        action=action,
        metavar="STEPS",
        help=f"what text goes through before, joined by +: {', '.join((*NAMES, *STEPS))} (nothing)"
        + (", of all patterns, or given as often as they are, none being nothing" if several else ""),
    )
    group.add_argument("--gaps", choices=GAPS, default="keep", help="text between the matches of a regex (keep)")
    group.add_argument("--time-limit", type=float, default=60.0, help="seconds a regex may take for a document (60)")
    group.add_argument(
        "--special-token", action="append", default=[], metavar="TEXT", help="cuts documents, is not learned; repeatable"
    )
    group.add_argument("--max-word-bytes", type=int, default=MAX_WORD_BYTES, help="longer words are left out (16 MiB)")
    group.add_argument("--count-documents", action="store_true", help="count also the documents that hold a word, what stands between special tokens being one of its own")
    group.add_argument(
        "--group-by",
        metavar="COLUMN",
        help="count apart what has another value in this column of tables, or field of JSON lines, such as a language",
    )
    group.add_argument("--shards", type=int, help="parts of the table of words (by the input)")
    group.add_argument("--memory", type=int, default=512, help="MB for the tables of one process (512)")


def add_learning(parser: Parser) -> None:
    """Add what is learned; the options have the names of the attributes of `Learning`."""
    group = parser.add_argument_group("learning")
    group.add_argument("-n", "--vocab-size", type=int, help="tokens, those included that are not learned")
    group.add_argument("--num-merges", type=int, help="merges to be learned, instead of --vocab-size")
    group.add_argument("--algorithm", choices=ALGORITHMS, default="bpe", help="(bpe)")
    group.add_argument("--unit", choices=MODEL_UNITS, help="what merges start from (byte for bpe, else character)")
    group.add_argument("--min-count", type=int, default=1, help="leave out words that occur less often (1)")
    group.add_argument("--min-pair-count", type=int, help="do not merge pairs that occur less often (2; sentencepiece-bpe 1)")
    group.add_argument("--max-token-length", type=int, help="in bytes, or characters without marks, inclusive (no limit; 16 under sentencepiece-bpe and unigram)")
    group.add_argument(
        "--exclude-tokens",
        action="append",
        metavar="FILE",
        help="tokens that are not to be learned, one a line, such as `audit --removal-list` writes; repeatable",
    )
    group.add_argument("--tie-break", choices=TIE_BREAKS, default=TIE_BREAKS[0], help="how equal counts are decided (huggingface)")

    group = parser.add_argument_group("learning characters and pieces")
    group.add_argument("--end-of-word", metavar="TEXT", help="end-of-word suffix of character BPE, such as </w> (none)")
    group.add_argument("--attached", action="store_true", help="the suffix belongs to the last character, as in subword-nmt")
    group.add_argument(
        "--character-coverage", metavar="SHARE", help="keep the most frequent characters, down to this share of all (1)"
    )
    group.add_argument("--limit-alphabet", type=int, metavar="N", help="keep at most the N most frequent characters (no limit)")
    group.add_argument("--unk-token", metavar="TEXT", help="the token of what is unknown (<unk>, [UNK], <UNK>)")
    group.add_argument("--byte-fallback", action="store_true", help="unknown characters become the tokens of their bytes")
    group.add_argument("--fuse-unk", action="store_true", help="neighbouring unknown characters are one token")
    group.add_argument("--score", choices=SCORES, help="how WordPiece chooses the next pair (likelihood)")
    group.add_argument("--continuing-subword-prefix", metavar="TEXT", help="of pieces behind the first of a word (##)")
    group.add_argument("--both-forms", action="store_true", help="WordPiece: every character with and without the prefix")
    group.add_argument("--seed-words", type=int, metavar="N", help="WordPiece: the N most frequent words are tokens (0)")
    group.add_argument(
        "--max-input-chars-per-word",
        type=lambda text: text if text == "none" else int(text),
        metavar="N",
        help="WordPiece: longer words are unknown; none for no limit (100)",
    )
    group.add_argument("--unk-characters", action="store_true", help="WordPiece: an unknown character alone is unknown")

    group = parser.add_argument_group("learning as SentencePiece (sentencepiece-bpe, unigram)")
    group.add_argument(
        "--user-defined-symbol",
        dest="user_defined_symbols",
        action="append",
        metavar="TEXT",
        help="a token that is found in a text before all others; repeatable",
    )
    group.add_argument("--split-digits", action="store_true", help="a digit is a token of its own")
    group.add_argument("--split-by-unicode-script", action="store_true", help="no token is of two scripts (sentencepiece-bpe)")
    group.add_argument("--split-by-number", action="store_true", help="a digit is of a script of its own (sentencepiece-bpe)")
    group.add_argument("--seed-size", type=int, metavar="N", help="pieces that unigram begins with (1000000)")
    group.add_argument("--shrinking-factor", metavar="SHARE", help="of the pieces that each pruning leaves (0.9)")
    group.add_argument("--sub-iterations", type=int, metavar="N", help="steps of expectation maximization to each pruning (2)")


def learning_of(args: argparse.Namespace) -> Learning:
    """Return what the options say is to be learned; UsageError if they contradict each other."""
    given = {one.name: getattr(args, one.name) for one in fields(Learning) if getattr(args, one.name, None) is not None}
    for name, nothing in (("continuing_subword_prefix", ""), ("max_input_chars_per_word", "none")):
        if given.get(name) == nothing:
            given[name] = None
    if args.vocab_size is None and args.num_merges is None and args.algorithm != "wordlevel":
        raise UsageError("how much is to be learned is not said: give --vocab-size (or --num-merges)")
    if args.exclude_tokens is not None:
        given["exclude_tokens"] = token_list.in_order(token for path in args.exclude_tokens for token in token_list.read(path))
    learning: Learning = checked(lambda: Learning(**given, special_tokens=args.special_token))
    return learning


def add_running(parser: Parser) -> None:
    """Add how a pipeline is run."""
    group = parser.add_argument_group("running")
    group.add_argument("--workers", type=int, help="local workers (the cores, where the input pays for them)")
    group.add_argument("--overwrite", action="store_true", help="replace what stands in the output")
    group.add_argument("--progress", choices=console.MODES, default="auto", help="(auto: a bar on a terminal)")
    group.add_argument("--debug", action="store_true", help="show tracebacks and Beam's log")


def add_storage(parser: Parser) -> None:
    """Add how stores are opened."""
    parser.add_argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of the stores of URLs, such as endpoint_url=http://HOST:9000, client_kwargs.region_name=NAME, anon=true; "
        "for one protocol alone s3:KEY=VALUE; a secret as KEY=env:NAME, the name of an environment variable here and "
        "where the workers run; repeatable",
    )
