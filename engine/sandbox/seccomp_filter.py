"""A seccomp filter of system calls for a process that runs untrusted code, on all its threads.

It denies every call that creates sockets, programs, processes or memory that outlives the process.
It also denies access to other processes of the same user, and to file modes, times and owners,
which Landlock does not cover.

Sources: seccomp(2), landlock(7), the kernel's system call tables.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
MACHINES = tuple(_AUDIT)
# fmt: off
_DENIED = {
    # Sockets; a pair of them could be connected to others, too.
    "socket": (41, 198), "socketpair": (53, 199),
    # Programs, processes and sessions; clone has a separate rule.
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281), "ptrace": (101, 117),
    "setpgid": (109, 154), "setsid": (112, 157), "setrlimit": (160, 164), "unshare": (272, 97), "setns": (308, 268),
    # What outlives a process, or counts against all of its owner's.
    "shmget": (29, 194), "shmat": (30, 196), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "io_setup": (206, 0), "io_uring_setup": (425, 425),
    "inotify_init": (253, None), "inotify_init1": (294, 26), "inotify_add_watch": (254, 27),
    "fanotify_init": (300, 262), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "sync": (162, 81),
    # Other processes: their memory, signals, priorities and processors.
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "process_madvise": (440, 440),
    "process_mrelease": (448, 448), "migrate_pages": (256, 238), "move_pages": (279, 239), "kcmp": (312, 272),
    "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "pidfd_getfd": (438, 438), "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "setpriority": (141, 140),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_setattr": (314, 274),
    "sched_setaffinity": (203, 122), "ioprio_set": (251, 30),
    # File systems, and files past Landlock: the first Landlock did not know truncate.
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_by_handle_at": (304, 265), "truncate": (76, 45), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "setxattrat": (463, 463), "removexattrat": (466, 466), "file_setattr": (469, 469),
    # The kernel itself.
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
}
"""Name -> its number on each of MACHINES, None if it does not exist there."""
_NO_OPS = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
}
"""These do nothing and report success: transformers sets modes when it copies a method's files."""
_NOT_IMPLEMENTED = {"clone3": (435, 435), "openat2": (437, 437)}
"""A filter cannot read their arguments (behind a pointer); callers fall back to the older calls."""
_FILTERED = {
    "clone": (56, 220), "prlimit64": (302, 261), "kill": (62, 129), "tgkill": (234, 131),
    "prctl": (157, 167), "fcntl": (72, 25), "open": (2, None), "openat": (257, 56),
    "seccomp": (317, 277), "capset": (126, 91),
}
# fmt: on
_LOAD, _AND, _JUMP_EQ, _JUMP_GE, _JUMP_SET, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOSYS = 1, 38
_NUMBER, _ARCH = 0, 4
_ARGUMENTS = 16
"""Offsets in seccomp_data: call number, architecture, first of six 8-byte arguments."""
_CLONE_FILES, _CLONE_THREAD = 0x00000400, 0x00010000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_F_SETOWN, _F_SETOWN_EX = 8, 15
_O_ACCMODE, _O_WRONLY, _O_RDWR, _O_TRUNC = 3, 1, 2, 0o1000
_X32 = 0x40000000

Instruction = tuple[int, int, int, int]
"""Classic BPF instruction: opcode, jump if true, jump if false, operand."""


def syscall_number(call: str) -> int | None:
    """Return a system call's number on this machine, None if unknown."""
    if platform.system() != "Linux" or platform.machine() not in MACHINES:
        return None
    calls = {**_DENIED, **_NO_OPS, **_NOT_IMPLEMENTED, **_FILTERED}
    return calls[call][MACHINES.index(platform.machine())]


def install_filter() -> bool:
    """Install the filter on all threads of this process; return whether the kernel accepted it."""
    seccomp = syscall_number("seccomp")
    if seccomp is None:
        return False
    code = _build_program(os.getpid())
    buffer = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog: the number of instructions, and a pointer to them.
    program = struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    return ctypes.CDLL(None).syscall(seccomp, 1, 1, program) == 0


