"""Detached signatures by OpenSSH: an SSH key signs, its public half checks; over the checksums of a folder, or any bytes.

A signature is one of SSH (PROTOCOL.sshsig of OpenSSH) in its own namespace for each kind of content, so that none passes
for another. Ed25519 and RSA keys give the same bytes every time.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from audit.core import files
from audit.core.errors import ConfigError, DataError, OutputError
from audit.execution.run_folder import SUMS, write

NAMESPACE = "epsilon-audit"
FIRST_LINE = b"-----BEGIN SSH SIGNATURE-----"
_SIGNER = "auditor"
_SECONDS = 120  # for whoever has to type the key's passphrase


def sign(folder: Path, key: Path, sums: str = SUMS) -> Path:
    """Sign `SHA256SUMS`, or another such file, and return the signature's path; errors as of `sign_bytes` and `write`."""
    target = folder / f"{sums}.sig"
    content = sign_bytes((folder / sums).read_bytes(), key, NAMESPACE)
    write(target, content)
    return target


def sign_bytes(content: bytes, key: Path, namespace: str) -> bytes:
    """The signature of bytes; `ConfigError` if the key is absent or OpenSSH cannot use it, `OutputError` without OpenSSH."""
    if not key.is_file():
        raise ConfigError(f"there is no key '{key}'; make one with ssh-keygen -t ed25519 -f {key.name}")
    process = _run(["-Y", "sign", "-q", "-f", str(key), "-n", namespace], content)
    if process.returncode != 0 or not process.stdout.startswith(FIRST_LINE):
        raise ConfigError(f"ssh-keygen cannot sign with '{key}': {_words(process)}; give a private key of OpenSSH")
    return process.stdout


def problem(folder: Path, public: Path, sums: str = SUMS) -> str:
    """Return why a signature of `SHA256SUMS`, or another such file, is not of a public key, or ""; errors as of `refusal`."""
    signer = _public_key(public)
    signature = folder / f"{sums}.sig"
    if not signature.is_file() or not (folder / sums).is_file():
        return f"{signature.name}: missing"
    words = _verify((folder / sums).read_bytes(), signature.read_bytes(), signer, NAMESPACE)
    return f"{signature.name}: not by this key over {sums} as it is ({words})" if words else ""


def refusal(content: bytes, signature: bytes, public: Path, namespace: str) -> str:
    """Return what OpenSSH says against a signature of these bytes by a public key, "" if it is one; `DataError` if the key
    cannot be read, `OutputError` without OpenSSH.
    """
    return _verify(content, signature, _public_key(public), namespace)


def _public_key(public: Path) -> str:
    """Kind and key of a public key, without its comment."""
    try:
        key = files.read(public).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the public key '{public}': {error}; expected a file such as id_ed25519.pub") from error
    if len(key.splitlines()) != 1 or len(key.split()) < 2 or "PRIVATE" in key:
        raise DataError(f"'{public}' is not a public key; expected one line such as that of id_ed25519.pub")
    return " ".join(key.split()[:2])


def _verify(content: bytes, signature: bytes, signer: str, namespace: str) -> str:
    with tempfile.TemporaryDirectory(prefix="audit-verify-") as name:
        signers, file = Path(name) / "allowed_signers", Path(name) / "signature"
        signers.write_text(f'{_SIGNER} namespaces="{namespace}" {signer}\n', encoding="ascii")
        file.write_bytes(signature)
        options = ["-f", str(signers), "-I", _SIGNER, "-n", namespace, "-s", str(file)]
        process = _run(["-Y", "verify", *options], content)
    return "" if process.returncode == 0 else _words(process)


def _run(arguments: list[str], content: bytes) -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise OutputError("ssh-keygen is not installed; signatures need OpenSSH 8.1 or later")
    try:
        return subprocess.run([program, *arguments], input=content, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise OutputError(f"ssh-keygen gave no answer in {_SECONDS} s; unlock the key with ssh-add first") from error


def _words(process: subprocess.CompletedProcess[bytes]) -> str:
    lines = (process.stderr or process.stdout).decode(errors="replace").split("\n")
    return " ".join(line.strip() for line in lines if line.strip())[:300] or f"exit code {process.returncode}"
