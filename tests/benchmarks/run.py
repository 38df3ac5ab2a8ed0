"""Print every figure that is claimed for beam_bpe, each beside its peers in the same run.

    pip install '.[bench]'
    python tests/benchmarks/run.py                    all of them (about 40 minutes on two cores)
    python tests/benchmarks/run.py P2 P4              some of them
    python tests/benchmarks/run.py --quick            small inputs and few rounds, to see that everything works

P1      scanning and counting words, one thread; the local pipeline against its kernel
P2      merges only, from 1.5 million words; are they the peers' merges?
P3      the whole job as a process
P4      words of 10 MB
P5      encoding unseen text, by encoding and language; are the ids tiktoken's?
P6      encoding strings of megabytes without a place to cut them
P7      decoding
P8      the encoding job: its rate against its kernel, its stages, its memory
P9      two local workers against one
P10     learning characters and WordPiece from words that are counted already; memory
P11     encoding with WordPiece and with merges of characters; are the ids those of tokenizers?
P12     learning what sentencepiece learns, from raw lines: Unigram and its worth on unseen text, and merges
P13     encoding by scores, BPE and Unigram, beside sentencepiece; are the ids its own?
P14     measures and the curve of sizes from a table of words; measuring documents against encoding them
latency one short string a call
load    from a file to a tokenizer, and its pickle
memory  bytes for each distinct word
engines counting on Spark, Flink and Prism against the kernel; bytes of the shuffle (after tests/engines/prepare.py)

The inputs are made from the shared corpora and rank files ($BEAM_BPE_SHARED, else ../shared beside the project; P4
needs none) in a cache folder (--cache; else a temporary one that is removed).  What is compared runs in turn, A B A B,
every program in a process of its own; tables show the best and, in brackets, the median.  A ratio is one of bests.
A peer that is not installed is left out, and its criterion is not decided.  On a machine that others use, trust
CPU seconds; P9 and every figure of the wall want it idle.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from bench import Bench
from corpora import Corpora, NoCorpora
from report import Report, machine
from timing import ROOT, ProgramFailed, left_out

BENCHMARKS = {
    "P1": "p1_counting",
    "P2": "p2_merges",
    "P3": "p3_job",
    "P4": "p4_long_words",
    "P5": "p5_encoding",
    "P6": "p6_long_pieces",
    "P7": "p7_decoding",
    "P8": "p8_encode_job",
    "P9": "p9_workers",
    "P10": "p10_pieces",
    "P11": "p11_encoding_pieces",
    "P12": "p12_unigram",
    "P13": "p13_scores",
    "P14": "p14_measures",
    "latency": "latency",
    "load": "loading",
    "memory": "memory",
    "engines": "engines",
}
PEERS = (
    *("fastokens", "gigabpe", "gigatoken", "quicktok", "real_wordpiece", "rustbpe", "sentencepiece"),
    *("subword_nmt", "tiktoken", "tokenizers"),
)


def main() -> int:
    """Run the benchmarks named; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmarks", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS) + " (all)")
    parser.add_argument("--quick", action="store_true", help="small inputs, one round")
    parser.add_argument("--rounds", type=int, help="of every alternation (3; quick: 1)")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="where inputs are kept (a temporary folder)")
    parser.add_argument("--json", metavar="FILE", help="write the results there as well")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        choices=PEERS,
        help="leave out a peer (tokenizers takes minutes); repeatable",
    )
    options = parser.parse_args()
    left_out.update(options.without)
    unknown = set(options.benchmarks) - set(BENCHMARKS)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; choose from {', '.join(BENCHMARKS)}")
    if options.rounds is not None and options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}; it must be at least 1")
    report = Report(options.quick)
    print("# Benchmarks of beam_bpe\n")
    print(", ".join(f"{name} {value}" for name, value in machine().items()), flush=True)
    scratch = Path(tempfile.mkdtemp(prefix="beam_bpe-benchmarks-"))
    cache = options.cache.resolve() if options.cache else scratch / "inputs"
    cache.mkdir(parents=True, exist_ok=True)
    (scratch / "outputs").mkdir()
    rounds = options.rounds or (1 if options.quick else 3)
    bench = Bench(report, Corpora(cache, _shared()), scratch / "outputs", rounds, options.quick)
    failed = []
    try:
        for name in options.benchmarks or BENCHMARKS:
            try:
                importlib.import_module(BENCHMARKS[name]).run(bench)
                report.summary(name)
            except (NoCorpora, ProgramFailed) as error:
                failed.append(name)
                report.note(f"{name} stopped: {error}")
        report.summary()
        if options.json:
            report.write(options.json)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 1 if failed else 0


def _shared() -> Path | None:
    folder = Path(os.environ.get("BEAM_BPE_SHARED") or ROOT.parent / "shared")
    return folder.resolve() if folder.is_dir() else None


if __name__ == "__main__":
    sys.exit(main())
