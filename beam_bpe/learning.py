"""What is to be learned: the parameters of every family of vocabularies, checked before any word is counted."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction
from numbers import Integral
from typing import Any, Iterable, Mapping, Sequence

from beam_bpe import token_list
from beam_bpe.model import SCORED, Model, byte_token
from beam_bpe.special import SpecialTokens

#: How equal counts are decided (the first is the default):
#: huggingface: the smallest (left id, right id), bytes numbered as in Hugging Face's byte-level
#:     alphabet, characters by their spellings, so that the merges are those of `tokenizers`;
#: bytes: the same with byte values as ids, as `rustbpe`; for bytes only;
#: lexicographic: the greatest (left spelling, right spelling), as `subword-nmt`.
TIE_BREAKS = ("huggingface", "bytes", "lexicographic")

#: How WordPiece chooses the pair to merge.
SCORES = ("likelihood", "count")

_MOST_DIGITS = 100
_UNKNOWN = {"bpe": "<unk>", "wordpiece": "[UNK]", "wordlevel": "<UNK>", "sentencepiece-bpe": "<unk>", "unigram": "<unk>"}

SPACE = "\u2581"  # stands for a space in words of the algorithms with scores

#: Characters of a piece of the algorithms with scores, at most, unless it is said.
PIECE_LENGTH = 16
#: What the trainer of Unigram can hold of a piece.
LONGEST_UNIGRAM = 65_534

#: The families that an option belongs to; those that are not named here have them all.
_FAMILIES = {
    "num_merges": ("bytes", "characters", "wordpiece"),
    "min_pair_count": ("bytes", "characters", "wordpiece"),
    "max_token_length": ("bytes", "characters", "wordpiece", *SCORED),
    "tie_break": ("bytes", "characters", "wordpiece"),
    "end_of_word": ("characters",),
    "attached": ("characters",),
    "byte_fallback": ("characters", *SCORED),
    "fuse_unk": ("characters",),
    "unk_token": ("characters", "wordpiece", "wordlevel", *SCORED),
    "character_coverage": ("characters", "wordpiece", *SCORED),
    "limit_alphabet": ("characters", "wordpiece", *SCORED),
    "alphabet_order": ("characters", "wordpiece"),
    "score": ("wordpiece",),
    "continuing_subword_prefix": ("wordpiece",),
    "both_forms": ("wordpiece",),
    "seed_words": ("wordpiece",),
    "max_input_chars_per_word": ("wordpiece",),
    "unk_characters": ("wordpiece",),
    "user_defined_symbols": SCORED,
    "split_digits": SCORED,
    "split_by_unicode_script": ("sentencepiece-bpe",),
    "split_by_number": ("sentencepiece-bpe",),
    "seed_size": ("unigram",),
    "shrinking_factor": ("unigram",),
    "sub_iterations": ("unigram",),
}

#: Options that are recorded in a vocabulary's header, of the families that have them.  Others are in its model, or rare.
_RECORDED = (
    *("min_pair_count", "max_token_length", "tie_break", "character_coverage", "limit_alphabet", "alphabet_order", "score"),
    *("both_forms", "seed_words", "user_defined_symbols", "split_digits", "split_by_unicode_script", "split_by_number"),
    *("seed_size", "shrinking_factor", "sub_iterations"),
)


@dataclass(frozen=True)
class Learning:
    """The parameters of a vocabulary that is to be learned; checked when it is made.

    Attributes:
        vocab_size: tokens, those included that are not learned; None with num_merges, and at word level for all words.
        algorithm: "bpe": merges (Sennrich, Haddow and Birch 2016); "wordpiece": pieces of words (Schuster and Nakajima
            2012); "wordlevel": whole words; "sentencepiece-bpe": merges with scores, by the rules of SentencePiece;
            "unigram": pieces with probabilities (Kudo 2018).
        unit: what merges start from, "byte" (the default of bpe) or "character".
        num_merges: merges to be learned, instead of vocab_size.
        special_tokens: get the last ids in a vocabulary of bytes, else the first; none may occur inside a word.
        min_count: words that occur less often are left out.
        min_pair_count: a pair with a lower count is not merged (a pair seen once saves nothing).
        max_token_length: in bytes, or characters without marks, inclusive; None for no limit.  With scores: for 16.
        tie_break: one of `TIE_BREAKS`; score="likelihood" has a rule of its own.
        exclude_tokens: spellings that no merge makes, no piece has, and no word is kept whole as, written as `token_list`
            has them (bytes as \\xNN).  A pair that would be spelled so is left as it is; larger tokens may hold that text.
        end_of_word: end-of-word suffix, such as "</w>"; None for none.
        attached: the suffix belongs to the symbol of the last character; otherwise it is a symbol of its own.
        character_coverage: the alphabet is the smallest number of most frequent characters (equal ones by code point)
            whose share of all characters is at least this, which is taken as the decimal number that it is written as.
        limit_alphabet: the alphabet has at most so many characters, the most frequent.
        alphabet_order: spellings of the initial symbols in the order of their ids; None: by code points.
        unk_token: "<unk>" for characters unless there is byte_fallback and with scores, "[UNK]" for WordPiece, "<UNK>"
            for words.  It is never learned, even from words that hold its text.
        byte_fallback: characters outside the alphabet become tokens of their bytes.
        fuse_unk: neighbouring unknown characters become one unk_token.
        score: "likelihood": the pair with the highest count(xy) / (count(x) * count(y)), exactly; of equal ones that
            with the higher count, then the smallest (left, right) spelling.  "count": the most frequent pair, as the
            trainer of Hugging Face does.
        continuing_subword_prefix: of pieces behind the first of a word.
        both_forms: every character of the alphabet is a piece with and without the prefix, even if it was not seen so.
        seed_words: so many of the most frequent words become tokens, kept whole, and are left out of what is learned
            from; words that are no token already and no longer than max_input_chars_per_word.
        max_input_chars_per_word: longer words are encoded as unk_token.
        unk_characters: an unknown character is encoded as unk_token, not the whole word.
        user_defined_symbols: with scores: texts that are one token wherever they stand, and are no part of others.  They
            have the ids behind the special tokens.
        split_digits: with scores: each of the digits 0 to 9, and of their full-width forms, is a piece alone.
        split_by_unicode_script: no piece is of two Unicode scripts, as SentencePiece has it by default.  Kana are Han
            there, and an inherited script is that of the character before.
        split_by_number: a digit counts as a character of a script of its own, as punctuation does; else of any.
        seed_size: Unigram: pieces to start with beside the characters, at most.
        shrinking_factor: Unigram: share of the pieces that each pruning leaves.
        sub_iterations: Unigram: steps of expectation maximization before each pruning, and behind the last one.

    Raises:
        TypeError, ValueError: a parameter, or several that contradict each other.
    """

    vocab_size: int | None = None
    algorithm: str = "bpe"
    unit: str | None = None
    num_merges: int | None = None
    special_tokens: Sequence[str] = ()
    min_count: int = 1
    min_pair_count: int = 2
    max_token_length: int | None = None
    tie_break: str = "huggingface"
    exclude_tokens: Sequence[str] = ()
    end_of_word: str | None = None
    attached: bool = False
    character_coverage: float | str | Fraction = 1
    limit_alphabet: int | None = None
    alphabet_order: Sequence[str] | None = None
    unk_token: str | None = None
    byte_fallback: bool = False
    fuse_unk: bool = False
    score: str = "likelihood"
    continuing_subword_prefix: str | None = "##"
    both_forms: bool = False
    seed_words: int = 0
    max_input_chars_per_word: int | None = 100
    unk_characters: bool = False
    user_defined_symbols: Sequence[str] = ()
    split_digits: bool = False
    split_by_unicode_script: bool = False
    split_by_number: bool = False
    seed_size: int = 1_000_000
    shrinking_factor: float = 0.9
    sub_iterations: int = 2

    def __post_init__(self) -> None:
        if self.algorithm not in tuple(_UNKNOWN):
            raise ValueError(f"algorithm={self.algorithm!r}: choose one of {', '.join(_UNKNOWN)}")
        self._set(unit=self.unit or ("byte" if self.algorithm == "bpe" else "character"))
        self._set(exclude_tokens=token_list.in_order(self.exclude_tokens))
        self._set(special_tokens=SpecialTokens(self.special_tokens).tokens)
        self._set(user_defined_symbols=_texts("user_defined_symbols", self.user_defined_symbols))
        for option, default in _DEFAULTS.items():
            if self.family not in _FAMILIES.get(option, (self.family,)) and getattr(self, option) != default:
                raise ValueError(f"{option}={getattr(self, option)!r} has no meaning for {self.family}: leave it out")
        scored = self.algorithm in SCORED
        if scored and self.max_token_length is None:
            self._set(max_token_length=PIECE_LENGTH)
        self._check_numbers()
        check_tie_break(self.tie_break)
        if self.tie_break == "bytes" and self.family != "bytes":
            raise ValueError("tie_break='bytes' is of bytes: choose huggingface or lexicographic")
        if self.score not in SCORES:
            raise ValueError(f"score={self.score!r}: choose one of {', '.join(SCORES)}")
        if self.family == "wordpiece" and self.score == "likelihood" and self.tie_break != "huggingface":
            raise ValueError(f"tie_break={self.tie_break!r} goes with score='count': by likelihood ties have a rule of their own")
        self._check_coverage()
        self._check_texts()
        if self.alphabet_order is not None:
            order = tuple(self.alphabet_order)
            if len(set(order)) < len(order):
                raise ValueError(f"alphabet_order holds {next(one for one in order if order.count(one) > 1)!r} twice")
            self._set(alphabet_order=order)
        if self.unk_token is None and self.family != "bytes" and (scored or not self.byte_fallback):
            self._set(unk_token=_UNKNOWN[self.algorithm])
        self._check_scored()
        self.model  # refuses what contradicts itself
        self._check_size()

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def family(self) -> str:
        """What is learned: "bytes" and "characters" (BPE), or the algorithm."""
        if self.algorithm == "bpe":
            return "bytes" if self.unit == "byte" else "characters"
        return self.algorithm

    @property
    def model(self) -> Model:
        """How the vocabulary finds tokens in words."""
        pieces = self.family == "wordpiece"
        return Model(
            algorithm=self.algorithm,
            unit=str(self.unit),
            end_of_word=self.end_of_word,
            attached=self.attached,
            continuing_subword_prefix=self.continuing_subword_prefix if pieces else None,
            unk_token=self.unk_token,
            byte_fallback=self.byte_fallback,
            fuse_unk=self.fuse_unk,
            max_input_chars_per_word=self.max_input_chars_per_word if pieces else None,
            unk_characters=self.unk_characters,
            single_precision=self.family == "unigram",
            unk_surface=" \u2047 " if self.family in SCORED else None,  # as SentencePiece decodes it
        )

    @property
    def specials(self) -> tuple[str, ...]:
        """The special tokens in the order of their ids, `unk_token` among them (first, if it is not named)."""
        named = tuple(self.special_tokens)
        return named if self.unk_token is None or self.unk_token in named else (self.unk_token, *named)

    @property
    def fixed(self) -> list[str]:
        """The tokens that are there before any word is seen, beside the 256 bytes of a vocabulary of bytes."""
        return [*self.specials, *self.user_defined_symbols, *(map(byte_token, range(256)) if self.byte_fallback else ())]

    @property
    def excluded(self) -> list[bytes]:
        """The tokens that are not to be learned."""
        return list(map(token_list.unescaped, self.exclude_tokens))

    @property
    def merges(self) -> int | None:
        """Merges of a vocabulary of bytes, or num_merges; None where the alphabet decides."""
        if self.num_merges is not None or self.family != "bytes":
            return self.num_merges
        return check_vocab_size(self.vocab_size, self.special_tokens)

    def parameters(self) -> dict[str, Any]:
        """Return the options of the family, for the vocabulary's header (JSON)."""
        options: dict[str, Any] = {"vocab_size": self.vocab_size}
        if self.exclude_tokens:
            options["exclude_tokens"] = list(self.exclude_tokens)
        if self.family == "wordlevel":
            return {**options, "min_count": self.min_count}
        names = [name for name in _RECORDED if self.family in _FAMILIES[name]]
        options |= {name: getattr(self, name) for name in names}
        for name in ("character_coverage", "shrinking_factor"):
            if name in options:
                options[name] = str(options[name])
        for name in ("alphabet_order", "user_defined_symbols"):
            if options.get(name) is not None:
                options[name] = list(options[name])
        if self.num_merges is not None:
            options["num_merges"] = self.num_merges
        if self.min_count > 1:
            options["min_count"] = self.min_count
        return options

    # ---- checks ----

    def _check_numbers(self) -> None:
        least = {"vocab_size": 0, "num_merges": 0, "min_count": 1, "min_pair_count": 1, "max_token_length": 1}
        least |= {"limit_alphabet": 1, "seed_words": 0, "max_input_chars_per_word": 1, "seed_size": 0, "sub_iterations": 1}
        free = {"num_merges", "max_token_length", "limit_alphabet", "max_input_chars_per_word"}
        if self.num_merges is not None or self.family == "wordlevel":
            free.add("vocab_size")
        for name, low in least.items():
            number = getattr(self, name)
            if number is None and name in free:
                continue
            if not isinstance(number, Integral) or isinstance(number, bool):
                hint = " (or give num_merges)" if name == "vocab_size" and number is None else ""
                raise TypeError(f"{name} is {number!r}; it must be a whole number{hint}")
            if name != "vocab_size" and not low <= int(number) < 2**63:
                raise ValueError(f"{name} is {number}; it must be at least {low} and fit into 63 bits")
            self._set(**{name: int(number)})
        if self.num_merges is not None and self.vocab_size is not None:
            raise ValueError(f"vocab_size={self.vocab_size} and num_merges={self.num_merges} are two limits: give one of them")

    def _check_texts(self) -> None:
        order = self.alphabet_order
        if order is not None and (isinstance(order, str) or not isinstance(order, Iterable)):
            raise TypeError(f"alphabet_order is a list of spellings, not {str(order)[:60]!r}")
        texts = {name: [getattr(self, name)] for name in ("unk_token", "end_of_word", "continuing_subword_prefix")}
        for name, given in {**texts, "alphabet_order": list(order or ())}.items():
            for text in given:
                if text is not None and not isinstance(text, str):
                    raise TypeError(f"{name} holds {text!r}, which is no text" if name == "alphabet_order" else f"{name}={text!r} is no text")
                if text and any("\ud800" <= char <= "\udfff" for char in text):
                    raise ValueError(f"{name}={text!r} holds half a surrogate pair, which no text does")
        switches = ("attached", "byte_fallback", "fuse_unk", "both_forms", "unk_characters")
        for name in (*switches, "split_digits", "split_by_unicode_script", "split_by_number"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name}={getattr(self, name)!r}: it is True or False")
        bytes_of_fallback = {byte_token(byte) for byte in range(256)}
        if self.byte_fallback and (taken := bytes_of_fallback & {*self.specials, *self.user_defined_symbols}):
            raise ValueError(f"the special token {min(taken)!r} is the token of a byte under byte_fallback: choose another text")

    def _check_scored(self) -> None:
        """Check what vocabularies with scores alone have."""
        for symbol in self.user_defined_symbols:
            if " " in symbol or SPACE in symbol:
                raise ValueError(f"the user-defined symbol {symbol!r} holds a space or U+2581, which begins words: leave it out")
            if "\0" in symbol:
                raise ValueError(f"the user-defined symbol {symbol!r} holds NUL, which no piece does: leave it out")
            if symbol in self.specials:
                raise ValueError(f"{symbol!r} is a special token as well as a user-defined symbol: give it once")
        if self.split_by_number and not self.split_by_unicode_script:
            raise ValueError("split_by_number=True tells the script of digits: it needs split_by_unicode_script=True")
        if self.family == "unigram" and int(self.max_token_length or 0) > LONGEST_UNIGRAM:
            raise ValueError(f"max_token_length is {self.max_token_length}; for unigram it is at most {LONGEST_UNIGRAM:,}")
        share_of(self.shrinking_factor)

    def _check_coverage(self) -> None:
        told = str(self.character_coverage)
        try:
            # A power of ten that is far away would be a number of as many digits.
            small = "/" in told or abs(Decimal(told).adjusted()) <= _MOST_DIGITS
            coverage = Fraction(told) if small and len(told) <= _MOST_DIGITS else None
        except (ValueError, ArithmeticError):
            coverage = None
        if coverage is None or not 0 < coverage <= 1:
            raise ValueError(
                f"character_coverage is {told[:60]}; it must be a number above 0 and at most 1, such as 0.9995"
            )

    def _check_size(self) -> None:
        if self.vocab_size is None:
            return
        if self.family == "bytes":
            check_vocab_size(self.vocab_size, self.special_tokens)
            return
        least = len(self.fixed) + len(self.alphabet_order or "") + self.seed_words
        if self.vocab_size < least or self.vocab_size < 1:
            raise ValueError(
                f"vocab_size is {self.vocab_size}, but what is there before anything is learned (special tokens, bytes, "
                f"{'user_defined_symbols' if self.algorithm in SCORED else 'alphabet_order, seed_words'}) takes {least}"
            )


