# The labelled texts of each task, from a built-in corpus, local files or the Hub.


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
    return {"train": task["train"], "test": task["test"]}


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


rule read_texts:
    input:
        unpack(text_files),
        code=code_of("read_texts"),
    output:
        "results/texts/{task}.parquet",
    log:
        "logs/read_texts/{task}.log",
    benchmark:
        "results/benchmarks/read_texts/{task}.tsv"
    priority: 20
    threads: 1
    params:
        spec=texts_spec,
    message:
        "Reading and checking the texts of {wildcards.task}"
    script:
        "../scripts/read_texts.py"
