"""What the rules use of Snakemake without its documentation: each test says what would break."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from checkout import ROOT, small_configuration
from forked_snakemake import run_snakemake

UNDOCUMENTED = ROOT / "workflow" / "rules" / "undocumented.smk"
ATTRIBUTES = r"\bworkflow\.(?!rst|smk)(\w+)"

ASK = f"""
import json

include: "{UNDOCUMENTED}"

include: "inner/file.smk"

set_default_resource("gpu", 1)
answers = {{
    "names": names_a_configuration(),
    "files": [str(file) for file in configuration_files()],
    "folder": INNER,
    "cores": cores_given(),
    "gpu": provided("gpu"),
}}
with open("answers.json", "w") as file:
    json.dump(answers, file)


rule all:
"""


def test_undocumented_attributes_stand_in_one_file() -> None:
    """Another file that used some would break without anyone knowing where to look."""
    known = set(re.findall(ATTRIBUTES, UNDOCUMENTED.read_text(encoding="utf-8")))
    assert known == {
        "config_settings",
        "configfiles",
        "current_basedir",
        "global_resources",
        "local_exec",
        "resource_settings",
        "scheduler",
        "source_path",  # documented, but used by what stands in this file
    }
    rules = [ROOT / "Snakefile", ROOT / "workflow" / "Snakefile", *ROOT.glob("workflow/**/*.smk")]
    for path in rules:
        if path != UNDOCUMENTED:
            found = set(re.findall(ATTRIBUTES, path.read_text(encoding="utf-8")))
            assert not found, f"{path} uses workflow.{found}"


def answers(folder: Path, *arguments: str) -> dict[str, Any]:
    """What the functions say to a workflow that is started like this."""
    (folder / "Snakefile").write_text(ASK, encoding="utf-8")
    (folder / "inner").mkdir(exist_ok=True)
    (folder / "inner/file.smk").write_text("INNER = folder_of_rules()\n", encoding="utf-8")
    (folder / "some.yaml").write_text("some: 1\n", encoding="utf-8")
    code, printed = run_snakemake(["--dry-run", *arguments], folder, dict(os.environ))
    assert code == 0, printed
    found: dict[str, Any] = json.loads((folder / "answers.json").read_text(encoding="utf-8"))
    return found


def test_the_functions_tell_how_snakemake_was_started(tmp_path: Path) -> None:
    plain = answers(tmp_path, "--cores", "2")
    given = ("--configfile", "some.yaml", "--resources", "gpu=4")
    other = answers(tmp_path, "--cores", "5", *given)
    # `workflow.config_settings`: the default's models and tasks would be added to the user's.
    assert (plain["names"], other["names"]) == (False, True)
    # `workflow.configfiles`: the second of two equal keys would win unseen.
    assert [Path(file).name for file in other["files"]] == ["some.yaml"]
    # `workflow.current_basedir`: a module of another workflow would look in the other's folder.
    assert plain["folder"] == str(tmp_path / "inner")
    # `workflow.resource_settings`: other jobs would run alongside timings.
    assert (plain["cores"], other["cores"]) == (2, 5)
    # `workflow.global_resources`: jobs would share a GPU and run out of memory.
    assert (plain["gpu"], other["gpu"]) == (1, 4)


COUNT_THREADS = f"""
include: "{UNDOCUMENTED}"

onstart:
    LIFT


rule all:
    input:
        expand("{{job}}.txt", job=range(12)),


rule count:
    output:
        "{{job}}.txt",
    shell:
        "sleep 0.2; ls /proc/$PPID/task | wc -l > {{output}}"
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux")
def test_the_scheduler_does_not_wait_in_a_thread_per_finished_job(tmp_path: Path) -> None:
    """``workflow.scheduler``, ``local_exec``: hundreds of threads would look for jobs."""
    most = {}
    for lift in ("start_jobs_at_any_rate()", "pass"):
        text = COUNT_THREADS.replace("LIFT", lift)
        (tmp_path / "Snakefile").write_text(text, encoding="utf-8")
        arguments = ["--cores", "1", "--forceall"]
        code, printed = run_snakemake(arguments, tmp_path, dict(os.environ), ROOT / "workflow")
        assert code == 0, printed
        counted = [int(file.read_text(encoding="utf-8")) for file in tmp_path.glob("*.txt")]
        assert len(counted) == 12
        most[lift] = max(counted)
    assert most["start_jobs_at_any_rate()"] < most["pass"] - 3


SAY_LIMIT = f"""
include: "{UNDOCUMENTED}"


onstart:
    start_jobs_at_any_rate()
    limiter = workflow.scheduler.job_rate_limiter
    print("limit:", limiter and (limiter.max_jobs, limiter.timespan))


rule all:
    output:
        touch("made"),
"""


@pytest.mark.parametrize(
    ("arguments", "limit"), [((), "None"), (("--max-jobs-per-timespan", "5/2s"), "(5, 2.0)")]
)
def test_a_limit_that_the_user_sets_holds(
    tmp_path: Path, arguments: tuple[str, ...], limit: str
) -> None:
    """``workflow.scheduler``: jobs would start faster than the user allows."""
    (tmp_path / "Snakefile").write_text(SAY_LIMIT, encoding="utf-8")
    arguments = ("--cores", "1", *arguments)
    code, printed = run_snakemake(arguments, tmp_path, dict(os.environ), ROOT / "workflow")
    assert code == 0, printed
    assert re.findall(r"limit: (.*)", printed) == [limit]


LIST_PARAMS = f"""
import json

include: "{ROOT}/workflow/Snakefile"


def unlike(value):
    \"\"\"The type of a value, or of something in it, that Snakemake does not compare.\"\"\"
    if isinstance(value, dict):
        return next(filter(None, map(unlike, [*value, *value.values()])), None)
    if isinstance(value, (list, tuple)):
        return next(filter(None, map(unlike, value)), None)
    known = value is None or type(value) in (bool, int, float, str)
    return None if known else type(value).__name__


found = {{
    each.name: {{name: unlike(value) for name, value in each.params.items() if not callable(value)}}
    for each in workflow.rules
}}
with open("params.json", "w") as file:
    json.dump(found, file)


rule ask:
"""


def test_params_are_of_types_that_snakemake_compares(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    """What it does not compare would rerun nothing when it changes."""
    config = small_configuration(tiny_model_directory)
    config["tasks"]["reviews"]["label_words"] = {"symbols": [" A", " B"]}
    config["models"]["twin"] = config["models"]["tiny"]
    config["compute"] = {"examples_per_shard": 4}  # all rules there are
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (tmp_path / "Snakefile").write_text(LIST_PARAMS, encoding="utf-8")
    arguments = ["ask", "--dry-run", "--cores", "1", "--configfile", "small.yaml"]
    code, printed = run_snakemake(arguments, tmp_path, dict(os.environ))
    assert code == 0, printed
    found = json.loads((tmp_path / "params.json").read_text(encoding="utf-8"))
    assert {"measure_flow", "summarize_label_words", "plot_comparison"} <= found.keys()
    for rule, params in found.items():
        assert not [name for name, unlike in params.items() if unlike], rule
