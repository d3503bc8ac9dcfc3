package scripts

import (
	"strings"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// Count runs a script without a leader, as a step about counters, and writes its reply. It
// returns an error if the script does anything else than count, or exceeds the bounds of a
// loop.
func (s *Scripts) Count(call *command.Call, step *engine.CountStep) error {
	args := call.Args
	n, ok := resp.ParseInt(args[2])
	if !ok || n < 0 || n > int64(len(args)-3) {
		return engine.ErrNotLocal
	}
	bySHA := strings.HasPrefix(call.Spec.Name, "evalsha")
	known, _, _ := s.findNative(call, bySHA)
	if known != nil && known.Counts {
		sess := call.Sess
		call.Sess, call.InExec = step.Session, true
		done := s.evalNative(call, known, int(n))
		call.Sess, call.InExec = sess, false
		if done {
			return nil
		}
	}
	sc, long := s.findScript(call, bySHA)
	switch {
	case long:
		return engine.ErrNotLocal
	case sc == nil && known != nil && bySHA:
		return engine.ErrNotLocal
	case sc == nil && bySHA:
		call.Error(errNoScript)
		return nil
	case sc == nil:
		// The text is compiled on this node only, because only a leader can replicate it.
		var err error
		if sc, _, err = s.cache.Load(args[1], false); err != nil {
			scriptError(call.W, err)
			return nil
		}
	}
	r := s.borrow()
	defer s.give(r)
	if !r.accept(sc, call.Spec, call.W) {
		return nil
	}
	r.keys, r.argv = args[3:3+n], args[3+n:]
	r.sess, r.now, r.admin = step.Session, call.Now, call.Host.Administers()
	defer r.forget()
	start := len(call.W.B)
	if err := r.counting(step, call.W); err != nil {
		return engine.ErrNotLocal
	}
	r.tally(call.W.B[start:], nil, false)
	return nil
}
