"""Segments of demonstrations and places along them, worked out by hand."""

import numpy as np
import pytest
import torch

from anchorflow.analyses.kernel.segments import (
    PLACES,
    attention_by_place,
    segment_names,
    segment_widths,
    segments_of,
)


def test_widths_are_averaged_over_demonstrations() -> None:
    prompt = {
        "format_positions": [0, 3, 6, 8],
        "demonstration_starts": [0, 4],
        "label_positions": [2, 7],
        "label_ends": [3, 8],
        "demonstration_ends": [4, 9],
        "field_names": ["text"],
        "field_starts": [1, 4],
        "field_ends": [2, 6],
    }
    # Tokens: start, text, label, after; and text, text, middle, label, after.
    expected = [(1 / 4 + 0) / 2, (1 / 4 + 2 / 5) / 2, (0 + 1 / 5) / 2, (1 / 4 + 1 / 5) / 2]
    widths = segment_widths([prompt])[0]
    np.testing.assert_allclose(widths, [*expected, (1 / 4 + 1 / 5) / 2])


def test_segments_follow_the_template_the_text_and_the_label_word() -> None:
    prompt = {
        "format_positions": [0, 1, 4, 5, 8, 9, 11, 12],
        "demonstration_starts": [1, 9],
        "label_positions": [6, 10],
        "label_ends": [8, 11],
        "demonstration_ends": [9, 12],
        "field_names": ["text"],
        "field_starts": [2, 10],
        "field_ends": [4, 10],
    }
    placed = segments_of(prompt)
    assert placed[:8] == [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (7, 3), (8, 4)]
    assert placed[8:] == [(9, 0), (10, 3), (11, 4)]  # an empty text


def test_a_template_word_inside_a_text_belongs_to_the_text() -> None:
    prompt = {
        "format_positions": [0, 2, 4, 6],
        "demonstration_starts": [0],
        "label_positions": [5],
        "label_ends": [6],
        "demonstration_ends": [7],
        "field_names": ["text"],
        "field_starts": [1],
        "field_ends": [4],
    }
    assert [segment for _, segment in segments_of(prompt)] == [0, 1, 1, 1, 2, 3, 4]


def test_demonstrations_of_unequal_length_are_averaged_place_by_place() -> None:
    rows = torch.arange(30.0).reshape(1, 1, 1, 30)
    starts, ends = torch.tensor([[0, 10]]), torch.tensor([[10, 30]])
    places = attention_by_place(rows, starts, ends)[0, 0, 0]
    assert len(places) == PLACES
    first = [number * 10 // PLACES for number in range(PLACES)]  # half a token each
    second = [10 + number * 20 // PLACES for number in range(PLACES)]
    torch.testing.assert_close(places, (torch.tensor(first) + torch.tensor(second)) / 2)


def test_every_field_is_a_segment_with_the_template_before_it() -> None:
    prompt = {
        "field_names": ["premise", "hypothesis"],
        "demonstration_starts": [1, 10],
        "label_positions": [8, 13],
        "label_ends": [9, 14],
        "demonstration_ends": [10, 15],
        # Of the second demonstration, the premise is empty and the hypothesis two tokens long.
        "field_starts": [2, 5, 11, 11, 16, 17],
        "field_ends": [4, 7, 11, 13, 17, 18],
    }
    names = segment_names(prompt["field_names"])
    shown = ["before_premise", "premise", "before_hypothesis", "hypothesis"]
    assert names == [*shown, "before_label", "label", "after"]
    placed = [(token, names[segment]) for token, segment in segments_of(prompt)]
    assert [segment for _, segment in placed] == [
        *("before_premise", "premise", "premise", "before_hypothesis", "hypothesis", "hypothesis"),
        *("before_label", "label", "after"),
        *("before_premise", "hypothesis", "hypothesis", "label", "after"),
    ]
    assert [token for token, _ in placed] == list(range(1, 15))
    assert segment_widths([prompt])[0].sum() == pytest.approx(1)


def test_a_task_with_one_field_has_the_segments_of_its_text() -> None:
    assert segment_names(["text"]) == ["before_text", "text", "before_label", "label", "after"]
