# A list of all artifacts of the run with checksums, once all figures and tables exist.


use rule prepare as write_manifest with:
    input:
        finished=FINAL_FIGURES + FINAL_TABLES,
    output:
        "results/manifest.json",
    log:
        "logs/write_manifest.log",
    params:
        **script_of("write_manifest"),
        run=named_in_run(),
        nulls=named_in_nulls(),
    message:
        "Listing all artifacts with their checksums"
