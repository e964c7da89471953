# AUCROC_l and R_l: where label-word attention tells the prediction ([A] §2.3, Fig. 5).

FIGURES += expand(
    "results/figures/deep/{model}.{kind}", model=config["models"], kind=["pdf", "png"]
)
TABLES += expand("results/tables/deep.{kind}", kind=["csv", "md", "html"])


rule summarize_deep:
    input:
        attention=cells_of("attention"),
        predictions=cells_of("predictions"),
        code=code_of("summarize_deep"),
    output:
        "results/deep/{model}.parquet",
    log:
        "logs/summarize_deep/{model}.log",
    benchmark:
        "results/benchmarks/summarize_deep/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        statistics=config["statistics"],
    message:
        "Summarizing how attention tells the predictions of {wildcards.model}"
    script:
        "../scripts/summarize_deep.py"


rule draw_deep:
    input:
        deep="results/deep/{model}.parquet",
        code=code_of("draw_deep"),
    output:
        pdf="results/figures/deep/{model}.pdf",
        png=report(
            "results/figures/deep/{model}.png",
            **figure(
                "deep", INFORMATION, "AUCROC and R over the layers (Fig. 5 of [A])"
            ),
        ),
    log:
        "logs/draw_deep/{model}.log",
    benchmark:
        "results/benchmarks/draw_deep/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        style=config["figures"],
    message:
        "Drawing how attention tells the predictions of {wildcards.model}"
    script:
        "../scripts/draw_deep.py"


rule tabulate_deep:
    input:
        deep=of_models("deep"),
        code=code_of("tabulate_deep"),
    output:
        csv="results/tables/deep.csv",
        md="results/tables/deep.md",
        html=report(
            "results/tables/deep.html",
            **table("deep", INFORMATION, "AUCROC and R"),
        ),
    log:
        "logs/tabulate_deep.log",
    benchmark:
        "results/benchmarks/tabulate_deep.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    message:
        "Tabulating how attention tells the predictions of all models"
    script:
        "../scripts/tabulate_deep.py"
