# What keys and values around label words tell, by ridge probes ([K] §5.3).

FIGURES += expand(
    "results/figures/decoding/{model}.{kind}",
    model=config["models"],
    kind=["pdf", "png"],
)
TABLES += expand("results/tables/decoding.{kind}", kind=["csv", "md", "html"])


rule measure_probes:
    input:
        states="results/kernel/{model}/{task}/{seed}/states.parquet",
        code=code_of("measure_probes"),
    output:
        "results/probes/{model}/{task}/{seed}.parquet",
    log:
        "logs/measure_probes/{model}/{task}/{seed}.log",
    benchmark:
        "results/benchmarks/measure_probes/{model}/{task}/{seed}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        spec=config["probes"],
    message:
        "Probing keys and values around label words of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
    script:
        "../scripts/measure_probes.py"


rule summarize_decoding:
    input:
        probes=cells_of("probes"),
        prompts=cells_of("kernel", "prompts"),
        code=code_of("summarize_decoding"),
    output:
        "results/decoding/{model}.parquet",
    log:
        "logs/summarize_decoding/{model}.log",
    benchmark:
        "results/benchmarks/summarize_decoding/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        statistics=config["statistics"],
    message:
        "Summarizing what keys and values tell in {wildcards.model}"
    script:
        "../scripts/summarize_decoding.py"


rule draw_decoding:
    input:
        decoding="results/decoding/{model}.parquet",
        code=code_of("draw_decoding"),
    output:
        pdf="results/figures/decoding/{model}.pdf",
        png=report(
            "results/figures/decoding/{model}.png",
            **figure("decoding", KERNEL, "What keys and values tell"),
        ),
    log:
        "logs/draw_decoding/{model}.log",
    benchmark:
        "results/benchmarks/draw_decoding/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        style=config["figures"],
    message:
        "Drawing what keys and values tell in {wildcards.model}"
    script:
        "../scripts/draw_decoding.py"


rule tabulate_decoding:
    input:
        decoding=of_models("decoding"),
        code=code_of("tabulate_decoding"),
    output:
        csv="results/tables/decoding.csv",
        md="results/tables/decoding.md",
        html=report(
            "results/tables/decoding.html",
            **table("decoding", KERNEL, "What keys and values tell"),
        ),
    log:
        "logs/tabulate_decoding.log",
    benchmark:
        "results/benchmarks/tabulate_decoding.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    message:
        "Tabulating what keys and values tell in all models"
    script:
        "../scripts/tabulate_decoding.py"
