"""python3 -m pillion.report FOLDER -o FILE.html [--paper NAME]"""

import argparse
import os
import stat
import sys
import tempfile

from pillion import INSTALL


def _arguments(words):
    parser = argparse.ArgumentParser(
        prog="python3 -m pillion.report", description="Write the report of an experiment as one HTML file that loads nothing.",
        epilog="Example: python3 -m pillion.report overhead-results -o overhead.html",
    )  # fmt: skip
    parser.add_argument("folder", metavar="FOLDER", help="result folder of pillion experiment run")
    parser.add_argument("-o", "--output", metavar="FILE", help="the report; - is standard output; default: report.html in FOLDER")
    parser.add_argument("--paper", metavar="NAME", help="set the published tables of a paper beside ours: pezaros-2011, hamilton-2012, angrisani, mehani-2011 or li-2015")
    parser.add_argument("--papers", metavar="DIRECTORY", help="directory with the published tables; default: study/experiment/paper of the source tree")
    parser.add_argument("--publish", metavar="HOST[:PORT]", help="also show the report on the page of the server whose OMSP listener this is; its token, if it requires one, is read from the file PILLION_OML_TOKEN_FILE")
    return parser.parse_args(words)


def main(words=None):
    """Write the report; 0, or 1 after an error, which is one line."""
    options = _arguments(words)
    try:
        from pillion.analysis.result import read_folder
        from pillion.report import compose, page, paper, publish
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("pillion"):
            raise
        print("pillion.report: the module %s is missing: %s" % (error.name, INSTALL), file=sys.stderr)
        return 1
    target = options.output or os.path.join(options.folder, "report.html")
    try:
        experiment = read_folder(options.folder)
        published = paper.sections(experiment, options.paper, options.papers) if options.paper else ()
        report = compose.compose(experiment, published)
        replace(target, page.write(report))
        if options.publish:
            publish.publish(report, options.publish, token=publish.token())
    except (OSError, ValueError, LookupError) as error:
        print("pillion.report: %s" % (error if not isinstance(error, KeyError) else error.args[0]), file=sys.stderr)
        return 1
    if target != "-":
        print(target)
    return 0


def replace(path, text):
    """Write a file that has its name only once it is complete. What is no regular file, such as a
    device or a FIFO, is written in place; of a symbolic link, the target is replaced."""
    if path == "-":
        sys.stdout.write(text)
        return
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return
    path = os.path.realpath(path)
    handle, part = tempfile.mkstemp(dir=os.path.dirname(path), prefix="." + os.path.basename(path) + ".", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(path):
            old = os.stat(path)
            os.chown(part, old.st_uid, old.st_gid)
            os.chmod(part, stat.S_IMODE(old.st_mode))
        else:
            os.chmod(part, 0o644)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise


if __name__ == "__main__":
    sys.exit(main())
