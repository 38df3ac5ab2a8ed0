"""`python -m beam_bpe` is the command `beam-bpe`."""

from beam_bpe.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
