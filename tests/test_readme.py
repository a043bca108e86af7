"""The program on README's first screen runs and prints what README says it prints."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"


def test_readme_program_prints_what_it_says():
    text = README.read_text()
    program, output = re.search(
        r"```python\n(.*?)```\n```\n(.*?)```", text, re.S
    ).groups()
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == output


def test_readme_names_files_that_exist():
    text = README.read_text()
    for folder, first in re.findall(
        r"^\| (src/\w+|python/\w+) \|.*\| (\S+) \|$", text, re.M
    ):
        path = README.parent / folder.split("/")[0] / first.replace("\\", "")
        assert path.exists(), f"{folder}: {path} does not exist"
    for target in re.findall(r"\]\(([\w./-]+)\)", text):
        assert (README.parent / target).exists(), f"{target} does not exist"
