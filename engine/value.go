package engine

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/shard"
)

// NoExpiry is the deadline of a key without a time to live.
const NoExpiry = math.MaxInt64

// MaxValueLen bounds the bytes of a string. Other values have their own bounds: see
// engine/packed.
const MaxValueLen = 1 << 20

// ErrValueTooLarge is returned for a value above the bound of its kind, MaxValueLen for
// strings. Nothing has changed then.
var ErrValueTooLarge = errors.New("value is longer than 1048576 bytes")

// Value is a visit to the value of one key: from Session.Open to Close the key's shard is
// locked. A session can visit one key at a time, and must not be used for anything else
// meanwhile.
//
// The value of a Counter, a string in Redis, is its text. If that is an integer in its
// shortest form, it is stored as a number. This package does not interpret the bytes of
// other kinds.
type Value struct {
	s       *Session
	sh      *shard.Shard
	p       plan
	now     int64
	n       int      // length of the value in bytes
	integer bool     // a counter that is kept as a number
	spliced bool     // a counter whose text may have become an integer
	text    [20]byte // the text of an integer
}

// Open begins a visit to the value of key. It locks the key's shard until Close, unless
// the session already holds it. kind is the expected kind: Counter, Hash, Set, SortedSet
// or List. now is in ns. Open allocates nothing. After an error nothing is locked. The
// errors are ErrWrongType for a key of another kind, ErrKeyTooLong, ErrSealed,
// ErrNotIsolated, ErrUndoFull.
func (s *Session) Open(now int64, key []byte, kind algo.Algorithm) (*Value, error) {
	if len(key) > shard.MaxKeyLen {
		return nil, ErrKeyTooLong
	}
	it, err := s.rule(algo.Limit{Algorithm: kind, DB: s.db})
	if err != nil {
		return nil, err
	}
	hash := s.hash(key)
	if s.step.undo.full() {
		return nil, ErrUndoFull
	}
	sh, err := s.look(hash)
	if err != nil {
		return nil, err
	}
	v := &s.value
	v.s, v.sh, v.now = s, sh, sh.Advance(now)
	// A plan is large, and a visit uses only these fields.
	v.p.it, v.p.hash, v.p.key = it, hash, key
	v.p.ent, v.p.found = sh.Find(hash, key)
	v.p.live = v.p.found && !v.p.ent.Expired(v.now)
	if v.p.live && v.p.ent.Meta() != it.id && s.kind(v.p.ent) != kind {
		s.unlock(sh)
		return nil, ErrWrongType
	}
	v.measure()
	return v, nil
}

// measure reads the length of the stored value.
func (v *Value) measure() {
	v.n, v.integer, v.spliced = 0, false, false
	if !v.p.live {
		return
	}
	state := v.p.ent.State()
	switch {
	case v.kind() != algo.Counter:
		v.n = len(effects.Collection(v.p.ent.State()))
	case len(state) == 8:
		v.integer = true
	default:
		v.n = int(binary.LittleEndian.Uint64(state))
	}
}

// most returns the bound on the value's length.
func (v *Value) most() int {
	if v.kind() == algo.Counter {
		return MaxValueLen
	}
	return packed.MaxValue
}

func (v *Value) kind() algo.Algorithm { return v.p.it.Limit.Algorithm }

// Exists reports whether the key has a value.
func (v *Value) Exists() bool { return v.p.live }

// Now returns the time of the visit, in ns: that of Open, or that of an earlier visit to
// the shard if that is later.
func (v *Value) Now() int64 { return v.now }

// Len returns the length of the value in bytes, 0 for an absent one.
func (v *Value) Len() int { return len(v.Bytes()) }

// Bytes returns the stored value, nil if absent. It is read-only, and valid until the
// next Splice, Set, Delete or Close.
func (v *Value) Bytes() []byte {
	switch {
	case !v.p.live:
		return nil
	case v.integer:
		return strconv.AppendInt(v.text[:0], int64(v.p.ent.Word(0)), 10)
	}
	return v.stored()
}

// A value's state is its bytes and a padding to a whole number of words: zeros, then a
// byte with the length of the padding, 1 to 8. For a counter's state see counter.go.

// stored returns the bytes of the value in its record.
func (v *Value) stored() []byte {
	at := v.offset()
	return v.p.ent.State()[at : at+v.n : at+v.n]
}

// offset returns where the bytes begin in the state.
func (v *Value) offset() int {
	if v.kind() == algo.Counter {
		return 8
	}
	return 0
}

// wordsOf returns how many words a value of n bytes takes.
func (v *Value) wordsOf(n int) int {
	if v.kind() == algo.Counter {
		return textWords(n)
	}
	return n/8 + 1
}

// seal writes the padding of a value of n bytes.
func (v *Value) seal(n int) {
	v.n = n
	state := v.p.ent.State()
	if v.kind() == algo.Counter {
		binary.LittleEndian.PutUint64(state, uint64(n))
		clear(state[8+n:])
		return
	}
	clear(state[n:])
	state[len(state)-1] = byte(len(state) - n)
}

// Edit returns the value, to be changed in place without a change of length. It is nil
// for an absent value, and valid as long as Bytes. It marks the key as changed.
func (v *Value) Edit() []byte {
	if !v.p.live {
		return nil
	}
	if v.integer {
		b, err := v.Splice(0, 0, 0)
		if err != nil {
			return nil
		}
		return b
	}
	v.touch()
	v.spliced = true
	return v.stored()
}

