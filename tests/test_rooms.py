"""The rooms of the package: what may import what, and where a rule's code stands."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from anchorflow.config.code import counts
from anchorflow.config.registry import entries, load
from anchorflow.config.stages import MEASURED, PRESENTED, Presented

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "workflow" / "anchorflow"

# What each room may import, itself aside; leaves are single modules that every room may import.
LEAVES = {"random_draws", "arrays", "depth"}
MAY_IMPORT = {
    "config": set(),
    "schemas": {"config"},
    "store": {"config", "schemas"},
    "model": {"config", "schemas", "store"},
    "prepare": {"config", "schemas", "store", "model"},
    "measure": {"config", "schemas", "store", "model", "prepare"},
    "summarize": {"config", "schemas", "store"},
    "plot": {"config", "schemas", "store", "summarize"},
    "tabulate": {"config", "schemas", "store", "summarize"},
    "document": {"config", "schemas", "store", "tabulate"},
}
# What planning a run needs beside the standard library.
PLANNING = {"yaml", "jsonschema"}


def modules(room: str) -> Iterator[Path]:
    yield from sorted((PACKAGE / room).rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Absolute names of all modules that a file imports, names taken from them included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def rooms_imported(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imports(path) if name.startswith("anchorflow.")}


def test_every_folder_is_a_room() -> None:
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders == set(MAY_IMPORT)


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_imports_go_one_way(room: str) -> None:
    for path in modules(room):
        beyond = rooms_imported(path) - MAY_IMPORT[room] - LEAVES - {room}
        assert not beyond, f"{path.relative_to(PACKAGE)} imports {beyond}"


def test_the_package_itself_holds_no_code() -> None:
    """It does not count as code that makes numbers."""
    body = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")).body
    assert [type(statement) for statement in body] == [ast.Expr, ast.Assign]
    assert ast.unparse(body[1]).startswith("__version__ = ")


def test_leaves_import_no_room() -> None:
    for leaf in LEAVES:
        assert not rooms_imported(PACKAGE / f"{leaf}.py")


def test_planning_a_run_needs_no_further_library() -> None:
    for path in modules("config"):
        libraries = {name.split(".")[0] for name in imports(path)} - {"anchorflow"}
        if path.stem == "shards":  # for a type checker alone
            libraries -= {"polars"}
        assert libraries <= PLANNING | set(sys.stdlib_module_names), path


def rules() -> dict[str, str]:
    """The script of every rule that is written out."""
    texts = [path.read_text(encoding="utf-8") for path in ROOT.glob("workflow/rules/**/*.smk")]
    pattern = r'^rule (\w+):.*?script:\s*"(?:\.\./)+scripts/(\w+)\.py"'
    return dict(pair for text in texts for pair in re.findall(pattern, text, re.M | re.S))


def test_a_rule_s_verb_is_its_room_and_its_word_the_file() -> None:
    found = rules()
    assert len(found) > 15
    for rule, script in found.items():
        assert script == rule
        verb, _, word = rule.partition("_")
        if rule != "write_manifest":
            assert (PACKAGE / verb / f"{word}.py").is_file(), rule


def test_a_stage_is_declared_as_sharded_exactly_if_its_rule_writes_shards() -> None:
    """Otherwise its shards would never be gathered."""
    texts = [path.read_text(encoding="utf-8") for path in ROOT.glob("workflow/rules/stages/*.smk")]
    written = {stage for text in texts for stage in re.findall(r'measured\(\s*"(\w+)"', text)}
    assert written == {stage.name for stage in MEASURED if stage.sharded}


@pytest.mark.parametrize("shown", PRESENTED, ids=lambda shown: shown.name)
def test_what_is_presented_has_its_modules(shown: Presented) -> None:
    for verb, wanted in (("summarize", shown.summary), ("plot", shown.figure)):
        room = PACKAGE / verb
        places = [room / f"{shown.name}.py", room / shown.name / "__init__.py"]
        assert not wanted or any(place.is_file() for place in places), f"{verb}/{shown.name}"
    assert (ROOT / "workflow" / "report" / f"{shown.name}.rst").is_file()


# Tests that are named after no single module, and why.
OTHER_TESTS = {
    "measure/test_out_of_memory.py": "all stages that run the model",
    "measure/test_shards.py": "all stages that are measured in shards",
    "prepare/test_chat_prompts.py": "prepare/prompts.py with what prepare/chat.py writes around",
    "prepare/test_data.py": "the built-in corpora, which prepare/texts.py reads",
    "schemas/test_all_tables.py": "the tables of all files of the room",
}


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_test_stands_in_the_room_of_what_it_tests(room: str) -> None:
    tests = sorted((ROOT / "tests" / room).glob("**/test_*.py"))
    assert tests
    for path in tests:
        word = path.stem.removeprefix("test_")
        package = (PACKAGE / room / word / "__init__.py").is_file()
        found = package or any((PACKAGE / room).rglob(f"{word}.py"))  # an entry's too
        name = path.relative_to(ROOT / "tests").as_posix()
        assert found != (name in OTHER_TESTS), name


@pytest.mark.parametrize(
    "folder", ["measure/compression_methods", "measure/baselines", "summarize/claims"]
)
def test_every_entry_is_named_in_a_test_of_its_room(folder: str) -> None:
    room = folder.partition("/")[0]
    tests = sorted((ROOT / "tests" / room).rglob("test_*.py"))
    text = "\n".join(f"{path.stem}\n{path.read_text(encoding='utf-8')}" for path in tests)
    assert entries(folder)
    for entry in entries(folder):
        claims = getattr(load(folder, entry), "CLAIMS", ())
        for name in [claim.name for claim in claims] or [entry]:
            assert re.search(rf'"{name}"|\b{name}\(|test_\w*{name}', text), name


# What code that counts may take from modules that do not, and why it can't change a number.
UNCOUNTED = {
    "errors and their sentences": {
        "config.errors.InputError",
        "config.errors.MORE_MEMORY",
        "config.errors.disk_is_full",
        "config.errors.is_out_of_memory",
        "config.configuration.check_wording",
        "config.configuration.placeholders",
    },
    "which files there are; the rule lists those that are loaded": {
        "config.registry",
        "config.registry.declared",
        "config.registry.entries",
        "config.registry.load",
    },
    "where inputs are, which the rule's inputs follow too; params are compared": {
        "config.stages.presented",
        "store.job.configuration_of",
        "store.job.read_inputs",
        "store.job.slices_of",
    },
    "where models lie, whose checksums are in the settings of what they compute": {
        "config.named_files.encoder_folder",
        "config.named_files.local_model",
        "config.named_files.packaged",
    },
    "log, and refusal of results": {
        "store.job.job",
    },
    "the process in which a script runs": {
        "store.fork_server.continue_in_fork",
    },
    "tables as they were written, whose schemas count": {
        "store.gather.gather",
        "store.parquet.read_settings",
        "store.parquet.read_table",
        "store.parquet.read_tables",
        "store.parquet.write_frame",
    },
    "the schemas by name, which every rule that presents lists": {
        "store.all_tables.TABLES",
    },
    "bytes and their checksums": {
        "store.checksums.changed_file",
        "store.checksums.fingerprints",
        "store.checksums.read_json",
        "store.checksums.write_json",
        "store.replacing.replacing",
        "store.shared_tokenizer.read_tokenizer",
    },
    "the manifest is no measurement": {
        "store.manifest.main",
        "store.manifest.write_manifest",
    },
    "where, whether it fits and how long it takes, which numbers do not depend on": {
        "model.devices.choose_device",
        "model.memory.check_conversion",
        "model.memory.check_job",
        "model.memory.weight_bytes",
        "model.cost.log_job",
        "model.cost.log_run",
        "model.size.Cost",
        "model.size.CostOf",
        "model.size.Prompts",
        "model.size.Size",
        "model.size.once",
    },
}


def module_of(name: str) -> Path | None:
    """The file of the package behind an imported name, which may be a module itself."""
    parts = name.split(".")[1:]
    for taken in (parts, parts[:-1]):
        place = PACKAGE.joinpath(*taken)
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if taken and file.is_file():
                return file
    return None


def test_what_counts_takes_from_what_does_not_only_what_is_known_to_make_no_number() -> None:
    """A new import of such a name would be code whose edits rerun nothing: add it with a reason."""
    known, found = set().union(*UNCOUNTED.values()), set()
    for path in [*PACKAGE.rglob("*.py"), *ROOT.glob("workflow/scripts/*.py")]:
        for name in imports(path):
            module = module_of(name) if name.startswith("anchorflow.") else None
            if module is not None and not counts(module):
                short = name.removeprefix("anchorflow.")
                found.add(short)
                counted = not path.is_relative_to(PACKAGE) or counts(path)
                assert short in known or not counted, f"{path.name} imports {short}"
    assert known <= found  # nothing is listed that is no longer there
