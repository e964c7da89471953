# The part of the configuration that each rule uses; a changed key rebuilds the rules whose part has it.
# Each part is one builtin dict, since Snakemake compares params without their names.


def text_files(wildcards):
    """Local files are inputs, so that Snakemake tracks them; Hub files are pinned by revision."""
    task = task_settings(wildcards)
    if task["source"] == "hub":
        return {}
    if task["source"] == "builtin":
        corpus = task["corpus"]
        return {
            s: os.path.relpath(REPOSITORY / "data" / f"{corpus}_{s}.csv")
            for s in SPLITS
        }
    found = {s: files_of_texts(f"tasks.{wildcards.task}.{s}", task[s]) for s in SPLITS}
    return {
        s: files if os.path.isdir(task[s]) else files[0] for s, files in found.items()
    }


def texts_spec(wildcards):
    task = task_settings(wildcards)
    keys = (
        "source",
        "repository",
        "subset",
        "revision",
        "train",
        "test",
        "columns",
        "labels",
        "values",
        "quoting",
        "repeated",
        "invisible",
    )
    known = {key: task[key] for key in keys if key in task}
    files = text_files(wildcards).values()
    listed = [f for part in files for f in ([part] if isinstance(part, str) else part)]
    contents = contents_of(listed)
    return {**known, "train_examples": config["train_examples"], "contents": contents}


def samples_spec(wildcards):
    return {
        "labels": task_settings(wildcards)["labels"],
        "test_examples": config["test_examples"],
        "demonstrations_per_label": config["demonstrations_per_label"],
    }


def model_files(wildcards):
    """Files of a model that nothing pins are inputs, so that Snakemake tracks them."""
    return files_of_model(base_of(wildcards.model), model_settings(wildcards))


def files_of_encoder(path):
    """A local encoder's files are inputs, so that Snakemake tracks them; a package's are not."""
    if ":" in path:
        return []
    kinds = ("*.json", "*.txt", "*.model", "*.safetensors")
    return sorted(str(file) for kind in kinds for file in Path(path).rglob(kind))


def encoder_files(wildcards):
    return files_of_encoder(config["encoder"]["path"])


def further_encoder_files(wildcards):
    further = config["encoder"]["further"].values()
    return [file for encoder in further for file in files_of_encoder(encoder["path"])]


def asked(key):
    """The value of a key; refused if it is empty or 0."""
    return configuration.asked(key, config)


def section(name, *without):
    """The settings that an analysis's jobs depend on; refused if it is not asked for.

    Keys to leave out matter to other rules.
    """

    def spec(wildcards):
        if key := ANALYSES[name].asked_for:
            asked(key)
        known = without_texts(name, config).items()
        texts = texts_of(name, config, is_untrained(wildcards.model))
        return {**{k: v for k, v in known if k not in without}, **texts}

    return spec


def further_encoders_spec(wildcards):
    """Paths by name, refused if there is none; temperatures belong to another stage."""
    further = asked("encoder.further")
    paths = {name: encoder["path"] for name, encoder in further.items()}
    return {"paths": paths, "contents": contents_of(further_encoder_files(wildcards))}


def encoder_spec(wildcards):
    """The encoder that embeddings depend on; the temperature belongs to another stage."""
    contents = contents_of(encoder_files(wildcards))
    return {"path": config["encoder"]["path"], "contents": contents}


def source_spec(wildcards):
    """Where a model comes from; its memory, and of what it is a checkpoint, rebuild nothing."""
    settings = model_settings(wildcards)
    kept = {
        key: settings[key]
        for key in settings
        if key not in ("memory", "dtype", "chat", "checkpoint_of")
    }
    return {**kept, "contents": contents_of(model_files(wildcards))}


def weights_spec(wildcards):
    return {**source_spec(wildcards), "dtype": model_settings(wildcards)["dtype"]}


def checkpoints_spec(wildcards):
    """The checkpoints of a training, in order; refused if there is none of this name."""
    known = trainings(config["models"])
    if wildcards.model not in known:
        raise InputError(f"{wildcards.model}: no model has this in checkpoint_of.")
    return checkpoints_of(wildcards.model, known[wildcards.model])


def prompts_spec(wildcards):
    """The wording of prompts, without the files' columns, which affect texts only."""
    task = task_settings(wildcards)
    drawn = configuration.are_drawn(wildcards.task, config)
    return {
        "template": task["template"],
        "fields": list(fields_of(task["columns"])),
        "instruction": task.get("instruction", ""),
        "separator": task["separator"],
        "labels": task["labels"],
        **({"drawn": [wildcards.task, int(wildcards.seed)]} if drawn else {}),
        "chat": chat_key(wildcards),
    }


