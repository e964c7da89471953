"""A model's tokenizer and architecture, resolved once and without its weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase

from anchorflow.config.errors import InputError
from anchorflow.model.architectures import check_architecture
from anchorflow.model.cost import log_run
from anchorflow.model.memory import weight_bytes
from anchorflow.model.tokenizer import ARCHITECTURE, CHAT_TEMPLATE, TOKENIZER, ChatTemplate
from anchorflow.prepare.faithful_tokenizer import check_faithful, check_within
from anchorflow.prepare.model_sources import model_directory, reading, without_origin
from anchorflow.prepare.quantization import quantization_of
from anchorflow.store.cell import Cell
from anchorflow.store.checksums import fingerprints, write_json
from anchorflow.store.replacing import replacing


def resolve_tokenizer(name: str, settings: Mapping[str, Any], folder: str | Path) -> None:
    """Save a model's tokenizer and its architecture's configuration, without its weights.

    ``folder`` becomes a directory with ``config.json`` of the architecture, ``tokenizer.json``,
    ``architecture.json`` with the numbers of layers, heads and tokens that stages need, and
    ``chat_template.json`` if the model comes with a chat template. Weights in a quantized format
    that is not dequantized are refused here already.
    """
    with model_directory(name, settings, weights=False) as (directory, gguf):
        with reading(name, directory):
            config = AutoConfig.from_pretrained(directory, trust_remote_code=False, **gguf)
        check_architecture(name, config)
        quantization_of(name, config)  # refuses what can't be dequantized
        with reading(name, directory):
            weight_bytes(config, torch.float32)  # builds the model without allocating its weights
        with reading(name, directory):
            tokenizer = AutoTokenizer.from_pretrained(directory, trust_remote_code=False, **gguf)
        if not tokenizer.is_fast:
            raise InputError(
                f"models.{name}: its tokenizer gives no character offsets, which locate positions; "
                "choose a model with a fast tokenizer (tokenizer.json)."
            )
        with reading(name, directory):
            if gguf:
                from anchorflow.prepare.gguf_tokenizer import follow  # where gguf is installed

                if follow(name, directory / gguf["gguf_file"], tokenizer.backend_tokenizer):
                    tokenizer.add_bos_token = True
            check_faithful(name, directory, config, tokenizer)
        check_within(name, config, tokenizer.backend_tokenizer)
        with replacing(folder) as temporary:
            temporary.mkdir()
            without_origin(config).save_pretrained(temporary)
            tokenizer.backend_tokenizer.save(str(temporary / TOKENIZER))
            chat = chat_template_of(tokenizer)
            if chat:
                write_json(temporary / CHAT_TEMPLATE, vars(chat))
            text = config.get_text_config()
            architecture = {
                "architecture": config.model_type,
                "layers": text.num_hidden_layers,
                "query_heads": text.num_attention_heads,
                "key_value_heads": getattr(text, "num_key_value_heads", None)
                or text.num_attention_heads,
                "context": context_of(text),
            }
            write_json(
                temporary / ARCHITECTURE,
                {**architecture, "files": fingerprints(temporary.iterdir())},
            )


def context_of(config: PretrainedConfig) -> int:
    """The maximum number of tokens in a prompt.

    Some rotary embeddings change all frequencies once a prompt exceeds the length that the model
    was first trained on; the same token would then differ from prompt to prompt.
    """
    longest: int = config.max_position_embeddings
    rotary = getattr(config, "rope_parameters", None) or {}
    if rotary.get("rope_type") not in ("longrope", "dynamic"):
        return longest
    original = rotary.get("original_max_position_embeddings") or getattr(
        config, "original_max_position_embeddings", None
    )
    return min(longest, original or longest)


def chat_template_of(tokenizer: PreTrainedTokenizerBase) -> ChatTemplate | None:
    """The tokenizer's chat template, the ``default`` one if there are several; None without one.

    transformers has read it from ``chat_template.jinja``, ``tokenizer_config.json`` or
    the metadata of a GGUF file.
    """
    source = tokenizer.chat_template
    if isinstance(source, dict):
        source = source.get("default")
    if not isinstance(source, str) or not source.strip():
        return None
    return ChatTemplate(source, dict(tokenizer.special_tokens_map))


def prepare(job: Cell) -> None:
    """Save the tokenizer and the architecture of one model, and estimate the run's time."""
    model, folder = job.wildcards.model, job.output[0]
    resolve_tokenizer(model, job.spec, folder)
    log_run(job.config, model, folder)
