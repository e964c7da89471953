"""Time per query with compressed demonstrations, and time and size of a cache ([A] Table 3).

Timings depend on the machine and its load, so they are kept apart from all other results.
"""

import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from transformers import PreTrainedModel

from anchorflow.analyses.compression.measure import (
    ANCHOR,
    FULL,
    TEXT_ANCHOR,
    Cache,
    Setting,
    compress,
)
from anchorflow.analyses.compression.methods import Demonstrations
from anchorflow.analyses.compression.observations import observe
from anchorflow.analyses.timing import TIMING
from anchorflow.model.attention_function import Intervention, intervene
from anchorflow.model.batches import Batch, batches_of, runnable
from anchorflow.model.beta_fit import Reweight
from anchorflow.model.cell import Cell
from anchorflow.model.layer_kinds import attention_layers, runs_again
from anchorflow.model.logits import target_logits
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.schemas.frames import frame_schema, keyed
from anchorflow.schemas.prompts import PROMPTS

# Methods not listed keep the same number of tokens as hidden_anchor and take equally long.
_CACHED = {
    "full": FULL,
    "text_anchor": Setting("text_anchor"),
    "hidden_anchor": ANCHOR,
    "reweighted": FULL,
    "reweighted_anchor": ANCHOR,
    "until_layer": Setting("until_layer"),
}
OPTIONAL = ("until_layer",)  # timed where it is measured

_REWEIGHTED = ("reweighted", "reweighted_anchor")
_ALL = 2**31  # tokens per batch, that is, no limit: slices of the prompts already are batches


@dataclass(frozen=True)
class Way:
    """One way to answer queries: batches, each with its active interventions."""

    name: str
    batches: list[tuple[Batch, list[Intervention]]]
    cache: Cache | None = None  # None: full prompts

    def run(self, model: PreTrainedModel, number: int) -> None:
        batch, interventions = self.batches[number]
        with intervene(*interventions):
            target_logits(model, batch)


def cost(prompts: Prompts, spec: Mapping[str, Any], _: int) -> Cost:
    """Full prompts and queries with each cache, repeated; most caches are built three times."""
    caches = len(_CACHED) - len(OPTIONAL) + len(spec.get("also", ()))
    times, built = 1 + spec["repetitions"], 3 * (caches - len(_REWEIGHTED))
    return Cost(
        times * (prompts.whole + caches * prompts.asked) + (1 + built) * prompts.demonstrations
    )


