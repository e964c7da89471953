"""Accuracy with nearest compared with random demonstrations ([K] §4.2).

Demonstrations like the test text often have its label. So the control is the majority of the
demonstrations' labels, without any model; and of each label's nearest texts, there are equally many
of each.
"""

from functools import partial

import polars as pl

from anchorflow.summarize.claims._claim import (
    DISCRIMINATING,
    PAPER,
    Claim,
    Control,
    NotTested,
    Run,
    Sampled,
)
from anchorflow.summarize.claims._effects import accuracy_over, mean_of_examples
from anchorflow.summarize.neighbors import majority

READS = ("retrieval", "retrieval_prompts")


def vote_over_random(run: Run, choice: str) -> Sampled:
    """Accuracy of the demonstrations' majority label minus the model's with random demonstrations.

    Of labels with equally many demonstrations, that of the most similar one, which is the last.

    Raises
    ------
    NotTested
        If no example was run with both choices.
    """
    prompts = run.by_seed("retrieval_prompts")
    seeds = {}
    for seed, rows in run.by_seed("retrieval").items():
        shown = prompts[seed].filter(pl.col("demonstrations") == choice)
        votes = shown.select(
            "example",
            voted=pl.col("demonstration_labels").map_elements(majority, return_dtype=pl.Int32),
        )
        chosen = rows.filter(pl.col("choice") == choice).select("example")
        random = rows.filter(pl.col("choice") == "random")
        pairs = random.join(chosen, on="example").join(votes, on="example").sort("example")
        if not pairs.is_empty():
            of_vote = (pairs["voted"] == pairs["label"]).cast(pl.Float64)
            of_model = (pairs["prediction"] == pairs["label"]).cast(pl.Float64)
            seeds[seed] = mean_of_examples(pairs, (of_vote - of_model).to_numpy())
    if not seeds:
        raise NotTested(f"no example was run with both {choice} and random demonstrations")
    return Sampled(seeds)


def _claim(name: str, statement: str, choice: str, form: str, place: int) -> Claim:
    return Claim(
        name,
        statement,
        "[K] §4.2",
        f"accuracy with {choice} minus with random demonstrations, paired",
        "accuracy",
        partial(accuracy_over, table="retrieval", column="choice", more=choice, less="random"),
        Control(
            "the majority of the demonstrations' labels in place of the model's answer",
            partial(vote_over_random, choice=choice),
        ),
        form=form,
        place=place,
    )


CLAIMS: tuple[Claim, ...] = (
    _claim(
        "retrieval_helps",
        "The nearest training texts are better demonstrations than random ones",
        "nearest",
        PAPER,
        0,
    ),
    _claim(
        "retrieval_per_label_helps",
        "Each label's nearest training texts are better demonstrations than random ones",
        "nearest_per_label",
        DISCRIMINATING,
        1,
    ),
)
