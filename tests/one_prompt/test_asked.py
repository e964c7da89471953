"""One prompt asked directly, against the prompt in full with masks written out, and rebuilt."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor

from anchorflow.classifier import InContextClassifier
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import Attention, AttentionCall, attention_rows, intervene
from anchorflow.model.layer_kinds import attention_layers
from anchorflow.one_prompt.asked import AskedPrompt, Cut, ask_about
from anchorflow.one_prompt.edit import Edit
from anchorflow.one_prompt.prompt import Prompt, positions_named
from anchorflow.prepare.positions import label_word_positions
from tiny_models import (
    EVERY_FAMILY,
    PlainCut,
    full_attention,
    plain_attentions,
    plain_saliency,
    tiny_model,
)
from whole_vocabulary import logits_in_full

TEMPLATE, LABELS = "Review: {text}\nSentiment:{label}", [" Negative", " Positive"]
DEMONSTRATIONS = [("A bore.", 0), ("A delight, warm.", 1), ("Dull and long.", 0)]
TEXT = "I laughed and cried."
FURTHER = [
    pytest.param(kind, marks=pytest.mark.long)
    for kind in ("alibi", "rotary in line", "by a method", "chunks", "latent", "selected tokens")
]


@pytest.fixture
def classifier(tiny_model_directory: Any) -> Callable[..., InContextClassifier]:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model_directory)

    def of(family: str = "llama", demonstrations: Any = DEMONSTRATIONS) -> InContextClassifier:
        model = tiny_model(family, vocabulary=1200)
        return InContextClassifier(model, tokenizer, TEMPLATE, LABELS, demonstrations)

    return of


def log_odds(logits: Tensor, asked: AskedPrompt, label: int) -> float:
    """Of a label against all others, from logits [vocabulary]."""
    of_labels = logits[asked.prompt["label_tokens"]].double()
    others = [at for at in range(len(of_labels)) if at != label]
    return float(of_labels[label] - of_labels[others].logsumexp(0))


def in_full(asked: AskedPrompt, edges: Tensor, layers: range) -> Tensor:
    """Logits at the target, with edges [T, T] masked in attention written out in full."""
    frame = pl.DataFrame([asked.prompt], schema_overrides={"skipped": pl.String})
    return logits_in_full(asked.model, frame, PlainCut(edges[None], layers, "mask"))[0]


def edges_to(asked: AskedPrompt, rows: list[int], keys: list[int]) -> Tensor:
    edges = torch.zeros(2 * [asked.prompt["tokens"]], dtype=torch.bool)
    for row in rows:
        edges[row, [key for key in keys if key < row]] = True
    return edges


@pytest.mark.parametrize("family", [*EVERY_FAMILY, *FURTHER])
def test_cuts_flows_and_demonstrations_equal_the_prompt_in_full(
    family: str, classifier: Callable[..., InContextClassifier]
) -> None:
    icl = classifier(family)
    asked = icl.ask(TEXT)
    prompt, places = asked.prompt, attention_layers(asked.model.config)
    depth = len(places)
    target, words = prompt["target_position"], label_word_positions(prompt)
    for tokens, to, rows, layers in (
        ("label_words", "target", [target], range(depth)),
        ("demonstration[1]", "all", list(range(target + 1)), range(1, depth)),
        (" A", "label_words", words, range(1)),
    ):
        keys = positions_named(prompt, asked.tokens, tokens)
        found = asked.cut(tokens, to, [places[at] for at in layers], label=1, draws=0)
        expected = in_full(asked, edges_to(asked, rows, keys), layers)
        assert found["cut"].to_list() == ["none", "cut"]
        assert found["log_odds"][1] == pytest.approx(log_odds(expected, asked, 1), abs=1e-5)
        mass = expected.softmax(-1)[prompt["label_tokens"]].sum()
        assert found["label_mass"][1] == pytest.approx(float(mass), rel=1e-5)
    plain = plain_saliency(tiny_model(family, eager=True, vocabulary=1200), asked.batch)
    data = asked.page_data(0)
    for layer, of_layer in enumerate(data["layers"]):
        for source, to_token, value in chain.from_iterable(of_layer["arcs"]):
            expected = float(plain[layer, to_token, source])
            assert value == pytest.approx(expected, rel=1e-3, abs=1e-8)
    assert len(data["layers"][0]["arcs"][2]) == 200
    of_each = asked.demonstrations(label=0).rows
    for number, row in enumerate(of_each.iter_rows(named=True)):
        keys = positions_named(prompt, asked.tokens, f"demonstration[{number}]")
        hidden = in_full(asked, edges_to(asked, [target], keys), range(depth))
        before = log_odds(in_full(asked, edges_to(asked, [], []), range(0)), asked, 0)
        assert row["hidden"] == pytest.approx(log_odds(hidden, asked, 0) - before, abs=2e-5)
        assert row["saliency"] == pytest.approx(float(plain[:, target, keys].sum()), rel=1e-3)


def test_a_demonstration_left_out_or_relabeled_is_the_prompt_built_again(
    classifier: Callable[..., InContextClassifier],
) -> None:
    rows = classifier().demonstrations(TEXT, " Positive").rows
    before = np.log(np.divide(*classifier().predict(TEXT)[0][::-1]))
    for number in range(3):
        rest = [*DEMONSTRATIONS[:number], *DEMONSTRATIONS[number + 1 :]]
        text, label = DEMONSTRATIONS[number]
        other = [*DEMONSTRATIONS[:number], (text, 1 - label), *DEMONSTRATIONS[number + 1 :]]
        for column, demonstrations in (("left_out", rest), ("flipped", other)):
            negative, positive = classifier(demonstrations=demonstrations).predict(TEXT)[0]
            change = np.log(positive / negative) - before
            assert rows[column][number] == pytest.approx(change, abs=1e-5)
    asked = classifier().ask(TEXT)
    eager = tiny_model("llama", eager=True, vocabulary=1200)
    attention = plain_attentions(eager, asked.batch)[1][:, :, -1].mean((0, 1))
    starts, ends = (asked.prompt[f"demonstration_{at}"] for at in ("starts", "ends"))
    assert starts[0] == 0  # the prompt's first token, which counts for no demonstration
    spans = zip([1, *starts[1:]], ends, strict=True)
    weights = torch.stack([attention[first:end].sum() for first, end in spans])
    assert rows["kernel_weight"].to_list() == pytest.approx((weights / weights.sum()).tolist())


def test_in_few_bits_what_changes_nothing_is_no_change(
    classifier: Callable[..., InContextClassifier],
) -> None:
    asked = classifier().ask(TEXT)
    asked.model.bfloat16()
    rows = asked.cut("label_words", draws=0)
    nothing = torch.zeros(1, *2 * [asked.prompt["tokens"]], dtype=torch.bool)
    with intervene(Edit(dict.fromkeys(range(3), nothing))):
        answers = asked._answers(asked.batch)
    none = asked._changed(answers, 0, asked.label()).log_odds
    assert rows["log_odds"][0] == pytest.approx(none, abs=1e-9)
    assert none != asked._changed(asked.plain, 0, asked.label()).log_odds  # by its rounding
    assert asked.reweight([1.0])["log_odds_change"].to_list() == [0, 0]


def test_edges_are_cut_in_the_heads_that_are_named_alone(
    classifier: Callable[..., InContextClassifier],
) -> None:
    asked = classifier().ask(TEXT)
    target, words = asked.prompt["target_position"], label_word_positions(asked.prompt)

    class OneHead:
        def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
            scores, hidden, value = full_attention(call)
            cut = torch.zeros_like(scores, dtype=torch.bool)
            if call.layer == 1:
                cut[:, 2, target, words] = True
            return scores.masked_fill(hidden | cut, -torch.inf).softmax(-1) @ value

    frame = pl.DataFrame([asked.prompt], schema_overrides={"skipped": pl.String})
    expected = logits_in_full(asked.model, frame, OneHead())[0]
    found = asked.cut("label_words", layers=1, heads=2, label=0, draws=0)
    assert found["log_odds"][1] == pytest.approx(log_odds(expected, asked, 0), abs=1e-5)
    assert found["log_odds_change"][1] != 0


def test_random_tokens_hold_the_attention_of_those_cut_and_are_others(
    classifier: Callable[..., InContextClassifier],
) -> None:
    asked = classifier().ask(TEXT)
    rows = asked.cut("label_words", layers=[1], draws=6)
    target, words = asked.prompt["target_position"], label_word_positions(asked.prompt)
    kept: dict[int, Tensor] = {}

    class Keep:
        def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
            at = torch.tensor([[target]])
            kept[call.layer] = attention_rows(call, at)[0, :, 0].mean(0)
            return attention(call)

    with intervene(Keep()):
        asked._answers(asked.batch)
    attention = kept[1]
    (cut,) = rows.filter(cut="cut")["attention"]
    assert cut == pytest.approx(float(attention[words].sum()), rel=1e-5)
    random = rows.filter(cut="random")
    assert random["draw"].to_list() == list(range(6))
    others = [t for t in range(1, target) if t not in words]
    # The last key is taken if at least half of its attention is needed.
    assert (random["attention"] - cut).abs().max() <= float(attention[others].max()) / 2 + 1e-6
    assert random["log_odds"].n_unique() > 1


def test_reweighted_attention_is_multiplied_after_the_softmax(
    classifier: Callable[..., InContextClassifier],
) -> None:
    asked = classifier("gemma3").ask(TEXT)
    target, words = asked.prompt["target_position"], label_word_positions(asked.prompt)

    class Multiplied:
        def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
            scores, hidden, value = full_attention(call)
            weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
            weights[:, :, target, words] *= 3
            return weights @ value

    frame = pl.DataFrame([asked.prompt], schema_overrides={"skipped": pl.String})
    expected = logits_in_full(asked.model, frame, Multiplied())[0]
    found = asked.reweight([1, 3], label=1)
    assert found["factor"].to_list() == [1, 1, 3]
    assert found["log_odds_change"][1] == 0
    assert found["log_odds"][2] == pytest.approx(log_odds(expected, asked, 1), abs=1e-5)


def test_the_donor_s_last_layer_brings_its_whole_answer(
    classifier: Callable[..., InContextClassifier],
) -> None:
    icl = classifier()
    asked, donor = icl.ask(TEXT), icl.ask("It drags on and on.")
    rows = asked.transplant(donor, label=0)
    assert rows["of"].to_list() == ["none", "donor", "layer", "layer", "layer"]
    assert rows["recovered"][-1] == pytest.approx(1)
    assert rows["log_odds"][4] == pytest.approx(rows["log_odds"][1], abs=1e-5)
    # Demonstrations see no query, so their states are those of the donor already.
    same = asked.transplant(donor, at="label_words", label=0)
    assert same.filter(of="layer")["log_odds_change"].abs().max() < 1e-5


def test_heads_write_what_the_page_s_heads_write(
    classifier: Callable[..., InContextClassifier],
) -> None:
    asked = classifier().ask(TEXT)
    rows = asked.heads("Positive")
    totals = asked.page_data()["heads"]["totals"]
    for row in rows.iter_rows(named=True):
        assert row["writes"] == pytest.approx(totals[row["layer"]][row["head"]][1], rel=1e-3)
        assert 0 < row["label_words"] < 1 and row["first"] > 0
    assert len(rows) == 12


def test_the_page_is_one_inert_file_in_a_sandboxed_frame(
    classifier: Callable[..., InContextClassifier], tmp_path: Any
) -> None:
    page = classifier().show("</script><b>\u202e")
    assert page.save(tmp_path / "page.html").read_text() == page.html
    assert page.html.count("</script>") == 2 and "\u202e" not in page.html
    frame = page._repr_html_()
    assert '<iframe sandbox="allow-scripts"' in frame and "<b>" not in frame
    changed = classifier().ask(TEXT).page_data(0, Cut("label_words"), 2.0)
    assert all(cut is None for of_flow in changed["cuts"] for cut in of_flow)
    assert not any(view["arcs"][1] for view in changed["layers"])  # nothing flows there


@pytest.fixture
def own(tiny_model_directory: Any) -> Callable[..., AskedPrompt]:
    tokenizer = Tokenizer.from_file(str(tiny_model_directory / "tokenizer.json"))
    model = tiny_model("llama", vocabulary=1200)

    def of(text: str, *more: Any, **kept: Any) -> AskedPrompt:
        after = kept.pop("after", 0)
        return ask_about(model, tokenizer, Prompt(text, *more, **kept), "tiny", after)

    return of


WORDY = "great movie: good\na dull one: bad\nlovely:"


def test_a_prompt_without_template_has_demonstrations_of_its_label_words(
    own: Callable[..., AskedPrompt],
) -> None:
    asked = own(WORDY, ["good", "bad"], [" good", " bad"])
    pieces = [
        "".join(asked.tokens[first:end])
        for first, end in zip(
            asked.prompt["demonstration_starts"], asked.prompt["demonstration_ends"], strict=True
        )
    ]
    assert pieces == ["great movie: good\n", "a dull one: bad\n"]
    assert asked.prompt["demonstration_labels"] == [0, 1]
    rows = asked.demonstrations(label=0).rows
    before = asked._changed(asked.plain, 0, 0).log_odds
    for number, text in enumerate(("a dull one: bad\nlovely:", "great movie: good\nlovely:")):
        rebuilt = own(text, ["bad", "good"][number : number + 1], [" good", " bad"])
        change = rebuilt._changed(rebuilt.plain, 0, 0).log_odds - before
        assert rows["left_out"][number] == pytest.approx(change, abs=1e-5)
    bare = Prompt("(A) (B) (", [(1, 2), (5, 6)], [" A", " B"])
    assert bare.relabeled(1, " A").text == "(A) (A) ("  # with the spaces that the word had
    flipped = own(WORDY.replace("bad", "good"), ["good", "good"], [" good", " bad"])
    change = flipped._changed(flipped.plain, 0, 0).log_odds - before
    assert rows["flipped"][1] == pytest.approx(change, abs=1e-5)


def test_the_next_generated_token_is_asked_about_without_answers(
    own: Callable[..., AskedPrompt],
) -> None:
    first = own(WORDY)
    assert len(first.answers) == 5
    assert int(first.plain.top_tokens[0, 0]) == first.prompt["label_tokens"][0]
    second = own(WORDY, after=1)
    assert second.prompt["token_ids"] == [
        *first.prompt["token_ids"],
        first.prompt["label_tokens"][0],
    ]
    assert [flow["pairs"] for flow in second.page_data()["flows"][:2]] == [0, 0]
    assert second.cut("lovely", draws=2)["cut"].to_list() == ["none", "cut", "random", "random"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["good", "good"], "'good' is given 2 times, but the prompt has it 1 times"),
        (["bad", "good"], "'good' is not in the prompt after the one before it"),
        ([(5, 2)], r"\(5, 2\) is not in the prompt"),
        ([5], "5 is neither a word nor a span"),
        ([(1, 2, 3)], r"\(1, 2, 3\) is neither a word nor a span"),
    ],
)
def test_label_words_that_are_not_where_they_are_given_are_refused(
    words: Any, said: str, own: Callable[..., AskedPrompt]
) -> None:
    with pytest.raises(InputError, match=said):
        own(WORDY, words, [" good", " bad"])


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda a: a.cut("nowhere"), "'nowhere' is not in the prompt, and no kind of tokens"),
        (lambda a: a.cut("first"), "is a kind of tokens and also a piece"),
        (lambda a: a.cut(99), "99 is not among the prompt's"),
        (lambda a: a.cut("demonstration[2]"), "has 2 demonstrations, counted from 0"),
        (lambda a: a.cut("instruction"), "the prompt has no instruction"),
        (lambda a: a.cut("label_words", to="query"), "'query' is none of target, label_words, all"),
        (lambda a: a.cut(-1), "none of them precedes"),
        (lambda a: a.cut("label_words", layers=3), "layers: 3 is not between 0 and 2"),
        (lambda a: a.cut("label_words", heads=[4]), "heads: 4 is not between 0 and 3"),
        (lambda a: a.cut("label_words", label="fine"), "'fine' is none of the answers"),
        (lambda a: a.reweight(-1), "factor: -1 should be a number, 0 or more"),
        (lambda a: a.cut("label_words", layers=[]), "layers: there are none; name some"),
        (lambda a: a.cut("label_words", heads=[]), "heads: there are none; name some"),
        (lambda a: a.cut("label_words", draws=-1), "draws: -1 should be 0 or more"),
        (lambda a: a.show(label=1.0), "label: 1.0 is neither an index nor an answer"),
        (lambda a: a.show(factor=-1), "factor: -1 should be a number, 0 or more"),
        (lambda a: a.reweight("2"), "factor: '2' should be a number, 0 or more"),
        (lambda a: a.transplant(a, at="query"), "'query' is neither target nor label_words"),
    ],
)
def test_what_can_not_be_asked_is_said(
    ask: Callable[[AskedPrompt], Any], said: str, own: Callable[..., AskedPrompt]
) -> None:
    asked = own(WORDY.replace("lovely", "the first"), ["good", "bad"], [" good", " bad"])
    with pytest.raises(InputError, match=said):
        ask(asked)


def test_a_span_that_begins_within_a_token_is_refused(own: Callable[..., AskedPrompt]) -> None:
    tokens = own(WORDY).tokens
    place = next(at for at, token in enumerate(tokens) if len(token.strip()) > 2)
    begin = len("".join(tokens[:place])) + tokens[place].index(tokens[place].strip()) + 1
    with pytest.raises(InputError, match="merged with what precedes it"):
        own(WORDY, [(begin, begin + 1)], [" good", " bad"])


def test_kinds_and_pieces_of_one_name_are_told_apart(own: Callable[..., AskedPrompt]) -> None:
    asked = own(WORDY.replace("lovely", "the first"), ["good", "bad"], [" good", " bad"])
    named = {
        name: positions_named(asked.prompt, asked.tokens, name)
        for name in ("kind:first", "text:first", "label_words", "demonstration[1]")
    }
    assert named["kind:first"] == [0]
    assert "first" in "".join(asked.tokens[at] for at in named["text:first"])
    assert asked.tokens[named["label_words"][0]].strip() == "good"
    both = positions_named(asked.prompt, asked.tokens, ["kind:first", -1])
    assert both == [0, asked.prompt["tokens"] - 1]


def test_a_prompt_whose_matrices_exceed_memory_is_refused_at_once(
    own: Callable[..., AskedPrompt], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = own(WORDY, ["good", "bad"], [" good", " bad"])
    monkeypatch.setattr("anchorflow.one_prompt.asked.available_bytes", lambda _: 2**10)
    for ask in (asked.show, asked.demonstrations, lambda: asked.cut("label_words")):
        with pytest.raises(
            InputError, match=r"attention matrices take .* are available; give fewer"
        ):
            ask()


def test_answers_that_begin_alike_or_are_one_are_refused(own: Callable[..., AskedPrompt]) -> None:
    with pytest.raises(InputError, match="there is only one"):
        own(WORDY, (), [" good"])
    with pytest.raises(InputError, match="all answers begin with the same token"):
        own(WORDY, (), [" good", " good"])


def test_a_page_under_a_cut_has_the_flows_of_the_cut_prompt_and_says_what_changed(
    classifier: Callable[..., InContextClassifier],
) -> None:
    asked = classifier().ask(TEXT)
    target, words = asked.prompt["target_position"], label_word_positions(asked.prompt)
    edges = edges_to(asked, [target], words)
    data = asked.page_data(0, Cut("label_words"))
    hidden = edges | ~torch.ones_like(edges).tril()
    mask = torch.zeros(hidden.shape).masked_fill(hidden, torch.finfo(torch.float32).min)
    eager = tiny_model("llama", eager=True, vocabulary=1200)
    plain = plain_saliency(eager, asked.batch, mask[None, None])
    for layer, of_layer in enumerate(data["layers"]):
        received = plain[layer].tril(-1).sum(1).tolist()
        assert of_layer["received"] == pytest.approx(received, rel=1e-3, abs=1e-8)
    assert data["cut_tokens"] == words
    means = [plain[layer].tril(-1).mean() for layer in range(3)]
    assert data["opens"] == int(np.argmax(means))  # S_pq is 0 everywhere
    before, after = (
        in_full(asked, cut, range(3))[asked.prompt["label_tokens"]].softmax(-1).tolist()
        for cut in (edges_to(asked, [], []), edges)
    )
    assert data["facts"]["probabilities"] == (
        f"Negative {before[0]:.2f} → {after[0]:.2f}, Positive {before[1]:.2f} → {after[1]:.2f}"
    )
    assert data["facts"]["cut"].startswith("attention from the target to “")
    assert data["facts"]["cut"].endswith("; all layers, all heads")


def test_what_is_changed_is_told_in_words(own: Callable[..., AskedPrompt]) -> None:
    asked = own(WORDY, ["good", "bad"])
    plain = asked.page_data(flows_cut=False)
    assert set(plain["facts"]) == {"saliency of", "prediction"}
    assert plain["cut_tokens"] == []
    assert not any(cut for of_flow in plain["cuts"] for cut in of_flow)
    told = asked.page_data(cut=Cut([1, 0], "all", [2, 0, 1], [3]), factor=0.5)["facts"]
    first, second = (text.strip(" ") for text in asked.tokens[:2])
    assert told["cut"] == (
        f"attention from all later tokens to “{first}”, “{second}”; layers 0 to 2, head 3"
    )
    assert told["re-weighted"] == "attention to label words × 0.5"
    several = asked.page_data(cut=Cut(list(range(9)), layers=[0, 2]))["facts"]["cut"]
    assert several.endswith("” and 3 more; layers 0, 2, all heads")
    assert several.count("“") == 6
