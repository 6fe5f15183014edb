"""Opens object stores by URL: S3, Google Cloud Storage, Azure, HTTP and directories, with the credentials of their
providers' standard means."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

from tidemark.errors import PlatformError, SettingError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

BUCKETS = ("s3", "gs", "az")
SCHEMES = (*BUCKETS, "https", "http", "file")
# A request without an answer, or one that is refused as too many, is repeated for this long.
_RETRY_SECONDS = 60
_MOST_RETRIES = 8
# A store that is silent for this long does not answer. A large object may take longer, while its bytes arrive.
_SILENT_SECONDS = 30
_WHOLE_SECONDS = 24 * 3600
# The parameters that belong to a signature, by the one that has it: of Azure; of CloudFront, and of S3 and Google in an
# older way; and of others. X-Amz-* and X-Goog-* always belong to one.
_SIGNED = {
    "sig": {
        *("se", "sp", "sv", "sr", "st", "spr", "sip", "ss", "srt", "sdd", "ses", "scid"),
        *("saoid", "suoid", "skoid", "sktid", "skt", "ske", "sks", "skv"),
    },
    "signature": {"expires", "policy", "key-pair-id", "awsaccesskeyid", "googleaccessid"},
    "token": {"expires"},
}
_AZURE_ACCOUNT = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_USE_EMULATOR")


@dataclass(frozen=True)
class Location:
    """An open store and a place in it. `root` is the store's URL without credentials, such as `s3://bucket`, and `path`
    the key, prefix or directory that the URL names; of an HTTP URL, which names one object, it is empty. `query`: what
    names the object in the query of an HTTP URL. It may have secrets: only its hash is kept."""

    store: ObjectStore
    scheme: str
    root: str
    path: str
    query: str = ""

    @property
    def store_url(self) -> str:
        """The store's URL; of an HTTP URL, that of its server."""
        return self.root if self.scheme in BUCKETS else f"{self.scheme}://{urlsplit(self.root).netloc}"

    @property
    def url(self) -> str:
        return self.url_of(self.path)

    def url_of(self, key: str) -> str:
        """The URL of an object of this store, for messages."""
        return f"{self.root}/{key}" if key else self.root

    def identity_of(self, key: str) -> str:
        """The URL by which an import knows an object: with its query, but without a signature."""
        return f"{self.url_of(key)}?{self.query}" if self.query else self.url_of(key)


def is_url(text: str) -> bool:
    """Whether a text is a URL of an object store, not a path of a file."""
    return text.partition("://")[0].lower() in SCHEMES and "://" in text


