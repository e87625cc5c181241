"""The filter of system calls, as a program of classic BPF that the kernel runs before each call.

References:
    Linux kernel documentation, "Seccomp BPF (SECure COMPuting with filters)".
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass

_X86_ONLY = {
    "open": 2, "stat": 4, "lstat": 6, "poll": 7, "access": 21, "pipe": 22, "select": 23, "dup2": 33, "getpgrp": 111,
    "arch_prctl": 158, "time": 201, "epoll_create": 213, "epoll_wait": 232, "readlink": 89, "getrlimit": 97,
}  # fmt: skip
_COMMON = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62), "mmap": (9, 222),
    "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139), "ioctl": (16, 29), "pread64": (17, 67), "readv": (19, 65), "writev": (20, 66),
    "sched_yield": (24, 124), "mremap": (25, 216), "mincore": (27, 232), "madvise": (28, 233), "dup": (32, 23),
    "nanosleep": (35, 101), "getpid": (39, 172), "clone": (56, 220), "exit": (60, 93), "kill": (62, 129),
    "fcntl": (72, 25), "getcwd": (79, 17), "gettimeofday": (96, 169), "getrusage": (98, 165),
    "sysinfo": (99, 179), "times": (100, 153), "getuid": (102, 174), "getgid": (104, 176), "geteuid": (107, 175),
    "getegid": (108, 177), "getppid": (110, 173), "getpgid": (121, 155), "sigaltstack": (131, 132),
    "getpriority": (140, 141), "sched_getparam": (143, 121), "sched_getscheduler": (145, 120),
    "sched_get_priority_max": (146, 125), "sched_get_priority_min": (147, 126), "prctl": (157, 167), "setrlimit": (160, 164),
    "gettid": (186, 178), "futex": (202, 98), "sched_getaffinity": (204, 123), "getdents64": (217, 61),
    "set_tid_address": (218, 96), "restart_syscall": (219, 128), "fadvise64": (221, 223), "clock_gettime": (228, 113),
    "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "exit_group": (231, 94), "epoll_ctl": (233, 21),
    "tgkill": (234, 131), "get_mempolicy": (239, 236), "openat": (257, 56), "newfstatat": (262, 79), "readlinkat": (267, 78),
    "faccessat": (269, 48), "pselect6": (270, 72), "ppoll": (271, 73), "set_robust_list": (273, 99), "epoll_pwait": (281, 22),
    "eventfd2": (290, 19), "epoll_create1": (291, 20), "dup3": (292, 24), "pipe2": (293, 59), "preadv": (295, 69),
    "prlimit64": (302, 261), "getcpu": (309, 168), "seccomp": (317, 277), "getrandom": (318, 278), "membarrier": (324, 283),
    "preadv2": (327, 286), "statx": (332, 291), "rseq": (334, 293), "close_range": (436, 436), "faccessat2": (439, 439),
    "futex_waitv": (449, 449), "futex_wake": (454, 454), "futex_wait": (455, 455), "futex_requeue": (456, 456),
}  # fmt: skip
NUMBERS: Mapping[str, Mapping[str, int]] = {
    "x86_64": {**_X86_ONLY, **{name: numbers[0] for name, numbers in _COMMON.items()}},
    "aarch64": {name: numbers[1] for name, numbers in _COMMON.items()},
}
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32_BIT = 0x40000000  # system calls of the x32 interface carry the architecture of x86_64 and this bit
FIRST_RECENT = 424  # from here on numbers are the same everywhere, and libraries fall back if a call is not there


@dataclass(frozen=True, slots=True)
class Test:
    """`argument & mask == value`, in the lower or the upper 32 bits of the argument."""

    argument: int
    mask: int
    value: int
    is_upper: bool = False


Rule = tuple[tuple[Test, ...], ...]  # alternatives; a call passes if every test of one of them holds

_WHOLE = 0xFFFFFFFF
_NOT_READING = 0o3 | 0o100 | 0o1000 | 0o2000 | 0o20000000  # O_ACCMODE, O_CREAT, O_TRUNC, O_APPEND, __O_TMPFILE
_MAP_SHARED, _MAP_ANONYMOUS, _MAP_GROWS, _MAP_HUGE = 0x01, 0x20, 0x100, 0x40000
_PROT_WRITE = 2
_THREAD, _NAMESPACES = 0x10000, 0x7E020000
_TERMINAL_QUESTIONS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)  # TCGETS TIOCGWINSZ FIONREAD FIONBIO FIONCLEX FIOCLEX
_DESCRIPTOR_COMMANDS = (0, 1, 2, 3, 4, 1030, 1032)  # F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL F_DUPFD_CLOEXEC F_GETPIPE_SZ
_O_ASYNC = 0o20000
_HARMLESS_OPTIONS = (3, 15, 16, 21, 23, 39, 42, 0x53564D41)  # names, dumpable, seccomp mode, capabilities: asked; VMA names


def choices(argument: int, values: tuple[int, ...]) -> Rule:
    """Return the rule that an argument is one of the values."""
    return tuple((Test(argument, _WHOLE, value),) for value in values)


def rules_for(process: int) -> dict[str, Rule]:
    """Return the rules of calls for certain arguments only; `process` may signal itself and ask about itself alone."""
    own = choices(0, (0, process))
    excess = _MAP_GROWS | _MAP_HUGE  # memory that RLIMIT_DATA does not count
    return {
        "open": ((Test(1, _NOT_READING, 0),),),
        "openat": ((Test(2, _NOT_READING, 0),),),
        "mmap": ((Test(3, _MAP_SHARED | excess, 0),), (Test(3, _MAP_ANONYMOUS | excess, 0), Test(2, _PROT_WRITE, 0))),
        "clone": ((Test(0, _THREAD | _NAMESPACES, _THREAD),),),
        "kill": choices(0, (process,)),
        "tgkill": choices(0, (process,)),
        "prlimit64": own,
        **dict.fromkeys(("getpgid", "sched_getparam", "sched_getscheduler", "sched_getaffinity"), own),
        "getpriority": tuple((Test(0, _WHOLE, 0), *alternative) for alternative in choices(1, (0, process))),
        "ioctl": choices(1, _TERMINAL_QUESTIONS),
        "fcntl": tuple(
            (Test(1, _WHOLE, command), *((Test(2, _O_ASYNC, 0),) if command == 4 else ())) for command in _DESCRIPTOR_COMMANDS
        ),
        "prctl": choices(0, _HARMLESS_OPTIONS),
    }


# what is refused besides once the limits stand: to change them, and further filters
FINAL_REFUSALS: Mapping[str, Rule] = {
    "setrlimit": (),
    "seccomp": (),
    "prlimit64": ((Test(2, _WHOLE, 0), Test(2, _WHOLE, 0, is_upper=True)),),
}


_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_SET_FILTER, _EVERY_THREAD = 1, 1
_NO_NEW_PRIVILEGES = 38
_Instruction = tuple[int, int, int, int]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def is_known() -> bool:
    """Return whether the numbers of this machine's system calls are listed here: Linux on x86_64 or aarch64, 64 bits."""
    return sys.platform.startswith("linux") and platform.machine() in ARCHITECTURES and sys.maxsize > 2**32


