"""Run `beam-bpe ARGUMENTS`, and take a file away between listing and reading: vanishing.py FILE ARGUMENTS …"""

import logging
import os
import sys

logging.basicConfig(level=logging.ERROR)  # before Beam is imported, as the command does

import apache_beam as beam  # noqa: E402

from beam_bpe import cli  # noqa: E402

if __name__ == "__main__":
    path = sys.argv.pop(1)
    run = beam.Pipeline.run

    def run_without(self, *args, **kwargs):
        os.remove(path)
        return run(self, *args, **kwargs)

    beam.Pipeline.run = run_without
    cli.main()
