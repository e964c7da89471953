"""One run with every wording of prompts: fields, an instruction, a chat, words that begin alike."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from anchorflow.config.stages import PRESENTED
from anchorflow.model.batches import Batch
from chat_formats import template_of
from checkout import Checkout
from job_messages import OPTIONAL
from tiny_models import plain_saliency, whole_batch
from worded_prompts import eager, plain_word_scores

TASKS: dict[str, dict[str, Any]] = {
    "fields": {
        "source": "builtin",
        "corpus": "entailment",
        "columns": {"hypothesis": "hypothesis", "premise": "premise"},  # as texts join them
        "template": "Premise: {premise}\nHypothesis: {hypothesis}\nAnswer:{label}",
        "labels": [" Yes", " No"],
    },
    "told": {
        "source": "builtin",
        "corpus": "reviews",
        "instruction": "Judge each review.",
        "separator": "\n\n",
        "template": "Review: {text}\nSentiment:{label}",
        "labels": [" Negative", " Positive"],
    },
    "chat": {
        "source": "builtin",
        "corpus": "reviews",
        "instruction": "Judge each review.",
        "chat": True,
        "template": "Review: {text}{label}",
        "labels": [" Negative", " Positive"],
    },
    "alike": {
        "source": "builtin",
        "corpus": "reviews",
        "template": "Review: {text}\nSentiment:{label}",
        "labels": [" very bad", " very good"],
        "values": ["Negative", "Positive"],
    },
    "partly": {  # of which two begin with the same token
        "source": "builtin",
        "corpus": "news",
        "template": "Article: {text}\nAnswer:{label}",
        "labels": [" news abroad", " Sports", " news of trade", " Technology"],
        "values": ["World", "Sports", "Business", "Technology"],
    },
}
# What all label words of a task begin with: here the blank of " Yes" and " No" is a token.
SHARED = {"alike": " very", "fields": " "}
MARKS = ["<|im_start|>", "<|im_end|>"]


def _speaking(folder: Path) -> tuple[Any, Any]:
    """Give the model in a folder the marks and the template of a chat."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    tokenizer.add_special_tokens({"additional_special_tokens": MARKS})
    tokenizer.chat_template = template_of("chatml")
    model.resize_token_embeddings(len(tokenizer))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model.eval(), tokenizer


def _spoken(name: str, sample: dict[str, Any], tokenizer: Any) -> list[int]:
    """The tokens of a prompt, written down here from what the texts are."""
    task = TASKS[name]

    def before(text: str) -> str:
        parts = dict(zip(task.get("columns", {"text": ""}), text.split("\x1f"), strict=True))
        written: str = task["template"].removesuffix("{label}").format(**parts)
        return written

    words = [task["labels"][label] for label in sample["demonstration_labels"]]
    shown = list(zip(sample["demonstration_texts"], words, strict=True))
    if task.get("chat"):
        turns = [{"role": "system", "content": task["instruction"]}]
        for text, word in shown:
            turns += [
                {"role": "user", "content": before(text)},
                {"role": "assistant", "content": word.strip()},
            ]
        turns.append({"role": "user", "content": before(sample["text"])})
        whole = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    else:
        between = task.get("separator", "\n")
        parts = [task["instruction"]] if "instruction" in task else []
        parts += [before(text) + word for text, word in shown]
        whole = between.join([*parts, before(sample["text"])])
    ids: list[int] = tokenizer(whole + SHARED.get(name, ""), add_special_tokens=False)["input_ids"]
    return ids


def apart(batch: Batch) -> Batch:
    """The same prompts with one label for all whose words begin with the same token."""
    tokens = batch.label_tokens.tolist()
    different = list(dict.fromkeys(tokens))
    return replace(
        batch,
        label_tokens=torch.tensor(different),
        labels=torch.tensor([different.index(tokens[label]) for label in batch.labels]),
    )


