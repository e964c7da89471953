# Label loyalty and word loyalty under isolation ([A] §2.2, Fig. 4).

FIGURES += expand(
    "results/figures/loyalty/{model}.{kind}",
    model=config["models"],
    kind=["pdf", "png"],
)
TABLES += expand("results/tables/loyalty.{kind}", kind=["csv", "md", "html"])


rule summarize_loyalty:
    input:
        isolation=cells_of("isolation"),
        prompts=cells_of("prompts"),
        code=code_of("summarize_loyalty"),
    output:
        "results/loyalty/{model}.parquet",
    log:
        "logs/summarize_loyalty/{model}.log",
    benchmark:
        "results/benchmarks/summarize_loyalty/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        statistics=config["statistics"],
    message:
        "Summarizing how loyal {wildcards.model} stays under isolation"
    script:
        "../scripts/summarize_loyalty.py"


rule draw_loyalty:
    input:
        loyalty="results/loyalty/{model}.parquet",
        code=code_of("draw_loyalty"),
    output:
        pdf="results/figures/loyalty/{model}.pdf",
        png=report(
            "results/figures/loyalty/{model}.png",
            **figure(
                "loyalty", INFORMATION, "Loyalty under isolation (Fig. 4 of [A])"
            ),
        ),
    log:
        "logs/draw_loyalty/{model}.log",
    benchmark:
        "results/benchmarks/draw_loyalty/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        style=config["figures"],
    message:
        "Drawing how loyal {wildcards.model} stays under isolation"
    script:
        "../scripts/draw_loyalty.py"


rule tabulate_loyalty:
    input:
        loyalty=of_models("loyalty"),
        code=code_of("tabulate_loyalty"),
    output:
        csv="results/tables/loyalty.csv",
        md="results/tables/loyalty.md",
        html=report(
            "results/tables/loyalty.html",
            **table("loyalty", INFORMATION, "Loyalty under isolation"),
        ),
    log:
        "logs/tabulate_loyalty.log",
    benchmark:
        "results/benchmarks/tabulate_loyalty.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    message:
        "Tabulating how loyal all models stay under isolation"
    script:
        "../scripts/tabulate_loyalty.py"
