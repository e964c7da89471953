"""The configuration: validated against its schema and completed with defaults."""

import difflib
import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import SchemaError, ValidationError

from anchorflow.config.cell_names import OWN, SHUFFLED, cell_name, task_of, twin_name, words_of
from anchorflow.config.checkpoints import check_trainings, with_checkpoints
from anchorflow.config.errors import InputError
from anchorflow.config.look_alikes import INVISIBLE, code_points, spellings
from anchorflow.config.named_files import encoder_folder, files_of_texts
from anchorflow.config.named_models import check_source, files_of_model, write_out
from anchorflow.config.registry import entries, file_of, summary_of
from anchorflow.config.stages import ANALYSES, folder_of
from anchorflow.config.text_fields import TEXT, fields_of

_PLACEHOLDER = re.compile(r"\{([A-Za-z][A-Za-z0-9_]*)\}")
_EXAMPLE = '"Review: {text}\\nSentiment:{label}"'
_EXAMPLE_OF_FIELDS = '"Premise: {premise}\\nHypothesis: {hypothesis}\\nAnswer:{label}"'
_IN_A_FILE = re.compile(r"/|\.(csv|tsv|jsonl?|ndjson|parquet|arrow)\b")
OTHER_TASK = "other_task"  # of retrieval.choices
SEEDS_AND_TEXTS = {
    "seeds": "The first so many seeds of the run; none: all.",
    "examples": "So many test texts of each seed; none: all.",
}
# What names may be, by the last part of their key: they become parts of paths, or placeholders.
_NAME = (
    "can't be a name; use up to {} letters, digits, '.', '_' and '-', beginning with a letter or "
    'digit (and not "{}")'
)
_NAMES = {
    "columns": (
        "can't be a field; use up to 32 letters, digits and '_', beginning with a letter (and not "
        '"before_"), other than "after"'
    ),
    "label_words": _NAME.format(32, OWN),
}
# In C where PyYAML has it, since every run reads the whole schema before it plans.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MOST_SHARDS = 10_000  # per test set; Snakemake plans a job for each one, per cell and stage


