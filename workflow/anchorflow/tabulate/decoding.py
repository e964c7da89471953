"""What ridge probes decode from keys and values of all models, at the best layer."""

import polars as pl

from anchorflow.summarize.by_task import AVERAGE
from anchorflow.tabulate.page import Page, pivoted

_NOTE = (
    "How often ridge regression tells, from a key or a value around a label word, the "
    "demonstration's label, or the likeliest token after its text in the template, without "
    "demonstrations; rounds of one demonstration per label held out in folds, averaged over heads "
    "and tasks, each with the same for shuffled targets, which is chance (labels are shuffled "
    "within rounds). Offset 0 is the label word, which its own key and value name; before it, the "
    "text must tell. At each offset, the layer of largest gain over chance, chosen on these "
    "demonstrations, which flatters it. Means over seeds with intervals over seeds and "
    "demonstrations. results/tables/decoding.csv has every layer and task."
)


def tabulate_decoding(decoding: pl.DataFrame) -> Page:
    """The layer of largest gain, averaged over tasks, per model, source, target, and offset."""
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
    table = pivoted(shown, (*index, "layer"), "measure").fill_null("–")
    return Page("What keys and values around label words tell", _NOTE, table)
