"""`beam-bpe audit`: what is doubtful about a vocabulary."""

from __future__ import annotations

import argparse
import contextlib
from typing import Any, Sequence

from beam_bpe import console, storage, token_list
from beam_bpe.audit import EXAMPLES, FEW_DOCUMENTS, FINDINGS_FILE, KINDS, MEANINGS, OF_WORDS, RUN, UNWANTED, Audit, audit
from beam_bpe.commands.given_corpus import add_corpus, words_for
from beam_bpe.commands.given_words import add_words, mismatch_as_option
from beam_bpe.commands.usage import Parser, UsageError, check_positive
from beam_bpe.commands.vocabularies import add_vocabulary, load

_HELP = (
    "Look for tokens that are of no use (unused, unreachable), of doubtful origin (of one group, in few documents), or that "
    "should not be there (e-mail addresses, keys, URLs, texts like special tokens), and for near-duplicates, long runs, halves of "
    "characters. Without a corpus, or the table of its words, only what the vocabulary itself tells."
)


FOUND = 3


class Found(RuntimeError):
    """There are more findings than --fail-on allows."""

    exit_code = FOUND


def add(added: Any) -> dict[str, Parser]:
    """Add the parser of the command and return it by name."""
    parser: Parser = added.add_parser("audit", help="look for doubtful tokens", allow_abbrev=False, description=_HELP)
    add_vocabulary(parser)
    add_words(parser, "to look for what is used, and where")
    add_corpus(parser)
    group = parser.add_argument_group("audit")
    group.add_argument("--kind", action="append", choices=KINDS, help="look for this kind only; repeatable (all)")
    group.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="KIND[=N]",
        help=f"exit with {FOUND} if there are more than N (0) findings of the kind: any, {', '.join(KINDS)}; repeatable",
    )
    group.add_argument("--long-run", type=int, default=RUN, metavar="N", help=f"N times one character is a long run ({RUN})")
    group.add_argument(
        "--few-documents", type=int, default=FEW_DOCUMENTS, metavar="N", help=f"N documents are few ({FEW_DOCUMENTS})"
    )
    group.add_argument(
        "--group-share", type=float, default=1.0, metavar="SHARE", help="of one group is what has so much of its occurrences there (1)"
    )
    group.add_argument("--most", type=int, default=4, metavar="N", help="examples of each kind on the terminal (4)")
    group.add_argument("-o", "--output", metavar="FOLDER", help=f"where the findings go, as {FINDINGS_FILE}")
    group.add_argument(
        "--removal-list",
        metavar="FILE",
        help="write the tokens for `train --exclude-tokens`: those of --kind, or else of " + ", ".join(UNWANTED),
    )
    group.add_argument("--overwrite", action="store_true", help="replace what stands there")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.set_defaults(run=_audit)
    return {"audit": parser}


def _audit(args: argparse.Namespace) -> None:
    check_positive(args, "few_documents", "most")
    if args.long_run < 2:
        raise UsageError(f"--long-run is {args.long_run}; it must be at least 2")
    if not 0.5 < args.group_share <= 1:
        raise UsageError(f"--group-share is {args.group_share}; it must be more than 0.5, and at most 1")
    limits = dict(map(_limit, args.fail_on))
    kinds = args.kind or KINDS
    for kind in limits:
        if kind != "any" and kind not in kinds:
            raise UsageError(f"--fail-on {kind} is not looked for: name it with --kind as well")
        if kind in OF_WORDS and not (args.words or args.inputs):
            raise UsageError(f"--fail-on {kind} needs a corpus, or a table of its words: give INPUT, or --words")
    for path in (args.removal_list, storage.join(args.output, FINDINGS_FILE) if args.output else None):
        if path is not None and storage.exists(path) and not args.overwrite:
            raise FileExistsError(f"{path} is there already; choose another place or overwrite it (--overwrite)")
    vocabulary = load(args)
    words, lookalikes = words_for(args, vocabulary)
    with mismatch_as_option():
        found = audit(
            vocabulary,
            words,
            kinds=kinds,
            long_run=args.long_run,
            few_documents=args.few_documents,
            group_share=args.group_share,
            examples=max(EXAMPLES, args.most),
            allow_mismatch=args.allow_mismatch,
            lookalikes=lookalikes,
        )
    lines = [f"{'vocabulary':<11} {args.vocabulary}: {len(vocabulary):,} ids, fingerprint {vocabulary.fingerprint[:16]}"]
    if words is not None:
        given = ", ".join(args.words or args.inputs)
        lines.append(f"{'words':<11} {given}: {len(words):,} distinct, {words.occurrences:,} in all")
    lines += summary(found, kinds, args.most)
    lines += [f"{'note':<11} {note}" for note in found.notes]
    if args.output:
        found.save(args.output, overwrite=args.overwrite)
        lines.append(f"{'findings':<11} {storage.join(args.output, FINDINGS_FILE)}: {found.findings.num_rows:,}")
    if args.removal_list:
        removed = found.write_removal_list(args.removal_list, args.kind or UNWANTED)
        lines.append(f"{'removal':<11} {args.removal_list}: {removed:,} token{'s' * (removed != 1)} for train --exclude-tokens")
    with contextlib.suppress(BrokenPipeError):  # whoever reads has seen enough, and the exit code still tells
        print(*lines, sep="\n", flush=True)
    _fail(found, limits)


def _limit(text: str) -> tuple[str, int]:
    kind, separator, number = text.partition("=")
    if kind not in ("any", *KINDS) or (separator and not number.isdecimal()):
        raise UsageError(f"--fail-on is {text!r}; it must be KIND or KIND=N, KIND being one of any, {', '.join(KINDS)}")
    return kind, int(number or 0)


def summary(found: Audit, kinds: Sequence[str], most: int) -> list[str]:
    """Return a line for each kind: how many findings, what they are, some of them."""
    rows = [["kind", "findings", "", "examples"]]
    for kind, number in found.counts.items():
        some = found.of_kind(kind).slice(0, most)["token"].to_pylist()
        rows.append(
            [
                kind,
                f"{number:,}",
                MEANINGS[kind],
                " ".join(token_list.shown(one, 24) for one in some),
            ]
        )
    missing = [kind for kind in OF_WORDS if kind in kinds and kind not in found.counts]
    lines = console.aligned(rows, left=(0, 2, 3))
    return lines + ([f"not told by the table: {', '.join(missing)}"] if found.words is not None and missing else [])


def _fail(found: Audit, limits: dict[str, int]) -> None:
    counts = {**found.counts, "any": found.findings.num_rows}
    told = []
    for kind, most in limits.items():
        if kind not in counts:
            raise UsageError(f"--fail-on {kind}: the table does not tell that (it has no groups, or counts no documents)")
        if counts[kind] > most:
            told.append(f"{counts[kind]:,} of {kind} ({most:,} allowed)")
    if told:
        raise Found(f"the audit found {', '.join(told)}")
