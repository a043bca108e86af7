"""The paper's programs run, and docs/examples.md shows what they print."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_page_of_examples_shows_the_programs_and_what_they_print():
    done = subprocess.run(
        [sys.executable, ROOT / "tools/examples_doc.py"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    page = (ROOT / "docs/examples.md").read_text()
    assert page == done.stdout, "run tools/examples_doc.py docs/examples.md"


def test_the_programs_learn_and_check_themselves():
    page = (ROOT / "docs/examples.md").read_text()
    outputs = [part.split("```")[0] for part in page.split("prints\n\n```\n")[1:]]
    mlp, mixed, store = outputs
    assert "gradient as by hand: True" in mlp
    assert "step 1500: accuracy 1.0" in mixed
    assert "step 1500: accuracy 1.0" in store
    assert "workers end with the same weights: True" in store
