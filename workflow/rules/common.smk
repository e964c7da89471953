# What all rules share: the checked configuration, the cells of the run, and the code each rule needs.

import os
import shutil
from pathlib import Path

from snakemake.exceptions import WorkflowError

from anchorflow import configuration
from anchorflow.configuration import complete_configuration, label_word_sets, listed
from anchorflow.errors import InputError
from anchorflow.folders import make_writable
from anchorflow.plain_values import check_file
from anchorflow.shards import gathered, shard_names
from anchorflow.sources import modules_imported_by
from anchorflow.task_names import task_of

# The repository's folder, also where another workflow uses this one as a module: workflow.basedir
# is the other one's then.
ROOT = Path(str(workflow.current_basedir)).parents[1]

try:
    for file in workflow.configfiles:
        check_file(file)
    complete_configuration(config, ROOT / "workflow/schemas/config.schema.yaml")
except InputError as error:
    raise WorkflowError(str(error))


# Snakemake itself would meet a folder that can't be written with a traceback; it does where this is
# not run: with --no-hooks, and where another workflow uses this one as a module.
onstart:
    try:
        for folder in ("results", "logs"):
            make_writable(Path(folder))
    except InputError as error:
        raise WorkflowError(str(error))


NAME = "[A-Za-z0-9][A-Za-z0-9._-]*"


wildcard_constraints:
    model=NAME,
    task=rf"{NAME}(?:\+{NAME})?",  # "reviews", or with other label words "reviews+symbols"
    seed="[0-9]+",
    examples="[0-9]+-[0-9]+",  # a shard: places of its test texts, "100-200" without the last


# Large test sets are measured in shards, one job each, which gather.smk puts together. Stages that
# fit something to all test texts, or run few of them, are not sharded.
SHARDED = (
    "attention",
    "saliency",
    "isolation",
    "compression",
    "retrieval",
    "kernel",
)
SHARDS = shard_names(config["test_examples"], config["compute"]["examples_per_shard"])

# What one job measures: the test texts of a model, task and seed, or a shard of them.
PART = "{model}/{task}/{seed}/{examples}" if SHARDS else "{model}/{task}/{seed}"
OF_PART = ", test texts {wildcards.examples}" if SHARDS else ""


# Each rule file adds the figures and tables that it ends in.
FIGURES = []
TABLES = []

# Categories of the report, which shows them in the order of their names.
CLAIMS = "1 Claims"
INFORMATION = "2 Label words as anchors"
ANCHORS = "3 Anchors put to use"
KERNEL = "4 Kernel regression"
ACCURACY = "5 Accuracy"


def figure(name, category, shows):
    """How the report shows a model's figure; the caption is workflow/report/{name}.rst.

    A label of two values that all figures of a category have becomes a switch, so a label that
    does not apply is left out.
    """
    return {
        "caption": f"../report/{name}.rst",
        "category": category,
        "subcategory": "Figures",
        "labels": {"figure": shows, "model": "{model}"},
    }


def table(name, category, shows):
    """How the report shows a table over all models; the caption is workflow/report/{name}.rst."""
    return {
        "caption": f"../report/{name}.rst",
        "category": category,
        "subcategory": "Tables",
        "labels": {"table": shows},
    }


def model_settings(wildcards):
    return listed(wildcards.model, "models", config)


def task_settings(wildcards):
    return configuration.task_settings(wildcards.task, config)


def code_of(rule):
    """A rule's script and every module that it imports: an edit rebuilds what depends on it."""
    script = ROOT / "workflow" / "scripts" / f"{rule}.py"
    return [os.path.relpath(path) for path in [script, *modules_imported_by(script)]]


def measured(stage, table=None):
    """Where a job leaves a stage, or one of its tables: in its own place, or in a shard."""
    path = f"{stage}/{PART}/{table}" if table else f"{stage}/{PART}"
    return (
        temp(f"results/shards/{path}.parquet") if SHARDS else f"results/{path}.parquet"
    )


def cells_of(stage, table=None):
    """All tasks and seeds of one stage, or of one of its tables, for the model at hand."""
    return lambda wildcards: expand(
        "results/{stage}/{model}/{task}/{cell}.parquet",
        stage=stage,
        model=wildcards.model,
        task=config["tasks"],
        cell=[f"{seed}/{table}" if table else seed for seed in config["seeds"]],
    )


def of_models(stage):
    """A stage's summaries of all models."""
    return expand(
        "results/{stage}/{model}.parquet", stage=stage, model=config["models"]
    )


def cells_with_words(stage):
    """All cells of the tasks that have other label words, those with their own words included."""
    return lambda wildcards: expand(
        "results/{stage}/{model}/{task}/{seed}.parquet",
        stage=stage,
        model=wildcards.model,
        task=configuration.cells_with_words(config),
        seed=config["seeds"],
    )


def samples_of(wildcards):
    """A task's samples, which its prompts with other label words share."""
    return f"results/samples/{task_of(wildcards.task)}/{wildcards.seed}.parquet"


def timings_of(wildcards):
    """Timings of all tasks of the model at hand; they are taken for the first seed only."""
    return expand(
        "results/timing/{model}/{task}/{seed}.parquet",
        model=wildcards.model,
        task=config["tasks"],
        seed=config["seeds"][0],
    )


def shown_of(path):
    """What all tasks have for the pages of the model at hand; they show the first seed only."""
    return lambda wildcards: expand(
        f"results/{path}",
        model=wildcards.model,
        task=config["tasks"],
        seed=config["seeds"][0],
    )


def memory_of(wildcards, attempt):
    """MB, more with every retry, since too little memory is what a scheduler kills jobs for."""
    return attempt * model_settings(wildcards)["memory"]


def runtime_of(wildcards, attempt):
    """Minutes, for schedulers that end what takes longer: a model's memory tells its size."""
    return attempt * (30 + 5 * model_settings(wildcards)["memory"] // 1000)


# Jobs take turns on this machine's GPU, unless --resources or a profile names more of them.
workflow.global_resources.setdefault("gpu", 1)


def gpus_of(wildcards):
    """GPUs of a job: a machine's all for `spread`, one for others if it will run on a GPU."""
    wanted = config["compute"]["device"]
    if wanted == "spread":
        return workflow.global_resources["gpu"].value
    return int(
        wanted == "cuda"
        or (wanted == "auto" and shutil.which("nvidia-smi") is not None)
    )
