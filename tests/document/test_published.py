"""Pages of published runs: beside the papers' numbers, and renewed from the files beside them."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from anchorflow.analyses.reweighting import REWEIGHTING_SUMMARY
from anchorflow.claims.schema import CLAIMS
from anchorflow.config.errors import InputError
from anchorflow.config.stages import table_at
from anchorflow.schemas.frames import arrow_schema
from anchorflow.schemas.texts import TEXTS
from anchorflow.store.all_tables import TABLES
from anchorflow.store.checksums import sha256_of, write_json
from anchorflow.store.parquet import read_settings, write_frame
from anchorflow.summary.facts import costs
from constructed.rows import CELL, INTERVAL, frame
from constructed.verdicts import ALSO_UNTRAINED, MISSING, SUPPORTED, UNCLEAR, claims_table
from tools.document import published
from tools.document.published import PUBLISHED, publish
from tools.document.published_across import page_across
from tools.document.published_run import page_of
from tools.document.runs import KeptRun

TEMPLATES = Path(published.__file__).parent
TASKS = ("sst2", "trec", "agnews", "emoc")
HELD = {"flow_early": SUPPORTED, "flow_late": ALSO_UNTRAINED}
SOFTWARE = dict.fromkeys(("torch", "transformers", "python", "machine"), "1.0")


def run_of(
    folder: Path,
    model: str,
    decided: dict[str, dict[str, Any]] = HELD,
    further: Mapping[str, pl.DataFrame] = MappingProxyType({}),
) -> list[str]:
    """Writes a folder as a finished run leaves it, of which only what is published is there.

    ``further`` are tables that are only CSV files here. Returns its configuration files.
    """
    names = ("mean", "low", "high", "examples", "texts", "seeds")
    estimate = dict(zip(names, INTERVAL, strict=True))
    rows = [
        {"task": task, "method": method, "measure": "accuracy", **estimate}
        for task in (*TASKS, "average")
        for method in ("vanilla", "reweighted")
    ]
    claims = claims_table(model, decided)
    tasks = [
        claims.filter(task="average"),
        *(claims.filter(task="news").with_columns(task=pl.lit(task)) for task in TASKS),
    ]
    tables = {
        "reweighting": (frame(rows, REWEIGHTING_SUMMARY, model=model), REWEIGHTING_SUMMARY),
        "claims": (pl.concat(tasks), CLAIMS),
    }
    results = folder / "results"
    (results / "tables").mkdir(parents=True)
    for name, (table, schema) in tables.items():
        table.write_csv(results / "tables" / f"{name}.csv")
        settings = {"model": {"directory": str(folder)}, "separator": "/"}
        write_frame(results / "summaries" / name / f"{model}.parquet", schema, table, settings)
    for name, table in further.items():
        table.write_csv(results / "tables" / f"{name}.csv")
    usage = {"rule": ["measure_flow", "measure_attention"], "names": [["tiny"], ["tiny"]]}
    seconds = {"seconds": [1800.0, 1800.0], "cpu_seconds": [1800.0, 1800.0]}
    spent = costs({}, pl.DataFrame({**usage, **seconds}), ["twin"])
    spent.write_csv(results / "tables" / "costs.csv")
    for task in TASKS:
        row = {"task": task, "split": "train", "row": 0, "text": "a text", "label": 0}
        source = {"source": "hub", "repository": f"sets/{task}"}
        source["train"] = str(folder / "train.csv")
        write_frame(results / "texts" / f"{task}.parquet", TEXTS, frame([row], TEXTS), source)
    figure = results / "figures" / "flow" / f"{model}.png"
    figure.parent.mkdir(parents=True)
    figure.write_bytes(b"a figure")
    card = {"sha256": "123", "dtype": "float32", "layers": 2, "query_heads": 4}
    (results / "models" / model).mkdir(parents=True)
    write_json(results / "models" / model / "model.json", card)
    sums = {
        file.relative_to(folder).as_posix(): {"sha256": sha256_of(file)}
        for file in results.rglob("*")
        if file.is_file()
    }
    write_json(results / "manifest.json", {"software": SOFTWARE, "files": sums})
    return configuration(folder, model, TASKS)


def configuration(folder: Path, model: str, tasks: Sequence[str]) -> list[str]:
    contents = {"tasks": {task: {} for task in tasks}, "models": {model: {}}}
    for name, content in contents.items():
        (folder / f"{name}.yaml").write_text(json.dumps({name: content}), encoding="utf-8")
    return [str(folder / f"{name}.yaml") for name in contents]


@pytest.mark.parametrize(
    "folder",
    sorted(file.parent for file in PUBLISHED.rglob("run.json")),
    ids=lambda folder: folder.relative_to(PUBLISHED).as_posix(),
)
def test_the_files_beside_a_page_are_those_of_its_run(folder: Path) -> None:
    facts = KeptRun.read(folder).facts
    made = ("README.md", "run.json")
    files = [file for file in folder.iterdir() if file.is_file() and file.name not in made]
    assert {file.name: sha256_of(file) for file in files} == facts["files"]
    for file in folder.glob("*.parquet"):
        model = facts["model"]["name"]
        wanted = TABLES[table_at(f"results/summaries/{file.stem}/{model}.parquet")]
        # An earlier version's run may lack a later column.
        types = {column.name: column.type for column in arrow_schema(wanted)}
        for column in pq.read_schema(file):
            assert types.get(column.name) == column.type, (file.name, column.name)


def test_a_run_is_published_beside_the_papers_numbers(tmp_path: Path) -> None:
    decided = {**HELD, "retrieval_helps": MISSING}
    configurations = run_of(tmp_path / "run", "tiny", decided)
    folder = publish(tmp_path / "run", configurations, tmp_path / "published")
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert f"--configfile {' '.join(Path(file).name for file in configurations)}" in text
    for file in folder.iterdir():  # no folder of one's own machine
        assert str(tmp_path).encode() not in file.read_bytes()
    assert KeptRun.read(folder).facts["texts"]["trec"]["train"] == "train.csv"
    kept = {"model": {"directory": "run"}, "separator": "/"}
    assert read_settings(folder / "claims.parquet") == kept
    assert "trec from sets/trec," in text
    assert "Not measured: 1" in text and "| Not measured" not in text
    assert f"| vanilla | {CELL} | {CELL} |" in text
    # Wang et al. 2023, Table 1; nothing is compared with what was not measured.
    assert "| GPT2-XL, vanilla | 0.61 | 0.58 | 0.73 | 0.15 | 0.52 |" in text
    assert "Table 2" not in text
    assert "Also true of an untrained network: " in text
    across = (tmp_path / "published" / "README.md").read_text(encoding="utf-8")
    assert f"| accuracy, re-weighted | {CELL} | 0.69 | – |" in across
    assert "| flow | 0.50 |\n| attention | 0.50 |\n| all | 1.00 |" in across
    assert text == page_of(KeptRun.read(folder))  # again, without the run
    assert across == page_across(tmp_path / "published")


def estimates(method: str, means: Mapping[str, float], **further: Any) -> list[dict[str, Any]]:
    """Rows with an interval of 0.1 to either side, by task."""
    of_all = {"method": method, **further}
    return [
        {"task": task, **of_all, "mean": mean, "low": mean - 0.1, "high": mean + 0.1}
        for task, mean in means.items()
    ]


def test_tables_are_laid_out_like_the_papers_and_above_their_rows(tmp_path: Path) -> None:
    milliseconds = {"full_prompt": (90, 90, 80, 30), "hidden_anchor": (45, 30, 20, 60)}
    timing = [
        {"task": task, "way": way, "milliseconds": float(time)}
        for way, times in milliseconds.items()
        for task, time in zip(TASKS, times, strict=True)
    ]
    anchors = [
        *estimates("hidden_anchor", {"average": 0.6, "sst2": 0.9}, measure="label_loyalty"),
        *estimates("hidden_anchor", {"average": 0.4}, measure="word_loyalty"),
        *estimates("hidden_anchor", {"average": 0.5}, measure="accuracy"),
    ]
    compression = [{"share": None, **row} for row in anchors]
    compression += estimates("snapkv", {"average": 0.7}, measure="label_loyalty", share=0.5)
    head = {"weights": "max", "demonstrations_per_label": None, "measure": "agreement"}
    of_tasks = {"sst2": 0.8, "trec": 0.7, "average": 0.75}
    regressors = [
        *estimates("head_held_out", of_tasks, **head),
        *estimates("head_held_out", {"sst2": 0.1}, **{**head, "weights": "sum"}),
        *estimates("in_context", {"sst2": 0.1}, **{**head, "demonstrations_per_label": 1}),
    ]
    further = {"timing": timing, "compression": compression, "regressors": regressors}
    tables = {name: pl.DataFrame(rows, infer_schema_length=None) for name, rows in further.items()}
    run = tmp_path / "run"
    folder = publish(run, run_of(run, "tiny", further=tables), tmp_path / "published")
    text = (folder / "README.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## .* \((Table \d of \[.\])\)\n([^#]*)", text, re.MULTILINE))
    shown = {name: re.findall(r"^\| .*", part, re.MULTILINE) for name, part in sections.items()}
    # Wang et al. 2023, Tables 2 and 3; Han et al. 2025, Table 2, which has one of these tasks.
    assert shown["Table 3 of [A]"] == [
        "| method | sst2 | trec | agnews | emoc |",
        "| full_prompt | 1.00 | 1.00 | 1.00 | 1.00 |",
        "| hidden_anchor | 2.00 | 3.00 | 4.00 | 0.50 |",
        "| GPT2-XL, hidden_anchor | 1.1 | 1.5 | 2.5 | 1.4 |",
        "| GPT-J, hidden_anchor | 1.5 | 2.2 | 2.9 | 1.9 |",
    ]
    loyalties = shown["Table 2 of [A]"]
    assert loyalties[:2] == [
        "| method | label_loyalty | word_loyalty | accuracy |",
        "| hidden_anchor | 0.60 [0.50, 0.70] | 0.40 [0.30, 0.50] | 0.50 [0.40, 0.60] |",
    ]
    assert "| GPT2-XL, hidden_anchor | 0.79 | 0.62 | 0.45 |" in loyalties
    assert "| GPT-J, hidden_anchor | 0.89 | 0.75 | 0.56 |" in loyalties
    regressions = shown["Table 2 of [K]"]
    of_head = "| head_held_out, agreement | 0.80 [0.70, 0.90] | 0.70 [0.60, 0.80] |"
    assert regressions[:2] == [
        "| method | sst2 | trec | average |",
        f"{of_head} 0.75 [0.65, 0.85] |",
    ]
    assert "| GPT-J, head_held_out, agreement | 0.80 | – | – |" in regressions


def test_what_is_learnt_is_said_with_the_numbers_of_all_models_in_order(tmp_path: Path) -> None:
    quoted = re.findall(r'\("(\w+)"\)', (TEMPLATES / "learnt.md").read_text(encoding="utf-8"))
    shares = {"smollm2-135m": 0.25, "qwen2.5-coder-1.5b": 0.5, "gemma-3-270m": 0.125}
    for model, share in shares.items():
        decided = dict.fromkeys(quoted, SUPPORTED)
        decided["flow_early"] = {**SUPPORTED, "effect": share, "low": 0.0, "high": 0.5}
        decided["flow_late"] = {**ALSO_UNTRAINED, "over_null": -share}
        files = run_of(tmp_path / model, model, decided)
        publish(tmp_path / model, files, tmp_path / "published")
    text = (tmp_path / "published" / "README.md").read_text(encoding="utf-8")
    said = " ".join(text.split())
    assert "by 0.12 [0.00, 0.50], 0.25 [0.00, 0.50], and 0.50 [0.00, 0.50] of the three" in said
    assert "but without training by 0.12, 0.25, and 0.50 even more" in said


def test_claims_are_grouped_by_the_models_that_they_hold_in(tmp_path: Path) -> None:
    into = "flow_into_label_words"
    decided = {
        "one": {**HELD, into: UNCLEAR, "retrieval_helps": MISSING},
        "other": {"flow_early": SUPPORTED, "flow_late": UNCLEAR, into: SUPPORTED},
    }
    for name, of_model in decided.items():
        files = run_of(tmp_path / name, name, of_model)
        publish(tmp_path / name, files, tmp_path / "published")
    text = (tmp_path / "published" / "README.md").read_text(encoding="utf-8")
    groups = {
        title: [line.split(" | ")[2:] for line in matrix.splitlines() if "§" in line]
        for title, matrix in re.findall(r"^### (.*)\n([^#]*)", text, re.MULTILINE)
    }
    held, unclear = "✓ 0.50 [0.25, 0.75]", "? 0.25 [-0.12, 0.62]"
    also = "○ 0.50 [0.25, 0.75]<br><small>minus untrained: -0.25 [-0.50, 0.00]</small>"
    assert groups == {
        "Supported in every model": [[held, f"{held} |"]],
        "Supported in some models": [[unclear, f"{held} |"]],
        "Also true without training, or different by task, and supported in no model": [
            [also, f"{unclear} |"]
        ],
    }


def test_a_second_run_is_a_section_of_its_model_s_page(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    files = run_of(first, "tiny")
    page = publish(first, files, tmp_path / "published")
    alone = (page / "README.md").read_text(encoding="utf-8")
    ranks = [
        *estimates("label_to_target", {"sst2": 0.5, "average": 0.4}, estimate="gim"),
        *estimates("label_to_target", {"average": 0.3}, estimate="saliency"),
    ]
    rows = [
        {"edges": row.pop("method"), "measure": "rank", "control": False} | row for row in ranks
    ]
    rows += [{**rows[0], "control": True}, {**rows[0], "measure": "sign"}]
    measured = {"saliency_orders_layers": UNCLEAR, "retrieval_helps": MISSING}
    further = {"faithfulness": pl.DataFrame(rows)}
    again = run_of(second, "tiny", {**measured, "deep_auc_rises": SUPPORTED}, further)
    folder = publish(second, again, tmp_path / "published", disputes=True)
    text = (page / "README.md").read_text(encoding="utf-8")
    assert text.startswith(alone)  # the first part stays, as do its files
    assert (page / "reweighting.csv").is_file()
    assert (folder / "flow.png").is_file()
    section = text[len(alone) :]
    assert re.findall(r"^\| (.*?) \| Undecided", section, re.MULTILINE) == [
        "Saliency ranks layers by the effect of cutting the target's attention to label words "
        "better than attention does"
    ]
    assert "AUCROC" not in section  # of attention, which is not disputed
    assert re.findall(r"^\| .*gim.*|^\| .*, saliency.*", section, re.MULTILINE) == [
        "| label_to_target, gim | 0.50 [0.40, 0.60] | 0.40 [0.30, 0.50] |",
        "| label_to_target, saliency | – | 0.30 [0.20, 0.40] |",
    ]
    assert text == page_of(KeptRun.read(page))  # again, without the runs
    across = (tmp_path / "published" / "README.md").read_text(encoding="utf-8")
    assert "| label_to_target, gim | 0.40 [0.30, 0.50] |" in across
    assert "| [A] §2 | ? 0.25 [-0.12, 0.62] |" in across
    publish(first, files, tmp_path / "published")  # and the section stays if the first is renewed
    assert (page / "README.md").read_text(encoding="utf-8") == text


def test_a_second_run_of_other_weights_or_without_a_first_is_refused(tmp_path: Path) -> None:
    published, run = tmp_path / "published", tmp_path / "run"
    files = run_of(run, "tiny")
    with pytest.raises(InputError, match="there is none; publish the run of"):
        publish(run, files, published, disputes=True)
    assert not published.exists()
    page = publish(run, files, published)
    facts = page / "run.json"
    kept = facts.read_text(encoding="utf-8")
    for old, new, told in [
        ('"sha256": "123"', '"sha256": "124"', "the same weights, and model differs"),
        ('"trec": {', '"rte": {', "the same tasks"),
    ]:
        facts.write_text(kept.replace(old, new, 1), encoding="utf-8")
        with pytest.raises(InputError, match=told):
            publish(run, files, published, disputes=True)
    assert not (page / "disputes").exists()
    facts.write_text(kept, encoding="utf-8")
    publish(run, files, published, disputes=True)  # which has no numbers to quote


@pytest.mark.parametrize(
    "name", ["tables/claims.csv", "texts/trec.parquet", "figures/flow/tiny.png"]
)
def test_a_file_that_the_run_did_not_write_is_refused(name: str, tmp_path: Path) -> None:
    configurations = run_of(tmp_path, "tiny")
    file = tmp_path / "results" / name
    file.write_bytes(file.read_bytes() + b"more")
    with pytest.raises(InputError, match=f"{re.escape(name)}: not what the run wrote"):
        publish(tmp_path, configurations, tmp_path / "published")
    assert not (tmp_path / "published").exists()


@pytest.mark.parametrize(("model", "tasks"), [("other", TASKS), ("tiny", TASKS[:2])])
def test_the_configuration_of_another_run_is_refused(
    model: str, tasks: Sequence[str], tmp_path: Path
) -> None:
    run_of(tmp_path, "tiny")
    files = configuration(tmp_path, model, tasks)
    with pytest.raises(InputError, match="not the configuration of a run of tiny on sst2, trec"):
        publish(tmp_path, files, tmp_path / "published")
