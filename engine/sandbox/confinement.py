"""Restrictions a process applies to itself before it runs untrusted code; none can be undone.

Linux only, without privileges: Landlock for files (kernel 5.13), its rules for TCP (6.7) and scopes
for signals (6.12), and the filter of ``calls``. A barrier that the kernel or processor lacks is not
reported as active.

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

from engine.sandbox import seccomp_filter

FILES, NETWORK, PROCESSES, SIGNALS = "files", "network", "processes", "signals"
BARRIERS = (FILES, NETWORK, PROCESSES, SIGNALS)
"""All barriers; resource limits and killing the process group work everywhere."""
DEVICE = "cpu"
"""The torch device of a confined process. A GPU's driver would need device files, which stay closed:
through them a method could read what other runs left in the GPU's memory. It would also reserve
more address space than the limit allows."""
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
# System calls that are this new have the same number on every processor.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
# Bits of linux/landlock.h: 0 executes, 1 writes, 2 reads, 3 lists, 14 truncates, 15 is ioctl.
_READ, _READ_DIR = 1 << 2, 1 << 3
_WRITE_FILES = (1 << 1) | (1 << 14)
_FILE_ACCESS = _READ | _WRITE_FILES | (1 << 0) | (1 << 15)
_ACCESS_BY_ABI = {1: 13, 2: 14, 3: 15, 5: 16}
"""Landlock ABI -> number of file access kinds it knows."""
_NET_ABI, _SCOPE_ABI = 4, 6


def exit_with_parent(parent: int) -> None:
    """Kill this process when the thread that started it ends, even if that is killed.

    Args:
        parent: its process id; this process exits at once if it is gone already.
    """
    if platform.system() == "Linux":
        _libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The parent may have ended before the prctl call.
    if os.getppid() != parent:
        os._exit(1)


def restrict_files(readable: Iterable[Path], writable: Iterable[Path]) -> int:
    """Deny all other files, signals to other processes and root's capabilities.

    Call it while there is only one thread. Landlock does not cover threads that already run, and
    untrusted code could make them work for it.

    Args:
        readable: folders and files that stay readable.
        writable: folders that stay fully accessible.

    Returns:
        The Landlock ABI in force, 0 for none.
    """
    if platform.system() != "Linux":
        return 0
    # Landlock and seccomp require it of a process without privileges.
    _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # Threads that already run are not covered by Landlock.
    alone = len(os.listdir("/proc/self/task")) == 1
    abi = _apply_landlock(readable, writable)
    _drop_capabilities()
    return abi if alone else 0


def restrict_calls(abi: int) -> tuple[str, ...]:
    """Deny network, other processes and higher limits, on all threads of this process.

    Call it last: the filter also denies what the other restrictions need.

    Args:
        abi: the result of ``restrict_files``.

    Returns:
        The active ones of BARRIERS.
    """
    if not seccomp_filter.install_filter():
        # Landlock alone does not protect the modes and times of files.
        return (SIGNALS,) if abi >= _SCOPE_ABI else ()
    return BARRIERS if abi else tuple(name for name in BARRIERS if name != FILES)


def expected_barriers() -> tuple[str, ...]:
    """Return the barriers that this machine probably has; only a process can confirm them."""
    if platform.system() != "Linux":
        return ()
    abi = _libc().syscall(_CREATE_RULESET, None, 0, 1)
    if platform.machine() not in seccomp_filter.MACHINES:
        return (SIGNALS,) if abi >= _SCOPE_ABI else ()
    return tuple(name for name in BARRIERS if name != FILES or abi >= 1)


def set_limits(memory_bytes: int, cpu_s: float, file_bytes: int, open_files: int = 256) -> None:
    """Set resource limits of this process.

    Args:
        memory_bytes: address space beyond the present one.
        cpu_s: processor seconds from now on, summed over all cores.
        file_bytes: size of one written file.
        open_files: files open at the same time.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    # The limit counts whole seconds from the beginning of the process.
    cpu = int(used.ru_utime + used.ru_stime + cpu_s) + 1
    for what, most in (
        (resource.RLIMIT_AS, _address_space() + memory_bytes),
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_FSIZE, file_bytes),
        (resource.RLIMIT_NOFILE, open_files),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        # Without privileges no limit can be raised above the present hard one.
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (least, least))


def _address_space() -> int:
    """Return this process's address space in bytes."""
    statm = Path("/proc/self/statm")
    if not statm.is_file():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(statm.read_text().split()[0]) * resource.getpagesize()


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _apply_landlock(readable: Iterable[Path], writable: Iterable[Path]) -> int:
    """Deny all files but these; return the ABI in force, 0 for none."""
    libc = _libc()
    # Flag 1 creates nothing and returns the version of the kernel's ABI.
    abi = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if abi < 1:
        return 0
    everything = (1 << max(n for known, n in _ACCESS_BY_ABI.items() if known <= abi)) - 1
    attributes = [everything]
    attributes += [0b11] if abi >= _NET_ABI else []  # TCP bind and connect
    attributes += [0b11] if abi >= _SCOPE_ABI else []  # scopes: abstract sockets and signals
    packed = struct.pack(f"<{len(attributes)}Q", *attributes)
    ruleset = libc.syscall(_CREATE_RULESET, packed, len(packed), 0)
    if ruleset < 0:
        return 0
    for paths, access in ((readable, _READ | _READ_DIR), (writable, everything)):
        for path in paths:
            # A right that the rule set does not handle would make the kernel refuse the rule.
            _allow_path(ruleset, path, access & everything)
    held = libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0
    os.close(ruleset)
    return abi if held else 0


def _allow_path(ruleset: int, path: Path, access: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        # The kernel refuses folder rights in the rule of a file.
        allowed = access if path.is_dir() else access & _FILE_ACCESS
        _libc().syscall(_ADD_RULE, ruleset, 1, struct.pack("<Qi", allowed, opened), 0)
    finally:
        os.close(opened)


def _drop_capabilities() -> None:
    """Drop root's capabilities, with which it could raise its limits again."""
    capset = seccomp_filter.syscall_number("capset")
    if capset is None:
        return
    libc = _libc()
    # More than there are: the kernel refuses unknown ones, which does no harm.
    for capability in range(64):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    # Version 3 of the interface: effective, permitted and inheritable sets of 64 bits, all empty.
    libc.syscall(capset, struct.pack("<Ii", 0x20080522, 0), struct.pack("<6I", *[0] * 6))
