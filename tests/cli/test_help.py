"""Help, man pages and completions say the same things, because they are made from the same tables."""

import os
import re
import shutil
import subprocess

from harness import Skipped, USAGE, check, equal, test


def commands_of(box):
    """The commands, by the program's own list for completion."""
    script = box.works("help", "--completion", "bash").out
    return re.search(r'COMP_CWORD" -eq 1 .*?compgen -W "([^"]+)"', script, re.S).group(1).split()


def options_of(text):
    """The options a help text lists."""
    return set(re.findall(r"^  (?:-\w, |    )(--[a-z-]+)", text, re.M))


def plain(man):
    """A man page without the roff escapes that matter here."""
    return man.replace("\\-", "-").replace("\\fB", "").replace("\\fI", "").replace("\\fR", "")


@test
def koofu_alone(box):
    result = box.run()
    equal(result.status, USAGE, "status")
    equal(result.out, "", "stdout")
    equal(re.findall(r"^  ([a-z][a-z-]*)  ", result.err, re.M), commands_of(box), "the commands of the help")


@test
def every_source_file_of_a_command_is_one(box):
    """CMake makes a man page for each of these files."""
    folder = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "cli")
    files = [re.fullmatch(r"cmd_(\w+)\.c", name) for name in os.listdir(folder)]
    equal(sorted(file.group(1).replace("_", "-") for file in files if file), sorted(commands_of(box)), "cli/cmd_*.c")


@test
def program_help(box):
    short, long = box.works("--help").out, box.works("-H").out
    equal(box.works("-h").out, short, "-h")
    equal(box.works("help").out, short, "help")
    equal(box.works("--long-help").out, long, "--long-help")
    for text in ("Exit status", "Environment", "KOOFU_ISA", "KOOFU_THREADS", "Examples"):
        check(text in long, f"{text} is not in the long help")


@test
def version(box):
    check(re.fullmatch(r"koofu \d+\.\d+\.\d+\n", box.works("--version").out), "--version")
    equal(box.works("version").out, box.works("--version").out, "version")
    with open(os.path.join(os.path.dirname(__file__), "..", "..", "CITATION.cff"), encoding="utf-8") as file:
        equal(re.search(r"^version: (.*)$", file.read(), re.M)[1], box.works("--version").out.split()[1], "CITATION.cff")
    check("plain    available" in box.works("version", "-v").out, "the plain instruction set is everywhere")


@test
def every_command_has_help(box):
    for command in commands_of(box):
        short, long = box.works(command, "-h").out, box.works(command, "-H").out
        equal(box.works(command, "--help").out, short, f"{command} --help")
        equal(box.works("help", command).out, long, f"help {command}")
        check(short.startswith(f"usage: koofu {command}"), f"usage of {command}")
        check(options_of(short) >= {"--threads", "--isa", "--quiet", "--verbose", "--help", "--long-help"},
              f"global options of {command}")
        equal(options_of(long), options_of(short), f"options in the two helps of {command}")
        lines = long.split("Examples\n")[0].splitlines()
        check(max(map(len, lines)) <= 80, f"{command} -H is wider than 80 columns")


@test
def help_wins_over_missing_arguments(box):
    for command in commands_of(box):
        box.works(command, "--help", "-q")


@test
def man_pages_hold_every_option(box):
    for command in commands_of(box):
        page = plain(box.works("help", "--man", command).out)
        for option in options_of(box.works(command, "-h").out):
            check(option in page, f"{option} is not in the man page of {command}")
        for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "SEE ALSO"):
            check(f".SH {section}\n" in page, f"{section} is not in the man page of {command}")
    page = plain(box.works("help", "--man", "koofu").out)
    for command in commands_of(box):
        check(f"koofu-{command} (1)" in page, f"{command} is not in koofu(1)")


@test
def man_pages_render(box):
    if not shutil.which("groff"):
        raise Skipped("groff is not installed")
    for command in ["koofu", *commands_of(box)]:
        page = box.works("help", "--man", command).out
        render = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=page.encode(), capture_output=True, check=False)
        equal((render.returncode, render.stderr), (0, b""), f"groff on {command}")


@test
def completions_hold_every_option(box):
    for shell in ("bash", "zsh", "fish"):
        script = box.works("help", "--completion", shell).out
        for command in commands_of(box):
            check(command in script, f"{command} is not in the completion for {shell}")
            for option in options_of(box.works(command, "-h").out):
                name = f"-l {option[2:]} " if shell == "fish" else option
                check(name in script, f"{option} is not in the completion for {shell}")
        program = shutil.which(shell)
        if program:
            box.write("script", script)
            parsed = subprocess.run([program, "-n", box.path("script")], capture_output=True, check=False)
            equal((parsed.returncode, parsed.stderr), (0, b""), f"{shell} -n")


def bash_answers(box, words):
    script = box.works("help", "--completion", "bash").out
    call = f'COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _koofu; echo "${{COMPREPLY[@]}}"'
    return subprocess.run(["bash", "-c", script + call], capture_output=True, check=False).stdout.decode().split()


@test
def bash_completes(box):
    if not os.path.exists("/bin/bash"):
        raise Skipped("bash is not installed")
    equal(bash_answers(box, "koofu clas"), ["classify", "classes"], "commands")
    equal(bash_answers(box, "koofu fit --lam"), ["--lambda"], "options")
    equal(bash_answers(box, "koofu convert x --dtype b"), ["bf16"], "choices")
    equal(bash_answers(box, "koofu index x --metric i"), ["inner"], "choices of galleries")
    equal(bash_answers(box, "koofu fit x -o mod"), [], "files are left to the shell")