def measure_timing(
    model: PreTrainedModel, prompts: pl.DataFrame, spec: Mapping[str, Any]
) -> pl.DataFrame:
    """Time queries with full prompts and with every kind of cache, interleaved.

    After a warm-up, each repetition runs each batch of queries in every way before the next batch,
    so that a temporary slowdown affects all ways alike. GPUs are synchronized. Re-weighting is
    timed with β = 0, which costs as much as any other β. ``also`` in ``spec`` lists those of
    ``OPTIONAL`` that are timed. There are no rows if no prompt fits the context. In a model
    that carries a state, only anchors as text are timed beside full prompts.
    """
    chosen = runnable(prompts, "fixed")[: spec["queries"]]
    if chosen.is_empty():
        return pl.DataFrame(schema=frame_schema(TIMING))
    together = min(spec["batch_size"], len(chosen))
    chosen = chosen[: len(chosen) // together * together]
    demonstrations = observe(model, shared_token_ids(chosen), chosen.row(0, named=True))
    ways = _ways(model, demonstrations, chosen, together, spec.get("also", ()))
    numbers = range(len(chosen) // together)
    for way in ways:  # a warm-up: first runs allocate memory and compile kernels
        for number in numbers:
            way.run(model, number)
    timed: dict[str, list[float]] = {way.name: [] for way in ways}
    others = OtherWork()
    for _ in range(spec["repetitions"]):
        for number in numbers:
            for way in ways:
                took = seconds(partial(way.run, model, number))
                timed[way.name].append(1000 * took / together)
    busy = others.share()
    plain = float(np.median(timed["full_prompt"]))
    rows = [
        {
            "way": way.name,
            **_times(timed[way.name], _build(model, demonstrations, way), plain),
            **_size(way),
        }
        for way in ways
    ]
    constants = {
        **chosen.select("model", "task", "seed").row(0, named=True),
        "batch_size": together,
        "runs": len(timed["full_prompt"]),
        "prompt_tokens": float(chosen["tokens"].to_numpy().mean()),
        "device": device_name(model.device),
        "threads": torch.get_num_threads(),
        "other_work": busy,
    }
    optional = {"build": pl.Float64, "break_even": pl.Float64}
    return keyed(pl.DataFrame(rows, schema_overrides=optional), constants, TIMING)


def _times(timed: list[float], build: float | None, plain: float) -> dict[str, float | None]:
    """Median and quartiles of times, and the number of queries after which the cache pays off."""
    low, median, high = np.quantile(timed, [0.25, 0.5, 0.75])
    pays = build is not None and median < plain
    return {
        "milliseconds": median,
        "low": low,
        "high": high,
        "build": build,
        "break_even": build / (plain - median) if build is not None and pays else None,
    }


def _size(way: Way) -> dict[str, int]:
    if way.cache is None:
        return {"kept": 0, "kept_bytes": 0}
    return {"kept": way.cache.kept, "kept_bytes": way.cache.prefix.bytes}


def _ways(
    model: PreTrainedModel,
    demonstrations: Demonstrations,
    prompts: pl.DataFrame,
    together: int,
    also: Collection[str],
) -> list[Way]:
    """Full prompts, and queries after every kind of cache."""
    slices = [prompts[start : start + together] for start in range(0, len(prompts), together)]
    whole = [batch for rows in slices for batch in batches_of(rows, _ALL, model.device)]
    heads = model.config.get_text_config().num_attention_heads
    depth = len(attention_layers(model.config))
    shape = (depth, heads, whole[0].label_positions.shape[1])
    nothing = torch.zeros(shape, device=model.device)
    ways = [Way("full_prompt", [(batch, []) for batch in whole])]
    for name, setting in _CACHED.items():
        if name in OPTIONAL and name not in also:
            continue
        if runs_again(model.config) and name != TEXT_ANCHOR:
            continue
        cache = compress(model, demonstrations, setting)
        shared = demonstrations.prefix.tokens
        batches: list[tuple[Batch, list[Intervention]]] = []
        for rows in slices:
            for batch in batches_of(rows, _ALL, model.device, shared, cache.first_position):
                in_force: list[Intervention] = [cache.prefix]
                if name in _REWEIGHTED:
                    words = batch.label_words
                    keys = words._replace(at=cache.prefix.keys_of(words.at))
                    in_force.append(Reweight(nothing, batch.target_rows, keys))
                batches.append((batch, in_force))
        ways.append(Way(name, batches, cache))
    return ways


def _build(model: PreTrainedModel, demonstrations: Demonstrations, way: Way) -> float | None:
    """Milliseconds to build a way's cache from the demonstrations' tokens, median of three runs.

    None for re-weighting, which also requires fitting β to training texts.
    """
    if way.cache is None or way.name in _REWEIGHTED:
        return None
    setting = _CACHED[way.name]
    token_ids = demonstrations.prompt["token_ids"][: demonstrations.prefix.tokens]

    def build() -> None:
        if setting.method == "text_anchor":
            compress(model, demonstrations, setting)
        else:
            prefix = compute_prefix(model, token_ids)
            compress(model, Demonstrations(demonstrations.prompt, prefix, {}), setting)

    return 1000 * float(np.median([seconds(build) for _ in range(3)]))


class OtherWork:
    """The share of the machine's cores that other processes keep busy from here on."""

    def __init__(self) -> None:
        self._wall, self._own = time.perf_counter(), time.process_time()
        self._all = _busy_seconds()

    def share(self) -> float | None:
        """From 0 to 1; None where the system does not say."""
        elapsed, own = time.perf_counter() - self._wall, time.process_time() - self._own
        now = _busy_seconds()
        if now is None or self._all is None:
            return None
        of_others = now - self._all - own
        return min(1.0, max(0.0, of_others / (elapsed * (os.cpu_count() or 1))))


def _busy_seconds() -> float | None:
    """CPU seconds that all processes have taken, and other machines on the same host."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0].split()
    except OSError:
        return None
    user, nice, system, _, _, *interrupts_and_steal = map(int, fields[1:9])
    ticks = user + nice + system + sum(interrupts_and_steal)
    return ticks / float(os.sysconf("SC_CLK_TCK"))


def seconds(run: Callable[[], object]) -> float:
    """Wall time of one run, until all GPUs have finished."""
    _finish()
    start = time.perf_counter()
    run()
    _finish()
    return time.perf_counter() - start


def _finish() -> None:
    for number in range(torch.cuda.device_count()):
        torch.cuda.synchronize(number)


def device_name(device: torch.device) -> str:
    """The GPU's name and the number of visible GPUs, or "cpu"."""
    if device.type != "cuda":
        return "cpu"
    count = torch.cuda.device_count()
    return f"{count} x {torch.cuda.get_device_name(device)}"


def measure(cell: Cell) -> None:
    spec, prompts = cell.spec, cell.read("prompts", PROMPTS)
    run = runnable(prompts, "fixed")[: spec["queries"]]
    timing = measure_timing(cell.model(run, cost, spec), prompts, spec)
    cell.write(TIMING, timing, cell.described(timing=spec))
