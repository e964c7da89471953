"""The estimated time of a whole run: the tokens that its analyses run, at this machine's rates."""

import logging
from collections.abc import Collection, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import reduce
from multiprocessing import get_context
from operator import getitem
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from anchorflow.config import configuration
from anchorflow.config.cell_names import task_of
from anchorflow.config.registry import load
from anchorflow.config.shards import shard_names
from anchorflow.config.stages import ANALYSES, MEASURED, folder_of, null_stages, seeds_of, texts_of
from anchorflow.model.devices import Rates
from anchorflow.model.size import Cost, Prompts, Size, seconds

log = logging.getLogger(__name__)

TEXT_TOKENS = 32  # assumed per text, template and label word; nothing is tokenized yet


def whole_run(
    config: Mapping[str, Any], model: str, depth: int, state: bool = False
) -> dict[str, list[Cost]]:
    """The cost of each job of a run with one model of ``depth`` layers, by analysis.

    With a ``state``, demonstrations run again before every query.
    """
    shards = shard_names(config["test_examples"], config["compute"]["examples_per_shard"])
    words = configuration.cells_with_words(config) if configuration.label_word_sets(config) else []
    words = [cell for cell in words if cell not in config["tasks"]]
    twins = list(config["tasks"]) * len(configuration.twins_of(model, config))
    summaries = (analysis.summary for analysis in ANALYSES.values())
    reads = [read for s in summaries if s and s.with_words for read in s.reads.values()]
    with_words = {read.partition("/")[0] for read in reads}
    shuffled = null_stages("shuffled", config["controls"])
    found: dict[str, list[Cost]] = {}
    for stage in MEASURED:
        name, key = stage.name, stage.asked_for
        cost_of = getattr(load(folder_of(name), "measure"), "cost", None)
        if cost_of is None or (key and not reduce(getitem, key.split("."), config)):
            continue
        cells = [*config["tasks"], *(words if name in with_words else ())]
        of_shuffled = configuration.cells_with_shuffled_labels(config) if name in shuffled else []
        of_twins = twins if name in null_stages("untrained", config["controls"]) else []
        spec = {"model": model, "demonstrations": config["flow"]["demonstrations"]}
        spec["anchors"] = "hidden_anchor" in config["compression"]["methods"]
        spec["fit"] = config["reweighting"]
        for section in (stage.section, name):
            spec |= config.get(section, {})
        parts = max(1, len(shards)) if stage.sharded else 1
        groups = {"": cells, "shuffled": of_shuffled, "untrained": of_twins}
        for null, some in groups.items():
            most = texts_of(name, config, null == "untrained").get(
                "examples", spec.get("queries", 1e9)
            )
            texts, seeds = min(config["test_examples"], most), len(seeds_of(name, config, null))
            for cell in some if texts else ():
                labels = len(configuration.task_settings(task_of(cell), config)["labels"])
                demonstrations = spec.get(
                    "demonstration_tokens",
                    TEXT_TOKENS * labels * config["demonstrations_per_label"],
                )
                prompts = Prompts(texts / parts, demonstrations, TEXT_TOKENS, labels)
                prompts = prompts.again if state else prompts
                found[name] = found.get(name, []) + parts * seeds * [cost_of(prompts, spec, depth)]
    return found


def estimate_of_run(
    config: Mapping[str, Any], name: str, folder: str | Path, only: Collection[str] = ()
) -> str:
    """The log's sentence about a run's time with one model, whose config.json is in ``folder``.

    It is about the analyses ``only``, or about all of them.
    """
    dtype = getattr(torch, config["models"][name]["dtype"])
    on_gpu = config["compute"]["device"] != "cpu" and torch.cuda.is_available()
    torch.set_num_threads(config["compute"]["threads"])  # as the run's jobs will have
    size = Size.of(AutoConfig.from_pretrained(folder, trust_remote_code=False), dtype)
    every = whole_run(config, name, size.depth, size.state)
    stages = {stage: jobs for stage, jobs in every.items() if not only or stage in only}
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

    The estimate runs in a separate process, since it imports all analyses, on whose code the
    calling job must not depend.
    """
    try:
        with ProcessPoolExecutor(1, get_context("fork")) as alone:
            estimate = alone.submit(estimate_of_run, config, name, folder).result()
    except Exception as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        estimate = f"{name}: how long a run takes can't be estimated here: {reason}"
    log.info("%s.", estimate)
