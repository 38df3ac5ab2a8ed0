"""How a report writes numbers, shares and names."""

from __future__ import annotations

from beam_bpe.texts import readable

NOT_KNOWN = "–"

#: Why learning ended, by `Vocabulary.stop_reason`.
STOPPED = {
    "vocab_size": "the vocabulary is full",
    "num_merges": "all that were wanted",
    "no_words": "every word has its token",
    "min_count": "every word that is frequent enough has its token",
    "min_pair_count": "no pair left is frequent enough",
    "no_pairs": "no pair is left",
    "no_pieces": "fewer pieces are of use",
    "imported": "made elsewhere",
}


def number(value: int | float | None, digits: int = 2) -> str:
    """Return a number for people: whole ones with commas, others with digits behind the point; – if it is not known.

    >>> number(1234567), number(0.5), number(None), number(0)
    ('1,234,567', '0.50', '–', '0')
    """
    if value is None:
        return NOT_KNOWN
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def percent(share: float | None) -> str:
    """Return a share in per cent, small ones with more digits.

    >>> percent(0.1234), percent(1.0), percent(0.00012), percent(0.0), percent(None)
    ('12.3 %', '100.0 %', '0.012 %', '0 %', '–')
    """
    if share is None:
        return NOT_KNOWN
    return "0 %" if not share else f"{100 * share:.1f} %" if share >= 0.001 else f"{100 * share:.2g} %"


def change(share: float | None) -> str:
    """Return a share that is more or less, in per cent with its sign.

    >>> change(0.1234), change(-0.00012), change(0.0), change(None)
    ('+12.3 %', '-0.012 %', '0 %', '–')
    """
    if not share:
        return percent(share)
    return f"{'-' if share < 0 else '+'}{percent(abs(share))}"


def money(value: float | None, signed: bool = False) -> str:
    """Return a price with four digits at least that tell something.

    >>> money(0.00012345), money(1234.5), money(-0.5, True), money(0.0), money(None)
    ('0.0001234', '1,234', '-0.5', '0', '–')
    """
    return NOT_KNOWN if value is None else f"{value:{'+' if signed else ''},.4g}"


def amount(value: float | None) -> str:
    """Return a number with a prefix of a thousand each.

    >>> amount(262_144_000), amount(13.1e9), amount(999.4), amount(None), amount(2.5e20)
    ('262 M', '13.1 G', '999', '–', '2.5e+20')
    """
    if value is None:
        return NOT_KNOWN
    for factor, prefix in ((1e18, ""), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g} {prefix}" if prefix and value / factor < 999.5 else f"{value:.3g}"
    return f"{value:.3g}"


def label(name: str, width: int = 32) -> str:
    """Return a name as it can be shown: what is not printable as escapes, long ones cut, and "(none)" for no name.

    >>> label("en"), label(""), label("a\\x00b"), label("x" * 40, 4)
    ('en', '(none)', 'a\\\\x00b', 'xxx…')
    """
    shown = readable(name.encode("utf-8", "surrogatepass"))[1:-1]
    return (shown if len(shown) <= width else shown[: width - 1] + "…") or "(none)"


def sentence(text: str) -> str:
    """Return a text with a great letter at its beginning and a full stop at its end."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
