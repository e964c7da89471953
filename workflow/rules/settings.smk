# Slices of the configuration, one per step; a changed key rebuilds the steps whose slice has it.
# Each slice is one builtin dict, since Snakemake compares params without their names.


def text_files(wildcards):
    """Local files are inputs, so that Snakemake tracks them; Hub files are pinned by revision."""
    task = task_settings(wildcards)
    if task["source"] == "hub":
        return {}
    if task["source"] == "builtin":
        corpus = task["corpus"]
        return {s: os.path.relpath(ROOT / "data" / f"{corpus}_{s}.csv") for s in SPLITS}
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
    )
    return {key: task[key] for key in keys if key in task}


def samples_spec(wildcards):
    return {
        "labels": task_settings(wildcards)["labels"],
        "test_examples": config["test_examples"],
        "demonstrations_per_label": config["demonstrations_per_label"],
    }


def model_files(wildcards):
    """A local model's files are inputs, so that Snakemake tracks them."""
    model = model_settings(wildcards)
    if model["source"] != "local":
        return []
    folder = Path(model["path"])
    kinds = ("*.json", "*.jinja", "*.txt", "*.model", "*.safetensors")
    return sorted(str(path) for kind in kinds for path in folder.glob(kind))


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
    """What the configuration lists at a key, refused if it lists nothing."""
    return configuration.asked(key, config)


def section_if(key):
    """The section of a key, for rules that are refused unless something is listed there."""

    def spec(wildcards):
        asked(key)
        return config[key.partition(".")[0]]

    return spec


def further_encoders_spec(wildcards):
    """Paths by name, refused if there is none; temperatures belong to another stage."""
    further = asked("encoder.further")
    return {name: encoder["path"] for name, encoder in further.items()}


def encoder_spec(wildcards):
    """The encoder that embeddings depend on; the temperature belongs to another stage."""
    return {"path": config["encoder"]["path"]}


def source_spec(wildcards):
    """Where a model comes from; its memory, which only schedulers use, rebuilds nothing."""
    settings = model_settings(wildcards)
    return {
        key: settings[key] for key in settings if key not in ("memory", "dtype", "chat")
    }


def weights_spec(wildcards):
    return {**source_spec(wildcards), "dtype": model_settings(wildcards)["dtype"]}


def prompts_spec(wildcards):
    """The wording of prompts; which columns of the files hold the fields is for the texts."""
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
    """What the stages that score label words score; how matters for whole words only."""
    keys = ("scoring", "word_score")
    whole = config["scoring"] == "whole_word"
    return {key: config[key] for key in (keys if whole else keys[:1])}


def reweighting_task(wildcards):
    """What re-weighting needs of a task to build its additional prompts."""
    task = task_settings(wildcards)
    return {
        **prompts_spec(wildcards),
        "many_demonstrations": task.get("many_demonstrations"),
    }


def unless_untrained(path):
    """A file that untrained twins, to which nothing is fitted, do without."""
    return lambda wildcards: (
        [] if is_untrained(wildcards.model) else path.format(**wildcards)
    )


def anchors_to_fit():
    """Where queries begin after the anchors alone, if β is fitted on these for compression."""
    compression = config["compression"]
    wanted = "hidden_anchor" in compression["methods"]
    return compression["positions"] if wanted else None


def fitted_modules():
    """The file of the method whose positions β is fitted on in addition, if any is."""
    path = "measure/compression_methods/hidden_anchor.py"
    return [path] if anchors_to_fit() else []


def retrieval_spec(wildcards):
    """How demonstrations are chosen, and, if some are of another task, of which."""
    return configuration.retrieval_of(wildcards.task, int(wildcards.seed), config)


def of_other_task(stage):
    """The file of a stage of the task whose texts are also shown, if any are."""

    def file(wildcards):
        other = retrieval_spec(wildcards).get("other")
        return f"results/{stage}/{other['task']}.parquet" if other else []

    return file


def orders_count(wildcards):
    """How many orders there are, and how many draws; refused if there are none."""
    return asked("orders.count")


knockout_spec = section_if("knockout.classes")
cutoff_spec = section_if("cutoff.sees")
transplant_spec = section_if("transplant.places")


def faithfulness_spec(wildcards):
    """The edges whose saliency is compared with cutting them; refused if there are none."""
    asked("faithfulness.classes")
    cut = config["knockout"]
    drawn = {key: cut[key] for key in ("draws", "examples") if key in cut}
    return {**config["faithfulness"], **drawn}