def allow_reading() -> bool:
    """Refuse every system call from now on that is not on the list; return whether the kernel does so."""
    return _install(reading_program(platform.machine(), os.getpid())) if is_known() else False


def seal() -> bool:
    """Refuse changes of limits and further filters; return whether the kernel does so."""
    return _install(sealing_program(platform.machine())) if is_known() else False


def reading_program(machine: str, process: int) -> list[_Instruction]:
    """Return the program that allows what is on the list, for a process of this number."""
    rules = rules_for(process)
    program = _beginning(machine)
    # a recent call that is missing makes libraries fall back to an older one, whose arguments can be seen
    for name, number in NUMBERS[machine].items():
        program += _case(number, rules.get(name, ((),)))
    refusal = [
        (_AT_LEAST, 0, 1, FIRST_RECENT),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]
    return [*program, *refusal]


def sealing_program(machine: str) -> list[_Instruction]:
    """Return the program that refuses what is named in `FINAL_REFUSALS` and leaves the rest to the first filter."""
    program = _beginning(machine)
    for name, rule in FINAL_REFUSALS.items():
        program += _case(NUMBERS[machine][name], rule)
    return [*program, (_RETURN, 0, 0, _ALLOW)]


def _beginning(machine: str) -> list[_Instruction]:
    """End the process at a call of another interface: 32-bit programs and x32 number their calls otherwise."""
    other_interface = [(_AT_LEAST, 0, 1, X32_BIT), (_RETURN, 0, 0, _KILL)] if machine == "x86_64" else []
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        *other_interface,
    ]


def _case(number: int, rule: Rule) -> list[_Instruction]:
    """The instructions for one call: allow it if an alternative of the rule holds, refuse it otherwise."""
    body: list[_Instruction] = []
    for alternative in rule:
        steps = 3 * len(alternative)
        for position, test in enumerate(alternative):
            offset = _ARGUMENTS + 8 * test.argument + (4 if test.is_upper else 0)
            remainder = steps - 3 * (position + 1) + 1  # to the next alternative, past this one's return
            body += [(_LOAD, 0, 0, offset), (_AND, 0, 0, test.mask), (_EQUAL, 0, remainder, test.value)]
        body.append((_RETURN, 0, 0, _ALLOW))
    if () not in rule:
        body.append((_RETURN, 0, 0, _ERRNO | errno.EPERM))
    return [(_EQUAL, 0, len(body), number), *body]


def _install(program: list[_Instruction]) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    content = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    argument = _Program(len(program), content)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return False
    call = ctypes.c_long(NUMBERS[platform.machine()]["seccomp"])
    return bool(libc.syscall(call, ctypes.c_uint(_SET_FILTER), ctypes.c_uint(_EVERY_THREAD), ctypes.byref(argument)) == 0)
