"""In-context classification with your own model, without the workflow."""

import contextlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

import anchorflow.analyses.isolation.measure as isolation
import anchorflow.analyses.knockout.measure as knockout
import anchorflow.analyses.transplant.measure as transplant
from anchorflow.analyses.attention.measure import measure_attention
from anchorflow.analyses.compression.measure import OF_STATES, Cache, Setting, compress
from anchorflow.analyses.compression.observations import Asking, declares, observe
from anchorflow.analyses.flow.measure import measure_flow
from anchorflow.analyses.reweighting.measure import label_probabilities
from anchorflow.analyses.reweighting.samples import NO_LABEL
from anchorflow.arrays import Array
from anchorflow.config.configuration import check_wording, placeholders
from anchorflow.config.errors import InputError
from anchorflow.fitted_weights import FittedWeights, Purpose, fingerprint
from anchorflow.kept_positions import AT_ANY_BUDGET, METHODS
from anchorflow.measurement import Measurement, defaults, section
from anchorflow.model.architectures import check_architecture
from anchorflow.model.attention_function import adopt, intervene
from anchorflow.model.batches import Batch, Budget, run_batches, runnable
from anchorflow.model.beta_fit import Descent
from anchorflow.model.eager_comparison import check_against_eager
from anchorflow.model.last_tokens import keep_all_but_last, keep_together
from anchorflow.model.layer_kinds import attention_layers, by_place, runs_again
from anchorflow.model.layers import positions_from
from anchorflow.model.opening import MODEL_CARD
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.size import query_tokens
from anchorflow.one_prompt.asked import (
    AskedPrompt,
    Cut,
    Demonstrations,
    FlowPage,
    ask_about,
    ask_after,
)
from anchorflow.one_prompt.prompt import Prompt, Tokens
from anchorflow.prepare.prompts import build_prompts
from anchorflow.prepare.template import SEPARATOR, Template
from anchorflow.prepare.tokenizer import chat_template_of, context_of
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.samples import SAMPLES
from anchorflow.store.checksums import fingerprints, write_json

Texts = str | Sequence[str]
Labels = int | Sequence[int]


class Names(NamedTuple):
    """How a model and a task are called, and the seed of random draws.

    By default, a model is called by the last part of its path or repository, or else by its type.
    """

    model: str = ""
    task: str = "task"
    seed: int = 0


_UNNAMED = Names()

# Types of models that tests compare with eager attention in every dtype; any other is compared when
# it is given, as the workflow compares every model. That takes a copy of the weights, on disk and
# in memory, and for 1.5 billion parameters 13 seconds.
_TESTED = {"gpt2", "gptj", "gpt_neo", "gpt_neox", "opt", "llama", "mistral", "qwen2", "qwen3"}
_TESTED |= {"gemma2", "gemma3_text", "phi3", "olmo2"}


