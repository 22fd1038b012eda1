"""YAML and JSON text to plain values that remember where they were written.

Policies and scheduler configurations are read through it, so that every error names file, line and field.
``models`` checks them; it imports pydantic, which whoever only reads a kubeconfig does without.
"""

from rebalancer.documents.reading import (
    MAX_TEXT_BYTES,
    Document,
    Path,
    check_bounds,
    format_path,
    parse,
    read_bytes,
    read_text,
    read_text_again,
)
from rebalancer.documents.writing import redacted_document, redacted_text, to_yaml

__all__ = [
    "MAX_TEXT_BYTES",
    "Document",
    "Path",
    "check_bounds",
    "format_path",
    "parse",
    "read_bytes",
    "read_text",
    "read_text_again",
    "redacted_document",
    "redacted_text",
    "to_yaml",
]
