"""Models of equal size from the same lines, and one evaluator of Unigram models: `python unigram_models.py NAME ARGUMENTS`.

A model is a JSON object of pieces, in the order of their ids, and scores.  Words are what stands between spaces of a line,
with ▁ before.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Iterator

import numpy as np

MARK = "▁"
MOST_LINE = 4192  # bytes; sentencepiece leaves out longer lines
HELD_OUT = 3_000_000  # bytes at the end of the whole text
NORMALIZER = "metaspace"
META = ("<unk>", "<s>", "</s>")  # pieces that are no pieces of text


def prepare(text: str, whole: str, lines: str, held_out: str) -> dict[str, Any]:
    """Write the lines to learn from, and those at the end of the whole text that do not occur among them.

    Lines with the text of a meta piece are left out: we refuse them in words, sentencepiece cuts them there.
    """
    learned = [line for line in _lines(_decoded(text)) if len(line.encode()) <= MOST_LINE and not any(map(line.count, META))]
    Path(lines).write_text("\n".join(learned) + "\n", encoding="utf-8", newline="")
    known = set(learned)
    end = Path(whole).read_bytes()[-HELD_OUT:].decode(errors="replace")
    others = [line for line in _lines(end[end.index("\n") + 1 :]) if line not in known]
    Path(held_out).write_text("\n".join(others) + "\n", encoding="utf-8", newline="")
    return {
        "lines": len(learned),
        "characters": len(set().union(MARK, *learned) - {" "}),
        "bytes": sum(len(line.encode()) + 1 for line in others),
    }


def _decoded(path: str) -> str:
    return Path(path).read_bytes().decode(errors="replace")


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line]


def _words(path: str) -> Counter[str]:
    words: Counter[str] = Counter()
    for line in _lines(_decoded(path)):
        words.update(line.replace(MARK, " ").split(" "))
    return Counter({MARK + word: count for word, count in words.items()})


def ours(algorithm: str, lines: str, vocab_size: str, coverage: str, model: str) -> dict[str, Any]:
    """Read, count and learn."""
    from beam_bpe import WordCounts, _words, train
    from beam_bpe.normalize import normalize_documents
    from beam_bpe.pretokenize import pre_tokenizer
    from beam_bpe.word_parts import unpack_table
    from beam_bpe.words import parameters_of

    clock = _Clock()
    data = Path(lines).read_bytes()
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    bounds = np.stack([np.append(0, ends[:-1] + 1), ends], axis=1).reshape(-1)
    text, bounds = normalize_documents(data, bounds, NORMALIZER)
    metaspace, table = pre_tokenizer("metaspace"), _words.WordTable()
    metaspace.count(table, text, bounds)
    packed = table.pack(1, ordered=True)
    words = WordCounts(unpack_table(packed[0][1])[2], parameters_of(metaspace, normalizer=NORMALIZER))
    counted = clock.read()["seconds"]
    vocabulary = train(
        words, int(vocab_size), algorithm=algorithm, character_coverage=coverage, special_tokens=META
    )
    took = clock.read()
    pieces = [piece.decode() for piece in vocabulary.tokens[len(META) :]]
    _save(model, dict(zip(pieces, vocabulary.layout.scores[len(META) :].tolist())))
    return {**took, "counting": counted, "words": len(words)}


def sentencepiece(algorithm: str, lines: str, vocab_size: str, coverage: str, model: str, limit: str) -> dict[str, Any]:
    """Train sentencepiece, in one thread."""
    import sentencepiece as peer

    _limit(limit)
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "theirs")
        clock = _Clock()
        peer.SentencePieceTrainer.train(
            input=lines,
            model_prefix=prefix,
            vocab_size=int(vocab_size),
            model_type=algorithm.removeprefix("sentencepiece-"),
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
    _save(model, {theirs.id_to_piece(i): theirs.get_score(i) for i in range(len(META), len(theirs))})
    return took


def tokenizers(lines: str, vocab_size: str, model: str, limit: str) -> dict[str, Any]:
    """Train Hugging Face's tokenizers, in one thread; it has no coverage."""
    os.environ["RAYON_NUM_THREADS"] = "1"
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    _limit(limit)
    peer = Tokenizer(models.Unigram())
    peer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=int(vocab_size), unk_token="<unk>", special_tokens=["<unk>"], show_progress=False)
    clock = _Clock()
    peer.train_from_iterator(_lines(_decoded(lines)), trainer)
    took = clock.read()
    pieces = json.loads(peer.to_str())["model"]["vocab"]
    _save(model, {piece: score for piece, score in pieces if piece != "<unk>"})
    return took


def alike(*paths: str) -> dict[str, Any]:
    """Tell how many pieces two models share, whether these stand in the same order, and how many the larger has."""
    first, second = (json.loads(Path(path).read_text(encoding="utf-8")) for path in paths)
    shared = [piece for piece in first if piece in second]
    in_order = shared == [piece for piece in second if piece in first]
    return {"shared": len(shared), "in_order": in_order, "pieces": max(len(first), len(second))}


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


def _limit(seconds: str) -> None:
    """End this process, with SIGXCPU, when it has taken so many seconds of CPU."""
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))


class _Clock:
    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, Any]:
        return {"seconds": time.perf_counter() - self._wall, "cpu": {"seconds": time.process_time() - self._cpu}}


def _save(path: str, model: dict[str, float]) -> None:
    Path(path).write_text(json.dumps(model), encoding="utf-8")


if __name__ == "__main__":
    calls = {call.__name__: call for call in (prepare, ours, sentencepiece, tokenizers, alike, score)}
    print(json.dumps(calls[sys.argv[1]](*sys.argv[2:])))
