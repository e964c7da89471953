"""Prompts in the chat format: every position, on the templates of several families."""

from dataclasses import replace
from functools import cache

import polars as pl
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers.utils.chat_template_utils import render_jinja_template

from anchorflow.prepare.chat import Chat
from anchorflow.prepare.positions import instruction_positions, label_word_positions
from anchorflow.prepare.prompts import build_prompts
from anchorflow.prepare.template import Template
from chat_formats import TOKENS, chat_of, template_of
from review_prompts import LABELS, TEMPLATE, samples

SYSTEM = ("chatml", "gemma3", "llama3", "llama31", "llama32", "phi3", "qwen3")
NAMES = (*SYSTEM, "gemma2", "mistral")
Turn = dict[str, str]
MARKS = (
    *("<|im_start|>", "<|im_end|>", "<start_of_turn>", "<end_of_turn>", "<|eot_id|>"),
    *("<|start_header_id|>", "<|end_header_id|>", "[INST]", "[/INST]", "<|end|>"),
    *("<|user|>", "<|assistant|>", "<|system|>", "<s>", "</s>"),
)
SHOWN = [("two\nlines, 😀", 1), ("Sentiment: Negative", 0)]
QUERIES = ["Positive", "  blanks around  ", ""]


@cache
def tokenizer() -> Tokenizer:
    """A byte-level BPE that adds BOS by itself and has the marks of all templates."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=list(MARKS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = ["Review: a film\nSentiment: Positive\n", "Negative Negative very good, very bad"]
    made.train_from_iterator(texts * 5, trainer)
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", made.token_to_id("<s>"))]
    )
    return made


def chat_named(name: str) -> Chat:
    return chat_of(template_of(name))


def built(template: Template, labels: list[str] = LABELS) -> pl.DataFrame:
    return build_prompts(samples(QUERIES, SHOWN), tokenizer(), template, labels, "m", 1000)


def written(ids: list[int]) -> str:
    text: str = tokenizer().decode(ids, skip_special_tokens=False)
    return text


def rendered(name: str, messages: list[Turn]) -> str:
    told = {**TOKENS, "enable_thinking": False, "date_string": "26 Jul 2024"}
    (text,), _ = render_jinja_template(
        [messages], chat_template=template_of(name), add_generation_prompt=True, **told
    )
    return str(text)


def conversation(query: str, words: list[str], told: str = "", system: bool = False) -> list[Turn]:
    turns: list[Turn] = []
    for text, label in SHOWN:
        turns.append({"role": "user", "content": f"Review: {text}\nSentiment:"})
        turns.append({"role": "assistant", "content": words[label].strip()})
    turns.append({"role": "user", "content": f"Review: {query}\nSentiment:"})
    if told and system:
        return [{"role": "system", "content": told}, *turns]
    if told:
        turns[0]["content"] = f"{told}\n\n{turns[0]['content']}"
    return turns


@pytest.mark.parametrize("told", ["", "Judge each review."])
@pytest.mark.parametrize("name", NAMES)
def test_prompts_are_what_the_template_renders_and_every_position_is_known(
    name: str, told: str
) -> None:
    words = [(" " if name == "mistral" else "") + word.strip() for word in LABELS]
    template = replace(TEMPLATE, instruction=told, separator="unused", chat=chat_named(name))
    for prompt, query in zip(built(template).iter_rows(named=True), QUERIES, strict=True):
        ids = prompt["token_ids"]
        assert written(ids) == rendered(name, conversation(query, LABELS, told, name in SYSTEM))
        assert ids == tokenizer().encode(written(ids), add_special_tokens=False).ids
        assert ids.count(tokenizer().token_to_id("<s>")) <= 1

        spans = zip(prompt["label_positions"], prompt["label_ends"], strict=True)
        assert [written(ids[a:b]) for a, b in spans] == [words[label] for _, label in SHOWN]
        firsts = [tokenizer().encode(w, add_special_tokens=False).ids[0] for w in words]
        assert prompt["label_tokens"] == firsts
        edges = [*prompt["demonstration_starts"], prompt["query_start"]]
        assert prompt["demonstration_ends"] == edges[1:]
        for (text, label), start, end in zip(SHOWN, edges, edges[1:], strict=False):
            shown = written(ids[start:end])
            assert shown.startswith(f"Review: {text}\nSentiment:")
            assert words[label] in shown
        assert written(ids[edges[-1] :]).startswith(f"Review: {query}\nSentiment:")
        assert prompt["target_position"] == len(ids) - 1
        fields = list(zip(prompt["field_starts"], prompt["field_ends"], strict=True))
        shown_texts = [written(ids[a:b]).strip() for a, b in fields]
        assert shown_texts == [*(text for text, _ in SHOWN), query.strip()]

        content = {*label_word_positions(prompt), *instruction_positions(prompt)}
        content |= {token for a, b in fields for token in range(a, b)}
        assert set(prompt["format_positions"]) == set(range(len(ids))) - content
        assert written([ids[t] for t in instruction_positions(prompt)]).strip() == told


@pytest.mark.parametrize("name", NAMES)
def test_what_all_answers_begin_with_ends_the_prompt_after_the_assistant_s_mark(name: str) -> None:
    blank = " " if name == "mistral" else ""
    template = replace(TEMPLATE, chat=chat_named(name))
    both = [" very good", " very bad"]
    for prompt, query in zip(built(template, both).iter_rows(named=True), QUERIES, strict=True):
        ids = prompt["token_ids"]
        assert written(ids) == rendered(name, conversation(query, both)) + blank + "very"
        spans = list(zip(prompt["label_positions"], prompt["label_ends"], strict=True))
        assert [written(ids[a:b]) for a, b in spans] == [" bad", " good"]
        assert all(written(ids[:a]).endswith(blank + "very") for a, _ in spans)
        assert ids[spans[0][0] - 1] == ids[-1]  # the same token before the word and at the target


def test_a_text_may_end_a_query_in_the_chat_format() -> None:
    frame = built(Template.parse("{text}{label}", chat=chat_named("chatml")))
    prompt = frame.row(0, named=True)
    assert written(prompt["token_ids"][prompt["query_start"] :]) == (
        "Positive<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_mark_in_a_text_opens_no_turn_and_ends_no_document() -> None:
    for chat in (chat_named("chatml"), None):
        typed = samples(["one", "so <|im_end|>"], SHOWN)
        template = replace(TEMPLATE, chat=chat)
        prompt = build_prompts(typed, tokenizer(), template, LABELS, "m", 1000).row(1, named=True)
        query = prompt["token_ids"][prompt["query_start"] :]
        assert "so <|im_end|>" in written(query)
        end = tokenizer().token_to_id("<|im_end|>")
        assert query.count(end) == (chat is not None)  # the template's own
