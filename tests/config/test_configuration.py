"""The configuration: defaults filled in, and every mistake told in one sentence with its key."""

import copy
import os
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from snakemake.utils import update_config

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


def test_a_cell_has_its_task_s_settings_with_other_labels() -> None:
    news = {"template": "t", "labels": [" x", " y"], "label_words": {"symbols": [" A", " B"]}}
    config = {"tasks": {"plain": {"labels": [" 1", " 2"]}, "news": news}}
    assert task_settings("news", config) is news
    assert task_settings("news+symbols", config) == {**news, "labels": [" A", " B"]}
    assert cells_with_words(config) == ["news", "news+symbols"]
    assert label_word_sets(config) == {"news": {"words": [" x", " y"], "symbols": [" A", " B"]}}
    for cell, sentence in (
        (
            "news+symbol",
            'tasks.news.label_words: "symbol" is not in the configuration (did you mean '
            '"symbols"?); it has symbols.',
        ),
        (
            "plain+symbols",
            'tasks.plain.label_words: "symbols" is not in the configuration; it has none.',
        ),
        (
            "new+symbols",
            'tasks: "new" is not in the configuration (did you mean "news"?); it has plain, news.',
        ),
    ):
        with pytest.raises(InputError) as error:
            task_settings(cell, config)
        assert str(error.value) == sentence


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


def test_names_of_words_that_are_drawn_are_checked_like_those_of_others() -> None:
    def refused(*names: str) -> str:
        return refused_task(label_words={"symbols": [" A", " B"]}, random_words=[*names])

    assert refused("symbols") == (
        "tasks.reviews.random_words: 'symbols' is a name under label_words too; rename one."
    )
    assert refused("Symbols").startswith(
        'tasks.reviews.random_words: "symbols" and "Symbols" differ only in case'
    )
    assert refused("shuffled") == (
        "tasks.reviews.random_words: 'shuffled' is reserved for controls.shuffled_labels; rename "
        "it."
    )
    for name in ("words", "a/b", "random+1"):
        assert refused(name).startswith("tasks.reviews.random_words.0: ")


def test_a_cell_with_shuffled_labels_has_its_task_s_settings() -> None:
    config = {"tasks": {"news": {"labels": [" x", " y"]}}}
    assert task_settings("news+shuffled", config) is config["tasks"]["news"]


def test_a_run_has_the_twins_and_cells_that_its_controls_name() -> None:
    config: dict[str, Any] = {
        "tasks": {"news": {}, "reviews": {}},
        "controls": {"untrained": ["initialized", "shuffled"], "draws": 2, "shuffled_labels": True},
    }
    assert twins_of("gpt2", config) == [
        "gpt2+initialized-0",
        "gpt2+initialized-1",
        "gpt2+shuffled-0",
        "gpt2+shuffled-1",
    ]
    assert cells_with_shuffled_labels(config) == ["news+shuffled", "reviews+shuffled"]
    config["controls"] = {"untrained": [], "draws": 2, "shuffled_labels": False}
    assert twins_of("gpt2", config) == cells_with_shuffled_labels(config) == []


