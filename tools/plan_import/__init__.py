"""Reads schedules of other systems as chunk plans: see tools/plan_from.py."""
