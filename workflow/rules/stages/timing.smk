# Time per query with full prompts and with compressed demonstrations ([A] Table 3).


use rule measure as measure_timing with:
    output:
        "results/timing/{model}/{task}/{seed}.parquet",
    log:
        "logs/measure_timing/{model}/{task}/{seed}.log",
    # All cores, so that nothing else runs alongside; --report and some executors give none.
    threads: cores_given() or config["compute"]["threads"]
    params:
        **script_of(
            "measure_timing",
            *entry_modules(
                "measure/compression_methods", ["hidden_anchor", *timed_also()]
            ),
        ),
        spec=timing_spec,
    message:
        "Timing queries of {wildcards.task} with compressed demonstrations in {wildcards.model}"
