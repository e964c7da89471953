"""Comparison of a resolved model with itself under transformers' eager attention."""

import logging
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import intervene
from anchorflow.model.language_model import head_at, open_model, positions_from, read_card
from anchorflow.model.prefix import compute_prefix

log = logging.getLogger(__name__)

# Largest difference from logits of eager attention, relative to the largest logit: float rounding.
_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}


@torch.no_grad()
def check_against_eager(name: str, folder: str | Path, refuse: bool = True) -> float:
    """Compare our attention, with and without a shared prefix, with eager attention.

    The prompt is random and longer than the sliding window, if there is one, to test it too.

    Parameters
    ----------
    refuse : bool
        False for weights that may amplify rounding, in an architecture that has passed with others:
        a larger difference is logged instead.

    Returns
    -------
    float
        Largest difference of the last token's logits, relative to the largest logit.

    Raises
    ------
    InputError
        If the difference exceeds what rounding explains, unless ``refuse`` is False: some part of
        this model's attention (an unusual mask, for example) is not reproduced. Or if a logit is
        not finite.
    """
    cpu, card = torch.device("cpu"), read_card(folder)
    model = open_model(folder, cpu)
    input_ids = _random_prompt(model)
    prefix = compute_prefix(model, input_ids[0, : input_ids.shape[1] // 2].tolist())
    ours = [_last_logits(model, input_ids, 0)]
    with intervene(prefix):
        ours.append(_last_logits(model, input_ids, prefix.tokens))
    del model, prefix
    plain = _last_logits(open_model(folder, cpu, eager=True), input_ids, 0)
    if not all(bool(torch.isfinite(logits).all()) for logits in (*ours, plain)):
        raise InputError(
            f"models.{name}: its logits are not finite on a random prompt; replace its weights "
            'with a complete copy, or try "dtype: float32".'
        )
    difference = max(float((logits - plain).abs().max() / plain.abs().max()) for logits in ours)
    tolerated = difference <= _TOLERANCE[getattr(torch, card["dtype"])]
    if not tolerated and not refuse:
        log.warning("These weights amplify rounding: logits differ by %.1e.", difference)
    elif not tolerated:
        raise InputError(
            f"models.{name}: the attention of {card['architecture']} is not reproduced (logits "
            f"differ by {difference:.1e} from eager attention); this architecture is not supported."
        )
    return difference


def _random_prompt(model: PreTrainedModel) -> Tensor:
    config = model.config.get_text_config()
    window = getattr(config, "sliding_window", None) or 0
    tokens = min(config.max_position_embeddings, max(48, min(window + 16, 1100)))
    random = torch.Generator().manual_seed(0)
    return torch.randint(0, config.vocab_size, (1, tokens), generator=random)


def _last_logits(model: PreTrainedModel, input_ids: Tensor, before: int) -> Tensor:
    """Logits after the last token, [V], with the first ``before`` tokens as an active prefix."""
    own = input_ids[:, before:]
    with head_at(model, torch.tensor([own.shape[1] - 1])):
        output = model(input_ids=own, position_ids=positions_from(own, before), use_cache=False)
    logits: Tensor = output.logits[0, 0].float()
    return logits
