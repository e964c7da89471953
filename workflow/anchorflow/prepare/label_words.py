"""The tokens of label words: words that begin alike, and words drawn at random.

Random words are drawn from a fixed list rather than a model's vocabulary, so that models whose
tokenizers know the same words get the same ones: the 200 picturable things of Basic English (Ogden
1930), common nouns without a meaning for a task.
"""

import json
import logging
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations, takewhile

import polars as pl

from anchorflow.config.cell_names import labels_key, task_of, words_of
from anchorflow.config.errors import InputError
from anchorflow.model.tokenizer import token_groups
from anchorflow.prepare.template import PromptError, Wording, build_prompt, locate
from anchorflow.random_draws import generator

log = logging.getLogger(__name__)

WORDS = tuple(
    """
    angle ant apple arch arm army baby bag ball band basin basket bath bed bee bell berry bird blade
    board boat bone book boot bottle box boy brain brake branch brick bridge brush bucket bulb
    button cake camera card cart carriage cat chain cheese chest chin church circle clock cloud coat
    collar comb cord cow cup curtain cushion dog door drain drawer dress drop ear egg engine eye
    face farm feather finger fish flag floor fly foot fork fowl frame garden girl glove goat gun
    hair hammer hand hat head heart hook horn horse hospital house island jewel kettle key knee
    knife knot leaf leg library line lip lock map match monkey moon mouth muscle nail neck needle
    nerve net nose nut office orange oven parcel pen pencil picture pig pin pipe plane plate plow
    pocket pot potato prison pump rail rat receipt ring rod roof root sail school scissors screw
    seed sheep shelf ship shirt shoe skin skirt snake sock spade sponge spoon spring square stamp
    star station stem stick stocking stomach store street sun table tail thread throat thumb ticket
    toe tongue tooth town train tray tree trousers umbrella wall watch wheel whip whistle window
    wing wire worm
    """.split()  # noqa: SIM905
)
UNKNOWN = "\U00010000"  # Linear B; has the token of all unknown text, if a tokenizer has one


class _SameTokenError(InputError):
    """Label words begin with the same token."""


def leading_space(word: str) -> str:
    """What a label word has before its first letter."""
    return word[: len(word) - len(word.lstrip())]


def word_tokens(wording: Wording, whole_words: bool = False) -> list[list[int]]:
    """All token ids of each label word as the continuation of a prompt, in label order.

    A demonstration's label word has the same tokens. First tokens have to differ, or with
    ``whole_words`` no word may begin another, so that every label can be predicted.
    """
    key, labels = f"{labels_key(wording.name)}: for model {wording.model}", wording.labels
    found: list[list[int]] = []
    for tokens in _tokens_of(wording, labels):
        if isinstance(tokens, PromptError):
            raise InputError(f"{key}, {tokens}")
        found.append(tokens)
    if whole_words:
        _check_no_word_begins_another(key, labels, found)
        return found
    alike = _that_begin_alike(labels, found)
    if alike:
        offered = _words_that_differ(wording, alike)
        instead = ""
        if offered:
            instead = (
                f"write, for example, labels: {json.dumps(offered)}, with what the data call them "
                "under values, or "
            )
        raise _SameTokenError(
            f"{key}, label words begin with the same token: {_listed(alike)}; {instead}set "
            '"scoring: whole_word".'
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
    key: str, labels: Sequence[str], found: Sequence[Sequence[int]]
) -> None:
    pairs = [
        f'"{labels[longer].strip()}" and "{labels[shorter].strip()}"'
        for shorter, longer in permutations(range(len(labels)), 2)
        if found[longer][: len(found[shorter])] == found[shorter]
    ]
    if pairs:
        raise InputError(
            f"{key}, the first word begins with all tokens of the second one in "
            f"{'; '.join(pairs)}, so scores of whole words can't distinguish them; choose others."
        )