def _compare_with_eager(name: str, model: PreTrainedModel) -> None:
    """Compare a copy of the model, in a temporary folder, with itself under eager attention."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        card = {
            "name": name,
            "dtype": str(model.dtype).removeprefix("torch."),
            "architecture": model.config.model_type,
            "files": fingerprints(Path(folder).glob("*.safetensors*")),
        }
        write_json(Path(folder, MODEL_CARD), card)
        check_against_eager(name, folder)


def _named(names: Names, model: PreTrainedModel) -> Names:
    """The names, with one for the model, which must be a causal language model that we support."""
    if hasattr(model, "merge_and_unload"):
        raise InputError(
            "the model is a PeftModel, whose adapters are not followed; merge them into its "
            "weights: model = model.merge_and_unload()."
        )
    if not names.model:
        name = Path(str(model.name_or_path or "")).name
        if not name or re.fullmatch("[0-9a-f]{40}", name):  # of a snapshot, which is no name
            name = str(model.config.model_type)
        names = names._replace(model=name)
    check_architecture(names.model, model.config)
    return names


def adopted(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, name: str) -> Tokenizer:
    """Freeze a model and give it our attention function; its tokenizer, which never truncates."""
    if model.device.type not in ("cpu", "cuda"):
        raise InputError(
            f"the model is on the device {model.device}, which lacks float64 or is not tested; "
            'move it with model.to("cpu") or to a CUDA GPU.'
        )
    if not tokenizer.is_fast:
        raise InputError("the tokenizer gives no character offsets; load a fast one.")
    if model.config.get_text_config().model_type not in _TESTED:
        _compare_with_eager(name, model)
    adopt(model)
    model.eval().requires_grad_(False)
    found = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    found.no_truncation()
    found.no_padding()
    return found


def ask(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, prompt: Prompt, after: int = 0
) -> AskedPrompt:
    """A prompt without a template, to be asked about; the model is modified as a classifier's.

    With ``after``, the model first generates so many tokens, so that the next one is asked about.
    """
    name = _named(_UNNAMED, model).model
    return ask_about(model, adopted(model, tokenizer, name), prompt, name, after)


class InContextClassifier:
    r"""A language model that classifies texts in context, given demonstrations.

    The model is modified: frozen, set to evaluation mode, and given our attention function. Unless
    its architecture is among the tested ones, it is compared with itself with eager attention, for
    which its weights are written to a temporary folder. What can't be used raises InputError.

    Parameters
    ----------
    model, tokenizer
        As loaded by transformers; the tokenizer must be a fast one.
    template : str
        One demonstration, for example ``"Review: {text}\nSentiment:{label}"``, with one field.
    labels : sequence of str
        Label words with their leading space, in class order.
    demonstrations : sequence of (text, label)
        In prompt order; each label is an index into ``labels``.
    instruction : str
        Before the first demonstration, followed by the separator; none if empty. Every method of
        compression keeps it.
    separator : str
        Follows the instruction and each demonstration.
    names : Names
        Of model and task in tables, figures and messages. Random draws, as of control tokens,
        depend on task and seed.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerFast,
        template: str,
        labels: Sequence[str],
        demonstrations: Sequence[tuple[str, int]],
        instruction: str = "",
        separator: str = SEPARATOR,
        names: Names = _UNNAMED,
    ) -> None:
        self.names = names = _named(names, model)
        named = [name for name in placeholders(template) if name not in ("text", "label")]
        if named and "{text}" not in template:
            raise InputError(
                f"{names.task}.template: {template!r} has {{{named[0]}}}, but here texts have a "
                "single field; join fields yourself and write {text}."
            )
        check_wording(names.task, template, labels)
        if not separator:
            raise InputError("the separator is empty; give one, such as a newline.")
        self._tokenizer = adopted(model, tokenizer, names.model)
        self.model = model
        self.labels = tuple(labels)
        self._demonstrations = tuple(demonstrations)
        if not self._demonstrations:
            raise InputError("there are no demonstrations; give at least one.")
        self._check_labels([label for _, label in self._demonstrations])
        self.template = template
        self.instruction, self.separator = instruction, separator
        chat = chat_template_of(tokenizer)
        self._chat_template = chat.source if chat else ""

    def fit(
        self,
        texts: Texts,
        labels: Labels,
        learning_rate: float = 0.1,
        epochs: int = 10,
        batch_size: int = 1,
        seed: int = 0,
        batch_tokens: int = 1024,
    ) -> FittedWeights:
        """Fit weights β for attention to the demonstrations' label words ([A] §3.1).

        Parameters
        ----------
        batch_size : int
            Texts per gradient step; 0 for all at once.
        seed : int
            Seed of the order of training texts.
        batch_tokens : int
            Upper bound on tokens per batch of full prompts, which run once before the fit.
        """
        descent = Descent(learning_rate, epochs, batch_size)
        prompts = self._labeled(texts, labels)
        prefix = compute_prefix(self.model, shared_token_ids(prompts))
        training = keep_together(self.model, prompts, prefix, self._budget(prompts, batch_tokens))
        beta, _ = descent.fit(self.model, training, np.random.default_rng(seed))
        return FittedWeights(beta, self._purpose(), **vars(descent))

    def predict(
        self, texts: Texts, weights: FittedWeights | None = None, batch_tokens: int = 1024
    ) -> Array:
        """Label probabilities of each text, [texts, C], with or without weights β."""
        if weights is not None:
            heads = self.model.config.get_text_config().num_attention_heads
            weights.check(self._purpose(), (self._depth, heads, len(self._demonstrations)))
        beta = None if weights is None else weights.beta
        texts = [texts] if isinstance(texts, str) else texts
        prompts = self.prompts(texts, [NO_LABEL] * len(texts))
        if weights is not None:
            words = zip(*prompts.select("label_positions", "label_ends").row(0), strict=True)
            weights.check_words(max(end - first for first, end in words))
        prefix = compute_prefix(self.model, shared_token_ids(prompts))
        probabilities = np.empty((len(texts), len(self.labels)))

        def measure(batch: Batch) -> Array:
            tokens = keep_all_but_last(self.model, batch, prefix)
            return label_probabilities(self.model, tokens, beta)

        budget = self._budget(prompts, batch_tokens)
        for batch, found in run_batches(prompts, budget, self.model.device, measure, prefix.tokens):
            probabilities[batch.examples] = found
        return probabilities

    def compress(self, method: str = "hidden_anchor", share: float | None = None) -> "AnchorCache":
        """Keep keys and values of only some of the demonstrations' tokens ([A] §3.2).

        Parameters
        ----------
        method : str
            One of ``kept_positions.METHODS``, or ``first_only``.
        share : float, optional
            Share of tokens to keep, for methods that accept any budget.
        """
        if runs_again(self.model.config):
            raise InputError(
                f"{self.names.model}: the demonstrations are not compressed. {OF_STATES}"
            )
        if method not in METHODS and method != "first_only":
            known = ", ".join([*METHODS, "first_only"])
            raise InputError(f"there is no method {method!r}; choose one of {known}.")
        if method in METHODS and declares(method, "PER_QUERY"):
            raise InputError(
                f"{method} chooses for each query, but a cache serves all; choose another method."
            )
        if share is not None and method not in AT_ANY_BUDGET:
            raise InputError(
                f"{method} keeps a fixed set of tokens, not a share; leave the share out, or "
                f"choose one of {', '.join(AT_ANY_BUDGET)}."
            )
        if share is not None and not 0 < share <= 1:
            raise InputError(f"share: {share} should be more than 0 and at most 1.")
        prompts = self.prompts(_ANY_TEXTS, [NO_LABEL] * len(_ANY_TEXTS))
        token_ids = shared_token_ids(prompts)
        demonstrations = observe(
            self.model,
            token_ids,
            prompts.row(0, named=True),
            [method] if method in METHODS else [],
            Asking.of(self._tokenizer),
        )
        cache = compress(self.model, demonstrations, Setting(method, share))
        return AnchorCache(self, token_ids, cache)

    def flow(self, texts: Texts, labels: Labels, batch_tokens: int = 1024) -> Measurement:
        """Information flows S_wp, S_pq and S_ww by layer, with their controls ([A] §2.1).

        ``labels`` are the true ones, whose loss saliency is of.
        """
        prompts = self._labeled(texts, labels)
        rows = measure_flow(self.model, prompts, batch_tokens, "fixed")
        return self._measured("flow", flow=rows, prompts=prompts)

    def attention(self, texts: Texts, labels: Labels, batch_tokens: int = 1024) -> Measurement:
        """AUCROC_l and R_l of the target's attention to label words ([A] §2.3); as ``flow``."""
        prompts = self._labeled(texts, labels)
        tokens = self._budget(prompts, batch_tokens).tokens
        rows, predictions = measure_attention(self.model, self._tokenizer, prompts, tokens)
        return self._measured("attention", attention=rows, predictions=predictions, prompts=prompts)

    def isolate(
        self,
        texts: Texts,
        labels: Labels,
        layers: int = 5,
        side: str | None = None,
        batch_tokens: int = 1024,
        **settings: Any,
    ) -> Measurement:
        """Predictions with label words or other tokens isolated ([A] §2.2); as ``flow``.

        Parameters
        ----------
        layers : int
            Number of layers.
        side : str, optional
            ``first`` or ``last`` layers; by default, either.
        settings
            As in the section ``isolation`` of the configuration, such as ``positions``.
        """
        if side not in (None, "first", "last"):
            raise InputError(f"side: {side!r} is neither first nor last; correct it.")
        spec = section("isolation", {"layers": [layers], **settings})
        prompts = self._labeled(texts, labels)
        chosen = isolation.settings_of(
            *(spec["variants"], [layers], spec["draws"], self._depth, self.names.model),
            spec["positions"],
        )
        chosen = [setting for setting in chosen if side in (None, setting.side)]
        tokens = self._budget(prompts, batch_tokens).tokens
        rows = isolation.measure_isolation(self.model, prompts, chosen, spec["top_tokens"], tokens)
        return self._measured("isolation", isolation=rows, prompts=prompts)

    def knockout(
        self,
        texts: Texts,
        labels: Labels,
        classes: Sequence[str] = ("label_to_target", "text_to_label"),
        batch_tokens: int = 1024,
        **settings: Any,
    ) -> Measurement:
        """Predictions with classes of edges of attention cut, or random ones; as ``flow``.

        ``settings`` are as in the section ``knockout`` of the configuration, such as ``layers``.
        """
        spec = section("knockout", {"classes": list(classes), **settings})
        prompts = self._labeled(texts, labels)
        chosen = knockout.settings_of(classes, spec["layers"], spec["draws"], self._depth)
        tokens = self._budget(prompts, batch_tokens).tokens
        rows = knockout.measure_knockout(
            self.model, prompts, chosen, spec["variant"], spec["top_tokens"], tokens
        )
        return self._measured("knockout", knockout=rows, prompts=prompts)

    def transplant(
        self,
        texts: Texts,
        labels: Labels,
        places: Sequence[str] = ("label", "text", "template"),
        batch_tokens: int = 1024,
        **settings: Any,
    ) -> Measurement:
        """Predictions with vectors from a prompt with other label words; as ``flow``.

        ``settings`` are as in the section ``transplant`` of the configuration, such as ``what``.
        """
        spec = section("transplant", {"places": list(places), **settings})
        prompts = self._labeled(texts, labels)
        chosen = transplant.settings_of(
            *(places, spec["donors"], spec["what"], spec["depths"], spec["draws"], self._depth),
            window=spec["window"],
        )
        tokens = self._budget(prompts, batch_tokens).tokens
        rows = transplant.measure_transplant(self.model, prompts, chosen, tokens)
        return self._measured("transplant", transplant=rows, prompts=prompts)

    def _budget(self, prompts: pl.DataFrame, batch_tokens: int) -> Budget:
        """Of queries; where demonstrations run again with them, both together have the tokens."""
        again = runs_again(self.model.config)
        return Budget(query_tokens(prompts, batch_tokens) if again else batch_tokens)

    def ask(self, text: str | Prompt) -> AskedPrompt:
        """One text's prompt, or a prompt without the template, to be asked about."""
        if not isinstance(text, str | Prompt):
            raise InputError("text: here, it is a single text; ask about one at a time.")
        if isinstance(text, Prompt):
            return ask_about(self.model, self._tokenizer, text, self.names.model)

        def row(demonstrations: Sequence[tuple[str, int]]) -> dict[str, Any]:
            return self.prompts(text, 0, demonstrations).row(0, named=True)

        return ask_after(self.model, self._tokenizer, self.labels, self._demonstrations, row)

    def show(
        self,
        text: str | Prompt,
        label: int | str | None = None,
        cut: Cut | None = None,
        factor: float = 1.0,
    ) -> FlowPage:
        """The interactive page of one prompt's information flow; see :class:`AskedPrompt`.

        ``label``, an index or a word, is the one whose loss saliency is of; by default, the
        model's own answer.
        """
        return self.ask(text).show(label, cut, factor)

    def cut(
        self, text: str | Prompt, tokens: Tokens, to: str = "target", **how: Any
    ) -> pl.DataFrame:
        """The answer with attention to some tokens cut; see :meth:`AskedPrompt.cut`."""
        return self.ask(text).cut(tokens, to, **how)

    def demonstrations(self, text: str | Prompt, label: int | str | None = None) -> Demonstrations:
        """What each demonstration does for the answer; :meth:`AskedPrompt.demonstrations`."""
        return self.ask(text).demonstrations(label)

    def heads(self, text: str | Prompt, label: int | str | None = None) -> pl.DataFrame:
        """What each head reads and writes at the target; see :meth:`AskedPrompt.heads`."""
        return self.ask(text).heads(label)

    def reweight(
        self, text: str | Prompt, factor: float | Sequence[float], label: int | str | None = None
    ) -> pl.DataFrame:
        """Answers with attention to label words multiplied; see :meth:`AskedPrompt.reweight`."""
        return self.ask(text).reweight(factor, label)

    @property
    def _depth(self) -> int:
        return len(attention_layers(self.model.config))

    def _measured(self, analysis: str, **tables: pl.DataFrame) -> Measurement:
        tasks = {self.names.task: {"labels": list(self.labels)}}
        config = {**defaults(), "tasks": tasks}
        config["flow"] = {**config["flow"], "demonstrations": "fixed"}
        model = self.model.config
        places = attention_layers(model), model.get_text_config().num_hidden_layers
        placed = {name: by_place(table, *places) for name, table in tables.items()}
        return Measurement(analysis, placed, config)

    def _purpose(self) -> Purpose:
        model = fingerprint(self.model)
        shared = (self._demonstrations, self.instruction, self.separator)
        return Purpose(model, self.template, self.labels, *shared)

    def _labeled(self, texts: Texts, labels: Labels) -> pl.DataFrame:
        """Prompts with true labels, which have to be indices of label words."""
        several = _several(labels)
        self._check_labels(several)
        return self.prompts(texts, several)

    def _check_labels(self, labels: Sequence[int]) -> None:
        for label in labels:
            if label not in range(len(self.labels)):
                raise InputError(
                    f"the label {label!r} is not between 0 and {len(self.labels) - 1}, the indices "
                    f"of the label words {list(self.labels)}; correct it."
                )

    def prompts(
        self, texts: Texts, labels: Labels, demonstrations: Sequence[tuple[str, int]] | None = None
    ) -> pl.DataFrame:
        """One row of ``PROMPTS`` per text, in their order; ``demonstrations`` replace the own."""
        texts = [texts] if isinstance(texts, str) else texts
        labels = _several(labels)
        shared = self._demonstrations if demonstrations is None else demonstrations
        if len(texts) == 0:
            raise InputError("there are no texts; give at least one.")
        if len(texts) != len(labels):
            raise InputError(
                f"there are {len(labels)} labels for {len(texts)} texts; give one label per text."
            )
        number = len(texts)
        samples = pl.DataFrame(
            {
                "task": [self.names.task] * number,
                "seed": self.names.seed,
                "demonstrations": "fixed",
                "example": range(number),
                "text": list(texts),
                "label": list(labels),
                "demonstration_rows": [[]] * number,
                "demonstration_texts": [[text for text, _ in shared]] * number,
                "demonstration_labels": [[label for _, label in shared]] * number,
            },
            schema=frame_schema(SAMPLES),
            strict=False,  # labels may be whole floats, as a column of pandas has them
        )
        context = context_of(self.model.config.get_text_config())
        template = Template.parse(
            self.template,
            instruction=self.instruction,
            separator=self.separator,
            chat_template=self._chat_template,
        )
        prompts = build_prompts(
            samples, self._tokenizer, template, self.labels, self.names.model, context
        )
        too_long = prompts.filter(pl.col("skipped").is_not_null())
        if not too_long.is_empty():
            example, reason = too_long.select("example", "skipped").row(0)
            raise InputError(
                f"text {example}: for its prompt, {reason}; shorten it, or give fewer or other "
                "demonstrations."
            )
        return runnable(prompts, "fixed")


