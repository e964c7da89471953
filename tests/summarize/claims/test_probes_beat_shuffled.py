"""What probes decode beside shuffled targets: shares of demonstrations worked out by hand."""

from itertools import product

import pytest

from anchorflow.schemas.probes import PROBES
from anchorflow.summarize.claims import probes_beat_shuffled
from anchorflow.summarize.claims._claim import Run, Sampled
from constructed.claims import ALONE, SEEDS, Tables, expect, frame, judged
from constructed.samples import samples

DEMONSTRATIONS = 20
CLAIMS = {
    "probes_decode_label_from_keys": ("key", "label"),
    "probes_decode_next_token_from_keys": ("key", "next_token"),
    "probes_decode_label_from_values": ("value", "label"),
    "probes_decode_next_token_from_values": ("value", "next_token"),
}
# With shuffled targets; as they are, one of two heads decodes every demonstration.
SHUFFLED = {"holds": 0.25, "even": 0.5, "fails": 0.75}
EFFECTS = {"holds": 0.25, "even": 0.0, "fails": -0.25}


def tables_of(source: str, target: str, own: str) -> Tables:
    """Of anything else than the claim is about, nothing is decoded."""
    rows = [
        {
            "model": "tiny",
            "task": "news",
            "seed": seed,
            "layer": layer,
            "head": head,
            "offset": offset,
            "source": of,
            "target": what,
            "demonstration": demonstration,
            "correct": head == 1 and (of, what, offset) == (source, target, 0),
            "shuffled": SHUFFLED[own],
        }
        for seed, layer, head, offset, of, what, demonstration in product(
            SEEDS,
            (0, 1),
            (0, 1),
            (-1, 0),
            ("key", "value"),
            ("label", "next_token"),
            range(DEMONSTRATIONS),
        )
    ]
    # The first two of every seed's demonstrations are the same texts.
    shown = {seed: [0, 1, *range(20 * seed + 2, 20 * seed + 20)] for seed in SEEDS}
    return {"probes": frame(rows, PROBES), "kernel_samples": samples(shown)}


@pytest.mark.parametrize(("claim", "probed"), CLAIMS.items())
@pytest.mark.parametrize(*ALONE)
def test_probes_beat_shuffled(
    own: str, verdict: str, reason: str | None, claim: str, probed: tuple[str, str]
) -> None:
    found = judged(claim, tables_of(*probed, own))
    expect(found, EFFECTS[own], verdict, reason)
    assert found["examples"] == len(SEEDS) * DEMONSTRATIONS


def test_every_claim_on_probes_is_tested_here() -> None:
    assert {claim.name for claim in probes_beat_shuffled.CLAIMS} == set(CLAIMS)


def test_demonstrations_are_the_texts_that_they_are_in_other_seeds() -> None:
    found = probes_beat_shuffled.CLAIMS[0]
    tables = tables_of("key", "label", "holds")
    measured = found.measure(Run("news", tables, "mask", 0.05))
    assert isinstance(measured, Sampled)
    texts = {int(text) for of in measured.by_seed.values() for text in of.texts}
    assert len(texts) == len(SEEDS) * (DEMONSTRATIONS - 2) + 2


def test_what_was_not_probed_is_named() -> None:
    tables = tables_of("key", "label", "holds")
    tables["probes"] = tables["probes"].filter(source="value")
    found = judged("probes_decode_label_from_keys", tables)
    assert (found["verdict"], found["reason"]) == ("not tested", "no probe decodes label from keys")