def _words_that_differ(wording: Wording, alike: Sequence[Sequence[str]]) -> list[str] | None:
    """Label words to suggest in place of those that begin alike; None if no suggestion works.

    They are the same words without their common beginning, or else single letters.
    """
    shorter: dict[str, str] = {}
    for words in alike:
        parts = [word.strip().split(" ") for word in words]
        together = takewhile(lambda firsts: len({*firsts}) == 1, zip(*parts, strict=False))
        shared = len(list(together))
        for word, part in zip(words, parts, strict=True):
            shorter[word] = leading_space(word) + " ".join(part[shared:])
    labels = wording.labels
    space = leading_space(labels[0])
    capitals_first = string.ascii_letters.swapcase()
    letters = [space + letter for letter in capitals_first[: len(labels)]]
    for offered in ([shorter.get(word, word) for word in labels], letters):
        if len(offered) < len(labels) or not all(word.strip() for word in offered):
            continue
        found = _tokens_of(wording, offered)
        usable = [tokens for tokens in found if not isinstance(tokens, PromptError)]
        if len(usable) == len(labels) and not _that_begin_alike(offered, usable):
            return offered
    return None


def warn_of_label_words(wording: Wording, words: Sequence[Sequence[int]]) -> None:
    """Warn of label words whose first tokens or whole-word scores require caution.

    They begin with the same token as others, or are tokenized differently at the end of a text than
    before what follows them in a prompt. ``words`` are their token ids, from :func:`word_tokens`.
    """
    name, tokenizer, template, labels, model = wording
    if alike := _that_begin_alike(labels, words):
        log.warning(
            "%s: for model %s, label words begin with the same token: %s. They are predicted as "
            "whole words; analyses of first tokens, such as saliency, AUCROC and kernel "
            "regression, treat them as one label.",
            labels_key(name),
            model,
            _listed(alike),
        )
    if template.chat:  # where a control token follows the label word
        return
    for word, tokens in zip(labels, words, strict=True):
        segments = template.compose([([(template.alike("x"), word)], template.alike("x"))])[0]
        place = next(k for k, (kind, _) in enumerate(segments) if kind == "label")
        alone = tokenizer.encode("".join(text for _, text in segments[: place + 1])).ids
        if list(alone[-len(tokens) :]) != list(tokens):
            log.warning(
                '%s: for model %s, the tokens of "%s" depend on the text after it, and so does its '
                "score as a whole word; a label word that does not end with punctuation avoids it.",
                labels_key(name),
                model,
                word.strip(),
            )


def _tokens_of(wording: Wording, words: Iterable[str]) -> Iterator[list[int] | PromptError]:
    """The token ids of each word as a demonstration's label word, or why it has none of its own."""
    tokenizer, template = wording.tokenizer, wording.template
    any_text = template.alike("x")
    for segments in template.compose([([(any_text, word)], any_text) for word in words]):
        try:
            prompt = locate(tokenizer, template, segments)
        except PromptError as error:
            yield error
        else:
            yield prompt.token_ids[prompt.label_positions[0] : prompt.label_ends[0]]


def words_in_order(cell: str, seed: int, labels: Sequence[str]) -> list[str]:
    """All words but a task's own, in a random order, written as its own words are.

    They begin with the leading space of the labels and, if all of these have one, with a capital.
    Every name of a cell, such as ``reviews+random``, has its own draw.
    """
    capital = all(word.strip()[0].isupper() for word in labels)
    taken = {word.strip().casefold() for word in labels}
    words = [word for word in WORDS if word not in taken]
    random = generator(seed, task_of(cell), "label words", words_of(cell) or "")
    drawn = [words[k] for k in random.permutation(len(words)).tolist()]
    return [leading_space(labels[0]) + (word.capitalize() if capital else word) for word in drawn]


