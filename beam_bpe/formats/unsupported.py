"""The error of a part of a tokenizer.json that cannot be represented, or cannot be said in one."""


class Unsupported(ValueError):
    """A component that cannot be represented; the message names it."""
