"""Tables behind an information-flow page, and what a page draws."""

from typing import Any

import polars as pl
from tokenizers import Tokenizer

from anchorflow.analyses.flow_page.measure import measure_flow_page
from tiny_models import shared_prompts, tiny_model


def shown_tables(
    words: Tokenizer, examples: int = 2, protocol: str = "per_example"
) -> tuple[pl.DataFrame, ...]:
    """Saliency, shown prompts, cuts and heads of these, and all prompts of a tiny model."""
    prompts = shared_prompts([17, 5, 9]).with_columns(pl.lit(protocol).alias("demonstrations"))
    model = tiny_model("llama")
    return *measure_flow_page(model, words, prompts, examples, protocol), prompts


def drawn(browser: Any) -> list[list[float]]:
    """Arcs that the page draws as [from, to], strongest first."""
    return browser.execute_script("return arcs.map((arc) => [arc.from, arc.to]).reverse()")
