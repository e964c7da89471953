"""What probes decode from keys and values around label words ([K] §5.4)."""

from anchorflow.config.analysis import KERNEL_REGRESSION, Analysis, Measured, Presented, Summary
from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

PROBES = table(
    "probes",
    "one per (layer, key-value head, offset, source, target, demonstration)",
    *f.CELL,
    f.LAYER,
    Column("head", "int32", "key-value head"),
    f.OFFSET,
    f.SOURCE,
    f.DECODED,
    f.DEMONSTRATION,
    Column("correct", "bool", "whether a probe fitted to the other folds predicts the target"),
    Column(
        "shuffled",
        "float32",
        "share of correct predictions over shuffles of the targets, which is chance; labels are "
        "shuffled within rounds, each of which has every label once",
        "1",
    ),
    keys="model task seed layer head offset source target demonstration",
)

PROBES_SUMMARY = table(
    "probes_summary",
    "one per (task, layer, offset, source, target, measure)",
    *f.OF_TASK,
    f.LAYER,
    f.OFFSET,
    f.SOURCE,
    f.DECODED,
    Column(
        "measure",
        "string",
        "accuracy: of ridge probes on held-out demonstrations, mean over heads; shuffled: the same "
        "for shuffled targets, which is chance; gain: the difference of the two",
    ),
    Column("mean", "float64", "mean over seeds", "1"),
    Column("low", "float64", "lower end of the interval", "as mean"),
    Column("high", "float64", "upper end of the interval", "as mean"),
    Column("decoded", "int32", "demonstrations averaged, summed over seeds", "demonstrations"),
    Column("seeds", "int32", "seeds averaged", "seeds"),
    keys="model task layer offset source target measure",
)


ANALYSIS = Analysis(
    subject="probes of keys and values in {}",
    category=KERNEL_REGRESSION,
    measured=Measured(follows="kernel", twins=True),
    summary=Summary({"probes": "probes", "prompts": "kernel/prompts", "samples": "kernel/samples"}),
    figure=Presented("Probes of keys and values"),
    table=Presented("Probes of keys and values"),
)
