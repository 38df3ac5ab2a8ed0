"""Leave a file for each range, named after the process that read it: spread.py TEXT FOLDER RANGE_BYTES FLAGS …"""

import os
import sys
import time
import zlib

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

import beam_bpe
from beam_bpe.transforms import ReadDocuments


class Seen(beam.DoFn):
    """Write where a range was read."""

    def __init__(self, folder):
        self._folder = folder

    def process(self, batch):
        time.sleep(0.1)
        name = f"{os.getpid()}-{zlib.crc32(batch.data)}"
        with open(os.path.join(self._folder, name), "w", encoding="utf-8") as file:
            file.write(beam_bpe.__file__)
        yield name


if __name__ == "__main__":
    text, folder, size, *flags = sys.argv[1:]
    with beam.Pipeline(options=PipelineOptions(flags)) as p:
        p | ReadDocuments(text, pattern="o200k", range_bytes=int(size)) | beam.ParDo(Seen(folder))
    # Python's own end was once seen to wait for ever for a lock of gRPC's (in _Rendezvous.__del__) when the job was
    # done. The command `beam-bpe` leaves in the same way.
    os._exit(0)
