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

from audit.core.confined import system_calls
from audit.core.confined.system_calls import ARCHITECTURES, FINAL_REFUSALS, NUMBERS, Rule

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
    rules = system_calls.rules(process)
    program = _beginning(machine)
    # a recent call that is missing makes libraries fall back to an older one, whose arguments can be seen
    for name, number in NUMBERS[machine].items():
        program += _case(number, rules.get(name, ((),)))
    refusal = [
        (_AT_LEAST, 0, 1, system_calls.FIRST_RECENT),
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
    other_interface = [(_AT_LEAST, 0, 1, system_calls.X32_BIT), (_RETURN, 0, 0, _KILL)] if machine == "x86_64" else []
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
