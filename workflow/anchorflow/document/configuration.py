"""config/README.md, made from the configuration's schema so that the two can't drift apart.

``make docs`` writes it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from anchorflow.config.configuration import read_schema
from anchorflow.document import ROOT
from anchorflow.document.markdown import markdown_table

SCHEMA_FILE = ROOT / "workflow" / "schemas" / "config.schema.yaml"
README_FILE = ROOT / "config" / "README.md"

_INTRODUCTION = r"""# Configuration

<!-- Made from workflow/schemas/config.schema.yaml by `make docs`. Edit the schema, not this
file. -->

One YAML file describes a run. Without `--configfile` it is `config/config.yaml`; a file given as
`snakemake --configfile my.yaml` takes its place as a whole, so nothing of the default run is mixed
into yours. `snakemake --config test_examples=12` changes one top-level key for one run, of the
default file or of the one given. Every key that is not known, and every value that does not fit,
is refused with one sentence before anything runs. Snakemake reads the file first: it tells a file
that is no UTF-8, or is nested thousands deep, in its own words, and it runs Python code in a file
that says `__use_yte__: true`. So read a configuration file that is not yours before you use it.

Your own model and your own data, in five lines; everything else keeps its default:

```yaml
models:
  my-model: {source: local, path: path/to/model}
tasks:
  my-task: {source: local, train: train.csv, test: test.csv,
            template: "Review: {text}\nSentiment:{label}", labels: [" Negative", " Positive"]}
```

The model is a directory that transformers' `save_pretrained` wrote, in safetensors format. The two
files have the columns `text` and `label`; the label is the label word without its blank, or its
index 0, 1, … Relative paths start at the directory in which `snakemake` runs.

## Several fields, an instruction, another separator

A text may have several fields. `columns` names them and their columns, and the template has a
placeholder for each. An instruction is written before the first demonstration. The separator, a
newline unless the task says otherwise, follows the instruction and each demonstration:

```yaml
tasks:
  entailment:
    source: builtin
    corpus: entailment
    columns: {premise: premise, hypothesis: hypothesis}
    instruction: "Does the hypothesis follow from the premise?"
    separator: "\n\n"
    template: "Premise: {premise}\nHypothesis: {hypothesis}\nAnswer:{label}"
    labels: [" Yes", " No"]
```

```text
Does the hypothesis follow from the premise?

Premise: The bottle was knocked off the shelf and shattered.
Hypothesis: The bottle broke.
Answer: Yes

Premise: …
```

All fields together are the text of a demonstration, except where attention is measured by segment:
there each is a segment of its own. The instruction belongs to no demonstration: flows measure it
by itself, no random token is drawn from it, and every method of compression keeps it in addition to
its budget. The sentence encoder, and the similarity of texts without their template, see the fields
on a line each. In `texts` and `samples`, U+001F joins the fields of a text.

## Chat format

`chat: true`, of a model or of a task, makes conversations of the prompts, through the chat template
that comes with the model. Each demonstration is a turn of the user (the template up to `{label}`)
and an answer of the assistant (the label word); the query ends where the assistant's next answer
begins, after whatever the template writes before an answer that is yet to come, such as Qwen 3's
empty thoughts. An instruction becomes the system's turn, or begins the user's first one where the model
knows no system. What the chat template writes is formatting, like a separator.

```yaml
models:
  my-model: {source: local, path: path/to/instruct-model}
tasks:
  plain: {source: local, train: train.csv, test: test.csv,
          template: "Review: {text}\nSentiment:{label}", labels: [" Negative", " Positive"]}
  chat: {source: local, train: train.csv, test: test.csv, chat: true,
         instruction: "Is the review negative or positive? Answer with one word.",
         template: "{text}{label}", labels: [" Negative", " Positive"]}
```

Blanks at the ends of texts and label words are left out, since many templates trim them. A template
that rewrites, repeats or reorders texts, insists on today's date, or ends where no answer begins is
refused, and so is a text in which the tokenizer would find a mark between turns. A template that has
a date of its own for want of today's, such as Llama 3.2's 26 Jul 2024, writes that one.

## What is rebuilt when a key changes

