"""The configuration: defaults filled in, and every mistake told in one sentence with its key."""

import copy
import os
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml
from snakemake.utils import update_config

from anchorflow.config import configuration
from anchorflow.config.configuration import (
    are_drawn,
    asked,
    cells_with_shuffled_labels,
    cells_with_words,
    complete_configuration,
    label_word_sets,
    listed,
    read_schema,
    retrieval_of,
    task_settings,
    twins_of,
)
from anchorflow.config.errors import InputError
from anchorflow.config.named_files import files_of_texts
from anchorflow.config.stages import STAGES
from anchorflow.config.text_fields import fields_of
from checkout import ROOT

NEAR = ' (did you mean "{}"?)'


def test_a_cell_has_its_task_s_settings_with_other_labels() -> None:
    news = {"template": "t", "labels": [" x", " y"], "label_words": {"symbols": [" A", " B"]}}
    config = {"tasks": {"plain": {"labels": [" 1", " 2"]}, "news": news}}
    assert task_settings("news", config) is task_settings("news+shuffled", config) is news
    assert task_settings("news+symbols", config) == {**news, "labels": [" A", " B"]}
    assert cells_with_words(config) == ["news", "news+symbols"]
    assert label_word_sets(config) == {"news": {"words": [" x", " y"], "symbols": [" A", " B"]}}
    unknown = '{}: "{}" is not in the configuration{}; it has {}.'
    for cell, told in (
        ("news+symbol", ("tasks.news.label_words", "symbol", NEAR.format("symbols"), "symbols")),
        ("plain+symbols", ("tasks.plain.label_words", "symbols", "", "none")),
        ("new+symbols", ("tasks", "new", NEAR.format("news"), "plain, news")),
    ):
        with pytest.raises(InputError) as error:
            task_settings(cell, config)
        assert str(error.value) == unknown.format(*told)


def test_words_that_are_drawn_are_a_cell_with_the_task_s_settings_and_no_words_yet() -> None:
    news = {"labels": [" x", " y"], "label_words": {"symbols": [" A", " B"]}}
    config = {"tasks": {"news": {**news, "random_words": ["random", "again"]}}}
    assert task_settings("news+random", config) is config["tasks"]["news"]
    assert are_drawn("news+again", config)
    assert not are_drawn("news", config)
    assert not are_drawn("news+symbols", config)
    found = {"words": [" x", " y"], "symbols": [" A", " B"], "random": [], "again": []}
    assert label_word_sets(config) == {"news": found}
    alone = {"tasks": {"news": {"labels": [" x", " y"], "random_words": ["random"]}}}
    assert cells_with_words(alone) == ["news", "news+random"]
    with pytest.raises(InputError, match='did you mean "random"') as error:
        task_settings("news+randon", config)
    assert str(error.value).endswith("it has symbols, random, again.")


def test_a_run_has_the_twins_and_cells_that_its_controls_name() -> None:
    config: dict[str, Any] = {
        "tasks": {"news": {}, "reviews": {}},
        "controls": {"untrained": ["initialized", "shuffled"], "draws": 2, "shuffled_labels": True},
    }
    kinds = ("initialized-0", "initialized-1", "shuffled-0", "shuffled-1")
    assert twins_of("gpt2", config) == [f"gpt2+{kind}" for kind in kinds]
    assert cells_with_shuffled_labels(config) == ["news+shuffled", "reviews+shuffled"]
    config["controls"] = {"untrained": [], "draws": 2, "shuffled_labels": False}
    assert twins_of("gpt2", config) == cells_with_shuffled_labels(config) == []


def test_no_label_words_to_compare_is_said() -> None:
    with pytest.raises(InputError, match=r"^tasks: none has label_words"):
        cells_with_words({"tasks": {"plain": {"labels": [" 1", " 2"]}}})


SCHEMA = ROOT / "workflow" / "schemas" / "config.schema.yaml"

