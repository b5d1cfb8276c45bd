"""Certificates for tests, made with the program openssl: a private CA, servers, a client, and a stranger."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

OPENSSL_SECONDS = 60
DAYS = "3650"
CONFIG = """\
[req]
distinguished_name = name
[name]
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[leaf]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = {names}
"""


class Certificates:
    """Files in `directory`: `NAME.pem` is a certificate, `NAME.key` its key, `NAME.both` the two."""

    def __init__(self, directory: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("SKIPPED LOUDLY: no openssl on PATH, so no certificates can be made; install it")
        self._directory = directory
        self.ca = self._certificate("ca", "Private CA of a test")
        self.stranger = self._certificate("stranger", "CA that nobody named")
        self.server = self._certificate("server", "server", "IP:127.0.0.1,DNS:localhost")
        self.other_host = self._certificate("other-host", "server", "DNS:kafka.example.com")
        self.publisher = self._certificate("publisher", "publisher", "DNS:publisher")
        self.worker = self._certificate("worker", "worker", "DNS:worker")

    def _certificate(self, name: str, common_name: str, names: str | None = None) -> Path:
        """A CA without `names`, else a certificate that the private CA signed."""
        config = self._directory / f"{name}.cnf"
        config.write_text(CONFIG.format(names=names or "DNS:unused"))
        pem, key = (self._directory / f"{name}.{end}" for end in ("pem", "key"))
        signed = ["-CA", self.ca, "-CAkey", self.ca.with_suffix(".key")] if names else []
        command: list[str | Path] = ["openssl", "req", "-x509", "-config", config, "-days", DAYS]
        command += ["-extensions", "leaf" if names else "ca", "-subj", f"/CN={common_name}", *signed]
        command += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc"]
        command += ["-keyout", key, "-out", pem]
        done = subprocess.run(command, timeout=OPENSSL_SECONDS, capture_output=True, text=True)
        assert done.returncode == 0, f"openssl could not make {name}:\n{done.stderr}"
        pem.with_suffix(".both").write_bytes(key.read_bytes() + pem.read_bytes())
        return pem
