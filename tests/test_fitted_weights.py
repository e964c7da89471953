"""Fitted weights: they come back from their file, and are refused for another purpose."""

import hashlib
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import PreTrainedModel

from anchorflow.config.errors import InputError
from anchorflow.fitted_weights import FittedWeights, Purpose, fingerprint
from table_files import flipped
from tiny_models import random_beta, tiny_model

PURPOSE = Purpose("", "{text}:{label}", (" a", " b", " c"), (("x", 0), ("y", 1), ("z", 2)))


def fitted(model: PreTrainedModel) -> FittedWeights:
    return FittedWeights(random_beta(model), purpose_of(model), 0.1, 10, 4)


def purpose_of(model: PreTrainedModel) -> Purpose:
    return replace(PURPOSE, model=fingerprint(model))


def test_weights_come_back_from_their_file_and_are_refused_for_another_purpose(
    tmp_path: Path,
) -> None:
    model = tiny_model("llama")
    weights = fitted(model)
    weights.save(tmp_path / "beta.safetensors")
    loaded = FittedWeights.load(tmp_path / "beta.safetensors")
    torch.testing.assert_close(loaded.beta, weights.beta, rtol=0, atol=0)
    for name in ("purpose", "learning_rate", "epochs", "batch_size"):
        assert getattr(loaded, name) == getattr(weights, name)
    purpose = purpose_of(model)
    loaded.check(purpose, (3, 4, 3))
    loaded.check(purpose_of(model.to(torch.bfloat16)), (3, 4, 3))
    changes = {
        "labels": (" b", " a", " c"),
        "demonstrations": (("x", 0), ("y", 2), ("z", 1)),
        "template": "{text} ={label}",
    }
    for name, other in changes.items():
        with pytest.raises(
            InputError, match=rf"beta.safetensors: fitted for the {name} .*, not for"
        ):
            loaded.check(replace(purpose, **{name: other}), (3, 4, 3))
    model.lm_head.weight.data[0, 0] += 1
    for asked, layers in ((purpose, 2), (purpose_of(model), 3)):
        with pytest.raises(InputError, match=r"beta.safetensors: fitted for another model"):
            loaded.check(asked, (layers, 4, 3))


def test_weights_of_first_tokens_alone_are_refused_for_longer_label_words(tmp_path: Path) -> None:
    path = tmp_path / "beta.safetensors"
    fitted(tiny_model("llama")).save(path)
    FittedWeights.load(path).check_words(3)
    with safe_open(path, framework="pt") as file:
        about, beta = json.loads(file.metadata()["weights"]), file.get_tensor("beta")
    del about["whole_words"]  # as version 0.1.0 wrote it
    written = json.dumps(about)
    checksum = hashlib.sha256(beta.numpy().tobytes() + written.encode()).hexdigest()
    save_file({"beta": beta}, path, metadata={"weights": written, "checksum": checksum})
    old = FittedWeights.load(path)
    old.check_words(1)
    with pytest.raises(InputError, match=r"beta.safetensors: fitted by version 0.1.0, which weigh"):
        old.check_words(2)


@pytest.mark.parametrize("content", [None, b"", b"not a safetensors file", b"\x08" + b"\0" * 20])
def test_a_missing_or_damaged_file_of_weights_is_told(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "beta.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"beta.safetensors: missing, damaged, or not a file"):
        FittedWeights.load(path)


def test_every_flipped_bit_of_fitted_weights_is_found(tmp_path: Path) -> None:
    path = tmp_path / "beta.safetensors"
    purpose = Purpose("model", "{text}:{label}", (" a", " b"), (("text", 1),))
    weights = FittedWeights(torch.rand(3, 4, 2), purpose, 0.1, 10, 1)
    weights.save(path)
    content = path.read_bytes()
    for bit in random.Random(0).sample(range(8 * len(content)), 200):
        path.write_bytes(flipped(content, bit))
        try:
            loaded = FittedWeights.load(path)
        except InputError as error:
            assert str(error).startswith(f"{path}: missing, damaged, or not a file of fitted")
        else:  # some bits of safetensors' own header mean nothing
            assert torch.equal(loaded.beta, weights.beta)
            assert loaded.purpose == purpose
