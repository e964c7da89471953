# The page to open first, once all figures and tables exist.

SUMMARIZED = {
    name: files_of(f"summaries/{name}", all_models=True)
    for name, presented in PRESENTED.items()
    if presented.summary and presented.path == MODEL and in_run(presented)
}


use rule prepare as write_summary with:
    input:
        FINAL_FIGURES + FINAL_TABLES,
        **SUMMARIZED,
        texts=expand("results/texts/{task}.parquet", task=config["tasks"]),
        samples=expand(
            "results/samples/{task}/{seed}.parquet",
            task=config["tasks"],
            seed=config["seeds"],
        ),
    output:
        costs="results/tables/costs.csv",
        md="results/summary.md",
        html=report(
            "results/summary.html",
            caption="../report/summary.rst",
            category="0 Summary",
            labels={"page": "Questions, answers, and what was run"},
        ),
    log:
        "logs/write_summary.log",
    params:
        **script_of("write_summary", *claim_modules()),
        run=described_run,
    message:
        "Summarizing the run"


FINAL_TABLES += rules.write_summary.output
