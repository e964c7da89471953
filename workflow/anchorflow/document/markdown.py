"""Tables in Markdown, as all generated pages have them."""

from collections.abc import Iterable, Sequence


def markdown_table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Column names and rows, one line each; a ``|`` in a cell is escaped."""
    lines = [_line(names), "|" + "---|" * len(names)]
    lines += [_line([cell.replace("|", "\\|") for cell in row]) for row in rows]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
