"""What only some runs ask for: how it is measured, and what a change of it rebuilds."""

import json

import polars as pl
import pytest

from anchorflow.store.parquet import read_settings
from checkout import Checkout
from job_messages import EMBED_FURTHER, MEASURE, PERTURB, PROMPT, TWIN, cells, presented

TASKS, SEEDS = ["reviews", "news"], [0, 1]
CLAIMS, REGRESSORS = presented("claims"), presented("regressors")
OF_PERTURBED = cells([PERTURB, "perturbations"], TASKS, SEEDS) | presented("perturbations")
OF_WORDS = presented("label_words") | CLAIMS
SCORES = ["prefix_matching", "writing", "task", "gathering", "function_vector"]


@pytest.mark.long
def test_of_several_learning_rates_the_best_is_chosen(finished_run: Checkout) -> None:
    finished_run.config["reweighting"] = {"learning_rates": [0.1, 0.01]}
    finished_run.snakemake("--cores", "2", "results/reweighting/tiny/reviews/0/beta.parquet")
    folder = finished_run.folder / "results/reweighting/tiny/reviews/0"
    rates = pl.read_parquet(folder / "learning_rates.parquet")
    assert rates["learning_rate"].to_list() == [0.1, 0.01]
    best = rates.filter(pl.col("held_out_loss") == pl.col("held_out_loss").min())
    assert rates.filter("chosen").equals(best)


@pytest.mark.long
def test_texts_of_another_task_rebuild_the_cells_that_show_them(finished_run: Checkout) -> None:
    config = finished_run.config
    config["retrieval"] = {"choices": ["nearest", "other_task"]}
    finished_run.snakemake("--cores", "2", "results/summaries/retrieval/tiny.parquet")
    cell = finished_run.folder / "results/retrieval/tiny/news/1/samples.parquet"
    assert read_settings(cell)["retrieval"]["other"] == {"task": "reviews", "fields": ["text"]}
    samples = pl.read_parquet(cell).filter(demonstrations="other_task")
    reviews = pl.read_parquet(finished_run.folder / "results/texts/reviews.parquet")
    assert set(samples["demonstration_texts"].explode()) <= set(
        reviews.filter(split="train")["text"]
    )

    config["tasks"]["reviews"]["template"] = "Text: {text}\nSentiment:{label}"
    assert cells(["retrieval"], ["news"], SEEDS).isdisjoint(finished_run.planned())
    finished_run.edit("data/reviews_train.csv", "funny", "funnier")
    planned = finished_run.planned()
    assert cells(["retrieval"], TASKS, SEEDS) <= planned
    assert cells(["attention"], ["news"], SEEDS).isdisjoint(planned)


@pytest.mark.long
def test_perturbations_are_run_if_listed_and_their_keys_rebuild_no_more_than_they_concern(
    finished_run: Checkout,
) -> None:
    config = finished_run.config
    config["perturbations"] = {"kinds": ["typos", "rare_words"]}
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
    assert finished_run.planned() == OF_PERTURBED
    config["perturbations"] = {"kinds": ["rare_words"]}
    assert finished_run.planned() == OF_PERTURBED
    config["perturbations"] = {"kinds": []}
    assert finished_run.planned() == set()
    said = finished_run.snakemake("-n", "results/summaries/perturbations/tiny.parquet", ok=False)
    assert "perturbations.kinds: it is [], so there is nothing of this kind" in said


