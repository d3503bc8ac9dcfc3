package native_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/script/native"
)

// usual is a round of calls of a script, with arguments that its library sends,
// on an engine of its own.
type usual struct {
	known *native.Script
	call  native.Call
	w     resp.Writer
	keys  [][][]byte
	args  [][][]byte
	next  int
}

func newUsual(t testing.TB, s *subject) *usual {
	sess := engine.New(engine.Config{}).NewSession()
	t.Cleanup(sess.Close)
	u := &usual{known: native.BySHA([]byte(s.sha))}
	require.NotNil(t, u.known, s.sha)
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	u.call = native.Call{Sess: sess, W: &u.w, Now: now.UnixNano()}
	g := &gen{rand.New(rand.NewPCG(1, 2)), now}
	for i := range 64 {
		keys := make([][]byte, s.keys)
		for k := range keys {
			keys[k] = []byte{'k', byte('0' + i%8), byte('0' + k)}
		}
		u.keys, u.args = append(u.keys, keys), append(u.args, byteSlices(s.args(g)))
	}
	return u
}

func byteSlices(args []string) (list [][]byte) {
	for _, a := range args {
		list = append(list, []byte(a))
	}
	return list
}

// run makes the next call.
func (u *usual) run() bool {
	i := u.next % len(u.args)
	u.next++
	u.w.B = u.w.B[:0]
	u.call.Keys, u.call.Args = u.keys[i], u.args[i]
	u.call.Now += int64(time.Millisecond)
	return u.known.Run(&u.call)
}

// A call that a library makes allocates nothing, once its keys are there.
func TestKnownScriptsAllocateNothing(t *testing.T) {
	for i := range subjects {
		s := &subjects[i]
		u := newUsual(t, s)
		for range 1000 {
			u.run()
		}
		require.Zero(t, testing.AllocsPerRun(1000, func() { u.run() }), "%s %s", s.name, s.sha)
	}
}

func BenchmarkKnownScripts(b *testing.B) {
	for i := range subjects {
		s := &subjects[i]
		b.Run(s.name+" "+s.sha[:8], func(b *testing.B) {
			u := newUsual(b, s)
			b.ReportAllocs()
			for b.Loop() {
				u.run()
			}
		})
	}
}
