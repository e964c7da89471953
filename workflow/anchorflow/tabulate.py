"""Summaries as tables that people read: CSV with all rows; the main ones as Markdown and HTML."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from anchorflow.html_table import html_table
from anchorflow.summaries import AVERAGE
from anchorflow.tables import replacing
from anchorflow.verdicts import NOT_TESTED

_DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)


def cell(mean: float | None, low: float | None, high: float | None) -> str:
    """A value with its interval, as in "0.61 [0.55, 0.68]"; a dash where undefined."""
    if mean is None:
        return "–"
    if low is None or high is None:
        return f"{mean:z.2f}"
    return f"{mean:z.2f} [{low:z.2f}, {high:z.2f}]"


def at_depths(summary: pl.DataFrame) -> pl.DataFrame:
    """The rows of five layers of each model, from the first to the last."""
    parts = []
    for (_,), rows in summary.group_by("model", maintain_order=True):
        last = rows["layer"].max()
        assert isinstance(last, int)
        chosen = sorted({int(np.rint(depth * last)) for depth in _DEPTHS})
        parts.append(rows.filter(pl.col("layer").is_in(chosen)))
    return pl.concat(parts)


def pivoted(summary: pl.DataFrame, index: Sequence[str], column: str) -> pl.DataFrame:
    """One row per ``index``, one column per value of ``column``, each cell with its interval.

    A column ``note``, if there is one, follows the interval.
    """
    cells = [cell(*row) for row in summary.select("mean", "low", "high").iter_rows()]
    if "note" in summary.columns:
        cells = [text + (note or "") for text, note in zip(cells, summary["note"], strict=True)]
    return summary.with_columns(pl.Series("cell", cells)).pivot(
        column, index=list(index), values="cell", maintain_order=True
    )


def write_csv(path: str | Path, frame: pl.DataFrame) -> None:
    """Write all rows, whole or not at all."""
    with replacing(path) as temporary:
        frame.write_csv(temporary)


def write_markdown(
    path: str | Path,
    title: str,
    note: str,
    frame: pl.DataFrame,
    further: Mapping[str, pl.DataFrame] | None = None,
) -> None:
    """Write a title, the table, a note on how to read it, and further tables by their titles."""
    lines = [f"# {title}", "", *_markdown_lines(frame), "", note]
    for name, other in (further or {}).items():
        lines += ["", f"## {name}", "", *_markdown_lines(other)]
    with replacing(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _markdown_lines(frame: pl.DataFrame) -> list[str]:
    return [
        _markdown_row(frame.columns),
        "|" + "---|" * len(frame.columns),
        *(_markdown_row(row) for row in frame.iter_rows()),
    ]


def _markdown_row(values: Sequence[object]) -> str:
    cells = (" ".join(str(value).split()).replace("|", r"\|") for value in values)
    return f"| {' | '.join(cells)} |"


def write_html(
    path: str | Path,
    title: str,
    note: str,
    frame: pl.DataFrame,
    further: Mapping[str, pl.DataFrame] | None = None,
) -> None:
    """Write the same as a page; see :func:`write_markdown`."""
    with replacing(path) as temporary:
        temporary.write_text(html_table(title, note, frame, further), encoding="utf-8")


def write_readable(
    paths: Mapping[str, str | Path],
    title: str,
    note: str,
    frame: pl.DataFrame,
    further: Mapping[str, pl.DataFrame] | None = None,
) -> None:
    """Write tables as Markdown to ``paths["md"]`` and as a page to ``paths["html"]``."""
    write_markdown(paths["md"], title, note, frame, further)
    write_html(paths["html"], title, note, frame, further)


def tabulate_accuracy(accuracy: pl.DataFrame) -> pl.DataFrame:
    """One row per model and task of ``tables.ACCURACY``."""
    index = ("model", "task", "examples", "seeds", "skipped")
    return pivoted(accuracy, index, "measure")


def tabulate_flow(flow: pl.DataFrame) -> pl.DataFrame:
    """Shares of the three flows at five depths, one row per model, task and layer."""
    shares = flow.filter(pl.col("scale") == "proportion")
    return pivoted(at_depths(shares), ("model", "task", "examples", "skipped", "layer"), "flow")


def tabulate_loyalty(loyalty: pl.DataFrame) -> pl.DataFrame:
    """The four measures averaged over tasks, one row per model and way to isolate."""
    averaged = loyalty.filter(pl.col("task") == AVERAGE)
    return pivoted(averaged, ("model", "variant", "layers", "side", "positions"), "measure")


def tabulate_deep(deep: pl.DataFrame) -> pl.DataFrame:
    """AUCROC_l and R_l at five depths, one row per model, task and layer."""
    return pivoted(at_depths(deep), ("model", "task", "layer", "unpredicted"), "measure")


def tabulate_performance(performance: pl.DataFrame) -> pl.DataFrame:
    """One row per model, measure and method, a column per task, as [A] Table 1.

    Published figures follow ours, where there are any; skipped prompts stand behind the accuracy.
    """
    index = ("model", "measure", "method")
    count = pl.format(" ({} skipped)", "skipped")
    noted = (pl.col("skipped") > 0) & (pl.col("measure") == "accuracy")
    ours = pivoted(performance.with_columns(note=pl.when(noted).then(count)), index, "task")
    published = performance.filter(pl.col("published").is_not_null()).with_columns(
        pl.col("method") + " (published)",
        mean="published",
        low=pl.lit(None),
        high=pl.lit(None),
    )
    both = pl.concat([ours, pivoted(published, index, "task")], how="diagonal").fill_null("–")
    measures = performance["measure"].unique(maintain_order=True).to_list()
    order = {name: place for place, name in enumerate(measures)}
    return both.sort("model", pl.col("measure").replace_strict(order), maintain_order=True)


def tabulate_retention(retention: pl.DataFrame) -> pl.DataFrame:
    """The measures averaged over tasks, one row per model, method and share, as [A] Table 2."""
    averaged = retention.filter(pl.col("task") == AVERAGE)
    named = averaged.with_columns(
        pl.col("share").cast(pl.String).fill_null("–"),
    )
    index = ("model", "method", "share")
    ours = pivoted(named, index, "measure")
    published = averaged.filter(pl.col("published").is_not_null()).with_columns(
        pl.col("method") + " (published)",
        share=pl.lit("–"),
        mean="published",
        low=pl.lit(None),
        high=pl.lit(None),
    )
    return pl.concat([ours, pivoted(published, index, "measure")], how="diagonal").fill_null("–")


def tabulate_timing(timing: pl.DataFrame, retention: pl.DataFrame) -> pl.DataFrame:
    """One row per model, task and way to answer queries, as [A] Table 3, with what it predicts."""
    plain = timing.filter(pl.col("way") == "full_prompt")
    speeds = timing.join(
        plain.select("model", "task", pl.col("milliseconds").alias("plain")), on=["model", "task"]
    )
    of_way = {"full_prompt": "full"}
    measured = (
        retention.filter(
            pl.col("share").is_null(),
            pl.col("measure").is_in(["accuracy", "label_loyalty"]),
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
    return (
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


def _three_digits(value: float) -> str:
    """A number with three significant digits, or all those before the point."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def tabulate_confusion(confusion: pl.DataFrame) -> pl.DataFrame:
    """The rank correlation at five depths, one row per model and layer.

    A column for each task that has one in some layer, and for the average.
    """
    correlation = confusion.filter(pl.col("measure") == "correlation")
    defined = correlation.filter(pl.col("mean").is_not_null())["task"]
    shown = correlation.filter((pl.col("task") == AVERAGE) | pl.col("task").is_in(defined.unique()))
    return pivoted(at_depths(shown), ("model", "layer"), "task").fill_null("–")


