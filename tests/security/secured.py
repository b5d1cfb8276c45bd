"""A deployment that lets in only who may: where it is, and with which settings each user comes in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamer.settings import Settings
from tests.support.certificates import Certificates
from tests.support.secure_servers import ADMIN, SecureKafka, SecureRedis

USERS = (ADMIN, "worker", "publisher", "reader", "viewer", "operator", "nobody")
PASSWORDS = {user: f"hidden-{user}-4f1c9b" for user in USERS}
REDIS_PASSWORDS = {user: f"concealed/{user}@7d#?%2e" for user in ("worker", "reader")}
"""Characters that mean something in URLs."""

WRONG = {"sasl_password_file": None, "sasl_password": "not-the-password"}
WRONG_FOR_REDIS = {"redis_password_file": None, "redis_password": "not-the-password"}

SECRETS = (*PASSWORDS.values(), *REDIS_PASSWORDS.values(), "not-the-password")
PARTITIONS = 2


@dataclass
class SecretFiles:
    directory: Path

    def __call__(self, name: str, secret: str) -> Path:
        """The file that holds the secret, with the line end that editors leave."""
        file = self.directory / f"{name}.secret"
        file.write_text(f"{secret}\n")
        return file


@dataclass
class Secured:
    kafka: SecureKafka
    redis: SecureRedis
    certificates: Certificates
    files: SecretFiles

    def given(self, user: str, **more: Any) -> dict[str, Any]:
        """Settings of a user, passwords in files; `more` is on top, what is None there is left out."""
        redis_user = user if user in REDIS_PASSWORDS else "reader"
        given = {
            "bootstrap": self.kafka.at("SCRAM"),
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_username": user,
            "sasl_password_file": self.files(user, PASSWORDS[user]),
            "ssl_cafile": self.certificates.ca,
            "redis": self.redis.url(redis_user),
            "redis_password_file": self.files(f"redis-{redis_user}", REDIS_PASSWORDS[redis_user]),
            "redis_cafile": self.certificates.ca,
            "partitions": PARTITIONS,
            "session_timeout_seconds": 6,
        } | more
        return {name: value for name, value in given.items() if value is not None}

    def plain(self, user: str, **more: Any) -> dict[str, Any]:
        """Settings of a user by SASL_PLAINTEXT and PLAIN, with the password itself."""
        return self.given(
            user,
            bootstrap=self.kafka.at("PLAIN"),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_password_file=None,
            sasl_password=PASSWORDS[user],
            **more,
        )

    def settings(self, user: str, **more: Any) -> Settings:
        return Settings(**self.given(user, **more))


def environment(given: dict[str, Any]) -> dict[str, str]:
    """Settings as STREAMER_* variables; what is None is left out."""
    return {f"STREAMER_{name.upper()}": str(value) for name, value in given.items() if value is not None}
