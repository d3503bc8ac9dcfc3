package engine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
)

func open(t *testing.T, s *engine.Session, key string, kind algo.Algorithm) *engine.Value {
	t.Helper()
	v, err := s.Open(start, []byte(key), kind)
	require.NoError(t, err)
	return v
}

// canonical returns the integer that a text is, written as it would be printed.
func canonical(text []byte) (n int64, ok bool) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == string(text)
}

// A value is a slice of bytes, whatever its length, kind and history.
func TestValuesAgainstSlices(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	for _, kind := range []algo.Algorithm{algo.Counter, algo.Hash, algo.List} {
		for seed := range uint64(60) {
			rnd := rand.New(rand.NewPCG(3, seed))
			e := engine.New(engine.Config{Shards: 1})
			s := e.NewSession()
			models := map[string][]byte{}
			for range 300 {
				key := fmt.Sprint("key:", rnd.IntN(5))
				v := open(t, s, key, kind)
				model, there := models[key]
				require.Equal(t, there, v.Exists())
				require.True(t, bytes.Equal(model, v.Bytes()), "%s: %.40q, want %.40q", kind, v.Bytes(), model)
				switch rnd.IntN(8) {
				case 0:
					v.Delete()
					delete(models, key)
					require.False(t, v.Exists())
				case 1, 2:
					value := randomValue(rnd)
					require.NoError(t, v.Set(value))
					models[key] = value
				case 3:
					if b := v.Edit(); len(b) > 0 {
						i := rnd.IntN(len(b))
						b[i] = byte('0' + rnd.IntN(10))
						model = bytes.Clone(model)
						model[i] = b[i]
						models[key] = model
					}
				default:
					at := rnd.IntN(len(model) + 1)
					del := rnd.IntN(min(len(model)-at, 40) + 1)
					ins := bytes.Repeat([]byte{byte('0' + rnd.IntN(10))}, rnd.IntN(1+20*rnd.IntN(10)))
					b, err := v.Splice(at, del, len(ins))
					require.NoError(t, err)
					copy(b[at:], ins)
					models[key] = append(append(bytes.Clone(model[:at]), ins...), model[at+del:]...)
					require.True(t, bytes.Equal(models[key], b))
				}
				v.Close()
			}
			for key, model := range models {
				v := open(t, s, key, kind)
				require.True(t, bytes.Equal(model, v.Bytes()))
				_, integer := canonical(model)
				_, kept := v.Integer()
				require.Equal(t, kind == algo.Counter && integer, kept, "an integer is kept as a number: %q", model)
				v.Close()
			}
		}
	}
}

func TestAValueHasABound(t *testing.T) {
	s := engine.New(engine.Config{}).NewSession()
	for _, kind := range []algo.Algorithm{algo.Counter, algo.Hash} {
		key := kind.String()
		v := open(t, s, key, kind)
		most := map[algo.Algorithm]int{algo.Counter: engine.MaxValueLen, algo.Hash: packed.MaxValue}[kind]
		require.NoError(t, v.Set(make([]byte, most)))
		_, err := v.Splice(5, 2, 3)
		require.ErrorIs(t, err, engine.ErrValueTooLarge)
		require.ErrorIs(t, v.Set(make([]byte, most+1)), engine.ErrValueTooLarge)
		require.True(t, bytes.Equal(make([]byte, most), v.Bytes()))
		_, err = v.Splice(5, 3, 3)
		require.NoError(t, err)
		v.Close()
	}
	_, err := s.Set(start, []byte("k"), make([]byte, engine.MaxValueLen+1), &engine.SetOptions{})
	require.ErrorIs(t, err, engine.ErrValueTooLarge)
}

func TestAValueThatFindsNoRoomStays(t *testing.T) {
	s := engine.New(engine.Config{Shards: 1, MaxBytes: 100 << 10}).NewSession()
	set(t, s, "k", "value")
	v := open(t, s, "k", algo.Counter)
	defer v.Close()
	require.ErrorIs(t, v.Set(make([]byte, 200<<10)), engine.ErrFull)
	_, err := v.Splice(0, 2, 200<<10)
	require.ErrorIs(t, err, engine.ErrFull)
	require.Equal(t, "value", string(v.Bytes()))
	// A smaller value is never refused.
	require.NoError(t, v.Set(make([]byte, 20<<10)))
	for n := 20 << 10; n > 0; n -= 100 {
		_, err := v.Splice(0, 100, 0)
		if n < 100 {
			_, err = v.Splice(0, v.Len(), 0)
		}
		require.NoError(t, err)
		if v.Len() < 100 {
			break
		}
	}
}

