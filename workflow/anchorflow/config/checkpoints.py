"""Checkpoints over training: one entry of ``models`` that stands for several models, in order.

Each becomes an entry of its own, which names the one that it is from in ``checkpoint_of``.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from anchorflow.config.errors import InputError

# Keys that list checkpoints, the key that each checkpoint has in their place, and its source.
_LISTS = {"revisions": ("revision", "hub"), "paths": ("path", "local")}
_COMMIT = re.compile(r"[0-9a-f]{40}")
_COMMIT_SHOWN = 12  # digits
# After "step" anywhere in a name, as in step1000-tokens4B; others are its last part, as in
# checkpoint-500, which v2, 1.5, and 10B are not.
_STEP = re.compile(r"step[-_]?(\d+)(?![A-Za-z0-9.])|(?:^|[-_])(\d+)$", re.IGNORECASE)


def with_checkpoints(models: Any) -> Any:
    """The entries of ``models`` with one for each checkpoint, named ``{name}-{checkpoint}``.

    What makes no sense stays, for the schema to refuse.
    """
    if not isinstance(models, dict):
        return models
    found: dict[Any, Any] = {}
    for name, given in models.items():
        for each, settings in _entries(name, given):
            if each in found or (each != name and each in models):
                raise InputError(
                    f"models: two models would be called {each}, one of them a checkpoint of "
                    f"{name}; rename one of the entries, or name a checkpoint once."
                )
            found[each] = settings
    return found


def _entries(name: Any, given: Any) -> Iterator[tuple[Any, Any]]:
    listed = [key for key in _LISTS if isinstance(given, dict) and _can_be_read(given.get(key))]
    if not listed:
        yield name, given
        return
    key, *others = listed
    single, source = _LISTS[key]
    if single in given or others:
        raise InputError(
            f"models.{name}: {key} and {others[0] if others else single} are both given; leave "
            "one of them out."
        )
    if given.get("source", source) != source or (source == "hub") != ("repository" in given):
        of = "revisions of a repository of the Hub" if source == "hub" else "local folders"
        raise InputError(
            f"models.{name}.{key}: it lists {of}, which the other keys do not fit; correct them."
        )
    for checkpoint in given[key]:
        kept = {other: value for other, value in given.items() if other != key}
        named = f"{name}-{_checkpoint_name(checkpoint, source)}"
        yield named, {**kept, single: checkpoint, "checkpoint_of": name}


def _can_be_read(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and all(isinstance(v, str) for v in value)


def _checkpoint_name(checkpoint: str, source: str) -> str:
    """A revision, or the name of a folder, as part of a path."""
    if source == "local":
        checkpoint = os.path.basename(os.path.abspath(checkpoint))
    elif _COMMIT.fullmatch(checkpoint):
        return checkpoint[:_COMMIT_SHOWN]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", checkpoint).strip("-")


def trainings(models: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """The models that are checkpoints, in order, by the entry that they are from."""
    found: dict[str, list[str]] = {}
    for name, settings in models.items():
        if of := settings.get("checkpoint_of"):
            found.setdefault(of, []).append(name)
    return found


def check_trainings(models: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse a training that has a single checkpoint."""
    for of, checkpoints in trainings(models).items():
        if len(checkpoints) < 2:
            raise InputError(
                f"models.{checkpoints[0]}.checkpoint_of: {of} has no other checkpoint; correct "
                "the name, or leave the key out."
            )


def checkpoints_of(training: str, models: Sequence[str]) -> list[tuple[str, str, int | None]]:
    """Each model of a training with the name of its checkpoint, and its step.

    Steps are numbers in the names. All are None if a name has none, or if they do not increase.
    """
    names = [model.removeprefix(f"{training}-") for model in models]
    steps = [_step(name) for name in names]
    known = [step for step in steps if step is not None]
    increase = all(first < second for first, second in pairwise(known))
    if len(known) < len(steps) or not increase:
        steps = [None] * len(names)
    return list(zip(models, names, steps, strict=True))


def _step(name: str) -> int | None:
    found = _STEP.search(name)
    return None if found is None else int(next(filter(None, found.groups())))
