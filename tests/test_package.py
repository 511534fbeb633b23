"""The public names: all there, all documented, none more."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hushmeter as hm


@pytest.mark.parametrize("name", hm.__all__)
def test_every_public_name_resolves_and_is_documented(name):
    value = getattr(hm, name)
    assert value.__doc__


def test_dir_lists_the_public_names():
    assert set(hm.__all__) < set(dir(hm))


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = hm.nonsense
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = hm.attack.nonsense


def test_importing_the_package_imports_nothing_heavy():
    code = "import hushmeter, sys; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_table_of_origins_is_complete():
    code = (
        "import hushmeter as hm\n"
        "assert set(hm.__all__) == set(hm._ORIGIN) | set(hm._MODULES)\n"
        "assert sorted(hm.__all__) == hm.__all__"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