def _whole(_: Any, pattern: str, value: Any, __: Any) -> Iterator[ValidationError]:
    """Like ``pattern`` of JSON Schema, but "$" does not match before a trailing newline."""
    if isinstance(value, str) and not re.fullmatch(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


# Python slices and counts only with integers, so 16.0 is not accepted as one.
_Validator = validators.extend(
    Draft202012Validator,
    {"pattern": _whole},
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)


def read_schema(file: str | Path) -> dict[str, Any]:
    """The configuration's schema, with choices that are defined by files of the package filled in.

    For the items of a list, ``x-entries-of`` names a folder in which every file is a choice, and
    ``x-without`` lists choices to leave out. They become an ``enum``, and the description of every
    choice is appended to the list's. ``x-analyses-of-twins`` stands for the analyses that may be
    measured in untrained twins, and ``x-texts`` gives a section the keys ``seeds`` and
    ``examples``. The entry ``x-analyses`` stands for the sections of all analyses, which are in
    ``keys.yaml`` in their folders.
    """
    schema: dict[str, Any] = yaml.load(Path(file).read_text(encoding="utf-8"), LOADER)
    sections: dict[str, Any] = {}
    for name, section in schema["properties"].items():
        sections |= dict(_sections_of_analyses()) if name == "x-analyses" else {name: section}
    schema["properties"] = sections
    _write_out_choices(schema)
    return schema


def _sections_of_analyses() -> Iterator[tuple[str, Any]]:
    for name in ANALYSES:
        keys = file_of(folder_of(name)) / "keys.yaml"
        if keys.is_file():
            try:
                section = yaml.load(keys.read_text(encoding="utf-8"), LOADER)
                Draft202012Validator.check_schema(section)
            except (yaml.YAMLError, SchemaError) as error:
                reason = " ".join(str(error).split("\n\n")[0].split())
                raise InputError(f"{keys}: it is no JSON Schema in YAML: {reason}") from None
            if not isinstance(section, dict) or not isinstance(section.get("properties"), dict):
                raise InputError(f"{keys}: a section needs properties, its keys.")
            yield name, section


def _write_out_choices(part: Any) -> None:
    if isinstance(part, list):
        for inner in part:
            _write_out_choices(inner)
    if not isinstance(part, dict):
        return
    for inner in part.values():
        _write_out_choices(inner)
    if part.pop("x-texts", False):
        part["properties"] |= {
            key: {"description": meaning, "type": "integer", "minimum": 1}
            for key, meaning in SEEDS_AND_TEXTS.items()
        }
    items = part.get("items")
    if isinstance(items, dict) and items.pop("x-analyses-of-twins", False):
        items["enum"] = [name for name, a in ANALYSES.items() if a.measured and a.measured.twins]
    if isinstance(items, dict) and "x-entries-of" in items:
        folder, without = items.pop("x-entries-of"), items.pop("x-without", [])
        meanings = {name: summary_of(folder, name) for name in entries(folder)}
        items["enum"] = [name for name in meanings if name not in without]
        choices = [f"{name}: {meanings[name]}" for name in items["enum"]]
        part["description"] = " ".join([part["description"], *choices])


# Sections and analyses that had other names, and the one key that has moved.
_RENAMED = {"saliency": "flow", "diagnosis": "confusion"}
_MOVED = {"heads.chosen_on": "it is a key of kernel now, so move it there"}


def complete_configuration(config: dict[str, Any], schema_file: str | Path) -> None:
    """Validate ``config`` and fill in the defaults of missing keys, in place."""
    schema = read_schema(schema_file)
    if "models" in config:
        config["models"] = with_checkpoints(config["models"])
    write_out(config.get("models"))
    _validate(config, schema)
    columns = [task.get("columns", {}) for task in config["tasks"].values()]
    named = [of_task for of_task in columns if fields_of(of_task) and TEXT not in of_task]
    _add_defaults(config, schema)
    for of_task in named:
        del of_task[TEXT]
    for section in ("models", "tasks"):
        _check_names(section, list(config[section]))
    for name, model in config["models"].items():
        _check_watched(f"models.{name}.path", model.get("path", ""))
        check_source(f"models.{name}", model)
        for file in files_of_model(name, model):
            _check_watched(f"models.{name}", file)
    check_trainings(config["models"])
    _check_reserved("tasks", config["tasks"], "index.html", "the index of all pages")
    for name, task in config["tasks"].items():
        _check_task(f"tasks.{name}", task)
    _check_encoder("encoder.path", config["encoder"]["path"])
    further = config["encoder"]["further"]
    _check_names("encoder.further", list(further))
    regression = "logistic regression on the embeddings"
    _check_reserved("encoder.further", further, "logistic", regression)
    for name, encoder in further.items():
        _check_encoder(f"encoder.further.{name}.path", encoder["path"])
    check_shown(config["figures"]["tasks"], config["tasks"])
    if config["scoring"] == "first_token" and config["word_score"] != "sum":
        raise InputError(
            f"word_score: {config['word_score']} is for whole words, but scoring is first_token; "
            'set "scoring: whole_word", or leave word_score out.'
        )
    for name, analysis in ANALYSES.items():
        key, (section, _, asks) = analysis.asked_for, analysis.asked_for.partition(".")
        if key and name in config["controls"]["stages"] and not config[section][asks]:
            raise InputError(
                f"controls.stages: {name} is measured in untrained twins where it is measured in "
                f"the model, but {key} lists nothing; list something there, or leave {name} out."
            )
        if analysis.check is not None:
            analysis.check(config)
    examples, per_shard = config["test_examples"], config["compute"]["examples_per_shard"]
    shards = -(-examples // per_shard) if per_shard else 0
    if shards > MOST_SHARDS:
        raise InputError(
            f"compute.examples_per_shard: {per_shard} makes {shards} shards of test_examples "
            f"({examples}), more than {MOST_SHARDS}; choose more examples per shard."
        )


def check_shown(shown: Sequence[str], tasks: Collection[str]) -> None:
    """Refuse a task in ``figures.tasks`` that the run does not have."""
    if lacking := [task for task in shown if task not in tasks]:
        raise InputError(
            f"figures.tasks: {lacking[0]} is not among tasks ({', '.join(tasks)}); correct it, or "
            "leave it out."
        )


def listed(name: str, section: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the model or task called ``name``.

    Refuses a name that is not there with the closest one that is.
    """
    if name not in config[section]:
        nearest = _nearest(name, list(config[section]))
        raise InputError(
            f'{section}: "{name}" is not in the configuration{nearest}; '
            f"it has {', '.join(config[section])}."
        )
    settings: dict[str, Any] = config[section][name]
    return settings


def task_settings(cell: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a cell's task, with the cell's label words as its ``labels``.

    A ``cell`` is a task, or a task with other label words, such as ``reviews+symbols``. With
    shuffled labels, or with words that are drawn at random, it has the task's own words.
    """
    task, words = task_of(cell), words_of(cell)
    settings = listed(task, "tasks", config)
    if words is None or words == SHUFFLED or are_drawn(cell, config):
        return settings
    known: Mapping[str, list[str]] = settings.get("label_words", {})
    if words not in known:
        named = [*known, *settings.get("random_words", [])]
        raise InputError(
            f'tasks.{task}.label_words: "{words}" is not in the configuration'
            f"{_nearest(words, named)}; it has {', '.join(named) or 'none'}."
        )
    return {**settings, "labels": known[words]}


def are_drawn(cell: str, config: Mapping[str, Any]) -> bool:
    """Whether a cell's label words are drawn at random, for each seed and model."""
    return words_of(cell) in listed(task_of(cell), "tasks", config).get("random_words", [])


def label_word_sets(config: Mapping[str, Any]) -> dict[str, dict[str, list[str]]]:
    """Label words by name, the task's own first, for every task that has other label words.

    Those that are drawn at random, which depend on seed and tokenizer, are empty.
    """
    return {
        name: {
            OWN: task["labels"],
            **task.get("label_words", {}),
            **{drawn: [] for drawn in task.get("random_words", [])},
        }
        for name, task in config["tasks"].items()
        if "label_words" in task or "random_words" in task
    }


def cells_with_words(config: Mapping[str, Any]) -> list[str]:
    """The cells of all tasks that have other label words: with their own words, and with others."""
    sets = label_word_sets(config)
    if not sets:
        raise InputError(
            "tasks: none has label_words to compare with its own labels; add some to a task."
        )
    return [cell_name(task, words) for task, named in sets.items() for words in named]


def twins_of(model: str, config: Mapping[str, Any]) -> list[str]:
    """The names of the untrained twins that a model has in the run."""
    controls = config["controls"]
    draws = range(controls["draws"])
    return [twin_name(model, kind, draw) for kind in controls["untrained"] for draw in draws]


def cells_with_shuffled_labels(config: Mapping[str, Any]) -> list[str]:
    """The cells of the run whose demonstrations have shuffled labels, one per task or none."""
    tasks = config["tasks"] if config["controls"]["shuffled_labels"] else ()
    return [cell_name(task, SHUFFLED) for task in tasks]


def another_task(task: str, seed: int, config: Mapping[str, Any]) -> str | None:
    """The other task of the run that a task is compared with; None if there is no other.

    Of all others, it is the one whose name, after seed and task, has the smallest SHA-256. So seeds
    have different other tasks, the order of tasks does not matter, and adding a task changes few
    choices.
    """
    base = task_of(task)
    others = [name for name in config["tasks"] if name != base]
    return min(
        others,
        key=lambda name: hashlib.sha256(f"{seed} {base} {name}".encode()).digest(),
        default=None,
    )


def retrieval_of(task: str, seed: int, config: Mapping[str, Any]) -> dict[str, Any]:
    """How the demonstrations of a task and seed are chosen.

    They are its ``choices``; if ``other_task`` is one of them, also ``other``, with the name of the
    other ``task`` and its ``fields``; see :func:`another_task`.
    """
    spec = {"choices": config["retrieval"]["choices"]}
    if OTHER_TASK not in spec["choices"]:
        return spec
    other = another_task(task, seed, config)
    assert other is not None  # which the check of retrieval refuses
    fields = fields_of(config["tasks"][other]["columns"])
    return {**spec, "other": {"task": other, "fields": list(fields)}}


def asked(key: str, config: Mapping[str, Any]) -> Any:
    """The value of a key whose stages run only if it lists something or is above 0."""
    section, _, asks = key.partition(".")
    value = config[section][asks]
    if not value:
        raise InputError(
            f"{key}: it is {value}, so there is nothing of this kind in the run; "
            "docs/reference/configuration.md says what can be set there."
        )
    return value


def check_section(name: str, given: Mapping[str, Any], schema_file: str | Path) -> None:
    """Check keys and values of one section; raises InputError for the first invalid one."""
    whole = read_schema(schema_file)
    schema = {**whole, "required": [], "properties": {name: whole["properties"][name]}}
    _validate({name: dict(given)}, schema)


def default_settings(schema_file: str | Path) -> dict[str, Any]:
    """All sections with the defaults of their keys, without models and tasks."""
    settings: dict[str, Any] = {}
    _add_defaults(settings, read_schema(schema_file))
    return settings


def _add_defaults(value: Any, schema: Mapping[str, Any]) -> None:
    if not isinstance(value, dict):
        return
    properties = schema.get("properties", {})
    for key, part in properties.items():
        if "default" in part:
            default = part["default"]
            value.setdefault(key, default.copy() if isinstance(default, dict | list) else default)
    # Snakemake compares settings as text, so their order must not depend on the user's file.
    for key in [known for known in properties if known in value]:
        value[key] = value.pop(key)
    for key, item in value.items():
        part = properties.get(key, schema.get("additionalProperties"))
        if isinstance(part, dict):
            _add_defaults(item, part)


def placeholders(template: str) -> list[str]:
    """The names in braces of a template, in order."""
    found: list[str] = _PLACEHOLDER.findall(template)
    return found


def check_wording(
    key: str,
    template: str,
    labels: Sequence[str],
    fields: Sequence[str] = (TEXT,),
    chat: bool = False,
) -> None:
    """Check a task's template and label words.

    Each of the ``fields`` of a text is a placeholder of the template. In the ``chat`` format, a
    query may end with a text.
    """
    single = tuple(fields) == (TEXT,)
    known = {name.lower() for name in (*fields, "label")}
    others = [name for name in placeholders(template) if name.lower() not in known]
    if others and not (single and "{text}" in template):  # else they are plain text
        raise InputError(
            f"{key}.template: {template!r} has {{{others[0]}}}, which is none of the fields "
            f'({", ".join(fields)}); name its column, as in "columns: {{{others[0]}: '
            f'{others[0]}}}", or leave it out.'
        )
    example = _EXAMPLE if single else _EXAMPLE_OF_FIELDS
    for name in (*fields, "label"):
        if template.count(f"{{{name}}}") != 1:
            raise InputError(
                f"{key}.template: {template!r} must contain {{{name}}} exactly once, as in "
                f"{example}."
            )
    last = max(fields, key=lambda name: template.index(f"{{{name}}}"))
    before, _, after = template.partition(f"{{{last}}}")
    if "{label}" in before or not after.endswith("{label}"):
        raise InputError(
            f"{key}.template: {template!r} must end with {{label}}, after {{{last}}}, so that the "
            "query can stop where the label word is to be predicted."
        )
    if after == "{label}" and not chat:
        raise InputError(
            f"{key}.template: {template!r} needs some words between {{{last}}} and {{label}}; the "
            "last of them is the target position."
        )
    _check_words(f"{key}.labels", labels)


def _check_words(key: str, words: Sequence[str]) -> None:
    if len({word.strip() for word in words}) < len(words) or not all(
        word.strip() for word in words
    ):
        raise InputError(
            f"{key}: {words} must be distinct words; spaces alone do not distinguish them."
        )
    _check_looks(key, words)


def _check_looks(key: str, words: Sequence[Any]) -> None:
    """Refuse words that a reader, and a file's author, can't tell apart."""
    first: dict[str, str] = {}
    for word in map(str, words):
        other = first.setdefault(unicodedata.normalize("NFC", INVISIBLE.sub("", word)), word)
        if other != word:
            raise InputError(
                f'{key}: "{other}" and "{word}" look alike; the characters outside ASCII are '
                f"{code_points(other)} and {code_points(word)}; write one of them otherwise."
            )


def _check_names(key: str, names: Sequence[str]) -> None:
    """Names become parts of paths, and some file systems ignore case."""
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(name.lower(), name)
        if other != name:
            raise InputError(
                f'{key}: "{other}" and "{name}" differ only in case, which some file systems '
                "ignore; rename one."
            )


def _check_reserved(key: str, names: Iterable[str], reserved: str, purpose: str) -> None:
    for name in names:
        if name.lower() == reserved:  # some file systems ignore case
            raise InputError(f"{key}: {name!r} is reserved for {purpose}; rename it.")


def _check_watched(key: str, path: str) -> None:
    """Snakemake interprets braces in tracked paths as wildcards."""
    if "{" in path or "}" in path:
        raise InputError(f"{key}: {path!r} has braces, which are not allowed in paths; rename it.")


def _check_encoder(key: str, path: str) -> None:
    _check_watched(key, path)
    if ":" not in path:  # packages are looked up by the Python that runs the job
        encoder_folder(path, key)


def _check_label_column(key: str, columns: Mapping[str, Any]) -> None:
    """A text with its own label in it would be easy to classify."""
    for field in fields_of(columns):
        listed = [columns[field]] if isinstance(columns[field], str) else columns[field]
        if columns["label"] in listed:
            raise InputError(
                f"{key}.columns.{field}: column {columns['label']!r} holds the labels; name a "
                "column of texts."
            )


def _check_task(key: str, task: Mapping[str, Any]) -> None:
    wording = task["template"], task["labels"], fields_of(task["columns"])
    check_wording(key, *wording, chat=task["chat"])
    _check_label_column(key, task["columns"])
    if "instruction" in task and not task["instruction"].strip():
        raise InputError(f"{key}.instruction: it has no words; write some, or leave the key out.")
    named, drawn = list(task.get("label_words", {})), task.get("random_words", [])
    _check_names(f"{key}.label_words", named)
    _check_names(f"{key}.random_words", [*named, *drawn])
    for part, names in (("label_words", named), ("random_words", drawn)):
        _check_reserved(f"{key}.{part}", names, SHUFFLED, "controls.shuffled_labels")
    for name in drawn:
        if name in named:
            raise InputError(
                f"{key}.random_words: {name!r} is a name under label_words too; rename one."
            )
    for name, words in task.get("label_words", {}).items():
        _check_words(f"{key}.label_words.{name}", words)
        if len(words) != len(task["labels"]):
            raise InputError(
                f"{key}.label_words.{name}: {len(words)} words for {len(task['labels'])} labels; "
                "give one word per label, in the same order."
            )
    values = task.get("values")
    if values is not None and len(values) != len(task["labels"]):
        raise InputError(
            f"{key}.values: {len(values)} values for {len(task['labels'])} label words; "
            "give one value per label word, in the same order."
        )
    written = [spelling for value in values or () for spelling in spellings(value)]
    if values is not None and len({*written}) < len(written):
        raise InputError(
            f"{key}.values: {values} are not distinct when compared as text; give each label its "
            "own value."
        )
    _check_looks(f"{key}.values", values or ())
    for split in ("train", "test"):
        if task["source"] == "hub" and _IN_A_FILE.search(task[split]):
            raise InputError(
                f"{key}.{split}: {task[split]!r} is the path of a file; name a split of the data "
                "set, as in train[:5000], or read a copy of the file with source: local."
            )
        if task["source"] == "local":
            for path in files_of_texts(f"{key}.{split}", task[split]):
                _check_watched(f"{key}.{split}", path)


def _validate(given: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Refuse the first invalid key, with its value and what is expected there."""
    errors = sorted(_Validator(schema).iter_errors(given), key=_depth_first)
    if errors:
        raise InputError(_sentence(errors[0], schema))


def _depth_first(error: ValidationError) -> tuple[int, int, str]:
    # Unknown keys come first, since a misspelt key also makes another one missing.
    unknown = error.validator == "additionalProperties"
    return (0 if unknown else 1, -len(error.absolute_path), str(error.absolute_path))


def _sentence(error: ValidationError, schema: Mapping[str, Any]) -> str:
    path = ".".join(str(part) for part in error.absolute_path)
    key = path or "the configuration"
    value: Any = error.instance
    wanted: Any = error.validator_value
    if error.validator == "additionalProperties":
        part: Any = error.schema
        return _of_unknown_key(path, value, list(part.get("properties", {})))
    if error.validator == "required":
        missing = next(name for name in wanted if name not in value)
        return f'{key}: the key "{missing}" is missing; {_description(error, missing, schema)}'
    if "propertyNames" in error.absolute_schema_path and not isinstance(value, str):
        return f"{key}: the name {value!r} is not text; {_quoting(value)}."
    if "propertyNames" in error.absolute_schema_path:
        rule = _NAMES.get(key.rpartition(".")[2], _NAME.format(64, "average"))
        return f"{key}: {value!r} {rule}."
    hint = ""
    if error.validator == "enum" and isinstance(value, str):
        if _RENAMED.get(value) in wanted:
            return f"{key}: {value} is called {_RENAMED[value]} now; rename it."
        hint = _nearest(value, [str(choice) for choice in wanted])
    if error.validator == "type" and "string" in wanted and not isinstance(value, list | dict):
        hint = f" ({_quoting(value)})"
    return f"{key}: {error.message}{hint}; {_description(error, None, schema)}"


def _of_unknown_key(path: str, given: Collection[object], known: Sequence[str]) -> str:
    unknown = sorted(map(str, set(given) - set(known)))[0]
    key = f"{path}.{unknown}" if path else unknown
    if key in _RENAMED:
        return f"{key}: this section is called {_RENAMED[key]} now; rename it."
    if key in _MOVED:
        return f"{key}: {_MOVED[key]}."
    return f"{key}: unknown key{_nearest(unknown, known)}; known here are {', '.join(known)}."


def _quoting(value: Any) -> str:
    return f"YAML reads it as {type(value).__name__}, so put it in quotes"


def _description(error: ValidationError, key: str | None, schema: Mapping[str, Any]) -> str:
    path = [*error.absolute_path, *([key] if key else [])]
    part: Mapping[str, Any] = schema
    for step in path:
        if isinstance(step, int):
            break
        inner = part.get("properties", {}).get(step, part.get("additionalProperties"))
        if not isinstance(inner, dict):
            break
        part = inner
    return str(part.get("description", "see docs/reference/configuration.md."))


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f' (did you mean "{close[0]}"?)' if close else ""
