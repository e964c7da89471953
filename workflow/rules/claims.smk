# Which of the papers' claims hold, and what decides it.

FIGURES += expand(
    "results/figures/claims/{model}.{kind}", model=config["models"], kind=["pdf", "png"]
)
TABLES += expand("results/tables/claims.{kind}", kind=["csv", "md", "html"])


rule summarize_claims:
    input:
        saliency=cells_of("saliency"),
        isolation=cells_of("isolation"),
        attention=cells_of("attention"),
        predictions=cells_of("predictions"),
        reweighting=cells_of("reweighting", "predictions"),
        compression=cells_of("compression"),
        timing=timings_of,
        diagnosis=cells_of("diagnosis"),
        kernel=cells_of("kernel", "kernel"),
        kernel_predictions=cells_of("kernel", "predictions"),
        retrieval=cells_of("retrieval", "predictions"),
        code=code_of("summarize_claims"),
    output:
        "results/claims/{model}.parquet",
    log:
        "logs/summarize_claims/{model}.log",
    benchmark:
        "results/benchmarks/summarize_claims/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    resources:
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        statistics=config["statistics"],
        spec=claims_spec,
    message:
        "Summarizing which claims hold for {wildcards.model}"
    script:
        "../scripts/summarize_claims.py"


rule draw_claims:
    input:
        claims="results/claims/{model}.parquet",
        code=code_of("draw_claims"),
    output:
        pdf="results/figures/claims/{model}.pdf",
        png=report(
            "results/figures/claims/{model}.png",
            **figure("claims", CLAIMS, "Which claims hold"),
        ),
    log:
        "logs/draw_claims/{model}.log",
    benchmark:
        "results/benchmarks/draw_claims/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        style=config["figures"],
    message:
        "Drawing which claims hold for {wildcards.model}"
    script:
        "../scripts/draw_claims.py"


rule tabulate_claims:
    input:
        claims=of_models("claims"),
        code=code_of("tabulate_claims"),
    output:
        csv="results/tables/claims.csv",
        md="results/tables/claims.md",
        html=report(
            "results/tables/claims.html",
            **table("claims", CLAIMS, "Which claims hold"),
        ),
    log:
        "logs/tabulate_claims.log",
    benchmark:
        "results/benchmarks/tabulate_claims.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    message:
        "Tabulating which claims hold for all models"
    script:
        "../scripts/tabulate_claims.py"
