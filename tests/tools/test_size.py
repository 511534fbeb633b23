"""The sizes of the source: what counts as code, as a wide function and as a repeated passage."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

from tools import size

MODULE = '''"""A module.

Two more lines of docstring.
"""

import os


# A comment.
class Meter:
    """One line."""

    def read(self, a, b, c, d, e, f, g, h):
        return "# not a comment"

    async def wide(self, a, b, c, /, d, e, f, *, g, h, i):
        """One line."""
'''
PASSAGE = """
def first({a}):
    limit = {a} + {number}
    text = "{text}"
    if limit > {number}:
        raise ValueError(text)
    name = text.upper()
    print(name, limit)
"""


def test_tokens_and_wide_functions_are_counted(tmp_path):
    (tmp_path / "meter.py").write_text(MODULE)
    found = size.measure([tmp_path / "meter.py"])
    # import os; class Meter:; def read(self, …):; return "…"; async def wide(self, …):
    assert (found.modules, found.tokens) == (1, 2 + 3 + 22 + 2 + 29)
    packed = MODULE.replace(":\n        return", ": return")
    (tmp_path / "packed.py").write_text(packed)
    assert size.measure([tmp_path / "packed.py"]).tokens == found.tokens
    assert found.wide == [f"{tmp_path.name}/meter.wide (9)"]
    assert dict(size.functions(ast.parse(MODULE))) == {"read": 8, "wide": 9}


def test_a_passage_is_repeated_if_only_numbers_and_strings_differ():
    one = PASSAGE.format(a="power", number=1, text="low")
    other = "import os\n\nX = 1\n" + PASSAGE.format(a="power", number=25.5, text="too high")
    assert size.duplicates({"a.py": one, "b.py": other}) == ["a.py:2 ~ b.py:5"]
    renamed = PASSAGE.format(a="current", number=1, text="low")
    assert size.duplicates({"a.py": one, "b.py": renamed}) == []
    assert size.duplicates({"a.py": one + other}) == ["a.py:2 ~ a.py:13"]


def test_imports_and_rows_of_data_are_not_repetitions():
    imports = "".join(f"from os import name_{i}\n" for i in range(9))
    rows = "".join(f'    (1, 2, "{i}"),\n' for i in range(9))
    text = f"{imports}TABLE = (\n{rows})\n"
    assert size.duplicates({"a.py": text, "b.py": text}) == []


def test_a_number_may_shrink_but_not_grow():
    assert size.grown({"modules": 3, "code": 10}, {"modules": 3, "code": 11}) == []
    (sentence,) = size.grown({"modules": 4}, {"modules": 3})
    assert sentence.startswith("modules is 4, and size.toml allows 3: make it smaller, or raise")
    (sentence,) = size.grown({"modules": 4}, {})
    assert "nothing of this name" in sentence


def test_every_number_has_a_limit():
    limits = tomllib.loads(size.LIMITS.read_text(encoding="utf-8"))
    assert limits.keys() >= {"tokens", "tokens of core", "duplicates", *size.COMMANDS}
    assert all(isinstance(limit, int) for limit in limits.values())


def test_the_core_and_every_app_are_counted():
    assert size.area_of(Path("releases/promise.py")) == "core"
    assert size.area_of(Path("apps/__init__.py")) == "core"
    assert size.area_of(Path("apps/study/plot/accuracy.py")) == "apps/study"
    areas = size.by_area(size.ROOT / "src")
    total = size.measure(sorted((size.ROOT / "src").rglob("*.py")))
    assert sum(one.tokens for one in areas.values()) == total.tokens
