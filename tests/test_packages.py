"""An analysis is a folder of its name. Which package may import which, pyproject.toml says."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import anchorflow
from anchorflow.config.analysis import Analysis
from anchorflow.config.digests import DECLARATION, code_of, counts
from anchorflow.config.registry import file_of, is_schema
from anchorflow.config.stages import ANALYSES, MEASURED, PRESENTED, folder_of

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "workflow" / "anchorflow"
# The names of modules that the scripts load. Others contain what these take of them.
VERBS = ("measure", "summarize", "plot", "tabulate")
PAGE_PARTS = {".html", ".css", ".js"}
REGISTRIES = {"analyses/compression/methods", "analyses/reweighting/baselines"}

# Rule files that are not about one analysis.
SHARED = {"common", "inherited", "inputs", "priorities", "settings", "undocumented", "workflow"}
OF_ALL = {"comparison", "gather", "manifest", "measuring", "presenting", "summary", "training"}
# Rule files of analyses that measuring.smk measures: rules of what comes before or after.
FURTHER = {"flow_page", "heads", "perturbations"}


def rule_files() -> dict[str, str]:
    paths = ROOT.glob("workflow/rules/*.smk")
    return {path.stem: path.read_text(encoding="utf-8") for path in paths}


def has_rule_file(name: str) -> bool:
    """Whether an analysis that is measured is not like the others in measuring.smk."""
    measured = ANALYSES[name].measured
    return measured is not None and not measured.message


def body_of(file: Path) -> list[ast.stmt]:
    return ast.parse(file.read_text(encoding="utf-8")).body


def functions(file: Path) -> set[str]:
    return {node.name for node in body_of(file) if isinstance(node, ast.FunctionDef)}


def source_folders(folder: Path) -> Iterator[Path]:
    yield folder
    for inner in folder.iterdir():
        if inner.is_dir() and inner.name != "__pycache__":
            yield from source_folders(inner)


def needed(name: str, analysis: Analysis) -> dict[str, set[str]]:
    """The functions that the scripts call, by the verb that is the module's name."""
    needs = {
        "measure": {"measure", f"measure_{name}"} if analysis.measured else set(),
        "summarize": {f"summarize_{name}"} if analysis.summary else set(),
        "plot": {f"plot_{name}"} if analysis.figure else set(),
    }
    return {verb: functions for verb, functions in needs.items() if functions}


def test_the_package_itself_only_says_where_its_public_names_are() -> None:
    """It does not count as code that makes numbers."""
    assert functions(PACKAGE / "__init__.py") == {"__getattr__"}
    public = {getattr(anchorflow, name).__name__ for name in anchorflow.__all__}
    assert public == {"InContextClassifier", "Prompt", "Run", "ask"}
    with pytest.raises(AttributeError, match="no attribute Classifier"):
        anchorflow.Classifier  # noqa: B018


@pytest.mark.parametrize("name", PRESENTED)
def test_an_analysis_s_own_file_declares_it_and_holds_no_code(name: str) -> None:
    """Of it, tables count by their names; that of the claims does not count at all."""
    file = PACKAGE / folder_of(name) / "__init__.py"
    assert is_schema(file) or DECLARATION.fullmatch(file.relative_to(PACKAGE).as_posix())
    docstring, *rest = body_of(file)
    assert isinstance(docstring, ast.Expr)
    imported = {str(part.module) for part in rest if isinstance(part, ast.ImportFrom)}
    plain = {"collections.abc", "typing", "dataclasses"}
    declared = {f"anchorflow.config.{name}" for name in ("analysis", "errors", "table")}
    others = {module for module in imported - plain - declared if "schemas" not in module}
    assert others <= {f"anchorflow.analyses.{name}" for name in ANALYSES}
    # What refuses a configuration is the only function: it makes no number.
    assert {part.name for part in rest if isinstance(part, ast.FunctionDef)} <= {"check"}
    kinds = ast.ImportFrom | ast.FunctionDef | ast.Assign | ast.AnnAssign
    assert all(isinstance(part, kinds) for part in rest)
    assert ast.unparse(rest[-1]).startswith("ANALYSIS = Analysis(")


def test_other_packages_that_count_hold_a_docstring_or_what_their_entries_share() -> None:
    for folder in source_folders(PACKAGE):
        file = folder / "__init__.py"
        if (
            counts(file)
            and not is_schema(file)
            and folder.relative_to(PACKAGE).as_posix() not in REGISTRIES
        ):
            (docstring,) = body_of(file)
            assert isinstance(docstring, ast.Expr), folder