| change | computed again |
|---|---|
| a model's `source`, `repository`, `revision`, `path`, `files` or `sha256` | that model's tokenizer and weights, and what follows from them |
| a model's `dtype` | that model's weights, and what follows from them; no prompts |
| a model's or a task's `chat` | that model's or task's prompts, and what follows from them |
| a model's `memory` | nothing |
| a task's `source`, `corpus`, `repository`, `subset`, `revision`, `train`, `test`, `columns`, `labels` or `values` | that task's texts, and what follows from them |
| a task's `template`, `instruction` or `separator` | that task's prompts, and what follows from them |
| a model, a task or a seed more or fewer | the new cells, and the summaries, figures and tables that cover them; with `other_task` in `retrieval.choices`, also the retrieval of tasks that then show texts of another one |
| `test_examples`, `demonstrations_per_label` | all samples, and what follows from them; no texts, no weights |
| `scoring`, `word_score` | predictions (with attention), isolation, knock-outs, cutoffs, transplants, re-weighting, compression, retrieval, perturbations, and what follows from them; between the two scorings, also prompts |
| `saliency` | saliency, and what follows from it; information-flow pages |
| a task's `many_demonstrations` | that task's re-weighting and compression, and what follows from them |
| a task's `label_words`, `random_words` | what those of a new or changed name predict, the summary, figure and table of label words, and claims |
| `reweighting` | re-weighting, compression, and what follows from them |
| `compression` | compression, and what follows from it; re-weighting too if `positions` changes or `hidden_anchor` is added or left out |
| `timing` | timings |
| `diagnosis` | key distances, and what follows from them |
| `encoder.path` | all embeddings and rare words, and what follows from them |
| `retrieval` | retrieval, and what follows from it |
| `encoder.temperature` | regressions on embeddings, their figure and table; no embeddings |
| `encoder.further` | further embeddings, if a name or a path changed, and regressions on embeddings, their figure and table |
| `heads` | which head is compared with regressions on embeddings, and which one stands for orders, their figures and tables |
| `orders` | predictions with other orders and draws, and what follows from them |
| `perturbations` | perturbed texts, and what follows from them; no rare words, which are chosen anew for other texts or another `encoder.path` |
| `kernel` | what many demonstrations are shown for, and what follows from it |
| `probes` | probes, and what follows from them |
| `theory` | random worlds, their summary, figure and table; nothing of any model |
| `flow_page` | information-flow pages |
| `controls` | what is measured of new twins or with shuffled labels, and claims; nothing of the models themselves |
| `knockout` | predictions with edges cut, and what follows from them; `draws` and `examples`, saliency of these edges too |
| `faithfulness` | saliency of edges that are cut, and what follows from it |
| `cutoff` | predictions without demonstrations from some layer on, and what follows from them |
| `transplant` | predictions with vectors of other prompts, and what follows from them |
| `isolation` | the predictions under isolation, and what follows from them |
| `compute.examples_per_shard` | attention, saliency, isolation, knockout, faithfulness, cutoff, transplant, compression, retrieval, perturbations and kernel, and what follows from them; nothing after `snakemake --touch`, see below |
| the rest of `compute` | nothing |
| `statistics` | summaries, figures and tables; no model runs |
| `figures` | figures |

The contents of local text files, of the corpora under `data/` and of a local encoder's directory
are watched too. `snakemake -n` lists what a change would run.

With another `compute.examples_per_shard`, files are gathered from other shards, so Snakemake makes
them again. To keep what is finished, run `snakemake --touch` once, with the arguments of the run,
when this key is all that has changed: it takes finished files to be up to date, and makes none.

## How to read the tables below