// Set makes value the value of the key, which it creates if needed. The deadline stays.
// value must not be a part of Bytes. Errors: ErrFull, ErrValueTooLarge; nothing has
// changed then.
func (v *Value) Set(value []byte) error {
	if len(value) > v.most() {
		return ErrValueTooLarge
	}
	if v.kind() == algo.Counter {
		if n, ok := parseInteger(value); ok {
			return v.setInteger(n)
		}
	}
	if err := v.place(v.wordsOf(len(value))); err != nil {
		return err
	}
	copy(v.p.ent.State()[v.offset():], value)
	v.integer = false
	v.seal(len(value))
	return nil
}

// setInteger sets a counter to n.
func (v *Value) setInteger(n int64) error {
	if err := v.place(1); err != nil {
		return err
	}
	v.p.ent.SetWord(0, uint64(n))
	v.n, v.integer, v.spliced = 0, true, false
	return nil
}

// place gives the record of the value the wanted number of words, and creates it if
// needed.
func (v *Value) place(words int) error {
	v.save()
	if err := v.s.place(&v.p, v.sh, words, v.Deadline(), v.now); err != nil {
		return err
	}
	v.p.live = true
	return nil
}

// Splice replaces del existing bytes from at on by ins new ones, and returns the whole
// value. It creates the key if absent. The caller writes the new bytes, which are
// undefined before. The bytes after them move, within the record if its size class
// allows. Errors: ErrFull, ErrValueTooLarge; nothing has changed then.
func (v *Value) Splice(at, del, ins int) ([]byte, error) {
	if v.integer {
		if err := v.spell(); err != nil {
			return nil, err
		}
	}
	n := v.n - del + ins
	if n > v.most() {
		return nil, ErrValueTooLarge
	}
	if v.p.live && ins < del {
		v.touch()
		b := v.stored()
		copy(b[at+ins:], b[at+del:])
	}
	old := v.n
	if err := v.place(v.wordsOf(n)); err != nil {
		return nil, err
	}
	if ins > del {
		b := v.p.ent.State()[v.offset():]
		copy(b[at+ins:n], b[at+del:old])
	}
	v.seal(n)
	v.spliced = true
	return v.stored(), nil
}

// Changed marks the key as written for its watchers, if the write has not changed it.
func (v *Value) Changed() {
	if v.p.live && v.sh.Watched(v.p.hash, v.p.key) != nil {
		v.save()
		v.sh.Changed(v.p.hash, v.p.key)
	}
}

// touch marks the record as changed.
func (v *Value) touch() {
	v.save()
	v.sh.Touch(v.p.ent)
}

// save remembers the state of the key for Step.Rollback. Open has checked that there is
// room.
func (v *Value) save() {
	if v.s.step.undo.on {
		_ = v.s.save(v.p.hash, v.p.key)
	}
}

// spell turns a counter stored as a number into one stored as text.
func (v *Value) spell() error {
	var buf [20]byte
	text := strconv.AppendInt(buf[:0], int64(v.p.ent.Word(0)), 10)
	if err := v.place(textWords(len(text))); err != nil {
		return err
	}
	copy(v.p.ent.State()[8:], text)
	v.integer = false
	v.seal(len(text))
	return nil
}

// Deadline returns when the key expires, engine time in ns, or NoExpiry. For an absent
// key it is NoExpiry.
func (v *Value) Deadline() int64 {
	if !v.p.live {
		return NoExpiry
	}
	return v.p.ent.Deadline()
}

// SetDeadline sets when the key expires, in ns of the engine's time, or NoExpiry. A time
// that has passed deletes the key. It does nothing for an absent key.
func (v *Value) SetDeadline(at int64) {
	switch {
	case !v.p.live:
	case at <= v.now:
		v.Delete()
	default:
		v.touch()
		v.p.ent.SetDeadline(at)
	}
}

// Delete removes the key. The visit goes on, with an absent value.
func (v *Value) Delete() {
	if v.p.found {
		v.save()
		v.sh.Delete(v.p.ent)
	}
	v.p.ent, v.p.found, v.p.live = shard.Entry{}, false, false
	v.measure()
}

// Close ends the visit. Further calls do nothing.
func (v *Value) Close() {
	if v.sh == nil {
		return
	}
	if v.spliced && v.kind() == algo.Counter && v.p.live {
		if n, ok := parseInteger(v.stored()); ok {
			// The record gets smaller; if that fails, nothing changes.
			_ = v.setInteger(n)
		}
	}
	sh := v.sh
	v.sh, v.p.it, v.p.key, v.p.ent = nil, nil, nil, shard.Entry{}
	v.s.unlock(sh)
}

// parseInteger reads an int64 in its shortest form.
func parseInteger(text []byte) (n int64, ok bool) {
	if len(text) == 0 || len(text) > 20 {
		return 0, false
	}
	digits := text
	negative := text[0] == '-'
	if negative {
		digits = text[1:]
	}
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' && (len(digits) > 1 || negative) {
		return 0, false
	}
	u := uint64(0)
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		u = u*10 + uint64(c-'0')
	}
	switch {
	case !negative && u <= math.MaxInt64:
		return int64(u), true
	case negative && u <= -math.MinInt64:
		return -int64(u), true
	}
	return 0, false
}
