"""What a run measures and takes, before any weights are read: texts, prompts, memory and time."""

import logging
from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from anchorflow.config.analysis import Measured, Presented, Summary
from anchorflow.config.stages import PRESENTED, read_by_claims
from anchorflow.model.cost import estimate_of_run
from anchorflow.model.devices import choose_device
from anchorflow.model.size import Cost, Size, check_job
from anchorflow.model.tokenizer import open_tokenizer
from anchorflow.prepare.described_texts import described_texts, distinct_draws, remarks
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS
from anchorflow.store.parquet import read_table, read_tables

log = logging.getLogger(__name__)


_TOKENS = 6  # at the beginning of a prompt


def log_texts(config: Mapping[str, Any]) -> None:
    """Log how the texts of each task were read, and how its prompts begin for each model.

    The run's prompts have been built.
    """
    for task, settings in config["tasks"].items():
        texts = read_table(f"results/texts/{task}.parquet", TEXTS)
        labels, seeds = settings["labels"], config["seeds"]
        samples = [Path(f"results/samples/{task}/{seed}.parquet") for seed in seeds]
        sizes = len(seeds), config["test_examples"], config["demonstrations_per_label"]
        log.info("%s:", task)
        for line in (
            *described_texts(texts, labels),
            f"drawn: {distinct_draws(read_tables(samples, SAMPLES))}",
            *(f"note: {remark}" for remark in remarks(texts, labels, *sizes)),
            *(
                f"a prompt of {model} begins with {_beginning(model, task, seeds[0])}"
                for model in config["models"]
            ),
        ):
            log.info("  %s.", line)


def _beginning(model: str, task: str, seed: int) -> str:
    """The first tokens of a prompt, each in quotes."""
    prompts = read_table(f"results/prompts/{model}/{task}/{seed}.parquet", PROMPTS)
    tokenizer = open_tokenizer(Path("results/tokenizers") / model)
    ids = prompts["token_ids"].drop_nulls()[0][:_TOKENS]  # one at least has tokens
    return " ".join(repr(tokenizer.decode([token], skip_special_tokens=False)) for token in ids)


def needed_by(names: Iterable[str]) -> set[str]:
    """The analyses that are measured for some analyses, themselves among them."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name in PRESENTED and name not in found:
            found.add(name)
            of = PRESENTED[name]
            parts: list[Measured | Summary | Presented | None]
            parts = [of.measured, of.summary, of.figure, of.table]
            reads = [read for part in parts if part for read in part.reads.values()]
            reads += read_by_claims().values() if name == "claims" else ()
            left += chain.from_iterable(read.split("/")[:2] for read in reads)
    return found


def log_estimates(config: Mapping[str, Any], names: Collection[str] = ()) -> None:
    """Log for each model how long its run takes, and the memory of its largest batch.

    ``names`` are the analyses that are run, by default all. The run's prompts have been built.
    Saliency takes the most memory: whole prompts, backward.
    """
    compute = config["compute"]
    for name, settings in config["models"].items():
        folder = Path("results/tokenizers") / name
        log.info("%s.", estimate_of_run(config, name, folder, needed_by(names)))
        prompts = read_tables(sorted(Path("results/prompts", name).glob("*/*.parquet")), PROMPTS)
        dtype = getattr(torch, settings["dtype"])
        architecture = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        size, card = Size.of(architecture, dtype), {"name": name, "dtype": settings["dtype"]}
        saliency = Cost(1, 1, whole=True)
        device = choose_device(compute["device"])
        stored = dtype if settings["source"] == "gguf" else architecture.dtype  # else mapped
        check_job(card, size, stored, device, compute, prompts, saliency)
