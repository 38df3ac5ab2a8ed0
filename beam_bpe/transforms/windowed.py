"""Write a table of words for each window of a stream."""

import json
import logging
from collections import defaultdict
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, Iterable, Iterator, List, Tuple

import apache_beam as beam
import pyarrow.compute as pc
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows, IntervalWindow, SlidingWindows
from apache_beam.utils.timestamp import Timestamp

from beam_bpe import storage, word_parts
from beam_bpe.framing import TOTALS_SHARD, unframe
from beam_bpe.stores import refuse_credentials
from beam_bpe.totals import check_alike
from beam_bpe.transforms.count import merged
from beam_bpe.transforms.stored import StoredDoFn

_LOGGER = logging.getLogger(__name__)


def table_name(window: IntervalWindow, pane: int) -> str:
    """Return the name of the folder of a table: START-END-PANE, in UTC, which sorts by time.

    >>> table_name(IntervalWindow(1767225600, 1767225660), 0)
    '20260101T000000Z-20260101T000100Z-0000'
    """
    return f"{_moment(window.start)}-{_moment(window.end)}-{pane:04d}"


def _moment(timestamp: Timestamp) -> str:
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=timestamp.micros)
    fraction = f".{moment.microsecond:06d}" if moment.microsecond else ""
    return f"{moment:%Y%m%dT%H%M%S}{fraction}Z"


class WriteWindowedWords(beam.PTransform):
    """Write the counted words of each window into a folder of its own, START-END-PANE, its times in UTC.

    The input is what CountWords gives in fixed windows; the output holds the path of each table, once it
    stands. A table is whole or absent, as those of WriteWords, and is never changed.

    Pane 0000 is written when the window ends. Late data, up to the allowed lateness of the windows, makes
    another table with the next number, which holds all of the window: so of several tables of a window the last
    one counts. For that the panes before must be discarded, which is Beam's default. Later data is dropped,
    as Beam does.

    A table is written by one worker. What a window counted is kept, packed, until it expires.

    Args:
        folder: where the folders of the windows are made; a folder or URL.
        rolling: how many windows in a row each table sums; there is a table for each window still, which
            is the last of its row.
    """

    def __init__(self, folder: str, rolling: int = 1):
        super().__init__()
        refuse_credentials(folder)
        if not isinstance(rolling, int):
            raise TypeError(f"rolling is {rolling!r}; it must be a whole number")
        if rolling < 1:
            raise ValueError(f"rolling is {rolling}; it must be at least 1")
        self._folder, self._rolling = folder, rolling

    def display_data(self):
        return {"folder": self._folder, "rolling": self._rolling}

    def expand(self, packed: beam.PCollection[Tuple[int, bytes]]) -> beam.PCollection[str]:
        given = packed.windowing
        if not isinstance(given.windowfn, FixedWindows):
            raise ValueError(
                f"WriteWindowedWords takes the counts of fixed windows, not of {type(given.windowfn).__name__}: "
                "WindowInto(FixedWindows(…)) before CountWords, or WriteWords for one table"
            )
        if given.accumulation_mode == AccumulationMode.ACCUMULATING:
            raise ValueError("WriteWindowedWords sums the panes of a window: discard them (AccumulationMode.DISCARDING)")
        windows = given.windowfn
        if self._rolling > 1:
            windows = SlidingWindows(windows.size * self._rolling, windows.size, Timestamp(micros=windows.offset.micros))
        return (
            packed
            # Panes were discarded so far, so that each word comes once; from here on a firing holds all of its window.
            | "Window"
            >> beam.WindowInto(
                windows,
                trigger=AfterWatermark(late=AfterCount(1)),
                accumulation_mode=AccumulationMode.ACCUMULATING,
                allowed_lateness=given.allowed_lateness,
            )
            | "Together" >> beam.Map(lambda pair: (b"", pair)).with_output_types(Tuple[bytes, Tuple[int, bytes]])
            | "Gather" >> beam.GroupByKey()
            | "Write" >> beam.ParDo(_WriteTableFn(self._folder)).with_output_types(str)
        )


class _WriteTableFn(StoredDoFn):
    """Write the table of a window, if all of it is there."""

    def __init__(self, folder: str):
        self._folder = folder

    def process(
        self,
        element: Tuple[bytes, Iterable[Tuple[int, bytes]]],
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterator[str]:
        pieces: Dict[int, List[bytes]] = defaultdict(list)
        for shard, framed in element[1]:
            pieces[shard].append(framed)
        table = [pair for shard, several in sorted(pieces.items()) for pair in merged(shard, several)]
        folder = storage.join(self._folder, table_name(window, pane.index))
        if table and _whole(table):  # without words it is an empty pane
            _write(folder, table)
            yield folder
        elif table:  # late words and their totals come one by one: a later pane holds all of them
            _LOGGER.info("%s: words or totals of late documents are still to come", folder)


def _whole(table: List[Tuple[int, bytes]]) -> bool:
    """Whether the table holds the words that its totals tell of."""
    counted = held = 0
    for shard, framed in table:
        payload = unframe(framed)[1]
        if shard == TOTALS_SHARD:
            counted = json.loads(bytes(payload))["words"]
        else:
            held += pc.sum(word_parts.unpack_table(payload)[2]["count"]).as_py()
    return held == counted


def _write(folder: str, table: List[Tuple[int, bytes]]) -> None:
    parts: List[Dict[str, Any]] = []
    totals: Dict[str, int] = {}
    parameters: Dict[str, Any] = {}
    word_parts.claim(folder, overwrite=True)  # by this bundle, when it ran before
    for shard, framed in table:
        own, payload = unframe(framed)
        check_alike(parameters or own, own)
        parameters = own
        if shard == TOTALS_SHARD:
            totals = json.loads(bytes(payload))
        else:
            parts.append(word_parts.write_part(folder, payload, parameters))
    word_parts.publish(folder, parts, parameters, totals)
