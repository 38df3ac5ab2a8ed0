"""The numbers of a report in a few lines, for a terminal."""

from __future__ import annotations

from typing import Any, Mapping

from beam_bpe.report.record import compared_by
from beam_bpe.report.wording import gini, label, labels, number, percent

WIDTH = 40  # characters of a name


def summary(report: Mapping[str, Any]) -> list[str]:
    """Return what `record.report_of` told in three lines at most; what is not known, or tells nothing, is left out.

    >>> total = {"compression_ratio": 2.5, "bytes_per_token": None, "fertility": 1.25, "kept_share": None, "used_share": 0.5}
    >>> summary({"measures": {"total": total, "groups": {}}, "coverage": {"all": 0}, "curve": None})
    ['measured    2.50 characters a token, 1.25 tokens a word', 'used        50.0 % of the tokens occur']
    >>> summary({"measures": None, "coverage": None, "curve": None})
    []
    """
    measures = report["measures"]
    if measures is None:
        return []
    lines = [("measured", ", ".join(_measured(measures["total"])))]
    lines.append(("used", ", ".join(_used(measures["total"], report["coverage"], report["curve"]))))
    lines.append(("groups", "; ".join(_groups(measures)) if measures["groups"] else ""))
    return [f"{name:<11} {told}" for name, told in lines if told]


def _measured(total: Mapping[str, Any]) -> list[str]:
    units = (("compression_ratio", "characters"), ("bytes_per_token", "bytes"))
    each = [f"{number(total[name])} {what}" for name, what in units if total[name]]
    told = [f"{' and '.join(each)} a token"] if each else []
    told += [f"{number(total['fertility'])} tokens a word"] if total["fertility"] is not None else []
    return told + ([f"{percent(total['kept_share'])} of the words whole"] if total["kept_share"] is not None else [])


def _used(total: Mapping[str, Any], coverage: Mapping[str, Any], curve: Mapping[str, Any] | None) -> list[str]:
    told = [f"{percent(total['used_share'])} of the tokens occur"] if total["used_share"] is not None else []
    if coverage["all"]:
        half = coverage["needed"]["50"]
        told.append(f"{number(half)} of them {'is' if half == 1 else 'are'} half of the text")
        if curve is not None and not curve["absent"] and len(curve["sizes"]) > 1:
            more = curve["tokens"][curve["sizes"].index(curve["knee"])] / curve["tokens"][-1] - 1
            told.append(f"a size of {number(curve['knee'])}, the knee, takes {percent(more)} more tokens")
    return told


def _groups(measures: Mapping[str, Any]) -> list[str]:
    """Return how many groups there are and, of several, what the dearest costs beside the reference, and how unlike they are."""
    groups, unit = measures["groups"], compared_by(measures)
    told = [f"{number(len(groups))} by {label(measures['group_by'], WIDTH)}"]
    if unit is None:
        return told
    base, premiums = measures["reference"], {name: one[f"premium_{unit}"] for name, one in groups.items()}
    others = [name for name, premium in premiums.items() if name != base and premium is not None]
    if others:  # there are none where the reference has no text
        dearest = max(others, key=lambda name: premiums[name])
        names = labels((dearest, base), WIDTH)
        told.append(f"a {unit} of {names[dearest]} costs {number(premiums[dearest])} times one of {names[base]}")
    return [*told, gini(unit, measures["gini"][unit])]