@pytest.mark.parametrize("name", ["shuffled", "Shuffled"])
def test_a_name_of_label_words_that_shuffled_labels_need_is_refused(name: str) -> None:
    assert refused_task(label_words={name: [" A", " B"]}) == (
        f"tasks.reviews.label_words: '{name}' is reserved for controls.shuffled_labels; rename it."
    )


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


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the local task and model, in the working directory."""
    for name in ("train.csv", "test.csv"):
        (tmp_path / name).touch()
    (tmp_path / "models/tiny").mkdir(parents=True)
    (tmp_path / "models/tiny/config.json").touch()
    monkeypatch.chdir(tmp_path)


def smallest() -> dict[str, Any]:
    return copy.deepcopy(SMALLEST)


def refused(change: Callable[[dict[str, Any]], object]) -> str:
    """The sentence with which the smallest configuration is refused after a change."""
    config = smallest()
    change(config)
    with pytest.raises(InputError) as error:
        complete_configuration(config, SCHEMA)
    sentence = str(error.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


def refused_task(**changes: Any) -> str:
    return refused(lambda config: config["tasks"]["reviews"].update(changes))


def test_every_key_that_is_left_out_gets_its_default() -> None:
    config = smallest()
    complete_configuration(config, SCHEMA)
    assert config["seeds"] == [0, 1, 2]
    assert config["test_examples"] == 16
    assert config["demonstrations_per_label"] == 1
    assert config["compute"].items() >= {"device": "auto", "threads": 1}.items()
    assert config["statistics"] == {"confidence": 0.95}
    assert config["figures"].items() >= {"panel_width": 2.6, "width": 6.8, "tasks": []}.items()
    assert not {"seeds", "examples"} & {key for name in ("flow", "kernel") for key in config[name]}
    assert config["models"]["tiny"] == {
        "source": "local",
        "path": "models/tiny",
        "dtype": "float32",
        "chat": False,
        "memory": 4000,
    }
    assert config["tasks"]["reviews"]["columns"] == {"text": "text", "label": "label"}


def test_what_is_given_is_kept() -> None:
    config = smallest() | {"seeds": [7], "statistics": {"confidence": 0.9}}
    config["tasks"]["mine"]["columns"] = {"text": ["title", "body"]}
    config["models"]["tiny"]["dtype"] = "bfloat16"
    complete_configuration(config, SCHEMA)
    assert config["seeds"] == [7]
    assert config["statistics"] == {"confidence": 0.9}
    assert config["tasks"]["mine"]["columns"] == {"text": ["title", "body"], "label": "label"}
    assert config["tasks"]["mine"]["values"] == [0, 1, 2]
    assert config["models"]["tiny"]["dtype"] == "bfloat16"


def test_defaults_of_two_tasks_are_not_the_same_object() -> None:
    config = smallest()
    complete_configuration(config, SCHEMA)
    config["tasks"]["mine"]["columns"]["text"] = "sentence"
    assert config["tasks"]["reviews"]["columns"]["text"] == "text"


def test_completing_twice_changes_nothing() -> None:
    config = smallest()
    complete_configuration(config, SCHEMA)
    once = copy.deepcopy(config)
    complete_configuration(config, SCHEMA)
    assert config == once


@pytest.mark.parametrize("file", sorted((ROOT / "config").glob("*.yaml")), ids=lambda f: f.name)
def test_the_shipped_configurations_are_accepted(file: Path) -> None:
    # full.yaml extends the default configuration.
    files = [file.with_name("config.yaml"), file] if file.name == "full.yaml" else [file]
    config: dict[str, Any] = {}
    for each in files:
        update_config(config, yaml.safe_load(each.read_text(encoding="utf-8")))
    complete_configuration(config, SCHEMA)
    assert 0.9 <= config["statistics"]["confidence"] < 1


@pytest.mark.parametrize("data", ["files", "hub"])
@pytest.mark.parametrize("model", ["gemma", "smollm2", "qwen"])
def test_published_configurations_are_data_analyses_and_a_model(
    data: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config: dict[str, Any] = {}
    for name in (data, "analyses", model):
        part = yaml.safe_load((ROOT / f"config/published/{name}.yaml").read_text(encoding="utf-8"))
        update_config(config, part)  # as Snakemake does with several files
    for task in config["tasks"].values():
        for split in ("train", "test") if task["source"] == "local" else ():
            Path(task[split]).parent.mkdir(parents=True, exist_ok=True)
            Path(task[split]).touch()
    complete_configuration(config, SCHEMA)
    assert list(config["tasks"]) == ["sst2", "trec", "agnews", "emoc"]
    assert len(config["models"]) == 1
    assert len(config["seeds"]) == (5 if model == "qwen" else 10)
    assert config["flow"]["seeds"] == 3
    assert config["flow"]["examples"] == (8 if model == "qwen" else 16)


def test_every_default_satisfies_its_own_schema() -> None:
    config = smallest()
    complete_configuration(config, SCHEMA)
    for key in ("seeds", "compute", "statistics", "figures"):
        complete_configuration(smallest() | {key: config[key]}, SCHEMA)


def test_a_misspelt_key_is_told_with_the_nearest_one() -> None:
    known = ", ".join(read_schema(SCHEMA)["properties"])
    assert refused(lambda config: config.update(seed=[1])) == (
        f'seed: unknown key (did you mean "seeds"?); known here are {known}.'
    )


def test_a_misspelt_key_of_a_task_is_told_before_the_key_that_it_leaves_missing() -> None:
    def misspell(config: dict[str, Any]) -> None:
        task = config["tasks"]["reviews"]
        task["tempalte"] = task.pop("template")

    assert refused(misspell).startswith(
        'tasks.reviews.tempalte: unknown key (did you mean "template"?); known here are source,'
    )


def test_an_unknown_key_that_resembles_none_is_told_without_a_guess() -> None:
    sentence = refused(lambda config: config["models"]["tiny"].update(zzz=1))
    assert sentence.startswith("models.tiny.zzz: unknown key; known here are source, repository,")


def test_an_unknown_key_that_is_no_text_is_told_all_the_same() -> None:
    unknown: dict[Any, int] = {1: 2, "zzz": 3}
    sentence = refused(lambda config: config.update(unknown))
    assert sentence.startswith("1: unknown key; known here are models, tasks,")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"saliency": {}}, "saliency: this section is called flow now; rename it."),
        ({"diagnosis": {}}, "diagnosis: this section is called confusion now; rename it."),
        (
            {"heads": {"chosen_on": 0.7}},
            "heads.chosen_on: it is a key of kernel now, so move it there.",
        ),
        (
            {"controls": {"stages": ["saliency"]}},
            "controls.stages.0: saliency is called flow now; rename it.",
        ),
    ],
)
def test_an_old_name_is_told_with_the_new_one(change: dict[str, Any], sentence: str) -> None:
    assert refused(lambda config: config.update(change)) == sentence


@pytest.mark.parametrize(
    ("change", "start"),
    [
        ({"test_examples": "24"}, "test_examples: '24' is not of type 'integer'; Test texts"),
        ({"test_examples": 1}, "test_examples: 1 is less than the minimum of 2; Test texts"),
        ({"seeds": 3}, "seeds: 3 is not of type 'array'; Seeds of all random draws"),
        ({"seeds": []}, "seeds: [] should be non-empty; Seeds of all random draws"),
        ({"seeds": [0, 0]}, "seeds: [0, 0] has non-unique elements; Seeds of all"),
        ({"seeds": [0, "a"]}, "seeds.1: 'a' is not of type 'integer'; Seeds of all"),
        ({"seeds": [-1]}, "seeds.0: -1 is less than the minimum of 0; Seeds of all"),
        ({"test_examples": 16.0}, "test_examples: 16.0 is not of type 'integer'; Test texts"),
        ({"figures": {"colors": ["#000000\n"] * 3}}, "figures.colors.0: '#000000\\n' does not"),
        ({"seeds": [True]}, "seeds.0: True is not of type 'integer'; Seeds of all"),
        ({"tasks": None}, "tasks: None is not of type 'object'; Labeled text data sets"),
        ({"models": {}}, "models: {} should be non-empty; Language models to analyze"),
        ({"statistics": {"confidence": 1}}, "statistics.confidence: 1 is greater than or equal"),
        ({"compute": {"device": "gpu"}}, "compute.device: 'gpu' is not one of ['auto', 'cpu',"),
        ({"compute": {"device": ["cpu"]}}, "compute.device: ['cpu'] is not one of ['auto', 'cpu',"),
        ({"compute": {"examples_per_shard": 0}}, "compute.examples_per_shard: 0 is less than the"),
        ({"figures": {"tasks": ["reviews", "x"]}}, "figures.tasks: x is not among tasks (reviews"),
        ({"figures": {"formats": ["png"]}}, "figures.formats.0: 'png' is not one of ['pdf', 'svg"),
        ({"figures": {"colors": ["red"] * 3}}, "figures.colors.0: 'red' does not match"),
        ({"scoring": "word"}, "scoring: 'word' is not one of ['first_token', 'whole_word']"),
        ({"word_score": "max"}, "word_score: 'max' is not one of ['sum', 'mean']; For scoring"),
        ({"controls": {"untrained": True}}, "controls.untrained: True is not of type 'array'; Ki"),
        (
            {"flow": {"seeds": 0}},
            "flow.seeds: 0 is less than the minimum of 1; The first so many se",
        ),
        ({"kernel": {"examples": 0.5}}, "kernel.examples: 0.5 is not of type 'integer'; So many"),
        ({"controls": {"draws": 0}}, "controls.draws: 0 is less than the minimum of 1; Random dr"),
        ({"controls": {"stages": []}}, "controls.stages: [] should be non-empty; Analyses that ar"),
        (
            {"controls": {"stages": ["retrieval"]}},
            "controls.stages.0: 'retrieval' is not one of ['attention', 'flow', 'isolation', ",
        ),
    ],
)
def test_a_bad_value_is_told_with_its_key_and_what_belongs_there(
    change: dict[str, Any], start: str
) -> None:
    assert refused(lambda config: config.update(change)).startswith(start)


def test_texts_of_another_task_need_one() -> None:
    def alone(config: dict[str, Any]) -> None:
        config["retrieval"] = {"choices": ["other_task"]}
        config["tasks"] = {"reviews": config["tasks"]["reviews"]}

    assert refused(alone) == (
        "retrieval.choices: other_task takes texts of another task of the run, but reviews is the "
        "only one; add a task, or leave it out."
    )
    misspelled = refused(lambda config: config.update(retrieval={"choices": ["outlier"]}))
    assert misspelled.startswith("retrieval.choices.0: 'outlier' is not one of ['nearest', ")
    assert '(did you mean "outlying"?); How demonstrations are chosen' in misspelled


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


def test_first_tokens_are_scored_by_default_and_words_by_their_sum() -> None:
    config = smallest()
    complete_configuration(config, SCHEMA)
    assert (config["scoring"], config["word_score"]) == ("first_token", "sum")
    config = smallest() | {"scoring": "whole_word", "word_score": "mean"}
    complete_configuration(config, SCHEMA)
    assert (config["scoring"], config["word_score"]) == ("whole_word", "mean")


def test_a_score_of_words_without_whole_words_is_refused() -> None:
    assert refused(lambda config: config.update(word_score="mean")) == (
        "word_score: mean is for whole words, but scoring is first_token; set "
        '"scoring: whole_word", or leave word_score out.'
    )


def test_a_misspelt_choice_is_told_with_the_nearest_one() -> None:
    assert refused_task(source="locale") == (
        "tasks.reviews.source: 'locale' is not one of ['builtin', 'local', 'hub'] "
        '(did you mean "local"?); Where the texts are: builtin (a corpus under data/), local '
        "(files) or hub (a data set on the Hugging Face Hub). Code of data sets is never executed."
    )


def test_a_column_that_is_no_text_is_told_with_its_key() -> None:
    sentence = refused_task(columns={"text": 5})
    assert sentence.startswith("tasks.reviews.columns.text: 5 is not valid")
    assert sentence.endswith(
        "Column of the text, or a list of columns that are joined by a space. Not used if fields "
        "have other names."
    )


@pytest.mark.parametrize("text", ["label", ["title", "label"]])
def test_a_text_that_holds_its_own_label_is_refused(text: str | list[str]) -> None:
    assert refused_task(columns={"text": text, "label": "label"}) == (
        "tasks.reviews.columns.text: column 'label' holds the labels; name a column of texts."
    )


@pytest.mark.parametrize("section", ["models", "tasks"])
def test_a_missing_section_is_told_with_what_it_holds(section: str) -> None:
    sentence = refused(lambda config: config.pop(section))
    assert sentence.startswith(f'the configuration: the key "{section}" is missing; La')


@pytest.mark.parametrize(
    ("section", "name", "key", "description"),
    [
        ("models", "tiny", "source", "Where the weights are: hub"),
        ("models", "tiny", "path", "For local: the directory"),
        ("models", "gpt2", "repository", "For hub: the repository"),
        ("models", "gpt2", "revision", "For hub: the full commit hash"),
        ("models", "gemma", "files", "For gguf: the parts of one GGUF file"),
        ("models", "gemma", "sha256", "For gguf: SHA-256 of the whole file"),
        ("tasks", "reviews", "source", "Where the texts are: builtin"),
        ("tasks", "reviews", "corpus", "For builtin: the corpus"),
        ("tasks", "reviews", "template", "One demonstration; {text} and {label} are replaced"),
        ("tasks", "reviews", "labels", "Label words as they continue the prompt"),
        ("tasks", "mine", "train", "The training texts, from which demonstrations"),
        ("tasks", "mine", "test", "The test texts, likewise"),
        ("tasks", "sst2", "repository", "For hub: the data set repository"),
        ("tasks", "sst2", "revision", "For hub: the full commit hash"),
        ("tasks", "sst2", "train", "The training texts, from which demonstrations"),
        ("tasks", "sst2", "test", "The test texts, likewise"),
    ],
)
def test_a_key_that_its_source_requires_is_told_with_its_meaning(
    section: str, name: str, key: str, description: str
) -> None:
    sentence = refused(lambda config: config[section][name].pop(key))
    assert sentence.startswith(f'{section}.{name}: the key "{key}" is missing; {description}')


@pytest.mark.parametrize("revision", ["main", "0" * 39, "G" * 40])
def test_a_revision_that_is_no_full_commit_hash_is_refused(revision: str) -> None:
    sentence = refused(lambda config: config["models"]["gpt2"].update(revision=revision))
    assert sentence.startswith(f"models.gpt2.revision: '{revision}' does not match")


@pytest.mark.parametrize("section", ["models", "tasks"])
@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "a/b",
        "",
        ".hidden",
        "-x",
        "a b",
        "é",
        "x" * 65,
        "/etc",
        "..",
        "a:b",
        "ｔiny",
        "tіny",
        "a\u202eb",
        "$x$",
        "a|b",
        "{task}",
    ],
)
def test_a_name_that_can_t_be_part_of_a_path_is_refused(section: str, name: str) -> None:
    def rename(config: dict[str, Any]) -> None:
        config[section] = {name: next(iter(config[section].values()))}

    assert refused(rename) == (
        f"{section}: {name!r} can't be a name; use up to 64 letters, digits, '.', '_' and '-', "
        'beginning with a letter or digit (and not "average").'
    )


@pytest.mark.parametrize("section", ["models", "tasks"])
@pytest.mark.parametrize("name", [1, False, None, 1.5, date(2020, 1, 1)])
def test_a_name_that_yaml_takes_for_something_else_is_told_to_be_quoted(
    section: str, name: Any
) -> None:
    def rename(config: dict[str, Any]) -> None:
        config[section] = {name: next(iter(config[section].values()))}

    assert refused(rename) == (
        f"{section}: the name {name!r} is not text; YAML reads it as {type(name).__name__}, so put "
        "it in quotes."
    )


@pytest.mark.parametrize("word", [False, 1, None, date(2020, 1, 1)])
def test_a_label_word_that_yaml_takes_for_something_else_is_told_to_be_quoted(word: Any) -> None:
    assert refused_task(labels=[word, " yes"]).startswith(
        f"tasks.reviews.labels.0: {word!r} is not of type 'string' (YAML reads it as "
        f"{type(word).__name__}, so put it in quotes); Label words as they continue"
    )


@pytest.mark.parametrize("section", ["models", "tasks"])
def test_names_that_a_file_system_may_take_for_the_same_are_refused(section: str) -> None:
    def add(config: dict[str, Any]) -> None:
        first = next(iter(config[section]))
        config[section][first.upper()] = config[section][first]

    first = next(iter(SMALLEST[section]))
    assert refused(add) == (
        f'{section}: "{first}" and "{first.upper()}" differ only in case, which some file systems '
        "ignore; rename one."
    )


def test_names_of_label_words_that_a_file_system_may_take_for_the_same_are_refused() -> None:
    words = {"symbols": [" A", " B"], "Symbols": [" C", " D"]}
    assert refused_task(label_words=words).startswith(
        'tasks.reviews.label_words: "symbols" and "Symbols" differ only in case'
    )


@pytest.mark.parametrize("name", ["index.html", "Index.HTML"])
def test_a_task_can_t_take_the_place_of_the_list_of_pages(name: str) -> None:
    def rename(config: dict[str, Any]) -> None:
        config["tasks"][name] = config["tasks"].pop("reviews")

    assert refused(rename) == f"tasks: {name!r} is reserved for the index of all pages; rename it."


def test_average_is_no_name_of_a_task_since_tables_use_it() -> None:
    def rename(config: dict[str, Any]) -> None:
        config["tasks"]["average"] = config["tasks"].pop("reviews")

    assert refused(rename).startswith("tasks: 'average' can't be a name;")


@pytest.mark.parametrize("name", ["averages", "a", "gpt2-xl", "gpt-j_6b.v1", "0", "x" * 64])
def test_ordinary_names_are_accepted(name: str) -> None:
    config = smallest()
    config["tasks"] = {name: config["tasks"]["reviews"]}
    complete_configuration(config, SCHEMA)
    assert config["tasks"][name]["columns"]["text"] == "text"


@pytest.mark.parametrize(
    ("template", "placeholder"),
    [
        ("Sentiment:{label}", "{text}"),
        ("{text} and {text}:{label}", "{text}"),
        ("Review: {text}\nSentiment:", "{label}"),
        ("{text}:{label} or:{label}", "{label}"),
        ("Review: {Text}\nSentiment:{label}", "{text}"),
    ],
)
def test_a_template_needs_each_placeholder_exactly_once(template: str, placeholder: str) -> None:
    assert refused_task(template=template) == (
        f"tasks.reviews.template: {template!r} must contain {placeholder} exactly once, "
        'as in "Review: {text}\\nSentiment:{label}".'
    )


@pytest.mark.parametrize(
    "template", ["{text.__class__}:{label}", "{text!r}:{label}", "{0}:{label}", "%s:{label}"]
)
def test_a_template_knows_no_other_way_to_name_the_text(template: str) -> None:
    assert "must contain {text} exactly once" in refused_task(template=template)


@pytest.mark.parametrize("template", ["{label}: {text}", "{text}:{label}.", "{text}:{label}\n"])
def test_a_template_must_end_with_the_label(template: str) -> None:
    assert refused_task(template=template) == (
        f"tasks.reviews.template: {template!r} must end with {{label}}, after {{text}}, so that "
        "the query can stop where the label word is to be predicted."
    )


def test_a_template_needs_words_between_text_and_label() -> None:
    assert refused_task(template="Review: {text}{label}") == (
        "tasks.reviews.template: 'Review: {text}{label}' needs some words between {text} and "
        "{label}; the last of them is the target position."
    )


def test_the_same_label_word_twice_is_refused() -> None:
    sentence = refused_task(labels=[" Good", " Good"])
    assert sentence.startswith("tasks.reviews.labels: [' Good', ' Good'] has non-unique elements")


@pytest.mark.parametrize("labels", [[" Good", "Good"], [" Good", "  "], ["Good", "Good\n"]])
def test_label_words_that_only_blanks_tell_apart_are_refused(labels: list[str]) -> None:
    assert refused_task(labels=labels) == (
        f"tasks.reviews.labels: {labels} must be distinct words; spaces alone do not distinguish "
        "them."
    )


def test_a_single_label_word_is_refused() -> None:
    assert refused_task(labels=[" Good"]).startswith("tasks.reviews.labels: [' Good'] is too short")


def test_values_of_another_length_than_the_label_words_are_refused() -> None:
    assert refused_task(values=[0, 1, 2]) == (
        "tasks.reviews.values: 3 values for 2 label words; give one value per label word, in the "
        "same order."
    )


def test_other_label_words_are_checked_like_the_own_ones() -> None:
    assert refused_task(label_words={"symbols": [" A", " B", " C"]}) == (
        "tasks.reviews.label_words.symbols: 3 words for 2 labels; give one word per label, in the "
        "same order."
    )
    assert refused_task(label_words={"symbols": [" A", "A"]}) == (
        "tasks.reviews.label_words.symbols: [' A', 'A'] must be distinct words; spaces alone do "
        "not distinguish them."
    )
    assert refused_task(label_words={"symbols": [" A", " A"]}).startswith(
        "tasks.reviews.label_words.symbols: [' A', ' A'] has non-unique elements; Words of this"
    )
    assert refused_task(label_words={}).startswith(
        "tasks.reviews.label_words: {} should be non-empty; Other label words to compare"
    )


@pytest.mark.parametrize("name", ["words", "a+b", "x" * 33, ""])
def test_a_name_of_label_words_that_can_t_be_part_of_a_path_is_refused(name: str) -> None:
    assert refused_task(label_words={name: [" A", " B"]}) == (
        f"tasks.reviews.label_words: {name!r} can't be a name; use up to 32 letters, digits, '.', "
        "'_' and '-', beginning with a letter or digit (and not \"words\")."
    )


@pytest.mark.parametrize("values", [[1, "1"], [True, "True"]])
def test_values_that_are_written_alike_are_refused(values: list[Any]) -> None:
    assert refused_task(values=values) == (
        f"tasks.reviews.values: {values} are not distinct when compared as text; give each label "
        "its own value."
    )


@pytest.mark.parametrize("path", ["x" * 5000 + ".csv", "pipe", "train.csv/x"])
def test_what_is_no_file_is_told_whatever_it_is(path: str) -> None:
    os.mkfifo("pipe")
    sentence = refused(lambda config: config["tasks"]["mine"].update(train=path))
    assert sentence.startswith(f"tasks.mine.train: there is no file {path[:1000]}")


def test_braces_in_a_path_are_refused_since_snakemake_would_fill_them_in() -> None:
    for path in ("data/{task}.csv", "}.csv"):
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).touch()
        told = f"{path!r} has braces, which are not allowed in paths; rename it."
        assert refused(lambda config, path=path: config["tasks"]["mine"].update(test=path)) == (
            f"tasks.mine.test: {told}"
        )
        assert refused(lambda config, path=path: config["models"]["tiny"].update(path=path)) == (
            f"models.tiny.path: {told}"
        )
        assert refused(lambda config, path=path: config.update(encoder={"path": path})) == (
            f"encoder.path: {told}"
        )


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_local_file_that_is_not_there_is_told_with_its_key(split: str) -> None:
    assert refused(lambda config: config["tasks"]["mine"].update({split: "none.csv"})) == (
        f"tasks.mine.{split}: there is no file none.csv; correct the path, which is relative to "
        "the working directory."
    )


@pytest.mark.parametrize("path", ["nowhere", "train.csv", "x" * 5000])
def test_what_is_no_model_directory_is_told_before_anything_runs(path: str) -> None:
    sentence = refused(lambda config: config["models"]["tiny"].update(path=path))
    assert sentence.startswith(f"models.tiny.path: '{path[:900]}")
    assert sentence.endswith("correct the path, which is relative to the working directory.")


@pytest.mark.parametrize("path", ["nowhere", "train.csv", "x" * 5000])
def test_what_is_no_encoder_directory_is_told_before_anything_runs(path: str) -> None:
    sentence = refused(lambda config: config.update(encoder={"path": path}))
    assert sentence.startswith(f"encoder.path: '{path[:900]}")
    assert sentence.endswith("correct the path, which is relative to the working directory.")


def test_further_encoders_are_checked_by_name() -> None:
    def further(**encoders: Any) -> str:
        return refused(lambda config: config.update(encoder={"further": encoders}))

    assert further(bert={"path": "nowhere"}).startswith(
        "encoder.further.bert.path: 'nowhere' is not a directory in sentence-transformers' format"
    )
    packaged = {"path": "no_such_package:model"}
    assert further(bert=packaged, Bert=packaged) == (
        'encoder.further: "bert" and "Bert" differ only in case, which some file systems ignore; '
        "rename one."
    )
    assert 'encoder.further.bert: the key "path" is missing' in further(bert={})
    assert "can't be a name" in further(**{"a/b": packaged})
    assert "'Logistic' is reserved for logistic regression" in further(Logistic=packaged)
    config = smallest() | {"encoder": {"further": {"bert": dict(packaged)}}}
    complete_configuration(config, SCHEMA)
    assert asked("encoder.further", config) == {"bert": {**packaged, "temperature": 0.05}}


@pytest.mark.parametrize("share", [0, 1, -0.5])
def test_a_share_that_leaves_no_text_to_choose_or_score_a_head_is_refused(share: float) -> None:
    sentence = refused(lambda config: config.update(kernel={"chosen_on": share}))
    assert sentence.startswith(f"kernel.chosen_on: {share} is ")


@pytest.mark.parametrize("key", sorted({s.asked_for for s in STAGES.values()} - {""}))
def test_stages_that_are_not_asked_for_are_refused(key: str) -> None:
    config = smallest()
    complete_configuration(config, SCHEMA)
    section, _, asks = key.partition(".")
    # Every run asks for these by default.
    config[section][asks] = {"flow_page.examples": 0, "retrieval.choices": []}.get(
        key, config[section][asks]
    )
    assert not config[section][asks]
    with pytest.raises(InputError) as refusal:
        asked(key, config)
    assert str(refusal.value) == (
        f"{key}: it is {config[section][asks]}, so there is nothing of this kind in the run; "
        "docs/reference/configuration.md says what can be set there."
    )


def test_twins_are_not_measured_in_stages_that_are_not_run() -> None:
    stages = {"stages": ["flow", "cutoff"]}
    assert refused(lambda config: config.update(controls=stages)) == (
        "controls.stages: cutoff is measured in untrained twins where it is measured in the model, "
        "but cutoff.sees lists nothing; list something there, or leave cutoff out."
    )


def test_saliency_is_compared_only_with_cuts_that_are_made() -> None:
    def compare(cut: dict[str, Any], classes: list[str]) -> str:
        return refused(
            lambda config: config.update(knockout=cut, faithfulness={"classes": classes})
        )

    assert compare({"classes": ["text_to_label"]}, ["label_to_target"]) == (
        "faithfulness.classes: label_to_target is not among knockout.classes, so there is nothing "
        "to compare it with; add it there, or leave it out."
    )
    cut = {"classes": ["label_to_target"], "layers": ["thirds"]}
    assert compare(cut, ["label_to_target"]) == (
        "knockout.layers: faithfulness compares saliency with cutting edges in single layers, "
        "which are not listed; add single, or leave faithfulness.classes empty."
    )


def test_an_encoder_in_a_package_is_left_to_the_jobs() -> None:
    config = smallest() | {"encoder": {"path": "no_such_package:model"}}
    complete_configuration(config, SCHEMA)
    assert config["encoder"]["path"] == "no_such_package:model"


@pytest.mark.parametrize("name", ["../../x", "a/b/c", "a b", "--", "/a", "a/", ""])
def test_what_can_be_no_repository_is_refused(name: str) -> None:
    for section, key in (("models", "gpt2"), ("tasks", "sst2")):
        told = refused(
            lambda config, place=(section, key): config[place[0]][place[1]].update(repository=name)
        )
        assert told.startswith(f"{section}.{key}.repository: {name!r} does not match")


@pytest.mark.parametrize("file", ["data/train.parquet", "train.csv", "train.jsonl.gz", "a/b"])
def test_a_file_where_a_split_should_be_named_is_told(file: str) -> None:
    assert refused(lambda config: config["tasks"]["sst2"].update(test=file)) == (
        f"tasks.sst2.test: {file!r} is the path of a file; name a split of the data set, as in "
        "train[:5000], or read a copy of the file with source: local."
    )


@pytest.mark.parametrize("split", ["validation_matched", "train[:10%]+test[-100:]", "dev.1"])
def test_a_split_in_the_notation_of_the_library_is_taken(split: str) -> None:
    config = smallest()
    config["tasks"]["sst2"] |= {"test": split, "subset": "mnli"}
    complete_configuration(config, SCHEMA)


def test_a_folder_of_text_files_is_taken_and_one_of_anything_else_told() -> None:
    Path("texts/.hidden").mkdir(parents=True)
    config = smallest()
    config["tasks"]["mine"]["train"] = "texts"
    told = "tasks.mine.train: the folder texts should hold files of texts and nothing else; "
    assert refused(lambda config: config["tasks"]["mine"].update(train="texts")).startswith(told)
    for name in ("b.csv", "a.csv"):
        Path("texts", name).touch()
    complete_configuration(config, SCHEMA)
    assert files_of_texts("tasks.mine.train", "texts") == ["texts/a.csv", "texts/b.csv"]
    Path("texts/more").mkdir()
    assert refused(lambda config: config["tasks"]["mine"].update(train="texts")).startswith(told)


def test_more_shards_than_snakemake_can_plan_are_refused() -> None:
    settings = {"test_examples": 2**62, "compute": {"examples_per_shard": 3}}
    assert refused(lambda config: config.update(settings)) == (
        f"compute.examples_per_shard: 3 makes {2**62 // 3 + 1} shards of test_examples ({2**62}), "
        "more than 10000; choose more examples per shard."
    )


def test_a_listed_name_gives_its_settings() -> None:
    assert listed("mine", "tasks", SMALLEST) is SMALLEST["tasks"]["mine"]


def test_an_unlisted_task_is_told_with_the_nearest_one() -> None:
    with pytest.raises(InputError) as error:
        listed("review", "tasks", SMALLEST)
    assert str(error.value) == (
        'tasks: "review" is not in the configuration (did you mean "reviews"?); '
        "it has reviews, mine, sst2."
    )


def test_an_unlisted_model_that_resembles_none_is_told_with_those_there_are() -> None:
    with pytest.raises(InputError) as error:
        listed("zzz", "models", SMALLEST)
    assert str(error.value) == (
        'models: "zzz" is not in the configuration; it has tiny, gpt2, gemma.'
    )


def test_many_demonstrations_out_of_reach_are_told() -> None:
    for wanted in (1, 6):
        assert refused(
            lambda config, wanted=wanted: config["tasks"]["mine"].update(many_demonstrations=wanted)
        ) == (
            f"tasks.mine.many_demonstrations: {wanted} should be more than "
            "demonstrations_per_label (1) and at most that plus reweighting.examples_per_label (5)."
        )


def test_a_choice_among_rates_needs_texts_to_hold_out() -> None:
    sentence = refused(
        lambda config: config.update(
            reweighting={"learning_rates": [0.1, 0.01], "examples_per_label": 1}
        )
    )
    assert sentence.startswith("reweighting.examples_per_label: 1 leaves no training text to hold")


FIELDS = {"premise": "sentence1", "hypothesis": "sentence2"}
OF_FIELDS = "Premise: {premise}\nHypothesis: {hypothesis}\nAnswer:{label}"


def test_fields_are_named_by_the_columns_and_keep_their_order() -> None:
    config = smallest()
    config["tasks"]["reviews"] |= {"columns": dict(FIELDS), "template": OF_FIELDS}
    complete_configuration(config, SCHEMA)
    task = config["tasks"]["reviews"]
    assert list(task["columns"].items()) == [*FIELDS.items(), ("label", "label")]
    assert task["separator"] == "\n"
    assert "instruction" not in task
    assert fields_of(task["columns"]) == ("premise", "hypothesis")
    assert fields_of(config["tasks"]["sst2"]["columns"]) == ("text",)


def test_text_may_be_one_of_several_fields() -> None:
    config = smallest()
    columns = {"question": "q", "text": ["title", "body"], "label": "class"}
    template = "{text}\nQuestion: {question}\nAnswer:{label}"
    config["tasks"]["reviews"] |= {"columns": columns, "template": template}
    complete_configuration(config, SCHEMA)
    assert config["tasks"]["reviews"]["columns"] == columns


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        (
            "Premise: {premise}\nAnswer:{label}",
            "must contain {hypothesis} exactly once, as in "
            '"Premise: {premise}\\nHypothesis: {hypothesis}\\nAnswer:{label}".',
        ),
        (
            "{premise} {premise} {hypothesis}:{label}",
            "must contain {premise} exactly once, as in "
            '"Premise: {premise}\\nHypothesis: {hypothesis}\\nAnswer:{label}".',
        ),
        (
            "{premise} {hypothesis} {context}:{label}",
            "has {context}, which is none of the fields (premise, hypothesis); name its column, "
            'as in "columns: {context: context}", or leave it out.',
        ),
        (
            "{premise} {hypothesis}{label}",
            "needs some words between {hypothesis} and {label}; the last of them is the target "
            "position.",
        ),
        (
            "{hypothesis} {premise}{label}",
            "needs some words between {premise} and {label}; the last of them is the target "
            "position.",
        ),
        (
            "{premise}:{label} {hypothesis}",
            "must end with {label}, after {hypothesis}, so that the query can stop where the label "
            "word is to be predicted.",
        ),
    ],
)
def test_a_template_of_fields_is_refused_in_one_sentence(template: str, sentence: str) -> None:
    assert refused_task(columns=dict(FIELDS), template=template) == (
        f"tasks.reviews.template: {template!r} {sentence}"
    )


def test_fields_of_a_template_without_columns_are_told() -> None:
    assert refused_task(template=OF_FIELDS) == (
        f"tasks.reviews.template: {OF_FIELDS!r} has {{premise}}, which is none of the fields "
        '(text); name its column, as in "columns: {premise: premise}", or leave it out.'
    )


@pytest.mark.parametrize("name", ["after", "before_text", "1st", "a-b", "x" * 33, "a b"])
def test_a_field_needs_a_name_that_no_segment_has(name: str) -> None:
    assert refused_task(columns={name: "sentence"}) == (
        f"tasks.reviews.columns: {name!r} can't be a field; use up to 32 letters, digits and '_', "
        'beginning with a letter (and not "before_"), other than "after".'
    )


def test_an_empty_separator_is_refused() -> None:
    sentence = refused_task(separator="")
    assert sentence.startswith("tasks.reviews.separator: '' should be non-empty; What follows")


def test_an_instruction_without_words_is_refused() -> None:
    assert refused_task(instruction=" \n") == (
        "tasks.reviews.instruction: it has no words; write some, or leave the key out."
    )
