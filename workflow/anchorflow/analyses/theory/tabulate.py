"""Kernel regression and exact Bayesian inference, by kernel and number of demonstrations."""

import polars as pl

from anchorflow.analyses.theory.summarize import PUBLISHED
from anchorflow.present.page import Page, pivoted

_NOTE = (
    "Means over random worlds with intervals over worlds; no language model. distance: L1 norm of "
    "the difference between kernel regression and P(Y | S_n, x_test), at most 2; accuracy: share "
    "of prompts where both have the same arg max. With one demonstration, every kernel predicts "
    "its label. "
    "theorem: vec(T_x)ᵀ Σ⁻¹ vec(T_x'), by how Σ is inverted: with a ridge, as a share of Σ's "
    "largest eigenvalue, or along a number of leading eigenvectors; permuted: the first of these "
    "with labels permuted among the demonstrations, a control; dot_product: without Σ⁻¹; "
    "prediction: similarity of predictions, eq. 9; nearest: nearest neighbors. improper: share of "
    "predictions of eq. 6 that negative weights kept from being a distribution and that were made "
    "one. slope: of log distance against log n; floor: the limit of the distance if it falls as "
    "1/√n over the larger half of n; excess: distance minus that of the first row, paired by "
    "world. The rows [K] are Table 3 of Han et al. 2025, which does not state worlds, inputs, "
    "inverse, and norm in full."
)


def tabulate_theory(summary: pl.DataFrame) -> Page:
    """One row per kernel and way to invert, one column per n: distance first, the rest below."""
    named = summary.with_columns(inverse=inverse_of())
    trends = named.filter(pl.col("demonstrations").is_null())
    trend = pivoted(trends, ("kernel", "inverse"), "measure")
    known = trends.drop_nulls("published").select("measure", "published")
    if len(known):
        cells = {name: f"{value:z.2f}" for name, value in known.iter_rows()}
        trend = _after_published(cells, trend)
    further = {
        "Accuracy": _by_count(named, "accuracy"),
        "Slope and floor of the distance": trend.fill_null("–"),
        "Distance minus that of the theorem's kernel with the first ridge": _by_count(
            named, "excess"
        ),
        "Share of predictions that were no distribution": _by_count(named, "improper"),
    }
    title = "Kernel regression and Bayesian inference: distance"
    return Page(title, _NOTE, _by_count(named, "distance"), further)


def inverse_of() -> pl.Expr:
    """How Σ is inverted, in words; a dash for kernels without Σ⁻¹."""
    return (
        pl.when(pl.col("ridge").is_not_null())
        .then(pl.format("ridge {}", "ridge"))
        .when(pl.col("rank").is_not_null())
        .then(pl.format("rank {}", "rank"))
        .otherwise(pl.lit("–"))
    )


def _after_published(cells: dict[str, str], table: pl.DataFrame) -> pl.DataFrame:
    row = pl.DataFrame([{"kernel": "[K], Table 3", "inverse": "–", **cells}])
    return pl.concat([row, table], how="diagonal_relaxed").select(table.columns)


def _by_count(named: pl.DataFrame, measure: str) -> pl.DataFrame:
    """One row per kernel, one column per number of demonstrations, after the published row."""
    rows = named.filter(measure=measure).with_columns(n=pl.format("n = {}", "demonstrations"))
    table = pivoted(rows, ("kernel", "inverse"), "n")
    if measure in PUBLISHED:
        pairs = zip(PUBLISHED["demonstrations"], PUBLISHED[measure], strict=True)
        cells = {f"n = {n}": f"{value:.2f}" for n, value in pairs if f"n = {n}" in table.columns}
        table = _after_published(cells, table)
    return table.fill_null("–")
