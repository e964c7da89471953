# Predictions with the same demonstrations in several orders, and with fresh draws of them ([K]);
# nothing of this is run unless orders.count is above 0.


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
        **script_of("measure_orders"),
        orders=orders_count,
        task=prompts_spec,
    message:
        "Predicting with other orders of demonstrations of {wildcards.task} in {wildcards.model}, seed {wildcards.seed}"
        + OF_PART
