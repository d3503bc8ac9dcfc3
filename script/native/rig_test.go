package native

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/resp"
)

// rig runs known scripts on an engine of its own, at a time that the test moves.
type rig struct {
	t    testing.TB
	sess *engine.Session
	now  int64
	call Call
	w    resp.Writer
}

func newRig(t testing.TB) *rig {
	sess := engine.New(engine.Config{}).NewSession()
	t.Cleanup(sess.Close)
	return &rig{t: t, sess: sess, now: 1_800_000_000_123_456_000}
}

// declined is what run returns for a call that its script leaves to the Lua.
const declined = "declined"

// run returns the reply, its line breaks as spaces.
func (r *rig) run(sha string, keys, args string) string {
	known := BySHA([]byte(sha))
	require.NotNil(r.t, known, sha)
	r.w.B = r.w.B[:0]
	r.call = Call{Keys: words(keys), Args: words(args), Now: r.now, Sess: r.sess, W: &r.w}
	if !known.Run(&r.call) {
		require.Empty(r.t, r.w.B)
		return declined
	}
	return strings.TrimSpace(strings.ReplaceAll(string(r.w.B), "\r\n", " "))
}

// words are split at spaces; ” is an empty one.
func words(text string) (list [][]byte) {
	for _, w := range strings.Fields(text) {
		list = append(list, []byte(strings.ReplaceAll(w, "''", "")))
	}
	return list
}

// get returns a string and how many ms are left of it, -1 for ever.
func (r *rig) get(key string) (value string, left int64) {
	b, ok, err := r.sess.Get(r.now, []byte(key), nil)
	require.NoError(r.t, err)
	if !ok {
		return "", -2
	}
	return string(b), r.left(key)
}

func (r *rig) left(key string) int64 {
	at, persistent, ok, err := r.sess.Deadline(r.now, []byte(key))
	require.NoError(r.t, err)
	switch {
	case !ok:
		return -2
	case persistent:
		return -1
	}
	return (at - r.now) / int64(time.Millisecond)
}

func (r *rig) set(key, value string, seconds int64) {
	o := engine.SetOptions{}
	if seconds > 0 {
		o.Deadline = r.now + seconds*int64(time.Second)
	}
	_, err := r.sess.Set(r.now, []byte(key), []byte(value), &o)
	require.NoError(r.t, err)
}

// hash returns the fields and values of a hash, and hset sets some.
func (r *rig) hash(key string) string {
	v, err := r.sess.Open(r.now, []byte(key), algo.Hash)
	require.NoError(r.t, err)
	defer v.Close()
	h := packed.NewHash(v)
	var list []string
	for field, value := range h.All() {
		list = append(list, string(field), string(value))
	}
	return strings.Join(list, " ")
}

func (r *rig) hset(key, pairs string) {
	v, err := r.sess.Open(r.now, []byte(key), algo.Hash)
	require.NoError(r.t, err)
	defer v.Close()
	h := packed.NewHash(v)
	_, err = h.SetAll(words(pairs))
	require.NoError(r.t, err)
}

// rat is a number of seconds, exactly.
func rat(num, den int64) *big.Rat { return big.NewRat(num, den) }
