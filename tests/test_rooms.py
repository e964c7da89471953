"""Where a rule's code stands. Which room may import which, pyproject.toml says."""

import ast
import re
from pathlib import Path

from anchorflow.config.stages import MEASURED, PRESENTED, SHARDED

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "workflow" / "anchorflow"


def rule_texts(pattern: str) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in ROOT.glob(f"workflow/rules/{pattern}.smk")]


def test_the_package_itself_holds_no_code() -> None:
    """It does not count as code that makes numbers."""
    body = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")).body
    assert [type(statement) for statement in body] == [ast.Expr, ast.Assign]
    assert ast.unparse(body[1]).startswith("__version__ = ")


def test_a_rule_s_verb_is_its_room_and_its_word_the_file() -> None:
    pattern = r"^use rule \w+ as (\w+) with:.*?script_of\(\s*\"(\w+)\""
    found = [
        pair for text in rule_texts("stages/*") for pair in re.findall(pattern, text, re.M | re.S)
    ]
    assert len(found) > 25
    for rule, script in found:
        assert script == rule
        verb, _, word = rule.partition("_")
        assert (PACKAGE / verb / f"{word}.py").is_file(), rule


def test_rules_made_in_a_loop_are_named_where_they_are_made() -> None:
    """So that a search for one finds it."""
    named = {
        name for text in rule_texts("*") for name in re.findall(r"\brule (\w+_\w+)(?=,|\n)", text)
    }
    kinds = {"summarize": "summary", "plot": "figure", "tabulate": "table"}
    shown = {
        f"{verb}_{each.name}"
        for each in PRESENTED
        for verb, kind in kinds.items()
        if getattr(each, kind)
    }
    assert named == shown | {f"gather_{stage}" for stage in SHARDED}


def test_a_stage_is_declared_as_sharded_exactly_if_its_rule_writes_shards() -> None:
    """Otherwise its shards would never be gathered."""
    texts = rule_texts("stages/*")
    written = {stage for text in texts for stage in re.findall(r'measured\(\s*"(\w+)"', text)}
    assert written == {stage.name for stage in MEASURED if stage.sharded}
