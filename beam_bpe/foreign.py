"""Tables of words that were made elsewhere: Parquet, CSV and TSV files with a word and a count in each row."""

from __future__ import annotations

import pyarrow as pa

from beam_bpe import artifacts, compression, storage
from beam_bpe.artifacts import FormatError


def is_foreign(path: str) -> bool:
    """Whether a path names a table that was made elsewhere, by its suffix."""
    return compression.strip_compression(path).lower().endswith((".parquet", ".parq", ".csv", ".tsv"))


def read_table(path: str, word_column: str, count_column: str) -> pa.Table:
    """Return the two columns of a file as word: binary and count: int64; FormatError if it has none."""
    import pyarrow.csv as pc_csv

    name = compression.strip_compression(path).lower()
    if name.endswith((".parquet", ".parq")):
        with artifacts.open_parquet(path) as file:
            try:
                table = file.read()
                if (table.schema.metadata or {}).get(artifacts.KEY):
                    raise FormatError(f"{path} is a file of ours: name its folder, which says what belongs together")
            except artifacts.BROKEN as error:
                raise FormatError(f"{path} is broken: {error}") from None
    elif name.endswith((".csv", ".tsv")):
        with storage.open_read(path) as file:
            quoted = name.endswith(".csv") or b'"' in file.readline()
        options = pc_csv.ParseOptions(
            delimiter="," if name.endswith(".csv") else "\t",
            quote_char='"' if quoted else False,
            newlines_in_values=quoted,
        )
        strings = pc_csv.ConvertOptions(
            column_types={word_column: pa.string(), count_column: pa.int64()},
            strings_can_be_null=False,
            null_values=[""],
        )
        try:
            with storage.open_read(path) as file:
                table = pc_csv.read_csv(file, parse_options=options, convert_options=strings)
        except pa.ArrowInvalid as error:
            raise FormatError(f"{path}: {error}") from None
    else:
        raise FormatError(f"{path}: a table of words is a .parquet, .csv or .tsv file, or a folder that we wrote")
    return two_columns(table, word_column, count_column, path)


def two_columns(table: pa.Table, word_column: str, count_column: str, name: str) -> pa.Table:
    """Return the two columns as word: binary and count: int64."""
    for column in (word_column, count_column):
        if column not in table.column_names:
            raise FormatError(f"{name} has no column {column!r}; it has {', '.join(table.column_names)}")
    try:
        words, counts = table[word_column].cast(pa.binary()), table[count_column].cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise FormatError(
            f"{name}: {word_column!r} must hold text or bytes and {count_column!r} whole numbers: {error}"
        ) from None
    return pa.table([words, counts], names=["word", "count"])
