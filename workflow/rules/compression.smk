# Predictions from compressed demonstrations, and what they retain ([A] §3.2, Table 2).

FIGURES += expand(
    "results/figures/retention/{model}.{kind}",
    model=config["models"],
    kind=["pdf", "png"],
)
TABLES += expand("results/tables/retention.{kind}", kind=["csv", "md", "html"])


rule measure_compression:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        training="results/reweighting/{model}/{task}/{seed}/prompts.parquet",
        beta="results/reweighting/{model}/{task}/{seed}/beta.parquet",
        model="results/models/{model}",
        code=code_of("measure_compression"),
    output:
        measured("compression"),
    log:
        f"logs/measure_compression/{PART}.log",
    benchmark:
        f"results/benchmarks/measure_compression/{PART}.tsv"
    priority: 2
    conda:
        "../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        spec=config["compression"],
        reweighting=config["reweighting"],
    message:
        "Compressing the demonstrations of {wildcards.task} for {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
    script:
        "../scripts/measure_compression.py"


rule summarize_retention:
    input:
        compression=cells_of("compression"),
        prompts=cells_of("prompts"),
        code=code_of("summarize_retention"),
    output:
        "results/retention/{model}.parquet",
    log:
        "logs/summarize_retention/{model}.log",
    benchmark:
        "results/benchmarks/summarize_retention/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        statistics=config["statistics"],
    message:
        "Summarizing what compressed prompts retain in {wildcards.model}"
    script:
        "../scripts/summarize_retention.py"


rule draw_retention:
    input:
        retention="results/retention/{model}.parquet",
        code=code_of("draw_retention"),
    output:
        pdf="results/figures/retention/{model}.pdf",
        png=report(
            "results/figures/retention/{model}.png",
            **figure(
                "retention", ANCHORS, "Compressed demonstrations (Table 2 of [A])"
            ),
        ),
    log:
        "logs/draw_retention/{model}.log",
    benchmark:
        "results/benchmarks/draw_retention/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        style=config["figures"],
    message:
        "Drawing what compressed prompts retain in {wildcards.model}"
    script:
        "../scripts/draw_retention.py"


rule tabulate_retention:
    input:
        retention=of_models("retention"),
        code=code_of("tabulate_retention"),
    output:
        csv="results/tables/retention.csv",
        md="results/tables/retention.md",
        html=report(
            "results/tables/retention.html",
            **table(
                "retention", ANCHORS, "Compressed demonstrations (Table 2 of [A])"
            ),
        ),
    log:
        "logs/tabulate_retention.log",
    benchmark:
        "results/benchmarks/tabulate_retention.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    message:
        "Tabulating what compressed prompts retain in all models"
    script:
        "../scripts/tabulate_retention.py"
