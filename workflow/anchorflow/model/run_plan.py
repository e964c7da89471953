"""How long all jobs of a configuration take with one model, from what it lists, before any runs."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoConfig

from anchorflow.config.cells import task_of
from anchorflow.config.configuration import (
    cells_with_shuffled_labels,
    cells_with_words,
    label_word_sets,
    task_settings,
    twins_of,
)
from anchorflow.config.stages import null_stages
from anchorflow.model.memory import without_numbers
from anchorflow.model.operations import (
    OF_STAGE,
    WITH_GRADIENTS,
    Passes,
    Prompts,
    Protocols,
    Rates,
    Size,
    measured_rates,
    operations,
    seconds,
)

log = logging.getLogger(__name__)

TEXT_TOKENS = 32  # that a text is taken to have, with template and label word
_FIRST_SEED = ("timing", "token_saliency")
_WITH_WORDS = ("attention", "saliency", "isolation")
_INPUTS = {"calibrated": 3, "domain_calibrated": 20}  # baselines' own prompts
# Lists of the configuration without which stages are not run.
_ASKED_FOR = {
    "knockout": "classes",
    "faithfulness": "classes",
    "cutoff": "sees",
    "transplant": "places",
}
_ANCHORS = "hidden_anchor"  # a method of compression that β is fitted with too


def log_run(config: Mapping[str, Any], name: str, folder: str | Path) -> None:
    """Log how long a run's jobs with one model will take, before any has begun.

    Parameters
    ----------
    config : mapping
        The complete configuration.
    name : str
        One of its models.
    folder : path
        Has the model's ``config.json``.
    """
    architecture = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    dtype = getattr(torch, config["models"][name]["dtype"])
    on_gpu = config["compute"]["device"] != "cpu" and torch.cuda.is_available()
    size = Size.of(without_numbers(architecture, dtype))
    rates = measured_rates(size, dtype, torch.device("cuda" if on_gpu else "cpu"))
    log.info("%s: %s.", name, run_in_words(config, name, size, rates))


class Planned(NamedTuple):
    """What a run asks of a model in one stage."""

    jobs: int
    passes: list[Passes]


def whole_run(
    config: Mapping[str, Any], model: str, depth: int, text_tokens: int = TEXT_TOKENS
) -> dict[str, Planned]:
    """The jobs and passes of a configuration's whole run through one model, by stage.

    Texts are taken to have ``text_tokens`` tokens each; none is too long.

    Parameters
    ----------
    config : mapping
        The complete configuration.
    model : str
        A name in its section ``models``.
    depth : int
        The model's number of layers.
    """
    words = cells_with_words(config) if label_word_sets(config) else []
    tasks, seeds = list(config["tasks"]), len(config["seeds"])
    untrained = null_stages("untrained", config["controls"])
    twins = len(twins_of(model, config))
    found: dict[str, Planned] = {}
    for stage, count in OF_STAGE.items():
        runs = 1 if stage in _FIRST_SEED else seeds
        cells = [(task, runs, True) for task in tasks]
        if stage in _WITH_WORDS:
            cells += [(task, runs, True) for task in words if task not in tasks]
        if stage in untrained:
            cells += [(task, runs * twins, False) for task in tasks]
        if stage == "attention":
            cells += [(task, runs, True) for task in cells_with_shuffled_labels(config)]
        jobs, passes = 0, []
        for task, times, fitted in cells:
            protocols, spec = _assumed(stage, task, config, text_tokens, fitted)
            if protocols:
                jobs += times
                passes += times * count(protocols, spec, depth, config["compute"]["batch_tokens"])
        if jobs:
            found[stage] = Planned(jobs, passes)
    return found


def run_in_words(config: Mapping[str, Any], model: str, size: Size, rates: Rates) -> str:
    """The sentence of the log about a run's time with one model."""
    run = whole_run(config, model, size.layers)
    hours = {stage: seconds(p.passes, size, rates, p.jobs) / 3600 for stage, p in run.items()}
    total, longest = sum(hours.values()), sorted(hours, key=lambda stage: -hours[stage])[:3]
    passes = [each for planned in run.values() for each in planned.passes]
    return (
        f"{sum(planned.jobs for planned in run.values())} jobs with {config['test_examples']} "
        f"texts of about {TEXT_TOKENS} tokens each, {operations(passes, size) / 1e15:.3g} "
        f"petaoperations: about {total:.2g} hours one after the other at the measured "
        f"{rates.operations / 1e9:.0f} gigaoperations per second and job, of which "
        + ", ".join(f"{stage} {hours[stage] / total:.0%}" for stage in longest)
    )


def _assumed(
    stage: str, task: str, config: Mapping[str, Any], text: int, fitted: bool
) -> tuple[Protocols, Mapping[str, Any]]:
    """The prompts of one job, of texts with so many tokens, and what is done with them."""
    settings = task_settings(task_of(task), config)
    labels, count = len(settings["labels"]), config["test_examples"]
    shown = text * labels * config["demonstrations_per_label"]
    fixed = Prompts(count, shown, text)
    protocols, spec = defaultdict(lambda: Prompts(0, 0, 0), fixed=fixed), config.get(stage, {})
    if stage in _ASKED_FOR:
        protocols = protocols if spec[_ASKED_FOR[stage]] else _alike([], fixed)
    elif stage in WITH_GRADIENTS:
        protocols["per_example"] = fixed
        spec = {**config["flow_page"], **config["saliency"]} if stage != "saliency" else spec
    elif stage in ("reweighting", "compression"):
        fit = config["reweighting"]
        protocols["training"] = fixed._replace(number=labels * fit["examples_per_label"])
        all_of_them = config["demonstrations_per_label"] + fit["examples_per_label"]
        many = settings.get("many_demonstrations") or all_of_them
        protocols["many"] = fixed._replace(shared=text * labels * many)
        inputs = {name: fixed._replace(number=_INPUTS.get(name, 0)) for name in fit["baselines"]}
        protocols.update((name, each) for name, each in inputs.items() if each.number)
        compressed = config["compression"]
        anchors = compressed["positions"] if _ANCHORS in compressed["methods"] else None
        betas = (1 + (anchors is not None)) * fitted
        spec = {**spec, "betas": betas} if stage == "compression" else {**fit, "anchors": anchors}
    elif stage == "retrieval":
        protocols = _alike(spec["choices"], fixed)
    elif stage == "kernel":
        protocols = _alike(["kernel"], fixed._replace(shared=spec["demonstration_tokens"]))
    elif stage == "perturbations":
        protocols = _alike(spec["kinds"], fixed)
    elif stage == "orders":
        many = fixed._replace(shared=config["kernel"]["demonstration_tokens"])
        protocols = _alike(map(str, range(2 * spec["count"])), many)
    return protocols, spec


def _alike(names: Iterable[str], prompts: Prompts) -> Protocols:
    return defaultdict(lambda: Prompts(0, 0, 0), dict.fromkeys(names, prompts))