func TestValuesHaveDeadlinesAndKinds(t *testing.T) {
	e := engine.New(engine.Config{})
	s := e.NewSession()
	v := open(t, s, "h", algo.Hash)
	require.Nil(t, v.Edit())
	v.SetDeadline(start + minute) // of nothing
	require.NoError(t, v.Set([]byte("x")))
	require.EqualValues(t, engine.NoExpiry, v.Deadline())
	v.SetDeadline(start + minute)
	v.Close()
	_, err := s.Open(start, []byte("h"), algo.List)
	require.ErrorIs(t, err, engine.ErrWrongType)
	_, err = s.Incr(start, []byte("h"), 1)
	require.ErrorIs(t, err, engine.ErrWrongType)
	_, _, err = s.Get(start, []byte("h"), nil)
	require.ErrorIs(t, err, engine.ErrWrongType)
	_, err = s.Decide(start, []byte("h"), perMinute(algo.Token, 5), 1, &algo.Options{})
	require.ErrorIs(t, err, engine.ErrWrongType)
	persisted, err := s.Persist(start, []byte("h"))
	require.NoError(t, err)
	require.True(t, persisted)
	expires, err := s.Expire(start, []byte("h"), start+minute, 0)
	require.NoError(t, err)
	require.True(t, expires)

	// An expired key has no kind any more, and a new value has no deadline.
	v, err = s.Open(start+2*minute, []byte("h"), algo.List)
	require.NoError(t, err)
	require.False(t, v.Exists())
	require.NoError(t, v.Set([]byte("list")))
	require.EqualValues(t, engine.NoExpiry, v.Deadline())
	v.SetDeadline(start) // has passed
	require.False(t, v.Exists())
	v.Close()
	require.Zero(t, e.Len())
}

func TestAVisitAllocatesNothing(t *testing.T) {
	s := engine.New(engine.Config{}).NewSession()
	set(t, s, "k", "some text")
	set(t, s, "n", "7")
	key, number, buf := []byte("k"), []byte("n"), make([]byte, 0, 100)
	v := open(t, s, "h", algo.Hash)
	require.NoError(t, v.Set([]byte("0123456789")))
	v.Close()
	hash := []byte("h")
	o := &engine.SetOptions{}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		v, _ := s.Open(start, hash, algo.Hash)
		v.Edit()[3]++
		_, _ = v.Splice(2, 1, 3)
		_, _ = v.Splice(2, 3, 1)
		v.Close()
		_, _ = s.Incr(start, number, 1)
		_, _, _ = s.Get(start, key, buf)
		_, _, _ = s.Get(start, number, buf)
		_, _ = s.Set(start, key, key, o)
	}))
}

func TestStrings(t *testing.T) {
	s := engine.New(engine.Config{}).NewSession()
	for _, written := range []string{"", "0", "-0", "00", "+1", "-1", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1.5", "a", "12345678", "123456789abcdefg", " 1", "1 "} {
		set(t, s, "k", written)
		require.Equal(t, written, text(t, s, "k"))
		x, ok, err := s.Explain(start, []byte("k"))
		require.NoError(t, err)
		require.True(t, ok)
		n, integer := canonical([]byte(written))
		require.Equal(t, integer, x.Encoding == "int", written)
		sum, err := s.Incr(start, []byte("k"), -1)
		switch {
		case !integer:
			require.ErrorIs(t, err, engine.ErrNotInteger, written)
		case written == "-9223372036854775808":
			require.ErrorIs(t, err, engine.ErrIncrDecrOverflow)
		default:
			require.NoError(t, err)
			require.Equal(t, n-1, sum)
			require.Equal(t, fmt.Sprint(n-1), text(t, s, "k"))
		}
	}
	set(t, s, "k", "abc")
	_, _, err := s.IncrEx(start, []byte("k"), &engine.IncrOptions{By: engine.Integer(1)})
	require.ErrorIs(t, err, engine.ErrNotInteger)
	_, _, err = s.IncrEx(start, []byte("k"), &engine.IncrOptions{Float: true, By: engine.Integer(1)})
	require.ErrorIs(t, err, engine.ErrNotFloat)
	require.Equal(t, "abc", text(t, s, "k"))
	sum, err := s.Incr(start, []byte("new"), 5)
	require.NoError(t, err)
	require.EqualValues(t, 5, sum)
}

func TestSetObeysItsOptions(t *testing.T) {
	e := engine.New(engine.Config{})
	s := e.NewSession()
	key := []byte("k")
	f := func(want bool, o engine.SetOptions, value string) {
		t.Helper()
		done, err := s.Set(start, key, []byte(value), &o)
		require.NoError(t, err)
		require.Equal(t, want, done)
	}
	deadline := func() int64 {
		at, _, ok, err := s.Deadline(start, key)
		require.NoError(t, err)
		require.True(t, ok)
		return at
	}
	f(false, engine.SetOptions{OnlyOld: true}, "a")
	f(true, engine.SetOptions{OnlyNew: true, Deadline: start + minute}, "b")
	f(false, engine.SetOptions{OnlyNew: true}, "c")
	require.Equal(t, "b", text(t, s, "k"))
	require.EqualValues(t, start+minute, deadline())
	f(true, engine.SetOptions{OnlyOld: true, KeepTTL: true}, "12")
	require.EqualValues(t, start+minute, deadline())
	f(true, engine.SetOptions{}, "d")
	require.EqualValues(t, engine.NoExpiry, deadline())
	f(true, engine.SetOptions{Deadline: start - 1}, "e")
	require.Zero(t, e.Len())

	v := open(t, s, "k", algo.Hash)
	require.NoError(t, v.Set([]byte("hash")))
	v.Close()
	f(true, engine.SetOptions{}, "over a hash")
	require.Equal(t, "over a hash", text(t, s, "k"))
	decide(t, s, start, "limit", perMinute(algo.Token, 5), 1, algo.Options{})
	_, err := s.Set(start, []byte("limit"), []byte("v"), &engine.SetOptions{})
	require.ErrorIs(t, err, engine.ErrWrongType)
}
