# Where on the demonstrations attention lands ([K] Fig. 2).

FIGURES += expand(
    "results/figures/landing/{model}.{kind}",
    model=config["models"],
    kind=["pdf", "png"],
)
TABLES += expand("results/tables/landing.{kind}", kind=["csv", "md", "html"])


rule summarize_landing:
    input:
        segments=cells_of("kernel", "segments"),
        places=cells_of("kernel", "places"),
        prompts=cells_of("kernel", "prompts"),
        code=code_of("summarize_landing"),
    output:
        "results/landing/{model}.parquet",
    log:
        "logs/summarize_landing/{model}.log",
    benchmark:
        "results/benchmarks/summarize_landing/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        statistics=config["statistics"],
    message:
        "Summarizing where attention to demonstrations lands in {wildcards.model}"
    script:
        "../scripts/summarize_landing.py"


rule draw_landing:
    input:
        landing="results/landing/{model}.parquet",
        code=code_of("draw_landing"),
    output:
        pdf="results/figures/landing/{model}.pdf",
        png=report(
            "results/figures/landing/{model}.png",
            **figure("landing", KERNEL, "Where attention lands (Fig. 2 of [K])"),
        ),
    log:
        "logs/draw_landing/{model}.log",
    benchmark:
        "results/benchmarks/draw_landing/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        style=config["figures"],
    message:
        "Drawing where attention to demonstrations lands in {wildcards.model}"
    script:
        "../scripts/draw_landing.py"


rule tabulate_landing:
    input:
        landing=of_models("landing"),
        code=code_of("tabulate_landing"),
    output:
        csv="results/tables/landing.csv",
        md="results/tables/landing.md",
        html=report(
            "results/tables/landing.html",
            **table("landing", KERNEL, "Where attention lands"),
        ),
    log:
        "logs/tabulate_landing.log",
    benchmark:
        "results/benchmarks/tabulate_landing.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    message:
        "Tabulating where attention to demonstrations lands in all models"
    script:
        "../scripts/tabulate_landing.py"
