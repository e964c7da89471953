"""In-context classification with one's own model: the documented ten lines, and what it refuses."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from anchorflow.analyses.compression.observations import observe
from anchorflow.classifier import InContextClassifier, Names
from anchorflow.config.errors import InputError
from anchorflow.fitted_weights import FittedWeights
from anchorflow.kept_positions import METHODS
from anchorflow.model.attention_function import AttentionCall, intervene, plain_attention
from anchorflow.model.eager_comparison import check_against_eager
from documentation import python_examples, run_examples
from out_of_memory import limit
from tiny_families import tiny_config, tiny_family
from tiny_models import FAMILIES, PlainCompression, tiny_model

TEMPLATE = "Review: {text}\nSentiment:{label}"
LABELS = [" Negative", " Positive"]
DEMONSTRATIONS = [("A bore from start to end.", 0), ("A delight, warm and clever.", 1)]
TEXTS = ["It drags on.", "Lovely acting throughout.", "A waste of time.", "I laughed and cried."]


def loaded(folder: Path) -> tuple[Any, Any]:
    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def eager_probabilities(model: Any, tokenizer: Any, token_ids: list[int]) -> torch.Tensor:
    """Label probabilities after a prompt with transformers' own eager attention, [C]."""
    model.set_attn_implementation("eager")
    words = [tokenizer.encode(word)[0] for word in LABELS]
    with torch.no_grad():
        logits: torch.Tensor = model(torch.tensor([token_ids])).logits
    return logits[0, -1, words].softmax(-1)


INSTRUCTION, SEPARATOR = "Is the review good?", "\n---\n"
MEASURING = ["flow", "attention", "isolate", "knockout", "transplant"]


@pytest.fixture
def classifier(tiny_model_directory: Path) -> InContextClassifier:
    return InContextClassifier(*loaded(tiny_model_directory), TEMPLATE, LABELS, DEMONSTRATIONS)


