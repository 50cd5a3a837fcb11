"""What a process that runs foreign code gives up before it does; nothing of it can be taken back.

Linux only, and without privileges: Landlock for files (kernel 5.13), its scopes for signals and its rules
for TCP (6.12 and 6.7), and the filter of ``calls``. What the kernel or the processor does not have is not among
the barriers that are up.

Sources: landlock(7), capabilities(7), the kernel's uapi headers.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
from collections.abc import Iterable
from pathlib import Path

from engine.methods import calls

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


def die_with(parent: int) -> None:
    """End this process when the thread that started it ends, also when that was killed.

    Args:
        parent: its process id; this one ends at once where that has gone already.
    """
    if platform.system() == "Linux":
        _libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def close_files(readable: Iterable[Path], writable: Iterable[Path]) -> int:
    """Give up all other files, signals to others and what root may do, for this thread and all that it will start.

    To be called while there is no other thread: those that run already keep what they have, and foreign code
    could let them work for it.

    Args:
        readable: folders and files that stay open to reading.
        writable: folders that stay open to everything.

    Returns:
        The ABI of the Landlock that holds, 0 for none.
    """
    if platform.system() != "Linux":
        return 0
    _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    alone = len(os.listdir("/proc/self/task")) == 1
    abi = _landlock(readable, writable)
    _drop_capabilities()
    return abi if alone else 0


def close_calls(abi: int) -> tuple[str, ...]:
    """Give up network, other processes and higher limits, for all threads of this process.

    Args:
        abi: what ``close_files`` returned.

    Returns:
        Of BARRIERS, those that are up.
    """
    if not calls.close():
        # Landlock alone lets the modes and times of all files be changed.
        return (SIGNALS,) if abi >= _SCOPE_ABI else ()
    return BARRIERS if abi else tuple(name for name in BARRIERS if name != FILES)


def expected() -> tuple[str, ...]:
    """Return those of BARRIERS that this machine is likely to have; a process says which of them are up."""
    if platform.system() != "Linux":
        return ()
    abi = _libc().syscall(_CREATE_RULESET, None, 0, 1)
    if platform.machine() not in calls.MACHINES:
        return (SIGNALS,) if abi >= _SCOPE_ABI else ()
    return tuple(name for name in BARRIERS if name != FILES or abi >= 1)


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


def _drop_capabilities() -> None:
    """Give up what root may do beyond others; limits could be raised again with it."""
    capset = calls.number("capset")
    if capset is None:
        return
    libc = _libc()
    for capability in range(64):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.syscall(capset, struct.pack("<Ii", 0x20080522, 0), struct.pack("<6I", *[0] * 6))
