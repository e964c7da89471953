# Each model's tokenizer and architecture first, so that prompts are checked before loading weights;
# and the weights of its untrained twins.


use rule prepare as prepare_tokenizer with:
    input:
        files=model_files,
    output:
        directory("results/tokenizers/{model}"),
    log:
        "logs/prepare_tokenizer/{model}.log",
    wildcard_constraints:
        model=NAME,  # twins share it
    priority: PRIORITIES["prepare_tokenizer"]
    params:
        **script_of("prepare_tokenizer"),
        spec=source_spec,
    message:
        "Resolving the tokenizer and architecture of {wildcards.model}"


use rule prepare as prepare_model with:
    input:
        tokenizer="results/tokenizers/{model}",
        files=model_files,
    output:
        directory("results/models/{model}"),
    log:
        "logs/prepare_model/{model}.log",
    wildcard_constraints:
        model=NAME,  # no twin
    priority: PRIORITIES["prepare_model"]
    resources:
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        **script_of("prepare_model"),
        spec=weights_spec,
    message:
        "Resolving the weights of {wildcards.model} and checking our attention against eager attention"


use rule prepare as prepare_untrained with:
    input:
        tokenizer="results/tokenizers/{model}",
        model="results/models/{model}",
    output:
        directory("results/models/{model}+{kind}-{draw}"),
    log:
        "logs/prepare_untrained/{model}+{kind}-{draw}.log",
    wildcard_constraints:
        model=NAME,
        kind=KIND,
        draw="[0-9]+",
    priority: PRIORITIES["prepare_untrained"]
    resources:
        mem_mb=memory_of,
        runtime=runtime_of,
    params:
        **script_of("prepare_untrained"),
    message:
        "Making an untrained twin of {wildcards.model}: {wildcards.kind}, draw {wildcards.draw}"
