# Slices of the configuration, one per step. What is in a slice decides what a changed key rebuilds.
# Each is one builtin dict, since Snakemake compares params without their names.


def text_files(wildcards):
    """Local files are inputs, so that Snakemake watches them; the Hub's are pinned by revision."""
    task = task_settings(wildcards)
    if task["source"] == "hub":
        return {}
    if task["source"] == "builtin":
        corpus = task["corpus"]
        return {
            s: os.path.relpath(ROOT / "data" / f"{corpus}_{s}.csv")
            for s in ("train", "test")
        }
    return {s: str(Path(task[s])) for s in ("train", "test")}


def texts_spec(wildcards):
    task = task_settings(wildcards)
    keys = (
        "source",
        "repository",
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
    """A local model's files are inputs, so that Snakemake watches them."""
    model = model_settings(wildcards)
    if model["source"] != "local":
        return []
    folder = Path(model["path"])
    kinds = ("*.json", "*.model", "*.safetensors")
    return sorted(str(path) for kind in kinds for path in folder.glob(kind))


def encoder_files(wildcards):
    """A local encoder's files are inputs, so that Snakemake watches them; a package's are not."""
    path = config["encoder"]["path"]
    if ":" in path:
        return []
    kinds = ("*.json", "*.txt", "*.model", "*.safetensors")
    return sorted(str(file) for kind in kinds for file in Path(path).rglob(kind))


def encoder_spec(wildcards):
    """What embeddings depend on; how they are compared is another stage's."""
    return {"path": config["encoder"]["path"]}


def source_spec(wildcards):
    """Where a model comes from; what its jobs ask of the scheduler rebuilds nothing."""
    settings = model_settings(wildcards)
    return {key: settings[key] for key in settings if key not in ("memory", "dtype")}


def weights_spec(wildcards):
    return {**source_spec(wildcards), "dtype": model_settings(wildcards)["dtype"]}


def prompts_spec(wildcards):
    task = task_settings(wildcards)
    return {"template": task["template"], "labels": task["labels"]}


def reweighting_task(wildcards):
    """What re-weighting needs of a task beside its test prompts: it makes further ones."""
    task = task_settings(wildcards)
    return {
        **prompts_spec(wildcards),
        "many_demonstrations": task.get("many_demonstrations"),
    }


def words_spec(wildcards):
    """What the comparison of label words depends on, beside the cells themselves."""
    return {
        "words": label_word_sets(config),
        "demonstrations": config["saliency"]["demonstrations"],
        "variant": config["isolation"]["variants"][0],
    }


def claims_spec(wildcards):
    """What the claims depend on, beside the cells themselves."""
    return {
        "tasks": list(config["tasks"]),
        "variant": config["isolation"]["variants"][0],
    }


def shown_spec(wildcards):
    """Which prompts' saliency is kept in full, those of stage saliency."""
    return {
        "examples": config["flow_page"]["examples"],
        "demonstrations": config["saliency"]["demonstrations"],
    }


def page_spec(wildcards):
    """Looks of information-flow pages, and the label words that they name."""
    return {
        "labels": task_settings(wildcards)["labels"],
        "colors": config["figures"]["colors"],
    }


def label_words(wildcards):
    """Label words of every task, as figures name them."""
    return {name: task["labels"] for name, task in config["tasks"].items()}


def named_in_run():
    """The models, tasks and seeds of the run, as they stand in its paths."""
    words = configuration.cells_with_words(config) if label_word_sets(config) else []
    return {
        "model": list(config["models"]),
        "task": list(dict.fromkeys([*config["tasks"], *words])),
        "seed": [str(seed) for seed in config["seeds"]],
    }