SMALLEST: dict[str, Any] = {
    "models": {
        "tiny": {"source": "local", "path": "models/tiny"},
        "gpt2": {"source": "hub", "repository": "openai-community/gpt2", "revision": "0" * 40},
        "gemma": {"source": "gguf", "files": ["gemma.gguf"], "sha256": "0" * 64},
    },
    "tasks": {
        "reviews": {
            "source": "builtin",
            "corpus": "reviews",
            "template": "Review: {text}\nSentiment:{label}",
            "labels": [" Negative", " Positive"],
        },
        "mine": {
            "source": "local",
            "train": "train.csv",
            "test": "test.csv",
            "template": "{text} ={label}",
            "labels": [" no", " yes", " maybe"],
            "values": [0, 1, 2],
        },
        "sst2": {
            "source": "hub",
            "repository": "stanfordnlp/sst2",
            "revision": "1" * 40,
            "train": "train[:5000]",
            "test": "validation",
            "template": "Review: {text}\nSentiment:{label}",
            "labels": [" Negative", " Positive"],
        },
    },
}
LEFT_OUT = object()  # in place of a value
MODEL, REVIEWS = SMALLEST["models"]["tiny"], SMALLEST["tasks"]["reviews"]
READ_SCHEMA = read_schema(SCHEMA)
KNOWN = ", ".join(READ_SCHEMA["properties"])
CORRECT = "correct the path, which is relative to the working directory."
PACKAGED = {"path": "no_such_package:model"}
FIELDS = {"premise": "sentence1", "hypothesis": "sentence2"}
OF_FIELDS = "Premise: {premise}\nHypothesis: {hypothesis}\nAnswer:{label}"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the local task and model, in the working directory."""
    for name in ("train.csv", "test.csv"):
        (tmp_path / name).touch()
    (tmp_path / "models/tiny").mkdir(parents=True)
    (tmp_path / "models/tiny/config.json").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(configuration, "read_schema", lambda _: READ_SCHEMA)  # once is enough


def changed(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The smallest configuration with other values at these keys, or without them."""
    config = copy.deepcopy(SMALLEST)
    for path, value in changes.items():
        *sections, key = path.split(".")
        part = config
        for section in sections:
            part = part.setdefault(section, {})
        if value is LEFT_OUT:
            del part[key]
        else:
            part[key] = copy.deepcopy(value)
    return config


