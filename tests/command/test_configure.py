"""The configuration that the command writes, and the parts into which it splits a file of texts."""

from pathlib import Path

import polars as pl
import pytest
import yaml

from anchorflow.command.configure import (
    Texts,
    model_settings,
    name_of,
    task_settings,
    write_configuration,
)
from anchorflow.config.errors import InputError
from checkout import ROOT

TEMPLATE = "Text: {text}\nLabel:{label}"


def written(file: Path, labels: list[object], column: str = "label") -> Path:
    texts = [f"text {row}" for row in range(len(labels))]
    pl.DataFrame({"text": texts, column: labels}).write_csv(file)
    return file


def test_a_fifth_of_the_texts_of_every_label_are_test_texts(tmp_path: Path) -> None:
    file = written(tmp_path / "mine.csv", ["no"] * 10 + ["yes"] * 6)
    settings, parts = task_settings(Texts(file, None), TEMPLATE, None, tmp_path / "study")
    counts = {name: dict(part["label"].value_counts().iter_rows()) for name, part in parts.items()}
    assert counts == {"train.parquet": {"no": 8, "yes": 4}, "test.parquet": {"no": 2, "yes": 2}}
    together = pl.concat(parts.values())
    assert sorted(together["text"]) == sorted(f"text {row}" for row in range(16))
    assert settings == {
        "source": "local",
        "train": "train.parquet",
        "test": "test.parquet",
        "template": TEMPLATE,
        "labels": [" no", " yes"],
    }


def test_copies_of_a_text_are_not_in_both_parts(tmp_path: Path) -> None:
    texts = [f"text {n}" for n in (*range(10), *range(10))]
    frame = pl.DataFrame({"text": texts, "label": ["no", "yes"] * 10})
    frame.write_csv(tmp_path / "mine.csv")
    _, parts = task_settings(Texts(tmp_path / "mine.csv", None), TEMPLATE, None, tmp_path)
    train, test = (parts[f"{name}.parquet"]["text"].to_list() for name in ("train", "test"))
    assert (len(train), len(test)) == (16, 2)  # both copies of eight texts, and two others once
    assert not set(train) & set(test)


def test_integers_in_a_csv_file_are_sorted_as_numbers(tmp_path: Path) -> None:
    file = written(tmp_path / "mine.csv", [10, 2, 0, 1])
    settings, _ = task_settings(Texts(file, file), TEMPLATE, ["A", "B", "C", "D"], tmp_path)
    assert settings["values"] == ["0", "1", "2", "10"]


@pytest.mark.parametrize(
    ("ending", "kept", "word"),
    [(": {label}", ":{label}", " no"), (":\n{label}", ":\n{label}", "no")],
)
def test_a_label_word_follows_one_white_space(
    ending: str, kept: str, word: str, tmp_path: Path
) -> None:
    file = written(tmp_path / "mine.csv", ["no", "yes"])
    settings, _ = task_settings(Texts(file, file), "{text}\nLabel" + ending, None, tmp_path)
    assert settings["template"] == "{text}\nLabel" + kept
    assert settings["labels"][0] == word


def test_names_of_files_are_made_names_of_tasks() -> None:
    assert name_of("my texts (old)", "texts") == "my_texts_old"
    assert name_of("评论", "texts") == "texts"


def test_files_are_named_from_the_run_s_folder(tmp_path: Path) -> None:
    train, test = (written(tmp_path / f"{name}.csv", [0, 1], "class") for name in ("a", "b"))
    texts = Texts(train, test, "text", "class")
    settings, parts = task_settings(texts, TEMPLATE, ["bad", " good"], tmp_path / "study")
    assert (settings["train"], settings["test"], parts) == ("../a.csv", "../b.csv", {})
    assert settings["labels"] == [" bad", " good"]
    assert settings["columns"] == {"text": "text", "label": "class"}
    assert settings["values"] == ["0", "1"]  # as a CSV file has them


def test_other_label_words_stand_for_the_values_in_alphabetical_order(tmp_path: Path) -> None:
    file = written(tmp_path / "mine.csv", ["pos", "neg"])
    settings, _ = task_settings(Texts(file, file), TEMPLATE, ["Negative", "Positive"], tmp_path)
    assert (settings["values"], settings["labels"]) == (["neg", "pos"], [" Negative", " Positive"])


