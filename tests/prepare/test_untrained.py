"""Untrained twins: what of the trained weights is left in them, and that draws can be repeated."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from anchorflow.config.errors import InputError
from anchorflow.model import size
from anchorflow.model.opening import open_model, read_card
from anchorflow.prepare.untrained import initialized, make_untrained, permuted, shuffled
from anchorflow.random_draws import generator
from anchorflow.store.checksums import fingerprints, sha256_of, write_json
from tiny_models import tiny_model

CPU = torch.device("cpu")
TIED, UNTIED = ["gpt2", "gemma3", "opt", "gpt-neo"], ["llama", "gptj", "gpt-neox", "qwen3"]


def saved(folder: Path, family: str, dtype: str = "float32", shard: str = "1GB") -> Path:
    """A resolved model of the family whose norms and biases look trained, too."""
    model = tiny_model(family, eager=True).to(getattr(torch, dtype))
    random = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 3 + torch.randn(parameter.shape, generator=random)
    model.save_pretrained(folder, max_shard_size=shard)
    card = {"name": "tiny", "dtype": dtype, "files": fingerprints(folder.glob("*.safetensors"))}
    write_json(folder / "model.json", card)
    return folder


def weights(model: PreTrainedModel) -> dict[str, Tensor]:
    """All parameters, tied ones once."""
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def is_tied(model: PreTrainedModel) -> bool:
    return model.get_output_embeddings().weight is model.get_input_embeddings().weight


@pytest.mark.parametrize("family", [*TIED, *UNTIED])
def test_shuffled_weights_are_the_trained_ones_of_every_tensor_in_another_order(
    tmp_path: Path, family: str
) -> None:
    base = saved(tmp_path, family)
    trained, twin = open_model(base, CPU, eager=True), shuffled(base, 0)
    own = weights(trained)
    for name, found in weights(twin).items():
        expected = own.pop(name)
        assert found.shape == expected.shape
        assert found.flatten().sort().values.equal(expected.flatten().sort().values)
        assert found.equal(expected) == (expected.unique().numel() == 1), name
    assert not own
    buffers = zip(twin.named_buffers(), trained.named_buffers(), strict=True)
    assert all(found.equal(expected) for (_, found), (_, expected) in buffers)


def test_entries_move_within_a_whole_tensor_and_not_only_within_its_rows() -> None:
    tensor = torch.arange(10_000).reshape(100, 100)
    rows = permuted(tensor, generator(0, "test")) // 100
    assert tensor.equal(torch.arange(10_000).reshape(100, 100))  # a copy is returned
    # Of the 100 entries of a row, one comes from the same row on average: 100 in all, σ = 10.
    assert 60 < int((rows == torch.arange(100)[:, None]).sum()) < 140
    for dtype in (torch.bfloat16, torch.float16):
        found = permuted(tensor.to(dtype), generator(0, "test"))
        assert not found.equal(tensor.to(dtype))
        assert found.double().equal(permuted(tensor.to(dtype).double(), generator(0, "test")))


@pytest.mark.parametrize("family", [*TIED, *UNTIED])
def test_initialized_weights_are_distributed_as_the_architecture_draws_them(
    tmp_path: Path, family: str
) -> None:
    base = saved(tmp_path, family)
    trained, twin = weights(open_model(base, CPU, eager=True)), weights(initialized(base, 0))
    torch.manual_seed(5)
    fresh = weights(AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(base)))
    assert twin.keys() == fresh.keys() == trained.keys()
    for name, found in twin.items():
        expected = fresh[name]
        assert not (found == trained[name]).any(), name
        if expected.unique().numel() == 1:
            assert found.equal(expected), name  # norms and biases
        else:
            assert not found.equal(expected)
            # Standard errors: of a mean σ/√n, of a standard deviation σ/√(2n).
            count, spread = found.numel(), float(expected.std())
            assert abs(float(found.mean())) < 5 * spread / count**0.5, name
            assert abs(float(found.std()) - spread) < 7 * spread / count**0.5, name


def test_gpt_2_has_the_spread_that_its_paper_gives_the_ends_of_residual_branches(
    tmp_path: Path,
) -> None:
    """0.02 everywhere, and 0.02 / √(2 · 3 layers) where a branch joins the residual stream."""
    twin = weights(initialized(saved(tmp_path, "gpt2"), 0))
    ends = torch.cat([w.flatten() for name, w in twin.items() if name.endswith("c_proj.weight")])
    others = torch.cat([w.flatten() for name, w in twin.items() if "c_attn.weight" in name])
    assert float(ends.std()) == pytest.approx(0.02 / 6**0.5, rel=0.03)
    assert float(others.std()) == pytest.approx(0.02, rel=0.03)
    assert twin["transformer.h.0.ln_1.weight"].eq(1).all()


@pytest.mark.parametrize("make", [initialized, shuffled])
def test_a_draw_is_the_same_every_time_and_another_one_differs(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    base = saved(tmp_path, "gemma3")
    torch.manual_seed(1)
    first = weights(make(base, 0))
    state = torch.get_rng_state()
    again, other = weights(make(base, 0)), weights(make(base, 1))
    assert torch.get_rng_state().equal(state)  # draws elsewhere are unaffected
    assert all(again[name].equal(tensor) for name, tensor in first.items())
    matrices = {name for name, tensor in first.items() if tensor.dim() > 1}
    assert not any(other[name].equal(first[name]) for name in matrices)


@pytest.mark.parametrize("kind", ["initialized", "shuffled"])
@pytest.mark.parametrize("family", ["gpt2", "gemma3", "llama"])
def test_a_twin_that_was_saved_is_opened_with_the_same_weights_tied_as_the_model_s(
    tmp_path: Path, resolved: Path, kind: str, family: str
) -> None:
    base, folder = saved(tmp_path / "base", family, shard="30KB"), tmp_path / "twin"
    assert len(list(base.glob("*.safetensors"))) > 1
    before = {path: sha256_of(path) for path in base.iterdir()}
    make_untrained(kind, 3, base, resolved / "tokenizer", folder)
    assert {path: sha256_of(path) for path in base.iterdir()} == before  # none shuffled in place
    made = weights((initialized if kind == "initialized" else shuffled)(base, 3))
    twin = open_model(folder, CPU)
    found = weights(twin)
    assert found.keys() == made.keys()
    assert all(found[name].equal(tensor) for name, tensor in made.items())
    assert is_tied(twin) == is_tied(open_model(base, CPU)) == (family != "llama")
    assert (folder / "config.json").read_bytes() == (base / "config.json").read_bytes()


@pytest.mark.parametrize("kind", ["initialized", "shuffled"])
def test_its_card_says_what_it_is_and_has_the_checksums_of_its_files(
    resolved: Path, tmp_path: Path, kind: str
) -> None:
    twin, again = tmp_path / "first" / "twin", tmp_path / "second" / "twin"
    for folder in (twin, again):
        make_untrained(kind, 2, resolved / "model", resolved / "tokenizer", folder)
    card, own = read_card(twin), read_card(resolved / "model")
    assert card["name"] == f"tiny+{kind}-2"
    assert card["untrained"] == {"kind": kind, "draw": 2, "model": "tiny"}
    for key in ("dtype", "architecture", "layers", "query_heads", "key_value_heads", "context"):
        assert card[key] == own[key]
    assert 0 <= card["difference_from_eager"]["attention"] < 1e-4
    assert not {"directory", "weights"} & card.keys()  # its weights are its own
    assert "model.safetensors" in card["files"]
    sums = [{path.name: sha256_of(path) for path in made.iterdir()} for made in (twin, again)]
    assert sums[0] == sums[1]
    (twin / "model.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match=r"model\.safetensors: missing or damaged; delete"):
        open_model(twin, CPU)


def test_a_twin_has_the_dtype_of_its_model(tmp_path: Path, resolved: Path) -> None:
    base = saved(tmp_path / "base", "llama", dtype="bfloat16")
    for kind in ("initialized", "shuffled"):
        folder = tmp_path / kind
        make_untrained(kind, 0, base, resolved / "tokenizer", folder)
        assert read_card(folder)["dtype"] == "bfloat16"
        tensors = load_file(folder / "model.safetensors").values()
        assert {tensor.dtype for tensor in tensors} == {torch.bfloat16}


def test_a_twin_that_does_not_fit_into_memory_is_refused_by_its_name(
    resolved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(size, "available_bytes", lambda _: 1000)
    with pytest.raises(InputError, match=r"^models\.tiny\+shuffled-0: 0\.00 GiB of weights in fl"):
        make_untrained("shuffled", 0, resolved / "model", resolved / "tokenizer", tmp_path / "twin")
    assert list(tmp_path.iterdir()) == []
