"""What a run will take, before any weights are read: memory and time for each model."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from anchorflow.model.cost import estimate_of_run
from anchorflow.model.devices import choose_device
from anchorflow.model.memory import check_job
from anchorflow.model.size import Cost, Size
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.store.parquet import read_tables

log = logging.getLogger(__name__)


def log_estimates(config: Mapping[str, Any]) -> None:
    """Log for each model how long its run takes, and the memory of its largest batch.

    The run's prompts have been built. Saliency takes the most memory: whole prompts, backward.

    Raises
    ------
    InputError
        If a model and one of its prompts do not fit into memory.
    """
    compute = config["compute"]
    for name, settings in config["models"].items():
        folder = Path("results/tokenizers") / name
        log.info("%s.", estimate_of_run(config, name, folder))
        prompts = read_tables(sorted(Path("results/prompts", name).glob("*/*.parquet")), PROMPTS)
        dtype = getattr(torch, settings["dtype"])
        architecture = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        size, card = Size.of(architecture, dtype), {"name": name, "dtype": settings["dtype"]}
        saliency = Cost(1, 1, whole=True)
        device = choose_device(compute["device"])
        stored = dtype if settings["source"] == "gguf" else architecture.dtype  # else mapped
        check_job(card, size, stored, device, compute, prompts, saliency)