def completed(changes: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    config = changed(changes)
    complete_configuration(config, SCHEMA)
    return config


def refused(changes: Mapping[str, Any]) -> str:
    """The sentence with which the smallest configuration is refused after changes."""
    with pytest.raises(InputError) as error:
        completed(changes)
    sentence = str(error.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


def assert_refused(changes: Mapping[str, Any], told: str) -> None:
    """The sentence is the one told, or begins with it if it has no full stop."""
    sentence = refused(changes)
    assert (sentence if told.endswith(".") else sentence[: len(told)]) == told


def test_every_key_that_is_left_out_gets_its_default() -> None:
    config = completed()
    assert config["seeds"] == [0, 1, 2]
    assert config["test_examples"] == 16
    assert config["demonstrations_per_label"] == 1
    assert (config["scoring"], config["word_score"]) == ("first_token", "sum")
    assert config["compute"].items() >= {"device": "auto", "threads": 1}.items()
    assert config["statistics"] == {"confidence": 0.95}
    assert config["figures"].items() >= {"panel_width": 2.6, "width": 6.8, "tasks": []}.items()
    assert not {"seeds", "examples"} & {key for name in ("flow", "kernel") for key in config[name]}
    tiny = {"dtype": "float32", "chat": False, "memory": 4000}
    assert config["models"]["tiny"] == {**SMALLEST["models"]["tiny"], **tiny}
    assert config["tasks"]["reviews"]["columns"] == {"text": "text", "label": "label"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seeds", [7]),
        ("statistics.confidence", 0.9),
        ("tasks.mine.columns", {"text": ["title", "body"], "label": "label"}),
        ("models.tiny.dtype", "bfloat16"),
        ("encoder.path", "no_such_package:model"),  # is left to the jobs
        *(("tasks.sst2.test", split) for split in ("validation_matched", "train[:10%]+test[-9:]")),
        ("tasks.sst2.test", "dev.1"),
        *(
            ("tasks", {name: REVIEWS})
            for name in ("averages", "a", "gpt2-xl", "gpt-j_6b.v1", "0", "x" * 64)
        ),
    ],
)
def test_what_is_given_is_kept(key: str, value: Any) -> None:
    found: Any = completed({key: value})
    for part in key.split("."):
        found = found[part]
    assert list(found) == list(value) if key == "tasks" else found == value


def test_values_and_scores_of_whole_words_are_kept() -> None:
    config = completed({"scoring": "whole_word", "word_score": "mean"})
    assert (config["scoring"], config["word_score"]) == ("whole_word", "mean")
    assert config["tasks"]["mine"]["values"] == [0, 1, 2]


def test_defaults_of_two_tasks_are_not_the_same_object() -> None:
    config = completed()
    config["tasks"]["mine"]["columns"]["text"] = "sentence"
    assert config["tasks"]["reviews"]["columns"]["text"] == "text"


def test_completing_twice_changes_nothing() -> None:
    config = completed()
    once = copy.deepcopy(config)
    complete_configuration(config, SCHEMA)
    assert config == once


def test_checkpoints_are_models_with_all_defaults_and_stay_when_completed_again() -> None:
    for step in (500, 1000):
        Path(f"models/checkpoint-{step}").mkdir()
        Path(f"models/checkpoint-{step}/config.json").touch()
    paths = ["models/checkpoint-500", "models/checkpoint-1000"]
    config = completed({"models.tiny": {"source": "local", "paths": paths, "memory": 100}})
    once = copy.deepcopy(config)
    models = config["models"]
    assert list(models) == ["tiny-checkpoint-500", "tiny-checkpoint-1000", "gpt2", "gemma"]
    assert models["tiny-checkpoint-1000"] == {
        **{"source": "local", "path": paths[1], "checkpoint_of": "tiny"},
        **{"dtype": "float32", "chat": False, "memory": 100},
    }
    complete_configuration(config, SCHEMA)
    assert config == once
    del config["models"]["tiny-checkpoint-500"]
    with pytest.raises(InputError, match=r"tiny-checkpoint-1000.checkpoint_of: tiny has no other"):
        complete_configuration(config, SCHEMA)


@pytest.mark.parametrize("file", sorted((ROOT / "config").glob("*.yaml")), ids=lambda f: f.name)
def test_the_shipped_configurations_are_accepted(file: Path) -> None:
    # full.yaml extends the default configuration.
    files = [file.with_name("config.yaml"), file] if file.name == "full.yaml" else [file]
    config: dict[str, Any] = {}
    for each in files:
        update_config(config, yaml.safe_load(each.read_text(encoding="utf-8")))
    complete_configuration(config, SCHEMA)
    assert 0.9 <= config["statistics"]["confidence"] < 1


def published(*names: str) -> dict[str, Any]:
    """The files of a published run together, completed, with files of its texts."""
    config: dict[str, Any] = {}
    for name in names:
        part = yaml.safe_load((ROOT / f"config/published/{name}.yaml").read_text(encoding="utf-8"))
        update_config(config, part)  # as Snakemake does with several files
    for task in config["tasks"].values():
        for split in ("train", "test") if task["source"] == "local" else ():
            Path(task[split]).parent.mkdir(parents=True, exist_ok=True)
            Path(task[split]).touch()
    complete_configuration(config, SCHEMA)
    assert list(config["tasks"]) == ["sst2", "trec", "agnews", "emoc"]
    assert len(config["models"]) == 1
    return config


@pytest.mark.parametrize("data", ["files", "hub"])
@pytest.mark.parametrize("model", ["gemma", "smollm2", "qwen"])
def test_published_configurations_are_data_analyses_and_a_model(
    data: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = published(data, "analyses", model)
    assert len(config["seeds"]) == (5 if model == "qwen" else 10)
    assert config["flow"]["seeds"] == 3
    assert config["flow"]["examples"] == (8 if model == "qwen" else 16)


@pytest.mark.parametrize("model", ["gemma", "smollm2", "qwen"])
def test_configurations_of_disputes_measure_what_a_model_s_own_file_leaves_out(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = published("files", model, "disputes", f"disputes_{model}")
    assert config["faithfulness"]["classes"] and config["vectors"]["kinds"]
    assert len(config["seeds"]) >= 2  # one seed decides nothing


Row = tuple[str, Any, str]


def alike(key: str, values: Iterable[Any], told: str) -> list[Row]:
    """Rows of ``REFUSED`` whose sentences differ in the value alone."""
    return [(key, value, told.format(value)) for value in values]


def named(key: str, names: Iterable[Any], entry: Any, told: str) -> list[Row]:
    """Rows of ``REFUSED`` in which an entry has a name that it can't have."""
    return [(key, {name: entry}, told.format(name, type(name).__name__)) for name in names]


NAME = (
    ": {{!r}} can't be a name; use up to {} letters, digits, '.', '_' and '-', beginning with a "
    'letter or digit (and not "{}").'
)
WORDS_ALIKE = ": {} must be distinct words; spaces alone do not distinguish them."
NO_NAMES = ["", "a b", "x" * 65, "a\u202eb", "../x", "a/b", ".hidden", "-x", "é", "/etc", ".."]
NO_NAMES += ["a:b", "ｔiny", "tіny", "$x$", "a|b", "{task}"]
NO_TEXT = [1, False, None, 1.5, date(2020, 1, 1)]
NOT_TEXT = ": the name {!r} is not text; YAML reads it as {}, so put it in quotes."
IN_CASE = "differ only in case, which some file systems ignore; rename one."
RESERVED = ": {!r} is reserved for controls.shuffled_labels; rename it."
NO_REPOSITORIES = ["../../x", "a/b/c", "a b", "--", "/a", "a/", ""]
WORDS = [" A", " B"]
HOLDS_LABELS = "column 'label' holds the labels; name a column of texts."
CHOICES = "'locale' is not one of ['builtin', 'local', 'hub']"

# A key, a value that it can't have, and what follows the key in the sentence.
REFUSED: list[Row] = [
    # Types, numbers and choices, with the beginning of what belongs there.
    ("test_examples", "24", ": '24' is not of type 'integer'; Test texts"),
    ("test_examples", 1, ": 1 is less than the minimum of 2; Test texts"),
    ("test_examples", 16.0, ": 16.0 is not of type 'integer'; Test texts"),
    ("seeds", [], ": [] should be non-empty; Seeds of all random draws"),
    ("seeds", [0, 0], ": [0, 0] has non-unique elements; Seeds of all"),
    ("seeds", [0, "a"], ".1: 'a' is not of type 'integer'; Seeds of all"),
    ("seeds", [True], ".0: True is not of type 'integer'; Seeds of all"),
    ("tasks", None, ": None is not of type 'object'; Labeled text data sets"),
    ("models", {}, ": {} should be non-empty; Language models to analyze"),
    ("statistics.confidence", 1, ": 1 is greater than or equal"),
    ("compute.device", "gpu", ": 'gpu' is not one of ['auto', 'cpu',"),
    ("compute.examples_per_shard", 0, ": 0 is less than the"),
    ("figures.formats", ["png"], ".0: 'png' is not one of ['pdf', 'svg"),
    ("figures.colors", ["red"] * 3, ".0: 'red' does not match"),
    ("figures.colors", ["#000000\n"] * 3, ".0: '#000000\\n' does not"),
    ("scoring", "word", ": 'word' is not one of ['first_token', 'whole_word']"),
    ("word_score", "max", ": 'max' is not one of ['sum', 'mean']; For scoring"),
    ("flow.seeds", 0, ": 0 is less than the minimum of 1; The first so many se"),
    *alike("kernel.chosen_on", [0, 1, -0.5], ": {} is "),
    ("controls.untrained", True, ": True is not of type 'array'; Ki"),
    ("controls.stages", [], ": [] should be non-empty; Analyses that ar"),
    ("controls.stages", ["retrieval"], ".0: 'retrieval' is not one of ['attention', 'flow', 'iso"),
    *alike("models.gpt2.revision", ["", "-x", "a b", "a@b"], ": {!r} does not match"),
    ("tasks.reviews.separator", "", ": '' should be non-empty; What follows"),
    ("tasks.reviews.columns", {"text": 5}, ".text: 5 is not valid"),
    ("tasks.reviews.source", "locale", f": {CHOICES}{NEAR.format('local')}; Where the texts are"),
    ("retrieval.choices", ["outlier"], ".0: 'outlier' is not one of ['nearest', 'nearest_per_lab"),
    # Keys that there are not, or that had other names.
    ("seed", [1], f': unknown key (did you mean "seeds"?); known here are {KNOWN}.'),
    ("models.tiny.zzz", 1, ": unknown key; known here are source, repository,"),
    ("saliency", {}, ": this section is called flow now; rename it."),
    ("diagnosis", {}, ": this section is called confusion now; rename it."),
    ("heads.chosen_on", 0.7, ": it is a key of kernel now, so move it there."),
    ("controls.stages", ["saliency"], ".0: saliency is called flow now; rename it."),
    # Keys that do not go together.
    ("figures.tasks", ["reviews", "x"], ": x is not among tasks (reviews"),
    ("word_score", "mean", ": mean is for whole words, but scoring is first_token; set "),
    ("controls.stages", ["flow", "cutoff"], ": cutoff is measured in untrained twins where it is "),
    *alike("tasks.mine.many_demonstrations", [1, 6], ": {} should be more than demonstrations_per"),
    # Label words, their names, and values.
    ("tasks.reviews.labels", [" Good"], ": [' Good'] is too short"),
    ("tasks.reviews.labels", [" Good"] * 2, ": [' Good', ' Good'] has non-unique elements"),
    *alike("tasks.reviews.labels", [[" Good", "Good"], [" A", "  "], ["A", "A\n"]], WORDS_ALIKE),
    *(
        (
            "tasks.reviews.labels",
            [word, " yes"],
            f".0: {word!r} is not of type 'string' (YAML reads it as {type(word).__name__}, so put "
            "it in quotes); Label words as they continue",
        )
        for word in (False, 1, None, date(2020, 1, 1))
    ),
    ("tasks.reviews.values", [0, 1, 2], ": 3 values for 2 label words; give one value per label"),
    *alike("tasks.reviews.values", [[1, "1"], [True, "True"]], ": {} are not distinct when comp"),
    ("tasks.reviews.label_words", {}, ": {} should be non-empty; Other label words to compare"),
    *named(
        "tasks.reviews.label_words", ["words", "a+b", "x" * 33, ""], WORDS, NAME.format(32, "words")
    ),
    *named("tasks.reviews.label_words", ["shuffled", "Shuffled"], WORDS, RESERVED),
    ("tasks.reviews.label_words.symbols", [*WORDS, " C"], ": 3 words for 2 labels; give one word"),
    ("tasks.reviews.label_words.symbols", [" A", "A"], WORDS_ALIKE.format([" A", "A"])),
    ("tasks.reviews.label_words.symbols", [" A"] * 2, ": [' A', ' A'] has non-unique elements; W"),
    ("tasks.reviews.label_words", {"a": WORDS, "A": WORDS}, f': "a" and "A" {IN_CASE}'),
    ("tasks.reviews.random_words", ["shuffled"], RESERVED.format("shuffled")),
    *alike("tasks.reviews.random_words", [["words"], ["a/b"], ["random+1"]], ".0: "),
    ("tasks.reviews.instruction", " \n", ": it has no words; write some, or leave the key out."),
    # Columns.
    ("tasks.reviews.columns", {"text": "label", "label": "label"}, f".text: {HOLDS_LABELS}"),
    ("tasks.reviews.columns", {"text": ["a", "b"], "label": "b"}, ".text: column 'b' holds the la"),
    *named(
        "tasks.reviews.columns",
        ["after", "before_text", "1st", "a-b", "x" * 33, "a b"],
        "sentence",
        ": {!r} can't be a field; use up to 32 letters, digits and '_', beginning with a letter "
        '(and not "before_"), other than "after".',
    ),
    # Files, and places on the Hub.
    ("tasks.mine.train", "none.csv", f": there is no file none.csv; {CORRECT}"),
    ("tasks.mine.test", "none.csv", f": there is no file none.csv; {CORRECT}"),
    *alike(
        "tasks.sst2.test",
        ["data/train.parquet", "train.csv", "train.jsonl.gz", "a/b"],
        ": {!r} is the path of a file; name a split of the data set, as in train[:5000], or read a "
        "copy of the file with source: local.",
    ),
    *alike("models.gpt2.repository", NO_REPOSITORIES, ": {!r} does not match"),
    *alike("tasks.sst2.repository", NO_REPOSITORIES, ": {!r} does not match"),
    # Names, which become parts of paths.
    *named("models", NO_NAMES, MODEL, NAME.format(64, "average")),
    *named("tasks", [*NO_NAMES, "average"], REVIEWS, NAME.format(64, "average")),
    *named("models", NO_TEXT, MODEL, NOT_TEXT),
    *named("tasks", NO_TEXT, REVIEWS, NOT_TEXT),
    ("models", {"a": MODEL, "A": MODEL}, f': "a" and "A" {IN_CASE}'),
    ("tasks", {"a": REVIEWS, "A": REVIEWS}, f': "a" and "A" {IN_CASE}'),
    *named(
        "tasks",
        ["index.html", "Index.HTML"],
        REVIEWS,
        ": {!r} is reserved for the index of all pages; rename it.",
    ),
    # Further encoders.
    *named("encoder.further", ["a/b"], PACKAGED, ": {!r} can't be a name"),
    *named(
        "encoder.further", ["a"], {"path": "nowhere"}, ".{}.path: 'nowhere' is not a directory in s"
    ),
    *named("encoder.further", ["a"], {}, '.{}: the key "path" is missing'),
    *named("encoder.further", ["Logistic"], PACKAGED, ": {!r} is reserved for logistic regression"),
    ("encoder.further", {"a": PACKAGED, "A": PACKAGED}, f': "a" and "A" {IN_CASE}'),
]


NAMED, DRAWN = "tasks.reviews.label_words", "tasks.reviews.random_words"


@pytest.mark.parametrize(("key", "value", "told"), REFUSED)
def test_what_a_key_can_t_be_is_refused_in_one_sentence(key: str, value: Any, told: str) -> None:
    assert_refused({key: value}, key + told)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"models": LEFT_OUT}, 'the configuration: the key "models" is missing; La'),
        ({"tasks": LEFT_OUT}, 'the configuration: the key "tasks" is missing; La'),
        # A misspelt key is told before the key that it leaves missing.
        (
            {"tasks.reviews.tempalte": "{text}", "tasks.reviews.template": LEFT_OUT},
            'tasks.reviews.tempalte: unknown key (did you mean "template"?); known here are sou',
        ),
        (
            {NAMED: {"symbols": WORDS}, DRAWN: ["symbols"]},
            f"{DRAWN}: 'symbols' is a name under label_words too; rename one.",
        ),
        (
            {NAMED: {"symbols": WORDS}, DRAWN: ["Symbols"]},
            f'{DRAWN}: "symbols" and "Symbols" differ only in case',
        ),
        (
            {"retrieval.choices": ["other_task"], "tasks": {"reviews": REVIEWS}},
            "retrieval.choices: other_task takes texts of another task of the run, but reviews is ",
        ),
        (
            {"reweighting.learning_rates": [0.1, 0.01], "reweighting.examples_per_label": 1},
            "reweighting.examples_per_label: 1 leaves no training text to hold",
        ),
        (
            {"knockout.classes": ["text_to_label"], "faithfulness.classes": ["label_to_target"]},
            "faithfulness.classes: label_to_target is not among knockout.classes, so there is ",
        ),
        (
            {
                "knockout": {"classes": ["label_to_target"], "layers": ["thirds"]},
                "faithfulness.classes": ["label_to_target"],
            },
            "knockout.layers: faithfulness compares saliency with cutting edges in single layers, ",
        ),
        (
            {"transplant": {"places": ["label", "target"], "what": ["keys"]}},
            "transplant.places: at the target, only outputs of layers are transplanted; add ",
        ),
        (
            {"transplant": {"places": ["label"], "what": ["residual"], "window": 2}},
            "transplant.window: windows are of keys and values, which transplant.what does not ",
        ),
        (
            {"transplant": {"places": ["label"], "depths": 1}},
            "transplant.depths: 1 divides the layers nowhere, so there is no layer whose output ",
        ),
        (
            {"faithfulness.transplants": ["label"]},
            "faithfulness.transplants: without faithfulness.classes the analysis is not run; list ",
        ),
        (
            {"test_examples": 2**62, "compute.examples_per_shard": 3},
            f"compute.examples_per_shard: 3 makes {2**62 // 3 + 1} shards of test_examples ",
        ),
    ],
)
def test_keys_that_do_not_go_together_are_refused_in_one_sentence(
    changes: dict[str, Any], told: str
) -> None:
    assert_refused(changes, told)


