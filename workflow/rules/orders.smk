# Predictions with the same demonstrations in several orders, and with new draws of them ([K]); run only
# if orders.count is above 0.


use rule measure as measure_orders with:
    input:
        texts="results/texts/{task}.parquet",
        samples="results/samples/{task}/{seed}.parquet",
        kernel="results/kernel/{model}/{task}/{seed}/samples.parquet",
        tokenizer=tokenizer_of,
        model="results/models/{model}",
    output:
        prompts=measured("orders", "prompts"),
        predictions=measured("orders", "predictions"),
    log:
        f"logs/measure_orders/{PART}.log",
    params:
        **analysis("orders"),
        spec=lambda wildcards: asked("orders.count"),
        task=prompts_spec,
    message:
        "Predicting with other orders of the demonstrations of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