@pytest.mark.parametrize(
    ("texts", "labels", "said"),
    [
        (Texts(Path("mine.csv"), None), ["a", "b", "c"], r"2 values .* \(no, yes\), and 3 label"),
        (Texts(Path("mine.csv"), None, "body"), None, "no column body, only text, label; name"),
        (Texts(Path("other.csv"), None), None, "other.csv: no such file"),
        (Texts(Path("gaps.csv"), None), None, r"gaps\.csv: row 2 has no text or no label"),
        (Texts(Path("empty.csv"), None), None, r"empty\.csv: the file holds no rows"),
        (Texts(Path("mine.csv"), None), None, r"mine\.csv: the label no needs two different"),
        (Texts(Path("mine.csv"), Path("third.csv")), None, r"mine\.csv has the label maybe"),
        (Texts(Path("mine.csv"), None, "label"), None, "label is the column of labels"),
        (Texts(Path("lists.parquet"), None), None, r"column label holds List.*, not labels"),
        (Texts(Path("ids.csv"), None, "id"), None, r"column id holds numbers, or no text; name"),
        (
            Texts(Path("lines.jsonl"), None, "id"),
            None,
            r"column id holds numbers, or no text; name",
        ),
        (Texts(Path("huge.jsonl"), None), None, r"column label holds Float64, not labels"),
        (Texts(Path("twice.csv"), None), None, r"twice\.csv: several columns are called label"),
        (Texts(Path("quoted.tsv"), None), None, r"enclose fields, .* \(anchorflow init: --quoting"),
    ],
)
def test_texts_that_do_not_fit_are_refused(
    texts: Texts,
    labels: list[str] | None,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    written(Path("mine.csv"), ["no", "yes"])
    written(Path("gaps.csv"), ["no", None, "yes"])
    written(Path("empty.csv"), [])
    written(Path("third.csv"), ["no", "yes", "maybe"])
    pl.DataFrame({"text": ["a", "b"], "label": [[0], [1]]}).write_parquet("lists.parquet")
    line = '{"id": 7, "text": "a", "label": 1e300}'
    Path("lines.jsonl").write_text(line, encoding="utf-8")
    Path("huge.jsonl").write_text(line, encoding="utf-8")
    Path("ids.csv").write_text("id,text,label\n7,a,no\n8,b,yes\n", encoding="utf-8")
    Path("twice.csv").write_text("text,label,label\na,no,0\nb,yes,1\n", encoding="utf-8")
    Path("quoted.tsv").write_text('"text"\t"label"\n"a"\t"no"\n', encoding="utf-8")
    with pytest.raises(InputError, match=said):
        task_settings(texts, TEMPLATE, labels, tmp_path)


def test_whole_floats_are_labels(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    rows = (f'{{"text": "text {row}", "label": {row % 2}.0}}' for row in range(20))
    file.write_text("\n".join(rows), encoding="utf-8")
    settings, _ = task_settings(Texts(file, None), TEMPLATE, ["bad", "good"], tmp_path)
    assert settings["values"] == [0, 1]


def test_folders_files_and_models_of_the_hub_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model.gguf").touch()
    study = tmp_path / "study"
    folder, file = (str(tmp_path / name) for name in ("model", "model.gguf"))
    assert model_settings(folder, None, study) == {"path": "../model"}
    assert model_settings(file, None, study) == {"files": ["../model.gguf"]}
    assert model_settings("owner/name", None, study) == {"repository": "owner/name"}
    hub = {"repository": "owner/name", "revision": "v1"}
    assert model_settings("owner/name", "v1", study) == hub
    for path, kind in ((folder, "a folder"), (file, "a file")):
        with pytest.raises(InputError, match=f"--revision: .* is {kind}, which has none"):
            model_settings(path, "abc", study)
    for nothing in ("/nowhere", "models/nothing.gguf", "a/b/c", "./model"):
        with pytest.raises(InputError, match=f"{nothing}: no such folder or file"):
            model_settings(nothing, None, study)


def test_a_configuration_is_written_once_and_only_if_it_is_valid(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    folder = tmp_path / "study"
    texts = pl.DataFrame({"text": ["a", "b"], "label": ["no", "yes"]})
    others = texts.with_columns(pl.col("text") + " apart")
    parts = {"train.parquet": texts, "test.parquet": others}
    task = {"source": "local", "train": "train.parquet", "test": "test.parquet"}
    task |= {"template": TEMPLATE, "labels": [" no", " yes"]}
    models = {"tiny": model_settings(str(tiny_model_directory), None, folder)}
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file: is a file; name another folder"):
        write_configuration(tmp_path / "file" / "study", models, {"mine": task}, parts)
    with pytest.raises(InputError, match="template"):
        write_configuration(folder, models, {"mine": {**task, "template": "{label}"}}, parts)
    with pytest.raises(InputError, match="with seed 0, every test text is a demonstration"):
        write_configuration(folder, models, {"mine": task}, dict.fromkeys(parts, texts))
    assert not folder.exists()
    path = write_configuration(folder, models, {"mine": task}, parts)
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    default = yaml.safe_load((ROOT / "config" / "config.yaml").read_text(encoding="utf-8"))
    del default["demonstrations_per_label"]  # which the schema gives
    assert config == {**default, "models": models, "tasks": {"mine": task}}
    assert pl.read_parquet(folder / "test.parquet").equals(others)
    with pytest.raises(InputError, match=r"config\.yaml: exists; move it away, or name another"):
        write_configuration(folder, models, {"mine": task}, parts)


def test_names_and_characters_that_yaml_reads_otherwise_are_quoted(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    texts = pl.DataFrame({"text": ["a", "b"], "label": ["no", "yes"]})
    task = {"source": "local", "train": "train.parquet", "test": "test.parquet"}
    unseen = "\x7f{text}\x85\u2028\ufeff:{label}"
    task |= {"template": unseen, "labels": [" no", " yes"]}
    models = {"1e5": model_settings(str(tiny_model_directory), None, tmp_path / "study")}
    others = texts.with_columns(pl.col("text") + " apart")
    parts = {"train.parquet": texts, "test.parquet": others}
    path = write_configuration(tmp_path / "study", models, {"no": task}, parts)
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert (list(config["models"]), list(config["tasks"])) == (["1e5"], ["no"])
    assert config["tasks"]["no"]["template"] == unseen
