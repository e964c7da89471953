"""A study's task, asked about prompts of one's own."""

from dataclasses import replace
from pathlib import Path

import pytest

from anchorflow.config.errors import InputError
from anchorflow.explore.task import OpenedTask
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.store.parquet import read_table
from opened_tasks import QUERY, TEXTS, prepared


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, resolved: Path) -> OpenedTask:
    return prepared(tmp_path_factory.mktemp("results"), resolved)


def test_what_was_drawn_is_the_study_s_own_prompt(
    opened: OpenedTask, tmp_path: Path, resolved: Path
) -> None:
    assert opened.drawn.query == (QUERY,)
    assert opened.drawn.demonstrations == (((TEXTS[0],), 0), ((TEXTS[1],), 1))
    prepared(tmp_path, resolved)
    built = read_table(tmp_path / "prompts/tiny/reviews/3.parquet", PROMPTS).row(0, named=True)
    asked = opened.ask(opened.drawn).prompt
    assert {**asked, "label": 1} == built


def test_another_wording_is_that_of_the_prompt(opened: OpenedTask) -> None:
    other = replace(
        opened.drawn,
        template="Text: {text}\nMood:{label}",
        labels=(" good", " bad", " fair"),
        demonstrations=((("dull",), 2),),
        query=("warm",),
    )
    asked = opened.ask(other)
    assert "".join(asked.tokens) == "Text: dull\nMood: fair\nText: warm\nMood:"
    assert asked.answers == other.labels
    assert asked is opened.ask(other)  # its plain answer is computed once
    assert "".join(opened.ask(replace(other, demonstrations=())).tokens) == "Text: warm\nMood:"


def test_demonstrations_are_left_out_and_flipped_as_if_they_were_given_so(
    opened: OpenedTask,
) -> None:
    first, second = opened.drawn.demonstrations

    def log_odds(*shown: tuple[tuple[str, ...], int]) -> float:
        asked = opened.ask(replace(opened.drawn, demonstrations=shown))
        return float(asked.reweight(1, label=0)["log_odds"][0])

    rows = opened.ask(opened.drawn).demonstrations(label=0).rows
    before = log_odds(first, second)
    assert rows["left_out"].to_list() == pytest.approx(
        [log_odds(second) - before, log_odds(first) - before], abs=1e-5
    )
    flipped = [log_odds((first[0], 1), second), log_odds(first, (second[0], 0))]
    assert rows["flipped"].to_list() == pytest.approx([f - before for f in flipped], abs=1e-5)


def test_texts_of_several_fields_are_given_by_field(tmp_path: Path, resolved: Path) -> None:
    wording = {"fields": ["premise", "claim"], "template": "{claim} for {premise}:{label}"}
    opened = prepared(tmp_path, resolved, **wording)
    assert opened.drawn.query == (QUERY, "and more")
    asked = opened.ask(replace(opened.drawn, query=("x", "y"), demonstrations=()))
    assert "".join(asked.tokens) == "y for x:"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"template": "no text{label}"}, "reviews.template: .* must contain {text} exactly once"),
        ({"labels": (" same", " same")}, "same"),
        ({"query": ("word " * 2000,)}, "the prompt can't be run: .* exceed the context"),
    ],
)
def test_what_can_t_be_asked_is_one_sentence(
    changed: dict[str, object], said: str, opened: OpenedTask
) -> None:
    with pytest.raises(InputError, match=said):
        opened.ask(replace(opened.drawn, **changed))
