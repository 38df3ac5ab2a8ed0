"""`beam-bpe show TOKEN --vocabulary V`: a token, what it is made of, and the words that it comes from."""

from __future__ import annotations

import argparse
import os

import numpy as np

from beam_bpe import console, token_list
from beam_bpe.commands.given_words import mismatch_as_option, read_words
from beam_bpe.commands.vocabularies import load
from beam_bpe.curve import first_merges
from beam_bpe.encoders import decoded_tokens
from beam_bpe.lineage import Lineage, find_token
from beam_bpe.provenance import Source, frequencies, notes_on, sources
from beam_bpe.spelling import own_texts, spellings
from beam_bpe.tokenizer import Tokenizer
from beam_bpe.vocabulary import Vocabulary
from beam_bpe.words import WordCounts

_MOST_BRANCHES = 64


def show_token(args: argparse.Namespace) -> None:
    """Print all that is known of the token that the arguments name."""
    vocabulary = load(args)
    # As bytes: an argument that the locale cannot read has them in lone surrogates.
    token_id = find_token(vocabulary, os.fsencode(args.path).decode("utf-8", "backslashreplace"))
    for line in _told(vocabulary, token_id, args.most):
        print(line)
    if args.words:
        for line in _origin(args, vocabulary, token_id):
            print(line)


def _told(vocabulary: Vocabulary, i: int, most: int) -> list[str]:
    """Return lines about a token in its vocabulary."""
    data, spaces = own_texts(vocabulary)[i], decoded_tokens(vocabulary)[1]
    added = {token.id: token for token in vocabulary.added_tokens}
    lines = [
        f"{'token':<11} {_quoted(spellings(vocabulary)[i])}, id {i}",
        f"{'bytes':<11} {len(data)}: {console.shortened(data.hex(' '), 95)}",
    ]
    try:
        text = data.decode()
        lines.append(f"{'text':<11} {_quoted(data)}, {len(text):,} character{'s' * (len(text) != 1)}{_brought(spaces, i)}")
    except UnicodeDecodeError:
        lines.append(f"{'text':<11} none: it begins or ends within a character")
    if i in added:
        return [*lines, f"{'kind':<11} {'special token' if added[i].special else 'added token'}"]
    scores = vocabulary.layout.scores if vocabulary.layout is not None else None
    if scores is not None:
        lines.append(f"{'score':<11} {float(scores[i]):.6g}")
    lineage = Lineage(vocabulary)
    merge = lineage.merge_of(i)
    if merge is None:
        return [*lines, f"{'kind':<11} no merge makes it", *_parts(lineage, i, most)]
    counted = f", counted {merge.count:,} times, {merge.replaced:,} replaced" if merge.count else ""
    lines.append(f"{'merge':<11} rank {merge.rank:,}: {_quoted(merge.left)} + {_quoted(merge.right)}{counted}")
    for number, branch in enumerate(lineage.tree(i)):
        if number == _MOST_BRANCHES:
            lines.append(f"{'':<11} ...")
            break
        rank = "" if branch.merge is None else f"  rank {branch.merge.rank:,}"
        lines.append(f"{'' if number else 'made of':<11} {'  ' * branch.depth}{_quoted(branch.token)}{rank}")
    return lines + _parts(lineage, i, most)


def _brought(spaces: np.ndarray | None, i: int) -> str:
    """Return what decoding adds to a token."""
    return "" if spaces is None else ("", "; decoding puts a space before it", "; decoding puts a space behind it")[spaces[i]]


def _parts(lineage: Lineage, i: int, most: int) -> list[str]:
    larger = lineage.made_of(i)
    some = " ".join(_quoted(merge.token) for merge in larger[:most])
    told = (
        f"{len(larger):,} merge{'s' * (len(larger) != 1)}: {some}{' ...' * (len(larger) > most)}" if larger else "no merge"
    )
    return [f"{'part of':<11} {told}"]


def _origin(args: argparse.Namespace, vocabulary: Vocabulary, i: int) -> list[str]:
    """Return lines about the words, and the groups, that a token comes from.

    They are those that held it when it was merged, where the vocabulary's first merges make its smaller vocabularies, so that
    a part of larger tokens is found too; otherwise those that hold it now.
    """
    table = read_words(args)
    with mismatch_as_option():
        notes = notes_on(table, vocabulary, args.allow_mismatch)
    used = _counts(table, vocabulary, i)
    lines = [f"{'used':<11} {sum(used.values()):,} times in {', '.join(args.words)}"]
    counts, then = used, _when_merged(vocabulary, i)
    if then is not None:
        counts = _counts(table, then, i)
        when = "when it was merged" if len(then.left) else "before any merge"
        lines.append(f"{'comes from':<11} {sum(counts.values()):,} occurrences {when}")
    total = sum(counts.values())
    if table.group_by is not None and total:
        rows = []
        there = sorted((-count, name) for name, count in counts.items() if count)
        for count, name in there[: args.most]:
            rows.append([f"  {-count:,}", f"{-count / total:.1%}", _quoted(name.encode())])
        lines += [f"by {table.group_by}", *console.aligned(rows, left=(2,))]
        lines += [f"  {len(there) - args.most:,} more groups"] * (len(there) > args.most)
    found = sources(table, Tokenizer(then or vocabulary), [i], args.most)[i]
    return lines + _words(found, total) + [f"{'note':<11} {note}" for note in notes]


def _when_merged(vocabulary: Vocabulary, i: int) -> Vocabulary | None:
    """Return the vocabulary up to the merge that makes a token, before all merges if none does; None where there is no such one."""
    if i in {token.id for token in vocabulary.added_tokens}:
        return None
    merge = Lineage(vocabulary).merge_of(i)
    try:
        return first_merges(vocabulary, 0 if merge is None else merge.rank + 1)
    except ValueError:  # its smaller vocabularies do not follow from its merges
        return None


def _counts(table: WordCounts, vocabulary: Vocabulary, i: int) -> dict[str, int]:
    """Return how often a token occurs in each group."""
    return {name: int(counts[i]) for name, counts in frequencies(table, Tokenizer(vocabulary)).items()}


def _words(found: list[Source], total: int) -> list[str]:
    if not found:
        return []
    rows = [[f"  {source.occurrences:,}", f"{source.occurrences / total:.1%}", _quoted(source.word)] for source in found]
    left = total - sum(source.occurrences for source in found)
    rows += [[f"  {left:,}", f"{left / total:.1%}", "in other words"]] if left else []
    return ["in words", *console.aligned(rows, left=(2,))]


def _quoted(token: bytes) -> str:
    return token_list.shown(token)
