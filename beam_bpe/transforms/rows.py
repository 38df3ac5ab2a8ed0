"""Elements that are rows: beam.Row, named tuples, data classes and dicts; and what their types tell."""

from typing import Any, Dict, List, Optional, Tuple

from apache_beam.typehints import row_type


def fields_of(element: Any) -> Dict[str, Any]:
    """Return the columns of a row by name; none if it is not one."""
    if isinstance(element, dict):
        return element
    if hasattr(element, "_asdict"):
        return dict(element._asdict())
    return dict(element.as_dict() if hasattr(element, "as_dict") else getattr(element, "__dict__", {}))


def row_of(element: Any, column: str) -> Dict[str, Any]:
    """Return the columns of a row by name (TypeError: `column` is not among them)."""
    fields = fields_of(element)
    if column not in fields:
        told = ", ".join(map(str, fields)) or "none"
        raise TypeError(f"the element, a {type(element).__name__}, has no column {column!r}; it has {told}")
    return fields


def columns_of(kind: Any, column: str) -> Optional[List[Tuple[str, Any]]]:
    """Return the columns that a type of elements has, with their types; None if it does not tell.

    Raises:
        ValueError: they do not include `column`.
    """
    known = row_type.RowTypeConstraint.from_user_type(kind) if isinstance(kind, type) else kind
    if not isinstance(known, row_type.RowTypeConstraint):
        return None
    names = [name for name, _ in known._fields]
    if column not in names:
        raise ValueError(f"the rows have no column {column!r}; they have {', '.join(names)}")
    return list(known._fields)
