# S_wp, S_pq and S_ww over depth ([A] §2.1, Fig. 3).

FIGURES += expand(
    "results/figures/flow/{model}.{kind}", model=config["models"], kind=["pdf", "png"]
)
TABLES += expand("results/tables/flow.{kind}", kind=["csv", "md", "html"])


rule summarize_flow:
    input:
        saliency=cells_of("saliency"),
        prompts=cells_of("prompts"),
        code=code_of("summarize_flow"),
    output:
        "results/flow/{model}.parquet",
    log:
        "logs/summarize_flow/{model}.log",
    benchmark:
        "results/benchmarks/summarize_flow/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        statistics=config["statistics"],
        saliency=config["saliency"],
    message:
        "Summarizing the information flows of {wildcards.model}"
    script:
        "../scripts/summarize_flow.py"


rule draw_flow:
    input:
        flow="results/flow/{model}.parquet",
        code=code_of("draw_flow"),
    output:
        pdf="results/figures/flow/{model}.pdf",
        png=report(
            "results/figures/flow/{model}.png",
            **figure(
                "flow", INFORMATION, "Information flow over the layers (Fig. 3 of [A])"
            ),
        ),
    log:
        "logs/draw_flow/{model}.log",
    benchmark:
        "results/benchmarks/draw_flow/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        style=config["figures"],
    message:
        "Drawing the information flows of {wildcards.model}"
    script:
        "../scripts/draw_flow.py"


rule tabulate_flow:
    input:
        flow=of_models("flow"),
        code=code_of("tabulate_flow"),
    output:
        csv="results/tables/flow.csv",
        md="results/tables/flow.md",
        html=report(
            "results/tables/flow.html",
            **table("flow", INFORMATION, "Shares of the information flows"),
        ),
    log:
        "logs/tabulate_flow.log",
    benchmark:
        "results/benchmarks/tabulate_flow.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    message:
        "Tabulating the information flows of all models"
    script:
        "../scripts/tabulate_flow.py"
