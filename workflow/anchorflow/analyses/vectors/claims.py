"""Whether one vector has the task (Hendel et al. 2023, Todd et al. 2024, Zheng et al. 2024)."""

from functools import partial

from anchorflow.analyses.vectors import NO_LAYER
from anchorflow.analyses.vectors.summarize import vector_measures
from anchorflow.claims.claim import DISCRIMINATING, Claim, Control, NotMeasured, Run, Sampled
from anchorflow.claims.effects import Setting, difference_by_seed, rows_with

READS = ("vectors",)

_UNIT = "probability of the true label"
_LAYER = "each at the layer that is best on other texts"


def of(vector: str, source: str = "own") -> Setting:
    """A vector at the layer that is chosen on other texts."""
    return {"vector": vector, "source": source, "layer": NO_LAYER}


def prompts_with(number: int) -> Setting:
    """Prompts with so many demonstrations, without a vector."""
    return {"vector": "none", "number": number}


_RANDOM_TEXTS = of("local", "none")


def more_probable(run: Run, more: Setting, less: Setting) -> Sampled:
    """The true label's probability in one setting minus that in another, on the same texts."""
    measured = vector_measures(run.rows("vectors"))
    for setting in (more, less):
        if rows_with(measured, setting).is_empty():
            raise NotMeasured(_lacking(setting))
    return difference_by_seed(measured, [more], [less], "probability")


def _lacking(setting: Setting) -> str:
    if setting["vector"] == "none":
        return f"the run has no answers with {setting['number']} demonstrations"
    if setting["source"] == "other_task":
        return "the run has a single task, or no prompt of the other one fits the model's context"
    if setting["source"] == "deranged":
        return "label words can't be exchanged in this task, so that no vector is from wrong ones"
    return f"the run has no {setting['vector']} vectors (vectors.kinds), or too few texts for them"


_asked = partial(
    Claim,
    form=DISCRIMINATING,
    figure="vectors",
    asked_for={"vectors": "vectors: {kinds: [task, function, local]}"},
)

CLAIMS = (
    # Deranged label words leave everything else of the prompt as it is: its form, its texts, and
    # how frequent each label word is. Vectors of other tasks may tell as much as the task's own,
    # namely to answer with a label word, so that they are the control.
    *(
        _asked(
            f"{vector}_vector_recovers",
            f"{words} of prompts with demonstrations tells the task to a prompt without them",
            "[H] §5",
            f"probability of the true label with a {vector} vector minus that with one from the "
            f"same prompts with deranged label words, {_LAYER}",
            _UNIT,
            partial(more_probable, more=of(vector), less=of(vector, "deranged")),
            Control(
                "the vector of another task in place of the task's own",
                partial(more_probable, more=of(vector, "other_task"), less=of(vector, "deranged")),
            ),
        )
        for vector, words in (
            ("task", "The mean state at the target"),
            ("function", "The mean output of a few heads"),
        )
    ),
    # A prompt with random texts shows the label words already, and a prompt without demonstrations
    # does not: what local vectors gain over global ones has to exceed that.
    _asked(
        "local_vectors_over_task_vector",
        "Label words' own vectors tell the task better than one vector at the target",
        "[H] §5",
        f"probability of the true label with local vectors minus that with a task vector, {_LAYER}",
        _UNIT,
        partial(more_probable, more=of("local"), less=of("task")),
        Control(
            "the same two prompts without vectors",
            partial(more_probable, more=_RANDOM_TEXTS, less=prompts_with(0)),
        ),
    ),
    _asked(
        "vector_over_one_demonstration",
        "A task vector is worth more than one demonstration",
        "[H] §5",
        f"probability of the true label with a task vector minus that with one demonstration in "
        f"the prompt, {_LAYER}",
        _UNIT,
        partial(more_probable, more=of("task"), less=prompts_with(1)),
        Control(
            "the vector of prompts with deranged label words in place of the task vector",
            partial(more_probable, more=of("task", "deranged"), less=prompts_with(1)),
        ),
    ),
)