def test_an_unknown_key_that_is_no_text_is_told_all_the_same() -> None:
    config: dict[Any, Any] = {**SMALLEST, 1: 2, "zzz": 3}
    with pytest.raises(InputError, match=r"^1: unknown key; known here are models, tasks,"):
        complete_configuration(config, SCHEMA)


@pytest.mark.parametrize(
    ("section", "name", "key", "description"),
    [
        ("models", "tiny", "path", "For local: the directory"),
        ("models", "gpt2", "repository", "For hub: the repository"),
        ("models", "gemma", "files", "For gguf: the parts of one GGUF file"),
        ("tasks", "reviews", "source", "Where the texts are: builtin"),
        ("tasks", "reviews", "corpus", "For builtin: the corpus"),
        ("tasks", "reviews", "template", "One demonstration; {text} and {label} are replaced"),
        ("tasks", "reviews", "labels", "Label words as they continue the prompt"),
        ("tasks", "sst2", "repository", "For hub: the data set repository"),
        ("tasks", "sst2", "train", "The training texts, from which demonstrations"),
        ("tasks", "sst2", "test", "The test texts, likewise"),
    ],
)
def test_a_key_that_its_source_requires_is_told_with_its_meaning(
    section: str, name: str, key: str, description: str
) -> None:
    sentence = refused({f"{section}.{name}.{key}": LEFT_OUT})
    assert sentence.startswith(f'{section}.{name}: the key "{key}" is missing; {description}')


