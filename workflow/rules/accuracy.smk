# Accuracy of the in-context predictions, and how many prompts were too long to run.

TABLES += expand("results/tables/accuracy.{kind}", kind=["csv", "md", "html"])


rule summarize_accuracy:
    input:
        predictions=cells_of("predictions"),
        prompts=cells_of("prompts"),
        code=code_of("summarize_accuracy"),
    output:
        "results/accuracy/{model}.parquet",
    log:
        "logs/summarize_accuracy/{model}.log",
    benchmark:
        "results/benchmarks/summarize_accuracy/{model}.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        statistics=config["statistics"],
    message:
        "Summarizing the accuracy of {wildcards.model}"
    script:
        "../scripts/summarize_accuracy.py"


rule tabulate_accuracy:
    input:
        accuracy=of_models("accuracy"),
        code=code_of("tabulate_accuracy"),
    output:
        csv="results/tables/accuracy.csv",
        md="results/tables/accuracy.md",
        html=report(
            "results/tables/accuracy.html",
            **table("accuracy", ACCURACY, "Accuracy and skipped prompts"),
        ),
    log:
        "logs/tabulate_accuracy.log",
    benchmark:
        "results/benchmarks/tabulate_accuracy.tsv"
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    message:
        "Tabulating the accuracy of all models"
    script:
        "../scripts/tabulate_accuracy.py"
