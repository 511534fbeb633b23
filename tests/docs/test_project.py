"""The files that a public project needs are present, valid and consistent."""

from __future__ import annotations

import re
import subprocess
import tomllib
from itertools import chain

import pytest
import yaml

import hushmeter as hm
from tests.docs.blocks import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def tracked_files() -> list[str]:
    """Names of the text files in the repository."""
    done = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("this is not a git repository")
    names = [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]
    return [name for name in names if not name.endswith((".png", ".svg"))]


def steps(job: str) -> list[str]:
    return [step["run"] for step in WORKFLOW["jobs"][job]["steps"] if "run" in step]


def test_the_workflow_calls_make_targets_that_exist():
    for job in WORKFLOW["jobs"]:
        for line in steps(job):
            words = line.split()
            assert words[0] in ("make", ".ci/run")
            assert set(words[1:]) <= TARGETS
    assert steps("check") == ["make check"]
    assert steps("docs") == ["make docs"]
    assert steps("wheel") == ["make dist"]


def test_the_workflow_covers_the_pythons_that_the_project_names():
    named = [c.rpartition(" ")[2] for c in PROJECT["project"]["classifiers"] if ":: 3." in c]
    assert WORKFLOW["jobs"]["test"]["strategy"]["matrix"]["python"] == named


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_issue_forms_have_what_the_host_needs(path):
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.name == "config.yml":
        assert form["contact_links"][0]["url"].endswith("/security/advisories/new")
        return
    assert form["name"]
    assert form["description"]
    ids = [field["id"] for field in form["body"] if field["type"] != "markdown"]
    assert len(ids) == len(set(ids)) > 0
    assert all(field["attributes"] for field in form["body"])


def test_pre_commit_runs_what_make_check_runs():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (repository,) = config["repos"]
    # A local repository downloads nothing.
    assert repository["repo"] == "local"
    tools = {hook["entry"].split()[0].rpartition("/")[2] for hook in repository["hooks"]}
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").split("\ncheck:")[1].split("\n\n")[0]
    assert tools == set(re.findall(r"\$\(BIN\)/([\w-]+)", recipe))


def test_the_version_has_one_source():
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/hushmeter/__init__.py"
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == hm.__version__


def test_the_changelog_has_the_form_of_keep_a_changelog():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (.+)$", text, re.M)
    assert versions[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", line) for line in versions[1:])
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", text, re.M)) <= kinds


def test_no_page_installs_a_name_that_is_not_registered():
    unregistered = re.compile(r"pip install (?:-\S+ )*[\"']?hushmeter")
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in tracked_files()}
    assert [name for name, text in texts.items() if unregistered.search(text)] == []


def test_every_extra_of_the_readme_exists():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = readme.split("| extra | for |")[1].split("\n\n")[0].splitlines()[2:]
    named = {extra for row in rows for extra in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert {"page", "deep"} <= named <= set(PROJECT["project"]["optional-dependencies"])


def test_published_extras_pin_nothing():
    optional = PROJECT["project"]["optional-dependencies"]
    everything = [*PROJECT["project"]["dependencies"], *chain(*optional.values())]
    # A marker after the semicolon may compare with ==.
    assert [one for one in everything if "==" in one.split(";")[0]] == []