def test_the_documentation_s_examples_run_and_are_short(
    tiny_model_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-model").symlink_to(tiny_model_directory)
    *of_models, _ = python_examples("docs/reference/python.md")
    for block in of_models:
        assert len([line for line in block.splitlines() if line.strip()]) <= 12
    names = run_examples(*of_models)
    assert (tmp_path / "flow.png").is_file()
    assert set(names["isolated"]["side"]) == {"first", "none"}  # and without demonstrations
    weights = FittedWeights.load(tmp_path / "beta.safetensors")
    assert weights.purpose.labels == tuple(LABELS)
    query = names["cache"].query("A small wonder.")["input_ids"].shape[1]
    assert names["output"].shape[1] > query


def test_a_device_that_is_not_tested_is_refused_by_name(tiny_model_directory: Path) -> None:
    model, tokenizer = loaded(tiny_model_directory)
    with pytest.raises(InputError, match="the device meta, which lacks float64 or is not tested"):
        InContextClassifier(model.to("meta"), tokenizer, TEMPLATE, LABELS, DEMONSTRATIONS)


def test_architectures_that_no_test_compares_are_compared_when_given(
    tiny_model_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []

    def compare(name: str, folder: str) -> dict[str, float]:
        compared.append(name)
        return check_against_eager(name, folder)

    monkeypatch.setattr("anchorflow.classifier.check_against_eager", compare)
    _, tokenizer = loaded(tiny_model_directory)

    def given(model: Any, name: str) -> None:
        InContextClassifier(
            model, tokenizer, TEMPLATE, LABELS, DEMONSTRATIONS, names=Names(model=name)
        )

    for family in FAMILIES:
        given(tiny_model(family, vocabulary=1200), family)
    assert not compared
    given(tiny_family("granite", vocab_size=1200), "other")
    assert compared == ["other"]

    def wrong(call: AttentionCall) -> torch.Tensor:
        return plain_attention(replace(call, scaling=call.scaling * 1.02))

    monkeypatch.setattr("anchorflow.model.eager_comparison.plain_attention", wrong)
    with pytest.raises(
        InputError, match=r"models\.other: the attention of granite is not reproduc"
    ):
        given(tiny_family("granite", vocab_size=1200), "other")


def test_a_model_whose_configuration_transformers_lists_inside_another_is_taken(
    tiny_model_directory: Path,
) -> None:
    _, tokenizer = loaded(tiny_model_directory)
    inner = {**tiny_config("emu3").get_text_config().to_dict(), "vocab_size": 1200}
    model = tiny_family("emu3", text_config=inner)
    assert type(model.config).__name__ == "Emu3TextConfig"  # which Emu3Config holds
    given = InContextClassifier(model, tokenizer, TEMPLATE, LABELS, DEMONSTRATIONS)
    (ours,) = given.predict(TEXTS[:1])
    (row,) = given.prompts(TEXTS[:1], [0]).to_dicts()
    plain = eager_probabilities(model, tokenizer, row["token_ids"])
    np.testing.assert_allclose(ours, plain, rtol=1e-4)


def test_a_model_that_carries_a_state_is_measured_at_its_places_and_not_compressed(
    tiny_model_directory: Path,
) -> None:
    _, tokenizer = loaded(tiny_model_directory)
    model = tiny_model("lfm2", vocabulary=1200)
    classifier = InContextClassifier(model, tokenizer, TEMPLATE, LABELS, DEMONSTRATIONS)
    rows = classifier.flow(["a fine film"], [0]).rows
    assert rows["layer"].to_list() == [1, 3]
    assert classifier.predict(["a fine film"]).sum() == pytest.approx(1)
    with pytest.raises(InputError, match="layers carry a state"):
        classifier.compress()


def test_python_needs_no_module_of_windows_or_the_workflow() -> None:
    program = (
        "import sys, transformers, psutil; from torch import nn\n"
        "missing = ('resource', 'fcntl', 'datasets', 'snakemake', 'gguf')\n"
        "sys.modules.update(dict.fromkeys(missing))\n"
        "import anchorflow; anchorflow.InContextClassifier, anchorflow.Run"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"template": "Review\nSentiment:{label}"}, r"must contain \{text\} exactly once"),
        (
            {"template": "P: {premise} H: {hypothesis} A:{label}"},
            r"^task.template: .*; join fields",
        ),
        ({"demonstrations": [("a", 2)]}, "the label 2 is not between 0 and 1"),
        ({"demonstrations": []}, "there are no demonstrations"),
        ({"separator": ""}, "the separator is empty; give one"),
    ],
)
def test_bad_wording_is_told(
    changes: dict[str, Any], said: str, tiny_model_directory: Path
) -> None:
    model, tokenizer = loaded(tiny_model_directory)
    wording = {"template": TEMPLATE, "labels": LABELS, "demonstrations": DEMONSTRATIONS, **changes}
    with pytest.raises(InputError, match=said):
        InContextClassifier(model, tokenizer, **wording)


TEXTS_ARE_ALL = "here, all texts that are given are m"


@pytest.mark.parametrize(
    ("method", "settings", "said"),
    [
        *((name, {"labels": [-1]}, "the label -1 is not between 0 and 1") for name in MEASURING),
        ("knockout", {"layers": "all"}, r"knockout\.layers: 'all' is not of type"),
        ("knockout", {"variant": "masks"}, r"knockout\.variant: 'masks' is not one of"),
        ("isolate", {"draw": 3}, r"isolation\.draw: unknown key"),
        ("isolate", {"side": "frist"}, "side: 'frist' is neither first nor last"),
        ("isolate", {"seeds": 1}, f"isolation.seeds: {TEXTS_ARE_ALL}"),
        ("isolate", {"examples": 1}, f"isolation.examples: {TEXTS_ARE_ALL}"),
        ("transplant", {"places": ["labels"]}, r"transplant\.places.*'labels' is not one of"),
        ("fit", {"texts": [], "labels": []}, "there are no texts"),
        ("fit", {"labels": [0, 1]}, "there are 2 labels for 1 texts"),
        ("fit", {"labels": [2]}, "the label 2 is not between 0 and 1"),
        ("fit", {"texts": ["word " * 2000]}, r"text 0: .* \d+ tokens exceed the context of 1024"),
    ],
)
def test_settings_and_texts_are_checked_like_those_of_the_configuration(
    method: str, settings: dict[str, Any], said: str, classifier: InContextClassifier
) -> None:
    with pytest.raises(InputError, match=said):
        getattr(classifier, method)(**{"texts": ["a"], "labels": [0], **settings})


