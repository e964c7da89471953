"""Activations of one prompt transplanted into another."""

from collections.abc import Mapping
from typing import Any

from anchorflow.config.analysis import CAUSES, Analysis, Measured, Presented, Summary
from anchorflow.config.errors import InputError
from anchorflow.config.table import SHARE, Column, Measure, table
from anchorflow.schemas import fields as f
from anchorflow.schemas import measures as m
from anchorflow.schemas.summaries import summary_of

DONOR = Column(
    "donor",
    "string",
    "the donor prompt; other_texts: the demonstrations' texts are exchanged, each for one of "
    "another class, with the same label words; other_task: each for one of another task with the "
    "same label word; permuted: every class has the label word of another "
    "class; drawn: the demonstrations' label words are exchanged; none: no transplant",
)

WHAT = Column(
    "what",
    "string",
    "keys_values: keys and values that the query attends to; keys, values: one of them, with the "
    "prompt's own other ones; residual: the output of a layer, from "
    "which the layers above are run; prompt: the whole donor; none",
)

PLACES = Column(
    "places",
    "string",
    "tokens whose activations are transplanted, described in "
    "the configuration reference at transplant.places; none",
)

SIDE = Column(
    "side",
    "string",
    "which layers: first, middle, or last ones; window, some in a row; all; at, a single one; none",
)

FIRST_LAYER = Column("layer", "int32", "first of these layers; -1 for none")

LAYERS = Column("layers", "int32", "number of these layers", "layers")

TRANSPLANT = table(
    "transplant",
    "one per (example, donor, what, places, draw, side, layer, layers)",
    *f.CELL,
    f.EXAMPLE,
    DONOR,
    WHAT,
    PLACES,
    Column("draw", "int32", "draw of the donor and of random places"),
    SIDE,
    FIRST_LAYER,
    LAYERS,
    Column("tokens", "int32", "number of places", "tokens"),
    f.LABEL,
    *f.SCORED,
    keys="model task seed example donor what places draw side layer layers",
)

TRANSPLANT_SUMMARY = summary_of(
    "transplant",
    (DONOR, WHAT, PLACES, SIDE, FIRST_LAYER, LAYERS),
    (
        Measure(
            "moved",
            "how far label probabilities move from the prompt's own to the donor's, as a share of "
            "the way, over all texts",
        ),
        Measure(
            "follows",
            "share of predictions that become the donor's, of those that differ from it",
            SHARE,
        ),
        *m.ACCURACY_CHANGES,
        *m.IN_VOCABULARY,
    ),
    mean="mean over seeds and draws",
)


def check(config: Mapping[str, Any]) -> None:
    """Refuse donors of other tasks where no two have the same label words, and empty exchanges."""
    spec = config["transplant"]
    if not spec["places"]:
        return
    tasks = config["tasks"]
    words = {
        name: [of["labels"], *of.get("label_words", {}).values()] for name, of in tasks.items()
    }
    others = {name: [w for other in words if other != name for w in words[other]] for name in words}
    if "other_task" in spec["donors"] and not any(
        sorted(tasks[name]["labels"]) in map(sorted, others[name]) for name in tasks
    ):
        raise InputError(
            "transplant.donors: other_task needs two tasks with the same label words, and the run "
            "has none; give a task the labels of another one (tasks.*.labels), or the other one "
            "them under a name (tasks.*.label_words), or leave other_task out."
        )
    if "target" in spec["places"] and "residual" not in spec["what"]:
        raise InputError(
            "transplant.places: at the target, only outputs of layers are transplanted; add "
            "residual to transplant.what, or leave target out."
        )
    if spec["window"] and spec["what"] == ["residual"]:
        raise InputError(
            "transplant.window: windows are of keys and values, which transplant.what does not "
            "list; add keys_values there, or set the window to 0."
        )
    if "residual" in spec["what"] and spec["depths"] < 2:
        raise InputError(
            "transplant.depths: 1 divides the layers nowhere, so there is no layer whose output "
            "residual would exchange; give 2 or more, or leave residual out of transplant.what."
        )


ANALYSIS = Analysis(
    subject="activation transplants in {}",
    category=CAUSES,
    measured=Measured(
        sharded=True,
        twins=True,
        message="Transplanting activations between prompts of {task} in {model}",
        scored=True,
    ),
    summary=Summary({"transplant": "transplant", "prompts": "prompts"}),
    figure=Presented("Activation transplants from another prompt"),
    table=Presented("Activation transplants from another prompt"),
    asked_for="transplant.places",
    check=check,
)
