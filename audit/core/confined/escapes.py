"""Ways out of the confined process, each really tried there: `audit doctor --confinement` runs them.

An attempt raises `OSError` if the system refuses it, or returns the thing it reached. Nothing here is a secret of attackers:
these are the documented calls of the system, made from code that a file has taken over.
"""

import ctypes
import errno
import functools
import mmap
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from audit.core.confined.worker import Message

Attempt = Callable[[Mapping[str, Any]], Any]
_LARGE = 2**31  # bytes, more than the process may take
_PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_CALLS = {  # of every other kind: number on x86_64, on aarch64, and arguments; each is refused before it looks at them
    "io_uring": (425, 425, (8, 0)),
    "userfaultfd": (323, 282, (0,)),
    "bpf": (321, 280, (0, 0, 0)),
    "perf events": (298, 241, (0, 0, -1, -1, 0)),
    "key rings": (250, 219, (0, -3, 1)),
    "mount": (165, 40, (0, 0, 0, 0, 0)),
    "unmount": (166, 39, (0, 0)),
    "a user namespace": (272, 97, (0x10000000,)),
    "memory files": (319, 279, (0, 0)),
    "System V shared memory": (29, 194, (0, 4096, 0o1600)),
    "message queues": (68, 186, (0, 0o1600)),
    "file handles": (304, 265, (-100, 0, 0)),
    "process descriptors": (434, 434, (1, 0)),
    "kernel modules": (313, 273, (0, 0, 0)),
    "a time namespace or fork by clone3": (435, 435, (0, 0)),
    "clock changes": (159, 171, (0,)),
    "notifications of files": (294, 26, (0,)),
    "quotas": (179, 60, (0, 0, 0, 0)),
    "swap": (167, 224, (0, 0)),
    "a new root": (161, 51, (0,)),
}  # fmt: skip


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: Any) -> Any:
    """Make a call; an error that speaks of its arguments says that the system would have made it."""
    values = (ctypes.c_long(value) if isinstance(value, int) else value for value in arguments)
    result = int(_libc().syscall(ctypes.c_long(number), *values))
    if result >= 0:
        return result
    code = ctypes.get_errno()
    if code in (errno.EPERM, errno.EACCES, errno.ENOSYS):
        raise OSError(code, os.strerror(code))
    return f"the system looked at its arguments: {os.strerror(code)}"


def _number(x86: int, arm: int) -> int:
    return x86 if platform.machine() == "x86_64" else arm


def _sockets(bait: Mapping[str, Any]) -> Any:
    """Open a socket of any family and kind."""
    families = []
    for family in range(47):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            for protocol in (0, 262, 132, 17):
                try:
                    socket.socket(family, kind, protocol).close()
                    families.append((family, int(kind), protocol))
                except OSError:
                    continue
    if not families:
        raise PermissionError("no socket of any family")
    return families


def _multipath(bait: Mapping[str, Any]) -> Any:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as out:
        out.connect(("127.0.0.1", bait["port"]))
        return out.send(b"out")


def _fast_open(bait: Mapping[str, Any]) -> Any:
    with socket.socket() as out:
        return out.sendto(b"out", 0x20000000, ("127.0.0.1", bait["port"]))


def _tcp(bait: Mapping[str, Any]) -> Any:
    return socket.create_connection(("127.0.0.1", bait["port"]), 2).send(b"out")


def _datagram(bait: Mapping[str, Any]) -> Any:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        return out.sendto(b"out", ("127.0.0.1", bait["port"]))


def _unix_path(bait: Mapping[str, Any]) -> Any:
    with socket.socket(socket.AF_UNIX) as out:
        out.connect(bait["socket"])
        return out.send(b"out")


def _unix_abstract(bait: Mapping[str, Any]) -> Any:
    with socket.socket(socket.AF_UNIX) as out:
        out.connect(f"\0{bait['abstract']}")
        return out.send(b"out")


def _shared_memory(bait: Mapping[str, Any]) -> Any:
    area = mmap.mmap(-1, _LARGE)
    for position in range(0, _LARGE, 4096):
        area[position] = 1
    return len(area)


def _private_memory(bait: Mapping[str, Any]) -> Any:
    try:
        return len(b"x" * _LARGE)
    except MemoryError as error:
        raise OSError("refused") from error


def _connections(bait: Mapping[str, Any]) -> Any:
    """Read who is connected to whom, and what is mounted."""
    names, descriptors = ("net/tcp", "net/unix", "mountinfo", "mounts"), []
    for name in names:
        try:
            descriptors.append((name, os.open(f"/proc/self/{name}", os.O_RDONLY)))
        except OSError:
            continue
    if not descriptors:
        raise PermissionError("nothing of the machine's connections and mounts")
    return descriptors