@pytest.mark.long
def test_every_stage_follows_every_wording_as_full_eager_prompts_do(
    copy_checkout: Callable[[], Checkout],
) -> None:
    checkout = copy_checkout()
    model, tokenizer = _speaking(checkout.folder / "models" / "tiny")
    checkout.config.update(tasks=TASKS, seeds=[0], test_examples=4)
    checkout.config.update(scoring="whole_word", word_score="mean")
    checkout.config["controls"] = {"untrained": [], "shuffled_labels": False}
    summaries = [
        f"results/summaries/{name}/{analysis.path}.parquet".format(model="tiny")
        for name, analysis in PRESENTED.items()
        if analysis.summary and name not in OPTIONAL
    ]
    checkout.snakemake("--cores", "2", "--", *summaries)

    results = checkout.folder / "results"
    for name in TASKS:
        samples = pl.read_parquet(results / f"samples/{name}/0.parquet")
        fixed = samples.filter(pl.col("demonstrations") == "fixed")
        built = pl.read_parquet(results / f"prompts/tiny/{name}/0.parquet")
        prompts, own = (
            built.filter(pl.col("demonstrations") == kind) for kind in ("fixed", "per_example")
        )
        tokens = prompts["token_ids"].to_list()
        assert tokens == [_spoken(name, row, tokenizer) for row in fixed.iter_rows(named=True)]

        answers = [
            pl.read_parquet(results / f"attention/tiny/{name}/0/predictions.parquet"),
            pl.read_parquet(results / f"reweighting/tiny/{name}/0/predictions.parquet").filter(
                method="vanilla"
            ),
            pl.read_parquet(results / f"compression/tiny/{name}/0.parquet").filter(method="full"),
            pl.read_parquet(results / f"isolation/tiny/{name}/0.parquet").filter(positions="none"),
        ]
        saliency = pl.read_parquet(results / f"flow/tiny/{name}/0.parquet")
        attention = pl.read_parquet(results / f"attention/tiny/{name}/0/attention.parquet")
        for row, ids in zip(prompts.iter_rows(named=True), tokens, strict=True):
            with torch.no_grad():
                output = model(torch.tensor([ids]), output_attentions=True)
                scores = plain_word_scores(eager(model), ids, row["word_tokens"], mean=True)
            for predictions in answers:
                found = predictions.filter(example=row["example"])["probabilities"][0].to_list()
                assert found == pytest.approx(scores.softmax(0).tolist(), rel=1e-4)
            rows = attention.filter(example=row["example"]).sort("layer", "head", "demonstration")
            words = list(zip(row["label_positions"], row["label_ends"], strict=True))
            expected = torch.stack(
                [
                    torch.stack([layer[0, :, -1, a:b].sum(1) for a, b in words], 1)
                    for layer in output.attentions
                ]
            )  # [layers, heads, demonstrations]
            assert rows["attention_label"].to_list() == pytest.approx(
                expected.flatten().tolist(), rel=1e-4
            )
        for row in own.iter_rows(named=True):
            batch = apart(whole_batch(own.filter(example=row["example"])))
            words = list(zip(row["label_positions"], row["label_ends"], strict=True))
            flows = plain_saliency(model, batch)[:, -1]
            into_target = torch.cat([flows[:, a:b] for a, b in words], 1).mean(1)
            measured = saliency.filter(example=row["example"]).sort("layer")["s_pq"].to_list()
            assert measured == pytest.approx(into_target.tolist(), rel=1e-4)
    of_partly = pl.read_parquet(results / "attention/tiny/partly/0/predictions.parquet")
    assert of_partly["token_groups"][0].to_list() == [0, 1, 0, 3]
    for summary in summaries:
        table = pl.read_parquet(checkout.folder / summary)
        assert "worlds" in summary or set(TASKS) <= set(table["task"]), summary
    landing = pl.read_parquet(results / "summaries/landing/tiny.parquet")
    segments = {task: set(rows["segment"]) for (task,), rows in landing.group_by("task")}
    assert {"premise", "hypothesis"} <= segments["fields"]
