"""`ipu-tf open REPORT`: serves the page of a report to the browser of this computer."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ipu_tf.base.user_objects import UsageError
from ipu_tf.cli.command import Command
from ipu_tf.cli.files import read_report


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port < 2**16:
        raise argparse.ArgumentTypeError(f"must be from 0 to 65535. Received: {text}")
    return port


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="a report: JSON, or a page written before")
    parser.add_argument(
        "--json", action="store_true", help="print the address as JSON instead of text"
    )
    parser.add_argument(
        "--port", type=_port, default=0, help="the port to listen on; by default a free one"
    )


def _run(options: argparse.Namespace) -> int:
    from ipu_tf.profile.html import serving

    page = _page(options.file)
    try:
        server = serving.server(page, options.port)
    except OSError as error:
        raise UsageError(
            f"cannot listen on port {options.port} of this computer: {error.strerror}. Name "
            "another port with --port, or leave it out for a free one."
        ) from error
    with server:
        if options.json:
            print(json.dumps({"address": server.address}), flush=True)
        else:
            print(f"{options.file} is at {server.address} (Ctrl-C ends)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


def _page(path: Path) -> str:
    if path.suffix.lower() not in (".html", ".htm"):
        from ipu_tf.profile.html import report_page

        report = read_report(path)
        return report_page(
            report.programs, notes=report.notes, host=report.host, text=report.summary()
        )
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not the page of a report: {error}.") from error


OPEN = Command(
    name="open",
    summary="show the page of a report in a browser of this computer",
    description="Serves the page of a report, and nothing else, to this computer alone, and "
    "prints its address.",
    add_arguments=_add_arguments,
    run=_run,
)
