# Attention to many demonstrations, as kernel weights over their labels ([K] §5.1-5.3).


use rule measure as measure_kernel with:
    input:
        texts="results/texts/{task}.parquet",
        samples="results/samples/{task}/{seed}.parquet",
        prompts="results/prompts/{model}/{task}/{seed}.parquet",
        tokenizer=tokenizer_of,
        model="results/models/{model}",
    output:
        samples=measured("kernel", "samples"),
        prompts=measured("kernel", "prompts"),
        attention=measured("kernel", "attention"),
        predictions=measured("kernel", "predictions"),
        kernel=measured("kernel", "kernel"),
        segments=measured("kernel", "segments"),
        places=measured("kernel", "places"),
        similarity=measured("kernel", "similarity"),
        states=measured("kernel", "states"),
        counts=measured("kernel", "counts"),
    log:
        f"logs/measure_kernel/{PART}.log",
    params:
        **analysis("kernel"),
        # The texts on which heads are chosen affect summaries only.
        spec=section("kernel", "chosen_on"),
        task=prompts_spec,
    message:
        "Measuring attention to many demonstrations of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