def test_the_other_task_is_drawn_for_every_seed_and_follows_no_order_of_tasks() -> None:
    tasks = {name: {"columns": {"text": "text", "label": "label"}} for name in "abcd"}
    pair = {"columns": {"premise": "p", "hypothesis": "h", "label": "label"}}

    def drawn(task: str, config: dict[str, Any]) -> list[str]:
        return [retrieval_of(task, seed, config)["other"]["task"] for seed in range(40)]

    def run(tasks: dict[str, Any], choices: list[str]) -> dict[str, Any]:
        return {"tasks": tasks, "retrieval": {"choices": choices}}

    few = run(tasks, ["other_task"])
    reversed_order = run(dict(reversed(tasks.items())), ["other_task"])
    assert drawn("a", few) == drawn("a", reversed_order)
    assert set(drawn("a", few)) == {"b", "c", "d"}
    assert drawn("a+symbols", few) == drawn("a", few)
    # A further task takes the place of some of the others, and changes nothing else.
    more = run({**tasks, "e": pair}, ["other_task"])
    pairs = list(zip(drawn("a", few), drawn("a", more), strict=True))
    assert {after for before, after in pairs if after != before} == {"e"}
    assert 0 < sum(after == "e" for _, after in pairs) < 20
    of_pairs = retrieval_of("a", 0, run({"a": tasks["a"], "e": pair}, ["nearest", "other_task"]))
    assert of_pairs == {
        "choices": ["nearest", "other_task"],
        "other": {"task": "e", "fields": ["premise", "hypothesis"]},
    }
    assert retrieval_of("a", 0, run(tasks, ["nearest"])) == {"choices": ["nearest"]}


