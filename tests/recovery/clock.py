"""A clock for child processes that steps, as if somebody had set the machine's."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# Adds the seconds that a file holds to the time of day, and to nothing else: sleeping and waiting go by a clock
# that does not step, as they do when a machine's clock is set. Who waits until a time of day says so to the kernel,
# whose clock has not been set; no clock but that of the day has seen a thousand million seconds.
_SHIM = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *step;

__attribute__((constructor)) static void open_step(void) {
    int file = open(getenv("CLOCK_STEP"), O_RDONLY);
    void *found = file < 0 ? MAP_FAILED : mmap(0, sizeof *step, PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) step = found;
    if (file >= 0) close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && step && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *step;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict lock,
                           const struct timespec *restrict until) {
    struct timespec kernels = *until;
    if (until->tv_sec < 1000000000) return pthread_cond_clockwait(cond, lock, CLOCK_MONOTONIC, until);
    if (step) kernels.tv_sec -= *step;
    return pthread_cond_clockwait(cond, lock, CLOCK_REALTIME, &kernels);
}

int cnd_timedwait(cnd_t *restrict cond, mtx_t *restrict lock, const struct timespec *restrict until) {
    int failed = pthread_cond_timedwait((pthread_cond_t *)cond, (pthread_mutex_t *)lock, until);
    return failed == ETIMEDOUT ? thrd_timedout : failed ? thrd_error : thrd_success;
}
"""


@dataclass(frozen=True)
class SteppingClock:
    """The clock of the processes that are started with its `environment`."""

    environment: Mapping[str, str]
    file: Path

    @classmethod
    def of(cls, directory: Path) -> SteppingClock:
        """Makes a clock that shows the true time at first. Raises FileNotFoundError without a C compiler."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None or sys.platform != "linux":
            raise FileNotFoundError("no C compiler to make a clock that steps with")
        source, library, file = directory / "clock.c", directory / "clock.so", directory / "step"
        source.write_text(_SHIM)
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        clock = cls({"LD_PRELOAD": str(library), "CLOCK_STEP": str(file)}, file)
        clock.set(0)
        return clock

    def set(self, seconds: int) -> None:
        """Sets the clock to this many seconds after the true time, also of processes that run."""
        with self.file.open("r+b" if self.file.exists() else "wb") as opened:
            opened.write(struct.pack("q", seconds))
