# Which labels attention is bound to confuse, and which are confused ([A] §3.3, Fig. 6).

FIGURES += expand(
    "results/figures/confusion/{model}.{kind}",
    model=config["models"],
    kind=["pdf", "png"],
)
TABLES += expand("results/tables/confusion.{kind}", kind=["csv", "md", "html"])


rule measure_diagnosis:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
        code=code_of("measure_diagnosis"),
    output:
        "results/diagnosis/{model}/{task}/{seed}.parquet",
    log:
        "logs/measure_diagnosis/{model}/{task}/{seed}.log",
    benchmark:
        "results/benchmarks/measure_diagnosis/{model}/{task}/{seed}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
        runtime=runtime_of,
    message:
        "Measuring key distances of label words of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
    script:
        "../scripts/measure_diagnosis.py"


rule summarize_confusion:
    input:
        predictions=cells_of("predictions"),
        diagnosis=cells_of("diagnosis"),
        prompts=cells_of("prompts"),
        code=code_of("summarize_confusion"),
    output:
        "results/confusion/{model}.parquet",
    log:
        "logs/summarize_confusion/{model}.log",
    benchmark:
        "results/benchmarks/summarize_confusion/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        statistics=config["statistics"],
    message:
        "Summarizing which labels {wildcards.model} confuses"
    script:
        "../scripts/summarize_confusion.py"


rule draw_confusion:
    input:
        confusion="results/confusion/{model}.parquet",
        code=code_of("draw_confusion"),
    output:
        pdf="results/figures/confusion/{model}.pdf",
        png=report(
            "results/figures/confusion/{model}.png",
            **figure(
                "confusion",
                ANCHORS,
                "Confused labels and key distances (Fig. 6 of [A])",
            ),
        ),
    log:
        "logs/draw_confusion/{model}.log",
    benchmark:
        "results/benchmarks/draw_confusion/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        style=config["figures"],
        labels=label_words,
    message:
        "Drawing which labels {wildcards.model} confuses"
    script:
        "../scripts/draw_confusion.py"


rule tabulate_confusion:
    input:
        confusion=of_models("confusion"),
        code=code_of("tabulate_confusion"),
    output:
        csv="results/tables/confusion.csv",
        md="results/tables/confusion.md",
        html=report(
            "results/tables/confusion.html",
            **table("confusion", ANCHORS, "Confused labels and key distances"),
        ),
    log:
        "logs/tabulate_confusion.log",
    benchmark:
        "results/benchmarks/tabulate_confusion.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    message:
        "Tabulating which labels all models confuse"
    script:
        "../scripts/tabulate_confusion.py"