def chat_key(wildcards):
    """The key that asks for the chat format, for error sentences; None if there is none."""
    if model_settings(wildcards)["chat"]:
        return f"models.{base_of(wildcards.model)}.chat"
    task = task_of(wildcards.task)
    return f"tasks.{task}.chat" if task_settings(wildcards)["chat"] else None


def scoring_spec(wildcards):
    """How label words are scored; ``word_score`` matters for whole words only."""
    keys = ("scoring", "word_score")
    whole = config["scoring"] == "whole_word"
    return {key: config[key] for key in (keys if whole else keys[:1])}


def unless_untrained(path):
    """A file that jobs for untrained twins do not read, since nothing is fitted to twins."""
    return lambda wildcards: (
        [] if is_untrained(wildcards.model) else path.format(**wildcards)
    )


def any_method_declares(constant):
    """Whether a method of compression sets a constant, such as ``REPEATS``."""
    folder, methods = "analyses/compression/methods", config["compression"]["methods"]
    return any(registry.declared(folder, name, constant, False) for name in methods)


def anchors_to_fit():
    """``compression.positions`` if β is also fitted on the anchors alone; None otherwise."""
    compression = config["compression"]
    wanted = "hidden_anchor" in compression["methods"]
    return compression["positions"] if wanted else None


def script_of(name, *modules):
    """The params that choose the script of a rule, and rerun it when its code has changed."""
    return {"script": name, **code_of(name, *modules)}


def prepared(module):
    """The params of a rule that calls a module's ``prepare``, and rerun it when its code has changed."""
    return {
        "script": "prepare",
        "module": module,
        **code_of("prepare", f"{module}.py"),
    }


def analysis(name, *modules):
    """The params of a rule that measures an analysis, and rerun it when its code has changed."""
    measure = f"{folder_of(name)}/measure.py"
    return {
        "script": "measure",
        "analysis": name,
        **code_of("measure", measure, *modules),
    }


def no_goal(wildcards):
    """Refuse to run a rule that only holds what others have in common."""
    raise WorkflowError(
        "This rule only holds what others share; name one of them, or a file that they make."
    )


def entry_modules(folder, names):
    """Files of some entries of a folder of the package, in the form that ``code_of`` takes."""
    return [f"{place(folder, name)}.py" for name in names]


def in_run(presented):
    """Whether the configuration asks for what an analysis presents."""
    with_words = presented.summary and presented.summary.with_words
    return label_word_sets(config) if with_words else listed_at(presented.asked_for)


def seeds_by_stage(stages, null=""):
    """The number of seeds for which each of these stages is measured."""
    return {stage: len(seeds_of(stage, config, null)) for stage in stages}


def named_in_run():
    """The models, tasks, and seeds of the run, as they appear in paths, and its stages.

    Each stage has its number of seeds.
    """
    words = configuration.cells_with_words(config) if label_word_sets(config) else []
    stages = [s.name for s in STAGES.values() if listed_at(s.asked_for)]
    others = [f"summaries/{name}" for name, a in ANALYSES.items() if not in_run(a)]
    return {
        "stage": seeds_by_stage([stage for stage in stages if stage not in others]),
        "model": list(config["models"]),
        "task": list(dict.fromkeys([*config["tasks"], *words])),
        "seed": [str(seed) for seed in config["seeds"]],
    }


def named_in_nulls():
    """The same for untrained twins and for shuffled labels, with the stages measured in them."""
    controls = config["controls"]
    untrained, shuffled = (null_stages(null, controls) for null in NULLS)
    twins = [configuration.twins_of(model, config) for model in config["models"]]
    return [
        {
            **named_in_run(),
            "stage": seeds_by_stage(["models", "prompts", *untrained], "untrained"),
            "model": sum(twins, []),
            "task": list(config["tasks"]),
        },
        {
            **named_in_run(),
            "stage": seeds_by_stage(["prompts", *shuffled], "shuffled"),
            "task": configuration.cells_with_shuffled_labels(config),
        },
    ]


def described_run(wildcards):
    """What the page says of the run beyond its tables."""
    names, (untrained, _) = named_in_run(), named_in_nulls()
    links = {
        name: f"figures/{name}/{{model}}.png" if shown.figure else f"tables/{name}.html"
        for name, shown in PRESENTED.items()
        if shown.path == MODEL and (shown.figure or shown.table) and in_run(shown)
    }
    cells = [*names["task"], *configuration.cells_with_shuffled_labels(config)]
    models = [*names["model"], *untrained["model"]]
    return {
        "models": names["model"],
        "labels": {name: task["labels"] for name, task in config["tasks"].items()},
        "seeds": names["seed"],
        "test_examples": config["test_examples"],
        "demonstrations": config["demonstrations_per_label"],
        "twins": untrained["model"],
        "compared": null_stages("untrained", config["controls"]),
        "figures": links,
        # Parts of the paths of the run's jobs, which say how long these took.
        "names": [*models, *cells, *names["seed"], *SHARDS, WORLDS],
    }
