"""Compare every family of causal models in the installed transformers with plain eager attention.

    make families

writes ``docs/reference/families.json``, of which ``make docs`` makes the table of
``docs/reference/models.md``, and takes two minutes. It fails where a family ends neither exactly
nor in a sentence, or is refused only after loading.
"""

import json
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from typing import Any

import torch
import transformers
from torch import nn
from transformers import CONFIG_MAPPING

from anchorflow.config.errors import InputError
from anchorflow.config.places import REPOSITORY
from anchorflow.model.architectures import check_architecture
from family_checks import COMPARED, EXACT, Pair, compare_prepared
from tiny_families import KINDS, tiny_config

FILE = REPOSITORY / "docs" / "reference" / "families.json"
_BOUNDS = [float(f"{digit}e{power}") for power in range(-9, -3) for digit in (1, 2, 5)]
# A member of each family that transformers' documentation names none of, or a tiny or another one.
_MEMBERS: Mapping[str, str] = {
    "afmoe": "arcee-ai/Trinity-Mini",
    "bamba": "ibm-ai-platform/Bamba-9B-v2",
    "cohere2": "CohereLabs/c4ai-command-r7b-12-2024",
    "deepseek_v3": "deepseek-ai/DeepSeek-V3",
    "glm4": "THUDM/GLM-4-9B-0414",
    "glm4_moe_lite": "zai-org/GLM-4.7-Flash",
    "got_ocr2": "stepfun-ai/GOT-OCR-2.0-hf",
    "gpt-sw3": "AI-Sweden-Models/gpt-sw3-126m",
    "granitemoe": "ibm-granite/granite-3.0-1b-a400m-base",
    "granitemoehybrid": "ibm-granite/granite-4.0-h-tiny",
    "granitemoeshared": "ibm-research/moe-7b-1b-active-shared-experts",
    "minimax_m2": "MiniMaxAI/MiniMax-M2",
    "modernbert-decoder": "jhu-clsp/ettin-decoder-150m",
    "moshi": "kyutai/moshiko-pytorch-bf16",
}


def sweep(kinds: Iterable[str] = KINDS) -> list[dict[str, Any]]:
    """What is exact, limited, or refused, and why, for each family."""
    return [outcome_of(kind) for kind in kinds]


def outcome_of(kind: str) -> dict[str, Any]:
    """The row of one family.

    ``refused`` is the reason that its configuration gives, or that the check at preparation gives
    (``late``). Otherwise ``attention`` has its kinds, ``limits`` the reason of each analysis that
    refuses, and ``difference`` the largest of the others, rounded up. Any other
    error that is raised is one of anchorflow, and so is a difference of more than ``EXACT``.
    """
    try:
        check_architecture(kind, tiny_config(kind))
    except InputError as error:
        return {"family": kind, "refused": reason(error)}
    try:
        differences = [compare_prepared(kind)]
    except InputError as error:
        return {"family": kind, "refused": reason(error), "late": True}
    pair, limits = Pair(kind), {}
    for name, compare in COMPARED.items():
        try:
            differences.append(compare(pair))
        except InputError as error:
            limits[name] = reason(error)
    if not max(differences) <= EXACT:  # NaN, too
        raise ValueError(f"{kind} differs from plain eager attention: {differences}")
    return {
        "family": kind,
        "model": member_of(kind),
        "attention": kinds_of_attention(pair),
        "limits": limits,
        "difference": next(bound for bound in _BOUNDS if max(differences) <= bound),
    }


def reason(error: InputError) -> str:
    """What a sentence says of a family, without the model's name and the remedy."""
    sentence = str(error).rstrip(".")
    found = re.search(r"the architecture \S+ (.+?), which is not supported", sentence)
    if found:
        return found[1]
    sentence = re.sub(r"^(models\.\S+|\w+): ", "", sentence)
    return re.split(r"; (?:this|choose)|, which is not supported|: this model", sentence)[0]


def member_of(kind: str) -> str:
    """A model of the family on the Hub, which transformers' documentation names."""
    words = CONFIG_MAPPING[kind].__doc__ or ""
    found = re.search(r"huggingface\.co/((?!papers|docs)[\w.-]+/[\w.-]+)", words)
    return _MEMBERS.get(kind) or (found[1] if found else "")


def kinds_of_attention(pair: Pair) -> list[str]:
    """Words for what distinguishes the attention of a tiny model, from its modules and settings."""
    model = pair.eager
    config: Any = model.config.get_text_config()
    layer_types = " ".join(getattr(config, "layer_types", None) or ())
    modules = " ".join({type(module).__name__ for module in model.modules()})
    parameters = " ".join(name for name, _ in model.named_parameters())
    tables = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding)
        and re.search(r"wpe|position", name)
        and module.num_embeddings >= config.max_position_embeddings  # not those of an image
    ]
    # Falcon has a method for it, and a setting that says whether it is used.
    has_method = "alibi" in " ".join(dir(model.base_model))
    alibi = getattr(config, "alibi", has_method)
    rotary = "Rotary" in modules or getattr(config, "rotary_dim", None)
    windows = "sliding" in layer_types or "local" in str(getattr(config, "attention_types", ""))
    windows = windows or (not layer_types and bool(getattr(config, "sliding_window", None)))
    kinds = {
        "ALiBi": alibi,
        "rotary positions": rotary and not alibi,
        "learned positions": bool(tables),
        "sinusoidal positions": "Sinusoidal" in modules
        or hasattr(model.base_model, "pos_encoding"),
        "windows": windows,
        "chunks": "chunked" in layer_types,
        "sinks": "sink" in parameters,
        "soft-capped scores": bool(getattr(config, "attn_logit_softcapping", None)),
        "keys shared by layers": bool(getattr(config, "num_kv_shared_layers", None)),
        "latent keys": bool(getattr(config, "kv_lora_rank", None)),
        "an indexer": "indexer" in parameters.lower(),
        "a state": pair.carries_state,
        "experts": "experts." in parameters,
    }
    return [name for name, has in kinds.items() if has]


def written(rows: Iterable[Mapping[str, Any]]) -> str:
    """The file's text: one line per family."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return f'{{"transformers": "{transformers.__version__}",\n"families": [\n{lines}\n]}}\n'


def main(kinds: list[str]) -> None:
    """Sweep all families and write the file, or only some and write nothing."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    rows = []
    for kind in kinds or KINDS:
        try:
            rows.append(outcome_of(kind))
        except Exception as error:
            rows.append({"family": kind, "failed": f"{type(error).__name__}: {error}"})
            traceback.print_exc()
        print(json.dumps(rows[-1], ensure_ascii=False), flush=True)
    if not kinds:
        FILE.write_text(written(rows), encoding="utf-8")
    failed = [row["family"] for row in rows if "failed" in row or row.get("late")]
    if failed:
        raise SystemExit(f"Failed, or refused after loading: {', '.join(failed)}.")


if __name__ == "__main__":
    main(sys.argv[1:])
