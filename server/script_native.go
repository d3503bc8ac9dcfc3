package server

import (
	"sync"

	"github.com/headgate-io/headgate/script"
	"github.com/headgate-io/headgate/script/native"
	"github.com/headgate-io/headgate/server/command"
)

// nativeCalls are the calls of known scripts that are not in use.
var nativeCalls = sync.Pool{New: func() any { return new(native.Call) }}

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
	c := nativeCalls.Get().(*native.Call)
	*c = native.Call{
		Keys: call.Args[3 : 3+n], Args: call.Args[3+n:], Now: call.Now,
		Sess: call.Sess, W: call.W, InExec: call.InExec,
	}
	done := known.Run(c)
	if !done && c.Sealed() {
		call.Fail(c.Err)
		done = true
	}
	*c = native.Call{}
	nativeCalls.Put(c)
	return done
}
