"""How a demo ends: one object for programs, a table and a sentence for people."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compose.demo.findings import DemoFindings

_FAULTS_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a demo ends with."""

    stack: str
    findings: DemoFindings
    seconds: float
    """From the first process's start to the last message's final state."""
    workers: int
    clients: int
    workers_killed: int
    clients_cut_off: int
    takeovers: int
    """How often a partition was given to an owner with a new epoch while messages were on their way."""
    folder: Path
    """Where outboxes, logs and configuration are."""
    kept: bool


def as_json(report: Report) -> str:
    """Return the object that `--json` prints."""
    findings = report.findings
    return json.dumps(
        {
            "stack": report.stack,
            "messages": findings.messages,
            "sent": findings.sent,
            "delivered": findings.delivered,
            "read": findings.read,
            "failed": findings.failed,
            "lost": findings.lost,
            "duplicates": findings.duplicates,
            "regressions": findings.regressions,
            "stuck": findings.stuck,
            "conflicts": findings.conflicts,
            "workers": report.workers,
            "clients": report.clients,
            "workers_killed": report.workers_killed,
            "clients_cut_off": report.clients_cut_off,
            "takeovers": report.takeovers,
            "seconds": round(report.seconds, 1),
        }
    )


def show(report: Report) -> None:
    """Print the table and the sentence to standard output, and what is wrong to standard error."""
    from rich.box import ROUNDED
    from rich.console import Console
    from rich.table import Table

    findings = report.findings
    console = Console()
    table = Table(box=ROUNDED, show_header=False)
    facts = (
        ("stack", report.stack),
        ("messages", f"{findings.messages} from {report.clients} clients, {report.workers} workers"),
        ("✓ sent", findings.sent),
        ("✓✓ delivered", findings.delivered),
        ("[cyan]✓✓[/] read", findings.read),
        ("failed", findings.failed),
        ("workers killed", f"{report.workers_killed}, {report.takeovers} partitions got a new owner or epoch"),
        ("clients cut off", report.clients_cut_off),
        ("seconds", f"{report.seconds:.1f}"),
    )
    faults = (
        ("lost", findings.lost),
        ("duplicates", findings.duplicates),
        ("regressions", findings.regressions),
        ("stuck", findings.stuck),
    )
    for name, value in facts:
        table.add_row(name, str(value))
    table.add_section()
    for name, count in faults:
        table.add_row(name, f"[{'bold red' if count else 'green'}]{count}[/]")
    console.print(table)
    console.print(_sentence(findings), highlight=False)
    for fault in findings.faults[:_FAULTS_SHOWN]:
        sys.stderr.write(f"{fault.kind}: {fault.body!r} {fault.detail}\n")
    if len(findings.faults) > _FAULTS_SHOWN:
        sys.stderr.write(f"... and {len(findings.faults) - _FAULTS_SHOWN} more\n")
    if report.kept:
        sys.stderr.write(f"kept: {report.folder}\n")


def _sentence(findings: DemoFindings) -> str:
    if findings.faultless:
        return "[bold green]Every tick is true:[/] the store, all outboxes and all inboxes say the same."
    hit = len({(fault.kind, fault.body) for fault in findings.faults})
    return f"[bold red]{hit} faults:[/] the store, the outboxes and the inboxes do not say the same."
