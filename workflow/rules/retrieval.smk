# Predictions with the nearest training texts as demonstrations, against random ones ([K] §5).

FIGURES += expand(
    "results/figures/neighbors/{model}.{kind}",
    model=config["models"],
    kind=["pdf", "png"],
)
TABLES += expand("results/tables/neighbors.{kind}", kind=["csv", "md", "html"])


rule measure_retrieval:
    input:
        texts="results/texts/{task}.parquet",
        samples="results/samples/{task}/{seed}.parquet",
        embeddings="results/embeddings/{task}.parquet",
        tokenizer="results/tokenizers/{model}",
        predictions="results/predictions/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
        code=code_of("measure_retrieval"),
    output:
        samples=measured("retrieval", "samples"),
        prompts=measured("retrieval", "prompts"),
        predictions=measured("retrieval", "predictions"),
    log:
        f"logs/measure_retrieval/{PART}.log",
    benchmark:
        f"results/benchmarks/measure_retrieval/{PART}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        spec=config["retrieval"],
        task=prompts_spec,
    message:
        "Predicting with the nearest demonstrations of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
    script:
        "../scripts/measure_retrieval.py"


rule summarize_neighbors:
    input:
        predictions=cells_of("retrieval", "predictions"),
        retrieved=cells_of("retrieval", "prompts"),
        prompts=cells_of("prompts"),
        code=code_of("summarize_neighbors"),
    output:
        "results/neighbors/{model}.parquet",
    log:
        "logs/summarize_neighbors/{model}.log",
    benchmark:
        "results/benchmarks/summarize_neighbors/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        statistics=config["statistics"],
    message:
        "Summarizing what similar demonstrations gain in {wildcards.model}"
    script:
        "../scripts/summarize_neighbors.py"


rule draw_neighbors:
    input:
        neighbors="results/neighbors/{model}.parquet",
        code=code_of("draw_neighbors"),
    output:
        pdf="results/figures/neighbors/{model}.pdf",
        png=report(
            "results/figures/neighbors/{model}.png",
            **figure("neighbors", KERNEL, "Similar demonstrations"),
        ),
    log:
        "logs/draw_neighbors/{model}.log",
    benchmark:
        "results/benchmarks/draw_neighbors/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        style=config["figures"],
    message:
        "Drawing what similar demonstrations gain in {wildcards.model}"
    script:
        "../scripts/draw_neighbors.py"


rule tabulate_neighbors:
    input:
        neighbors=of_models("neighbors"),
        code=code_of("tabulate_neighbors"),
    output:
        csv="results/tables/neighbors.csv",
        md="results/tables/neighbors.md",
        html=report(
            "results/tables/neighbors.html",
            **table("neighbors", KERNEL, "Similar demonstrations"),
        ),
    log:
        "logs/tabulate_neighbors.log",
    benchmark:
        "results/benchmarks/tabulate_neighbors.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    message:
        "Tabulating what similar demonstrations gain in all models"
    script:
        "../scripts/tabulate_neighbors.py"
