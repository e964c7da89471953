# Shared by all rules: the checked configuration, the cells of the run, and the code of each rule.

import os
import shutil
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

# In a clone, rules and jobs use the package beside the rules, whether or not it is installed.
if (Path(folder_of_rules()).parent / "anchorflow").is_dir():
    sys.path.insert(0, str(Path(folder_of_rules()).parent))

from anchorflow.config import configuration, digests
from anchorflow.config.as_written import check_keys
from anchorflow.config.checkpoints import checkpoints_of, trainings
from anchorflow.config.cell_names import (
    UNTRAINED,
    base_of,
    is_untrained,
    task_of,
    with_same_words,
)
from anchorflow.config.configuration import (
    complete_configuration,
    label_word_sets,
    listed,
)
from anchorflow.config.errors import InputError
from anchorflow.config.text_fields import fields_of
from anchorflow.config.job_environment import is_job, share_with_jobs
from anchorflow.config.named_files import contents_of, files_of_texts
from anchorflow.config.named_models import files_of_model
from anchorflow.config.places import (
    PACKAGE,
    REPOSITORY,
    WORKFLOW,
    check_interpreter,
    make_writable,
)
from anchorflow.config.presented_settings import settings_named, without_texts
from anchorflow.config import registry
from anchorflow.config.registry import claim_places, entries, file_of, place
from anchorflow.config.shards import gathered, shard_names
from anchorflow.config.analysis import CELL, MODEL, WORLDS
from anchorflow.config.stages import (
    ANALYSES,
    NULLS,
    PRESENTED,
    SHARDED,
    STAGES,
    folder_of,
    measures_of,
    null_reads,
    null_stages,
    reads_of,
    seeds_of,
    texts_of,
    texts_summarized,
)
from anchorflow.store.pinned_revisions import pin

share_with_jobs(PACKAGE.parent)

try:
    for file in configuration_files():
        check_keys(file)
    complete_configuration(config, WORKFLOW / "schemas/config.schema.yaml")
    for looked_up in pin(config, may_look_up=not is_job()):
        logger.info(looked_up)
except InputError as error:
    raise WorkflowError(str(error))


# Without this, Snakemake reports a folder that is not writable with a traceback, and slows down with
# every job. It still does so with --no-hooks, and if another workflow uses this one as a module.
onstart:
    try:
        check_interpreter(sys.executable)
        for folder in ("results", "logs"):
            make_writable(Path(folder))
    except InputError as error:
        raise WorkflowError(str(error))
    start_jobs_at_any_rate()


SPLITS = ("train", "test")
NAME = "[A-Za-z0-9][A-Za-z0-9._-]*"
KIND = "|".join(UNTRAINED)  # of untrained twins


wildcard_constraints:
    model=rf"{NAME}(?:\+(?:{KIND})-[0-9]+)?",  # "gpt2", or its twin "gpt2+shuffled-0"
    task=rf"{NAME}(?:\+{NAME})?",  # "reviews", or "reviews+symbols" with other label words
    seed="[0-9]+",
    examples="[0-9]+-[0-9]+",  # a shard: indices of its test texts, "100-200" excluding 200


# Large test sets are measured in shards, one job each, which gather.smk combines.
SHARDS = shard_names(config["test_examples"], config["compute"]["examples_per_shard"])

# What one job measures: the test texts of a model, task, and seed, or a shard of them.
PART = f"{CELL}/{{examples}}" if SHARDS else CELL
OF_PART = ", test texts {wildcards.examples}" if SHARDS else ""

# PNG files are for pages and the report.
FIGURE_FORMATS = [*config["figures"]["formats"], "png"]

# Each rule file adds its final figures and tables.
FINAL_FIGURES = []
FINAL_TABLES = []


def final_by_analysis():
    """The final figures and tables by the analysis that they are of."""
    files = {}
    for file in FINAL_FIGURES + FINAL_TABLES:
        _, kind, *names = file.split("/")
        if kind in ("figures", "tables"):
            files.setdefault(names[0].partition(".")[0], []).append(file)
    return files


