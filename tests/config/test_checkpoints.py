"""Checkpoints over training: one entry of models that stands for several, and their steps."""

from typing import Any

import pytest

from anchorflow.config.checkpoints import (
    check_trainings,
    checkpoints_of,
    trainings,
    with_checkpoints,
)
from anchorflow.config.errors import InputError

COMMIT = "0123456789abcdef" * 2 + "01234567"
HUB = {"source": "hub", "repository": "owner/pythia", "dtype": "bfloat16"}
LOCAL = {"source": "local", "chat": False}


def steps_of(*names: str) -> list[int | None]:
    models = [f"pythia-{name}" for name in names]
    return [step for _, _, step in checkpoints_of("pythia", models)]


def test_revisions_become_models_in_their_order_between_the_others() -> None:
    revisions = ["step8000", "step1000", "refs/pr/1", COMMIT]
    first, last = {"source": "local", "path": "a"}, {"source": "gguf", "files": ["b"]}
    given = {"first": first, "pythia": {**HUB, "revisions": revisions}, "last": last}
    of = {**HUB, "checkpoint_of": "pythia"}
    assert list(with_checkpoints(given).items()) == [
        ("first", first),
        ("pythia-step8000", {**of, "revision": "step8000"}),
        ("pythia-step1000", {**of, "revision": "step1000"}),
        ("pythia-refs-pr-1", {**of, "revision": "refs/pr/1"}),
        ("pythia-0123456789ab", {**of, "revision": COMMIT}),
        ("last", last),
    ]


def test_folders_are_named_by_their_last_part() -> None:
    paths = ["runs/checkpoint-500/", "/data/my run (2)", "runs/checkpoint-500/../best"]
    models = with_checkpoints({"mine": {**LOCAL, "paths": paths}})
    assert {name: model["path"] for name, model in models.items()} == {
        "mine-checkpoint-500": paths[0],
        "mine-my-run-2": paths[1],
        "mine-best": paths[2],
    }


def test_models_that_are_written_out_stay_as_they_are() -> None:
    once = with_checkpoints({"pythia": {**HUB, "revisions": ["step1", "step2"]}})
    assert with_checkpoints(once) == once
    assert trainings({"other": LOCAL, **once}) == {"pythia": ["pythia-step1", "pythia-step2"]}


@pytest.mark.parametrize(
    "nonsense",
    [None, [], "text", {"pythia": None}, {"pythia": {"revisions": "step1"}}]
    + [{"pythia": {**HUB, "revisions": value}} for value in ([], ["main"], [1000, 8000], None)],
)
def test_what_makes_no_sense_is_left_for_the_schema_to_refuse(nonsense: Any) -> None:
    assert with_checkpoints(nonsense) == nonsense


@pytest.mark.parametrize(
    ("models", "sentence"),
    [
        (
            {"pythia": {**HUB, "revision": "main", "revisions": ["step1", "main"]}},
            "models.pythia: revisions and revision are both given; leave one of them out.",
        ),
        (
            {"mine": {**LOCAL, "paths": ["a", "b"], "revisions": ["c", "d"]}},
            "models.mine: revisions and paths are both given; leave one of them out.",
        ),
        (
            {"mine": {**LOCAL, "path": "a", "revisions": ["step1", "step2"]}},
            "models.mine.revisions: it lists revisions of a repository of the Hub, which the other "
            "keys do not fit; correct them.",
        ),
        (
            {"mine": {"path": "a", "revisions": ["step1", "step2"]}},
            "models.mine.revisions: it lists revisions of a repository of the Hub, which the other "
            "keys do not fit; correct them.",
        ),
        (
            {"mine": {**HUB, "paths": ["a", "b"]}},
            "models.mine.paths: it lists local folders, which the other keys do not fit; correct "
            "them.",
        ),
        (
            {"mine": {**LOCAL, "paths": ["a/final", "b/final"]}},
            "models: two models would be called mine-final, one of them a checkpoint of mine; "
            "rename one of the entries, or name a checkpoint once.",
        ),
        (
            {"mine": {**LOCAL, "paths": ["a", "b"]}, "mine-b": {**LOCAL, "path": "c"}},
            "models: two models would be called mine-b, one of them a checkpoint of mine; rename "
            "one of the entries, or name a checkpoint once.",
        ),
        (
            {"mine-b": {**LOCAL, "path": "c"}, "mine": {**LOCAL, "paths": ["a", "b"]}},
            "models: two models would be called mine-b, one of them a checkpoint of mine; rename "
            "one of the entries, or name a checkpoint once.",
        ),
    ],
)
def test_lists_that_contradict_other_entries_are_refused(
    models: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError) as error:
        with_checkpoints(models)
    assert str(error.value) == sentence


def test_a_training_of_one_checkpoint_is_refused() -> None:
    models = {"a": {"checkpoint_of": "mine"}, "b": {"checkpoint_of": "mine"}}
    check_trainings({**models, "c": {}})
    with pytest.raises(InputError, match=r"^models.c.checkpoint_of: mime has no other checkpoint"):
        check_trainings({**models, "c": {"checkpoint_of": "mime"}})


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("step1000", 1000),
        ("1000", 1000),
        ("step0", 0),
        ("checkpoint-500", 500),
        ("iter_500", 500),
        ("global_step100", 100),
        ("Step-20", 20),
        ("stage1-step1000-tokens3B", 1000),
        ("step1000-tokens4B", 1000),
        *((name, None) for name in ("main", "v2", "1.5", "step1.5", "10B", "step10k", "gpt2")),
        ("a1b2c3d4e512", None),  # a commit
    ],
)
def test_the_step_is_the_number_after_step_or_the_last_part_of_the_name(
    name: str, step: int | None
) -> None:
    assert steps_of(name) == [step]


def test_without_a_step_of_every_checkpoint_or_their_order_there_are_none() -> None:
    assert steps_of("step1", "step20", "step300") == [1, 20, 300]
    assert steps_of("step1", "step20", "main") == [None] * 3
    assert steps_of("step20", "step1") == [None] * 2
    assert steps_of("step1", "step1-again") == [None] * 2