@pytest.mark.long
def test_cuts_and_transplants_are_run_if_listed_and_rebuild_no_more_than_they_concern(
    finished_run: Checkout,
) -> None:
    config = finished_run.config

    def jobs(*stages: str, untrained: bool = True) -> set[str]:
        templates = [MEASURE[stage] for stage in stages]
        of_twin = [t.replace("tiny", TWIN) for t in templates if untrained]
        return cells([*templates, *of_twin], TASKS, SEEDS)

    stages = ("knockout", "faithfulness", "cutoff", "transplant")
    classes = ["label_to_target", "equal_to_target", "text_to_label"]
    config["knockout"] = {"classes": classes}
    config["faithfulness"] = {"classes": classes[:1], "steps": 1}
    config["cutoff"] = {"sees": ["first", "label", "random"]}
    config["transplant"] = {"places": ["label", "text", "template"], "depths": 2}
    asked = presented(*stages) | CLAIMS
    assert finished_run.planned() == jobs(*stages, untrained=False) | asked
    config["controls"]["stages"] += stages
    assert finished_run.planned() == jobs(*stages) | asked
    finished_run.snakemake("--cores", "2")
    assert finished_run.planned() == set()
    claims = pl.read_parquet(finished_run.folder / "results/summaries/claims/tiny.parquet")
    tested = claims.filter(pl.col("source") == "[A] §2", pl.col("task") == "news")
    assert sorted(tested["claim"]) == [
        "cutting_label_words",
        "gim_orders_layers",
        "label_words_carry",
        "label_words_suffice_late",
        "saliency_orders_layers",
    ]
    assert tested["effect"].is_not_null().all()
    assert tested["null_effect"].is_not_null().all()

    config["faithfulness"] = {"classes": classes[:1], "steps": 2}
    of_estimates = jobs("faithfulness") | presented("faithfulness") | CLAIMS
    assert finished_run.planned() == of_estimates
    config["faithfulness"] = {"classes": classes[:1], "steps": 1}
    config["transplant"]["depths"] = 3
    of_transplants = jobs("transplant") | presented("transplant") | CLAIMS
    assert finished_run.planned() == of_transplants
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
    target = "results/figures/flow_page/tiny/news/0"
    finished_run.snakemake("--cores", "2", target)
    assert len(list((finished_run.folder / target).glob("*.html"))) == 2
    finished_run.config["flow_page"] = {"examples": 0}
    assert finished_run.planned() == set()


@pytest.mark.long
def test_orders_are_run_if_there_are_some_and_rebuild_nothing_else(finished_run: Checkout) -> None:
    config = finished_run.config
    config["orders"] = {"count": 2}
    finished_run.snakemake("--cores", "2", "results/figures/orders/tiny.png")
    results = finished_run.folder / "results"
    measured = pl.read_parquet(results / "orders/tiny/news/1/predictions.parquet")
    first = measured.filter(arrangement="order", number=0).sort("example")
    kernel = pl.read_parquet(results / "kernel/tiny/news/1/predictions.parquet").sort("example")
    assert first["prediction"].to_list() == kernel["prediction"].to_list()
    config["kernel"]["chosen_on"] = 0.7
    assert cells(["orders"], TASKS, SEEDS).isdisjoint(finished_run.planned())
    config["orders"] = {"count": 3}
    assert cells(["orders"], TASKS, SEEDS) <= finished_run.planned()
    config["orders"] = {"count": 0}
    said = finished_run.snakemake("-n", "results/summaries/orders/tiny.parquet", ok=False)
    assert "orders.count: it is 0, so there is nothing of this kind" in said


@pytest.mark.long
def test_heads_are_scored_taken_away_and_judged(finished_run: Checkout) -> None:
    finished_run.config["heads"] = {"scores": SCORES, "sequences": 2}
    finished_run.config["ablation"] = {
        "scores": ["label_copy", "function_vector", "prefix_matching"],
        "shares": [0.1, 0.3],
        "draws": 2,
        "where": ["target", "everywhere"],
        "by": ["mean", "zero", "other"],
    }
    finished_run.config["controls"] = {"stages": ["heads"], "seeds": 2}
    targets = ["heads", "ablation", "results/atlas/tiny.json", "results/tables/claims.csv"]
    finished_run.snakemake("--cores", "2", *targets)
    results = finished_run.folder / "results"
    for name in ("heads", "ablation"):
        assert (results / f"figures/{name}/tiny.png").stat().st_size > 10_000
        assert (results / f"tables/{name}.md").is_file()
    read = json.loads((results / "atlas/tiny.json").read_text(encoding="utf-8"))
    assert {"label_copy", "function_vector", "gradient"} <= read["scores"].keys()
    matrix = read["scores"]["label_copy"]["difference"]["mean"]
    assert [len(row) for row in matrix] == [4, 4, 4]
    claims = pl.read_csv(results / "tables/claims.csv", infer_schema_length=None)
    of_heads = claims.filter(pl.col("figure").is_in(["heads", "ablation"]), task="average")
    assert of_heads.height == 7
    cancels = of_heads.filter(claim="cancelling_heads_exist").row(0, named=True)
    assert cancels["effect"] is not None and cancels["null_effect"] is not None
    # Neither network is trained: none of these claims may hold.
    assert "supported" not in of_heads["verdict"].to_list()
    assert "not measured" in of_heads.filter(claim="recognition_keeps_labels")["verdict"].to_list()


