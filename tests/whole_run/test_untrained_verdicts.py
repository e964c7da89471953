"""No discriminating claim is supported for a network that was not trained."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from anchorflow.measure.attention import measure_attention
from anchorflow.measure.compression import measure_compression
from anchorflow.measure.isolation import Setting, measure_isolation
from anchorflow.measure.saliency import measure_saliency
from anchorflow.model.language_model import open_model
from anchorflow.prepare.untrained import initialized, shuffled
from anchorflow.random_draws import generator
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.store.checksums import fingerprints, write_json
from anchorflow.summarize.by_task import AVERAGE
from anchorflow.summarize.claims import DISCRIMINATING, load_claims, summarize_claims
from anchorflow.summarize.verdicts import NOT_TESTED, SUPPORTED
from stub_tokenizers import Decoder
from tiny_models import FAMILIES, PREFIX, VOCABULARY, shared_prompts

SEEDS, TEXTS, DRAWS = 4, 6, 4
SETTINGS = [
    Setting("mask", positions, 0, side, 5)
    for positions in ("label", "random", "before", "after", "text")
    for side in ("first", "last")
]
COMPRESSION: dict[str, Any] = {
    "methods": ["hidden_anchor", "text_anchor", "hidden_random", "format_only", "label_only"],
    "draws": 2,
    "shares": [],
    "positions": "original",
}


def prompts_of(seed: int) -> pl.DataFrame:
    """Prompts of random tokens whose demonstrations end with their label words."""
    random = generator(seed, "prompts")
    rows = shared_prompts([12 + text for text in range(TEXTS)]).to_dicts()
    shared = random.integers(24, VOCABULARY, PREFIX).tolist()
    for place, token in zip(rows[0]["label_positions"], rows[0]["label_tokens"], strict=True):
        shared[place] = token
    for row in rows:
        own = random.integers(24, VOCABULARY, row["tokens"] - PREFIX).tolist()
        row |= {"seed": seed, "token_ids": shared + own}
    return pl.DataFrame(rows, schema=frame_schema(PROMPTS))


def measured(folder: Path, name: str) -> dict[str, pl.DataFrame]:
    """Everything that claims read of a twin, over all seeds."""
    model = open_model(folder, torch.device("cpu"))
    parts: dict[str, list[pl.DataFrame]] = {}
    for seed in range(SEEDS):
        prompts = prompts_of(seed).with_columns(model=pl.lit(name))
        attention, predictions = measure_attention(model, Decoder(), prompts, 1000)
        found = {
            "attention": attention,
            "predictions": predictions,
            "saliency": measure_saliency(model, prompts, 1000, "fixed"),
            "isolation": measure_isolation(model, prompts, SETTINGS, 5, 1000),
            "compression": measure_compression(model, prompts, None, COMPRESSION, None, 1000),
        }
        for table, rows in found.items():
            parts.setdefault(table, []).append(rows)
    return {table: pl.concat(rows) for table, rows in parts.items()}


def verdicts(tables: Mapping[str, pl.DataFrame], **twins: pl.DataFrame) -> pl.DataFrame:
    return summarize_claims(["news"], "mask", 0.1, 0.95, **tables, **twins)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["initialized", "shuffled"])
@pytest.mark.parametrize("family", ["gemma3", "gpt2"])
def test_no_discriminating_claim_is_supported_for_a_network_without_training(
    tmp_path: Path, family: str, kind: str
) -> None:
    base = deep_model(tmp_path / "base", family)
    twins = []
    for draw in range(DRAWS):
        folder = tmp_path / str(draw)
        made = (initialized if kind == "initialized" else shuffled)(base, draw)
        twins.append(measured(saved(made, folder), f"tiny+{kind}-{draw}"))
    discriminating = {claim.name for claim in load_claims() if claim.form == DISCRIMINATING}
    supported, tested = [], set()
    for draw, own in enumerate(twins):
        others = [each for place, each in enumerate(twins) if place != draw]
        against = {
            f"untrained_{table}": pl.concat([each[table] for each in others]) for table in own
        }
        found = verdicts(own, **against).filter(
            pl.col("task") == AVERAGE, pl.col("claim").is_in(discriminating)
        )
        supported += found.filter(verdict=SUPPORTED)["claim"].to_list()
        tested |= set(found.filter(pl.col("verdict") != NOT_TESTED)["claim"])
    assert len(tested) >= 12  # flow, isolation, and compression
    assert supported == []


def deep_model(folder: Path, family: str) -> Path:
    """A model of ten layers with random weights, in place of trained ones."""
    kind, settings = FAMILIES[family]
    depth = {"gpt2": {"n_layer": 10}}.get(family, {"num_hidden_layers": 10})
    given = {k: v for k, v in settings.items() if k != "attn_implementation"} | depth
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, vocab_size=VOCABULARY, **given)
    model = AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.normal_(0, 0.25)
    return saved(model, folder)


def saved(model: Any, folder: Path) -> Path:
    model.float().save_pretrained(folder)
    files = fingerprints(folder.glob("*.safetensors"))
    write_json(folder / "model.json", {"name": "tiny", "dtype": "float32", "files": files})
    return folder