def model_settings(wildcards):
    """A model's settings; those of its untrained twins are the same."""
    return listed(base_of(wildcards.model), "models", config)


def task_settings(wildcards):
    return configuration.task_settings(wildcards.task, config)


def code_of(script, *modules):
    """The params that rerun a rule when its code has been edited, as digests by files."""
    return digests.code_of(WORKFLOW / "scripts" / f"{script}.py", modules)


def part_of(stage):
    """What one job of a stage measures: a shard of a cell's test texts, or all of them."""
    return PART if STAGES[stage].sharded else CELL


def measured(stage, table=None):
    """The path to which a job writes a stage's table: the final one, or that of a shard."""
    part = part_of(stage)
    path = f"{stage}/{part}/{table}" if table else f"{stage}/{part}"
    if part == CELL:
        return f"results/{path}.parquet"
    return temp(f"results/shards/{path}.parquet")


def files_of(read, with_words=False, all_models=False, null="", as_far_as=None):
    """The files of a stage, or of ``stage/file``, that a job for one or for all models reads.

    With a ``null``, they are those of the model's untrained twins, or with shuffled labels.
    ``as_far_as`` names a stage that may be measured for fewer seeds.
    """
    name, _, file = (read, "", "") if read in STAGES else read.partition("/")
    stage = STAGES[name]
    pattern = {inner: path for inner, _, path in stage.files()}[file]
    both = [seeds_of(each, config, null) for each in (name, as_far_as or name)]
    seeds = min(both, key=len)

    def files(wildcards):
        if stage.path == WORLDS:
            return [pattern]
        models = config["models"] if all_models else wildcards.model
        tasks = config["tasks"]
        if with_words:
            tasks = configuration.cells_with_words(config)
        if null == "untrained":
            models = configuration.twins_of(wildcards.model, config)
        elif null == "shuffled":
            tasks = configuration.cells_with_shuffled_labels(config)
        return expand(pattern, model=models, task=tasks, seed=seeds)

    return files


def listed_at(key):
    """What the configuration lists under a key such as encoder.further; True for no key."""
    section, _, key = key.partition(".")
    return config[section][key] if section else True


def samples_of(wildcards):
    """The samples of a task, which prompts with other label words share."""
    return f"results/samples/{task_of(wildcards.task)}/{wildcards.seed}.parquet"


def tokenizer_of(wildcards):
    """The tokenizer of a model, which its untrained twins share."""
    return f"results/tokenizers/{base_of(wildcards.model)}"


def memory_of(wildcards, attempt):
    """MB, more with every retry, since schedulers kill jobs that exceed their memory."""
    return attempt * model_settings(wildcards)["memory"]


def memory_without_model(wildcards, attempt):
    """MB of jobs that run no model, or a small sentence encoder."""
    return attempt * 2000


def memory_of_worlds(wildcards, attempt):
    """MB for four copies of the arrays of one random world in which all inputs are distinct.

    These are operators, a kernel of all pairs of inputs, and label probabilities by task.
    """
    spec = config["theory"]
    shown = spec["prompts"] * (max(spec["demonstrations"]) + 1)
    operators = spec["states"] ** 2 * (shown + spec["samples"])
    numbers = operators + shown**2 + shown * spec["tasks"] * spec["observations"]
    return attempt * (1000 + 32 * numbers // 10**6)  # 4 copies of 8 bytes


def runtime_of(wildcards, attempt):
    """Minutes, for schedulers with time limits; a model's memory is a proxy for its size."""
    return attempt * (30 + 5 * model_settings(wildcards)["memory"] // 1000)


# Jobs take turns on this machine's GPU, unless --resources or a profile provides more.
set_default_resource("gpu", 1)


def gpus_of(wildcards):
    """GPUs of a job: all of the machine with `spread`; otherwise one if the job uses a GPU."""
    wanted = config["compute"]["device"]
    if wanted == "spread":
        return provided("gpu")
    return int(
        wanted == "cuda"
        or (wanted == "auto" and shutil.which("nvidia-smi") is not None)
    )
