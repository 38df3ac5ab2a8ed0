"""The numbers of a report as a page: what stands in which section, in words, tables and plots."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

from beam_bpe.report.blocks import Block, Cell, Code, Facts, Page, Plot, Section, Series, Table, Text
from beam_bpe.report.record import LONGEST, by_size
from beam_bpe.report.wording import STOPPED, amount, label, number, percent, sentence
from beam_bpe.statistics import ratio
from beam_bpe.texts import shortened

ROWS = 500  # groups of a table
BARS = 30  # groups of a plot of rows
TABLE_SIZES = 14  # of the table beside the curve


def page_of(report: dict[str, Any]) -> Page:
    """Return the page of what `record.report_of` told."""
    vocabulary = report["vocabulary"]
    made = [
        _overview(report),
        _sizes(report),
        _groups(report),
        _tokens(report),
        _frequencies(report),
        _audit(report),
        _making(report),
    ]
    kind = {"bpe": "byte-level BPE" if vocabulary["unit"] == "byte" else "BPE of characters", "wordpiece": "WordPiece"}
    algorithm = kind.get(vocabulary["algorithm"], vocabulary["algorithm"])
    summary = f"{number(vocabulary['size'])} ids, {algorithm}, words by {label(vocabulary['pre_tokenizer']['name'])}"
    return Page(
        "Vocabulary report", Code(label(report["name"], 80)), summary, [section for section in made if section is not None]
    )


def _overview(report: dict[str, Any]) -> Section:
    vocabulary, measures = report["vocabulary"], report["measures"]
    blocks: list[Block] = []
    if measures is None:
        told = f"Nothing is measured: {report['unmeasured']}. What follows is what the vocabulary itself tells."
        blocks.append(Text(told, True))
    else:
        total = measures["total"]
        efficiency = f"entropy of order {measures['alpha']:g} over that of tokens that are all used alike"
        figures: list[tuple[str, Cell, str]] = [
            ("Characters per token", number(total["compression_ratio"]), "compression ratio: more is shorter"),
            ("Bytes per token", number(total["bytes_per_token"]), "of UTF-8"),
            ("Fertility", number(total["fertility"]), "tokens per word: 1 keeps every word whole"),
            ("Words kept whole", percent(total["kept_share"]), "of all occurrences of words"),
            (
                "Vocabulary used",
                percent(total["used_share"]),
                f"{number(total['used'])} of {number(vocabulary['tokens'])} tokens occur",
            ),
            ("Rényi efficiency", number(total["renyi_efficiency"], 3), efficiency),
        ]
        blocks += [Facts(figures, large=True), *(Text(sentence(note), True) for note in measures["notes"])]
        counts: list[tuple[str, Cell, str]] = [
            ("Text", f"{number(total['bytes'])} bytes, {number(total['characters'])} characters", ""),
            ("Documents", number(total["documents"]), ""),
            ("Words", f"{number(total['words'])}, {number(report['text']['distinct_words'])} of them distinct", ""),
            ("Tokens", number(total["tokens"]), ""),
            ("Tokens of one byte", percent(total["single_byte_share"]), ""),
            ("Tokens of one character", percent(total["single_character_share"]), ""),
            ("Unknown tokens", percent(total["unknown_rate"]), ""),
            ("Entropy of the tokens", f"{number(total['entropy'])} bits", ""),
        ]
        blocks.append(Facts(counts))
    return Section("overview", "At a glance", blocks)


def _sizes(report: dict[str, Any]) -> Section | None:
    curve = report["curve"]
    if curve is None:
        return None
    if curve["absent"]:
        return Section("sizes", "Size of the vocabulary", [Text(f"There is no curve of sizes: {curve['absent']}.")])
    sizes, characters, knee = curve["sizes"], curve["characters"], curve["knee"]
    if not curve["tokens"] or not curve["tokens"][-1]:
        return Section("sizes", "Size of the vocabulary", [Text("There is no curve of sizes: the text has no tokens.")])
    known = bool(characters)
    lines = [{"name": None, "tokens": curve["tokens"], "characters": characters}, *curve["groups"]]

    def values(line: dict[str, Any]) -> list[float]:
        if known:
            return [line["characters"] / tokens for tokens in line["tokens"]]
        return [tokens / line["tokens"][0] for tokens in line["tokens"]]

    drawn = [line for line in lines if line["tokens"][-1] and (line["characters"] or not known)]
    series = [Series(_line_name(line), sizes, values(line), line["name"] is None) for line in drawn]
    what = "characters per token" if known else "tokens, of those without merges"
    rows = []
    for i in _spread(sizes, [*(size for size in sizes if size % 1000 == 0), knee], TABLE_SIZES):
        rows.append([number(sizes[i]), *(number(line.y[i]) if known else percent(line.y[i]) for line in series)])
    head = ["Size", *(line.name for line in series)]
    table = Table(f"{sentence(what)[:-1]} at sizes of the vocabulary", head, rows, [True] * len(head))
    whole = ratio(curve["tokens"][0], curve["tokens"][-1])
    told = (
        f"Each smaller vocabulary is in this one. From {number(sizes[0])} to {number(sizes[-1])} tokens the text gets "
        f"{number(whole)} times shorter; behind the knee, at {number(knee)}, further merges save less than those before."
    )
    plot = Plot(
        "size-curve",
        f"{sentence(what)[:-1]} by size of the vocabulary",
        "lines",
        told,
        series,
        table,
        x_label="tokens of the vocabulary",
        y_label=what,
        log_x=True,
        share_y=not known,
        mark=(knee, f"knee {number(knee)}"),
    )
    return Section("sizes", "Size of the vocabulary", [plot, _cost_table(curve["costs"])])


def _line_name(line: dict[str, Any]) -> str:
    return "all text" if line["name"] is None else label(line["name"])


def _spread(values: Sequence[int], wanted: Iterable[int], most: int) -> list[int]:
    """Return the places of the first value, the last and those wanted, at most so many, evenly chosen."""
    places = sorted({0, len(values) - 1, *(values.index(one) for one in wanted)})
    if len(places) <= most:
        return places
    return sorted({places[round(i * (len(places) - 1) / (most - 1))] for i in range(most)})


def _cost_table(costs: dict[str, Any]) -> Table:
    model, priced = costs["model"], costs["model"]["price"] is not None
    columns = ["Size", "Tokens", "Characters per token", "Embedding parameters", "Key-value cache, bytes", "Attention, FLOP"]
    columns += ["Characters in the context", *(["Price of a million characters"] if priced else [])]
    rows = []
    for row in costs["rows"]:
        cells = [
            number(row["size"]),
            number(row["tokens"]),
            number(row.get("compression_ratio")),
            amount(row["embedding_parameters"]),
        ]
        cells += [amount(row.get(name)) for name in ("kv_cache_bytes", "attention_flops", "context_characters")]
        rows.append([*cells, *([number(row.get("price_per_million_characters"), 3)] if priced else [])])
    width = model["d_model"] if model["kv_width"] is None else model["kv_width"]
    note = (
        f"Of a transformer of {model['layers']} layers and width {number(model['d_model'])}, embeddings "
        f"{'tied' if model['tied'] else 'not tied'}, keys and values of width {number(width)} in "
        f"{model['bytes_per_value']} bytes; cache and attention of a text of {number(model['text_characters'])} "
        f"characters; a context of {number(model['context_tokens'])} tokens."
    )
    return Table("What a size costs and saves", columns, rows, [True] * len(columns), note)


def _groups(report: dict[str, Any]) -> Section | None:
    measures = report["measures"]
    if measures is None or measures["group_by"] is None:
        return None
    by, groups, reference, gini = label(measures["group_by"]), measures["groups"], measures["reference"], measures["gini"]
    title = f"Groups by {by}"
    if not groups:
        return Section("groups", title, [Text("There is no group that has text.")])
    names = by_size(groups)
    unit = "character" if measures["total"]["characters"] else "byte"
    columns = [
        "Group",
        "Documents",
        "Characters",
        "Tokens",
        "Characters per token",
        "Bytes per token",
        "Fertility",
        "Words whole",
    ]
    columns += ["Premium per character", "Premium per byte"]
    rows: list[list[Cell]] = []
    for name in names[:ROWS]:
        one = groups[name]
        cells = [
            number(one["documents"]),
            number(one["characters"]),
            number(one["tokens"]),
            number(one["compression_ratio"]),
        ]
        cells += [number(one["bytes_per_token"]), number(one["fertility"]), percent(one["kept_share"])]
        rows.append([Code(label(name)), *cells, number(one["premium_character"]), number(one["premium_byte"])])
    left = (
        f" {number(len(names) - ROWS)} groups of less text are left out here; the JSON has them."
        if len(names) > ROWS
        else ""
    )
    meaning = f"A premium is the tokens of a unit of text over those of {label(reference)}.{left}"
    table = Table(f"Measures of each group, by {by}", columns, rows, [False] + [True] * (len(columns) - 1), meaning)
    told = (
        f"{number(len(groups))} groups; a Gini coefficient of {number(gini['character'], 3)} in the tokens per character, of "
        f"{number(gini['byte'], 3)} in those per byte (0: all groups cost the same)."
    )
    few = f", the {BARS} groups of most text" if len(names) > BARS else ""
    shown = names[:BARS]
    dearest = max(shown, key=lambda name: groups[name][f"premium_{unit}"] or 0.0)
    premium = groups[dearest][f"premium_{unit}"]
    base = label(reference)
    words = f"Tokens of a {unit} over those of {base}{few}: {label(dearest)} costs most, {number(premium)} times as much."
    most = max(shown, key=lambda name: groups[name]["fertility"] or 0.0)
    split = f"Tokens per word{few}: words of {label(most)} are cut most, into {number(groups[most]['fertility'])} tokens."
    plots = [
        _rows_plot(
            "premium",
            f"Parity premium per {unit}",
            words,
            groups,
            shown,
            f"premium_{unit}",
            f"tokens per {unit}, as a factor",
            1.0,
        ),
        _rows_plot("fertility", "Fertility", split, groups, shown, "fertility", "tokens per word", 0.0),
    ]
    return Section("groups", title, [Text(told), *plots, table, _group_tokens(by, groups, names[:ROWS])])


def _group_tokens(by: str, groups: dict[str, Any], names: Sequence[str]) -> Table:
    """Return the table of how each group uses the vocabulary."""
    columns = ["Group", "Tokens used", "Vocabulary used", "Entropy, bits", "Rényi efficiency"]
    columns += ["Tokens of one character", "Tokens of one byte", "Unknown tokens"]
    rows: list[list[Cell]] = []
    for name in names:
        one = groups[name]
        cells = [number(one["used"]), percent(one["used_share"]), number(one["entropy"]), number(one["renyi_efficiency"], 3)]
        cells += [percent(one[key]) for key in ("single_character_share", "single_byte_share", "unknown_rate")]
        rows.append([Code(label(name)), *cells])
    return Table(f"Tokens of each group, by {by}", columns, rows, [False] + [True] * (len(columns) - 1))


def _rows_plot(
    name: str, title: str, description: str, groups: dict[str, Any], shown: Sequence[str], key: str, axis: str, base: float
) -> Plot:
    ordered = sorted((one for one in shown if groups[one][key] is not None), key=lambda one: (-groups[one][key], one))
    values = [groups[one][key] for one in ordered]
    labels = [label(one, 24) for one in ordered]
    table = Table(
        title, ["Group", axis[:1].upper() + axis[1:]], [[Code(a), number(b)] for a, b in zip(labels, values)], [False, True]
    )
    series = [Series(title, list(range(len(values))), values)]
    return Plot(name, title, "rows", description, series, table, x_label=axis, labels=labels, base=base)


def _tokens(report: dict[str, Any]) -> Section:
    lengths, tokens = report["lengths"], report["tokens"]
    last = max((i for i, count in enumerate(lengths["tokens"]) if count), default=0) + 1
    sizes, own = lengths["bytes"][:last], lengths["tokens"][:last]
    places = [f"{size}+" if size == LONGEST else str(size) for size in sizes]
    total = sum(own)
    series = [Series("of the vocabulary", sizes, [count / total if total else 0.0 for count in own])]
    columns, rows = (
        ["Bytes", "Tokens", "Share"],
        [[place, number(count), percent(ratio(count, total))] for place, count in zip(places, own)],
    )
    told = f"How many bytes the {number(total)} tokens have"
    if lengths["occurrences"] is not None:
        used = lengths["occurrences"][:last]
        everything = sum(lengths["occurrences"])
        series.append(Series("of the text", sizes, [count / everything if everything else 0.0 for count in used]))
        columns += ["Occurrences", "Share of occurrences"]
        rows = [[*row, number(count), percent(ratio(count, everything))] for row, count in zip(rows, used)]
        told += ", and the tokens as they occur in the text"
    table = Table("Tokens by their length", columns, rows, [True] * len(columns))
    plot = Plot(
        "lengths",
        "Length of the tokens",
        "bars",
        f"{told}.",
        series,
        table,
        x_label="bytes of a token",
        y_label="share of the tokens",
        share_y=True,
        labels=places,
    )
    return Section("tokens", "Tokens", [plot, *_token_tables(tokens)])


def _token_tables(tokens: dict[str, Any]) -> list[Table]:
    tables = []
    for name, caption in (("frequent", "Most frequent tokens"), ("longest", "Longest tokens")):
        listed = tokens[name]
        if listed:
            rows = [
                [Code(shortened(one["token"], 40)), str(one["id"]), number(one["bytes"]), number(one["count"])]
                for one in listed
            ]
            tables.append(Table(caption, ["Token", "Id", "Bytes", "Occurrences"], rows, [False, True, True, True]))
    return tables


def _frequencies(report: dict[str, Any]) -> Section | None:
    blocks: list[Block] = []
    coverage, merges = report["coverage"], report["merges"]
    axes: dict[str, Any]
    if coverage is not None and coverage["all"]:
        everything = coverage["all"]
        ranks = coverage["ranks"]
        shares = [count / everything for count in coverage["occurrences"]]
        needed = [[f"{share} %", number(count)] for share, count in coverage["needed"].items()]
        table = Table(
            "Tokens that a share of the text takes",
            ["Share of the occurrences", "Most frequent tokens"],
            needed,
            [True, True],
        )
        half, most = coverage["needed"]["50"], coverage["needed"]["99"]
        told = f"The {number(half)} most frequent tokens are half of the text, {number(most)} are 99 % of it."
        series = [Series("coverage", ranks, shares, True)]
        axes = {"x_label": "most frequent tokens", "y_label": "share of the text's tokens"}
        blocks.append(Plot("coverage", "Coverage by rank", "lines", told, series, table, **axes, log_x=True, share_y=True))
    if merges is not None:
        ranks, counts = merges["ranks"], merges["counts"]
        chosen = (
            _spread(ranks, [], len(ranks))
            if len(ranks) <= 12
            else sorted({round(i * (len(ranks) - 1) / 11) for i in range(12)})
        )
        rows = [[number(ranks[i]), number(counts[i]), number(merges["replaced"][i])] for i in chosen]
        table = Table("Merges by rank", ["Rank", "Count of the pair", "Replaced"], rows, [True] * 3)
        first, last = number(counts[0]), number(counts[-1])
        told = f"How often each pair occurred when it was merged: the first {first} times, the last {last} times."
        axes = {"x_label": "rank of the merge", "y_label": "count of its pair"}
        series = [Series("count", ranks, counts, True)]
        blocks.append(
            Plot("merge-counts", "Counts of the merges", "lines", told, series, table, **axes, log_x=True, log_y=True)
        )
    return Section("frequencies", "Frequencies", blocks) if blocks else None


def _audit(report: dict[str, Any]) -> Section:
    findings = report["findings"]
    rows: list[list[Cell]] = [[_kind(finding), finding["title"], number(finding["count"])] for finding in findings]
    told = "Tokens that are doubtful for one reason or another; beam-bpe audit lists all of them, and can fail on them."
    blocks: list[Block] = [Text(told), Table("Findings", ["Kind", "Meaning", "Tokens"], rows, [False, False, True])]
    for finding in findings:
        examples: list[list[Cell]] = [
            [Code(shortened(one["token"], 40)), label(one["detail"], 60), number(one["count"])]
            for one in finding["examples"]
        ]
        if examples:
            more = finding["count"] - len(examples)
            note = f"{number(more)} more." if more else ""
            blocks.append(
                Table(_kind(finding), ["Token", "What is the matter", "Occurrences"], examples, [False, False, True], note)
            )
    return Section("audit", "Audit", blocks)


def _kind(finding: dict[str, Any]) -> str:
    return str(finding["kind"]).replace("_", " ").capitalize()


def _making(report: dict[str, Any]) -> Section:
    vocabulary = report["vocabulary"]
    cut = vocabulary["pre_tokenizer"]
    command = report["command"]
    facts: list[tuple[str, Cell, str]] = [
        ("Fingerprint", Code(vocabulary["fingerprint"]), ""),
        ("Algorithm", f"{vocabulary['algorithm']}, of {vocabulary['unit']}s", ""),
        (
            "Ids, tokens, merges",
            f"{number(vocabulary['size'])}, {number(vocabulary['tokens'])}, {number(vocabulary['merges'])}",
            "",
        ),
        ("Ended because", STOPPED.get(vocabulary["stop_reason"], label(vocabulary["stop_reason"])), ""),
        ("Words are cut by", Code(label(cut["name"])), ""),
        ("Normalizer", Code(label(vocabulary["normalizer"])) if vocabulary["normalizer"] else "none", ""),
        ("Special tokens", Code(" ".join(label(token, 60) for token in vocabulary["special_tokens"][:50]) or "none"), ""),
        ("Command", Code(label(command, 2000)) if command else "not recorded; the parameters below made it", ""),
        ("Pattern", Code(label(str(cut.get("pattern", "")), 2000)), ""),
        ("Made with", f"beam_bpe {report['version']}", ""),
    ]
    parameters = [
        [Code(name), Code(label(value, 400))]
        for name, value in flattened(vocabulary["parameters"])
        if ".pre_tokenizer." not in name
    ]
    totals = dict(report["text"]["totals"]) if report["text"] else dict(vocabulary["totals"])
    counted: list[list[Cell]] = [[name.replace("_", " "), number(value)] for name, value in totals.items()]
    blocks: list[Block] = [Facts(facts)]
    if parameters:
        blocks.append(Table("Parameters", ["Parameter", "Value"], parameters, [False, False]))
    if counted:
        blocks.append(Table("Totals of the words", ["What was counted", "Number"], counted, [False, True]))
    return Section("making", "How it was made", blocks)


def flattened(values: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return the names and values of nested parameters as texts.

    >>> flattened({"words": {"special_tokens": []}, "vocab_size": 300})
    [('vocab_size', '300'), ('words.special_tokens', '[]')]
    """
    found: list[tuple[str, str]] = []
    for name, value in sorted(values.items()):
        found += flattened(value, f"{prefix}{name}.") if isinstance(value, dict) and value else [(prefix + name, str(value))]
    return found
