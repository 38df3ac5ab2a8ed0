"""Unigram models of equal size from the same lines, and one evaluator of all: `python unigram_models.py NAME ARGUMENTS`.

A model is a JSON object of pieces and scores.  Words are what stands between spaces of a line, with ▁ before.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any, Iterator

MARK = "▁"
MOST_LINE = 4192  # bytes; sentencepiece leaves out longer lines
HELD_OUT = 3_000_000  # bytes at the end of the whole text
META = 3  # pieces of sentencepiece that are no pieces of text: unknown, begin, end


def prepare(text: str, whole: str, lines: str, held_out: str) -> dict[str, Any]:
    """Write the lines to learn from, and those at the end of the whole text that do not occur among them."""
    learned = [line for line in _lines(Path(text).read_bytes()) if len(line.encode()) <= MOST_LINE]
    Path(lines).write_text("\n".join(learned) + "\n", encoding="utf-8", newline="")
    known = set(learned)
    end = Path(whole).read_bytes()[-HELD_OUT:]
    others = [line for line in _lines(end[end.index(b"\n") + 1 :]) if line not in known]
    Path(held_out).write_text("\n".join(others) + "\n", encoding="utf-8", newline="")
    return {"lines": len(learned), "held_out": len(others), "bytes": sum(len(line.encode()) + 1 for line in others)}


def _lines(data: bytes) -> list[str]:
    return [line for line in data.decode(errors="replace").split("\n") if line]


def _words(path: str) -> Counter[str]:
    words: Counter[str] = Counter()
    with open(path, encoding="utf-8", newline="") as file:
        for line in file.read().split("\n"):
            if line:
                words.update(line.replace(MARK, " ").split(" "))
    return Counter({MARK + word: count for word, count in words.items()})


def ours(lines: str, vocab_size: str, coverage: str, model: str, *factor: str) -> dict[str, Any]:
    """Read, count and learn, with a shrinking factor other than the default."""
    from beam_bpe.alphabet import count_characters, most_frequent
    from beam_bpe.unigram import learn_pieces
    from beam_bpe.words import WordCounts

    clock = _Clock()
    words = WordCounts.from_mapping(_words(lines))
    counted = clock.read()["seconds"]
    found = count_characters(words).sum(0)
    counts = {int(character): int(found[character]) for character in found.nonzero()[0]}
    pieces = learn_pieces(
        words,
        int(vocab_size) - META,
        characters=most_frequent(counts, Fraction(coverage)),
        **({"shrinking_factor": factor[0]} if factor else {}),
    )
    took = clock.read()
    _save(model, dict(zip(pieces.spellings, pieces.scores.tolist())))
    return {**took, "counting": counted, "words": len(words), "characters": pieces.characters, "seeds": pieces.seeds}


def sentencepiece(lines: str, vocab_size: str, coverage: str, model: str) -> dict[str, Any]:
    """Train sentencepiece, in one thread."""
    import sentencepiece as peer

    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "theirs")
        clock = _Clock()
        peer.SentencePieceTrainer.train(
            input=lines,
            model_prefix=prefix,
            vocab_size=int(vocab_size),
            model_type="unigram",
            character_coverage=float(coverage),
            normalization_rule_name="identity",
            split_by_unicode_script=False,
            split_by_number=False,
            remove_extra_whitespaces=False,
            num_threads=1,
            minloglevel=2,
        )
        took = clock.read()
        theirs = peer.SentencePieceProcessor(model_file=f"{prefix}.model")
    _save(model, {theirs.id_to_piece(i): theirs.get_score(i) for i in range(META, len(theirs))})
    return took


def tokenizers(lines: str, vocab_size: str, model: str) -> dict[str, Any]:
    """Train Hugging Face's tokenizers, in one thread; it has no coverage."""
    os.environ["RAYON_NUM_THREADS"] = "1"
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    peer = Tokenizer(models.Unigram())
    peer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=int(vocab_size), unk_token="<unk>", special_tokens=["<unk>"], show_progress=False)
    clock = _Clock()
    with open(lines, encoding="utf-8", newline="") as file:
        peer.train_from_iterator(file.read().split("\n"), trainer)
    took = clock.read()
    pieces = json.loads(peer.to_str())["model"]["vocab"]
    _save(model, {piece: score for piece, score in pieces if piece != "<unk>"})
    return took


def score(held_out: str, *paths: str) -> dict[str, Any]:
    """Score models on the words of a text; those with a character that one of the models lacks are left out for all.

    Scores are renormalized to a sum of 1.  Bits are those of all segmentations of each word, for each byte of text;
    tokens are those of the best segmentation.
    """
    words = _words(held_out)
    models = [json.loads(Path(path).read_text(encoding="utf-8")) for path in paths]
    known = set.intersection(*({piece for piece in model if len(piece) == 1} for model in models))
    scored = {word: count for word, count in words.items() if known.issuperset(word)}
    size = sum(count * (len(word.encode()) - len(MARK.encode()) + 1) for word, count in scored.items())
    figures = []
    for model in models:
        bits, tokens = 0.0, 0
        for word, count, loss, best in _score(scored, model):
            bits += count * loss / math.log(2)
            tokens += count * best
        figures.append({"pieces": len(model), "bits": bits / size, "tokens": tokens})
    left_out = 1 - sum(scored.values()) / sum(words.values())
    return {"models": figures, "left_out": left_out, "bytes": size}


def _score(words: dict[str, int], model: dict[str, float]) -> Iterator[tuple[str, int, float, int]]:
    """Yield of each word its count, minus the logarithm of its probability, and the tokens of its best segmentation."""
    whole = math.log(sum(map(math.exp, model.values())))
    scores = {piece: value - whole for piece, value in model.items()}
    longest = max(map(len, scores))
    for word, count in words.items():
        sums, best = [0.0], [(0.0, 0)]
        for j in range(1, len(word) + 1):
            ways, found = [], (-math.inf, 0)
            for i in range(max(0, j - longest), j):
                value = scores.get(word[i:j])
                if value is not None:
                    ways.append(sums[i] + value)
                    found = max(found, (best[i][0] + value, best[i][1] - 1))
            top = max(ways)
            sums.append(top + math.log(sum(math.exp(way - top) for way in ways)))
            best.append(found)
        yield word, count, -sums[-1], -best[-1][1]


class _Clock:
    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, Any]:
        return {"seconds": time.perf_counter() - self._wall, "cpu": {"seconds": time.process_time() - self._cpu}}


def _save(path: str, model: dict[str, float]) -> None:
    Path(path).write_text(json.dumps(model), encoding="utf-8")


if __name__ == "__main__":
    calls = {call.__name__: call for call in (prepare, ours, sentencepiece, tokenizers, score)}
    print(json.dumps(calls[sys.argv[1]](*sys.argv[2:])))
