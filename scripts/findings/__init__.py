"""Findings: pages that answer an open question of a thread with figures.

Each module of `findings.pages` is one page: it names the question and its thread, asks shardlab, and computes the
answer from what shardlab says. `scripts/generate_findings.sh` writes the pages and their index to reports/findings.
"""
