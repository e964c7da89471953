"""The table of docs/reference/models.md, from what the sweep of all families found."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from tools.document import DOCS
from tools.document.markdown import markdown_table

PAGE, FOUND = DOCS / "reference" / "models.md", DOCS / "reference" / "families.json"
_BEGIN = "<!-- tools/document/models.py: begin -->\n"
_END = "<!-- tools/document/models.py: end -->"


def models_page() -> str:
    """The page, with the table between its two comments made anew."""
    found = json.loads(FOUND.read_text(encoding="utf-8"))
    before, rest = PAGE.read_text(encoding="utf-8").split(_BEGIN)
    _, after = rest.split(_END)
    return f"{before}{_BEGIN}{families(found['transformers'], found['families'])}\n{_END}{after}"


def families(version: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """What is exact and what is limited, as a table, and what is refused, by reason."""
    accepted = [row for row in rows if "attention" in row]
    exact = [row for row in accepted if not row["limits"]]
    reasons = defaultdict(list)
    for row in rows:
        if "attention" not in row:
            reasons[_reason(row)].append(f"`{row['family']}`")
    lines = [
        f"- {reason}: {', '.join(of)}"
        for reason, of in sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    table = markdown_table(
        ["family", "a model", "attention", "not measured"],
        [
            [f"`{row['family']}`", row["model"], ", ".join(row["attention"]), _limits(row)]
            for row in accepted
        ],
    )
    return (
        f"Of the {len(rows)} families of causal language models in transformers {version}, "
        f"**{len(exact)}** are exact in all of this, {len(accepted) - len(exact)} in some of it, "
        f"and the others are refused. The largest difference from eager attention, relative to "
        f"the largest number, is {max(row['difference'] for row in accepted):.0e}.\n\n"
        f"{table}\n\nRefused, from the configuration alone unless said otherwise, since the "
        "architecture\n\n" + "\n".join(lines) + "\n"
    )


def _reason(row: Mapping[str, Any]) -> str:
    """Why a family is not in the table."""
    if "failed" in row:
        return "**fails without a reason**"
    return f"{row['refused']}{' **(found after loading)**' if row.get('late') else ''}"


def _limits(row: Mapping[str, Any]) -> str:
    """The analyses that refuse a family, each with the reason."""
    by_reason = defaultdict(list)
    for analysis, why in row["limits"].items():
        by_reason[why].append(analysis)
    return "; ".join(f"{', '.join(of)}: {why}" for why, of in by_reason.items()) or "–"
