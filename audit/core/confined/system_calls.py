"""The system calls that numpy, torch and the other libraries need to read a file and to compute: everything else is refused.

Numbers are those of Linux on x86_64 and aarch64. Rules name an argument, the half of it that counts, a mask and the value that
must remain: the alternatives of a rule are tried in order.
"""

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


def rules(process: int) -> dict[str, Rule]:
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
