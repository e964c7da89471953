"""Tiny runs of heads, for the tests of memory and of cost."""

from tokenizers import Tokenizer, models

from anchorflow.analyses.heads import measure as heads
from anchorflow.analyses.heads.measure import measure_heads
from tiny_cells import TABLE, Limited

WORDS = Tokenizer(models.WordLevel({str(i): i for i in range(97)}, unk_token="0"))
SPEC = {"scores": ["writing", "task"], "sequences": 2}

LIMITED: dict[str, Limited] = {
    "heads": lambda model, table: measure_heads(model, WORDS, table, ["writing"], 2, 1000)
}
COUNTED = {
    "heads": (
        heads,
        SPEC,
        lambda model: measure_heads(model, WORDS, TABLE, SPEC["scores"], 2, 1000),
    )
}
