"""Loyalty and accuracy that compressed demonstrations retain ([A] Table 2)."""

from collections.abc import Sequence

import polars as pl

from anchorflow.analyses.compression import COMPRESSION_SUMMARY as SUMMARY
from anchorflow.random_draws import halves
from anchorflow.statistics.by_task import AVERAGE, PUBLISHED, require_examples, skipped_prompts
from anchorflow.statistics.change import RETAINED, with_loyalty
from anchorflow.statistics.estimates import Estimate
from anchorflow.statistics.settings import draws_of, estimate_settings, summarize_settings

# Label loyalty, word loyalty, and accuracy, in percent, averaged over tasks.
# Source: Wang et al. 2023, Table 2.
_TABLE_2 = {
    "gpt2-xl": {
        "full": (100.00, 100.00, 51.90),
        "text_anchor": (51.05, 36.65, 38.77),
        "hidden_random": (48.96, 5.59, 39.96),
        "hidden_random_oracle": (57.52, 4.49, 41.72),
        "hidden_anchor": (79.47, 62.17, 45.04),
    },
    "gpt-j-6b": {
        "full": (100.00, 100.00, 56.82),
        "text_anchor": (53.45, 43.85, 40.83),
        "hidden_random": (49.03, 2.16, 31.51),
        "hidden_random_oracle": (71.10, 11.36, 52.34),
        "hidden_anchor": (89.06, 75.04, 55.59),
    },
}
_TASKS = ("sst2", "trec", "agnews", "emoc")


def table_2(model: str, tasks: Sequence[str]) -> pl.DataFrame:
    """[A] Table 2, for a model and tasks named as in ``config/paper.yaml``.

    The values are shares. Single tasks were not published, so only the average has rows, and only
    if the tasks are the paper's four.
    """
    measures = ("label_loyalty", "word_loyalty", "accuracy")
    rows = [
        (AVERAGE, method, measure, percent / 100)
        for method, figures in _TABLE_2.get(model, {}).items()
        for measure, percent in zip(measures, figures, strict=True)
        if set(tasks) == set(_TASKS)
    ]
    return pl.DataFrame(rows, schema=PUBLISHED, orient="row")


def retention_measures(compression: pl.DataFrame) -> pl.DataFrame:
    """The measures of every prediction, relative to the one with everything kept.

    Adds two methods that choose, in each seed, the draw of ``hidden_random`` with the highest label
    loyalty: ``hidden_random_oracle`` on the examples on which it is scored, as Hidden_random-top in
    [A], and ``hidden_random_top`` on the other half of the examples.

    There is one row per seed, example, method, share, and draw.
    """
    full, without = (compression.filter(method=name) for name in ("full", "first_only"))
    shares = compression.with_columns(kept_share=pl.col("kept") / pl.col("shared"))
    measured = with_loyalty(shares, full, without).select(
        "seed", "example", *SUMMARY.settings, "draw", *SUMMARY.measured, f"{RETAINED}_whole"
    )
    random = measured.filter(pl.col("method") == "hidden_random")
    if random["draw"].n_unique() < 2:  # of a single draw, none is the best
        return measured
    return pl.concat([measured, _best_draws(random, "oracle"), _best_draws(random, "top")])


def _best_draws(random: pl.DataFrame, chosen_on: str) -> pl.DataFrame:
    """Rows of the best draw: of each seed for the oracle, else of each half of its examples."""
    parts = []
    for (seed,), rows in random.group_by("seed", maintain_order=True):
        halved = rows.join(halves(rows["example"], int(str(seed))), on="example")
        for part in (0, 1):
            scored = halved.filter(pl.col("half") == part)
            seen = halved if chosen_on == "oracle" else halved.filter(pl.col("half") != part)
            if seen.is_empty():  # a single example leaves none on which to choose
                continue
            loyalty = seen.group_by("draw").agg(pl.col("label_loyalty").mean())
            # Of equally loyal draws the first, so that the choice is the same in every run.
            best = loyalty.sort(["label_loyalty", "draw"], descending=[True, False])["draw"][0]
            parts.append(scored.filter(pl.col("draw") == best))
    name = pl.lit(f"hidden_random_{chosen_on}").alias("method")
    draw = pl.lit(0, random.schema["draw"]).alias("draw")
    best_rows = pl.concat(parts) if parts else random.clear().with_columns(half=pl.lit(0))
    return best_rows.drop("half").with_columns(name, draw)


def summarize_compression(
    compression: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """Loyalty, accuracy, and kept share of every method and budget; see `summarize_settings`."""
    require_examples(compression)
    measured = pl.concat(
        [
            retention_measures(rows).with_columns(pl.lit(rows["task"][0]).alias("task"))
            for rows in compression.partition_by("task", maintain_order=True)
        ]
    )
    settings = measured.select(SUMMARY.settings).unique(maintain_order=True)

    def of_task(rows: pl.DataFrame) -> Estimate:
        return estimate_settings(rows, settings, SUMMARY.measured)

    tasks = prompts["task"].unique(maintain_order=True).to_list()
    return summarize_settings(
        SUMMARY,
        settings,
        of_task,
        measured,
        prompts,
        confidence,
        further=(
            draws_of(measured, SUMMARY),
            skipped_prompts(prompts, "fixed", compression),
            table_2(compression["model"][0], tasks),
        ),
    )
