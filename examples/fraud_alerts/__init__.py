"""Fraud alerts: events answered in milliseconds, and windows over the same stream."""
