"""What the workflow says about each of its jobs, to tell from a dry run what would be run.

Messages of jobs for one task or cell are read from the rules, so that an added stage is among them.
"""

import re

import yaml

from anchorflow.config.analysis import CELL
from anchorflow.config.stages import MEASURED, PRESENTED, Stage
from checkout import ROOT


def _rule_texts() -> dict[str, str]:
    """The text of every rule that prepares, measures, or makes pages, by its name."""
    files = sorted(ROOT.glob("workflow/rules/*.smk"))
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    parts = re.split(r"^(?=(?:use )?rule )", text, flags=re.MULTILINE)[1:]
    return {re.findall(r"rule (?:\w+ as )?(\w+)", part)[0]: part for part in parts}


RULES = _rule_texts()

SCHEMA = yaml.safe_load((ROOT / "workflow/schemas/config.schema.yaml").read_text(encoding="utf-8"))


def by_default(asked_for: str) -> bool:
    """Whether runs whose configuration leaves out what an analysis is asked for by have it."""
    if not asked_for:
        return True
    section, _, key = asked_for.partition(".")
    return bool(SCHEMA["properties"][section]["properties"][key]["default"])


# What only runs have whose configuration asks for it, or in which a task has other label words.
OPTIONAL = {
    name
    for name, analysis in PRESENTED.items()
    if not by_default(analysis.asked_for) or (analysis.summary and analysis.summary.with_words)
}


def message_of(rule: str) -> str:
    """What a rule says of the model ``tiny``, with places for task and seed."""
    (said,) = re.findall(r'^    message:\n +"(.*)"$', RULES[rule], re.MULTILINE)
    return said.replace("{wildcards.model}", "tiny").replace("{wildcards.", "{")


def measures(stage: Stage) -> bool:
    """Whether a rule measures this stage for a model, task, and seed of any run."""
    return by_default(stage.asked_for) and stage.path == CELL


def runs_model(stage: Stage) -> bool:
    """Whether the stage's jobs take a GPU where there is one."""
    return measures(stage) and RULES[f"measure_{stage.name}"].startswith("use rule measure ")


def _messages(*stages: Stage) -> list[str]:
    return [message_of(f"measure_{stage.name}") for stage in stages]


# What is said of measuring each analysis, by its name.
MEASURE = {s.name: message_of(f"measure_{s.name}") for s in MEASURED}
PERTURB = message_of("prepare_perturbations")
REPLACE = message_of("prepare_rare_words")
PAGE = message_of("plot_flow_page")
PROMPT = message_of("prepare_prompts")
EMBED = message_of("prepare_embeddings")
EMBED_FURTHER = message_of("prepare_further_embeddings")
SAMPLE = message_of("prepare_samples")
INDEX = {message_of("plot_flow_page_index")}

UNTRAINED = message_of("prepare_untrained")

# The only untrained twin of the small run, and what is prepared and measured of it.
TWIN = "tiny+shuffled-0"
OF_TWIN = {PROMPT, MEASURE["flow"], MEASURE["compression"]}

# What is measured for every cell, and that of it which runs the model; for the first seed only.
EVERY_CELL = _messages(*(s for s in MEASURED if measures(s) and not s.first_seed))
MODEL = _messages(*(s for s in MEASURED if runs_model(s) and not s.first_seed))
FIRST_SEED = _messages(*(s for s in MEASURED if measures(s) and s.first_seed))

# What is summarized of a model, plotted, and tabulated over all models.
SUBJECTS = {name: analysis.subject for name, analysis in PRESENTED.items()}
NOT_SUMMARIZED = {name for name, analysis in PRESENTED.items() if not analysis.summary}
NOT_PLOTTED = {name for name, analysis in PRESENTED.items() if not analysis.figure}
NOT_TABULATED = {name for name, analysis in PRESENTED.items() if not analysis.table}


def cells(
    templates: list[str], tasks: list[str], seeds: list[int], untrained: bool = True
) -> set[str]:
    """The messages of one job per template (or analysis, measured), task, and seed.

    With those of the untrained twin, which passes through some stages, but not with other label
    words.
    """
    templates = [MEASURE.get(template, template) for template in templates]
    own = {t.format(task=task, seed=seed) for t in templates for task in tasks for seed in seeds}
    of_twin = [template.replace("tiny", TWIN) for template in templates if template in OF_TWIN]
    plain = [task for task in tasks if "+" not in task]
    return own | cells(of_twin, plain, seeds, untrained=False) if untrained else own


def pages(tasks: list[str]) -> set[str]:
    """The messages of the jobs that make the pages of some tasks, of the first seed."""
    return cells([MEASURE["flow_page"], PAGE], tasks, [0]) | INDEX


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