`<name>` stands for a name of your choice. The default "required" means that the key must be given;
"required for" names the sources that need it; "none" means that the key may be left out and then
has no value.
"""  # noqa: E501


class Row(NamedTuple):
    """One key of the configuration, as the table shows it."""

    key: str
    kind: str
    default: str
    description: str


def configuration_readme(schema: Mapping[str, Any]) -> str:
    """The text of config/README.md: an introduction, then every key of ``schema``.

    Keys at the top level that hold a plain value share one table; each that holds further keys
    has a table of its own.
    """
    plain = {key: part for key, part in schema["properties"].items() if not _is_mapping(part)}
    parts = [_INTRODUCTION]
    for key, part in schema["properties"].items():
        if key not in plain:
            parts += [f"## `{key}`\n", f"{part['description']}\n", _table(_inner_rows(part, key))]
        elif key == next(iter(plain)):
            parts += [
                "## Draws and scoring\n" if len(plain) > 1 else f"## `{key}`\n",
                _table(_row(schema, k, p, k) for k, p in plain.items()),
            ]
    return "\n".join(parts)


def write() -> None:
    """Write config/README.md."""
    README_FILE.write_text(configuration_readme(read_schema(SCHEMA_FILE)), encoding="utf-8")


def _is_mapping(part: Mapping[str, Any]) -> bool:
    return "properties" in part or isinstance(part.get("additionalProperties"), dict)


def _inner_rows(part: Mapping[str, Any], prefix: str) -> Iterator[Row]:
    named = part.get("additionalProperties")
    if isinstance(named, dict):
        pattern = part.get("propertyNames", {}).get("pattern")
        kind = f"mapping; `<name>` matches `{pattern}`" if pattern else "mapping"
        default = "at least one" if part.get("minProperties") else "none"
        description = "One entry; its keys follow."
        if not _is_mapping(named):
            kind, description = kind.replace("mapping", _kind(named), 1), named["description"]
        yield Row(f"{prefix}.<name>", kind, default, description)
        yield from _inner_rows(named, f"{prefix}.<name>")
    for key, inner in part.get("properties", {}).items():
        yield _row(part, key, inner, f"{prefix}.{key}")
        if _is_mapping(inner):
            yield from _inner_rows(inner, f"{prefix}.{key}")


def _row(parent: Mapping[str, Any], key: str, part: Mapping[str, Any], name: str) -> Row:
    return Row(name, _kind(part), _default(parent, key, part), part["description"])


def _kind(part: Mapping[str, Any]) -> str:
    """Type, choices and bounds of a key, in words."""
    if "enum" in part:
        return _either([f"`{choice}`" for choice in part["enum"]])
    if "oneOf" in part:
        return _either([_kind(choice) for choice in part["oneOf"]])
    kind = part["type"]
    if not isinstance(kind, str):
        return _either(kind)
    if kind == "object":
        return "mapping"
    if kind == "array":
        return _list_kind(part)
    words = [kind]
    for bound, sign in (
        ("minimum", "≥"),
        ("exclusiveMinimum", ">"),
        ("maximum", "≤"),
        ("exclusiveMaximum", "<"),
    ):
        if bound in part:
            words.append(f"{sign} {part[bound]}")
    if "pattern" in part:
        words.append(f"matching `{part['pattern']}`")
    return ", ".join(words)


def _list_kind(part: Mapping[str, Any]) -> str:
    least, most = part.get("minItems", 0), part.get("maxItems")
    count = f"{least} " if least == most else f"at least {least} " if least > 1 else ""
    distinct = "distinct " if part.get("uniqueItems") else ""
    return f"list of {count}{distinct}values ({_kind(part['items'])})"


def _default(parent: Mapping[str, Any], key: str, part: Mapping[str, Any]) -> str:
    if "default" in part:
        if part["default"] == {}:
            return "the defaults of its keys"
        return f"`{json.dumps(part['default'], ensure_ascii=False)}`"
    if key in parent.get("required", []):
        return "required"
    sources = [
        rule["if"]["properties"]["source"]["const"]
        for rule in parent.get("allOf", [])
        if key in rule["then"]["required"]
    ]
    if sources:
        return "required for " + " and ".join(f"`{source}`" for source in sources)
    return "none"


def _either(choices: Sequence[str]) -> str:
    """The choices as in "a, b or c"."""
    *most, last = choices
    return f"{', '.join(most)} or {last}" if most else last


def _table(rows: Iterator[Row]) -> str:
    cells = ([f"`{row.key}`", row.kind, row.default, row.description] for row in rows)
    return markdown_table(["key", "type", "default", "description"], cells)
