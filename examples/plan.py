"""Plan a large counting job: ranges, shards, core-hours, bytes of the shuffle, memory of a worker.

    python examples/plan.py                                  for 1 TB and 10 TB of text
    python examples/plan.py --text 300GB --engine-cost 1.2   with figures of your own

The inputs were measured by `python tests/benchmarks/run.py engines` on 202 MB of text in many languages and code, on one
core of an Intel Xeon at 2.1 GHz; run it on your machine and your text, and give what it prints.
"""

import argparse
import dataclasses
import math
from typing import Callable

from beam_bpe.documents import LARGE_INPUT, LARGE_RANGE, SMALL_RANGE
from beam_bpe.transforms.count import shards_for

UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12}
MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Measured:
    """What the plan is computed from; each is an option of the command."""

    scan_rate: float = 190  # MB of text that a core scans and counts in a second
    pack_rate: float = 80  # MB of packed tables that a core sorts and packs in a second
    merge_rate: float = 225  # MB of packed tables that a core merges in a second
    engine_cost: float = 3.0  # CPU seconds of the whole engine for one of these kernels: Spark 2.5 to 3.2, Flink 2.6, local 1.4
    small_share: float = 0.25  # bytes of packed tables for a byte of text, in bundles of small_bundle MB
    small_bundle: float = 8.4
    large_share: float = 0.176  # the same in bundles of large_bundle MB
    large_bundle: float = 202
    packed_word: float = 22  # bytes of a word in a packed table
    memory_word: float = 116  # bytes of a word in a table in memory


def share(measured: Measured, bundle: float) -> float:
    """Return the bytes of packed tables for a byte of text, in bundles of so many MB: a power law through two points."""
    steps = math.log(measured.large_bundle / measured.small_bundle)
    slope = math.log(measured.large_share / measured.small_share) / steps
    return measured.small_share * (bundle / measured.small_bundle) ** slope


def bundle_of(measured: Measured, memory: float) -> float:
    """Return the MB of text whose table fills `memory` MB: where it is sent on."""
    bundle = 1.0
    while share(measured, bundle) * bundle / measured.packed_word * measured.memory_word < memory:
        bundle *= 1.05
    return bundle


def plan(text: int, measured: Measured, cores: int, memory: int) -> list[tuple[str, str, str]]:
    """Return rows of (what, figure, formula) for so many bytes of text."""
    size = LARGE_RANGE if text >= LARGE_INPUT else SMALL_RANGE
    ranges = -(-text // size)
    bundle = min(bundle_of(measured, memory), text / 1e6 / cores)
    shuffle = text * share(measured, bundle)
    shards = shards_for(text)
    kernel = text / 1e6 / measured.scan_rate / 3600
    tables = shuffle / 1e6 * (1 / measured.pack_rate + 1 / measured.merge_rate) / 3600
    whole = (kernel + tables) * measured.engine_cost
    values = shuffle / shards / 1e6
    return [
        ("ranges", f"{ranges:,} of {size / MIB:.0f} MiB", "text / range (--range-bytes)"),
        ("text of a bundle", f"{bundle:,.0f} MB", "what fills the memory of tables (--memory), at most text / cores"),
        ("shuffle", f"{shuffle / 1e9:,.0f} GB", "text × share of packed tables at that bundle"),
        ("shards", f"{shards:,}", "text / 6 / 128 MiB (--shards)"),
        ("elements of the shuffle", f"{text / 1e6 / bundle * shards:,.0f}", "bundles × shards"),
        ("all values of a shard", f"{values:,.0f} MB", "shuffle / shards: far below 2 GiB"),
        ("scan and count", f"{kernel:,.1f} core-hours", "text / scan rate"),
        ("sort, pack and merge tables", f"{tables:,.1f} core-hours", "shuffle × (1 / pack rate + 1 / merge rate)"),
        ("with the engine", f"{whole:,.1f} core-hours", "both × CPU of the engine / CPU of the kernels"),
        (f"on {cores:,} cores", f"{whole / cores:,.2f} hours", "core-hours / cores (--cores)"),
        ("memory of a worker process", f"{memory + 4 * values + 300:,.0f} MB", "tables + 4 × values of a shard + 300 MB of Python"),
    ]


def size_of(text: str) -> int:
    """Return the bytes of "10TB", "300GB" or "500MB"."""
    number, unit = text[:-2], text[-2:].upper()
    try:
        return int(float(number) * UNITS[unit])
    except (KeyError, OverflowError, ValueError):
        raise argparse.ArgumentTypeError(f"{text!r}: say it like 10TB, 300GB or 500MB") from None


def positive(kind: Callable[[str], float]) -> Callable[[str], float]:
    """Return a reader of numbers above zero."""

    def read(text: str) -> float:
        number = kind(text)
        if not 0 < number < math.inf:
            raise argparse.ArgumentTypeError(f"{text!r}: it must be above zero")
        return number

    read.__name__ = kind.__name__
    return read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=positive(size_of), nargs="+", default=[10**12, 10**13], help="bytes of text (1TB 10TB)")
    parser.add_argument("--cores", type=positive(int), default=256, help="of the cluster (256)")
    parser.add_argument("--memory", type=positive(int), default=512, help="MB for the tables of a process, as of the command (512)")
    for field in dataclasses.fields(Measured):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=positive(float), default=field.default, help=f"({field.default})")
    options = parser.parse_args()
    if options.small_bundle >= options.large_bundle:
        parser.error("--small-bundle must be below --large-bundle")
    measured = Measured(**{field.name: getattr(options, field.name) for field in dataclasses.fields(Measured)})
    print("Measured: " + ", ".join(f"{name.replace('_', '-')} {value:g}" for name, value in vars(measured).items()))
    for text in options.text:
        print(f"\n{text / 1e12:g} TB of text\n")
        for what, figure, formula in plan(text, measured, options.cores, options.memory):
            print(f"  {what:<28} {figure:>24}   {formula}")
    print(
        "\nKnobs: Spark takes spark.default.parallelism (3 × cores), Flink --parallelism (cores) and Dataflow "
        "--max_num_workers;\nmore --memory means larger bundles and less to shuffle; more --shards, smaller ones."
    )


if __name__ == "__main__":
    main()
