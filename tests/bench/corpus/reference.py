"""The reference: the old public Claude vocabulary, fetched into a folder that the benchmark throws away.

npm package ``@anthropic-ai/tokenizer`` 0.0.4. Its LICENSE file has the words of the MIT licence; its package.json says
Apache-2.0. It belongs to tokenizer generation 1 and is older than the models in use. Nothing of it stays here.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

VOCABULARY = "@anthropic-ai/tokenizer@0.0.4"
TEXTS = ("typescript@5.4.5", "rxjs@7.8.1", "lodash@4.17.21", "jquery@3.7.1")
"""Packages whose files are texts to count: Apache-2.0, Apache-2.0, MIT, MIT."""

COUNT = """
const { getTokenizer } = require('@anthropic-ai/tokenizer');
const tokenizer = getTokenizer();
const texts = JSON.parse(require('fs').readFileSync(0, 'utf8'));
console.log(JSON.stringify(texts.map(text => tokenizer.encode(text.normalize('NFKC'), 'all').length)));
"""


class ReferenceUnavailableError(Exception):
    """npm or node is not there, or the packages cannot be had."""


def fetch(folder: Path) -> None:
    """Put the vocabulary and the packages of texts into ``folder``."""
    if not shutil.which("npm") or not shutil.which("node"):
        raise ReferenceUnavailableError("npm and node are needed for the reference vocabulary: install them")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder)]
    done = subprocess.run([*command, VOCABULARY, *TEXTS], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReferenceUnavailableError(f"npm cannot fetch {VOCABULARY}: {done.stderr.strip() or done.stdout.strip()}")


def exact(texts: Sequence[str], folder: Path) -> list[int]:
    """Tokens of each text by the vocabulary in ``folder``."""
    asked = json.dumps(list(texts))
    done = subprocess.run(["node", "-e", COUNT], cwd=folder, input=asked, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReferenceUnavailableError(f"node cannot count with {VOCABULARY}: {done.stderr.strip()}")
    counted: list[int] = json.loads(done.stdout)
    return counted
