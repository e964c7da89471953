"""Where on the demonstrations attention lands ([K] §5.1, Fig. 2)."""

from anchorflow.config.analysis import KERNEL_REGRESSION, Analysis, Presented, Summary
from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

LANDING_SUMMARY = table(
    "landing_summary",
    "one per (task, layer, segment), one per (task, layer, place), and one per (task, layer)",
    *f.OF_TASK,
    f.LAYER,
    Column(
        "segment",
        "string",
        "as in the table segments; null for a place and for all demonstrations; the average has "
        "the segments that all tasks share",
    ),
    Column("place", "float64", "as in the table places; null otherwise"),
    Column(
        "measure",
        "string",
        "per_token: attention from the target to one token; share: attention to this segment, as a "
        "share of that to all demonstrations; length: tokens of this segment, as a share of the "
        "demonstrations' tokens; width: the segment's share of a demonstration, averaged over "
        "demonstrations; whole: attention to all demonstrations, or, for the segment learned sink, "
        "what a model's learned sinks take; the rest goes to the prompt's first token, the "
        "instruction, and the query",
    ),
    Column(
        "mean",
        "float64",
        "mean over heads and examples, then seeds",
        "probability (per_token), or 1",
    ),
    *f.INTERVAL,
    f.SKIPPED,
    keys="model task layer segment place measure",
)


ANALYSIS = Analysis(
    subject="where attention lands on demonstrations in {}",
    category=KERNEL_REGRESSION,
    summary=Summary(
        {"segments": "kernel/segments", "places": "kernel/places", "prompts": "kernel/prompts"}
    ),
    figure=Presented("Where attention lands (Fig. 2 of [K])"),
    table=Presented("Where attention lands"),
)
