# In-context learning beside regressions on the same demonstrations ([K] Table 2).

FIGURES += expand(
    "results/figures/regressors/{model}.{kind}",
    model=config["models"],
    kind=["pdf", "png"],
)
TABLES += expand("results/tables/regressors.{kind}", kind=["csv", "md", "html"])


rule summarize_regressors:
    input:
        kernel=cells_of("kernel", "kernel"),
        predictions=cells_of("kernel", "predictions"),
        counts=cells_of("kernel", "counts"),
        samples=cells_of("kernel", "samples"),
        prompts=cells_of("kernel", "prompts"),
        embeddings=expand("results/embeddings/{task}.parquet", task=config["tasks"]),
        code=code_of("summarize_regressors"),
    output:
        "results/regressors/{model}.parquet",
    log:
        "logs/summarize_regressors/{model}.log",
    benchmark:
        "results/benchmarks/summarize_regressors/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    resources:
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        statistics=config["statistics"],
        temperature=config["encoder"]["temperature"],
    message:
        "Summarizing in-context learning beside regressions for {wildcards.model}"
    script:
        "../scripts/summarize_regressors.py"


rule draw_regressors:
    input:
        regressors="results/regressors/{model}.parquet",
        code=code_of("draw_regressors"),
    output:
        pdf="results/figures/regressors/{model}.pdf",
        png=report(
            "results/figures/regressors/{model}.png",
            **figure("regressors", KERNEL, "Regressions by number of demonstrations"),
        ),
    log:
        "logs/draw_regressors/{model}.log",
    benchmark:
        "results/benchmarks/draw_regressors/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        style=config["figures"],
    message:
        "Drawing in-context learning beside regressions for {wildcards.model}"
    script:
        "../scripts/draw_regressors.py"


rule tabulate_regressors:
    input:
        regressors=of_models("regressors"),
        code=code_of("tabulate_regressors"),
    output:
        csv="results/tables/regressors.csv",
        md="results/tables/regressors.md",
        html=report(
            "results/tables/regressors.html",
            **table("regressors", KERNEL, "Regressions beside it (Table 2 of [K])"),
        ),
    log:
        "logs/tabulate_regressors.log",
    benchmark:
        "results/benchmarks/tabulate_regressors.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    message:
        "Tabulating in-context learning beside regressions for all models"
    script:
        "../scripts/tabulate_regressors.py"
