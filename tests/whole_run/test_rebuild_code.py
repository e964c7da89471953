"""What an edit of the code runs again, over every module of the package, shown by dry runs."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from anchorflow.config.digests import COUNTING, DECLARATION, NOT_COUNTING
from anchorflow.config.registry import entries
from checkout import Checkout
from job_messages import MEASURE, OPTIONAL, plotted, summarized

WHOLE_DEMONSTRATIONS = "_whole_demonstrations"  # what such methods share; this run has none of them

# Imported by users alone: no rule runs them.
PUBLIC = {
    "command/citations.py",
    *("classifier.py", "fitted_weights.py", "kept_positions.py", "manifest.py"),
    "summary/__main__.py",
    *("measurement.py", "finished_run.py", "schemas/costs.py"),
    *(f"command/{name}.py" for name in ("app", "configure", "entry", "estimate")),
    *("__main__.py", "explore/server.py", "explore/task.py"),
    *(f"one_prompt/{name}.py" for name in ("asked", "edit", "prompt")),
}
# Of several models, of shards, of what no analysis of the run reads; besides, the run has none of
# the analyses that are optional.
NOT_IN_A_SMALL_RUN = {
    "claims/plot_comparison.py",
    "scripts/plot_comparison.py",
    "claims/plot_training.py",
    "scripts/plot_training.py",
    "scripts/write_atlas.py",
    "scripts/gather.py",
}
# Whose columns and measures count with the tables that have them.
SHARED = ("schemas/fields.py", "schemas/measures.py", "schemas/summaries.py")
DESCRIBED = {
    "Column": 2,
    "table": 1,
    "Measure": 1,
}  # which argument of a schema's call is a description


class Rewording(ast.NodeTransformer):
    """Other words in docstrings, and in columns' descriptions."""

    def __init__(self, is_schema: bool) -> None:
        self._is_schema = is_schema

    def _body(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        first = node.body[0] if node.body else None  # type: ignore[attr-defined]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            first.value = ast.Constant(f"Otherwise. {first.value.value}")
        return node

    visit_Module = visit_ClassDef = visit_FunctionDef = _body  # noqa: N815

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if ast.unparse(node.func) == "Analysis":  # whose strings are names
            return node
        self.generic_visit(node)
        name = ast.unparse(node.func).removeprefix("f.")
        place = DESCRIBED.get(name) if self._is_schema else None
        if place is not None and len(node.args) > place:
            node.args[place] = _reworded(node.args[place])
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        if self._is_schema:  # words have blanks, and names have none
            node.values = [_reworded(v) if " " in ast.unparse(v) else v for v in node.values]
        return node


def _reworded(value: ast.expr) -> ast.expr:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return ast.Constant(f"otherwise {value.value}")
    if isinstance(value, ast.JoinedStr):
        return ast.JoinedStr([ast.Constant("otherwise "), *value.values])
    return value


def code_files(run: Checkout) -> Iterator[Path]:
    for folder in ("anchorflow", "scripts"):
        yield from sorted((run.folder / "workflow" / folder).rglob("*.py"))


def label(run: Checkout, path: Path) -> str:
    """A file as the rules name it: below the package, or below the workflow."""
    workflow = run.folder / "workflow"
    package = workflow / "anchorflow"
    return path.relative_to(package if path.is_relative_to(package) else workflow).as_posix()


def is_schema(name: str) -> bool:
    return bool(re.fullmatch(r"claims/schema.py|analyses/\w+/__init__.py", name)) or (
        name.startswith("schemas/") and name != "schemas/frames.py"
    )


def does_not_count(name: str) -> bool:
    folders = tuple(f"{place}/" for place in NOT_COUNTING)
    if DECLARATION.fullmatch(name):
        return True
    return name not in COUNTING and (name.startswith(folders) or name in NOT_COUNTING)


def named(run: Checkout) -> dict[str, set[str]]:
    """By file, the messages of the jobs for which a dry run names it as changed."""
    jobs: dict[str, set[str]] = {}
    message = ""
    for line in run.snakemake("--dry-run", "--cores", "2").splitlines():
        if found := re.match(r" *Job \d+: (.*)", line):
            message = found[1]
        elif "Params have changed" in line:
            before, now = (
                set(re.findall(r"'(\S+ [0-9a-f]{12})'", part)) for part in line.split(" now: ")
            )
            for file in now - before:
                jobs.setdefault(file.split()[0], set()).add(message)
    return jobs


def test_what_makes_no_number_reruns_nothing(finished_run: Checkout) -> None:
    """Every file is formatted anew, without comments and with other words; or edited at will."""
    for path in code_files(finished_run):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        text = ast.unparse(
            ast.fix_missing_locations(Rewording(is_schema(label(finished_run, path))).visit(tree))
        )
        if does_not_count(label(finished_run, path)):
            text += "\nEDITED = 1"
        path.write_text(f"# Another comment.\n{text}\n", encoding="utf-8")
    for caption in (finished_run.folder / "workflow").rglob("*.rst"):
        caption.write_text("Another caption.\n", encoding="utf-8")
    for keys in (finished_run.folder / "workflow" / "anchorflow").rglob("keys.yaml"):
        keys.write_text(f"# Another comment.\n{keys.read_text(encoding='utf-8')}", encoding="utf-8")
    assert finished_run.planned() == set()


def edited(name: str, text: str) -> str:
    """A file with something else in it that may make another number."""
    if is_schema(name):  # of which only the tables that are used count
        text = text.replace('keys="', 'keys="edited ').replace('"int32"', '"int64"')
        text = text.replace(" SHARE)", " (0.0, 2.0))")
    return f"{text}\nEDITED = 1\n"


@pytest.mark.long
def test_an_edit_of_any_module_is_seen_and_named(finished_run: Checkout) -> None:
    """All are edited, then those that were not named, and so on.

    Snakemake names what changed about a job's code unless the job runs for its inputs anyway.
    """
    originals = {path: path.read_text(encoding="utf-8") for path in code_files(finished_run)}
    waiting = {label(finished_run, path): path for path in originals}
    for name in SHARED:
        del waiting[name]
    found: dict[str, set[str]] = {}
    while True:
        for path, text in originals.items():
            path.write_text(text, encoding="utf-8")
        for name, path in waiting.items():
            path.write_text(edited(name, originals[path]), encoding="utf-8")
        jobs = named(finished_run)
        found.update({name: jobs[name] for name in jobs.keys() - found.keys()})
        if jobs.keys().isdisjoint(waiting):
            break
        waiting = {name: path for name, path in waiting.items() if name not in jobs}
    chosen = set(finished_run.config["compression"]["methods"])
    unchosen = {
        f"analyses/compression/methods/{name}.py"
        for name in {*entries("analyses/compression/methods"), WHOLE_DEMONSTRATIONS} - chosen
    }
    expected = {name for name in waiting if not does_not_count(name)}
    optional = {
        name for name in expected if name.startswith(tuple(f"analyses/{a}/" for a in OPTIONAL))
    }
    packages = {name for name in expected if name.endswith("__init__.py") and name.count("/") == 1}
    assert expected - packages - optional == PUBLIC | NOT_IN_A_SMALL_RUN | unchosen
    unread = {f"{name}/__init__.py" for name in ("command", "prepare", "explore", "one_prompt")}
    assert packages <= unread, "whose modules others load"
    # Read by the pages of the information flow, and by claims.
    assert {"analyses/knockout/measure.py", "analyses/cutoff/summarize.py"} <= found.keys()
    assert not {name for name in found if does_not_count(name)}
    of_seed = {"task": "news", "seed": 0}
    assert MEASURE["flow"].format(**of_seed) in found["analyses/flow/measure.py"]
    assert MEASURE["isolation"].format(**of_seed) not in found["analyses/flow/measure.py"]


def test_bounds_of_a_measure_that_summaries_share_rebuild_all_that_have_it(
    finished_run: Checkout,
) -> None:
    old = (
        '"label_loyalty", "share of predictions that are the same as in the unmodified run", SHARE'
    )
    new = old.replace("SHARE", "(0.0, 2.0)")
    finished_run.edit(f"workflow/anchorflow/{SHARED[1]}", old, new)
    changed = named(finished_run)
    assert {"analyses/isolation/__init__.py", "analyses/compression/__init__.py"} <= changed.keys()
    assert {"analyses/retrieval/__init__.py", "analyses/flow/__init__.py"}.isdisjoint(changed)


def test_a_column_that_tables_share_rebuilds_all_that_have_it(finished_run: Checkout) -> None:
    finished_run.edit(f"workflow/anchorflow/{SHARED[0]}", '"layer", "int32"', '"layer", "int64"')
    changed = named(finished_run)
    assert {"analyses/flow/__init__.py", "analyses/confusion/__init__.py"} <= changed.keys()
    assert {"analyses/isolation/__init__.py", "schemas/prompts.py"}.isdisjoint(changed)


def test_a_new_version_of_everything_is_a_number_to_raise(finished_run: Checkout) -> None:
    finished_run.edit("workflow/anchorflow/config/digests.py", "NUMBERS = 1", "NUMBERS = 2")
    planned = finished_run.planned()
    assert {summarized("flow"), plotted("flow")} < planned
    printed = finished_run.snakemake("--dry-run", "--cores", "2")
    assert "before: 'numbers 1' now: 'numbers 2'" in printed