def drawn_label_words(wording: Wording, seed: int) -> list[str]:
    """Label words of one token each, drawn at random, in place of a task's own.

    Candidates are ``WORDS``, written as the task's own words are, in an order that the
    seed and the wording's name, such as ``reviews+random``, draw; the first ones that are one token
    for the model, which is no other word's, are taken. So models whose tokenizers know the same
    words get the same ones.

    Source: after Min et al. 2022, "Rethinking the Role of Demonstrations", in which random English
    words stand for labels.
    """
    cell, labels = wording.name, wording.labels
    candidates = words_in_order(cell, seed, labels)
    # What the tokenizer does not know can be one token too, the same for every unknown word.
    found = list(_tokens_of(wording, [*candidates, leading_space(labels[0]) + UNKNOWN]))
    shared = Counter(tuple(tokens) for tokens in found if not isinstance(tokens, PromptError))
    usable = [
        word
        for word, tokens in zip(candidates, found[:-1], strict=True)
        if not isinstance(tokens, PromptError) and len(tokens) == 1 and shared[tuple(tokens)] == 1
    ]
    if len(usable) < len(labels):
        raise InputError(
            f"tasks.{task_of(cell)}.random_words: {len(labels)} words are to be drawn, but of the "
            f"{len(candidates)} candidates {len(usable)} are one token for model {wording.model}; "
            f'leave "{words_of(cell)}" out, or choose words yourself under label_words.'
        )
    return usable[: len(labels)]


def with_distinct_labels(wording: Wording, whole_words: bool = False) -> Wording:
    """Move the common beginning of all label words into the template.

    With " very positive" and " very negative", " very" precedes every label word and ends the
    query, so that the target is followed by " positive" or " negative". The text of prompts changes
    at the end of the query only. Label words whose first tokens differ remain as they are. Where
    whole words are scored, some may begin alike and remain as they are, but not all.
    """
    try:
        word_tokens(wording)
        return wording
    except _SameTokenError as error:
        refusal = error
    found: dict[int, Wording] = {}  # by the number of different first tokens
    if whole_words:
        words = word_tokens(wording, whole_words)
        found[len({tokens[0] for tokens in words})] = wording
    for cut in range(1, min(map(len, wording.labels))):
        beginnings = {word[:cut] for word in wording.labels}
        if len(beginnings) > 1:
            break
        template = wording.template.lengthened(beginnings.pop())
        longer = wording._replace(template=template, labels=[w[cut:] for w in wording.labels])
        try:
            words = word_tokens(longer, whole_words)
        except InputError:  # the cut is within a token, or the same token follows
            continue
        if _ends_alike(wording, longer):
            found.setdefault(len({tokens[0] for tokens in words}), longer)
    apart = max(found, default=0)
    if apart > 1:
        return found[apart]
    if whole_words:
        raise InputError(
            f"{labels_key(wording.name)}: for model {wording.model}, all label words begin with "
            "the same token, which distinguishes no labels; choose others for some of them."
        )
    raise refusal


def _ends_alike(shorter: Wording, longer: Wording) -> bool:
    """Whether the ending added to a template has the same tokens in a demonstration and a query."""
    any_text = shorter.template.alike("x")
    for word, rest in zip(shorter.labels, longer.labels, strict=True):
        before = build_prompt(shorter.tokenizer, shorter.template, [(any_text, word)], any_text)
        after = build_prompt(shorter.tokenizer, longer.template, [(any_text, rest)], any_text)
        ids, end, target = after.token_ids, after.label_positions[0], after.target_position
        moved = end - before.label_positions[0]
        if ids[end - moved : end] != ids[target + 1 - moved : target + 1]:
            return False
    return True


def taken_together(prompts: pl.DataFrame) -> pl.DataFrame:
    """The prompts for an analysis of first tokens, see :func:`token_groups`.

    In ``label`` and ``demonstration_labels``, the first label of a group stands for all of it. If
    all first tokens differ, nothing changes. The prompts are those of one model and task.
    """
    if prompts.is_empty():
        return prompts
    first = dict(enumerate(token_groups(prompts["label_tokens"][0])))
    return prompts.with_columns(
        pl.col("label").replace(first),
        pl.col("demonstration_labels").list.eval(pl.element().replace(first)),
    )
