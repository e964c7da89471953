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
from anchorflow.config.shards import shard_names
from anchorflow.config.stages import STAGES, null_stages, presented
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
    most_texts,
    operations,
    seconds,
)

log = logging.getLogger(__name__)

TEXT_TOKENS = 32  # that a text is taken to have, with template and label word
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

    Where the rates can't be measured, for example on a GPU without memory left, the log says so.

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
    torch.set_num_threads(config["compute"]["threads"])  # of the jobs that are told of
    try:
        size = Size.of(without_numbers(architecture, dtype))
        rates = measured_rates(size, dtype, torch.device("cuda" if on_gpu else "cpu"))
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        log.info("%s: how long a run takes can't be estimated here: %s", name, reason)
        return
    where = "GPU" if on_gpu else "processor"
    log.info("%s, on a %s like this one: %s.", name, where, run_in_words(config, name, size, rates))


class Planned(NamedTuple):
    """What a run asks of a model in one stage."""

    jobs: int
    passes: list[Passes]


def whole_run(
    config: Mapping[str, Any], model: str, depth: int, text_tokens: int = TEXT_TOKENS
) -> dict[str, Planned]:
    """The jobs and passes of a configuration's whole run through one model, by stage.

    Texts are taken to have ``text_tokens`` tokens each; none is too long. Shards of the test texts
    are taken to be equally large.

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
    shards = shard_names(config["test_examples"], config["compute"]["examples_per_shard"])
    with_words = presented("label_words").reads.values()
    found: dict[str, Planned] = {}
    for stage, count in OF_STAGE.items():
        parts = max(1, len(shards)) if STAGES[stage].sharded else 1
        texts = config["test_examples"] / parts
        runs = parts * (1 if STAGES[stage].first_seed else seeds)
        cells = [(task, runs, True) for task in tasks]
        if stage in with_words:
            cells += [(task, runs, True) for task in words if task not in tasks]
        if stage in untrained:
            cells += [(task, runs * twins, False) for task in tasks]
        if stage == "attention":
            cells += [(task, runs, True) for task in cells_with_shuffled_labels(config)]
        jobs, passes = 0, []
        for task, times, fitted in cells:
            protocols, spec = _assumed(stage, task, config, texts, text_tokens, fitted)
            if any(each.number for each in protocols.values()):
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
        f"petaoperations: about {_two_digits(total)} hours one after the other at the measured "
        f"{rates.operations / 1e9:.0f} gigaoperations per second and job, of which "
        + ", ".join(f"{stage} {hours[stage] / total:.0%}" for stage in longest)
    )


def _two_digits(number: float) -> str:
    """Rounded to two digits, without an exponent."""
    return f"{float(f'{number:.2g}'):,.15g}"


def _assumed(
    stage: str, task: str, config: Mapping[str, Any], count: float, text: int, fitted: bool
) -> tuple[Protocols, Mapping[str, Any]]:
    """The prompts of one job, ``count`` with ``text`` tokens each, and what is done with them."""
    settings = task_settings(task_of(task), config)
    labels = len(settings["labels"])
    shown = text * labels * config["demonstrations_per_label"]
    fixed = Prompts(count, shown, text)
    protocols, spec = defaultdict(lambda: Prompts(0, 0, 0), fixed=fixed), config.get(stage, {})
    if stage in _ASKED_FOR:
        protocols = protocols if spec[_ASKED_FOR[stage]] else _alike([], fixed)
    elif stage in WITH_GRADIENTS:
        spec = {**config["flow_page"], **config["saliency"]} if stage != "saliency" else spec
        protocols["per_example"] = fixed._replace(number=most_texts(stage, spec, count))
        protocols["fixed"] = protocols["per_example"]
    elif stage == "timing":
        protocols["fixed"] = fixed._replace(number=most_texts(stage, spec, count))
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
        of_each_label = spec["demonstration_tokens"] // (text * labels)
        spec = {**spec, "smaller": max(0, of_each_label - 1).bit_length()}
    elif stage == "perturbations":
        protocols = _alike(spec["kinds"], fixed)
    elif stage == "orders":
        many = fixed._replace(shared=config["kernel"]["demonstration_tokens"])
        protocols = _alike(map(str, range(2 * spec["count"])), many)
    return protocols, spec


def _alike(names: Iterable[str], prompts: Prompts) -> Protocols:
    return defaultdict(lambda: Prompts(0, 0, 0), dict.fromkeys(names, prompts))
