"""The HTML of a report in a real browser: drawn, printable, and without a violation that axe-core finds.

Needs chromium (a Debian package) and axe-core (an npm package; AXE names its axe.min.js). A skipped test names the missing one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

from reports.formats import html
from reports.words.language import speaking
from tests.reports import sample

BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
AXE = os.environ.get("AXE", "node_modules/axe-core/axe.min.js")
RUN = """<script>axe.run({runOnly:["wcag2a","wcag2aa","wcag21a","wcag21aa","best-practice"]}).then(result=>{
const report=document.createElement("pre");report.id="axe-result";
report.textContent=JSON.stringify(result.violations.map(rule=>[rule.id,rule.impact,rule.nodes.map(node=>node.html.slice(0,120))]));
document.body.append(report)})</script>"""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")]


def browse(page: Path, *options: str) -> str:
    """What the browser prints after it has opened a page without a network."""
    common = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--window-size=1200,1600",
    ]
    common.append("--window-size=1200,1600")
    profile = f"--user-data-dir={page.parent / 'profile'}"
    command = [str(BROWSER), *common, profile, "--virtual-time-budget=20000", *options, page.as_uri()]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert finished.returncode == 0, finished.stderr[-2000:]
    return finished.stdout


@pytest.fixture(scope="module", params=["en", "zh"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    with speaking(request.param):
        (folder / "report.html").write_text(html.document(sample.run()), encoding="utf-8")
    return folder / "report.html"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_drawn_in_light_and_dark(page: Path, scheme: str) -> None:
    target = page.parent / f"{scheme}.png"
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    browse(page, f"--screenshot={target}", *dark)
    content = target.read_bytes()
    assert content.startswith(b"\x89PNG") and len(content) > 30_000


def test_the_page_prints(page: Path) -> None:
    pypdf = pytest.importorskip("pypdf", reason="reading PDFs needs the extra 'dev'")
    target = page.parent / "printed.pdf"
    browse(page, f"--print-to-pdf={target}", "--no-pdf-header-footer")
    sheets = pypdf.PdfReader(target).pages
    text = "".join(sheet.extract_text() for sheet in sheets)
    assert len(sheets) > 4 and "gradient_product" in text and "8.00" in text


@pytest.mark.skipif(not Path(AXE).is_file(), reason="no axe-core; set AXE to its axe.min.js")
def test_axe_finds_no_violation(page: Path) -> None:
    script = f"<script>{Path(AXE).read_text(encoding='utf-8')}</script>{RUN}"
    checked = page.parent / "checked.html"
    checked.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{script}</body>"), encoding="utf-8")
    answer = re.search(r'<pre id="axe-result">(.*?)</pre>', browse(checked, "--dump-dom"), re.DOTALL)
    assert answer is not None
    assert json.loads(unescape(answer.group(1))) == []