def perturbations_spec(wildcards):
    """Which perturbations are made, with the rates of only those; refused if there are none."""
    kinds, spec = asked("perturbations.kinds"), config["perturbations"]
    rates = {"typos": "typo_rate", "case": "case_rate"}
    strengths = [rate for kind, rate in rates.items() if kind in kinds]
    return {"kinds": kinds, **{rate: spec[rate] for rate in strengths}}


def timed_also():
    """Methods of compression after which queries are timed where they are measured."""
    return [name for name in config["compression"]["methods"] if name == "until_layer"]


def timing_spec(wildcards):
    """How queries are timed, and after which caches beside those of every run."""
    also = timed_also()
    return {**config["timing"], **({"also": also} if also else {})}


def rare_words_of(wildcards):
    """The words that replace a task's content words, if any are to be replaced."""
    wanted = "rare_words" in config["perturbations"]["kinds"]
    return f"results/rare_words/{wildcards.task}.parquet" if wanted else []


def shown_spec(wildcards):
    """Number and protocol of the prompts whose saliency is kept in full."""
    return {
        "examples": config["flow_page"]["examples"],
        "demonstrations": config["saliency"]["demonstrations"],
    }


def page_spec(wildcards):
    """Colors and label words of information-flow pages."""
    return {
        "labels": task_settings(wildcards)["labels"],
        "colors": config["figures"]["colors"],
    }


# Slices for the rules in present.smk, by their names in PRESENTED: mappings whose entries are
# arguments of the functions that summarize and plot.
SLICES = {
    "statistics": config["statistics"],
    "style": {"style": config["figures"]},
    "saliency": config["saliency"],
    "temperature": {"temperature": config["encoder"]["temperature"]},
    "temperatures": {
        "temperature": config["encoder"]["temperature"],
        "encoder": config["encoder"]["path"],
        "further_temperatures": {
            name: encoder["temperature"]
            for name, encoder in config["encoder"]["further"].items()
        },
    },
    "heads": config["heads"],
    "baselines": {"baselines": config["reweighting"]["baselines"]},
    "labels": {
        "labels": {name: task["labels"] for name, task in config["tasks"].items()}
    },
    "label_word_sets": {"words": label_word_sets(config)},
    "words": {
        "words": label_word_sets(config),
        "demonstrations": config["saliency"]["demonstrations"],
        "variant": config["isolation"]["variants"][0],
    },
    "claims": {
        "tasks": list(config["tasks"]),
        "variant": config["isolation"]["variants"][0],
        "words": label_word_sets(config),
    },
    "comparison": {"variant": config["isolation"]["variants"][0]},
}


def script_of(name, *modules):
    """The params that choose the script of a rule, and rerun it when its code has changed."""
    return {"script": name, **code_of(name, *modules)}


def no_goal(wildcards):
    """Refuse to run a rule that only says what others have in common."""
    raise WorkflowError(
        "This rule only has what others share; name one of them, or a file that they make."
    )


def entry_modules(folder, names):
    """Files of some entries of a folder of the package, in the form that ``code_of`` takes."""
    return [f"{folder}/{name}.py" for name in names]


def method_modules():
    """The files of all ways to compress that jobs load."""
    folder = "measure/compression_methods"
    chosen = config["compression"]["methods"]
    return entry_modules(folder, [name for name in entries(folder) if name in chosen])


def baseline_modules():
    """The files of all baselines that jobs load."""
    return entry_modules("measure/baselines", config["reweighting"]["baselines"])


def claim_modules():
    """The files of all claims."""
    return entry_modules("summarize/claims", entries("summarize/claims"))


def named_in_nulls():
    """The same for untrained twins and for shuffled labels, with the stages measured of them."""
    controls = config["controls"]
    untrained, shuffled = (null_stages(null, controls) for null in NULLS)
    twins = [configuration.twins_of(model, config) for model in config["models"]]
    return [
        {
            **named_in_run(),
            "stage": ["models", "prompts", *untrained],
            "model": sum(twins, []),
            "task": list(config["tasks"]),
        },
        {
            **named_in_run(),
            "stage": ["prompts", *shuffled],
            "task": configuration.cells_with_shuffled_labels(config),
        },
    ]


def named_in_run():
    """The models, tasks, and seeds of the run, as they appear in paths."""
    words = configuration.cells_with_words(config) if label_word_sets(config) else []
    return {
        "model": list(config["models"]),
        "task": list(dict.fromkeys([*config["tasks"], *words])),
        "seed": [str(seed) for seed in config["seeds"]],
    }
