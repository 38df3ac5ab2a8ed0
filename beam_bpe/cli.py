"""The command `beam-bpe`: learn vocabularies, encode and decode with them, and look at what was made."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import traceback
from typing import Sequence

from beam_bpe import __version__, console
from beam_bpe.commands import audit, convert, count, diff, encode, measure, report, show, tokens, train
from beam_bpe.commands.arguments import add_storage
from beam_bpe.commands.usage import Parser, UsageError, as_options, checked
from beam_bpe.stores import parse_options, redacted, storage_options

USAGE, FAILED, INTERRUPTED = 2, 1, 130
COMMANDS = (count, train, report, show, encode, tokens, measure, audit, diff, convert)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 1 (failed), 2 (usage), 3 (`audit` found what it should not), 130 (interrupted)."""
    if argv is not None:
        return _run(list(argv))
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
        getattr(sys, name).reconfigure(errors="backslashreplace")
    if "--debug" not in sys.argv:  # what fails is said once, in one line
        logging.disable(logging.ERROR)  # job servers have loggers with levels of their own
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        threading.excepthook = lambda _: None  # of Beam's, whose worker was ended with us; ours hand their errors over
        sys.stderr = console.WithoutTracebacks(sys.stderr)  # which such threads print to the end
    code = _run(sys.argv[1:])
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
    # Leave at once: after Ctrl-C Beam's threads would be waited for until the job's end, and Arrow's threads may
    # abort a Python that is ending.
    console.end_children()
    os._exit(code)


def _run(argv: list[str]) -> int:
    beam_flags = argv[argv.index("--") + 1 :] if "--" in argv else []
    own = argv[: argv.index("--")] if "--" in argv else argv
    debug = "--debug" in own
    logging.basicConfig(level=logging.INFO if debug else logging.ERROR, format="%(name)s: %(message)s")
    if not debug:  # what fails is said once, in one line
        logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    try:
        parser, commands = _parser()
        if not own:
            parser.print_help()
            return USAGE
        if own[0] in commands:
            chosen = commands[own[0]]  # misspelt options first: one that is demanded would be said to be missing
            chosen.check_known([word for word in own if chosen.is_unknown(word)])
            args, unknown = chosen.parse_known_intermixed_args(own[1:])
            args.command = own[0]
            chosen.check_known(unknown)
        else:
            args = parser.parse_args(own)
        args.beam_flags, args.argv = beam_flags, own  # argv is told in reports; Beam's flags may hold secrets
        checked(lambda: storage_options(parse_options(args.storage_option)))
        if getattr(args, "output", None) == "":
            raise UsageError("--output is empty")
        args.run(args)
        return 0
    except KeyboardInterrupt:
        print("\nbeam-bpe: interrupted; nothing half-written stands in the output", file=sys.stderr)
        if beam_flags:
            print("beam-bpe: the job was told to stop; its workers may still finish what they do", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has seen enough
        return FAILED
    except Exception as error:
        if debug:
            print(redacted(traceback.format_exc()), end="", file=sys.stderr)
        else:
            print(f"beam-bpe: error: {redacted(as_options(console.one_line(error)))}", file=sys.stderr)
        return USAGE if isinstance(error, UsageError) else getattr(error, "exit_code", FAILED)


def _parser() -> tuple[Parser, dict[str, Parser]]:
    parser = Parser(prog="beam-bpe", description=__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"beam-bpe {__version__}")
    added = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    commands: dict[str, Parser] = {}
    for module in COMMANDS:
        commands.update(module.add(added))
    for each in commands.values():
        add_storage(each)
    return parser, commands
