package packed

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

var errFull = errors.New("full")

// memory is as unkind as a Buffer may be. Splice returns another place each time, with
// random bytes where allowed and up to seven after the end. With fail set, Splice fails.
type memory struct {
	v     []byte
	rnd   *rand.Rand
	fail  bool
	exact bool // no bytes behind the end
	edits int
	grown int // calls of Splice that made the value longer
}

func newMemory(seed uint64) *memory {
	return &memory{rnd: rand.New(rand.NewPCG(seed, 1))}
}

func (m *memory) Bytes() []byte { return m.v }

func (m *memory) Edit() []byte {
	m.edits++
	return m.v
}

func (m *memory) Splice(at, del, ins int) ([]byte, error) {
	if m.fail {
		return nil, errFull
	}
	if ins > del {
		m.grown++
	}
	old := m.v
	pad := 0
	if m.rnd != nil && !m.exact {
		pad = m.rnd.IntN(8)
	}
	m.v = make([]byte, len(old)-del+ins+pad)
	if m.rnd != nil {
		for i := len(m.v) - pad; i < len(m.v); i++ {
			m.v[i] = byte(m.rnd.Uint32())
		}
		for i := at; i < min(at+ins, at+100); i++ {
			m.v[i] = byte(m.rnd.Uint32())
		}
	}
	copy(m.v, old[:at])
	copy(m.v[at+ins:], old[at+del:])
	clear(old) // who still reads it is wrong
	return m.v, nil
}

// script is random or fuzzed bytes that a model test takes its steps from.
type script []byte

func (s *script) more() bool { return len(*s) > 0 }

func (s *script) byte() int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b)
}

func (s *script) number(n int) int { return (s.byte() | s.byte()<<8 | s.byte()<<16) % n }

// several returns a number below n, sometimes one that turns a small form into a large
// one.
func (s *script) several(n int) int {
	b := s.byte()
	if b > 250 {
		return 4 * b % 300
	}
	return b % n
}

// text returns about n bytes; the first few identify i.
func text(i, n int) []byte {
	b := []byte{byte('a' + i%26)}
	for i /= 26; i > 0; i /= 26 {
		b = append(b, byte('a'+i%26))
	}
	for len(b) < n {
		b = append(b, byte(n))
	}
	return b
}

// size returns mostly short lengths, and some that take one more byte.
func (s *script) size() int {
	switch n := s.byte(); {
	case n < 200:
		return n % 24
	case n < 250:
		return 120 + n%16
	default:
		return 100 * (n - 240)
	}
}

func randomScript(seed uint64, n int) script {
	r := rand.New(rand.NewPCG(seed, 2))
	s := make(script, n)
	for i := range s {
		s[i] = byte(r.Uint32())
	}
	return s
}

// checkValue checks the value itself, that it goes over the wire, and that what
// comes out is the same.
func checkValue(t testing.TB, kind Kind, v []byte) {
	if len(v) == 0 {
		return
	}
	require.NoError(t, Check(kind, v))
	require.LessOrEqual(t, len(v), MaxValue)
	wire := AppendWire([]byte("before"), v)[6:]
	require.LessOrEqual(t, len(wire), MaxBytes)
	back, err := FromWire([]byte("before"), kind, wire)
	require.NoError(t, err)
	require.Equal(t, "before", string(back[:6]))
	back = back[6:]
	require.NoError(t, Check(kind, back))
	require.Equal(t, wire, AppendWire(nil, back))
	require.Equal(t, Len(v), Len(back))
	require.Equal(t, Encoding(v), Encoding(back))
}

// unchanged runs an operation that should fail on a full buffer, and checks that it then
// leaves the contents unchanged.
func (m *memory) unchanged(t testing.TB, do func() error) (failed bool) {
	before := AppendWire(nil, m.v)
	absent := len(m.v) == 0
	m.fail = true
	err := do()
	m.fail = false
	if err == nil {
		return false
	}
	require.ErrorIs(t, err, errFull)
	require.Equal(t, before, AppendWire(nil, m.v))
	require.Equal(t, absent, len(m.v) == 0)
	return true
}
