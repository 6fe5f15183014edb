"""Errors of object stores as one sentence and a remedy. A store's own answer may repeat credentials; these do not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from tidemark.errors import InputError, first_line
from tidemark.objects.store import Location

Doing = Literal["listed", "read", "written"]

_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"status code: (\d{3})")
_REGION = re.compile(r"<Region>([a-z0-9-]+)</Region>")
_EXPIRED = ("ExpiredToken", "TokenRefreshRequired", "RequestExpired", "ExpiredTokenException")
_REFUSED = (
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidToken",
    "AuthenticationFailed",
    "AuthFailure",
)
_ELSEWHERE = (
    "PermanentRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "IncorrectEndpoint",
)
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
# A machine without credentials is asked for those of its role, at these addresses.
_OF_MACHINE = ("169.254.169.254", "metadata.google.internal", "169.254.170.2", "/latest/api/token")

AGAIN = "Start again later; an import continues where it stopped."
_CREDENTIALS = {
    "s3": "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE (`pip install 'tidemark[queue]'` reads"
    " profiles), or give the machine a role; AWS_SKIP_SIGNATURE=true reads a public bucket.",
    "gs": "Set GOOGLE_APPLICATION_CREDENTIALS to a key file, or run `gcloud auth application-default login`.",
    "az": "Set AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN or a client's secret;"
    " AZURE_USE_AZURE_CLI=true uses `az login`.",
}
_RENEWAL = {
    "s3": "Get new ones, for example by `aws sso login`, and set AWS_SESSION_TOKEN with the key that belongs to it.",
    "gs": "Run `gcloud auth application-default login`.",
    "az": "Make a new SAS token, or run `az login`.",
}
_RIGHTS = {
    ("s3", "listed"): "Allow s3:ListBucket on the bucket",
    ("s3", "read"): "Allow s3:GetObject on the objects, and kms:Decrypt on their key",
    ("s3", "written"): "Allow s3:PutObject on the objects",
    ("gs", "listed"): "Grant roles/storage.objectViewer on the bucket",
    ("gs", "read"): "Grant roles/storage.objectViewer on the bucket",
    ("gs", "written"): "Grant roles/storage.objectCreator on the bucket",
    ("az", "listed"): "Assign Storage Blob Data Reader on the container",
    ("az", "read"): "Assign Storage Blob Data Reader on the container",
    ("az", "written"): "Assign Storage Blob Data Contributor on the container",
}


class MissingError(InputError):
    """An object does not exist, or no longer."""


class PassingError(InputError):
    """A store did not answer, or not to the end: the same request may succeed later."""


class SilentError(PassingError):
    """A store did not answer at all."""


class RefusedError(InputError):
    """A store does not let this user in, or not do this, or has no such bucket."""


class DeniedError(RefusedError):
    """This user may not read or list, which may hold for single objects alone."""


@contextmanager
def explained(location: Location, doing: Doing, key: str | None = None) -> Iterator[None]:
    """Turns the errors of requests to `location`, or to the object `key` of it, into InputError: MissingError,
    PassingError, RefusedError, DeniedError or another, with the remedy."""
    try:
        yield
    except (InputError, GeneratorExit, KeyboardInterrupt):
        raise
    except Exception as error:
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise
        raise error_of(location, doing, error, key) from None


def error_of(location: Location, doing: Doing, error: Exception, key: str | None = None) -> InputError:
    """The error of a request as InputError; see `explained`."""
    text, scheme = str(error), location.scheme
    url = location.url if key is None else location.url_of(key)
    code = next(iter(_CODE.findall(text)), "")
    status = next(iter(_STATUS.findall(text)), "")
    docs = "see docs/objects.md"
    if any(address in text for address in _OF_MACHINE):
        return RefusedError(
            f"{url} cannot be {doing}: there are no credentials", _CREDENTIALS.get(scheme, "")
        )
    if code in _NO_BUCKET or (status == "404" and doing == "listed"):
        return RefusedError(
            f"{location.root} does not exist", "Check its name, and --endpoint if it is not the provider's."
        )
    if isinstance(error, FileNotFoundError) or status == "404":
        return MissingError(f"{url} does not exist", "Check the key.")
    if code == "InvalidObjectState":
        return InputError(
            f"{url} is archived", "Restore it to a storage class that can be read, and import it then."
        )
    if code in _EXPIRED:
        return RefusedError(
            f"{url} cannot be {doing}: the credentials have expired", _RENEWAL.get(scheme, "Renew them.")
        )
    if code in _ELSEWHERE or "redirect without LOCATION" in text:
        region = next(iter(_REGION.findall(text)), "")
        return RefusedError(
            f"{location.root} is in another region" + (f", {region}" if region else ""),
            f"Set AWS_REGION{'=' + region if region else ' to the region of the bucket'}.",
        )
    if code == "RequestTimeTooSkewed":
        return RefusedError(f"{url} cannot be {doing}: the clock of this machine is wrong", "Set the clock.")
    if code in _REFUSED or status == "401":
        return RefusedError(
            f"{url} cannot be {doing}: the store does not accept the credentials",
            _CREDENTIALS.get(scheme, "Check them."),
        )
    if status == "403":
        right = _RIGHTS.get(
            (scheme, doing), "Check the rights, or renew the URL if it was signed for some time"
        )
        return DeniedError(
            f"{url} may not be {doing}", f"{right}; {docs}." if scheme in _CREDENTIALS else f"{right}."
        )
    if "empty path segment" in text or type(error).__name__ == "InvalidPathError":
        return InputError(
            f"{url} has keys with `//` or `..` between slashes, or that are no UTF-8, which cannot be read",
            "Name a prefix without them, or copy these objects to other keys.",
        )
    if scheme == "file":
        cause = first_line(error).removeprefix("Generic LocalFileSystem error: ")
        return SilentError(f"{url} cannot be {doing}: {cause}", "Check path and rights.")
    remedy = AGAIN if doing != "written" else "Start again later."
    if not status:
        return SilentError(f"{url} cannot be {doing}: the store does not answer, or not to the end", remedy)
    answer = f"answers {status}{f' ({code})' if code else ''}"
    return PassingError(f"{url} cannot be {doing}: the store {answer}", remedy)
