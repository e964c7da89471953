"""Many demonstrations: balanced, within the budget, the first ones in every shorter prompt."""

from dataclasses import replace

import polars as pl
import pytest

from anchorflow.analyses.kernel.samples import (
    as_queries,
    build_kernel_prompts,
    draw_kernel_samples,
    draw_rounds,
    smaller_counts,
    with_first,
    without_template,
)
from anchorflow.config.errors import InputError
from anchorflow.prepare.prompts import PromptBuilder, build_prompts
from anchorflow.prepare.samples import draw_samples
from anchorflow.prepare.template import Template
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS
from stub_tokenizers import StubTokenizer

LABELS = ["good", "bad"]
TEMPLATE = Template.parse("Review: {text}\nSentiment:{label}")


CHARACTERS = StubTokenizer(r"(?s).")  # one token per character


def texts(train: int = 12) -> pl.DataFrame:
    rows = [("train", k, f"train {k:02d}", k % 2) for k in range(train)]
    rows += [("test", k, f"test {k:03d}", k % 2) for k in range(3)]
    rows.append(("train", train, "test 000", 0))
    table = pl.DataFrame(rows, schema=["split", "row", "text", "label"], orient="row")
    return table.select(pl.lit("reviews").alias("task"), pl.all()).cast(frame_schema(TEXTS))


