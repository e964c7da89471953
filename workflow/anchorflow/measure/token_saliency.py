"""Saliency between all pairs of tokens, for the information-flow pages ([A] Fig. 1).

The saliency stage averages these values; here they are kept in full. Memory is quadratic in the
length of the prompt, so prompts run one at a time.
"""

import logging

import polars as pl
import torch
from tokenizers import Tokenizer
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.measure.saliency import ALL, FlowSums, Saliency, label_loss
from anchorflow.model.attention_function import intervene
from anchorflow.model.batches import Batch, Budget, run_batches, runnable
from anchorflow.model.language_model import label_logits
from anchorflow.schemas.frames import frame_schema, keyed
from anchorflow.schemas.token_saliency import SHOWN_PROMPTS, TOKEN_SALIENCY

log = logging.getLogger(__name__)


class TokenSaliency(FlowSums):
    """A sink that keeps I_l of one prompt as ``matrices`` [L, T, T], in addition to sums."""

    def __init__(self, batch: Batch, layers: int) -> None:
        super().__init__(batch)
        tokens = batch.input_ids.shape[1]
        self.matrices = torch.zeros(layers, tokens, tokens)

    def take(
        self, layer: int, rows: slice, keys: slice, saliency: Tensor, examples: slice = ALL
    ) -> None:
        """Keep a chunk, without the diagonal (a token's flow to itself)."""
        super().take(layer, rows, keys, saliency, examples)
        self.matrices[layer, rows, keys] = saliency[0].cpu()


def measure_token_saliency(
    model: PreTrainedModel,
    tokenizer: Tokenizer,
    prompts: pl.DataFrame,
    examples: int,
    demonstrations: str = "per_example",
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """I_l(i, j) of all tokens j < i in every layer, for the first runnable prompts.

    Parameters
    ----------
    prompts : DataFrame
        ``PROMPTS`` of one model, task, and seed.
    examples : int
        Number of prompts; fewer if not enough of them fit the context.
    demonstrations : str
        ``per_example`` or ``fixed``, as in the saliency stage.

    Returns
    -------
    tuple of DataFrame
        Columns of ``TOKEN_SALIENCY`` and of ``SHOWN_PROMPTS``, ordered by example.

    Raises
    ------
    InputError
        If gradients are missing, zero, or not finite.

    Source: Wang et al. 2023, eq. 1.
    """
    chosen = runnable(prompts, demonstrations).sort("example").head(examples)
    if len(chosen) < examples:
        log.info("Of %d requested prompts, %d can be run.", examples, len(chosen))
    flows = [pl.DataFrame(schema=frame_schema(TOKEN_SALIENCY))]
    shown = [pl.DataFrame(schema=frame_schema(SHOWN_PROMPTS))]
    layers: int = model.config.get_text_config().num_hidden_layers

    def measure(batch: Batch) -> tuple[pl.DataFrame, pl.DataFrame]:
        keys = chosen.select("model", "task", "seed").row(0, named=True)
        keys["example"] = batch.examples[0]
        sink = TokenSaliency(batch, layers)
        with intervene(Saliency(sink)):
            logits = label_logits(model, batch)
            label_loss(logits, batch).backward()
        sink.means(layers)  # raises if a layer is missing or its saliency is zero
        probabilities = logits.detach().softmax(-1).cpu()
        frame = pl.DataFrame(
            {
                "demonstrations": demonstrations,
                "label": batch.labels.tolist(),
                "prediction": probabilities.argmax(-1).tolist(),
                "probabilities": probabilities.tolist(),
                "texts": [token_texts(tokenizer, batch.input_ids[0].tolist())],
            }
        )
        flow = keyed(_rows(sink.matrices), keys, TOKEN_SALIENCY)
        return flow, keyed(frame, keys, SHOWN_PROMPTS)

    alone = run_batches(chosen, Budget(1), model.device, measure)
    for _, frames in tqdm(alone, total=len(chosen), desc="token saliency", unit="example"):
        flows.append(frames[0])
        shown.append(frames[1])
    return pl.concat(flows).sort("example", "layer", "token"), pl.concat(shown).sort("example")


def token_texts(tokenizer: Tokenizer, token_ids: list[int]) -> list[str]:
    """Each token as text with its leading space; U+FFFD for bytes that are not valid alone.

    Some tokenizers drop the space of the first token that they decode. The text of a token is
    therefore what it adds after a copy of itself.
    """
    texts = []
    for token in token_ids:
        once = tokenizer.decode([token], skip_special_tokens=False)
        twice = tokenizer.decode([token, token], skip_special_tokens=False)
        texts.append(twice[len(once) :] if twice.startswith(once) else once)
    return texts


def _rows(matrices: Tensor) -> pl.DataFrame:
    """The part below the diagonal of [L, T, T], one row per layer and token."""
    layers, tokens = matrices.shape[:2]
    values = matrices.numpy()
    return pl.DataFrame(
        {
            "layer": [layer for layer in range(layers) for _ in range(tokens)],
            "token": [token for _ in range(layers) for token in range(tokens)],
            "significance": pl.Series(
                [values[layer, i, :i] for layer in range(layers) for i in range(tokens)],
                dtype=pl.List(pl.Float32),
            ),
        }
    )
