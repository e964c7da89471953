# How well re-weighted attention predicts, against in-context learning as it is ([A] Table 1).

TABLES += expand("results/tables/performance.{kind}", kind=["csv", "md", "html"])


rule summarize_performance:
    input:
        predictions=cells_of("reweighting", "predictions"),
        auxiliary=cells_of("reweighting", "prompts"),
        prompts=cells_of("prompts"),
        code=code_of("summarize_performance"),
    output:
        "results/performance/{model}.parquet",
    log:
        "logs/summarize_performance/{model}.log",
    benchmark:
        "results/benchmarks/summarize_performance/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        statistics=config["statistics"],
    message:
        "Summarizing what re-weighting gains in {wildcards.model}"
    script:
        "../scripts/summarize_performance.py"


rule tabulate_performance:
    input:
        performance=expand(
            "results/performance/{model}.parquet", model=config["models"]
        ),
        code=code_of("tabulate_performance"),
    output:
        csv="results/tables/performance.csv",
        md="results/tables/performance.md",
        html=report(
            "results/tables/performance.html",
            **table(
                "performance",
                ANCHORS,
                "Re-weighting and its baselines (Table 1 of [A])",
            ),
        ),
    log:
        "logs/tabulate_performance.log",
    benchmark:
        "results/benchmarks/tabulate_performance.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    message:
        "Tabulating what re-weighting gains in all models"
    script:
        "../scripts/tabulate_performance.py"
