"""Saliency between all pairs of tokens, for the information-flow pages ([A] Fig. 1).

The analysis ``flow`` averages these values; here all of them are kept. Memory is quadratic in the
length of the prompt, so prompts run one at a time. In addition, each of the three flows is cut in
single layers, and random attention from the target of the weight of S_pq, and the change of the
prompt's answer is measured; and every head's attention at the target is followed to what it writes
for which label.
"""

import logging
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.analyses.flow.measure import ALL, FlowSums, Saliency, label_loss
from anchorflow.analyses.flow_page import (
    SHOWN_HEADS,
    SHOWN_KNOCKOUTS,
    SHOWN_PROMPTS,
    TOKEN_SALIENCY,
)
from anchorflow.analyses.heads.measure import Classes, effects_over_others, record_writes
from anchorflow.analyses.knockout.measure import Cut
from anchorflow.config.errors import InputError
from anchorflow.depth import bands_of
from anchorflow.model.attention_function import intervene
from anchorflow.model.batches import Batch, Budget, run_batches, runnable
from anchorflow.model.cell import Cell
from anchorflow.model.layer_kinds import attention_layers
from anchorflow.model.layers import keep_outputs, resume
from anchorflow.model.logits import label_logits, target_label_logits
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.target_attention import HeadWrites, find_writes
from anchorflow.model.tokenizer import open_tokenizer, token_groups
from anchorflow.prepare.label_words import taken_together
from anchorflow.prepare.positions import AS_HEAVY, edges_of, random_ranks
from anchorflow.random_draws import generator
from anchorflow.schemas.frames import frame_schema, keyed, places_of
from anchorflow.schemas.prompts import PROMPTS

log = logging.getLogger(__name__)

FLOWS = ("before_to_label", "label_to_target", "others")  # S_wp, S_pq, S_ww
CUTS = (*FLOWS, AS_HEAVY)


class TokenSaliency(FlowSums):
    """A sink that also keeps I_l of a single prompt, as ``matrices`` [L, T, T], on the CPU."""

    def __init__(self, batch: Batch, layers: int) -> None:
        super().__init__(batch)
        tokens = batch.input_ids.shape[1]
        self.matrices = torch.zeros(layers, tokens, tokens)

    def take(
        self, layer: int, rows: slice, keys: slice, saliency: Tensor, examples: slice = ALL
    ) -> None:
        """Keep a chunk, without its diagonal."""
        # First the parent, which makes the chunk positive in place and clears the diagonal.
        super().take(layer, rows, keys, saliency, examples)
        self.matrices[layer, rows, keys] = saliency[0].cpu()


def cost(prompts: Prompts, _: Mapping[str, Any], depth: int) -> Cost:
    """Every prompt forward and backward, forward three times, and with each flow cut in each layer.

    Runs with cuts start from the layer that is cut. Prompts that are answered wrongly before the
    first right ones are not counted.
    """
    shares = [(depth - first) / depth for _, first, _ in bands_of("single", depth)]
    return Cost((4 + len(CUTS) * sum(shares)) * prompts.whole, prompts.whole, whole=True)


