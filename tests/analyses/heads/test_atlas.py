"""The atlas: scores as layers by heads, which others read as plain JSON."""

import json
from pathlib import Path

from anchorflow.analyses.heads.atlas import atlas, write_atlas
from anchorflow.analyses.heads.summarize import summarize_heads
from anchorflow.model.layer_kinds import by_place
from constructed.heads import heads
from constructed.interventions import prompts

SCORES = {
    "label_copy": {(0, 0): [1.0, 3.0], (0, 1): [-4.0, -4.0], (1, 0): [0.5, 0.5], (1, 1): [0, 1.0]},
    "writes_text": {(0, 0): [2.0, 2.0], (0, 1): [0.0, 0.0], (1, 0): [1.0, 1.0], (1, 1): [3.0, 3.0]},
}


def test_every_score_is_a_matrix_with_its_definition(tmp_path: Path) -> None:
    found = by_place(heads(SCORES, {"label_copy": 0.5}), [2, 5], 6)
    summary = summarize_heads(found, prompts(), 0.95)
    card = {"name": "tiny", "revision": "abc", "layers": 2, "files": {}}
    of_task = {"news": {"template": "{text}{label}", "labels": [" A", " B"]}}
    write_atlas(tmp_path / "tiny.json", atlas(summary, card, of_task, 0.95))
    read = json.loads((tmp_path / "tiny.json").read_text(encoding="utf-8"))
    assert read["model"] == {"name": "tiny", "revision": "abc"}
    assert read["prompts"] == of_task
    assert read["layers"] == [2, 5]
    copied = read["scores"]["label_copy"]
    assert copied["value"]["mean"] == [[2.0, -4.0], [0.5, 0.5]]
    assert copied["difference"]["mean"] == [[1.5, -4.5], [0.0, 0.0]]
    assert copied["definition"].startswith("direct effect of all label words, each on its own")
    assert copied["control"] == "equally many tokens of the texts in place of label words"
    assert read["scores"]["writes_text"]["control"] is None
    assert (read["confidence"], read["seeds"], read["tasks"]) == (0.95, 3, ["news"])
