"""The log formats: a file each, named like its format.

NAME.toml declares one as a user would; NAME.py has the declaration `FORMAT` of one that needs code.
"""

from importlib.resources import files
from pathlib import PurePath

_FIRST = ("combined", "common", "vhost_combined")
# JSON with any usual names, for which objects of other formats could be taken.
_LAST = ("nginx_json", "apache_json")
# The package may be in an archive.
_FILES = [PurePath(file.name) for file in files(__name__).iterdir()]
_NAMES = {file.stem for file in _FILES if file.suffix in (".toml", ".py")}

# Where lines could be of several formats, the first one here is taken.
FORMATS: tuple[str, ...] = (*_FIRST, *sorted(_NAMES - {"__init__", *_FIRST, *_LAST}), *_LAST)
# Increment when a reader of lines gives another result. Readers are code, so they have no hash. It is part of
# `rules_version` in silver.requests.
VERSION = 11
