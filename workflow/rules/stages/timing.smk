# Time per query with full prompts and with compressed demonstrations ([A] Table 3).


rule measure_timing:
    input:
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        model="results/models/{model}",
    output:
        "results/timing/{model}/{task}/{seed}.parquet",
    log:
        "logs/measure_timing/{model}/{task}/{seed}.log",
    conda:
        "../../envs/anchorflow.yaml"
    # All cores, so that nothing else runs alongside; --report and some executors give none.
    threads: cores_given() or config["compute"]["threads"]
    resources:
        gpu=gpus_of,
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        **code_of(
            "measure_timing",
            *entry_modules(
                "measure/compression_methods", ["hidden_anchor", *timed_also()]
            ),
        ),
        spec=timing_spec,
    message:
        "Timing queries of {wildcards.task} with compressed demonstrations in {wildcards.model}"
    script:
        "../../scripts/measure_timing.py"
