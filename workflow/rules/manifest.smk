# A list of all artifacts of the run with checksums, once all figures and tables exist.


rule write_manifest:
    input:
        finished=FINAL_FIGURES + FINAL_TABLES,
    output:
        "results/manifest.json",
    log:
        "logs/write_manifest.log",
    conda:
        "../envs/anchorflow.yaml"
    threads: 1
    params:
        **code_of("write_manifest"),
        run=named_in_run(),
        nulls=named_in_nulls(),
    message:
        "Listing all artifacts with their checksums"
    script:
        "../scripts/write_manifest.py"
