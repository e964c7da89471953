"""Scores of kvpress for a tiny Llama, as a script: importing kvpress patches every attention."""

import sys
from typing import Any

import torch
from kvpress import ExpectedAttentionPress, KVzipPress, PyramidKVPress, SnapKVPress, TOVAPress
from transformers import DynamicCache

from tiny_models import tiny_model

ASKING = {"Repeat the previous": [5, 6, 7], "Repeat the part": [8, 9]}
END, CHUNK, WINDOW = [3], 12, 4


class Asking:
    """A tokenizer of two requests."""

    def encode(self, text: str, **_: Any) -> torch.Tensor:
        return torch.tensor([next(ids for part, ids in ASKING.items() if part in text)])


@torch.no_grad()
def scores_of(token_ids: list[int], budget: int) -> dict[str, Any]:
    """Scores [G, P] by layer, norms [H, P], and budgets by layer."""
    model, ids, cache = tiny_model("llama", eager=True), torch.tensor([token_ids]), DynamicCache()
    more = min(512, model.config.max_position_embeddings - len(token_ids))
    zip_press, found = KVzipPress(0.5, chunk_size=CHUNK), {}

    def score(module: Any, _: Any, given: dict[str, Any], __: Any) -> None:
        module.rotary_emb = model.model.rotary_emb
        layer = cache.layers[module.layer_idx]
        call = (module, given["hidden_states"], layer.keys, layer.values, None, given)
        found[module.layer_idx] = {
            "expected": ExpectedAttentionPress(0.5, n_future_positions=more).score(*call)[0],
            "snapkv": SnapKVPress(0.5, window_size=WINDOW).score(*call)[0],
            "tova": TOVAPress(0.5).score(*call)[0],
            "written": zip_press._compute_value_output_norm(module, layer.values)[0].flatten(0, 1),
            "budget": PyramidKVPress(1 - budget / len(token_ids), window_size=1).get_layer_budget(
                module, len(token_ids)
            ),
        }

    layers = [layer.self_attn for layer in model.model.layers]
    hooks = [layer.register_forward_hook(score, with_kwargs=True) for layer in layers]
    model.model(input_ids=ids, past_key_values=cache)
    for hook in hooks:
        hook.remove()
    zip_press._context_ids, zip_press._cache = ids, cache
    zip_press._suffix_ids, zip_press.context_length = torch.tensor([END]), len(token_ids)
    for layer in layers:
        layer.register_forward_hook(zip_press.forward_hook, with_kwargs=True)
    for chunk, repeat in zip_press.prepare(model, Asking()):
        zip_press.end_idx = zip_press.start_idx + chunk.shape[1]
        model.model(input_ids=repeat, past_key_values=cache)
        zip_press.start_idx = zip_press.end_idx
    for number, of in found.items():
        of["repeated"] = zip_press.score_val[number, 0]
    return found


if __name__ == "__main__":
    ids, budget, path = sys.argv[1:]
    torch.save(scores_of([int(token) for token in ids.split(",")], int(budget)), path)
