import subprocess
import sys

import pytest

import larc


def test_every_public_name_is_there():
    for name in larc.__all__:
        assert getattr(larc, name) is not None
        assert name in dir(larc)
    assert set(larc.__all__) == set(larc._HOMES)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = larc.nothing


def test_asking_for_help_does_not_load_the_heavy_libraries():
    code = (
        "import sys; from larc.cli import main\n"
        "try: main(['study', 'programs', '--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'torch', 'transformers', 'matplotlib', 'pyarrow'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"
