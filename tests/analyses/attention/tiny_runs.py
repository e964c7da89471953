"""Tiny runs of attention, for the tests of shards, of memory, and of cost."""

from anchorflow.analyses.attention import measure as attention
from anchorflow.analyses.attention.measure import measure_attention
from stub_tokenizers import Decoder
from tiny_cells import TABLE, Limited, Tables, double_model, prompts_of_cell


def sharded(examples: list[int] | None, batch_tokens: int) -> Tables:
    measured = measure_attention(
        double_model(), Decoder(), prompts_of_cell(), batch_tokens, examples
    )
    return dict(zip(("attention", "predictions"), measured, strict=True))


SHARDED = {"attention": sharded}
LIMITED: dict[str, Limited] = {
    "attention": lambda model, table: measure_attention(model, Decoder(), table, 1000)[0],
    "predictions": lambda model, table: measure_attention(model, Decoder(), table, 1000)[1],
}
LIMITED_HEAD = {"predictions": LIMITED["predictions"]}
COUNTED = {
    "attention": (attention, {}, lambda m: attention.measure_attention(m, Decoder(), TABLE, 1000))
}
