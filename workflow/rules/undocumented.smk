# All uses of undocumented features of Snakemake, in one place.
# tests/whole_run/test_undocumented.py shows what breaks if a new version removes one of them.

import os
import re

from snakemake.exceptions import WorkflowError


def names_a_configuration():
    """Whether the command line, or a profile, names a configuration file."""
    return bool(workflow.config_settings.configfiles)


def configuration_files():
    """The configuration files that were read, in order."""
    return list(workflow.configfiles)


def default_configuration():
    """The configuration of the current folder, or the one that comes with the rules."""
    known = ("config", "config.yaml")
    here = os.path.join(*known)
    return (
        here
        if os.path.isfile(here)
        else os.path.join(folder_of_rules(), "..", "..", *known)
    )


def folder_of_rules():
    """The folder of the current rule file, also if another workflow uses it as a module."""
    return str(workflow.current_basedir)


def cores_given():
    """The total number of cores for jobs; None with --report and some executors."""
    return workflow.resource_settings.cores


def set_default_resource(name, amount):
    """Provide a resource unless --resources or a profile does."""
    workflow.global_resources.setdefault(name, amount)


def provided(name):
    """The provided amount of a resource, as a number."""
    amount = workflow.global_resources[name]
    return getattr(amount, "value", amount)


def start_jobs_at_any_rate():
    """Before jobs start, lift the default limit to jobs per second, except on clusters.

    Each job that ends makes Snakemake's scheduler check once more per second whether the limit still
    holds: after 200 jobs, hundreds of threads do so. A higher limit or a shorter interval would only
    make them check more often.
    """
    limiter = workflow.scheduler.job_rate_limiter
    default = limiter is not None and (limiter.max_jobs, limiter.timespan) == (100, 1)
    if workflow.local_exec and default:
        workflow.scheduler.job_rate_limiter = None


def is_fetched():
    """Whether the current file is not in a folder, but comes from a repository or the web."""
    return not os.path.isdir(folder_of_rules())


def installed_workflow():
    """The rules of the installed package, which must have the version of this workflow."""
    with open(
        workflow.source_path("../anchorflow/__init__.py"), encoding="utf-8"
    ) as file:
        (wanted,) = re.findall(r'__version__ = "(.*)"', file.read())
    try:
        import anchorflow
    except ImportError:
        found = "it is not installed"
    else:
        if anchorflow.__version__ == wanted:
            from anchorflow.config.places import WORKFLOW

            return str(WORKFLOW / "rules" / "workflow.smk")
        found = f"{anchorflow.__version__} is installed"
    raise WorkflowError(
        f"This workflow needs the Python package anchorflow {wanted}, and {found}; "
        f"run pip install 'anchorflow[workflow]=={wanted}'."
    )
