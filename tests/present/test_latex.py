"""Tables in LaTeX: what a compiler stumbles over is escaped, and rules are those of booktabs."""

import polars as pl

from anchorflow.present.latex import latex_table


def test_a_table_has_rules_and_its_cells_are_escaped() -> None:
    frame = pl.DataFrame(
        {
            "label_words": ["50% & β", "a\\b {c}", "α → β"],
            "seeds": [3, 4, None],
            "holds": ["✓", "–", "≤ 1"],
        }
    )
    text = latex_table(
        "Title", "How to\nread it.", frame, {"More & so": pl.DataFrame({"x": ["#1"]})}
    )
    assert text.splitlines() == [
        r"% Needs \usepackage{booktabs,amssymb}.",
        r"\begin{table}",
        r"\centering",
        r"\caption{Title}",
        r"\label{tab:title}",
        r"\begin{tabular}{lrl}",
        r"\toprule",
        r"label\_words & seeds & holds \\",
        r"\midrule",
        r"50\% \& $\beta$ & 3 & $\checkmark$ \\",
        r"a\textbackslash{}b \{c\} & 4 & -- \\",
        r"$\alpha$ $\rightarrow$ $\beta$ & -- & $\leq$ 1 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "% How to",
        "% read it.",
        "",
        r"\begin{table}",
        r"\centering",
        r"\caption{More \& so}",
        r"\label{tab:more-so}",
        r"\begin{tabular}{l}",
        r"\toprule",
        r"x \\",
        r"\midrule",
        r"\#1 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