def tabulate_neighbors(neighbors: pl.DataFrame) -> pl.DataFrame:
    """One row per model, task and choice of demonstrations, a column per measure.

    Skipped prompts, and skipped pairs of the gain, stand behind the interval.
    """
    noted = (pl.col("skipped") > 0) & pl.col("measure").str.starts_with("accuracy")
    count = pl.when(noted).then(pl.format(" ({} skipped)", "skipped"))
    order = {name: at for at, name in enumerate(neighbors["task"].unique(maintain_order=True))}
    rows = neighbors.with_columns(note=count).sort(
        "model", pl.col("task").replace_strict(order), maintain_order=True
    )
    return pivoted(rows, ("model", "task", "choice"), "measure").fill_null("–")


def tabulate_heads(heads: pl.DataFrame, most: int = 5) -> pl.DataFrame:
    """The ``most`` heads of highest agreement, by their largest attention, per model and task."""
    largest = heads.filter(pl.col("weights") == "max")
    best = (
        largest.filter(pl.col("measure") == "agreement")
        .sort("mean", descending=True, maintain_order=True)
        .group_by("model", "task", maintain_order=True)
        .head(most)
        .select("model", "task", "layer", "head", pl.int_range(pl.len()).alias("rank"))
    )
    tasks = pl.Enum(heads["task"].unique(maintain_order=True))
    shown = best.join(largest, on=["model", "task", "layer", "head"]).sort(
        "model", pl.col("task").cast(tasks), "rank", maintain_order=True
    )
    return pivoted(shown, ("model", "task", "layer", "head"), "measure").fill_null("–")


