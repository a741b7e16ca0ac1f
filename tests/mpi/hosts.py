"""Three hosts as network namespaces of this machine, with real TCP between them; needs root.

Each has its own name and address; the second and third also have process numbers and a folder
PRIVATE of their own. A bridge in a fourth namespace connects them, and can cut one off.
"""

import os
import shutil
import subprocess

NAMES = ("koofu-a", "koofu-b", "koofu-c")
SWITCH = "koofu-switch"
PRIVATE = "private"


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def missing():
    """Why hosts cannot be made here; None: they can."""
    if os.geteuid() != 0:
        return "root"
    for program in ("ip", "unshare", "hostname"):
        if not shutil.which(program):
            return program
    try:
        run("ip", "netns", "add", SWITCH)
        run("ip", "-n", SWITCH, "link", "add", "v0", "type", "veth", "peer", "name", "v1")
        run("ip", "-n", SWITCH, "link", "add", "bridge0", "type", "bridge")
    except (OSError, subprocess.CalledProcessError):
        return "network namespaces"
    finally:
        remove()
    return None


def address(i):
    return f"10.77.13.{i + 1}"


def make(folder):
    """Makes the hosts; returns the script that starts a program on one of them, like ssh."""
    run("ip", "netns", "add", SWITCH)
    run("ip", "-n", SWITCH, "link", "add", "bridge0", "type", "bridge")
    run("ip", "-n", SWITCH, "link", "set", "bridge0", "up")
    for i, name in enumerate(NAMES):
        run("ip", "netns", "add", name)
        run("ip", "link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", f"port{i}", "netns", SWITCH)
        run("ip", "-n", name, "addr", "add", address(i) + "/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            run("ip", "-n", name, "link", "set", device, "up")
        run("ip", "-n", SWITCH, "link", "set", f"port{i}", "master", "bridge0", "up")
    hosts = os.path.join(folder, "hosts")
    with open(hosts, "w", encoding="ascii") as file:
        file.write("127.0.0.1 localhost\n")
        file.writelines(f"{address(i)} {name}\n" for i, name in enumerate(NAMES))
    private = os.path.join(folder, PRIVATE)
    os.makedirs(private)
    script = os.path.join(folder, "start-on-host")
    with open(script, "w", encoding="ascii") as file:
        file.write(f"""#!/bin/sh
# usage: start-on-host [OPTION OF ssh] NAME WORD...
while [ "${{1#-}}" != "$1" ]; do shift; done
host=$1
shift
if [ "$host" = {NAMES[0]} ]; then own='true'; else own='mount -t tmpfs none {private}'; apart='--pid --fork --mount-proc'; fi
exec ip netns exec "$host" unshare -u -m $apart sh -c \
  'hostname "$1"; mount --bind {hosts} /etc/hosts; eval "$2"; shift 2; eval "$*"' sh "$host" "$own" "$@"
""")
    os.chmod(script, 0o755)
    return script


def cut(i):
    run("ip", "-n", SWITCH, "link", "set", f"port{i}", "down")


def join(i):
    run("ip", "-n", SWITCH, "link", "set", f"port{i}", "up")


def processes(i):
    """The processes on a host."""
    found = subprocess.run(["ip", "netns", "pids", NAMES[i]], stdout=subprocess.PIPE, check=True).stdout.split()
    return [int(word) for word in found]


def remove():
    for name in (*NAMES, SWITCH):
        subprocess.run(["ip", "netns", "del", name], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