@pytest.mark.parametrize(
    ("method", "share", "said"),
    [
        ("anchors", None, "there is no method 'anchors'; choose one of attention_sink, "),
        ("label_only", 0.5, "label_only keeps a fixed set of tokens, not a share"),
        ("recent", 1.5, r"share: 1.5 should be more than 0 and at most 1"),
    ],
)
def test_a_method_or_a_share_it_cannot_keep_is_told(
    method: str, share: float | None, said: str, classifier: InContextClassifier
) -> None:
    with pytest.raises(InputError, match=said):
        classifier.compress(method, share)


def test_methods_of_one_share_keep_as_many_tokens(classifier: InContextClassifier) -> None:
    assert classifier.compress("recent", 0.5).tokens == classifier.compress("even", 0.5).tokens


def test_one_text_is_a_text(classifier: InContextClassifier) -> None:
    whole = classifier.prompts(["It drags."], [1])
    assert classifier.prompts("It drags.", 1).equals(whole)
    flow = classifier.flow(["It drags."], [1]).rows
    assert classifier.flow("It drags.", np.int64(1)).rows.equals(flow)
    assert classifier.predict("It drags.").shape == (1, 2)


def test_whole_floats_as_a_column_of_pandas_has_them_are_labels(
    classifier: InContextClassifier,
) -> None:
    texts = ["It drags.", "Lovely."]
    whole, of_pandas = (classifier.prompts(texts, of) for of in ([0, 1], [0.0, 1.0]))
    assert of_pandas.equals(whole)


def test_a_figure_is_written_to_every_file(classifier: InContextClassifier, tmp_path: Path) -> None:
    flow = classifier.flow(TEXTS, [0, 1, 0, 1])
    flow.plot(tmp_path / "a.PNG", tmp_path / "b.png", tmp_path / "c.svg", resolution=50)
    assert (tmp_path / "a.PNG").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert (tmp_path / "c.svg").is_file()


@pytest.mark.parametrize(
    ("names", "style", "said"),
    [
        (["a.png", "b.foo"], {}, "b.foo: its name ends in no format of figures; choose .*pdf"),
        (["a.png", "b"], {}, "b: its name ends in no format"),
        ([], {}, 'there is no file to write the figure to; name one, such as "flow.pdf"'),
        (["a.png"], {"fontsize": 7}, 'figures.fontsize: unknown key .did you mean "font_size"'),
        (["a.png"], {"font_size": "7"}, "figures.font_size: '7' is not of type 'number'"),
        (["a.png"], {"tasks": ["other"]}, r"figures.tasks: other is not among tasks \(task\)"),
        (["a.png"], {"formats": ["svg"]}, "figures.formats: here, names of files say their form"),
    ],
)
def test_figures_that_can_t_be_drawn_are_told_and_nothing_is_written(
    names: list[str],
    style: dict[str, Any],
    said: str,
    classifier: InContextClassifier,
    tmp_path: Path,
) -> None:
    flow = classifier.flow(TEXTS, [0, 1, 0, 1])
    with pytest.raises(InputError, match=said):
        flow.plot(*(tmp_path / name for name in names), **style)
    assert not list(tmp_path.iterdir())


