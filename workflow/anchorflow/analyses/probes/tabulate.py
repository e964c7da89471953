"""What probes decode at each offset, for all models."""

import polars as pl

from anchorflow.present.page import Page, averaged_rows, pivoted

_NOTE = (
    "Accuracy with which ridge regression decodes, from a key or value around a label word, the "
    "demonstration's label, or the most likely token after its text in the template, without "
    "demonstrations. Rounds of one demonstration per label are held out in folds; accuracy is "
    "averaged over heads and tasks. shuffled: the same for shuffled targets, which is chance "
    "(labels are shuffled within rounds). Offset 0 is the label word, which its key and value "
    "identify; at smaller offsets, only the text can. At each offset, the layer of largest gain "
    "over chance is given; it is chosen on these demonstrations, so its gain is optimistic. Means "
    "over seeds with intervals over seeds and demonstrations. results/tables/probes.csv has every "
    "layer and task."
)


def tabulate_probes(summary: pl.DataFrame) -> Page:
    """One row per model, source, target, and offset, at its best layer."""
    table = pivoted(
        _best_layers(summary), ("model", "source", "target", "offset", "layer"), "measure"
    )
    return Page(
        "What probes decode from keys and values around label words", _NOTE, table.fill_null("–")
    )


def _best_layers(decoding: pl.DataFrame) -> pl.DataFrame:
    """The layer of largest gain, averaged over tasks, per model, source, target, and offset."""
    averaged, index = averaged_rows(decoding), ["model", "source", "target", "offset"]
    best = (
        averaged.filter(measure="gain")
        .sort("mean", descending=True, nulls_last=True, maintain_order=True)
        .group_by(index, maintain_order=True)
        .first()
        .select(*index, "layer")
    )
    return averaged.join(best, on=[*index, "layer"]).sort(index, maintain_order=True)
