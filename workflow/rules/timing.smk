# Time per query with full prompts and with compressed demonstrations ([A] Table 3).


# Methods of compression that are timed only in runs that measure them, in addition to those timed in
# every run.
TIMED_ALSO = [
    name for name in config["compression"]["methods"] if name == "until_layer"
]


use rule measure as measure_timing with:
    output:
        "results/timing/{model}/{task}/{seed}.parquet",
    log:
        "logs/measure_timing/{model}/{task}/{seed}.log",
    # All cores, so that nothing else runs at the same time; --report and some executors give none.
    threads: cores_given() or config["compute"]["threads"]
    params:
        **analysis(
            "timing",
            *entry_modules(
                "analyses/compression/methods",
                ["hidden_anchor", "text_anchor", *TIMED_ALSO],
            ),
        ),
        spec={**config["timing"], **({"also": TIMED_ALSO} if TIMED_ALSO else {})},
    message:
        "Timing queries of {wildcards.task} with compressed demonstrations in {wildcards.model}"