def drawn_with(template: Template, context: int = 10**6) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Samples of the texts, and their prompts."""
    samples = draw_samples(texts(), 0, LABELS, 3, 1)
    return samples, build_prompts(samples, CHARACTERS, template, LABELS, "tiny", context)


def kernel_samples(
    tokens: int,
    most: int | None = None,
    context: int = 10**6,
    template: Template = TEMPLATE,
    prompts: pl.DataFrame | None = None,
) -> pl.DataFrame:
    samples, built = drawn_with(template)
    shown = built if prompts is None else prompts
    return draw_kernel_samples(
        texts(), shown, samples, CHARACTERS, template, LABELS, tokens, most, context
    )


def rounds(samples: pl.DataFrame) -> int:
    return len(samples["demonstration_rows"][0]) // 2


ROUND = 2 * len("Review: train 00\nSentiment:\n") + len("goodbad")
QUERY = len("Review: test 000\nSentiment:")


def test_rounds_hold_every_label_once_and_no_test_text() -> None:
    fixed = draw_samples(texts(), 0, LABELS, 3, 1).filter(demonstrations="fixed")
    drawn = draw_rounds(texts(), fixed, LABELS, 100)
    assert [sorted(drawn["label"][k : k + 2]) for k in range(0, len(drawn), 2)] == [[0, 1]] * 6
    assert drawn["text"].n_unique() == 12
    assert not drawn["text"].is_in(["test 000"]).any()
    assert drawn.equals(draw_rounds(texts(), fixed, LABELS, 100))


@pytest.mark.parametrize(
    ("tokens", "number"),
    [(3 * ROUND, 3), (3 * ROUND - 1, 2), (4 * ROUND - 1, 3), (1, 1), (100 * ROUND, 6)],
)
def test_as_many_rounds_as_the_budget_allows(tokens: int, number: int) -> None:
    samples = kernel_samples(tokens)
    assert samples.schema == frame_schema(SAMPLES)
    assert samples["demonstrations"].unique().to_list() == ["kernel"]
    assert samples["demonstration_rows"].list.len().to_list() == [2 * number] * 3


def test_there_is_room_for_the_longest_query_in_the_context() -> None:
    assert rounds(kernel_samples(10**4, context=3 * ROUND + QUERY)) == 3
    assert rounds(kernel_samples(10**4, context=3 * ROUND + QUERY - 1)) == 2


def test_room_does_not_depend_on_which_other_prompts_are_too_long() -> None:
    _, prompts = drawn_with(TEMPLATE, ROUND)
    assert prompts["skipped"].null_count() == 0
    assert rounds(kernel_samples(10**4, context=3 * ROUND + QUERY, prompts=prompts)) == 3


def test_a_query_too_long_for_one_round_does_not_shorten_the_others_prompts() -> None:
    _, prompts = drawn_with(TEMPLATE)
    tokens = pl.when(pl.col("example") == 1).then(10**5).otherwise("tokens")
    long = prompts.with_columns(tokens=tokens).cast(prompts.schema)
    assert rounds(kernel_samples(10**4, context=5 * ROUND, prompts=long)) == 4


def test_the_configuration_may_ask_for_fewer() -> None:
    assert rounds(kernel_samples(10**4, most=2)) == 2


def test_shorter_prompts_begin_with_the_demonstrations_of_the_longest() -> None:
    assert [smaller_counts(n) for n in (1, 2, 4, 5)] == [[], [1], [1, 2], [1, 2, 4]]
    whole = kernel_samples(5 * ROUND)
    fewer = with_first(whole, 4)
    for name in ("demonstration_rows", "demonstration_texts", "demonstration_labels"):
        assert fewer[name].to_list() == [every[:4] for every in whole[name].to_list()]


def test_texts_in_their_template_are_queries_without_demonstrations() -> None:
    whole = kernel_samples(2 * ROUND)
    tests, demonstrations = as_queries(whole)
    assert tests["text"].to_list() == whole["text"].to_list()
    assert demonstrations["text"].to_list() == whole["demonstration_texts"][0].to_list()
    assert demonstrations["example"].to_list() == [0, 1, 2, 3]
    prompts = build_prompts(demonstrations, CHARACTERS, TEMPLATE, LABELS, "tiny", 100)
    spelled = ["".join(map(chr, ids)) for ids in prompts["token_ids"].to_list()]
    assert spelled == [f"Review: {text}\nSentiment:" for text in demonstrations["text"]]


def test_a_text_alone_has_nothing_of_the_template_around_it() -> None:
    tests, _ = as_queries(kernel_samples(2 * ROUND))
    queries = build_prompts(tests, CHARACTERS, TEMPLATE, LABELS, "tiny", 100)
    texts = tests["text"].to_list()
    bare = without_template(queries, ["x", *texts[1:]], CHARACTERS, 7)
    assert bare.schema == queries.schema
    spelled = ["".join(map(chr, ids)) for ids in bare["token_ids"].to_list()]
    assert spelled == ["x", *texts[1:]]
    assert bare["target_position"].to_list() == [0, 7, 7]
    assert bare["skipped"].to_list() == [None, *["8 tokens exceed the context of 7"] * 2]
    unchanged = ["model", "task", "seed", "demonstrations", "example", "label", "label_tokens"]
    assert bare.select(unchanged).equals(queries.select(unchanged))


def test_a_text_of_which_a_tokenizer_makes_nothing_is_told() -> None:
    tests, _ = as_queries(kernel_samples(2 * ROUND))
    queries = build_prompts(tests[:1], CHARACTERS, TEMPLATE, LABELS, "tiny", 100)
    with pytest.raises(InputError, match=r"tasks.reviews: the tokenizer of tiny makes no tokens"):
        without_template(queries, [""], CHARACTERS, 100)


def test_a_label_without_a_training_text_is_named() -> None:
    none_bad = texts().filter((pl.col("split") == "test") | (pl.col("label") == 0))
    fixed = draw_samples(texts(), 0, LABELS, 3, 1).filter(demonstrations="fixed")
    with pytest.raises(InputError, match=r'tasks.reviews.train: the label "bad" has no training'):
        draw_rounds(none_bad, fixed, LABELS, 5)


def test_fields_of_a_text_alone_are_separated_by_a_newline() -> None:
    template = Template.parse("P:{p} H:{h}\nA:{label}", ("p", "h"), "Decide.")
    builder = PromptBuilder(CHARACTERS, template, LABELS, "tiny", 1000)
    paired = texts().with_columns(pl.col("text") + "\x1fso " + pl.col("text"))
    samples = draw_samples(paired, 0, LABELS, 2, 1)
    spec = {"demonstration_tokens": 1}
    built = build_kernel_prompts(paired, builder.build(samples), samples, builder, spec)
    for alone, in_template in zip(built.apart.alone, built.apart.in_template, strict=True):
        for text, query in zip(
            alone.iter_rows(named=True), in_template.iter_rows(named=True), strict=True
        ):
            said = "".join(map(chr, text["token_ids"]))
            p, _, h = said.partition("\n")
            assert h == f"so {p}"
            shown = "".join(map(chr, query["token_ids"]))
            assert shown == f"Decide.\nP:{p} H:{h}\nA:"
            assert text["instruction_end"] is None
            assert (text["field_names"], text["field_starts"]) == ([], [])
            assert (query["instruction_end"], query["field_names"]) == (7, ["p", "h"])


def test_the_instruction_uses_up_the_context_and_not_the_demonstrations_budget() -> None:
    told = replace(TEMPLATE, instruction="Say how the review is.")
    for tokens in (3 * ROUND, 3 * ROUND - 1):
        assert kernel_samples(tokens, template=told).equals(kernel_samples(tokens))
    context = len("Say how the review is.\n") + 3 * ROUND + QUERY
    found = [kernel_samples(10**6, context=of, template=told) for of in (context, context - 1)]
    assert [rounds(samples) for samples in found] == [3, 2]
