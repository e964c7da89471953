"""Prompts as token ids, with every position known by construction.

A prompt consists of an instruction, if any, the demonstrations, and the query, which ends where its
label word would follow; a separator, by default a newline, is between them. The whole is tokenized
at once; the character offsets of each token then determine the segment it belongs to. Token ids are
never searched for, so texts may contain anything, including the template's own words and label
words.

In the chat format, the model's chat template writes what is between demonstrations instead, see
:mod:`anchorflow.prepare.chat`.
"""

import json
import logging
import re
import string
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations, takewhile
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from anchorflow.config.cells import labels_key, task_of, words_of
from anchorflow.config.errors import InputError
from anchorflow.config.fields import FIELD_SEPARATOR, TEXT
from anchorflow.model.tokenizer import open_tokenizer, read_architecture
from anchorflow.prepare.chat import Chat, Segment
from anchorflow.prepare.random_words import UNKNOWN, blank_of, words_in_order
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.prompts import PROMPTS

SEPARATOR = "\n"  # between demonstrations, if the task names no other

Shown = tuple[Sequence[tuple[str, str]], str]  # demonstrations (text and label word) and the query

log = logging.getLogger(__name__)


class Encoding(Protocol):
    """A tokenized text."""

    @property
    def ids(self) -> list[int]:
        """Token ids, including special tokens such as BOS."""

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """First character of each token and the character after its last; equal if it has none."""


class Tokenizer(Protocol):
    """What is needed of a tokenizer, such as ``tokenizers.Tokenizer`` or a stub in a test."""

    @property
    def encode(self) -> Callable[..., Encoding]:
        """Tokenize a text, without truncation; ``add_special_tokens=False`` adds no BOS."""


@dataclass(frozen=True)
class Template:
    """The wording of prompts: what is around the fields of a text, and around demonstrations."""

    pieces: tuple[tuple[str, str], ...]  # ("template", characters) and ("field", name), in turn
    fields: tuple[str, ...] = (TEXT,)  # in the order in which a text joins them
    instruction: str = ""  # before the first demonstration, followed by the separator
    separator: str = SEPARATOR
    chat: Chat | None = None  # writes what is around demonstrations, instead of the separator
    answer: str = ""  # in a chat, what every answer begins with

    @classmethod
    def parse(
        cls,
        template: str,
        fields: Sequence[str] = (TEXT,),
        instruction: str = "",
        separator: str = SEPARATOR,
        chat: Chat | None = None,
    ) -> "Template":
        r"""Split ``"Review: {text}\nSentiment:{label}"`` at its placeholders.

        Parameters
        ----------
        fields : sequence of str
            Names of the placeholders other than ``{label}``.
        """
        placeholder = rf"\{{({'|'.join(map(re.escape, fields))})\}}"
        parts = re.split(placeholder, template.removesuffix("{label}"))
        pieces = (("field" if i % 2 else "template", part) for i, part in enumerate(parts))
        return cls(tuple(pieces), tuple(fields), instruction, separator, chat)

    @property
    def field_names(self) -> list[str]:
        """The fields in the order of the prompt."""
        return [name for kind, name in self.pieces if kind == "field"]

    def segments(self, text: str) -> list[Segment]:
        """The segments of a demonstration before its label word, which are those of a query."""
        contents = dict(zip(self.fields, self.contents(text), strict=True))
        return [(kind, contents[part] if kind == "field" else part) for kind, part in self.pieces]

    def lengthened(self, ending: str) -> "Template":
        """The template with more characters before the label word."""
        if self.chat:
            return replace(self, answer=self.answer + ending)
        *before, (kind, last) = self.pieces
        return replace(self, pieces=(*before, (kind, last + ending)))

    def contents(self, text: str) -> list[str]:
        """The contents of a text's fields; a single field may contain the separator itself."""
        return text.split(FIELD_SEPARATOR) if len(self.fields) > 1 else [text]

    def compose(self, prompts: Sequence[Shown], where: Sequence[str] = ()) -> list[list[Segment]]:
        """The segments of prompts, of which each joins to a whole prompt.

        Parameters
        ----------
        prompts : sequence of (demonstrations, query)
            As in :func:`build_prompt`.
        where : sequence of str
            What each prompt is of, such as ``test text 3``, for error sentences.

        Raises
        ------
        InputError
            If the chat template alters contents.
        """
        told = [("instruction", self.instruction)] if self.instruction else []
        if self.chat:
            turns = [
                self.chat.turns(
                    [(self.segments(text), ("label", word)) for text, word in demonstrations],
                    self.segments(query),
                    told[0] if told else None,
                    self.answer,
                )
                for demonstrations, query in prompts
            ]
            return self.chat.wrap_all(turns, where, self.answer)
        between = ("separator", self.separator)
        composed = []
        for demonstrations, query in prompts:
            segments = [*told, between] if told else []
            for text, word in demonstrations:
                segments += [*self.segments(text), ("label", word), between]
            composed.append([*segments, *self.segments(query)])
        return composed

    def alike(self, content: str) -> str:
        """The text in which every field has the same content."""
        return FIELD_SEPARATOR.join([content] * len(self.fields))


