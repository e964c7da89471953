# What all rules share: the checked configuration, the cells of the run, and the code each rule needs.

import os
import shutil
from pathlib import Path

from snakemake.exceptions import WorkflowError

from anchorflow.configuration import complete_configuration, listed
from anchorflow.errors import InputError
from anchorflow.sources import modules_imported_by

ROOT = Path(workflow.basedir)

try:
    complete_configuration(config, ROOT / "workflow/schemas/config.schema.yaml")
except InputError as error:
    raise WorkflowError(str(error))


wildcard_constraints:
    model="[A-Za-z0-9][A-Za-z0-9._-]*",
    task="[A-Za-z0-9][A-Za-z0-9._-]*",
    seed="[0-9]+",


# Each rule file adds the figures and tables that it ends in.
FIGURES = []
TABLES = []


def model_settings(wildcards):
    return listed(wildcards.model, "models", config)


def task_settings(wildcards):
    return listed(wildcards.task, "tasks", config)


def code_of(rule):
    """A rule's script and every module that it imports: an edit rebuilds what depends on it."""
    script = ROOT / "workflow" / "scripts" / f"{rule}.py"
    return [os.path.relpath(path) for path in [script, *modules_imported_by(script)]]


def cells_of(stage, table=None):
    """All tasks and seeds of one stage, or of one of its tables, for the model at hand."""
    return lambda wildcards: expand(
        "results/{stage}/{model}/{task}/{cell}.parquet",
        stage=stage,
        model=wildcards.model,
        task=config["tasks"],
        cell=[f"{seed}/{table}" if table else seed for seed in config["seeds"]],
    )


def timings_of(wildcards):
    """Timings of all tasks of the model at hand; they are taken for the first seed only."""
    return expand(
        "results/timing/{model}/{task}/{seed}.parquet",
        model=wildcards.model,
        task=config["tasks"],
        seed=config["seeds"][0],
    )


def memory_of(wildcards):
    return model_settings(wildcards)["memory"]


def gpus_of(wildcards):
    """One of the `gpu` resource for jobs that will run on a GPU, so that --resources gpu=1 queues them."""
    wanted = config["compute"]["device"]
    return int(
        wanted != "cpu" and (wanted != "auto" or shutil.which("nvidia-smi") is not None)
    )
