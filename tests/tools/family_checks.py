"""What anchorflow says of a family of models, compared with transformers' plain eager attention.

Each analysis measures two prompts on a tiny model, and its numbers are compared with those of
``plain_softmax.py``, in which anchorflow has no part.
"""

import contextlib
import tempfile
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import polars as pl
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from anchorflow.analyses.compression.measure import (
    FIRST_ONLY,
    FULL,
    Setting,
    compress,
    measure_compression,
)
from anchorflow.analyses.compression.observations import observe
from anchorflow.analyses.flow.measure import flow_means, measure_flow
from anchorflow.analyses.isolation.measure import (
    HIDDEN,
    UNTOUCHED,
    isolated_positions,
    measure_isolation,
    settings_of,
)
from anchorflow.analyses.kernel.measure import measure_kernel
from anchorflow.analyses.reweighting.measure import measure_reweighting
from anchorflow.analyses.transplant.measure import measure_transplant
from anchorflow.analyses.transplant.measure import settings_of as transplants_of
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import adopt
from anchorflow.model.beta_fit import beta_of
from anchorflow.model.eager_comparison import check_against_eager
from anchorflow.model.prefix import shared_token_ids
from anchorflow.model.target_attention import find_writes
from anchorflow.store.checksums import fingerprints, write_json
from kernel_prompts import SPANS, each_alone, kernel_prompts
from plain_softmax import Hidden, plain_logits
from stub_tokenizers import Decoder
from tiny_families import tiny_config, tiny_family
from tiny_models import PREFIX, shared_prompts

EXACT = 1e-4  # allowed difference, relative to the largest entry
_QUERIES = [5, 17]  # tokens; both prompts exceed every window of the tiny models
_BATCH = 100  # tokens
_FIT = {"learning_rates": [0.1], "epochs": 2, "batch_size": 0}
_ANCHORS = [0, 8, 9, 10, 18, 19, 20, 28, 29]  # label words, and formatting of the same prompts
_COMPRESSION = {"methods": ["hidden_anchor", "snapkv"], "shares": [], "draws": 1}


class Pair:
    """A family's tiny model with anchorflow's attention, and the same one with eager attention."""

    def __init__(self, kind: str) -> None:
        self.ours, self.eager = tiny_family(kind), tiny_family(kind)
        adopt(self.ours)
        self.prompts = shared_prompts(_QUERIES)
        self.rows = self.prompts.to_dicts()
        _, softmax = plain_logits(self.eager, self.rows[0]["token_ids"])
        self.attending = len(softmax.weights)  # layers that attend
        modules = " ".join(name for name, _ in self.eager.named_modules())
        layers = self.eager.config.get_text_config().num_hidden_layers
        self.carries_state = self.attending < layers or "mamba" in modules

    @cached_property
    def undisturbed(self) -> Tensor:
        """Plain log-odds of the labels, [examples, C]."""
        return self.answers(lambda _: None)

    @cached_property
    def saliency(self) -> Tensor:
        """Plain S_wp, S_pq, and S_ww of all examples and layers, [examples · L, 3]."""
        flows = []
        for row in self.rows:
            logits, softmax = plain_logits(self.eager, row["token_ids"])
            labels = torch.tensor([row["label"]])
            cross_entropy(logits[None, row["label_tokens"]], labels).backward()
            places = torch.tensor(row["label_positions"])
            target = torch.tensor(row["target_position"])
            for significance in softmax.significance():
                below = significance.abs().tril(-1)
                means = flow_means(below.sum(-1), below[-1, places], places, target)
                flows.append(torch.stack(means))
        return torch.stack(flows)

    def answers(self, hidden: Callable[[Mapping[str, Any]], Hidden | None]) -> Tensor:
        """As ``undisturbed``, with keys hidden for each prompt."""
        with torch.no_grad():
            logits = [
                plain_logits(self.eager, row["token_ids"], hidden(row))[0] for row in self.rows
            ]
        return log_odds(torch.stack(logits)[:, self.rows[0]["label_tokens"]].softmax(-1))


def log_odds(probabilities: Tensor) -> Tensor:
    """Logarithms of label probabilities [examples, C], minus their mean.

    Their differences remain visible if all probabilities are nearly the same.
    """
    logarithms = probabilities.double().log()
    return logarithms - logarithms.mean(-1, keepdim=True)


def difference(found: Tensor, plain: Tensor) -> float:
    """The largest difference, relative to the largest entry of ``plain``."""
    found, plain = found.detach(), plain.detach()
    return float((found.double() - plain.double()).abs().max() / plain.double().abs().max())


