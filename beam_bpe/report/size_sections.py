"""The section of a report on sizes: the curve, its knee, and what a size costs."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

from beam_bpe.report.blocks import Plot, Section, Series, Table, Text
from beam_bpe.report.wording import KNEE, amount, known, labels, number, percent, sentence
from beam_bpe.statistics import ratio

TABLE_SIZES = 14  # of the tables beside the curves
HEAD = 40  # characters of a group's name at the head of a column
_TITLE = "Size of the vocabulary"


def size_section(report: dict[str, Any]) -> Section | None:
    """Return the section; None if nothing was measured."""
    curve = report["curve"]
    if curve is None:
        return None
    if curve["absent"]:
        return Section("sizes", _TITLE, [Text(f"There is no curve of sizes: {curve['absent']}.")])
    if not curve["tokens"] or not curve["tokens"][-1]:
        return Section("sizes", _TITLE, [Text("There is no curve of sizes: the text has no tokens.")])
    plots = [_curve(curve), *([_knee(curve)] if len(curve["sizes"]) > 1 else [])]
    return Section("sizes", _TITLE, [*plots, _costs(curve)])


def _curve(curve: dict[str, Any]) -> Plot:
    sizes, of_text = curve["sizes"], bool(curve["characters"])
    lines = [{"name": None, "tokens": curve["tokens"], "characters": curve["characters"]}, *curve["groups"]]

    def values(line: dict[str, Any]) -> list[float]:
        if of_text:
            return [line["characters"] / tokens for tokens in line["tokens"]]
        return [tokens / line["tokens"][0] for tokens in line["tokens"]]

    drawn = [line for line in lines if line["tokens"][-1] and (line["characters"] or not of_text)]
    names = labels((line["name"] for line in drawn if line["name"] is not None), HEAD)
    series = [
        Series("all text" if line["name"] is None else names[line["name"]], sizes, values(line), line["name"] is None)
        for line in drawn
    ]
    what = "characters per token" if of_text else "tokens, of those without merges"
    rows = [
        [number(sizes[i]), *(number(line.y[i]) if of_text else percent(line.y[i]) for line in series)]
        for i in spread(sizes, [*(size for size in sizes if size % 1000 == 0), curve["knee"]], TABLE_SIZES)
    ]
    head = ["Size", *(line.name for line in series)]
    told = (
        f"Each smaller vocabulary is in this one. From {number(sizes[0])} to {number(sizes[-1])} tokens the text gets "
        f"{number(ratio(curve['tokens'][0], curve['tokens'][-1]))} times shorter."
    )
    return Plot(
        "size-curve",
        f"{sentence(what)[:-1]} by size of the vocabulary",
        "lines",
        told,
        series,
        Table(f"{sentence(what)[:-1]} at sizes of the vocabulary", head, rows, [True] * len(head)),
        x_label="tokens of the vocabulary",
        y_label=what,
        log_x=True,
        share_y=not of_text,
    )


def _knee(curve: dict[str, Any]) -> Plot:
    """Return the plot of the tokens on linear axes, on which the knee is one, with the line that it is measured from."""
    sizes, tokens, knee = curve["sizes"], curve["tokens"], curve["knee"]
    shares = [count / tokens[0] for count in tokens]
    at = tokens[sizes.index(knee)]
    rows = [
        [number(sizes[i]), number(tokens[i]), percent(shares[i])]
        for i in spread(sizes, [*(size for size in sizes if size % 1000 == 0), knee], TABLE_SIZES)
    ]
    columns = ["Size", "Tokens", "Of those at the first size"]
    told = (
        f"The knee, {number(knee)}, is {KNEE}. The text takes {percent(at / tokens[-1] - 1)} more tokens there than at "
        f"{number(sizes[-1])}."
    )
    return Plot(
        "knee",
        "Tokens of the text by size, and the knee",
        "lines",
        told,
        [Series("tokens", sizes, shares, True), Series("straight line", [sizes[0], sizes[-1]], [1.0, shares[-1]])],
        Table("Tokens of the text at sizes of the vocabulary", columns, rows, [True] * 3),
        x_label="tokens of the vocabulary",
        y_label="tokens, of those at the first size",
        share_y=True,
        mark=(knee, f"knee {number(knee)}"),
    )


def spread(values: Sequence[int], wanted: Iterable[int], most: int) -> list[int]:
    """Return the places of the first value, the last and those wanted, at most so many, evenly chosen.

    >>> spread([3, 5, 7, 9], [7], 4), spread(range(100), range(100), 4)
    ([0, 2, 3], [0, 33, 66, 99])
    """
    places = sorted({0, len(values) - 1, *(values.index(one) for one in wanted)})
    if len(places) <= most:
        return places
    return sorted({places[round(i * (len(places) - 1) / (most - 1))] for i in range(most)})


def _costs(curve: dict[str, Any]) -> Table:
    model, costs = curve["costs"]["model"], curve["costs"]
    columns = ["Size", "Tokens", "Characters per token", "Embedding parameters", "Key-value cache, bytes", "Attention, FLOP"]
    columns += ["Characters in the context", "Price of a million characters"]
    rows = []
    for row in costs["rows"]:
        mark = " (knee)" if row["size"] == curve["knee"] and len(curve["sizes"]) > 1 else ""
        cells = [number(row["size"]) + mark, number(row["tokens"]), number(row.get("compression_ratio"))]
        cells += [amount(row["embedding_parameters"])]
        cells += [amount(row.get(name)) for name in ("kv_cache_bytes", "attention_flops", "context_characters")]
        rows.append([*cells, number(row.get("price_per_million_characters"), 3)])
    width = model["d_model"] if model["kv_width"] is None else model["kv_width"]
    note = (
        f"Of a transformer of {model['layers']} layers and width {number(model['d_model'])}, embeddings "
        f"{'tied' if model['tied'] else 'not tied'}, keys and values of width {number(width)} in "
        f"{model['bytes_per_value']} bytes; cache and attention of a text of {number(model['text_characters'])} "
        f"characters; a context of {number(model['context_tokens'])} tokens."
    )
    return known(Table("What a size costs and saves", columns, rows, [True] * len(columns), note))
