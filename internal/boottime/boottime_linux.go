package boottime

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func now() int64 { return read(unix.CLOCK_BOOTTIME) }

func id() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// clocks reads the clock that stands still while the machine is suspended, the
// one that goes on, and the first again.
func clocks() (before, boot, after int64) {
	return read(unix.CLOCK_MONOTONIC), read(unix.CLOCK_BOOTTIME), read(unix.CLOCK_MONOTONIC)
}

func read(clock int32) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		panic("boottime: read clock: " + err.Error()) // every Linux that Go runs on has both
	}
	return t.Nano()
}