def compare_flow(pair: Pair, demonstrations: str = "per_example") -> float:
    """S_wp, S_pq, and S_ww of all layers, by autograd through plain attention."""
    prompts = pair.prompts.with_columns(demonstrations=pl.lit(demonstrations))
    found = measure_flow(pair.ours, prompts, _BATCH, demonstrations).sort("example", "layer")
    columns = torch.tensor(found.select("s_wp", "s_pq", "s_ww").rows())
    return max(map(difference, columns.T, pair.saliency.T))


def compare_isolation(pair: Pair) -> float:
    """Label words and random tokens cut off in the first, the last, and all layers."""
    counts = sorted({1, pair.attending})
    settings = settings_of(["mask"], counts, 1, pair.attending, "tiny")
    found = measure_isolation(pair.ours, pair.prompts, settings, 4, _BATCH)

    def isolated(positions: list[int], layers: range, row: Mapping[str, Any]) -> Hidden:
        tokens = len(row["token_ids"])
        cut = torch.zeros(tokens, tokens, dtype=torch.bool)
        cut[positions] = torch.ones(tokens, tokens, dtype=torch.bool).tril(-1)[positions]
        return lambda layer, _: cut & torch.tensor(layer in layers)

    def without_demonstrations(row: Mapping[str, Any]) -> Hidden:
        return _kept([torch.tensor([[0]])] * pair.attending, row)

    plain = {UNTOUCHED: pair.undisturbed}
    if not pair.carries_state:  # which says something of the demonstrations, if it is not run anew
        plain[HIDDEN] = pair.answers(without_demonstrations)
    for setting in settings:
        positions = isolated_positions(setting, pair.rows[0], PREFIX)
        assert positions is not None
        layers = setting.isolated_layers(pair.attending)
        plain[setting] = pair.answers(partial(isolated, positions, layers))
    return _largest(found, plain)


def compare_compression(pair: Pair) -> float:
    """Queries that see all, the first, the anchors', or each head's own tokens of the prefix."""
    spec = {**_COMPRESSION, "positions": "original"}
    found = measure_compression(pair.ours, pair.prompts, {}, spec, _BATCH)
    shown = observe(pair.ours, shared_token_ids(pair.prompts), pair.rows[0])
    of_heads = compress(pair.ours, shown, Setting("snapkv")).prefix.layers
    kept = {
        FIRST_ONLY: [torch.tensor([[0]])] * pair.attending,
        Setting("hidden_anchor"): [torch.tensor([_ANCHORS])] * pair.attending,
        Setting("snapkv"): [of_heads[number].positions for number in sorted(of_heads)],
    }
    plain = {setting: pair.answers(partial(_kept, layers)) for setting, layers in kept.items()}
    plain[FULL] = pair.undisturbed
    if not {setting.method for setting in plain} <= set(found["method"]):
        raise InputError("layers carry a state, which cannot be compressed")
    return _largest(found, plain)


def _kept(kept: list[Tensor], row: Mapping[str, Any]) -> Hidden:
    """Hides all of the prefix but these positions, [1 or G, kept] of each layer, from queries."""
    tokens = len(row["token_ids"])

    def hidden(layer: int, heads: int) -> Tensor:
        positions = kept[layer]
        gone = torch.ones(len(positions), tokens, dtype=torch.bool)
        gone[:, PREFIX:] = False
        gone.scatter_(1, positions, False)
        gone = gone.repeat_interleave(heads // len(positions), 0)[:, None]
        return gone & (torch.arange(tokens) >= PREFIX)[:, None]

    return hidden


def compare_reweighting(pair: Pair) -> float:
    """Losses of two steps and predictions under the fitted β, by autograd through all of it."""
    training = pair.prompts.with_columns(demonstrations=pl.lit("training"))
    third = training[:1].with_columns(pl.lit(2).cast(training["label"].dtype).alias("label"))
    training = pl.concat([training, third])  # a text of every label
    fitted = measure_reweighting(
        pair.ours,
        pl.concat([pair.prompts, training]),
        [" a", " b", " c"],
        {**_FIT, "baselines": [], "further_rates": []},
        _BATCH,
    )
    beta = beta_of(fitted.beta)
    weights = torch.zeros_like(beta, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=0.1)
    losses = []
    for _ in range(_FIT["epochs"]):
        logits = torch.stack([_reweighted(pair, row, weights) for row in training.to_dicts()])
        loss = cross_entropy(logits, torch.tensor(training["label"].to_list()))
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.detach())
        optimizer.step()
    steps = torch.tensor(fitted.descent.sort("step")["loss"].to_list())
    with torch.no_grad():
        logits = torch.stack([_reweighted(pair, row, beta) for row in pair.rows])
    return max(
        difference(steps, torch.stack(losses)),
        difference(_found(fitted.predictions, method="reweighted"), log_odds(logits.softmax(-1))),
        difference(_found(fitted.predictions, method="vanilla"), pair.undisturbed),
    )