@dataclass(frozen=True)
class Prompt:
    """One tokenized prompt; all positions are token indices into ``token_ids``."""

    token_ids: list[int]
    label_positions: list[int]
    label_ends: list[int]
    target_position: int
    format_positions: list[int]
    demonstration_starts: list[int]
    demonstration_ends: list[int]
    query_start: int
    instruction_end: int | None
    field_names: list[str]
    field_starts: list[int]
    field_ends: list[int]


class PromptError(InputError):
    """A prompt in which a label word has no tokens of its own."""


_CONTENTS = ("field", "label", "instruction")  # kinds of segments that are no formatting


@dataclass
class _Text:
    """A text under construction, with the character span of each segment."""

    text: str = ""
    spans: list[tuple[str, int, int]] = field(default_factory=list)

    def add(self, *segments: Segment) -> None:
        for kind, segment in segments:
            self.spans.append((kind, len(self.text), len(self.text) + len(segment)))
            self.text += segment

    def of_kind(self, *kinds: str) -> list[int]:
        """Indices of the segments of these kinds."""
        return [index for index, (found, _, _) in enumerate(self.spans) if found in kinds]

    def segments_of(self, offsets: Sequence[tuple[int, int]]) -> list[range]:
        """Indices of the segments that each token covers; empty for tokens without characters."""
        ends = [last for _, _, last in self.spans]
        return [
            range(bisect_right(ends, first), bisect_right(ends, last - 1) + 1)
            if last > first
            else range(0)
            for first, last in offsets
        ]

    def token_at(self, offsets: Sequence[tuple[int, int]], segment: int, default: int) -> int:
        """The first token of a segment, to which only spaces before it may be merged."""
        start = self.spans[segment][1]
        found = (
            token
            for token, (first, last) in enumerate(offsets)
            if max(first, start) < last and not self.text[first:start].strip(" ")
        )
        return next(found, default)

    def with_blanks(self, offsets: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The offsets, each from the end of the previous token if only spaces are in between.

        Some tokenizers, such as GPT-NeoX's, leave a token's leading spaces out of its offsets.
        """
        whole, reached = [], 0
        for first, last in offsets:
            blank = not self.text[reached:first].strip(" ")
            whole.append((reached if first > reached and blank else first, last))
            reached = max(reached, last)
        return whole


def build_prompt(
    tokenizer: Tokenizer,
    template: Template,
    demonstrations: Sequence[tuple[str, str]],
    query: str,
) -> Prompt:
    """Tokenize demonstrations and query and locate every segment.

    Parameters
    ----------
    demonstrations : sequence of (text, label word)
        In prompt order; the label word includes its leading space. If the template has several
        fields, a text joins them by U+001F.
    query : str
        The test text.

    Returns
    -------
    Prompt
        ``label_positions``: first token of each label word, increasing. ``label_ends``: the token
        after the last one that has a character of the label word. ``target_position``: the last
        token. ``format_positions``: tokens made only of template and separator characters,
        and special tokens such as BOS. ``instruction_end``: the token after the last one that has a
        character of the instruction. ``field_starts``, ``field_ends``: of the fields of each
        demonstration, then of the query, see :func:`_field_spans`.

    Raises
    ------
    InputError
        As :func:`locate` and :meth:`Template.compose`.
    """
    return locate(tokenizer, template, template.compose([(demonstrations, query)])[0])


def locate(
    tokenizer: Tokenizer, template: Template, segments: Sequence[Segment], where: str = ""
) -> Prompt:
    """Tokenize a prompt and locate every segment.

    Parameters
    ----------
    segments : sequence of segments
        The whole prompt, as :meth:`Template.compose` gives it.
    where : str
        What the prompt is of, for error sentences.

    Raises
    ------
    PromptError
        If a label word does not begin with a token of its own or is merged with the whole query, or
        the tokenizer makes no tokens of the prompt or ends it with a special one.
    InputError
        If the tokenizer takes a content for a mark between the turns of a chat.
    """
    whole = _Text()
    whole.add(*segments)
    # A demonstration begins with the template's first piece, and so does the query.
    start_segments = whole.of_kind("template", "field")[:: len(template.pieces)]

    if template.chat:  # the chat template writes BOS itself
        encoding = tokenizer.encode(whole.text, add_special_tokens=False)
        template.chat.check_contents(segments, encoding.ids, encoding.offsets, where)
    else:
        encoding = tokenizer.encode(whole.text)
    offsets = whole.with_blanks(encoding.offsets)
    segments_of = whole.segments_of(offsets)
    if not segments_of:
        raise PromptError(
            f"the tokenizer makes no tokens of {whole.text!r}; choose another template."
        )
    if not segments_of[-1]:
        raise PromptError(
            f"the tokenizer ends every prompt with a special token ({encoding.ids[-1]}), after "
            "which no label word follows; save the tokenizer without it (add_eos_token=False)."
        )
    begins_in = [min(covered, default=None) for covered in segments_of]
    label_segments = whole.of_kind("label")
    for segment in label_segments:
        _, first, last = whole.spans[segment]
        if any(begin < first < end for begin, end in offsets) or segment not in begins_in:
            raise PromptError(
                f"the label word {whole.text[first:last]!r} is merged with what precedes it into "
                "one token; begin it with a space, or end the template with a colon."
            )
    last = len(offsets) - 1  # also the start of an empty query that is merged with the separator
    if label_segments and label_segments[-1] in segments_of[last]:
        _, first, end = whole.spans[label_segments[-1]]
        raise PromptError(
            f"the label word {whole.text[first:end]!r} is merged with the query after it into one "
            "token; choose another separator."
        )
    begins = [whole.token_at(offsets, segment, last) for segment in start_segments]
    label_positions = [begins_in.index(segment) for segment in label_segments]
    instructions = {*whole.of_kind("instruction")}
    fields = len(template.fields)
    field_segments = whole.of_kind("field")
    field_spans = [
        span
        for k, (begin, end) in enumerate(zip(begins, [*label_positions, last + 1], strict=True))
        for span in _field_spans(
            segments_of, field_segments[k * fields : (k + 1) * fields], begin, end
        )
    ]
    return Prompt(
        token_ids=list(encoding.ids),
        label_positions=label_positions,
        label_ends=[
            max(t for t, covered in enumerate(segments_of) if segment in covered) + 1
            for segment in label_segments
        ],
        target_position=last,
        format_positions=[
            t
            for t, covered in enumerate(segments_of)
            if not any(whole.spans[s][0] in _CONTENTS for s in covered)
        ],
        demonstration_starts=begins[:-1],
        demonstration_ends=begins[1:],
        query_start=begins[-1],
        instruction_end=max(
            (t + 1 for t, covered in enumerate(segments_of) if instructions & {*covered}), default=0
        )
        if template.instruction
        else None,
        field_names=template.field_names,
        field_starts=[start for start, _ in field_spans],
        field_ends=[end for _, end in field_spans],
    )


def _field_spans(
    segments_of: Sequence[range], fields: Sequence[int], begin: int, end: int
) -> list[tuple[int, int]]:
    """First token of each field of a demonstration, and the token after its last.

    A token that spans several fields belongs to the first of them. A field without tokens is where
    the next field begins, or else at ``end``.

    Parameters
    ----------
    segments_of : sequence of range
        Segments that each token covers.
    fields : sequence of int
        The fields' segments, in prompt order.
    begin, end : int
        First token of the demonstration, and of its label word.
    """
    first_field = [
        next((s for s in segments_of[token] if s in fields), None) for token in range(begin, end)
    ]
    spans: list[tuple[int, int]] = []
    following = end
    for segment in reversed(fields):
        tokens = [begin + t for t, s in enumerate(first_field) if s == segment]
        spans.append((tokens[0], tokens[-1] + 1) if tokens else (following, following))
        following = spans[-1][0]
    return spans[::-1]


class _SameTokenError(InputError):
    """Label words begin with the same token."""


def word_tokens(
    name: str,
    tokenizer: Tokenizer,
    template: Template,
    labels: Sequence[str],
    model: str,
    whole_words: bool = False,
) -> list[list[int]]:
    """All token ids of each label word as the continuation of a prompt, in label order.

    They are those of a demonstration's label word.

    Parameters
    ----------
    name, model : str
        The cell's and the model's name, for the error sentence.
    whole_words : bool
        Whether whole words are scored, so that only whole words have to differ.

    Raises
    ------
    InputError
        If label words begin with the same token, or with ``whole_words`` one word begins another,
        so that one of them can never be predicted.
    """
    found: list[list[int]] = []
    for tokens in _tokens_of(tokenizer, template, labels):
        if isinstance(tokens, PromptError):
            raise InputError(f"{labels_key(name)}: for model {model}, {tokens}")
        found.append(tokens)
    if whole_words:
        _check_no_word_begins_another(name, labels, found, model)
        return found
    alike = _that_begin_alike(labels, found)
    if alike:
        offered = _words_that_differ(tokenizer, template, labels, alike)
        instead = ""
        if offered:
            instead = (
                f"write, for example, labels: {json.dumps(offered)}, with what the data call them "
                "under values, or "
            )
        raise _SameTokenError(
            f"{labels_key(name)}: for model {model}, label words begin with the same token: "
            f'{_listed(alike)}; {instead}set "scoring: whole_word".'
        )
    return found


def _that_begin_alike(labels: Sequence[str], found: Sequence[Sequence[int]]) -> list[list[str]]:
    """The label words that begin with the same token as another one, in groups."""
    by_token: dict[int, list[str]] = {}
    for word, tokens in zip(labels, found, strict=True):
        by_token.setdefault(tokens[0], []).append(word)
    return [words for words in by_token.values() if len(words) > 1]


def _listed(groups: Sequence[Sequence[str]]) -> str:
    return "; ".join(", ".join(f'"{word.strip()}"' for word in words) for words in groups)


def _check_no_word_begins_another(
    name: str, labels: Sequence[str], found: Sequence[Sequence[int]], model: str
) -> None:
    pairs = [
        f'"{labels[longer].strip()}" and "{labels[shorter].strip()}"'
        for shorter, longer in permutations(range(len(labels)), 2)
        if found[longer][: len(found[shorter])] == found[shorter]
    ]
    if pairs:
        raise InputError(
            f"{labels_key(name)}: for model {model}, the first word begins with all tokens of the "
            f"second one in {'; '.join(pairs)}, so whole words cannot tell them apart; choose "
            "others."
        )


def _words_that_differ(
    tokenizer: Tokenizer,
    template: Template,
    labels: Sequence[str],
    alike: Sequence[Sequence[str]],
) -> list[str] | None:
    """Label words to offer in place of those that begin alike; None if none are known to do.

    They are the same words without what those that begin alike share, or else letters.
    """
    shorter: dict[str, str] = {}
    for words in alike:
        parts = [word.strip().split(" ") for word in words]
        shared = sum(
            1 for _ in takewhile(lambda words: len({*words}) == 1, zip(*parts, strict=False))
        )
        shorter |= {
            word: blank_of(word) + " ".join(part[shared:])
            for word, part in zip(words, parts, strict=True)
        }
    blank = blank_of(labels[0])
    letters = [blank + letter for letter in string.ascii_letters.swapcase()[: len(labels)]]
    for offered in ([shorter.get(word, word) for word in labels], letters):
        if len(offered) < len(labels) or not all(word.strip() for word in offered):
            continue
        tokens = list(_tokens_of(tokenizer, template, offered))
        usable = [each for each in tokens if not isinstance(each, PromptError)]
        if len(usable) == len(labels) and not _that_begin_alike(offered, usable):
            return offered
    return None


def token_groups(label_tokens: Sequence[int]) -> list[int]:
    """For each label, the first label whose word begins with the same token.

    Analyses that follow one token take the labels of a group together, as the first of them.
    """
    first: dict[int, int] = {}
    return [first.setdefault(token, label) for label, token in enumerate(label_tokens)]


def taken_together(prompts: pl.DataFrame) -> pl.DataFrame:
    """The prompts as an analysis that follows one token sees them, see :func:`token_groups`.

    ``label`` and ``demonstration_labels`` of labels that are taken together are the same. Where all
    first tokens differ, nothing changes.

    Parameters
    ----------
    prompts : DataFrame
        ``PROMPTS`` of one model and task.
    """
    if prompts.is_empty():
        return prompts
    first = dict(enumerate(token_groups(prompts["label_tokens"][0])))
    return prompts.with_columns(
        pl.col("label").replace(first),
        pl.col("demonstration_labels").list.eval(pl.element().replace(first)),
    )


def _warn_of_what_follows(
    name: str, tokenizer: Tokenizer, template: Template, words: Mapping[str, list[int]], model: str
) -> None:
    """Warn of label words that have other tokens at the end of a text than before a newline."""
    for word, tokens in words.items():
        segments = template.compose([([(template.alike("x"), word)], template.alike("x"))])[0]
        place = next(k for k, (kind, _) in enumerate(segments) if kind == "label")
        alone = tokenizer.encode("".join(text for _, text in segments[: place + 1])).ids
        if list(alone[-len(tokens) :]) != tokens:
            log.warning(
                '%s: for model %s, the tokens of "%s" take in what follows it, and so does its '
                "score as a whole word; a label word that does not end with punctuation avoids it.",
                labels_key(name),
                model,
                word.strip(),
            )


def _tokens_of(
    tokenizer: Tokenizer, template: Template, words: Sequence[str]
) -> Iterator[list[int] | PromptError]:
    """The token ids of each word as a demonstration's label word, or why it has none of its own."""
    any_text = template.alike("x")
    for segments in template.compose([([(any_text, word)], any_text) for word in words]):
        try:
            prompt = locate(tokenizer, template, segments)
        except PromptError as error:
            yield error
        else:
            yield prompt.token_ids[prompt.label_positions[0] : prompt.label_ends[0]]


def drawn_label_words(
    cell: str, seed: int, tokenizer: Tokenizer, template: Template, own: Sequence[str], model: str
) -> list[str]:
    """Label words of one token each, drawn at random, in place of a task's own.

    Candidates are ``random_words.WORDS``, written as the task's own words are, in an order that the
    seed and the cell draw; the first ones that are one token for the model, which is no other
    word's, are taken. So models whose tokenizers know the same words get the same ones.

    Parameters
    ----------
    cell : str
        A task with words that are drawn, such as ``reviews+random``.
    own : sequence of str
        The task's own label words.

    Raises
    ------
    InputError
        If the vocabulary has too few of them.

    Source: after Min et al. 2022, "Rethinking the Role of Demonstrations", in which random English
    words stand for labels.
    """
    candidates = words_in_order(cell, seed, own)
    # What the tokenizer does not know can be one token too, the same for every unknown word.
    found = list(_tokens_of(tokenizer, template, [*candidates, blank_of(own[0]) + UNKNOWN]))
    shared = Counter(tuple(tokens) for tokens in found if not isinstance(tokens, PromptError))
    usable = [
        word
        for word, tokens in zip(candidates, found[:-1], strict=True)
        if not isinstance(tokens, PromptError) and len(tokens) == 1 and shared[tuple(tokens)] == 1
    ]
    if len(usable) < len(own):
        raise InputError(
            f"tasks.{task_of(cell)}.random_words: {len(own)} words are to be drawn, but of the "
            f"{len(candidates)} candidates {len(usable)} are one token for model {model}; leave "
            f'"{words_of(cell)}" out, or choose words yourself under label_words.'
        )
    return usable[: len(own)]


def label_tokens(
    name: str, tokenizer: Tokenizer, template: Template, labels: Sequence[str], model: str
) -> list[int]:
    """First token id of each label word, of :func:`word_tokens`, in label order.

    Raises
    ------
    InputError
        If two label words begin with the same token.
    """
    return [word[0] for word in word_tokens(name, tokenizer, template, labels, model)]


def with_distinct_labels(
    name: str,
    tokenizer: Tokenizer,
    template: Template,
    labels: Sequence[str],
    model: str,
    whole_words: bool = False,
) -> tuple[Template, list[str]]:
    """The template and label words after what all label words begin with became template.

    Of " very positive" and " very negative", " very" precedes every label word and ends the query,
    so that the target is followed by " positive" or " negative". Prompts remain the same text, but
    for the end of the query. Label words whose first tokens differ remain as they are.

    Parameters
    ----------
    name, model : str
        The cell's and the model's name, for the error sentence.
    whole_words : bool
        Whether whole words are scored, so that some may begin alike and remain as they are.

    Raises
    ------
    InputError
        If some label words begin with the same token and have no such beginning, or the query's
        end would be tokenized otherwise than in demonstrations; with ``whole_words``, if all begin
        with the same token even so.
    """
    try:
        label_tokens(name, tokenizer, template, labels, model)
        return template, list(labels)
    except _SameTokenError as error:
        refusal = error
    wordings: dict[int, tuple[Template, list[str]]] = {}  # by the number of different first tokens
    if whole_words:
        words = word_tokens(name, tokenizer, template, labels, model, whole_words)
        wordings[len({tokens[0] for tokens in words})] = template, list(labels)
    for cut in range(1, min(map(len, labels))):
        beginnings = {word[:cut] for word in labels}
        if len(beginnings) > 1:
            break
        longer = template.lengthened(beginnings.pop())
        rest = [word[cut:] for word in labels]
        try:
            words = word_tokens(name, tokenizer, longer, rest, model, whole_words)
        except InputError:  # the cut is within a token, or the same token follows
            continue
        pairs = zip(labels, rest, strict=True)
        if all(_ends_alike(tokenizer, template, longer, *pair) for pair in pairs):
            wordings.setdefault(len({tokens[0] for tokens in words}), (longer, rest))
    apart = max(wordings, default=0)
    if apart > 1:
        return wordings[apart]
    if whole_words:
        raise InputError(
            f"{labels_key(name)}: for model {model}, all label words begin with the same token, "
            "which tells no label from another; choose others for some of them."
        )
    raise refusal


def _ends_alike(
    tokenizer: Tokenizer, template: Template, longer: Template, word: str, rest: str
) -> bool:
    """Whether what was added to a template is the same tokens in a demonstration and a query."""
    any_text = template.alike("x")
    before = build_prompt(tokenizer, template, [(any_text, word)], any_text)
    after = build_prompt(tokenizer, longer, [(any_text, rest)], any_text)
    end, target = after.label_positions[0], after.target_position
    moved = end - before.label_positions[0]
    return after.token_ids[end - moved : end] == after.token_ids[target + 1 - moved : target + 1]


def build_prompts(
    samples: pl.DataFrame,
    tokenizer: Tokenizer,
    template: Template,
    labels: Sequence[str],
    model: str,
    context: int,
    task: str | None = None,
    whole_words: bool = False,
) -> pl.DataFrame:
    """Tokenize every sampled prompt of one task and seed for one model.

    What all label words begin with is part of the template, see :func:`with_distinct_labels`. A
    prompt is never truncated; one that is longer than the model's context of ``context`` tokens
    is kept as a row with the reason in ``skipped``.

    Parameters
    ----------
    task : str, optional
        Name of the prompts' task, if ``labels`` are not the words of the samples' own task.
    whole_words : bool
        Whether whole label words are scored; else their first tokens must differ.

    Returns
    -------
    DataFrame
        Columns of ``PROMPTS``, in the samples' order.

    Raises
    ------
    InputError
        If the label words can't be told apart by one token.
    """
    task = task or str(samples["task"][0])
    template, labels = with_distinct_labels(task, tokenizer, template, labels, model, whole_words)
    words = word_tokens(task, tokenizer, template, labels, model, whole_words)
    alike = _that_begin_alike(labels, words)
    if alike:
        log.warning(
            "%s: for model %s, label words begin with the same token: %s. They are predicted as "
            "whole words; analyses that follow one token, such as saliency, AUCROC and kernel "
            "regression, take them together.",
            labels_key(task),
            model,
            _listed(alike),
        )
    if not template.chat:  # where a mark follows
        known = dict(zip(labels, words, strict=True))
        _warn_of_what_follows(task, tokenizer, template, known, model)
    shown: list[Shown] = []
    for texts, of_texts, query in samples.select(
        "demonstration_texts", "demonstration_labels", "text"
    ).iter_rows():
        shown.append((list(zip(texts, (labels[label] for label in of_texts), strict=True)), query))
    where = [f"test text {example}" for example in samples["example"]]
    rows = []
    for sample, segments, place in zip(
        samples.iter_rows(named=True), template.compose(shown, where), where, strict=True
    ):
        try:
            prompt = locate(tokenizer, template, segments, place)
        except PromptError as error:
            raise InputError(
                f"{labels_key(task)}: for model {model} and {place}, {error}"
            ) from None
        length = len(prompt.token_ids)
        rows.append(
            {
                "model": model,
                "task": task,
                **{key: sample[key] for key in ("seed", "demonstrations", "example", "label")},
                "tokens": length,
                "skipped": f"{length} tokens exceed the context of {context}"
                if length > context
                else None,
                "context": context,
                **vars(prompt),
                "demonstration_labels": sample["demonstration_labels"],
                "label_tokens": [word[0] for word in words],
                "word_tokens": words,
            }
        )
    return pl.DataFrame(rows, schema=frame_schema(PROMPTS))


@dataclass(frozen=True)
class PromptBuilder:
    """Turns samples of one task into prompts for one model; see :func:`build_prompts`."""

    tokenizer: Tokenizer
    template: Template
    labels: Sequence[str]
    model: str
    context: int
    task: str | None = None
    whole_words: bool = True

    @classmethod
    def open(
        cls,
        folder: str | Path,
        wording: Mapping[str, Any],
        model: str,
        task: str | None = None,
        whole_words: bool = True,
    ) -> "PromptBuilder":
        """Open the tokenizer in a resolved folder, for the wording of a task.

        Parameters
        ----------
        wording : mapping
            ``template``, ``fields``, ``instruction``, ``separator``, ``labels``, and ``chat``, the
            configuration key that asks for the chat format, if any; for words that are drawn,
            also ``drawn``, the cell and the seed, see :func:`drawn_label_words`.
        whole_words : bool
            Whether label words may begin alike, for which only whole words are scored.

        Raises
        ------
        InputError
            If words can't be drawn.
        """
        parts = {name: wording[name] for name in ("fields", "instruction", "separator")}
        chat = Chat.open(folder, wording["chat"], model) if wording["chat"] else None
        tokenizer = open_tokenizer(folder)
        template = Template.parse(wording["template"], **parts, chat=chat)
        labels: Sequence[str] = wording["labels"]
        if "drawn" in wording:
            cell, seed = wording["drawn"]
            labels = drawn_label_words(cell, seed, tokenizer, template, labels, model)
        return cls(
            tokenizer,
            template,
            labels,
            model,
            read_architecture(folder)["context"],
            task,
            whole_words,
        )

    def build(self, samples: pl.DataFrame) -> pl.DataFrame:
        """The samples' prompts, with the columns of ``PROMPTS``."""
        wording = (self.tokenizer, self.template, self.labels)
        return build_prompts(
            samples, *wording, self.model, self.context, self.task, self.whole_words
        )


def label_word_positions(prompt: Mapping[str, Any]) -> list[int]:
    """All tokens of the demonstrations' label words, in increasing order.

    Parameters
    ----------
    prompt : mapping
        A row of ``PROMPTS``.
    """
    words = zip(prompt["label_positions"], prompt["label_ends"], strict=True)
    return [t for first, end in words for t in range(first, end)]


def instruction_positions(prompt: Mapping[str, Any]) -> list[int]:
    """Tokens of the instruction, in increasing order; none without one.

    Special tokens before it, and the separator after it, are formatting.

    Parameters
    ----------
    prompt : mapping
        A row of ``PROMPTS``.
    """
    formats = set(prompt["format_positions"])
    return [t for t in range(prompt["instruction_end"] or 0) if t not in formats]


def non_label_positions(prompt: Mapping[str, Any]) -> list[int]:
    """Tokens of the demonstrations that do not belong to a label word, in increasing order.

    Parameters
    ----------
    prompt : mapping
        A row of ``PROMPTS``.
    """
    words = set(label_word_positions(prompt))
    spans = zip(prompt["demonstration_starts"], prompt["demonstration_ends"], strict=True)
    return [t for start, end in spans for t in range(start, end) if t not in words]
