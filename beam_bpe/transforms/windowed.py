"""Write a table of words for each window of a stream."""

import logging
from collections import defaultdict
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, Iterable, Iterator, List, Tuple

import apache_beam as beam
from apache_beam.coders import BytesCoder, TupleCoder, VarIntCoder
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.userstate import BagStateSpec
from apache_beam.transforms.window import GlobalWindows, IntervalWindow

from beam_bpe import storage
from beam_bpe.transforms.count import merged
from beam_bpe.transforms.words import publish_lines, write_line
from beam_bpe.words import LostWords, claim

_LOGGER = logging.getLogger(__name__)


def window_name(window: IntervalWindow) -> str:
    """Return the name of the folder of a window: START-END in UTC, which sorts by time."""
    return f"{_moment(window.start)}-{_moment(window.end)}"


def _moment(timestamp: Any) -> str:
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=timestamp.micros)
    fraction = f".{moment.microsecond:06d}" if moment.microsecond else ""
    return f"{moment:%Y%m%dT%H%M%S}{fraction}Z"


class WriteWindowedWords(beam.PTransform):
    """Write the counted words of each window into a folder of its own, named START-END in UTC.

    The input is what CountWords gives, in fixed, sliding or session windows; the output holds the path of
    each table, once it stands, in its window. A table is whole or absent, as those of WriteWords.

    Late data: each firing of the trigger adds to the window's table, which is then replaced as a whole by
    what the window holds by then; while it is replaced, it is absent. So fired panes must be discarded,
    and data later than the allowed lateness is dropped, as Beam does. A firing that brings the
    words of a bundle without its totals, or the other way round, waits for the rest. Whatever stands in a window's
    folder is replaced, so that a bundle may run again: give each job a folder of its own.

    One worker writes the table of a window, and keeps it packed as the window's state until it expires.

    Args:
        folder: where the folders of the windows are made; a folder or URL.
    """

    def __init__(self, folder: str):
        super().__init__()
        self._folder = folder

    def display_data(self):
        return {"folder": self._folder}

    def expand(self, packed: beam.PCollection[Tuple[int, bytes]]) -> beam.PCollection[str]:
        windowing = packed.windowing
        if isinstance(windowing.windowfn, GlobalWindows):
            raise ValueError("WriteWindowedWords writes a table a window: give it windows, or use WriteWords")
        if windowing.accumulation_mode == AccumulationMode.ACCUMULATING:
            raise ValueError("WriteWindowedWords sums the panes of a window: discard them (AccumulationMode.DISCARDING)")
        return (
            packed
            | "Together" >> beam.Map(lambda pair: (b"", pair)).with_output_types(Tuple[bytes, Tuple[int, bytes]])
            | "Gather" >> beam.GroupByKey()
            | "Write" >> beam.ParDo(_WriteTableFn(self._folder)).with_output_types(str)
        )


class _WriteTableFn(beam.DoFn):
    """Add what a firing brought to what the window holds, and write all of it."""

    HELD = BagStateSpec("held", TupleCoder((VarIntCoder(), BytesCoder())))

    def __init__(self, folder: str):
        self._folder = folder

    def process(
        self,
        element: Tuple[bytes, Iterable[Tuple[int, bytes]]],
        window: Any = beam.DoFn.WindowParam,
        held: Any = beam.DoFn.StateParam(HELD),
    ) -> Iterator[str]:
        pieces: Dict[int, List[bytes]] = defaultdict(list)
        for shard, framed in [*held.read(), *element[1]]:
            pieces[shard].append(framed)
        table = [pair for shard in sorted(pieces) for pair in merged(shard, pieces[shard])]
        held.clear()
        for pair in table:
            held.add(pair)
        folder = storage.join(self._folder, window_name(window))
        claim(folder, overwrite=True)
        try:
            publish_lines(folder, [write_line(folder, pair) for pair in table])
        except LostWords as error:
            _LOGGER.info("%s waits for the rest of a bundle: %s", folder, error)
            return
        yield folder
