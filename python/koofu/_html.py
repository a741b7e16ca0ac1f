"""Small tables for notebooks. Names from files may be anything, so all text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_LONGEST = 60  # characters of a cell


def cell(value: object) -> str:
    """The text of a value: numbers in few digits, long names cut."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def percent(share: float) -> str:
    """A share in per cent."""
    return f"{100 * share:.2f} %"


def _row(values: Iterable[object], tag: str) -> str:
    cells = "".join(f'<{tag} style="text-align: left">{escape(cell(v))}</{tag}>' for v in values)
    return f"<tr>{cells}</tr>"


def table(title: str, rows: Iterable[Sequence[object]], head: Sequence[object] = (),
          note: str = "") -> str:
    """An HTML table with a title above it and a note below."""
    top = f"<thead>{_row(head, 'th')}</thead>" if head else ""
    below = f"<div>{escape(note)}</div>" if note else ""
    body = "".join(_row(row, "td") for row in rows)
    return f"<div><b>{escape(title)}</b><table>{top}<tbody>{body}</tbody></table>{below}</div>"