def _build_program(pid: int) -> bytes:
    """Return the filter as classic BPF bytes.

    Args:
        pid: this process, which may send signals to itself.
    """
    lines: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_JUMP_EQ, 1, 0, _AUDIT[platform.machine()]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if platform.machine() == "x86_64":  # the x32 call table, which the rules below do not cover
        lines += [(_JUMP_GE, 0, 1, _X32), (_RETURN, 0, 0, _ERRNO | _EPERM)]
    answers = ((_DENIED, _EPERM), (_NO_OPS, 0), (_NOT_IMPLEMENTED, _ENOSYS))
    for calls, errno in answers:
        for call in calls:
            lines += _match_call(call, [(_RETURN, 0, 0, _ERRNO | errno)])
    for call, rule in _argument_rules(pid):
        lines += _match_call(call, rule)
    lines.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", code, yes, no, k) for code, yes, no, k in lines)


def _argument_rules(pid: int) -> list[tuple[str, list[Instruction]]]:
    """Return the calls allowed for some arguments only, each with its instructions."""
    return [
        # Threads only: CLONE_THREAD, with shared file descriptors.
        (
            "clone",
            [
                *_require_half(0, 0, _JUMP_SET, _CLONE_THREAD),
                *_allow_if(0, _JUMP_SET, _CLONE_FILES),
            ],
        ),
        # Reading a limit is allowed: both halves of the new-limit pointer must be 0.
        ("prlimit64", [*_require_half(2, 0, _JUMP_EQ, 0), *_allow_if(2, _JUMP_EQ, 0, half=1)]),
        ("kill", _allow_if(0, _JUMP_EQ, pid)),
        ("tgkill", _allow_if(0, _JUMP_EQ, pid)),
        # It would outlive its parent, or hide its memory from it.
        ("prctl", _deny_values(0, _PR_SET_PDEATHSIG, _PR_SET_DUMPABLE)),
        # It would let the kernel send signals to other processes.
        ("fcntl", _deny_values(1, _F_SETOWN, _F_SETOWN_EX)),
        ("open", _deny_truncate(1)),
        ("openat", _deny_truncate(2)),
    ]


def _match_call(call: str, then: list[Instruction]) -> list[Instruction]:
    found = syscall_number(call)
    return [] if found is None else [(_JUMP_EQ, 0, len(then), found), *then]


def _load_argument(argument: int, half: int = 0) -> Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * argument + 4 * half)


def _require_half(argument: int, half: int, test: int, value: int) -> list[Instruction]:
    """Deny the call unless one 32-bit half of an argument passes a test."""
    return [_load_argument(argument, half), (test, 1, 0, value), (_RETURN, 0, 0, _ERRNO | _EPERM)]


def _allow_if(argument: int, test: int, value: int, half: int = 0) -> list[Instruction]:
    """Allow the call if an argument passes a test."""
    return [*_require_half(argument, half, test, value), (_RETURN, 0, 0, _ALLOW)]


def _deny_values(argument: int, *values: int) -> list[Instruction]:
    """Allow the call except for some values of an argument."""
    denied = (_RETURN, 0, 0, _ERRNO | _EPERM)
    lines = [line for value in values for line in ((_JUMP_EQ, 0, 1, value), denied)]
    return [_load_argument(argument), *lines, (_RETURN, 0, 0, _ALLOW)]


def _deny_truncate(flags: int) -> list[Instruction]:
    """Deny O_TRUNC for a file opened read-only: Landlock allowed it before Linux 6.2."""
    return [
        _load_argument(flags),
        (_JUMP_SET, 0, 4, _O_TRUNC),
        (_AND, 0, 0, _O_ACCMODE),
        (_JUMP_EQ, 2, 0, _O_WRONLY),
        (_JUMP_EQ, 1, 0, _O_RDWR),
        (_RETURN, 0, 0, _ERRNO | _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
