"""How much an archive of a model may unpack to: torch packs no weights, so what is packed is code, and small."""

import io
import zipfile
from collections.abc import Sequence

from audit.core.errors import DataError
from audit.data.source import DAMAGE

MOST_PACKED = 64 * 2**20


def refuse_bomb(entries: Sequence[zipfile.ZipInfo], size: int, name: str) -> None:
    """Raise `DataError` if the entries of an archive of `size` bytes would unpack to far more than it holds.

    Packed entries say how much they unpack to, and are read no further. Entries that are stored as they are may overlap.
    """
    packed_bytes = sum(entry.file_size for entry in entries if entry.compress_type != zipfile.ZIP_STORED)
    if packed_bytes > MOST_PACKED:
        raise DataError(f"{name} is refused: it unpacks to {packed_bytes:,} bytes; expected at most {MOST_PACKED:,}")
    stored = sum(entry.file_size for entry in entries if entry.compress_type == zipfile.ZIP_STORED)
    if stored > size:
        raise DataError(f"{name} is refused: its entries say that they hold {stored:,} bytes, in a file of {size:,}")


def refuse_bomb_in(content: bytes, name: str) -> None:
    """The same of a whole file; one that is no zip archive passes."""
    if not content.startswith(b"PK"):
        return
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
    except DAMAGE as error:
        raise DataError(f"{name} is not a complete archive: {error}; save the model again") from error
    refuse_bomb(entries, len(content), name)
