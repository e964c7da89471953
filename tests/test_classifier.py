"""In-context classification with one's own model: the README's ten lines, and what it refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from anchorflow.classifier import InContextClassifier
from anchorflow.errors import InputError
from anchorflow.fitted_weights import FittedWeights

TEMPLATE = "Review: {text}\nSentiment:{label}"
LABELS = [" Negative", " Positive"]
DEMONSTRATIONS = [("A bore from start to end.", 0), ("A delight, warm and clever.", 1)]
TEXTS = ["It drags on.", "Lovely acting throughout.", "A waste of time.", "I laughed and cried."]


def loaded(folder: Path) -> tuple[Any, Any]:
    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


@pytest.fixture
def classifier(tiny_model_directory: Path) -> InContextClassifier:
    return InContextClassifier(*loaded(tiny_model_directory), TEMPLATE, LABELS, DEMONSTRATIONS)


def readme_example() -> str:
    """The README's block of Python that fits weights."""
    readme = Path(__file__).parent.parent / "README.md"
    blocks = readme.read_text(encoding="utf-8").split("```python\n")[1:]
    (block,) = [b.partition("```")[0] for b in blocks if "classifier.fit" in b]
    return block


def test_the_readme_s_example_runs_and_has_ten_lines_at_most(
    tiny_model_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-model").symlink_to(tiny_model_directory)
    block = readme_example()
    assert len([line for line in block.splitlines() if line.strip()]) <= 10
    exec(compile(block, "README.md", "exec"), {})
    assert FittedWeights.load(tmp_path / "beta.safetensors").purpose.labels == tuple(LABELS)


def test_predictions_are_those_of_transformers_on_the_whole_prompt(
    classifier: InContextClassifier, tiny_model_directory: Path
) -> None:
    eager, tokenizer = loaded(tiny_model_directory)
    eager.set_attn_implementation("eager")
    probabilities = classifier.predict(TEXTS)
    words = [tokenizer.encode(word)[0] for word in LABELS]
    shown = "".join(
        f"Review: {text}\nSentiment:{LABELS[label]}\n" for text, label in DEMONSTRATIONS
    )
    for text, ours in zip(TEXTS, probabilities, strict=True):
        ids = tokenizer(f"{shown}Review: {text}\nSentiment:", return_tensors="pt").input_ids
        with torch.no_grad():
            plain = eager(ids).logits[0, -1, words].softmax(-1)
        np.testing.assert_allclose(ours, plain, rtol=1e-4)


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


def test_weights_for_another_order_of_labels_are_refused(
    classifier: InContextClassifier,
) -> None:
    weights = classifier.fit(TEXTS[:2], [0, 1], epochs=1)
    other = InContextClassifier(
        classifier.model, _tokenizer(classifier), TEMPLATE, LABELS[::-1], DEMONSTRATIONS
    )
    with pytest.raises(InputError, match="these weights: fitted for the labels"):
        other.predict(TEXTS, weights)


def _tokenizer(classifier: InContextClassifier) -> Any:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=classifier._tokenizer)


@pytest.mark.parametrize(
    ("texts", "labels", "sentence"),
    [
        ([], [], "there are no texts"),
        (["a"], [0, 1], "there are 2 labels for 1 texts"),
        (["a"], [2], "the label 2 is none of 0 to 1"),
        ("a", [0], "texts is a single string"),
        (["word " * 2000], [0], r"text 0: its prompt's \d+ tokens exceed the context of 1024"),
    ],
)
def test_bad_training_texts_are_told(
    classifier: InContextClassifier, texts: list[str] | str, labels: list[int], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        classifier.fit(texts, labels)


def test_a_bad_template_or_label_is_told(tiny_model_directory: Path) -> None:
    model, tokenizer = loaded(tiny_model_directory)
    with pytest.raises(InputError, match=r"must contain \{text\} exactly once"):
        InContextClassifier(model, tokenizer, "Review\nSentiment:{label}", LABELS, DEMONSTRATIONS)
    with pytest.raises(InputError, match="the label 2 is none of 0 to 1"):
        InContextClassifier(model, tokenizer, TEMPLATE, LABELS, [("a", 2)])
    with pytest.raises(InputError, match="there are no demonstrations"):
        InContextClassifier(model, tokenizer, TEMPLATE, LABELS, [])
