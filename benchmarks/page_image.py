"""A page of a report as a picture, for the README.

`python benchmarks/page_image.py report.json docs/images/report-page.png 1`
"""

import sys
from pathlib import Path

from audit.core.errors import ConfigError
from reports.formats import json, pdf

PIXELS_PER_INCH = 120


def picture(source: Path, page: int) -> bytes:
    """One page (the first is 1) of the report in a report.json, as PNG.

    Raises:
        ConfigError: the report has no such page.
    """
    images = pdf.page_images(json.from_json(source.read_bytes()), PIXELS_PER_INCH)
    if not 1 <= page <= len(images):
        raise ConfigError(f"there is no page {page}; '{source}' renders to {len(images)} pages")
    return images[page - 1]


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(picture(Path(sys.argv[1]), int(sys.argv[3])))
