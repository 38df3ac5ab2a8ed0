"""How a vocabulary's tokens are found: by merges of bytes or characters, by longest match, by scores, or whole words."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Mapping

ALGORITHMS = ("bpe", "wordpiece", "wordlevel", "sentencepiece-bpe", "unigram")
#: Those whose tokens have scores; they run over a whole text, in which U+2581 stands for spaces.
SCORED = ("sentencepiece-bpe", "unigram")
UNITS = ("byte", "character")


@dataclass(frozen=True)
class Model:
    """The rule by which a word becomes tokens; the default is byte-level BPE.  Checked when it is made.

    Attributes:
        algorithm: "bpe": merges by rank; "wordpiece": the longest piece that fits, from the left; "wordlevel": the
            whole word or none; "sentencepiece-bpe": the two neighbours whose joined spelling has the highest score are
            merged first; "unigram": the segmentation whose scores have the highest sum.
        unit: what merges start from, "byte" or "character"; pieces and whole words are of characters.
        end_of_word: end-of-word suffix that marks the last symbol of a word, such as "</w>" (Sennrich et al. 2016).
        attached: the suffix belongs to the symbol of the last character, as in subword-nmt 0.2 and Hugging Face;
            otherwise it is a symbol of its own.
        continuing_subword_prefix: what the pieces behind the first of a word begin with, such as "##".
        unk_token: the token of what has none: of a character, under WordPiece and word level of a word.
        byte_fallback: what has no token becomes the tokens of its bytes, which are spelled <0x00> to <0xFF>.
        fuse_unk: neighbouring unknown characters of a word are one unk_token.
        max_input_chars_per_word: WordPiece: longer words are unk_token.
        unk_characters: WordPiece: a character that no piece matches is unk_token alone, not the whole word.
        single_precision: Unigram: sums are of 32 bits, from the beginning of a text, as in SentencePiece; else of 64 bits, as in
            Hugging Face `tokenizers`. An unknown character scores 10 less than the lowest score, there of normal
            pieces, here of all tokens.
        unk_surface: text that unk_token decodes to; None: its own.

    Neighbouring unknown characters are one unk_token in algorithms with scores, as if with fuse_unk.

    Raises:
        ValueError: options that contradict each other.
    """

    algorithm: str = "bpe"
    unit: str = "byte"
    end_of_word: str | None = None
    attached: bool = False
    continuing_subword_prefix: str | None = None
    unk_token: str | None = None
    byte_fallback: bool = False
    fuse_unk: bool = False
    max_input_chars_per_word: int | None = None
    unk_characters: bool = False
    single_precision: bool = False
    unk_surface: str | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("algorithm", ALGORITHMS), ("unit", UNITS)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r}: choose one of {', '.join(allowed)}")
        for name in ("end_of_word", "continuing_subword_prefix", "unk_token", "unk_surface"):
            text = getattr(self, name)
            if text is not None and not (isinstance(text, str) and text):
                raise ValueError(f"{name}={text!r}: it is a text, or None for none")
        if self.algorithm != "bpe" and self.unit == "byte":
            raise ValueError(f"algorithm={self.algorithm!r} is of characters: choose unit='character'")
        foreign = {
            "bpe over bytes": (
                self.unit == "byte",
                ("end_of_word", "attached", "continuing_subword_prefix", "unk_token", "byte_fallback", "fuse_unk")
                + ("max_input_chars_per_word", "unk_characters", "unk_surface"),
            ),
            "bpe": (
                self.algorithm == "bpe",
                ("continuing_subword_prefix", "max_input_chars_per_word", "unk_characters"),
            ),
            "wordpiece": (self.algorithm == "wordpiece", ("end_of_word", "attached", "byte_fallback", "fuse_unk")),
            "wordlevel": (
                self.algorithm == "wordlevel",
                ("end_of_word", "attached", "continuing_subword_prefix", "byte_fallback", "fuse_unk")
                + ("max_input_chars_per_word", "unk_characters"),
            ),
            f" {self.algorithm}": (
                self.is_scored,
                ("end_of_word", "attached", "continuing_subword_prefix", "fuse_unk", "max_input_chars_per_word", "unk_characters"),
            ),
            f"{self.algorithm} ": (self.algorithm != "unigram", ("single_precision",)),
        }
        for what, (applies, names) in foreign.items():
            for name in names if applies else ():
                if getattr(self, name):
                    raise ValueError(f"{name}={getattr(self, name)!r} has no meaning for {what.strip()}: leave it out")
        if self.attached and not self.end_of_word:
            raise ValueError("attached=True says where the end-of-word suffix stands, and there is none: give end_of_word")
        if self.fuse_unk and (self.byte_fallback or not self.unk_token):
            raise ValueError("fuse_unk=True joins unknown characters, and there are none: give unk_token, without byte_fallback")
        most = self.max_input_chars_per_word
        if most is not None and (type(most) is not int or not 1 <= most < 1 << 31):
            raise ValueError(f"max_input_chars_per_word={most!r}: it is a whole number from 1 to 2,147,483,647, or None for no limit")
        if self.algorithm != "bpe" and not self.unk_token:
            raise ValueError(f"algorithm={self.algorithm!r} needs a token for words that it cannot cut: give unk_token")
        if self.unit == "character" and self.algorithm == "bpe" and not (self.unk_token or self.byte_fallback):
            raise ValueError("characters outside the alphabet have no token: give unk_token, or byte_fallback=True")

    @property
    def is_byte_level(self) -> bool:
        """Whether every text has tokens, since merges start from the 256 bytes."""
        return self.unit == "byte"

    @property
    def is_scored(self) -> bool:
        """Whether tokens have scores, by which they are found in a whole text."""
        return self.algorithm in SCORED

    def spec(self) -> dict[str, Any]:
        """Return what differs from byte-level BPE, for artifacts and fingerprints; it is empty for that."""
        own, default = asdict(self), asdict(Model())
        return {name: value for name, value in own.items() if value != default[name]}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> Model:
        """Return the model of an artifact's header; ValueError if it is none."""
        unknown = spec.keys() - {one.name for one in fields(cls)}
        if unknown:
            raise ValueError(f"the model has the property {min(unknown)!r}, which is not known")
        return cls(**spec)


def byte_token(byte: int) -> str:
    """Return the spelling of the token of a byte under byte fallback.

    >>> byte_token(0xE4)
    '<0xE4>'
    """
    return f"<0x{byte:02X}>"


def default_cutting(algorithm: str) -> tuple[str, str | None]:
    """Return the pattern and the normalizer by which words are cut for an algorithm, unless others are chosen.

    >>> default_cutting("bpe"), default_cutting("unigram")
    (('o200k', None), ('metaspace', 'metaspace'))
    """
    return ("metaspace", "metaspace") if algorithm in SCORED else ("o200k", None)