MUST_HAVE, MUST_END = (
    "must contain {{{}}} exactly once, as in ",
    "must end with {{label}}, after {{{}}}",
)
NEEDS, NO_FIELD = (
    "needs some words between {{{}}} and {{label}}; ",
    "has {{{}}}, which is none of the ",
)


@pytest.mark.parametrize(
    ("template", "told", "field"),
    [
        ("Sentiment:{label}", MUST_HAVE, "text"),
        ("{text} and {text}:{label}", MUST_HAVE, "text"),
        ("Review: {text}\nSentiment:", MUST_HAVE, "label"),
        ("{text}:{label} or:{label}", MUST_HAVE, "label"),
        ("Review: {Text}\nSentiment:{label}", MUST_HAVE, "text"),
        ("{text.__class__}:{label}", MUST_HAVE, "text"),
        ("{text!r}:{label}", MUST_HAVE, "text"),
        ("{0}:{label}", MUST_HAVE, "text"),
        ("%s:{label}", MUST_HAVE, "text"),
        ("{label}: {text}", MUST_END, "text"),
        ("{text}:{label}.", MUST_END, "text"),
        ("{text}:{label}\n", MUST_END, "text"),
        ("Review: {text}{label}", NEEDS, "text"),
        (OF_FIELDS, NO_FIELD, "premise"),
        # Of texts with two fields.
        ("Premise: {premise}\nAnswer:{label}", MUST_HAVE, "hypothesis"),
        ("{premise} {premise} {hypothesis}:{label}", MUST_HAVE, "premise"),
        ("{premise} {hypothesis} {context}:{label}", NO_FIELD, "context"),
        ("{premise} {hypothesis}{label}", NEEDS, "hypothesis"),
        ("{hypothesis} {premise}{label}", NEEDS, "premise"),
        ("{premise}:{label} {hypothesis}", MUST_END, "hypothesis"),
    ],
)
def test_a_template_is_refused_in_one_sentence(template: str, told: str, field: str) -> None:
    key, of_fields = "tasks.reviews.template", "{premise}" in template and template != OF_FIELDS
    example = '"Premise: {premise}' if of_fields else '"Review: {text}'
    said = told.format(field)
    if told == MUST_HAVE:
        said += example
    columns = {"tasks.reviews.columns": FIELDS} if of_fields else {}
    assert_refused({**columns, key: template}, f"{key}: {template!r} {said}")


