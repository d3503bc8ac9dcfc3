package scripts

import (
	"time"

	"github.com/headgate-io/headgate/script"
	"github.com/headgate-io/headgate/script/native"
	"github.com/headgate-io/headgate/server/command"
)

// nativeCall is a thread's memory for calls of known scripts, which run one at a time. What
// a call leaves here the next one overwrites; very many arguments are dropped.
type nativeCall struct {
	native.Call
	// Consecutive runs of a script are added up and counted together, at the end of their
	// batch at the latest.
	runs   *script.Runs
	ran    uint64
	stripe uint8 // of the script's counts
	// The script that was named last by its SHA1: pipelines repeat themselves, and a
	// comparison is cheaper than a hash.
	sha  [shaLength]byte
	last *native.Script
}

// argsKept is up to how many arguments the memory of a call is reused.
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

// bySHA is native.BySHA with a cache of one script.
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

// findNative returns the known script that the first argument names, else what findScript
// returns. A script that is known by its SHA1 need not have been sent.
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

// evalNative runs a known script, whose first n arguments are keys, and reports whether it
// did. If not, the script's text must run, if there is one.
//
// While MONITOR watches, it runs no known script: the text runs, and its commands are
// shown.
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

// run runs a known script, and counts the run if the script could run it.
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

// Flush implements command.Tally: it counts the runs that were added up.
func (c *nativeCall) Flush() {
	if c.ran > 0 {
		c.runs.Count(c.stripe, true, c.ran)
		c.ran = 0
	}
}