def _several(labels: Labels) -> Sequence[int]:
    return [int(labels)] if np.ndim(labels) == 0 else labels  # type: ignore[arg-type,return-value]


class AnchorCache:
    """Compressed demonstrations, for your own prompts and transformers' ``generate``.

    :meth:`InContextClassifier.compress` makes them.
    """

    def __init__(self, classifier: InContextClassifier, token_ids: list[int], cache: Cache) -> None:
        self._classifier, self._token_ids, self._cache = classifier, token_ids, cache

    @property
    def tokens(self) -> int:
        """Number of tokens kept in each layer and head."""
        return self._cache.kept

    @contextlib.contextmanager
    def in_front(self) -> Iterator[None]:
        """Prepend the cached demonstrations to all inputs of the model in this block."""
        with intervene(self._cache.prefix):
            yield

    def query(self, text: str) -> dict[str, Tensor]:
        """Model inputs for one text: the part of its prompt after the demonstrations.

        They are ``input_ids``, ``attention_mask``, and ``position_ids``, each [1, T].
        """
        (token_ids,) = self._classifier.prompts([text], [NO_LABEL])["token_ids"].to_list()
        cached = len(self._token_ids)
        if token_ids[:cached] != self._token_ids:
            raise InputError(
                f"the prompt of {text!r} does not begin with the tokens of the demonstrations; "
                "begin the template with a word."
            )
        input_ids = torch.tensor([token_ids[cached:]], device=self._classifier.model.device)
        return {
            "input_ids": input_ids,
            "attention_mask": torch.ones_like(input_ids),
            "position_ids": positions_from(input_ids, self._cache.first_position),
        }


_ANY_TEXTS = ("x", "N/A")  # they differ from the first token on, to find what all prompts share
