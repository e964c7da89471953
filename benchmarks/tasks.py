r"""Which tasks do demonstrations teach a model? A table of candidates, for choosing a run's tasks.

Each candidate is a CSV file with the columns ``text`` and ``label``. For every seed, demonstrations
and texts to be labeled are drawn from it without overlap, and the texts are labeled with the true
labels of the demonstrations, with deranged ones (every demonstration has another demonstration's
label, and another one than its own), and without demonstrations. "deranged" is the share of texts
that still get their true label.

A task is taught by its demonstrations if accuracy with true labels exceeds that with deranged ones
by at least ``TAUGHT``, and that without demonstrations by at least ``NEEDED``; prompts should have
at most ``SHORT`` tokens, and label words one. Nothing about in-context learning can be decided
where nothing is learnt in context.

    model="--model results/models/gemma-3-270m --tokenizer results/tokenizers/gemma-3-270m"
    python benchmarks/tasks.py $model data/forms_development.csv data/subjects_development.csv
    python benchmarks/tasks.py $model --template '{text}\\n{label}' data/answers_development.csv
    python benchmarks/tasks.py $model --words A,B,C,D data/answers_development.csv
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers import PreTrainedTokenizerFast as Tokenizer

from anchorflow.classifier import AnchorCache, InContextClassifier
from anchorflow.prepare.samples import exchanged
from anchorflow.random_draws import generator

TAUGHT, NEEDED, SHORT = 0.4, 0.2, 100


class Found(NamedTuple):
    """Means over seeds and texts of one candidate."""

    true: float
    deranged: float
    without: float
    tokens: float  # of a prompt
    word_tokens: int  # of the longest label word

    @property
    def is_taught(self) -> bool:
        """Whether the rule holds."""
        learnt = self.true - self.deranged >= TAUGHT and self.true - self.without >= NEEDED
        return learnt and self.tokens <= SHORT and self.word_tokens == 1


def measure(
    model: PreTrainedModel,
    tokenizer: Tokenizer,
    rows: pl.DataFrame,
    words: Sequence[str],
    arguments: argparse.Namespace,
) -> Found:
    """Accuracies of one candidate.

    Parameters
    ----------
    rows : DataFrame
        Columns text and label; labels are indices into ``words``.
    """
    found, tokens = [], []
    for seed in arguments.seeds:
        random = generator(seed, arguments.name, "tasks")
        order = rows.sample(fraction=1, shuffle=True, seed=int(random.integers(2**31)))
        shown = order.group_by("label", maintain_order=True).head(arguments.per_label)
        shown = shown.sample(fraction=1, shuffle=True, seed=int(random.integers(2**31)))
        asked = order.join(shown, on="text", how="anti").head(arguments.texts)
        labels, true = shown["label"].to_list(), asked["label"].to_numpy()
        deranged = [labels[place] for place in exchanged(labels, random)]
        accuracies = []
        for given in (labels, deranged):
            demonstrations = list(zip(shown["text"], given, strict=True))
            icl = InContextClassifier(model, tokenizer, arguments.template, words, demonstrations)
            texts = asked["text"].to_list()
            accuracies.append((icl.predict(texts).argmax(1) == true).mean())
            if given is labels:
                alone = icl.compress("first_only")
                answers = [label_of(alone, model, icl, text) for text in texts]
                without = (np.array(answers) == true).mean()
                tokens.append(icl.prompts(texts, true.tolist())["tokens"].to_numpy().mean())
        found.append((*accuracies, without))
    longest = max(len(tokenizer(word, add_special_tokens=False)["input_ids"]) for word in words)
    means = np.array(found).mean(0).tolist()
    return Found(means[0], means[1], means[2], float(np.mean(tokens)), longest)


@torch.no_grad()
def label_of(
    alone: AnchorCache, model: PreTrainedModel, icl: InContextClassifier, text: str
) -> int:
    """The likeliest label of a text after a compressed cache."""
    with alone.in_front():
        logits = model(**alone.query(text)).logits[0, -1]
    first = icl.prompts([text], [0])["label_tokens"][0].to_list()
    return int(logits[first].argmax())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="file.csv")
    parser.add_argument("--model", required=True, help="a folder in transformers' format")
    parser.add_argument("--tokenizer", help="the folder of its tokenizer.json, if it is another")
    parser.add_argument("--template", default="{text}:{label}")
    parser.add_argument("--words", help="label words, comma-separated, in place of the labels")
    parser.add_argument("--per-label", type=int, default=2, help="demonstrations of each label")
    parser.add_argument("--seeds", type=lambda s: list(range(int(s))), default=list(range(4)))
    parser.add_argument("--texts", type=int, default=32, help="texts to label for each seed")
    arguments = parser.parse_args()
    arguments.template = arguments.template.replace("\\n", "\n")
    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32)
    folder = arguments.tokenizer or arguments.model
    tokenizer = Tokenizer(tokenizer_file=str(Path(folder, "tokenizer.json")))
    print("| candidate | true | deranged | without | tokens | tokens of a label word | taught |")
    print("|---|---|---|---|---|---|---|")
    for file in arguments.files:
        arguments.name = file.stem
        rows = pl.read_csv(file, schema_overrides={"text": pl.String, "label": pl.String})
        named = rows["label"].unique(maintain_order=True).to_list()
        words = [f" {word}" for word in (arguments.words.split(",") if arguments.words else named)]
        indexed = rows.with_columns(
            pl.col("label").replace_strict(named, range(len(named)), return_dtype=pl.Int32)
        )
        of = measure(model, tokenizer, indexed, words[: len(named)], arguments)
        numbers = " | ".join(f"{value:.2f}" for value in of[:3])
        taught = "yes" if of.is_taught else "no"
        print(f"| {file.stem} | {numbers} | {of.tokens:.0f} | {of.word_tokens} | {taught} |")


if __name__ == "__main__":
    main()
