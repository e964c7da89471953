"""Untrained twins: a model's architecture with weights that are drawn anew, or shuffled.

Whatever a measure finds in a network regardless of its weights, it also finds in these: the model
parameter randomization test of Adebayo et al. 2018, "Sanity Checks for Saliency Maps".
"""

import shutil
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from anchorflow.config.cell_names import twin_name
from anchorflow.model.eager_comparison import check_against_eager
from anchorflow.model.opening import MODEL_CARD, open_model, read_card
from anchorflow.model.size import check_conversion
from anchorflow.model.tokenizer import read_architecture
from anchorflow.random_draws import generator
from anchorflow.store.cell import Cell
from anchorflow.store.checksums import fingerprints, write_json
from anchorflow.store.replacing import replacing

CONFIGURATION = "config.json"


def make_untrained(
    kind: str, draw: int, base: str | Path, tokenizer: str | Path, folder: str | Path
) -> None:
    """Write the weights of an untrained twin of a resolved model, and describe them.

    ``initialized`` weights are as the architecture initializes them; ``shuffled`` ones are the
    trained weights, each tensor's entries permuted within it. Each draw has different weights.
    ``folder`` becomes a directory like ``base``, ``results/models/{model}``, with the weights in
    its dtype. The entry ``untrained`` of ``model.json`` has the kind, the draw and the model that
    it is a twin of.

    The twin's attention is compared with eager attention, like the model's.
    """
    card = read_card(base)
    trained, dtype = card["name"], card["dtype"]
    name = twin_name(trained, kind, draw)
    check_conversion(name, AutoConfig.from_pretrained(base, trust_remote_code=False), dtype)
    make = initialized if kind == "initialized" else shuffled
    with replacing(folder) as target:
        target.mkdir()
        make(base, draw).save_pretrained(target)
        shutil.copy(Path(base) / CONFIGURATION, target / CONFIGURATION)
        card = {
            "name": name,
            "source": "untrained",
            "untrained": {"kind": kind, "draw": draw, "model": trained},
            "files": fingerprints(target.iterdir()),
            "dtype": dtype,
            **read_architecture(tokenizer),
        }
        write_json(target / MODEL_CARD, card)
        card["difference_from_eager"] = check_against_eager(name, target)
        write_json(target / MODEL_CARD, card)


def initialized(base: str | Path, draw: int) -> PreTrainedModel:
    """The model with all weights as its architecture initializes them in transformers.

    Only the architecture's configuration is read of ``base``.
    """
    card = read_card(base)
    random = generator(0, "initialized", card["name"], draw)  # all of a run's seeds share the twin
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(random.integers(2**63)))
        model: PreTrainedModel = AutoModelForCausalLM.from_config(
            AutoConfig.from_pretrained(base, trust_remote_code=False),
            dtype=getattr(torch, card["dtype"]),
            trust_remote_code=False,
        )
    return model


def shuffled(base: str | Path, draw: int) -> PreTrainedModel:
    """The model with the entries of every parameter tensor permuted within it, tied ones once.

    Buffers, which are not trained, stay as they are.
    """
    name = read_card(base)["name"]
    model = open_model(base, torch.device("cpu"), eager=True)
    for parameter_name, parameter in model.named_parameters():
        # By tensor, so that no draw depends on the order of tensors.
        random = generator(0, "shuffled", name, draw, parameter_name)
        parameter.data = permuted(parameter.data, random)
    return model


def permuted(tensor: Tensor, random: np.random.Generator) -> Tensor:
    """A copy of a tensor, of any dtype and shape, with its entries in random order."""
    # Loaded weights may be memory-mapped from their files, so nothing is shuffled in place.
    entries = tensor.detach().flatten().clone()
    as_integers = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    random.shuffle(entries.view(as_integers[entries.itemsize]).numpy())
    return entries.reshape(tensor.shape)


def prepare(job: Cell) -> None:
    """Make an untrained twin of a model, and check our attention against eager attention."""
    torch.set_num_threads(job.threads)
    names = job.wildcards
    make_untrained(names.kind, int(names.draw), job.input.model, job.input.tokenizer, job.output[0])