@pytest.mark.parametrize("path", ["x" * 5000 + ".csv", "pipe", "train.csv/x"])
def test_what_is_no_file_is_told_whatever_it_is(path: str) -> None:
    os.mkfifo("pipe")
    assert_refused({"tasks.mine.train": path}, f"tasks.mine.train: there is no file {path[:1000]}")


@pytest.mark.parametrize("key", ["tasks.mine.test", "models.tiny.path", "encoder.path"])
@pytest.mark.parametrize("path", ["data/{task}-csv", "}-csv"])
def test_braces_in_a_path_are_refused_since_snakemake_would_fill_them_in(
    key: str, path: str
) -> None:
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).touch()
    told = f"{key}: {path!r} has braces, which are not allowed in paths; rename it."
    assert_refused({key: path}, told)


@pytest.mark.parametrize("key", ["models.tiny.path", "encoder.path"])
@pytest.mark.parametrize("path", ["nowhere", "train.csv", "x" * 5000])
def test_what_is_no_directory_of_a_model_is_told_before_anything_runs(key: str, path: str) -> None:
    sentence = refused({key: path})
    assert sentence.startswith(f"{key}: '{path[:900]}")
    assert sentence.endswith(CORRECT)


def test_a_further_encoder_has_a_temperature() -> None:
    config = completed({"encoder.further": {"bert": PACKAGED}})
    assert asked("encoder.further", config) == {"bert": {**PACKAGED, "temperature": 0.05}}


