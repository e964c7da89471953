"""Accuracy and time per query of all models, as [A] Table 3."""

import polars as pl

from anchorflow.present.page import Page, pivoted

_NOTE = (
    "ms: median time per query [quartiles over queries and repetitions]; times as fast: speed "
    "relative to full prompts, by medians; build: median time to build the cache, without the fit "
    "that re-weighting requires; break-even: number of queries after which building the cache "
    "pays off; kept: tokens in the cache, in every layer and head; batch: queries answered "
    "together. accuracy and label loyalty: over all seeds, with intervals. Other methods of the "
    "compression table that keep the same number of tokens take as long as hidden_anchor. Timings "
    "vary from run to run and from machine to machine."
)


def tabulate_timing(timing: pl.DataFrame, compression: pl.DataFrame) -> Page:
    """One row per model, task, and way to answer queries, with its accuracy, as [A] Table 3."""
    plain = timing.filter(pl.col("way") == "full_prompt")
    speeds = timing.join(
        plain.select("model", "task", pl.col("milliseconds").alias("plain")), on=["model", "task"]
    )
    of_way = {"full_prompt": "full"}
    measured = (
        compression.filter(
            pl.col("share").is_null(), pl.col("measure").is_in(["accuracy", "label_loyalty"])
        )
        .pipe(pivoted, ("model", "task", "method"), "measure")
        .rename({"method": "measured", "label_loyalty": "label loyalty"})
    )
    rows = speeds.with_columns(pl.col("way").replace(of_way).alias("measured")).join(
        measured, on=["model", "task", "measured"], maintain_order="left"
    )
    milliseconds = [
        f"{_three_digits(mean)} [{_three_digits(low)}, {_three_digits(high)}]"
        for mean, low, high in rows.select("milliseconds", "low", "high").iter_rows()
    ]
    table = (
        rows.select(
            "model",
            "task",
            "way",
            "accuracy",
            "label loyalty",
            pl.Series("ms", milliseconds),
            (pl.col("plain") / pl.col("milliseconds")).round(2).alias("times as fast"),
            pl.col("build").round_sig_figs(3).alias("build (ms)"),
            pl.col("break_even").ceil().cast(pl.Int64).alias("break-even (queries)"),
            "kept",
            (pl.col("kept_bytes") / 1e6).round(2).alias("kept (MB)"),
            pl.col("prompt_tokens").round(0).cast(pl.Int64).alias("prompt (tokens)"),
            pl.col("batch_size").alias("batch"),
            "device",
            "threads",
        )
        .cast(pl.String)
        .fill_null("–")
    )
    return Page("Accuracy and time per query", _NOTE, table)


def _three_digits(value: float) -> str:
    """A number with three significant digits, or with all digits before the decimal point."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
