"""What a process that runs foreign code gives up before it does; nothing of it can be taken back.

Linux only, and without privileges: Landlock for files (kernel 5.13), its scopes for signals and its rules
for TCP (6.12 and 6.7), a seccomp filter for everything that makes processes, sockets or shared memory.
What the kernel or the processor does not have is not among the barriers that are up.

Sources: landlock(7), seccomp(2), the kernel's uapi headers.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

FILES, NETWORK, PROCESSES, SIGNALS = "files", "network", "processes", "signals"
BARRIERS = (FILES, NETWORK, PROCESSES, SIGNALS)
"""What a confined process can be kept from; rlimits and the end of its group hold everywhere."""
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ, _READ_DIR = 1 << 2, 1 << 3
_WRITE_FILES = (1 << 1) | (1 << 14)
_FILE_ACCESS = _READ | _WRITE_FILES | (1 << 0) | (1 << 15)
_ACCESS_BY_ABI = {1: 13, 2: 14, 3: 15, 5: 16}
"""Landlock's ABI -> number of kinds of access to files that it knows."""
_NET_ABI, _SCOPE_ABI = 4, 6
_CLONE_THREAD = 0x00010000
_EPERM, _ENOSYS = 1, 38


@dataclass(frozen=True)
class Machine:
    """Numbers of system calls on one kind of processor."""

    audit: int
    denied: tuple[int, ...]
    """Sockets, programs, namespaces, other processes' memory, memory that outlives a process."""
    clone: int
    clone3: int
    prlimit: int
    own: tuple[int, ...]
    """kill and tgkill: of this very process only."""
    seccomp: int
    capset: int


# fmt: off
_X86_64 = Machine(
    0xC000003E,
    (41, 57, 58, 59, 322, 101, 109, 112, 160, 29, 30, 68, 64, 240, 272, 308, 165, 166, 155, 161, 321, 298,
     323, 425, 310, 311, 250, 248, 249, 434, 424, 438, 200, 129, 297, 304, 319),
    clone=56, clone3=435, prlimit=302, own=(62, 234), seccomp=317, capset=126,
)
_AARCH64 = Machine(
    0xC00000B7,
    (198, 221, 281, 117, 154, 157, 164, 194, 196, 186, 190, 180, 97, 268, 40, 39, 41, 51, 280, 241, 282, 425,
     270, 271, 219, 217, 218, 434, 424, 438, 130, 138, 240, 265, 279),
    clone=220, clone3=435, prlimit=261, own=(129, 131), seccomp=277, capset=91,
)
# fmt: on
_MACHINES = {"x86_64": _X86_64, "aarch64": _AARCH64}


def die_with(parent: int) -> None:
    """End this process when the thread that started it ends, also when that was killed.

    Args:
        parent: its process id; this one ends at once where that has gone already.
    """
    if platform.system() == "Linux":
        _libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def close_files(readable: Iterable[Path], writable: Iterable[Path]) -> tuple[str, ...]:
    """Give up all other files, and signals to others, for this thread and all that it will start.

    To be called while there is no other thread: those that run already keep what they have.

    Args:
        readable: folders and files that stay open to reading.
        writable: folders that stay open to everything.

    Returns:
        Of BARRIERS, those that are up.
    """
    if platform.system() != "Linux":
        return ()
    _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    abi = _landlock(readable, writable)
    return (*((FILES,) if abi >= 1 else ()), *((SIGNALS,) if abi >= _SCOPE_ABI else ()))


def close_calls() -> tuple[str, ...]:
    """Give up network, other processes and higher limits, for all threads of this process.

    Returns:
        Of BARRIERS, those that are up.
    """
    machine = _MACHINES.get(platform.machine()) if platform.system() == "Linux" else None
    if machine is None or not _filter(machine):
        return ()
    _drop_capabilities(machine)
    return NETWORK, PROCESSES, SIGNALS


def expected() -> tuple[str, ...]:
    """Return those of BARRIERS that this machine is likely to have; a process says which of them are up."""
    if platform.system() != "Linux":
        return ()
    abi = _libc().syscall(_CREATE_RULESET, None, 0, 1)
    calls = (NETWORK, PROCESSES, SIGNALS) if platform.machine() in _MACHINES else ()
    held = {*calls, *((FILES,) if abi >= 1 else ()), *((SIGNALS,) if abi >= _SCOPE_ABI else ())}
    return tuple(name for name in BARRIERS if name in held)