@pytest.mark.parametrize("name", ANALYSES)
def test_a_folder_has_the_modules_that_its_declaration_needs(name: str) -> None:
    analysis, folder = ANALYSES[name], PACKAGE / folder_of(name)
    needs = needed(name, analysis)
    for verb, wanted in needs.items():
        assert wanted <= functions(folder / f"{verb}.py"), verb
    tabulates = (folder / "tabulate.py").is_file()  # else the table is one of the summary's keys
    assert analysis.table or not tabulates
    if tabulates:
        assert f"tabulate_{name}" in functions(folder / "tabulate.py")
    pages = {file.stem for file in folder.iterdir() if file.suffix in PAGE_PARTS}
    found = {verb for verb in VERBS if (folder / f"{verb}.py").is_file()} - {"tabulate"}
    assert found == {*needs, *(pages & {"plot"})}  # a page has a rule of its own


@pytest.mark.parametrize("name", ANALYSES)
def test_a_folder_has_modules_with_their_pages_and_packages_alone(name: str) -> None:
    for folder in source_folders(PACKAGE / folder_of(name)):
        assert (folder / "__init__.py").is_file(), folder
        for file in folder.iterdir():
            if file.suffix in PAGE_PARTS:
                assert file.with_suffix(".py").is_file(), file
            else:
                known = file.suffix == ".py" or file.name in ("keys.yaml", "caption.rst")
                assert file.is_dir() or known, file


def test_exactly_what_measures_without_a_message_has_a_rule_file() -> None:
    special = {stage.name for stage in MEASURED if has_rule_file(stage.name)}
    assert set(rule_files()) == special | FURTHER | SHARED | OF_ALL
    assert special.isdisjoint(FURTHER)
    for name in special:
        text = rule_files()[name]
        assert re.findall(r"^use rule \w+ as (measure_\w+) with:", text, re.M) == [
            f"measure_{name}"
        ]
        assert re.search(rf'\*\*analysis\(\s*"{name}"', text)


def test_exactly_what_is_presented_has_a_caption() -> None:
    shown = {name for name, each in PRESENTED.items() if each.figure or each.table}
    assert "claims" in shown
    folders = {name: file_of(folder_of(name)) for name in PRESENTED}
    assert {n for n, folder in folders.items() if (folder / "caption.rst").is_file()} == shown
    others = {path.stem for path in ROOT.glob("workflow/report/*.rst")}
    assert others == {"comparison", "summary", "training", "workflow"}


def test_a_stage_is_declared_as_sharded_exactly_if_its_rule_writes_all_tables_to_shards() -> None:
    """Otherwise its shards would never be gathered."""
    written: dict[str, dict[str, list[str]]] = {}
    for name, text in rule_files().items():
        for stage, table in re.findall(r'\bmeasured\(\s*"(\w+)"(?:, "(\w+)")?\s*\)', text):
            if name not in SHARED | OF_ALL:
                written.setdefault(name, {}).setdefault(stage, []).append(table)
    sharded = [stage for stage in MEASURED if stage.sharded and has_rule_file(stage.name)]
    wanted = {stage.name: {stage.name: sorted(stage.tables)} for stage in sharded}
    assert {n: {s: sorted(t) for s, t in of.items()} for n, of in written.items()} == wanted


@pytest.mark.parametrize("name", ANALYSES)
def test_what_is_declared_to_be_read_are_parameters_of_the_function_that_reads_it(
    name: str,
) -> None:
    """Snakemake would tell it in a job."""
    analysis, folder = ANALYSES[name], PACKAGE / folder_of(name)
    shown = {"summary": f"summaries/{name}"}
    for verb, part in (
        ("summarize", analysis.summary),
        ("plot", analysis.figure),
        ("tabulate", analysis.table),
    ):
        if part and (folder / f"{verb}.py").is_file():
            (function,) = (
                node
                for node in body_of(folder / f"{verb}.py")
                if isinstance(node, ast.FunctionDef) and node.name == f"{verb}_{name}"
            )
            given = function.args
            assert not given.posonlyargs and not given.kwarg
            parameters = {each.arg for each in (*given.args, *given.kwonlyargs)}
            assert set(part.reads or shown) <= parameters, verb


@pytest.mark.parametrize("name", ["theory", "probes"])
def test_what_runs_no_model_is_not_rerun_by_how_models_are_run(name: str) -> None:
    script = PACKAGE.parent / "scripts" / "measure.py"
    digests = code_of(script, [f"analyses/{name}/measure.py"])
    assert "code_model" not in digests
    of_model = code_of(script, ["analyses/isolation/measure.py"])
    assert any(file.startswith("model/opening.py ") for file in of_model["code_model"])