def learning_of(vocab_size: int | None, options: Mapping[str, Any]) -> Learning:
    """Return what options say is to be learned.

    Raises:
        TypeError: an option that there is not; the message suggests the one that was meant.
        TypeError, ValueError: as `Learning`.
    """
    for name in options:
        if name not in _DEFAULTS:
            close = difflib.get_close_matches(name, list(_DEFAULTS), 1)
            raise TypeError(f"there is no option {name!r} of learning{f'; did you mean {close[0]!r}?' if close else ''}")
    return Learning(vocab_size, **options)


_DEFAULTS = {one.name: one.default for one in fields(Learning)}


def _texts(name: str, given: Sequence[str]) -> tuple[str, ...]:
    """Return a list of texts, each of which stands once and is not empty."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{name} is a list of texts, not {str(given)[:60]!r}")
    texts = tuple(given)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"{name} holds {text!r}, which is no text")
        if not text or any("\ud800" <= char <= "\udfff" for char in text):
            raise ValueError(f"{name} holds {text!r}, which is {'half a surrogate pair' if text else 'empty'}")
        if text in texts[:i]:
            raise ValueError(f"{name} holds {text!r} twice")
    return texts


def share_of(shrinking_factor: float | str | Fraction) -> Fraction:
    """Return the share of pieces that a pruning leaves, as the decimal number that it is written as."""
    try:
        share = Fraction(str(shrinking_factor))
    except (ValueError, ZeroDivisionError):
        share = Fraction(0)
    if not 0 < share < 1:
        raise ValueError(f"shrinking_factor={shrinking_factor!r}: it is a number above 0 and below 1, such as 0.9")
    return share


def check_vocab_size(vocab_size: int | None, special_tokens: Sequence[str]) -> int:
    """Return the number of merges for a vocabulary of bytes of that size.

    Raises:
        TypeError: it is no whole number.
        ValueError: it has no room for the 256 bytes and the special tokens.
    """
    if not isinstance(vocab_size, Integral) or isinstance(vocab_size, bool):
        raise TypeError(f"vocab_size is {vocab_size!r}; it must be a whole number")
    least = 256 + len(special_tokens)
    if vocab_size < least:
        raise ValueError(
            f"vocab_size is {vocab_size}, but the 256 bytes and {len(special_tokens)} special tokens take {least}"
        )
    return int(vocab_size) - least


def check_tie_break(tie_break: str) -> None:
    """Refuse a tie rule that is not one of `TIE_BREAKS`."""
    if tie_break == "first":
        raise ValueError(
            "tie_break='first' depends on the order of the text, which a table of counts does not know: "
            "only beam_bpe.reference.learn has it"
        )
    if tie_break not in TIE_BREAKS:
        raise ValueError(f"tie_break={tie_break!r}: choose one of {', '.join(TIE_BREAKS)}")