def test_the_readme_s_example_runs(
    tiny_model_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model, tokenizer = loaded(tiny_model_directory)
    of_task = {"template": TEMPLATE, "labels": LABELS, "demonstrations": DEMONSTRATIONS}
    texts = {"texts": TEXTS, "true_labels": [0, 1, 0, 1]}
    names = {"model": model, "tokenizer": tokenizer, **of_task, **texts}
    run_examples(*python_examples("README.md"), **names)
    assert (tmp_path / "flow.pdf").is_file()


def test_predictions_are_those_of_transformers_on_the_whole_prompt(
    classifier: InContextClassifier, tiny_model_directory: Path
) -> None:
    model, tokenizer = loaded(tiny_model_directory)
    shown = "".join(f"Review: {text}\nSentiment:{LABELS[n]}\n" for text, n in DEMONSTRATIONS)
    for text, ours in zip(TEXTS, classifier.predict(TEXTS), strict=True):
        ids = tokenizer(f"{shown}Review: {text}\nSentiment:").input_ids
        np.testing.assert_allclose(ours, eager_probabilities(model, tokenizer, ids), rtol=1e-4)


def test_fitted_weights_learn_the_training_texts_and_repeat(
    classifier: InContextClassifier,
) -> None:
    labels = [0, 1, 0, 1]
    weights = classifier.fit(TEXTS, labels)
    again = classifier.fit(TEXTS, labels)
    torch.testing.assert_close(weights.beta, again.beta, rtol=0, atol=0)
    true = np.arange(4), labels
    before, after = classifier.predict(TEXTS), classifier.predict(TEXTS, weights)
    assert np.log(after[true]).mean() > np.log(before[true]).mean()
    small_batches = classifier.predict(TEXTS, weights, batch_tokens=1)
    np.testing.assert_allclose(small_batches, after, rtol=1e-4)


def test_running_out_of_memory_changes_no_prediction(classifier: InContextClassifier) -> None:
    weights = classifier.fit(TEXTS, [0, 1, 0, 1], epochs=1)
    expected = classifier.predict(TEXTS, weights)
    shown = classifier.prompts(TEXTS, [0] * len(TEXTS))
    failed = limit(classifier.model, shown["query_start"][0])  # the demonstrations just fit
    again = classifier.fit(TEXTS, [0, 1, 0, 1], epochs=1)
    np.testing.assert_allclose(classifier.predict(TEXTS, again), expected, rtol=1e-4)
    assert failed


@pytest.mark.parametrize(("words", "several"), [([" the", " a"], False), (LABELS, True)])
def test_weights_of_first_tokens_alone_are_refused_where_label_words_have_more(
    classifier: InContextClassifier, words: list[str], several: bool
) -> None:
    tokenizer = _tokenizer(classifier)
    assert (max(len(tokenizer.encode(word)) for word in words) > 1) == several
    own = InContextClassifier(classifier.model, tokenizer, TEMPLATE, words, DEMONSTRATIONS)
    weights = own.fit(TEXTS[:2], [0, 1], epochs=1)
    old = replace(weights, whole_words=False)
    if several:
        with pytest.raises(InputError, match=r"these weights: fitted by version 0.1.0, which"):
            own.predict(TEXTS, old)
    else:
        np.testing.assert_array_equal(own.predict(TEXTS, old), own.predict(TEXTS, weights))


def _tokenizer(classifier: InContextClassifier) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=classifier._tokenizer)


VOCABULARY = 1200  # of the tiny tokenizer


