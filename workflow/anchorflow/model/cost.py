"""How long a whole run takes: the tokens that analyses run, at this machine's rate."""

import logging
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import reduce
from multiprocessing import get_context
from operator import getitem
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from anchorflow.config import configuration
from anchorflow.config.cells import task_of
from anchorflow.config.registry import entries, load
from anchorflow.config.shards import shard_names
from anchorflow.config.stages import STAGES, asked_for, null_stages, presented
from anchorflow.model.devices import Rates
from anchorflow.model.size import Cost, Prompts, Size, seconds

log = logging.getLogger(__name__)

TEXT_TOKENS = 32  # that a text is taken to have, with template and label word
# Sections of the configuration with a stage's spec, if it is not that of the stage's own name.
_SECTIONS = {"token_saliency": ("flow_page",), "faithfulness": ("knockout", "faithfulness")}


def whole_run(config: Mapping[str, Any], model: str, depth: int) -> dict[str, list[Cost]]:
    """What each job of a configuration's run costs with one model, by stage."""
    shards = shard_names(config["test_examples"], config["compute"]["examples_per_shard"])
    words = configuration.cells_with_words(config) if configuration.label_word_sets(config) else []
    words = [cell for cell in words if cell not in config["tasks"]]
    twins = list(config["tasks"]) * len(configuration.twins_of(model, config))
    found: dict[str, list[Cost]] = {}
    for stage in set(entries("measure")) & set(STAGES):
        cost_of, key = getattr(load("measure", stage), "cost", None), asked_for(stage)
        if cost_of is None or (key and not reduce(getitem, key.split("."), config)):
            continue
        cells = [*config["tasks"], *(words if stage in presented("label_words").reads else ())]
        cells += twins if stage in null_stages("untrained", config["controls"]) else []
        cells += configuration.cells_with_shuffled_labels(config) if stage == "attention" else []
        spec = {"model": model, "demonstrations": config["saliency"]["demonstrations"]}
        spec["anchors"] = "hidden_anchor" in config["compression"]["methods"]
        for section in _SECTIONS.get(stage, (stage,)):
            spec |= config.get(section, {})
        parts = max(1, len(shards)) if STAGES[stage].sharded else 1
        texts = min(config["test_examples"], spec.get("examples", spec.get("queries", 1e9)))
        for cell in cells if texts else ():
            labels = len(configuration.task_settings(task_of(cell), config)["labels"])
            shown = TEXT_TOKENS * labels * config["demonstrations_per_label"]
            if stage in ("kernel", "orders"):
                shown = config["kernel"]["demonstration_tokens"]
            job = cost_of(Prompts(texts / parts, shown, TEXT_TOKENS, labels), spec, depth)
            seeds = 1 if STAGES[stage].first_seed else len(config["seeds"])
            found[stage] = found.get(stage, []) + parts * seeds * [job]
    return found


def told(config: Mapping[str, Any], name: str, folder: str | Path) -> str:
    """The sentence of the log about a run's time with one model; ``folder`` has its config.json."""
    dtype = getattr(torch, config["models"][name]["dtype"])
    on_gpu = config["compute"]["device"] != "cpu" and torch.cuda.is_available()
    torch.set_num_threads(config["compute"]["threads"])  # of the jobs that are told of
    size = Size.of(AutoConfig.from_pretrained(folder, trust_remote_code=False), dtype)
    stages = whole_run(config, name, size.layers)
    rates = Rates.measured(size.hidden, dtype, torch.device("cuda" if on_gpu else "cpu"))
    took = {stage: sum(seconds(job, size, rates) for job in jobs) for stage, jobs in stages.items()}
    total, longest = sum(took.values()), sorted(took, key=lambda stage: -took[stage])[:3]
    units = {"hours": 3600, "minutes": 60, "seconds": 1}
    unit, length = next((name, n) for name, n in units.items() if total > 2 * n or n == 1)
    return (
        f"{name}: {sum(map(len, stages.values()))} jobs take about "
        f"{float(f'{total / length:.2g}'):,.15g} {unit} on this machine, one after the other, with "
        f"{config['test_examples']} texts of about {TEXT_TOKENS} tokens each; "
        + ", ".join(f"{stage} {took[stage] / total:.0%}" for stage in longest)
    )


def log_run(config: Mapping[str, Any], name: str, folder: str | Path) -> None:
    """Log how long a run's jobs with one model will take, before any has begun.

    In a process of its own: the job that does so does not depend on the code of all analyses.
    """
    try:
        with ProcessPoolExecutor(1, get_context("fork")) as alone:
            said = alone.submit(told, config, name, folder).result()
    except Exception as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        said = f"{name}: how long a run takes can't be estimated here: {reason}"
    log.info("%s.", said)