def _session(bait: Mapping[str, Any]) -> Any:
    os.setsid()
    return os.getsid(0)


def _double_fork(bait: Mapping[str, Any]) -> Any:
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            time.sleep(60)
        os._exit(0)
    return child


def _environment(bait: Mapping[str, Any]) -> Any:
    if bait["secret"] in os.environ.values():
        return bait["secret"]
    if bait["secret"].encode() in Path("/proc/self/environ").read_bytes():
        return bait["secret"]
    raise PermissionError("not inherited")


def _parents_files(bait: Mapping[str, Any]) -> Any:
    read = []
    for name in ("environ", "cmdline", "maps", "mem", "status", "stat", "fd", "comm", "auxv", "io", "limits", "net/tcp"):
        try:
            place = f"/proc/{os.getppid()}/{name}"
            read.append((name, len(os.listdir(place)) if name == "fd" else len(Path(place).read_bytes()[:9])))
        except OSError:
            continue
    if not read:
        raise PermissionError("nothing of the parent")
    return read


def _limits_elsewhere(bait: Mapping[str, Any]) -> Any:
    import resource

    return resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (64, 64))


def _raise_limits(bait: Mapping[str, Any]) -> Any:
    import resource

    try:
        resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except ValueError as error:  # which Python makes of the system's refusal
        raise PermissionError(str(error)) from error
    return resource.getrlimit(resource.RLIMIT_DATA)


def _signal_parent(bait: Mapping[str, Any]) -> Any:
    os.kill(os.getppid(), 0)
    return "signalled"


def _signal_by_owner(bait: Mapping[str, Any]) -> Any:
    """Let the kernel signal the parent, by naming it as the owner of a pipe."""
    import fcntl

    return fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid()) or "named"


def _type_into_terminal(bait: Mapping[str, Any]) -> Any:
    import fcntl

    for descriptor in range(3):
        try:
            return fcntl.ioctl(descriptor, 0x5412, b"x")
        except OSError as error:
            last = error
    raise last


def _set_parent_affinity(bait: Mapping[str, Any]) -> Any:
    os.sched_setaffinity(os.getppid(), os.sched_getaffinity(0))
    return "set"


def _about_parent(bait: Mapping[str, Any]) -> Any:
    """Ask for the parent's priority, group, policy and processors."""
    results: list[Any] = []
    priority = functools.partial(os.getpriority, os.PRIO_PROCESS)
    for question in (priority, os.getpgid, os.sched_getscheduler, os.sched_getparam, os.sched_getaffinity):
        try:
            results.append(question(os.getppid()))
        except OSError as error:
            last = error
    if not results:
        raise last
    return results


def _host_name(bait: Mapping[str, Any]) -> Any:
    area = ctypes.create_string_buffer(6 * 65)
    if _libc().uname(area) != 0:
        raise OSError(ctypes.get_errno(), "refused")
    return area.raw[65:130].split(b"\0")[0]


def _load(bait: Mapping[str, Any]) -> Any:
    area = ctypes.create_string_buffer(256)
    if _libc().sysinfo(area) != 0:
        raise OSError(ctypes.get_errno(), "refused")
    return f"up for {int.from_bytes(area.raw[:8], sys.byteorder)} s"


def _undo_death_signal(bait: Mapping[str, Any]) -> Any:
    if _libc().prctl(1, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "refused")
    return "undone"


def _other_interface(bait: Mapping[str, Any]) -> Any:
    """Call by the x32 interface; a filter that knows it ends the process."""
    if platform.machine() != "x86_64":
        raise PermissionError("this machine has none")
    return _call(0x40000000 + 39)


def _interrupt_80(bait: Mapping[str, Any]) -> Any:
    """Call by the 32-bit interface: getpid() by int 0x80."""
    if platform.machine() != "x86_64":
        raise PermissionError("this machine has none")
    area = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
    area.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20; int 0x80; ret
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(area)))
    result = function()
    if result < 0:
        raise OSError(-result, "refused")
    return result


def _file(action: Callable[[str], Any]) -> Attempt:
    return lambda bait: action(bait["file"]) or "done"


