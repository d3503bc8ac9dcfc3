package scripts

import (
	"time"

	"github.com/headgate-io/headgate/script"
	"github.com/headgate-io/headgate/script/native"
	"github.com/headgate-io/headgate/server/command"
)

// nativeCall is a thread's memory for calls of known scripts, which run one at a time.
// Known scripts are those of popular libraries, for which package native has Go code. Each
// call overwrites what the call before it left here.
type nativeCall struct {
	native.Call
	// Consecutive runs of the same script are counted here, and added to the script's
	// counts together, at the end of their batch or earlier.
	runs   *script.Runs
	ran    uint64
	stripe uint8 // selects which of the script's counters to use
	// The last script that was named by its SHA1. Pipelines often name the same script
	// again, and a comparison is cheaper than a look-up.
	sha  [shaLength]byte
	last *native.Script
}

// argsKept is the most arguments for which a call's memory is kept for reuse.
const argsKept = 4096

// nativeCall returns the nativeCall of a call's thread.
func (s *Scripts) nativeCall(call *command.Call) *nativeCall {
	c, ok := call.Tally.(*nativeCall)
	if !ok {
		c = &nativeCall{stripe: uint8(s.calls.Add(1))}
		call.Tally = c
	}
	return c
}

// bySHA returns the same as native.BySHA, with a cache of one script.
func (c *nativeCall) bySHA(sha []byte) *native.Script {
	if c.last != nil && string(sha) == string(c.sha[:]) {
		return c.last
	}
	known := native.BySHA(sha)
	if known != nil {
		c.last = known
		copy(c.sha[:], sha)
	}
	return known
}

// findNative returns the known script that the first argument names. If there is none, it
// returns what findScript returns. A client need not have sent a script that is known by
// its SHA1.
func (s *Scripts) findNative(call *command.Call, bySHA bool) (known *native.Script, sc *script.Script, long bool) {
	if bySHA {
		if known = s.nativeCall(call).bySHA(call.Args[1]); known != nil {
			return known, nil, false
		}
	}
	if sc, long = s.findScript(call, bySHA); sc != nil {
		known = sc.Native
	}
	return known, sc, long
}

// evalNative runs a known script and reports whether it did. The first n arguments are
// keys. If it returns false, the caller must run the script's text, if there is one.
//
// While a client watches with MONITOR, evalNative runs nothing. The text runs instead, so
// that MONITOR shows its commands.
func (s *Scripts) evalNative(call *command.Call, known *native.Script, n int) bool {
	if call.Spec.Flags&command.Write == 0 && !known.Reads || s.cfg.Hub.Watched() {
		return false
	}
	c := s.nativeCall(call)
	c.Keys, c.Args = call.Args[3:3+n], call.Args[3+n:]
	c.Now, c.Sess, c.W = call.Now, call.Sess, call.W
	done := c.run(known, &s.known[known.Index])
	if len(call.Args) > argsKept {
		c.Keys, c.Args = nil, nil
	}
	if !done && c.Sealed() {
		call.Fail(c.Err)
		done = true
	}
	return done
}

// run runs a known script in Go. It counts the run, unless the Go code could not handle the
// call.
func (c *nativeCall) run(known *native.Script, runs *script.Runs) bool {
	if runs != c.runs {
		c.Flush()
		c.runs = runs
	}
	var began time.Time
	if runs.Due(c.stripe, true, c.ran) {
		began = time.Now()
	}
	start := len(c.W.B)
	if !known.Run(&c.Call) {
		return false
	}
	if !began.IsZero() {
		runs.Time(c.stripe, time.Since(began))
	}
	c.ran++
	if len(c.W.B) > start && c.W.B[start] == '-' {
		runs.Failed()
	}
	return true
}

// Flush implements command.Tally. It adds the runs counted here to the script's counts.
func (c *nativeCall) Flush() {
	if c.ran > 0 {
		c.runs.Count(c.stripe, true, c.ran)
		c.ran = 0
	}
}
