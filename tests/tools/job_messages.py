"""What the workflow says about each of its jobs, to tell from a dry run what would be run.

Messages of jobs for one task or cell are read from the rules, so that an added stage is among them.
"""

import re

from anchorflow.config.stages import CELL, MEASURED, PRESENTED, Stage
from checkout import ROOT


def _rule_texts() -> dict[str, str]:
    """The text of every rule that prepares, measures, or makes pages, by its name."""
    files = sorted(ROOT.glob("workflow/rules/stages/*.smk"))
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    parts = re.split(r"^(?=(?:use )?rule )", text, flags=re.MULTILINE)[1:]
    return {re.findall(r"rule (?:\w+ as )?(\w+)", part)[0]: part for part in parts}


RULES = _rule_texts()


# What only runs have whose configuration asks for it.
OPTIONAL = {shown.name for shown in PRESENTED if not shown.by_default}
FURTHER = {name for shown in PRESENTED for name in shown.further}


def message_of(rule: str) -> str:
    """What a rule says of the model ``tiny``, with places for task and seed."""
    (said,) = re.findall(r'^    message:\n +"(.*)"$', RULES[rule], re.MULTILINE)
    return said.replace("{wildcards.model}", "tiny").replace("{wildcards.", "{")


def measures(stage: Stage) -> bool:
    """Whether a rule measures this stage for a model, task, and seed of any run."""
    by_default = stage.shown_by not in OPTIONAL
    return by_default and stage.path == CELL and f"measure_{stage.name}" in RULES


def runs_model(stage: Stage) -> bool:
    """Whether the stage's jobs take a GPU where there is one."""
    return measures(stage) and RULES[f"measure_{stage.name}"].startswith("use rule measure ")


def _messages(*stages: Stage) -> list[str]:
    return [message_of(f"measure_{stage.name}") for stage in stages]


MEASURE = message_of("measure_saliency")
ATTEND = message_of("measure_attention")
ISOLATE = message_of("measure_isolation")
REWEIGHT = message_of("measure_reweighting")
COMPRESS = message_of("measure_compression")
DIAGNOSE = message_of("measure_diagnosis")
RETRIEVE = message_of("measure_retrieval")
ARRANGE = message_of("measure_orders")
CUT = message_of("measure_knockout")
FORETELL = message_of("measure_faithfulness")
LEAVE_OUT = message_of("measure_cutoff")
TRANSPLANT = message_of("measure_transplant")
PERTURB = message_of("prepare_perturbations")
REPLACE = message_of("prepare_rare_words")
PREDICT_PERTURBED = message_of("measure_perturbations")
KERNEL = message_of("measure_kernel")
PROBE = message_of("measure_probes")
TIME = message_of("measure_timing")
SHOW = message_of("measure_token_saliency")
PAGE = message_of("plot_flow_page")
PROMPT = message_of("prepare_prompts")
EMBED = message_of("prepare_embeddings")
EMBED_FURTHER = message_of("prepare_further_embeddings")
SAMPLE = message_of("prepare_samples")
WORLDS = message_of("measure_theory")
INDEX = {message_of("plot_flow_page_index")}

# The only untrained twin of the small run, and what is prepared and measured of it.
TWIN = "tiny+shuffled-0"
OF_TWIN = {PROMPT, MEASURE, COMPRESS}

# What is measured for every cell, and that of it which runs the model; for the first seed only.
EVERY_CELL = _messages(*(s for s in MEASURED if measures(s) and not s.first_seed))
MODEL = _messages(*(s for s in MEASURED if runs_model(s) and not s.first_seed))
FIRST_SEED = _messages(*(s for s in MEASURED if measures(s) and s.first_seed))

# What is summarized of a model, plotted, and tabulated over all models.
SUBJECTS = {shown.name: shown.subject for shown in PRESENTED}
NOT_SUMMARIZED = {shown.name for shown in PRESENTED if not shown.summary}
NOT_PLOTTED = {shown.name for shown in PRESENTED if not shown.figure}
NOT_TABULATED = {shown.name for shown in PRESENTED if not shown.table}


def cells(
    templates: list[str], tasks: list[str], seeds: list[int], untrained: bool = True
) -> set[str]:
    """The messages of one job per template, task and seed.

    With those of the untrained twin, which passes through some stages, but not with other label
    words.
    """
    own = {t.format(task=task, seed=seed) for t in templates for task in tasks for seed in seeds}
    of_twin = [template.replace("tiny", TWIN) for template in templates if template in OF_TWIN]
    plain = [task for task in tasks if "+" not in task]
    return own | cells(of_twin, plain, seeds, untrained=False) if untrained else own


def pages(tasks: list[str]) -> set[str]:
    """The messages of the jobs that make the pages of some tasks, of the first seed."""
    return cells([SHOW, PAGE], tasks, [0]) | INDEX


def summarized(name: str) -> str:
    """The message of the job that summarizes one subject for the model."""
    return f"Summarizing {SUBJECTS[name].format('tiny')}"


def plotted(name: str) -> str:
    """The message of the job that plots one subject for the model."""
    return f"Plotting {SUBJECTS[name].format('tiny')}"


def tabulated(name: str) -> str:
    """The message of the job that tabulates one subject for all models."""
    return f"Tabulating {SUBJECTS[name].format('all models')}"


def presented(*names: str) -> set[str]:
    """The messages of all jobs that summarize, plot and tabulate these subjects."""
    return {
        message(name)
        for message, lacking in (
            (summarized, NOT_SUMMARIZED),
            (plotted, NOT_PLOTTED),
            (tabulated, NOT_TABULATED),
        )
        for name in names
        if name not in lacking
    }