def open_store(
    url: str,
    *,
    endpoint: str = "",
    retry_seconds: float = _RETRY_SECONDS,
    silent_seconds: float = _SILENT_SECONDS,
) -> Location:
    """Opens the store of a URL: `s3://bucket/prefix/`, `gs://…`, `az://container/…`, `https://…`, `file:///directory/`.

    `endpoint` is the address of a server that speaks the same protocol, such as MinIO for S3. Requests are repeated
    for `retry_seconds` while the store fails, or is silent for `silent_seconds`. It sends no request yet;
    use `tidemark.objects.faults.explained` around requests. Raises SettingError for a URL that names no store, and
    PlatformError if the library is not installed.
    """
    if importlib.util.find_spec("obstore") is None:
        raise PlatformError(
            f"{public(url)} is in an object store, whose library is not installed",
            "Install it: `pip install 'tidemark[objects]'`.",
        )
    parts = urlsplit(url)
    scheme, path = parts.scheme.lower(), unquote(parts.path) if parts.scheme == "file" else parts.path
    if scheme not in SCHEMES:
        raise SettingError(
            f"{public(url)} is not a URL of an object store",
            f"It begins with one of {', '.join(f'{each}://' for each in SCHEMES)}.",
        )
    if scheme in BUCKETS and not parts.netloc:
        raise SettingError(f"{public(url)} names no bucket", f"Write {scheme}://BUCKET/PREFIX/.")
    if endpoint and not endpoint.startswith(("https://", "http://")):
        raise SettingError(
            f"{public(endpoint)} is not the address of an object store", "Begin it with https:// or http://."
        )
    retry = cast(
        "RetryConfig",
        {"max_retries": _MOST_RETRIES, "retry_timeout": timedelta(seconds=retry_seconds)},
    )
    client = cast(
        "ClientConfig",
        {
            "read_timeout": timedelta(seconds=silent_seconds),
            "timeout": timedelta(seconds=_WHOLE_SECONDS),
            "user_agent": "tidemark",
        }
        | ({"allow_http": True} if "http://" in (endpoint[:7], url[:7].lower()) else {}),
    )
    if scheme == "file":
        from obstore.store import LocalStore

        return Location(LocalStore(), scheme, "file://", path.removeprefix("/"))
    if scheme in ("https", "http"):
        from obstore.store import HTTPStore

        store = HTTPStore.from_url(url, client_options=client, retry_config=retry)
        return Location(store, scheme, public(url), "", _without_signature(parts.query))
    if "?" in url or "#" in url:  # urlsplit would take the rest of the key for a query
        path = url.partition("://")[2].partition("/")[2]
    return Location(
        _bucket(scheme, parts.netloc, endpoint, client, retry),
        scheme,
        f"{scheme}://{parts.netloc}",
        path.lstrip("/"),
    )


def public(url: str) -> str:
    """A URL without user, password, query and fragment, which may be credentials."""
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http"):
        return url
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _without_signature(query: str) -> str:
    """The parameters of a query that are not part of a signature, which another day's URL of the object has not."""
    parameters = [(unquote(each.partition("=")[0]).lower(), each) for each in query.split("&") if each]
    names = {name for name, _ in parameters}
    signs = set().union(*({mark, *others} for mark, others in _SIGNED.items() if mark in names))
    return "&".join(
        each for name, each in parameters if name not in signs and not name.startswith(("x-amz-", "x-goog-"))
    )


def _bucket(scheme: str, bucket: str, endpoint: str, client: ClientConfig, retry: RetryConfig) -> ObjectStore:
    from obstore.store import AzureStore, GCSStore, S3Store

    if scheme == "gs":
        # A server that takes the place of Google's asks for no credentials.
        config: dict[str, Any] = {"base_url": endpoint, "skip_signature": True} if endpoint else {}
        return GCSStore(bucket, config=cast("Any", config), client_options=client, retry_config=retry)
    config = {"endpoint": endpoint} if endpoint else {}
    if scheme == "az":
        if not any(os.environ.get(name) for name in _AZURE_ACCOUNT):
            raise SettingError(
                f"az://{bucket} names no storage account",
                "Set AZURE_STORAGE_ACCOUNT_NAME, and the means to log in (docs/objects.md).",
            )
        return AzureStore(bucket, config=cast("Any", config), client_options=client, retry_config=retry)
    if os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        client = cast("ClientConfig", {**client, "allow_http": True})
    return S3Store(
        bucket,
        config=cast("Any", config),
        client_options=client,
        retry_config=retry,
        **_of_profile(os.environ),
    )


def _of_profile(environment: Mapping[str, str]) -> dict[str, Any]:
    """Credentials and region of AWS's configuration files, SSO and role chains, which boto3 reads. Those of the
    environment, of containers and of machines are read by the store itself."""
    own = ("AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE", "AWS_WEB_IDENTITY_TOKEN_FILE")
    if any(environment.get(name) for name in own) or importlib.util.find_spec("boto3") is None:
        return {}
    import boto3
    from botocore.exceptions import BotoCoreError
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        session = boto3.Session()
        if session.get_credentials() is None:
            return {}
        return {"credential_provider": Boto3CredentialProvider(session)}
    except BotoCoreError as error:
        raise SettingError(f"AWS's configuration cannot be used: {error}", "Check AWS_PROFILE.") from error
