"""Models that are broken, too large or bring code along, refused when they are resolved."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

from anchorflow.config.errors import InputError
from anchorflow.model.opening import open_model
from anchorflow.prepare.model import resolve_model
from checkout import ROOT
from quantized_models import rewritten
from resolved_models import not_finite, resolve
from tiny_models import GIANT

CPU = torch.device("cpu")


def of_one_more_layer(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.layers.3.mlp.up_proj.weight"] = torch.zeros(48, 32)


@pytest.mark.parametrize("how", ["not finite", "cut off"])
def test_weights_that_are_broken_are_refused_when_they_are_resolved(
    resolved: Path, tmp_path: Path, how: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(resolved / "source", folder / "source")
    weights = folder / "source" / "model.safetensors"
    said = r"^models\.tiny: .* can't be read \("
    if how == "cut off":
        weights.write_bytes(weights.read_bytes()[:-100])
    else:
        tensors = load_file(weights)
        not_finite(tensors)
        save_file(tensors, weights, metadata={"format": "pt"})
        said = r"^models\.tiny: its logits are not finite on a random prompt; replace its weights"
    with pytest.raises(InputError, match=said):
        resolve(folder)
    assert sorted(os.listdir(folder)) == ["source", "tokenizer"]


def test_layers_that_predict_further_tokens_are_left_unread(
    tiny_model_directory: Path, tmp_path: Path
) -> None:
    resolve(
        rewritten(tiny_model_directory, tmp_path, of_one_more_layer, num_nextn_predict_layers=1)
    )
    assert open_model(tmp_path / "model", CPU).config.num_hidden_layers == 3


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        ("config.json", "num_attention_heads", 0),
        ("config.json", "num_attention_heads", "x"),
        ("config.json", "num_hidden_layers", None),
        ("config.json", "hidden_size", -4),
        ("config.json", "max_position_embeddings", None),
        ("config.json", "model_type", ["llama"]),
        ("config.json", "dtype", "nope"),
        ("config.json", None, []),
        ("tokenizer_config.json", None, []),
        ("tokenizer.json", None, {}),
    ],
)
def test_a_model_s_description_that_makes_no_sense_is_told_in_one_sentence(
    tiny_model_directory: Path, tmp_path: Path, file: str, key: str | None, value: Any
) -> None:
    shutil.copytree(tiny_model_directory, tmp_path / "source")
    path = tmp_path / "source" / file
    content = {**json.loads(path.read_text(encoding="utf-8")), key: value} if key else value
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InputError) as error:
        resolve(tmp_path)
    assert str(error.value).startswith("models.tiny: ")
    assert "\n" not in str(error.value)
    assert os.listdir(tmp_path) == ["source"]


OWN_CODE = """
from pathlib import Path
from transformers import LlamaConfig
Path("{trace}").touch()
class Own(LlamaConfig):
    model_type = "own"
"""


@pytest.mark.parametrize("kind", ["llama", "own"])
def test_code_beside_a_model_is_never_run(
    tiny_model_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    source, trace = tmp_path / "source", tmp_path / "trace"
    shutil.copytree(tiny_model_directory, source)
    (source / "own.py").write_text(OWN_CODE.format(trace=trace), encoding="utf-8")
    for file, named in (("config.json", "AutoConfig"), ("tokenizer_config.json", "AutoTokenizer")):
        content = json.loads((source / file).read_text(encoding="utf-8"))
        content["auto_map"] = {named: "own.Own", "AutoModelForCausalLM": "own.Own"}
        if file == "config.json":
            content["model_type"] = kind
        (source / file).write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setattr("builtins.input", lambda _="": "y")  # to whether code should be run
    if kind == "llama":
        resolve(tmp_path)
        open_model(tmp_path / "model", CPU)
    else:
        with pytest.raises(InputError, match="can't be read as a transformers model"):
            resolve(tmp_path)
    assert not trace.exists()


LIMITED = """
import resource, sys, torch
from anchorflow.fitted_weights import FittedWeights, Purpose
from anchorflow.store.logs import job_log
from anchorflow.prepare.model import resolve_model
from anchorflow.prepare.tokenizer import resolve_tokenizer
folder = sys.argv[1]
settings = {"source": "local", "path": f"{folder}/source", "dtype": "float32"}
beta = FittedWeights(torch.zeros(2, 2, 2), Purpose("", "", (), ()), 0.1, 1, 1)
for limit, write in [
    (5000, lambda: resolve_tokenizer("tiny", settings, f"{folder}/new_tokenizer")),
    (500, lambda: resolve_model("tiny", settings, f"{folder}/tokenizer", f"{folder}/new_model")),
    (100, lambda: beta.save(f"{folder}/beta.safetensors")),
]:
    try:
        with job_log(f"{folder}.log"):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            write()
    except SystemExit as ended:
        assert ended.code == 1
    else:
        raise AssertionError("there was room")
"""


def test_what_there_is_no_room_for_is_not_left_half_written(resolved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(resolved, folder)
    finished = subprocess.run(
        [sys.executable, "-c", LIMITED, str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow")},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    for name in ("new_tokenizer", "new_model", "beta.safetensors"):
        assert f"ERROR: {folder / name}: no space left on the device; free some" in finished.stderr
    assert "Traceback" not in finished.stderr
    assert sorted(os.listdir(folder)) == ["model", "source", "tokenizer"]


@pytest.mark.parametrize("source", ["gguf", "local"])
def test_a_model_that_is_too_large_to_be_converted_is_refused_before_it_is_fetched(
    tmp_path: Path, source: str
) -> None:
    AutoConfig.for_model("llama", num_attention_heads=64, dtype="float32", **GIANT).save_pretrained(
        tmp_path
    )
    settings = {"source": source, "dtype": "bfloat16", "path": "nowhere", "files": ["nothing"]}
    with pytest.raises(InputError, match=r"bfloat16 do not fit into the .* are converted; choose"):
        resolve_model("giant", settings, tmp_path, tmp_path / "resolved")
    assert not (tmp_path / "resolved").exists()
