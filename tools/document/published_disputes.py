"""What the field disputes, from the second run of a published model: claims and numbers."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from anchorflow.claims.verdicts import NOT_MEASURED
from anchorflow.config.stages import ANALYSES
from anchorflow.statistics.by_task import AVERAGE
from anchorflow.summary.answers import questions
from tools.document.markdown import page, readable
from tools.document.runs import DISPUTES, KeptRun, with_cells


class Quoted(NamedTuple):
    """Which rows of an analysis's table are quoted, and what their names are made of."""

    heading: str
    name: str  # with columns of the table in braces
    values: Mapping[str, Any]  # those that columns have, or any of a list


# The analyses of the second run, in the order of the page, with the numbers that pages quote.
DISPUTED: Mapping[str, Sequence[Quoted]] = {
    "vectors": (
        Quoted(
            "Answers with a vector, at the layer that is best for other texts",
            "{vector}, {source}, {measure}",
            {
                "vector": ["task", "function", "local"],
                "source": ["own", "deranged", "random"],
                "measure": ["accuracy", "probability"],
                "layer": -1,
            },
        ),
        Quoted(
            "Answers by number of demonstrations; -1: all",
            "{number}, {measure}",
            {"vector": "none", "measure": ["accuracy", "probability"]},
        ),
        Quoted(
            "What vectors recover of the probability that demonstrations add",
            "{vector}, {source}",
            {
                "vector": ["task", "function", "local"],
                "source": ["own", "deranged", "random"],
                "measure": "recovered_probability",
                "layer": -1,
            },
        ),
    ),
    "transplant": (
        Quoted(
            "How far keys and values of all layers move answers to those of other texts",
            "{donor}, {places}",
            {"what": "keys_values", "side": "all", "measure": "moved"},
        ),
    ),
    "additivity": (
        Quoted(
            "Whether demonstrations add up: answers of composed outputs",
            "{kind}, {measure}",
            {"layer": -1, "measure": ["log_odds", "accuracy"]},
        ),
    ),
    "override": (
        Quoted(
            "What answers follow with deranged label words",
            "{method}, {measure}",
            {
                "words": "deranged",
                "measure": ["follows_mapping", "follows_prior", "follows_neither", "override"],
            },
        ),
    ),
    "reweighting": (
        Quoted(
            "Re-weighting and In-Context Routing, without its router",
            "{method}, {measure}",
            {
                "method": ["vanilla", "bias_removed", "reweighted", "routed"],
                "measure": ["accuracy", "parameters"],
            },
        ),
    ),
    "compression": (
        Quoted(
            "Compression at the anchors' number of tokens",
            "{method}, {measure}",
            {"measure": ["accuracy", "label_loyalty"], "share": None},
        ),
        Quoted(
            "Compression to half of the tokens",
            "{method}, {measure}",
            {"measure": ["accuracy", "label_loyalty"], "share": 0.5},
        ),
    ),
    "faithfulness": (
        Quoted(
            "Which estimate ranks single layers as cuts, or a donor's keys and values, do: "
            "rank correlation",
            "{edges}, {estimate}",
            {"measure": "rank", "control": False},
        ),
        Quoted(
            "The same, minus that of the plain gradient, or of attention for saliency",
            "{edges}, {estimate}",
            {"measure": "rank_difference", "control": False},
        ),
    ),
    "flow": (),
}


def section_of(run: KeptRun) -> str:
    """The section of a model's page on its second run."""
    titles = {
        name: analysis.figure.title
        for name, analysis in ANALYSES.items()
        if analysis.figure and name in DISPUTED and f"{name}.png" in run.facts["files"]
    }
    shown = {name: f"{DISPUTES}/{name}.png" for name in DISPUTED if name in titles}
    claims = claims_of(run)
    _, answers = questions(claims.with_columns(question="statement"), shown)
    # Rows are in the order of the claims, which are of one model.
    counts = claims.select(
        pl.format("{} in {} seeds", pl.col("texts").fill_null(pl.col("examples")), "seeds")
    )
    answers = answers.insert_column(2, counts.to_series().alias("texts"))
    small = pl.all().str.strip_chars().str.replace(r"\n(.*)", "<br><small>$1</small>")
    return page(
        "disputes.md",
        facts=run.facts,
        claims=readable(answers.with_columns(small).rename({"question": "claim"})),
        numbers={
            heading: readable(rows.pivot("task", index="name", values="cell", maintain_order=True))
            for heading, rows in numbers_of(run).items()
        },
        figures=[(titles[name], file) for name, file in shown.items()],
    )


def claims_of(run: KeptRun) -> pl.DataFrame:
    """The claims on what is disputed that the second run measured, over its tasks."""
    place = {name: number for number, name in enumerate(DISPUTED)}
    claims = run.rows("claims", task=AVERAGE).filter(
        pl.col("figure").is_in(list(place)), pl.col("verdict") != NOT_MEASURED
    )
    return claims.sort(pl.col("figure").replace_strict(place), maintain_order=True)


def numbers_of(run: KeptRun) -> dict[str, pl.DataFrame]:
    """Name, task, and cell of the quoted numbers, by heading."""
    found = {}
    for table, parts in DISPUTED.items():
        for quoted in parts if table in run.tables else ():
            rows = run.tables[table].filter(
                pl.col(column).is_in(value)
                if isinstance(value, list)
                else pl.col(column).eq_missing(pl.lit(value))
                for column, value in quoted.values.items()
            )
            names = [quoted.name.format_map(row) for row in rows.iter_rows(named=True)]
            rows = with_cells(rows).with_columns(pl.Series("name", names, dtype=pl.String))
            if not rows.is_empty():
                found[quoted.heading] = rows.select("name", "task", "cell")
    return found


def across(runs: Mapping[str, KeptRun]) -> dict[str, str]:
    """Numbers over the data sets of several models, by heading."""
    found: dict[str, list[pl.DataFrame]] = {}
    for model, run in runs.items():
        for heading, rows in numbers_of(run).items():
            averages = rows.filter(task=AVERAGE).select("name", "cell", model=pl.lit(model))
            found.setdefault(heading, []).append(averages)
    return {
        heading: readable(
            pl.concat(parts).pivot("model", index="name", values="cell", maintain_order=True)
        )
        for heading, parts in found.items()
    }
