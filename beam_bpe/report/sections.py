"""The numbers of a report as a page: what stands in which section, in words, tables and plots."""

from __future__ import annotations

from typing import Any

from beam_bpe.report.blocks import Block, Cell, Code, Facts, Page, Plot, Section, Series, Table, Text
from beam_bpe.report.group_sections import group_section
from beam_bpe.report.record import LONGEST
from beam_bpe.report.size_sections import size_section, spread
from beam_bpe.report.wording import NOT_KNOWN, STOPPED, known, label, number, percent, sentence, token
from beam_bpe.statistics import ratio

_MARKS = (
    "Tokens are spelled with their marks; bytes are those of their text, without marks and the space that decoding puts in "
    "their place."
)


def page_of(report: dict[str, Any]) -> Page:
    """Return the page of what `record.report_of` told."""
    vocabulary = report["vocabulary"]
    made = [
        _overview(report),
        size_section(report),
        group_section(report),
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
        total, units = measures["total"], ("bytes", "characters")
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
        blocks += [Facts(_known(figures), large=True), *(Text(sentence(note), True) for note in measures["notes"])]
        counts: list[tuple[str, Cell, str]] = [
            ("Text", ", ".join(f"{number(total[unit])} {unit}" for unit in units if total[unit] is not None), ""),
            ("Documents", number(total["documents"]), ""),
            ("Words", f"{number(total['words'])}, {number(report['text']['distinct_words'])} of them distinct", ""),
            ("Tokens", number(total["tokens"]), ""),
            ("Tokens of one byte", percent(total["single_byte_share"]), ""),
            ("Tokens of one character", percent(total["single_character_share"]), ""),
            ("Unknown tokens", percent(total["unknown_rate"]), ""),
            ("Entropy of the tokens", f"{number(total['entropy'])} bits", ""),
        ]
        blocks.append(Facts(_known(counts)))
    return Section("overview", "At a glance", blocks)


def _known(facts: list[tuple[str, Cell, str]]) -> list[tuple[str, Cell, str]]:
    return [fact for fact in facts if fact[1] not in ("", NOT_KNOWN)]


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
    told, note = f"How many bytes the {number(total)} tokens have", ""
    if lengths["occurrences"] is not None:
        used = lengths["occurrences"][:last]
        everything = report["measures"]["total"]["tokens"]
        series.append(Series("of the text", sizes, [count / everything if everything else 0.0 for count in used]))
        columns += ["Occurrences", "Share of occurrences"]
        rows = [[*row, number(count), percent(ratio(count, everything))] for row, count in zip(rows, used)]
        told += ", and the tokens as they occur in the text"
        if left := everything - sum(used):
            note = f"The rest, {percent(ratio(left, everything))} of the occurrences, is of the unknown token."
    table = Table("Tokens by their length", columns, rows, [True] * len(columns), note)
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
    marks: list[Block] = [Text(_MARKS)] if tokens["marked"] else []
    return Section("tokens", "Tokens", [*marks, plot, *_token_tables(tokens)])


def _token_tables(tokens: dict[str, Any]) -> list[Table]:
    tables = []
    for name, caption in (("frequent", "Most frequent tokens"), ("longest", "Longest tokens")):
        rows = [[token(one), str(one["id"]), number(one["bytes"]), number(one["count"])] for one in tokens[name]]
        if rows:
            tables.append(known(Table(caption, ["Token", "Id", "Bytes", "Occurrences"], rows, [False, True, True, True])))
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
            spread(ranks, [], len(ranks))
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
            [token(one), label(one["detail"]), number(one["count"])]
            for one in finding["examples"]
        ]
        if examples:
            more = finding["count"] - len(examples)
            note = f"{number(more)} more." if more else ""
            columns = ["Token", "What is the matter", "Occurrences"]
            blocks.append(known(Table(_kind(finding), columns, examples, [False, False, True], note)))
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
        ("Special tokens", Code(" ".join(label(text, 60) for text in vocabulary["special_tokens"][:50]) or "none"), ""),
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
