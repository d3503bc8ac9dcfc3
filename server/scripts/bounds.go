package scripts

import (
	"fmt"
	"time"

	"github.com/headgate-io/headgate/internal/cputime"
	"github.com/headgate-io/headgate/server/memory"
	"github.com/headgate-io/headgate/server/turns"
)

// The bounds of a script; see run.go for how it runs.
const (
	// Bounds of a run on a loop, where 10,000 steps take about 100 µs. Some steps take
	// twenty times as long as others, so the script also looks at the clock now and then.
	loopSteps  = 10_000
	loopTime   = 200 * time.Microsecond
	loopLook   = 512
	loopMemory = 4 << 20
	loopUndo   = 1 << 20
	// loopReply bounds, on a loop, the reply of a command that a script calls. loopMessages
	// bounds the bytes that a script publishes there.
	loopReply    = 1 << 20
	loopMessages = 64 << 10
	// Bounds of a run on a worker. firstMemory is reserved before the script begins.
	slowSteps   = 1 << 40
	firstMemory = 256 << 10
	slowMemory  = 64 << 20
	slowUndo    = 64 << 20
	slowTime    = 5 * time.Second // if lua-time-limit is 0
	// holdTime is how long a script on a worker may hold locks.
	holdTime = 10 * time.Millisecond
	// rounds is how often a script on a loop may run again because it touched a key that
	// was not locked. tries is how often a script on a worker may run because its keys
	// changed meanwhile.
	rounds = 8
	tries  = 4
	// maxMessages is how many messages a script may publish.
	maxMessages = 1024
)

// bounds are the resources that a script may use.
type bounds struct {
	steps, memory int64
	undo          int
	time          time.Duration
	every         int64 // steps between two looks at the clock; 0 means lua.LookEvery
}

var (
	loopBounds = bounds{loopSteps, loopMemory, loopUndo, loopTime, loopLook}
	execBounds = bounds{slowSteps, firstMemory, slowUndo, 0, 0} // the time is Config.Exec
	slowBounds = bounds{slowSteps, firstMemory, slowUndo, slowTime, 0}
)

// look returns an error if the script must end. The script's machine calls it now and then.
func (r *run) look() error {
	if err := r.ended.Load(); err != nil {
		return *err
	}
	if r.spent.Stopped() {
		return memory.ErrFull
	}
	if r.of.cfg.Ending.Err() != nil {
		return errScriptKilled
	}
	if r.turn != nil && r.held.IsZero() {
		if err := r.turn.Yield(); err != nil {
			return err
		}
	}
	now := time.Now()
	late := now.Sub(r.began) > r.bounds.time
	switch {
	case r.turn != nil:
		late = r.turn.HasRun(r.bounds.time, now)
	case late && r.bounds.time != loopTime: // in EXEC
		late = r.watch.Passed(r.bounds.time)
	}
	switch {
	case late && r.bounds.time == loopTime:
		return errScriptSlow
	case late:
		//lint:ignore ST1005 in the manner of Redis
		return fmt.Errorf("Script killed: it took more than %d ms.", r.bounds.time.Milliseconds())
	case r.heldLong(now):
		//lint:ignore ST1005 in the manner of Redis
		return fmt.Errorf("Script killed: it held its keys for more than %d ms.", holdTime.Milliseconds())
	}
	return nil
}

// heldLong reports whether the script has held locks for longer than it may. As in package
// turns, only processor time counts: the process's or, in a transaction, the thread's.
func (r *run) heldLong(now time.Time) bool {
	if r.held.IsZero() || now.Sub(r.held) <= holdTime {
		return false
	}
	if r.turn == nil {
		return r.watch.Passed(holdTime)
	}
	cpu := cputime.Process()
	return cpu == 0 || cpu-r.heldCPU > holdTime
}

// grow reserves memory for what the script holds beyond firstMemory.
func (r *run) grow(held int64) error {
	if more := held - r.lua; more > 0 {
		if !r.spent.Take(int(more)) {
			return memory.ErrFull
		}
		r.lua = held
	}
	if held <= turns.SmallStep || r.turn == nil || !r.held.IsZero() {
		return nil // the rest is small, or others wait for the script's keys and it ends soon
	}
	return r.turn.Grow()
}