@pytest.mark.long
def test_label_words_compute_their_own_cells_and_nothing_of_the_others(
    finished_run: Checkout,
) -> None:
    task = finished_run.config["tasks"]["reviews"]
    task["label_words"] = {"permuted": task["labels"][::-1]}
    stages = [PROMPT, MEASURE["attention"], MEASURE["flow"], MEASURE["isolation"]]
    permuted = cells(stages, ["reviews+permuted"], SEEDS)
    assert finished_run.planned() == permuted | OF_WORDS
    finished_run.snakemake("--cores", "2", "all")
    assert finished_run.planned() == set()
    folder = finished_run.folder / "results"
    rows = pl.read_parquet(folder / "summaries/label_words/tiny.parquet")
    assert set(rows["task"]) == {"reviews", "average"}
    assert set(rows["words"]) == {"words", "permuted"}
    assert (
        read_settings(folder / "summaries/label_words/tiny.parquet")["label_words"]["variant"]
        == "mask"
    )
    own, other = (
        pl.read_parquet(folder / f"prompts/tiny/{cell}/0.parquet")
        for cell in ("reviews", "reviews+permuted")
    )
    assert other.select("example", "demonstrations", "demonstration_labels").equals(
        own.select("example", "demonstrations", "demonstration_labels")
    )

    task["label_words"] = {"symbols": [" A", " B"], **task["label_words"]}
    symbols = cells(stages, ["reviews+symbols"], SEEDS)
    assert finished_run.planned() == symbols | OF_WORDS
    task["label_words"] = {"permuted": [" Good", " Bad"]}
    assert finished_run.planned() == permuted | OF_WORDS
    task["label_words"] = {"permuted": task["labels"][::-1]}
    task["random_words"] = ["random"]
    assert finished_run.planned() == cells(stages, ["reviews+random"], SEEDS) | OF_WORDS
    task["random_words"].append("again")
    drawn = ["reviews+random", "reviews+again"]
    assert finished_run.planned() == cells(stages, drawn, SEEDS) | OF_WORDS
    del task["random_words"]
    finished_run.config["tasks"]["news"]["label_words"] = {"symbols": [" A", " B", " C", " D"]}
    assert finished_run.planned() == cells(stages, ["news+symbols"], SEEDS) | OF_WORDS
    del task["label_words"], finished_run.config["tasks"]["news"]["label_words"]
    assert finished_run.planned() == CLAIMS  # which have read other words
    said = finished_run.snakemake("-n", "results/summaries/label_words/tiny.parquet", ok=False)
    assert "none has label_words to compare with its own labels" in said
    said = finished_run.snakemake("-n", "results/prompts/tiny/news+symbols/0.parquet", ok=False)
    assert 'tasks.news.label_words: "symbols" is not in the configuration; it has none.' in said
    said = finished_run.snakemake("-n", "results/texts/reviews+permuted.parquet", ok=False)
    assert "MissingRuleException" in said


@pytest.mark.long
def test_timings_are_taken_for_the_first_seed_and_rebuild_nothing_else(
    finished_run: Checkout,
) -> None:
    folder = finished_run.folder / "results/timing/tiny/news"
    assert [path.name for path in folder.iterdir()] == ["0.parquet"]
    target = "results/timing/tiny/news/0.parquet"
    (finished_run.folder / target).unlink()
    assert finished_run.planned() == set()
    assert finished_run.planned(target) == {MEASURE["timing"].format(task="news")}
    finished_run.snakemake("--cores", "2", target)
    assert finished_run.planned() == presented("timing", "claims")
