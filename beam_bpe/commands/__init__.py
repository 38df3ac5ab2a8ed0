"""The commands of `beam-bpe`, a module each; `beam_bpe.cli` puts them together."""
