package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/script"
	"github.com/headgate-io/headgate/script/native"
	"github.com/headgate-io/headgate/server/command"
)

// nativeCall is a call of a known script; stripe is of its counts.
type nativeCall struct {
	native.Call
	stripe uint8
}

// nativeCalls are those that are not in use, and nativeCallsMade how many have
// been made.
var (
	nativeCalls     = sync.Pool{New: func() any { return &nativeCall{stripe: uint8(nativeCallsMade.Add(1))} }}
	nativeCallsMade atomic.Uint32
)

// findNative returns the known script that the first argument names, if there is
// one, and what findScript does if not. One that is known by its SHA1 need not
// have been sent.
func (s *Server) findNative(call *command.Call, bySHA bool) (known *native.Script, sc *script.Script, long bool) {
	if bySHA {
		if known = native.BySHA(call.Args[1]); known != nil {
			return known, nil, false
		}
	}
	if sc, long = s.findScript(call, bySHA); sc != nil {
		known = sc.Native
	}
	return known, sc, long
}

// evalNative runs a known script, of which the first n arguments are keys, and
// reports whether it has. If not, its text is to run, where there is one.
//
// While somebody watches with MONITOR it leaves scripts to their texts, whose
// commands are shown.
func (s *Server) evalNative(call *command.Call, known *native.Script, n int) bool {
	if call.Spec.Flags&command.Write == 0 && !known.Reads || s.mode.Load()&uint32(modeMonitors) != 0 {
		return false
	}
	c := nativeCalls.Get().(*nativeCall)
	c.Call = native.Call{
		Keys: call.Args[3 : 3+n], Args: call.Args[3+n:], Now: call.Now,
		Sess: call.Sess, W: call.W, InExec: call.InExec,
	}
	done := c.run(known, &s.scripts.known[known.Index])
	if !done && c.Sealed() {
		call.Fail(c.Err)
		done = true
	}
	c.Call = native.Call{}
	nativeCalls.Put(c)
	return done
}

// run runs a known script, and counts the run if it is one.
func (c *nativeCall) run(known *native.Script, runs *script.Runs) bool {
	var began time.Time
	if runs.Due(c.stripe, true) {
		began = time.Now()
	}
	start := len(c.W.B)
	if !known.Run(&c.Call) {
		return false
	}
	if !began.IsZero() {
		runs.Time(c.stripe, time.Since(began))
	}
	runs.Count(c.stripe, true)
	if len(c.W.B) > start && c.W.B[start] == '-' {
		runs.Failed()
	}
	return true
}