def _reweighted(pair: Pair, row: Mapping[str, Any], beta: Tensor) -> Tensor:
    """Label logits [C] with exp(β) on the target's attention to the label words."""
    tokens, target = len(row["token_ids"]), row["target_position"]
    at = torch.zeros(tokens, tokens, dtype=torch.bool)
    at[target, row["label_positions"]] = True

    def factors(layer: int, heads: int) -> Tensor:
        whole = torch.ones(heads, tokens, tokens)
        return whole.masked_scatter(at.expand_as(whole), beta[layer].exp())

    logits, _ = plain_logits(pair.eager, row["token_ids"], factors=factors)
    return logits[row["label_tokens"]]


def compare_kernel(pair: Pair) -> float:
    """Every head's attention from the target to each demonstration."""
    prompts = kernel_prompts(_QUERIES)
    tables = measure_kernel(pair.ours, Decoder(), prompts, {}, each_alone(prompts), [0], _BATCH)
    plain = []
    with torch.no_grad():
        for row in pair.rows:
            _, softmax = plain_logits(pair.eager, row["token_ids"])
            to_all = torch.stack([weights[:, -1] for weights in softmax.weights])  # [L, H, T]
            # The prompt's first token is no kernel weight.
            of = [to_all[:, :, max(start, 1) : end] for start, end in SPANS]
            largest, mean = torch.stack([w.amax(-1) for w in of], -1), [w.mean(-1) for w in of]
            words = to_all[:, :, row["label_positions"]]
            plain.append(torch.stack([largest, words, torch.stack(mean, -1)]))
    rows = tables["attention"].sort("example", "layer", "head")
    found = [torch.tensor(rows[f"attention_{kind}"].to_list()) for kind in ("max", "label", "mean")]
    expected = torch.stack(plain, 1).flatten(1, 3)  # [kinds, examples · L · H, N]
    return max(
        *map(difference, found, expected),
        difference(_found(tables["predictions"]), pair.undisturbed),
    )


def _found(rows: pl.DataFrame, **of: Any) -> Tensor:
    """Log-odds of the labels that a table predicts, by example."""
    chosen = rows.filter(*(pl.col(name).eq_missing(value) for name, value in of.items()))
    return log_odds(torch.tensor(chosen.sort("example")["probabilities"].to_list()))


def _largest(rows: pl.DataFrame, plain: Mapping[Any, Tensor]) -> float:
    """The largest difference over all settings of a table."""
    return max(difference(_found(rows, **at._asdict()), answers) for at, answers in plain.items())


COMPARED: Mapping[str, Callable[[Pair], float]] = {
    "flow": compare_flow,
    "flow after shared demonstrations": partial(compare_flow, demonstrations="fixed"),
    "isolation": compare_isolation,
    "reweighting": compare_reweighting,
    "compression": compare_compression,
    "kernel": compare_kernel,
}


def check_runs(kind: str) -> None:
    """Heads' writes and transplants of residual streams run, or are refused by a sentence."""
    pair = Pair(kind)
    with contextlib.suppress(InputError):
        find_writes(pair.ours)
    settings = transplants_of(["label"], ["permuted"], ["residual"], 2, 1, pair.attending)
    with contextlib.suppress(InputError):
        measure_transplant(pair.ours, pair.prompts, settings, _BATCH)


def compare_prepared(kind: str) -> float:
    """What the check finds that every model undergoes when it is prepared."""
    model = tiny_family(kind)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model.save_pretrained(folder)
        tiny_config(kind).save_pretrained(folder)  # the whole one, not of the text part alone
        card = {"name": "tiny", "dtype": "float32", "architecture": model.config.model_type}
        card["files"] = fingerprints(folder.glob("*.safetensors"))
        write_json(folder / "model.json", card)
        found = check_against_eager(kind, folder)
    return max(found["attention"], found["model"])