@pytest.mark.parametrize("key", sorted({s.asked_for for s in STAGES.values()} - {""}))
def test_stages_that_are_not_asked_for_are_refused(key: str) -> None:
    config = completed()
    section, _, asks = key.partition(".")
    # Every run asks for these by default.
    config[section][asks] = {"flow_page.examples": 0, "retrieval.choices": []}.get(
        key, config[section][asks]
    )
    assert not config[section][asks]
    with pytest.raises(InputError) as refusal:
        asked(key, config)
    told = f"{key}: it is {config[section][asks]}, so there is nothing of this kind in the run; "
    assert str(refusal.value).startswith(told)


def test_a_folder_of_text_files_is_taken_and_one_of_anything_else_told() -> None:
    Path("texts/.hidden").mkdir(parents=True)
    folder = {"tasks.mine.train": "texts"}
    told = "tasks.mine.train: the folder texts should hold files of texts and nothing else; "
    assert_refused(folder, told)
    for name in ("b.csv", "a.csv"):
        Path("texts", name).touch()
    completed(folder)
    assert files_of_texts("tasks.mine.train", "texts") == ["texts/a.csv", "texts/b.csv"]
    Path("texts/more").mkdir()
    assert_refused(folder, told)


def test_a_listed_name_gives_its_settings_and_another_one_is_told_with_the_nearest() -> None:
    assert listed("mine", "tasks", SMALLEST) is SMALLEST["tasks"]["mine"]
    for section, name, told in (
        ("tasks", "review", ' (did you mean "reviews"?); it has reviews, mine, sst2.'),
        ("models", "zzz", "; it has tiny, gpt2, gemma."),
    ):
        with pytest.raises(InputError) as error:
            listed(name, section, SMALLEST)
        assert str(error.value) == f'{section}: "{name}" is not in the configuration{told}'


def test_fields_are_named_by_the_columns_and_keep_their_order() -> None:
    config = completed({"tasks.reviews.columns": FIELDS, "tasks.reviews.template": OF_FIELDS})
    task = config["tasks"]["reviews"]
    assert list(task["columns"].items()) == [*FIELDS.items(), ("label", "label")]
    assert task["separator"] == "\n"
    assert "instruction" not in task
    assert fields_of(task["columns"]) == ("premise", "hypothesis")
    assert fields_of(config["tasks"]["sst2"]["columns"]) == ("text",)


def test_text_may_be_one_of_several_fields() -> None:
    columns = {"question": "q", "text": ["title", "body"], "label": "class"}
    template = "{text}\nQuestion: {question}\nAnswer:{label}"
    config = completed({"tasks.reviews.columns": columns, "tasks.reviews.template": template})
    assert config["tasks"]["reviews"]["columns"] == columns