def measure_flow_page(
    model: PreTrainedModel,
    tokenizer: Tokenizer,
    prompts: pl.DataFrame,
    examples: int,
    demonstrations: str = "per_example",
) -> tuple[pl.DataFrame, ...]:
    """I_l(i, j) of all tokens j < i in every layer, for some prompts that fit the context.

    They are the first ones that the model answers rightly, then the first others, in the order of
    examples. If fewer than ``examples`` prompts fit the context, there are fewer.

    Source: Wang et al. 2023, eq. 1.
    """
    fitting = taken_together(runnable(prompts, demonstrations).sort("example"))
    chosen = rightly_answered(model, fitting, examples)
    if len(chosen) < examples:
        log.info("Only %d of %d requested prompts can be run.", len(chosen), examples)
    tables = (TOKEN_SALIENCY, SHOWN_PROMPTS, SHOWN_KNOCKOUTS, SHOWN_HEADS)
    found = [tuple(pl.DataFrame(schema=frame_schema(table)) for table in tables)]
    writing = writing_of(model)
    rows_of = {row["example"]: row for row in chosen.iter_rows(named=True)}
    places = attention_layers(model.config)
    layers = len(places)

    def measure(batch: Batch) -> tuple[pl.DataFrame, ...]:
        keys = chosen.select("model", "task", "seed").row(0, named=True)
        keys["example"] = batch.examples[0]
        sink = TokenSaliency(batch, layers)
        with intervene(Saliency(sink)):
            logits = label_logits(model, batch)
            label_loss(logits, batch).backward()
        means = sink.means(layers)  # raises if a layer is missing or its saliency is zero
        probabilities = logits.detach().softmax(-1).cpu()
        texts = token_texts(tokenizer, batch.input_ids[0].tolist())
        query = rows_of[batch.examples[0]]["query_start"]
        frame = pl.DataFrame(
            {
                "demonstrations": demonstrations,
                "label": batch.labels.tolist(),
                "prediction": probabilities.argmax(-1).tolist(),
                "probabilities": probabilities.tolist(),
                "texts": [texts],
                "token_groups": [token_groups(batch.label_tokens.tolist())],
                "query": "".join(texts[query:]),
                "strongest_wp": places[int(means.s_wp[:, 0].argmax())],
                "strongest_pq": places[int(means.s_pq[:, 0].argmax())],
            }
        )
        cut = cut_flows(model, batch, rows_of[batch.examples[0]])
        heads = found[0][3] if writing is None else read_and_written(model, writing, batch)
        parts = (_rows(sink.matrices), frame, cut, heads)
        return tuple(keyed(of, keys, table) for of, table in zip(parts, tables, strict=True))

    alone = run_batches(chosen, Budget(1), model.device, measure)  # one prompt per batch
    for _, frames in tqdm(alone, total=len(chosen), desc="token saliency", unit="example"):
        found.append(frames)
    return tuple(
        pl.concat(parts).sort(table.keys)
        for parts, table in zip(zip(*found, strict=True), tables, strict=True)
    )


def rightly_answered(model: PreTrainedModel, prompts: pl.DataFrame, examples: int) -> pl.DataFrame:
    """The first prompts with the right answer; if these are too few, the first others as well."""

    def is_right(batch: Batch) -> bool:
        return bool(target_label_logits(model, batch).argmax(-1).eq(batch.labels).all())

    right: list[int] = []
    others: list[int] = []
    for example in prompts["example"] if examples else ():
        ((_, answer),) = run_batches(
            prompts.filter(example=example), Budget(1), model.device, is_right
        )
        (right if answer else others).append(example)
        if len(right) == examples:
            break
    return prompts.filter(pl.col("example").is_in([*right, *others][:examples]))


def writing_of(model: PreTrainedModel) -> HeadWrites | None:
    """Where heads write, or None for an architecture in which this is not known."""
    try:
        return find_writes(model)
    except InputError as error:
        log.info("Pages are without single heads. %s", error)
        return None


@torch.no_grad()
def read_and_written(model: PreTrainedModel, writing: HeadWrites, batch: Batch) -> pl.DataFrame:
    """What every head reads at the target, and what it writes for which label, by token.

    ``batch`` is the whole prompt alone. ``writes`` are in logits, by class of labels.
    """
    tokens = int(batch.target_rows[0]) + 1
    members = torch.eye(batch.input_ids.shape[1], device=batch.input_ids.device)[None, :, :tokens]
    classes = Classes.of(batch.label_tokens.tolist())
    recorded, scales = record_writes(model, writing, classes, batch, members)
    writes = effects_over_others(recorded, scales)[0].numpy()  # [L, H, T, C]
    attention = np.stack([recorded.attention[layer][0].numpy() for layer in range(len(writes))])
    return pl.DataFrame(
        {
            **places_of(attention.shape, layer=None, head=None, token=None),
            "attention": attention.ravel(),
            "writes": writes.reshape(-1, writes.shape[-1]).tolist(),
        }
    )


