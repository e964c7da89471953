"""Files that are damaged or replaced are refused by name."""

import json
import os
import random
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from anchorflow.config.errors import InputError
from anchorflow.model.opening import open_model
from anchorflow.model.tokenizer import open_tokenizer
from resolved_models import resolve, with_own_weights
from table_files import flipped

CPU = torch.device("cpu")


@pytest.fixture
def copied(resolved: Path, tmp_path: Path) -> Path:
    """A private copy of the resolved model, with its weights inside as converted ones are."""
    shutil.copytree(resolved, tmp_path / "copy")
    return with_own_weights(tmp_path / "copy")


@pytest.mark.parametrize(
    "file",
    [
        *("tokenizer/tokenizer.json", "tokenizer/config.json", "tokenizer/architecture.json"),
        *("model/config.json", "model/model.json", "model/model.safetensors"),
    ],
)
@pytest.mark.parametrize("fault", ["flipped", "truncated", "missing"])
def test_a_damaged_file_of_a_model_is_named_with_the_remedy(
    copied: Path, file: str, fault: str
) -> None:
    path = copied / file
    content = path.read_bytes()
    brace = content.index(b"e") * 8  # within a name or a number, not white space
    for bit in [brace, *random.Random(0).sample(range(8 * len(content)), 7)]:
        if fault == "missing":
            path.unlink()
        else:
            path.write_bytes(flipped(content, bit) if fault == "flipped" else content[: bit // 8])
        try:
            open_tokenizer(copied / "tokenizer") if "tokenizer" in file else open_model(
                copied / "model", CPU
            )
        except InputError as error:
            told = f"{path}: missing or damaged; delete {path.parent} and run again"
            assert str(error).startswith(told)
        else:
            # What a card says is the same if only white space is not.
            assert json.loads(path.read_bytes()) == json.loads(content)
            assert bit != brace
        path.write_bytes(content)


def test_weights_replaced_under_the_same_name_are_refused_even_if_no_newer(
    resolved: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(resolved, folder)
    resolve(folder)
    weights = folder / "source" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    tensors = load_file(weights)
    tensors["model.norm.weight"] += 1
    save_file(tensors, weights, metadata={"format": "pt"})
    os.utime(weights, ns=(before, before))
    with pytest.raises(InputError) as error:
        open_model(folder / "model", CPU)
    assert str(error.value) == (
        f"models.tiny: {weights} is missing or not what it was when the model was resolved; put it "
        f"back, or delete {folder / 'model'} and run again with the new weights."
    )
    shutil.rmtree(folder / "model")
    resolve(folder)
    assert open_model(folder / "model", CPU).model.norm.weight[0] == 2
