"""What system calls a process that runs foreign code gives up: a seccomp filter over all of its threads.

Whatever makes sockets, programs, processes or memory that outlives one is denied, and so is what reaches
another process of the same owner, or his files past Landlock, which knows nothing of modes, times and owners.

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
    # Programs, processes and sessions; clone has a rule of its own.
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
"""Name -> its number on each of MACHINES, None where that has none."""
_WITHOUT_EFFECT = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
}
"""What copies a file sets these, as transformers does with a method's; nothing that is written is kept."""
_MISSING = {"clone3": (435, 435), "openat2": (437, 437)}
"""Their arguments cannot be looked at; whoever finds them missing takes the older ones."""
_LOOKED_AT = {
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
"""Offsets in seccomp_data: the call, the processor, and the first of six arguments of eight bytes."""
_CLONE_FILES, _CLONE_THREAD = 0x00000400, 0x00010000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_F_SETOWN, _F_SETOWN_EX = 8, 15
_O_ACCMODE, _O_WRONLY, _O_RDWR, _O_TRUNC = 3, 1, 2, 0o1000
_X32 = 0x40000000

Line = tuple[int, int, int, int]
"""Of classic BPF: what is done, how many lines are passed over if it holds and if it does not, and with what."""


def number(call: str) -> int | None:
    """Return the number of a system call on this machine, None where it or its processor is not known."""
    if platform.system() != "Linux" or platform.machine() not in MACHINES:
        return None
    calls = {**_DENIED, **_WITHOUT_EFFECT, **_MISSING, **_LOOKED_AT}
    return calls[call][MACHINES.index(platform.machine())]


def close() -> bool:
    """Lay the filter over all threads of this process; return whether the kernel took it."""
    seccomp = number("seccomp")
    if seccomp is None:
        return False
    code = _program(os.getpid())
    buffer = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog: the number of instructions, and where they are.
    program = struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    return ctypes.CDLL(None).syscall(seccomp, 1, 1, program) == 0


def _program(pid: int) -> bytes:
    """Return the filter in the kernel's classic BPF.

    Args:
        pid: of this very process, which may send signals to itself.
    """
    lines: list[Line] = [
        (_LOAD, 0, 0, _ARCH),
        (_JUMP_EQ, 1, 0, _AUDIT[platform.machine()]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if platform.machine() == "x86_64":  # the calls of its second, 32-bit table
        lines += [(_JUMP_GE, 0, 1, _X32), (_RETURN, 0, 0, _ERRNO | _EPERM)]
    answers = ((_DENIED, _EPERM), (_WITHOUT_EFFECT, 0), (_MISSING, _ENOSYS))
    for calls, errno in answers:
        for call in calls:
            lines += _if_it_is(call, [(_RETURN, 0, 0, _ERRNO | errno)])
    for call, rule in _rules(pid):
        lines += _if_it_is(call, rule)
    lines.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", code, yes, no, k) for code, yes, no, k in lines)


def _rules(pid: int) -> list[tuple[str, list[Line]]]:
    """Return the calls of which some are allowed, each with the lines that decide."""
    return [
        # Threads, which have their files in common.
        ("clone", [*_half(0, 0, _JUMP_SET, _CLONE_THREAD), *_only(0, _JUMP_SET, _CLONE_FILES)]),
        # To read a limit is to set none: both halves of the pointer must be 0.
        ("prlimit64", [*_half(2, 0, _JUMP_EQ, 0), *_only(2, _JUMP_EQ, 0, half=1)]),
        ("kill", _only(0, _JUMP_EQ, pid)),
        ("tgkill", _only(0, _JUMP_EQ, pid)),
        # It would outlive whoever started it, or nobody could see what it holds.
        ("prctl", _never(0, _PR_SET_PDEATHSIG, _PR_SET_DUMPABLE)),
        # The kernel would send signals in its place.
        ("fcntl", _never(1, _F_SETOWN, _F_SETOWN_EX)),
        ("open", _no_emptying(1)),
        ("openat", _no_emptying(2)),
    ]


def _if_it_is(call: str, then: list[Line]) -> list[Line]:
    found = number(call)
    return [] if found is None else [(_JUMP_EQ, 0, len(then), found), *then]


def _load(argument: int, half: int = 0) -> Line:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * argument + 4 * half)


def _half(argument: int, half: int, test: int, value: int) -> list[Line]:
    """Deny the call unless one half of an argument passes a test; else go on with the next line."""
    return [_load(argument, half), (test, 1, 0, value), (_RETURN, 0, 0, _ERRNO | _EPERM)]


def _only(argument: int, test: int, value: int, half: int = 0) -> list[Line]:
    """Allow the call where an argument passes a test."""
    return [*_half(argument, half, test, value), (_RETURN, 0, 0, _ALLOW)]


def _never(argument: int, *values: int) -> list[Line]:
    """Allow the call but for some values of an argument."""
    denied = (_RETURN, 0, 0, _ERRNO | _EPERM)
    lines = [line for value in values for line in ((_JUMP_EQ, 0, 1, value), denied)]
    return [_load(argument), *lines, (_RETURN, 0, 0, _ALLOW)]


def _no_emptying(flags: int) -> list[Line]:
    """Allow to open a file, but not to empty one that is opened to be read: the first Landlock let that pass."""
    return [
        _load(flags),
        (_JUMP_SET, 0, 4, _O_TRUNC),
        (_AND, 0, 0, _O_ACCMODE),
        (_JUMP_EQ, 2, 0, _O_WRONLY),
        (_JUMP_EQ, 1, 0, _O_RDWR),
        (_RETURN, 0, 0, _ERRNO | _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