def limit(memory_bytes: int, cpu_s: float, file_bytes: int, open_files: int = 256) -> None:
    """Set limits that hold for this process from now on.

    Args:
        memory_bytes: address space beyond what there is already.
        cpu_s: seconds of all processors together, from now on.
        file_bytes: of one file that is written.
        open_files: files open at the same time.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = int(used.ru_utime + used.ru_stime + cpu_s) + 1
    for what, most in (
        (resource.RLIMIT_AS, _address_space() + memory_bytes),
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_NOFILE, open_files),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (least, least))


def _address_space() -> int:
    """Return the bytes of address space that this process has."""
    statm = Path("/proc/self/statm")
    if not statm.is_file():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(statm.read_text().split()[0]) * resource.getpagesize()


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _landlock(readable: Iterable[Path], writable: Iterable[Path]) -> int:
    """Leave these files alone open; return the ABI that held, 0 for none."""
    libc = _libc()
    abi = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if abi < 1:
        return 0
    everything = (1 << max(n for known, n in _ACCESS_BY_ABI.items() if known <= abi)) - 1
    attributes = [everything]
    attributes += [0b11] if abi >= _NET_ABI else []  # to bind and to connect
    attributes += [0b11] if abi >= _SCOPE_ABI else []  # abstract sockets and signals
    packed = struct.pack(f"<{len(attributes)}Q", *attributes)
    ruleset = libc.syscall(_CREATE_RULESET, packed, len(packed), 0)
    if ruleset < 0:
        return 0
    for paths, access in ((readable, _READ | _READ_DIR), (writable, everything)):
        for path in paths:
            _allow(ruleset, path, access & everything)
    held = libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0
    os.close(ruleset)
    return abi if held else 0


def _allow(ruleset: int, path: Path, access: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        allowed = access if path.is_dir() else access & _FILE_ACCESS
        _libc().syscall(_ADD_RULE, ruleset, 1, struct.pack("<Qi", allowed, opened), 0)
    finally:
        os.close(opened)


_LOAD, _JUMP_EQ, _JUMP_GE, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCH, _FIRST, _THIRD = 0, 4, 16, 32
"""Offsets in seccomp_data: the call, the processor, the low half of its first and of its third argument."""


def _filter(machine: Machine) -> bool:
    """Deny system calls to all threads of this process; return whether the kernel took the filter."""
    code = _program(machine, os.getpid())
    buffer = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog: the number of instructions, and where they are.
    program = struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    return _libc().syscall(machine.seccomp, 1, 1, program) == 0


def _program(machine: Machine, pid: int) -> bytes:
    """Return the filter in the kernel's classic BPF."""
    lines: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCH),
        (_JUMP_EQ, 1, 0, machine.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine is _X86_64:  # the calls of its second, 32-bit table
        lines += [(_JUMP_GE, 0, 1, 0x40000000), (_RETURN, 0, 0, _ERRNO | _EPERM)]
    for number in machine.denied:
        lines += [(_JUMP_EQ, 0, 1, number), (_RETURN, 0, 0, _ERRNO | _EPERM)]
    # The C library falls back on clone, whose flags can be looked at.
    lines += [(_JUMP_EQ, 0, 1, machine.clone3), (_RETURN, 0, 0, _ERRNO | _ENOSYS)]
    only = [
        (machine.clone, _FIRST, _JUMP_SET, _CLONE_THREAD),
        (machine.prlimit, _THIRD, _JUMP_EQ, 0),
    ]
    only += [(number, _FIRST, _JUMP_EQ, pid) for number in machine.own]
    for number, argument, test, value in only:
        lines += [
            (_JUMP_EQ, 0, 4, number),
            (_LOAD, 0, 0, argument),
            (test, 0, 1, value),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _ERRNO | _EPERM),
        ]
    lines.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", code, yes, no, k) for code, yes, no, k in lines)


def _drop_capabilities(machine: Machine) -> None:
    """Give up what root may do beyond others; limits could be raised again with it."""
    libc = _libc()
    for capability in range(64):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.syscall(machine.capset, struct.pack("<Ii", 0x20080522, 0), struct.pack("<6I", *[0] * 6))
