"""What is counted beside the words of a table."""

from __future__ import annotations

from typing import Any, Mapping

from beam_bpe.grouping import add_group_totals

#: What is counted beside the words, in artifacts, reports and metrics alike.
TOTALS = (
    "documents",
    "bytes",  # of text, after repair, special tokens and separators included
    "words",  # occurrences that entered the table
    "overlong_words",  # occurrences of words longer than max_word_bytes, left out
    "overlong_bytes",
    "replaced_characters",  # U+FFFD put where bytes were not UTF-8
    "skipped_documents",  # set aside as broken
    "null_documents",  # rows and fields that hold no text
    "separator_bytes",  # between documents, dropped
    "special_tokens",  # occurrences at which documents were cut
    "pruned_words",  # distinct words left out as rare
    "pruned_occurrences",
)


def add_totals(*several: Mapping[str, int]) -> dict[str, int]:
    """Return the sums of totals, key by key, in the order of `TOTALS`."""
    return {name: sum(totals.get(name, 0) for totals in several) for name in TOTALS}


def add_counted(*several: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sums of totals as they travel: those of a table counted by group hold "groups", the totals of each."""
    groups = [totals["groups"] for totals in several if "groups" in totals]
    return {**add_totals(*several), **({"groups": add_group_totals(*groups)} if groups else {})}


def check_alike(some: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    """Refuse to sum words that were counted with different parameters (ValueError)."""
    names = [name for name in {**some, **others} if some.get(name) != others.get(name)]
    if names:
        told = "; ".join(f"{name} {' and '.join(_told(some.get(name), others.get(name)))}" for name in names)
        raise ValueError(f"words that were counted with different parameters cannot be summed: {told}; give those that were counted alike")


def _told(*values: Any) -> list[str]:
    """Return values as text, records by their names where that tells them apart."""
    names = [str(value["name"]) if isinstance(value, Mapping) and "name" in value else str(value) for value in values]
    return names if len(set(names)) == len(names) else list(map(str, values))