def cut_flows(model: PreTrainedModel, batch: Batch, prompt: Mapping[str, Any]) -> pl.DataFrame:
    """Effect of cutting all edges of each flow in single layers on the answer to one prompt.

    In addition, as much attention of the target to random other tokens as S_pq has is cut. Layers
    are the single layers of ``knockout``. All cuts run as one batch, from the cut layer on. It is
    an error if a cut changes no attention, as rounding in a 16-bit dtype can cause. ``loss_change``
    is in nats.
    """
    of_flows = np.stack([edges_of(prompt, name) for name in FLOWS])
    to_target, none = of_flows[FLOWS.index("label_to_target")], np.zeros_like(of_flows)
    random = generator(prompt["seed"], prompt["task"], "flow_page", AS_HEAVY, prompt["example"])
    edges, heavy, ranks = (
        torch.from_numpy(np.concatenate([first, last[None]]))
        for first, last in (
            (of_flows, none[0]),
            (none, to_target),
            (none.astype(int), random_ranks(to_target, random)),
        )
    )
    places = attention_layers(model.config)
    layers = [first for _, first, _ in bands_of("single", len(places))]
    with keep_outputs(model, [layer - 1 for layer in layers if layer]) as kept:
        plain = target_label_logits(model, batch)
    together = repeated(batch, len(CUTS))
    labels = together.labels.cpu()
    before = cross_entropy(plain.cpu().double(), labels[:1])
    rows = []
    for layer in layers:
        cut = Cut(edges, [layer], "mask")
        random_cut = Cut(heavy, [layer], "mask", ranks)
        again = resume(model, kept[layer - 1].repeated(len(CUTS))) if layer else nullcontext()
        with intervene(cut, random_cut), again:
            logits = target_label_logits(model, together).cpu()
        if not cut.changed:
            raise InputError(
                f"flow_page: cutting attention in layer {places[layer]} changed nothing in model "
                f'{prompt["model"]}; set "dtype: float32" for it, or "flow_page: {{examples: 0}}".'
            )
        losses = cross_entropy(logits.double(), labels, reduction="none") - before
        probabilities = logits.softmax(-1)
        rows += [
            {
                "edges": name,
                "layer": layer,
                "loss_change": losses[row].item(),
                "prediction": int(probabilities[row].argmax()),
                "probabilities": probabilities[row].tolist(),
            }
            for row, name in enumerate(CUTS)
        ]
    return pl.DataFrame(rows)


def repeated(batch: Batch, times: int) -> Batch:
    """A batch with one prompt several times."""
    of_prompt = (
        *("input_ids", "lengths", "labels", "target_positions", "label_positions", "label_ends"),
        *("demonstration_starts", "demonstration_ends", "demonstration_labels"),
    )
    values = {name: getattr(batch, name) for name in of_prompt}
    several = {name: value.expand(times, *value.shape[1:]) for name, value in values.items()}
    return replace(batch, examples=batch.examples * times, **several)


def token_texts(tokenizer: Tokenizer, token_ids: list[int]) -> list[str]:
    """Each token as text with its leading space; U+FFFD for bytes that are no text by themselves.

    Some tokenizers drop the leading space of the first token that they decode. The text of a token
    is therefore what it adds when decoded after a copy of itself.
    """
    texts = []
    for token in token_ids:
        once = tokenizer.decode([token], skip_special_tokens=False)
        twice = tokenizer.decode([token, token], skip_special_tokens=False)
        texts.append(twice[len(once) :] if twice.startswith(once) else once)
    return texts


def _rows(matrices: Tensor) -> pl.DataFrame:
    """The entries of [L, T, T] below the diagonal, one row per layer and token."""
    layers, tokens = matrices.shape[:2]
    values = matrices.numpy()
    return pl.DataFrame(
        {
            **places_of((layers, tokens), layer=None, token=None),
            "significance": pl.Series(
                [values[layer, i, :i] for layer in range(layers) for i in range(tokens)],
                dtype=pl.List(pl.Float32),
            ),
        }
    )


def measure(cell: Cell) -> None:
    spec, prompts = cell.spec, cell.read("prompts", PROMPTS)
    tokenizer = open_tokenizer(cell.input.tokenizer)
    fitting = runnable(prompts, spec["demonstrations"])
    longest = fitting.sort("tokens", descending=True).head(spec["examples"])
    model = cell.model(longest, cost, spec, batch_tokens=1)  # one prompt at a time
    saliency, kept, cuts, heads = measure_flow_page(model, tokenizer, prompts, **spec)
    settings = cell.described(flow_page=spec)
    cell.write(TOKEN_SALIENCY, saliency, settings, "saliency")
    cell.write(SHOWN_PROMPTS, kept, settings, "prompts")
    cell.write(SHOWN_KNOCKOUTS, cuts, settings, "knockouts")
    cell.write(SHOWN_HEADS, heads, settings, "heads")
