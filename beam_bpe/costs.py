"""What a size of the vocabulary costs and saves: a cost model with its assumptions as numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: An embedding is at most so wide: the parameters of 2**32 of them, twice, are within int64.
MOST_WIDTH = 1 << 30


@dataclass(frozen=True)
class CostModel:
    """A transformer decoder, and what its tokens cost; checked when it is made.

    Attributes:
        d_model: width of an embedding.
        tied: input and output embeddings are one matrix.
        layers: attention layers.
        kv_width: numbers that a layer keeps of a token as its key, and as many as its value: key-value heads times the
            width of one; None: d_model (multi-head attention).
        bytes_per_value: of a number in the cache: 2 for bfloat16.
        text_characters: length of the text whose attention and cache are told.
        context_tokens: of the context window.
        price: of a million tokens, in any currency; None: not told.

    Raises:
        ValueError: a number is not positive, the price is negative, or the embedding wider than `MOST_WIDTH`.
    """

    d_model: int = 4096
    tied: bool = False
    layers: int = 32
    kv_width: int | None = None
    bytes_per_value: int = 2
    text_characters: int = 100_000
    context_tokens: int = 8192
    price: float | None = None

    def __post_init__(self) -> None:
        for name in ("d_model", "layers", "kv_width", "bytes_per_value", "text_characters", "context_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1")
        if self.price is not None and not 0 <= self.price < float("inf"):
            raise ValueError(f"price is {self.price}; it is what a million tokens cost, 0 or more")
        if self.d_model > MOST_WIDTH:
            raise ValueError(f"d_model is {self.d_model}; it must be at most {MOST_WIDTH:,}")

    def embedding_parameters(self, sizes: np.ndarray) -> np.ndarray:
        """Return the parameters of the embeddings, |V| d: twice that where input and output are not tied (int64).

        >>> CostModel(d_model=4096).embedding_parameters(np.array([32_000])).tolist()
        [262144000]
        """
        return np.asarray(sizes, np.int64) * self.d_model * (1 if self.tied else 2)

    def attention_flops(self, tokens_per_character: np.ndarray) -> np.ndarray:
        """Return the operations of attention over the text, 2 layers n**2 d_model for its n tokens.

        Per token 2 layers n d_model (Kaplan et al. 2020, "Scaling Laws for Neural Language Models", table 1, "Attention:
        Mask"); what grows with the square of the tokens, and not with the parameters.
        """
        return 2.0 * self.layers * self.d_model * (self.text_characters * tokens_per_character) ** 2

    def kv_cache_bytes(self, tokens_per_character: np.ndarray) -> np.ndarray:
        """Return the bytes of keys and values of the text, 2 layers kv_width bytes_per_value for each token.

        >>> CostModel(layers=32, kv_width=1024, text_characters=4).kv_cache_bytes(np.array([0.25])).tolist()
        [131072.0]
        """
        width = self.d_model if self.kv_width is None else self.kv_width
        return 2.0 * self.layers * width * self.bytes_per_value * self.text_characters * tokens_per_character

    def price_per_million_characters(self, tokens_per_character: np.ndarray) -> np.ndarray | None:
        """Return what a million characters cost; None without a price."""
        return None if self.price is None else self.price * tokens_per_character

    def context_characters(self, tokens_per_character: np.ndarray) -> np.ndarray:
        """Return the characters that fit into the context window."""
        return self.context_tokens / tokens_per_character
