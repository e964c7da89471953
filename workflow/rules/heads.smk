# Heads whose attention, as kernel weights, reconstructs predictions ([K] §5.1).

FIGURES += expand(
    "results/figures/heads/{model}.{kind}",
    model=config["models"],
    kind=["pdf", "png"],
)
TABLES += expand("results/tables/heads.{kind}", kind=["csv", "md", "html"])


rule summarize_heads:
    input:
        kernel=cells_of("kernel", "kernel"),
        predictions=cells_of("kernel", "predictions"),
        prompts=cells_of("kernel", "prompts"),
        code=code_of("summarize_heads"),
    output:
        "results/heads/{model}.parquet",
    log:
        "logs/summarize_heads/{model}.log",
    benchmark:
        "results/benchmarks/summarize_heads/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    resources:
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        statistics=config["statistics"],
    message:
        "Summarizing how well kernel regression reconstructs the predictions of {wildcards.model}"
    script:
        "../scripts/summarize_heads.py"


rule draw_heads:
    input:
        heads="results/heads/{model}.parquet",
        code=code_of("draw_heads"),
    output:
        pdf="results/figures/heads/{model}.pdf",
        png=report(
            "results/figures/heads/{model}.png",
            **figure("heads", KERNEL, "Heads as kernel regressions"),
        ),
    log:
        "logs/draw_heads/{model}.log",
    benchmark:
        "results/benchmarks/draw_heads/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        style=config["figures"],
    message:
        "Drawing how well kernel regression reconstructs the predictions of {wildcards.model}"
    script:
        "../scripts/draw_heads.py"


rule tabulate_heads:
    input:
        heads=of_models("heads"),
        code=code_of("tabulate_heads"),
    output:
        csv="results/tables/heads.csv",
        md="results/tables/heads.md",
        html=report(
            "results/tables/heads.html",
            **table("heads", KERNEL, "Best heads"),
        ),
    log:
        "logs/tabulate_heads.log",
    benchmark:
        "results/benchmarks/tabulate_heads.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    message:
        "Tabulating how well kernel regression reconstructs the predictions of all models"
    script:
        "../scripts/tabulate_heads.py"