def tabulate_landing(landing: pl.DataFrame) -> pl.DataFrame:
    """Shares of attention by segment at five depths, one row per model and layer."""
    averaged = landing.filter(pl.col("task") == AVERAGE, pl.col("segment").is_not_null())
    shares = at_depths(averaged.filter(pl.col("measure") == "share"))
    lengths = averaged.filter(pl.col("measure") == "length", pl.col("layer") == 0)
    both = pl.concat(
        [
            shares.with_columns(pl.col("layer").cast(pl.String)),
            lengths.with_columns(pl.lit("tokens").alias("layer")),
        ]
    )
    return pivoted(both.sort("model", maintain_order=True), ("model", "layer"), "segment")


def tabulate_regressors(regressors: pl.DataFrame) -> pl.DataFrame:
    """One row per model, measure and method, a column per task, as [K] Table 2."""
    full = regressors.filter(
        pl.col("demonstrations_per_label").is_null(),
        pl.col("weights").is_null() | (pl.col("weights") == "max"),
    ).with_columns(pl.col("method").str.replace_all("_", " "))
    return (
        pivoted(full, ("model", "measure", "method"), "task")
        .sort("model", "measure", maintain_order=True)
        .fill_null("–")
    )


def tabulate_decoding(decoding: pl.DataFrame) -> pl.DataFrame:
    """The layer of largest gain, one row per model, source, target and offset, over tasks."""
    averaged = decoding.filter(pl.col("task") == AVERAGE)
    index = ["model", "source", "target", "offset"]
    best = (
        averaged.filter(pl.col("measure") == "gain")
        .sort("mean", descending=True, nulls_last=True, maintain_order=True)
        .group_by(index, maintain_order=True)
        .first()
        .select(*index, "layer")
    )
    shown = averaged.join(best, on=[*index, "layer"]).sort(index, maintain_order=True)
    return pivoted(shown, (*index, "layer"), "measure").fill_null("–")


def tabulate_label_words(label_words: pl.DataFrame) -> pl.DataFrame:
    """One row per model, task and kind of label words; those of single layers are left out."""
    shown = [
        "accuracy",
        "accuracy_change",
        "follows_meaning",
        "loyalty_label",
        "loyalty_random",
        "s_wp_early",
        "s_pq_late",
    ]
    index = ("model", "task", "words")
    counts = label_words.filter(pl.col("measure") == "accuracy")
    cells = pivoted(label_words.filter(pl.col("measure").is_in(shown)), index, "measure")
    present = [measure for measure in shown if measure in cells.columns]
    counted = cells.join(counts.select(*index, "examples", "skipped"), on=index)
    return counted.select(*index, "examples", "skipped", *present).fill_null("–")


def tabulate_claims(claims: pl.DataFrame) -> pl.DataFrame:
    """One row per claim over tasks, a column per model with effect, interval and verdict."""
    averaged = claims.filter(pl.col("task") == AVERAGE)
    verdicts = averaged.rename({"effect": "mean"}).with_columns(
        note=pl.when(pl.col("verdict") == NOT_TESTED)
        .then(pl.format(" not tested: {}", "reason"))
        .otherwise(pl.format(" {}", "verdict") + pl.format(" ({})", "reason").fill_null(""))
    )
    return pivoted(verdicts, ("statement", "source", "compared", "unit"), "model")


def tabulate_verdicts(claims: pl.DataFrame) -> pl.DataFrame:
    """One row per model and claim, a column per task with the verdict."""
    return claims.pivot(
        "task", index=["model", "claim"], values="verdict", maintain_order=True
    ).fill_null("–")
