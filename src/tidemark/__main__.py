"""`python -m tidemark`, the same as the `tidemark` command."""

from __future__ import annotations

from tidemark.cli import main

main()
