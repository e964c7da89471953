"""In-context classification with a model of one's own, without the workflow."""

from collections.abc import Sequence

import numpy as np
import polars as pl
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from anchorflow.architectures import check_architecture
from anchorflow.attention_function import adopt, implementation_for
from anchorflow.auxiliary import NO_LABEL
from anchorflow.batches import runnable
from anchorflow.configuration import check_wording
from anchorflow.descent import Descent, Reweight
from anchorflow.errors import InputError
from anchorflow.fitted_weights import FittedWeights, Purpose, fingerprint
from anchorflow.last_tokens import keep_all_but_last, keep_together
from anchorflow.prefix import compute_prefix, shared_token_ids
from anchorflow.prompts import Template, build_prompts
from anchorflow.reweighting import label_probabilities
from anchorflow.statistics import Array
from anchorflow.tables import SAMPLES, frame_schema
from anchorflow.tokenizers import context_of


class InContextClassifier:
    r"""A language model that labels texts by the example of demonstrations.

    The model is taken over: frozen, in evaluation mode, and with our attention function.

    Parameters
    ----------
    model, tokenizer
        As transformers loads them; the tokenizer a fast one.
    template : str
        One demonstration, for example ``"Review: {text}\nSentiment:{label}"``.
    labels : sequence of str
        Label words with their leading blank; their order is that of the classes.
    demonstrations : sequence of (text, label)
        In prompt order; each label is an index into ``labels``.

    Raises
    ------
    InputError
        If the architecture is not supported, the tokenizer gives no character offsets, the
        template lacks a placeholder, or a label is none.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerFast,
        template: str,
        labels: Sequence[str],
        demonstrations: Sequence[tuple[str, int]],
    ) -> None:
        check_architecture(_NAME, model.config)
        check_wording(_NAME, template, labels)
        if not tokenizer.is_fast:
            raise InputError("the tokenizer gives no character offsets; load a fast one.")
        model.set_attn_implementation(implementation_for(model.config))
        adopt(model)
        self.model = model.eval().requires_grad_(False)
        self.labels = tuple(labels)
        self.demonstrations = tuple(demonstrations)
        if not self.demonstrations:
            raise InputError("there are no demonstrations; give at least one.")
        self._check_labels([label for _, label in self.demonstrations])
        self.template = template
        self._tokenizer = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def fit(
        self,
        texts: Sequence[str],
        labels: Sequence[int],
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
            Texts in one step; all at once with 0.
        seed : int
            Of the order in which texts are passed.
        batch_tokens : int
            Upper bound of tokens per batch, before the fit runs one token per text.

        Raises
        ------
        InputError
            If a label is none, a prompt exceeds the model's context, two label words begin with the
            same token, or the loss is no longer finite.
        """
        self._check_labels(labels)
        descent = Descent(learning_rate, epochs, batch_size)
        prompts = self._prompts(texts, labels)
        prefix = compute_prefix(self.model, shared_token_ids(prompts))
        training = keep_together(self.model, prompts, prefix, batch_tokens)
        beta, _ = descent.fit(self.model, training, np.random.default_rng(seed))
        return FittedWeights(beta, self._purpose(), **vars(descent))

    def predict(
        self,
        texts: Sequence[str],
        weights: FittedWeights | None = None,
        batch_tokens: int = 1024,
    ) -> Array:
        """Label probabilities of each text, [texts, C], with weights β or without.

        Raises
        ------
        InputError
            If a prompt exceeds the model's context, the weights were fitted for something else, or
            a probability is not finite.
        """
        beta: Tensor | None = None
        if weights is not None:
            config = self.model.config.get_text_config()
            shape = (config.num_hidden_layers, config.num_attention_heads, len(self.demonstrations))
            weights.check(self._purpose(), shape)
            beta = weights.beta
        prompts = self._prompts(texts, [NO_LABEL] * len(texts))
        prefix = compute_prefix(self.model, shared_token_ids(prompts))
        probabilities = np.empty((len(texts), len(self.labels)))
        for tokens in keep_all_but_last(self.model, prompts, prefix, batch_tokens):
            reweight = [] if beta is None else [Reweight.last(beta, tokens)]
            probabilities[tokens.examples] = label_probabilities(self.model, tokens, *reweight)
        return probabilities

    def _purpose(self) -> Purpose:
        return Purpose(fingerprint(self.model), self.template, self.labels, self.demonstrations)

    def _check_labels(self, labels: Sequence[int]) -> None:
        for label in labels:
            if label not in range(len(self.labels)):
                raise InputError(
                    f"the label {label!r} is none of 0 to {len(self.labels) - 1}, the indices of "
                    f"the label words {list(self.labels)}; correct it."
                )

    def _prompts(self, texts: Sequence[str], labels: Sequence[int]) -> pl.DataFrame:
        """One row of ``tables.PROMPTS`` per text, in their order."""
        if isinstance(texts, str):
            raise InputError("texts is a single string; give a list of texts.")
        if len(texts) == 0:
            raise InputError("there are no texts; give at least one.")
        if len(texts) != len(labels):
            raise InputError(
                f"there are {len(labels)} labels for {len(texts)} texts; give as many."
            )
        samples = pl.DataFrame(
            [
                {
                    "task": _NAME,
                    "seed": 0,
                    "demonstrations": "fixed",
                    "example": example,
                    "text": text,
                    "label": label,
                    "demonstration_rows": [],
                    "demonstration_texts": [text for text, _ in self.demonstrations],
                    "demonstration_labels": [label for _, label in self.demonstrations],
                }
                for example, (text, label) in enumerate(zip(texts, labels, strict=True))
            ],
            schema=frame_schema(SAMPLES),
        )
        context = context_of(self.model.config.get_text_config())
        prompts = build_prompts(
            samples, self._tokenizer, Template.parse(self.template), self.labels, _NAME, context
        )
        too_long = prompts.filter(pl.col("skipped").is_not_null())
        if not too_long.is_empty():
            example, reason = too_long.select("example", "skipped").row(0)
            raise InputError(
                f"text {example}: its prompt's {reason}; shorten it, or give fewer demonstrations."
            )
        return runnable(prompts, "fixed")


_NAME = "classifier"  # in error sentences, for model and task
