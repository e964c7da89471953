"""The built-in corpora: balanced, of the stated lengths, and without repetition."""

import re
from collections import Counter
from itertools import combinations
from typing import Any

import polars as pl
import pytest
import yaml
from snakemake.utils import update_config

from anchorflow.config.configuration import complete_configuration
from checkout import ROOT

CONFIG: dict[str, Any] = {}
for name in ("config.yaml", "full.yaml"):  # the second extends the first
    update_config(CONFIG, yaml.safe_load((ROOT / "config" / name).read_text(encoding="utf-8")))
TASKS = CONFIG["tasks"]
SHOWN = (ROOT / "data/README.md").read_text(encoding="utf-8").split("```")[1]
FURTHER = yaml.safe_load(SHOWN.removeprefix("yaml"))  # part of neither run
CORPORA = {task["corpus"]: task for task in (TASKS | FURTHER).values()}
SPLITS = ("train", "test")
CHOSEN = ("answers", "forms", "subjects")  # by a rule, on texts that no run uses


def read_split(corpus: str, split: str) -> pl.DataFrame:
    return pl.read_csv(ROOT / "data" / f"{corpus}_{split}.csv")


def fields_of_corpus(corpus: str) -> list[str]:
    """The columns with the texts: all but the label."""
    return list(CORPORA[corpus].get("columns", {"text": "text"}).values())


def texts_of(corpus: str) -> list[str]:
    splits = (*SPLITS, "development") if corpus in CHOSEN else SPLITS
    frames = (read_split(corpus, split) for split in splits)
    joined = pl.concat_str(fields_of_corpus(corpus), separator=" ")
    return [text for frame in frames for text in frame.select(joined).to_series()]


def normalized(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower())) or text  # signs have no words


def trigrams(text: str) -> set[tuple[str, ...]]:
    words = normalized(text).split()
    return {tuple(words[i : i + 3]) for i in range(len(words) - 2)}


def test_every_file_belongs_to_a_corpus_of_a_run_or_of_the_readme() -> None:
    expected = {f"{corpus}_{split}.csv" for corpus in CORPORA for split in SPLITS}
    expected |= {f"{corpus}_development.csv" for corpus in CHOSEN}
    assert {path.name for path in (ROOT / "data").glob("*.csv")} == expected


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("corpus", CORPORA)
def test_splits_are_balanced_over_the_configured_label_words(corpus: str, split: str) -> None:
    frame = read_split(corpus, split)
    counts = Counter(frame["label"])
    assert frame.columns == [*fields_of_corpus(corpus), "label"]
    assert set(counts) == {word.strip() for word in CORPORA[corpus]["labels"]}
    assert len(set(counts.values())) == 1
    assert min(counts.values()) >= 24


@pytest.mark.parametrize("corpus", CORPORA)
def test_texts_are_neither_empty_nor_broken_over_lines(corpus: str) -> None:
    for text in texts_of(corpus):
        assert text
        assert text == " ".join(text.split())


def test_news_have_25_to_45_words() -> None:
    for text in texts_of("news"):
        assert 25 <= len(text.split()) <= 45, text


@pytest.mark.parametrize("corpus", CORPORA)
def test_no_text_occurs_twice_within_or_across_splits(corpus: str) -> None:
    counts = Counter(normalized(text) for text in texts_of(corpus))
    assert [text for text, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("corpus", CORPORA)
def test_no_two_texts_share_many_word_trigrams(corpus: str) -> None:
    texts = [(text, trigrams(text)) for text in texts_of(corpus)]
    near = [
        (first, second)
        for (first, a), (second, b) in combinations(texts, 2)
        if a and b and len(a & b) >= 0.3 * len(a | b)
    ]
    assert near == []


def test_no_premise_or_hypothesis_occurs_twice_and_none_repeats_the_other() -> None:
    for field in ("premise", "hypothesis"):
        said = [normalized(t) for split in SPLITS for t in read_split("entailment", split)[field]]
        assert len(set(said)) == len(said)
    both = pl.concat(read_split("entailment", split) for split in SPLITS)
    assert (both["premise"] != both["hypothesis"]).all()


def test_words_of_the_hypothesis_alone_do_not_tell_the_label() -> None:
    both = pl.concat(read_split("entailment", split) for split in SPLITS)
    words = both["hypothesis"].str.split(" ").list.len()
    means = both.with_columns(words=words).group_by("label").agg(pl.col("words").mean())
    yes, no = (means.filter(label=label)["words"].item() for label in ("Yes", "No"))
    assert abs(yes - no) < 1


def test_the_extended_run_is_a_configuration_that_keeps_the_default_run() -> None:
    default = yaml.safe_load((ROOT / "config/config.yaml").read_text(encoding="utf-8"))
    complete_configuration(CONFIG, ROOT / "workflow/schemas/config.schema.yaml")
    for section in ("models", "tasks"):
        for name, entry in default[section].items():
            assert entry.items() <= CONFIG[section][name].items()
    assert set(CONFIG["tasks"]["answers"]["label_words"]) == {"symbols", "permuted"}