@pytest.mark.parametrize("family", ["gemma3", "gpt2"])
def test_with_everything_kept_generate_goes_on_as_after_the_full_prompt(
    family: str, tiny_model_directory: Path
) -> None:
    _, tokenizer = loaded(tiny_model_directory)
    model, eager = (tiny_model(family, eager, VOCABULARY) for eager in (False, True))
    classifier = InContextClassifier(model, tokenizer, TEMPLATE, LABELS, DEMONSTRATIONS)
    cache = classifier.compress("full")
    how = {"max_new_tokens": 20, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    for text in TEXTS:
        (ids,) = classifier.prompts([text], [0])["token_ids"].to_list()
        whole = torch.tensor([ids])
        plain = eager.generate(whole, attention_mask=torch.ones_like(whole), **how)
        query = cache.query(text)
        with cache.in_front():
            ours = model.generate(**query, **how)
        assert ours[0, query["input_ids"].shape[1] :].tolist() == plain[0, len(ids) :].tolist()
        assert cache.tokens + query["input_ids"].shape[1] == len(ids)


@pytest.mark.parametrize("method", ["hidden_anchor", "snapkv"])
@pytest.mark.parametrize("family", FAMILIES)
def test_generate_after_compression_sees_what_is_kept_and_no_more(
    family: str, method: str, tiny_model_directory: Path
) -> None:
    _, tokenizer = loaded(tiny_model_directory)
    model = tiny_model(family, vocabulary=VOCABULARY)
    classifier = InContextClassifier(model, tokenizer, TEMPLATE, LABELS, DEMONSTRATIONS)
    cache = classifier.compress(method, 0.5 if method == "snapkv" else None)
    prompts = classifier.prompts(TEXTS[:1], [0])
    (ids,) = prompts["token_ids"].to_list()
    query = cache.query(TEXTS[0])
    own = query["input_ids"].shape[1]
    shown = observe(model, ids[: len(ids) - own], prompts.row(0, named=True))
    kept = METHODS[method](shown, int(0.5 * shown.prefix.tokens), 0)
    how = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    with cache.in_front():
        ours = model.generate(**query, **how)[0, own:].tolist()
    plain = torch.tensor([ids])
    with torch.no_grad(), intervene(PlainCompression(dict(kept), len(ids) - own)):
        for _ in range(12):
            logits = model(plain, use_cache=False).logits[:, -1:]
            plain = torch.cat([plain, logits.argmax(-1)], 1)
    assert ours == plain[0, len(ids) :].tolist()


@pytest.mark.parametrize("family", ["llama", "gptj", "gpt-neo"])
def test_what_generate_could_silently_get_wrong_is_refused(
    family: str, tiny_model_directory: Path
) -> None:
    _, tokenizer = loaded(tiny_model_directory)
    model = tiny_model(family, vocabulary=VOCABULARY)
    classifier = InContextClassifier(model, tokenizer, TEMPLATE, LABELS, DEMONSTRATIONS)
    cache = classifier.compress()
    query = cache.query(TEXTS[0])
    with cache.in_front(), pytest.raises(InputError, match="a static cache is not supported"):
        model.generate(**query, max_new_tokens=2, cache_implementation="static")
    query["attention_mask"][0, 0] = 0
    with cache.in_front(), pytest.raises(InputError, match="attention mask hides tokens"):
        model.generate(**query, max_new_tokens=2)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"labels": LABELS[::-1]}, "these weights: fitted for the labels"),
        ({"instruction": INSTRUCTION}, "fitted for the instruction ''"),
        ({"separator": SEPARATOR}, r"fitted for the separator '\\n'"),
    ],
)
def test_weights_are_refused_with_another_wording(
    changes: dict[str, Any], said: str, classifier: InContextClassifier
) -> None:
    weights = classifier.fit(TEXTS[:2], [0, 1], epochs=1)
    wording = {"template": TEMPLATE, "labels": LABELS, "demonstrations": DEMONSTRATIONS, **changes}
    other = InContextClassifier(classifier.model, _tokenizer(classifier), **wording)
    with pytest.raises(InputError, match=said):
        other.predict(TEXTS, weights)


def test_an_instruction_and_a_separator_are_written_around_the_demonstrations(
    tiny_model_directory: Path,
) -> None:
    model, tokenizer = loaded(tiny_model_directory)
    wording = (TEMPLATE, LABELS, DEMONSTRATIONS, INSTRUCTION, SEPARATOR)
    classifier = InContextClassifier(model, tokenizer, *wording)
    shown = [f"Review: {text}\nSentiment:{LABELS[label]}" for text, label in DEMONSTRATIONS]
    whole = SEPARATOR.join([INSTRUCTION, *shown, f"Review: {TEXTS[0]}\nSentiment:"])
    (row,) = classifier.prompts(TEXTS[:1], [0]).to_dicts()
    assert row["token_ids"] == tokenizer(whole).input_ids
    plain = eager_probabilities(loaded(tiny_model_directory)[0], tokenizer, row["token_ids"])
    np.testing.assert_allclose(classifier.predict(TEXTS[:1])[0], plain, rtol=1e-4)
    told = tokenizer(INSTRUCTION).input_ids
    plain_classifier = InContextClassifier(model, tokenizer, TEMPLATE, LABELS, DEMONSTRATIONS)
    kept = [each.compress("label_only").tokens for each in (classifier, plain_classifier)]
    assert kept == [len(told) + kept[1], kept[1]]
