"""Answers to other programs: the HTTP API and the tools of MCP, over the declaration of the reports."""