ATTEMPTS: dict[str, Attempt] = {
    "sockets of every family": _sockets,
    "TCP": _tcp,
    "multipath TCP": _multipath,
    "TCP fast open (MSG_FASTOPEN)": _fast_open,
    "datagrams": _datagram,
    "UNIX sockets by path": _unix_path,
    "abstract UNIX sockets": _unix_abstract,
    "pairs of sockets": lambda bait: [end.fileno() for end in socket.socketpair()],
    "reading a file that was not named": _file(lambda path: Path(path).read_bytes()),
    "listing a folder": lambda bait: os.listdir(Path(bait["file"]).parent),
    "writing a file": _file(lambda path: Path(path).write_bytes(b"x")),
    "adding to a file": _file(lambda path: os.open(path, os.O_WRONLY | os.O_APPEND)),
    "making a file": _file(lambda path: Path(path + ".new").touch()),
    "making a folder": _file(lambda path: os.mkdir(path + ".folder")),
    "removing a file": _file(os.remove),
    "renaming a file": _file(lambda path: os.rename(path, path + ".moved")),
    "links": _file(lambda path: os.link(path, path + ".link")),
    "symbolic links": _file(lambda path: os.symlink(path, path + ".symbolic")),
    "pipes with a name": _file(lambda path: os.mkfifo(path + ".pipe")),
    "truncating a file": _file(lambda path: os.truncate(path, 0)),
    "chmod": _file(lambda path: os.chmod(path, 0o777)),
    "chown": _file(lambda path: os.chown(path, os.getuid(), os.getgid())),
    "utime": _file(lambda path: os.utime(path, (0, 0))),
    "setxattr": _file(lambda path: os.setxattr(path, "user.x", b"x")),
    "private memory beyond the limit": _private_memory,
    "shared memory beyond the limit": _shared_memory,
    "mappings that grow (MAP_GROWSDOWN)": lambda bait: len(mmap.mmap(-1, _LARGE, flags=_PRIVATE | 0x100)),
    # addresses to read from: the tables of what is read there are memory that no limit on data counts
    "memory of page tables": lambda bait: len(mmap.mmap(-1, 2**40, flags=_PRIVATE | 0x4000, prot=mmap.PROT_READ)),
    "connections and mounts of the machine": _connections,
    "a session of its own (setsid)": _session,
    "survivors by fork": _double_fork,
    "survivors by clone": lambda bait: _call(_number(56, 220), signal.SIGCHLD, 0, 0, 0, 0) or os._exit(0),
    "starting a program": lambda bait: subprocess.run([sys.executable, "-c", "1"], check=True).returncode,
    "becoming a program": lambda bait: os.execv(sys.executable, [sys.executable, "-c", "import sys; sys.exit(77)"]),
    "the environment": _environment,
    "what /proc says of the parent": _parents_files,
    "limits of the parent (prlimit)": _limits_elsewhere,
    "raising limits of its own": _raise_limits,
    "ptrace": lambda bait: _call(_number(101, 117), 16, os.getppid(), 0, 0),
    "process_vm_readv": lambda bait: _call(_number(310, 270), os.getppid(), 0, 0, 0, 0, 0),
    "process_vm_writev": lambda bait: _call(_number(311, 271), os.getppid(), 0, 0, 0, 0, 0),
    "signals to the parent": _signal_parent,
    "signals by ownership (F_SETOWN)": _signal_by_owner,
    "typing into the terminal (TIOCSTI)": _type_into_terminal,
    "processors of the parent": _set_parent_affinity,
    "priority, group and processors of the parent": _about_parent,
    "the name of the host (uname)": _host_name,
    "free space of disks (statfs)": _file(lambda path: os.statvfs(path).f_bavail),
    "outliving the parent": _undo_death_signal,
    "system calls of x32": _other_interface,
    "system calls of 32 bits (int 0x80)": _interrupt_80,
    **{
        name: (lambda bait, call=call: _call(_number(call[0], call[1]), *call[2]))  # type: ignore[misc]
        for name, call in _CALLS.items()
    },
}

# what neither wall can refuse: Landlock knows no right to ask of a file, and a filter of calls sees no path
QUESTIONS: dict[str, Attempt] = {
    "size, dates and owner of a file (stat)": _file(lambda path: f"{os.stat(path).st_size} bytes"),
    "target of a link (readlink)": lambda bait: os.readlink(bait["link"]),
    "which processes run (stat in /proc)": lambda bait: f"user {os.stat(f'/proc/{os.getppid()}').st_uid}",
    "load and memory of the machine (sysinfo)": _load,
}


def attempt(header: Mapping[str, Any], content: bytes) -> tuple[Message, None]:
    """Try one way out, in the confined process, and name the thing it reached; `refused` if none."""
    try:
        result = {**ATTEMPTS, **QUESTIONS}[header["attempt"]](header["bait"])
    except (OSError, MemoryError) as error:
        return ({"refused": str(error)[:200]}, b""), None
    return ({"reached": str(result)[:200]}, b""), None
