package raftlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/ledger"
)

// mapMachine is a Machine over a map. It decides first and replicates effects,
// as the engine does. Beside its table it keeps a shadow that only committed
// batches change: the applied log prefix.
type mapMachine struct {
	ledger *ledger.Ledger

	busy atomic.Bool // a call of the group is in progress

	mu       sync.Mutex
	table    map[string]string
	shadow   map[string]string
	dirty    map[string]*string // previous values of the keys of the batch that fills
	leads    bool
	index    uint64 // of the last batch applied
	base     int64  // clock at Lead
	since    time.Time
	deposed  int
	applies  int
	restores int
	level    uint32        // permitted
	late     time.Duration // of Depose
	failWith error
	hang     chan struct{} // Apply waits for it, unless nil
	persist  chan struct{} // Snapshot.Persist receives from it twice, at its beginning and before it writes, unless nil
	refuse   func() error  // asked by Snapshot.Persist, unless nil
}

// mapUndo is what a batch has changed.
type mapUndo struct {
	m             *mapMachine
	before, after map[string]*string
}

// Committed implements ledger.Undo.
func (u *mapUndo) Committed() {
	defer u.m.enter()()
	for k, v := range u.after {
		put(u.m.shadow, k, v)
	}
}

var errNotLeading = errors.New("not leading")

func newMapMachine() *mapMachine {
	return &mapMachine{
		table: map[string]string{}, shadow: map[string]string{}, dirty: map[string]*string{},
		ledger: ledger.New(ledger.Hooks{}),
	}
}

// enter checks that the group makes one call at a time.
func (m *mapMachine) enter() func() {
	if m.busy.Swap(true) {
		panic("two calls of the machine at once")
	}
	m.mu.Lock()
	return func() {
		m.mu.Unlock()
		m.busy.Store(false)
	}
}

// set is a decision; an empty value deletes.
func (m *mapMachine) set(kv ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.leads {
		return errNotLeading
	}
	for i := 0; i < len(kv); i += 2 {
		if _, ok := m.dirty[kv[i]]; !ok {
			m.dirty[kv[i]] = get(m.table, kv[i])
		}
		put(m.table, kv[i], &kv[i+1])
	}
	m.ledger.Mark()
	return nil
}

func get(t map[string]string, k string) *string {
	if v, ok := t[k]; ok {
		return &v
	}
	return nil
}

func put(t map[string]string, k string, v *string) {
	if v == nil || *v == "" {
		delete(t, k)
	} else {
		t[k] = *v
	}
}

func (m *mapMachine) snapshotTable() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.table)
}

func (m *mapMachine) leading() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leads
}

func (m *mapMachine) Permit(level uint32) {
	defer m.enter()()
	m.level = level
}

func (m *mapMachine) Apply(b Batch) error {
	defer m.enter()()
	if m.hang != nil {
		<-m.hang
	}
	if m.failWith != nil {
		return m.failWith
	}
	if m.leads {
		panic("Apply while serving")
	}
	if b.Index <= m.index {
		panic(fmt.Sprintf("batch %d after %d", b.Index, m.index))
	}
	m.index = b.Index
	m.applies++
	raw := strings.Join(byteStrings(b.Payloads), "")
	if raw == "" {
		return nil
	}
	var kv map[string]*string
	if err := json.Unmarshal([]byte(raw), &kv); err != nil {
		return err
	}
	for k, v := range kv {
		put(m.table, k, v)
		put(m.shadow, k, v)
	}
	return nil
}

func byteStrings(p [][]byte) []string {
	var s []string
	for _, b := range p {
		s = append(s, string(b))
	}
	return s
}

func (m *mapMachine) Lead(clock int64) {
	defer m.enter()()
	if m.leads {
		panic("Lead while serving")
	}
	m.leads, m.base, m.since = true, clock, time.Now()
}

func (m *mapMachine) Depose() {
	m.mu.Lock()
	late := m.late
	m.mu.Unlock()
	time.Sleep(late)
	defer m.enter()()
	if !m.leads {
		panic("Depose while not serving")
	}
	m.leads = false
	undo(m.table, m.dirty)
	m.ledger.Flights(func(flights []ledger.Flight) {
		for _, f := range slices.Backward(flights) {
			if u, ok := f.Undo.(*mapUndo); ok {
				undo(m.table, u.before)
			}
		}
	})
	m.dirty = map[string]*string{}
	m.deposed++
	if !maps.Equal(m.table, m.shadow) {
		panic("after Depose the table is not the applied prefix")
	}
}

func undo(t map[string]string, before map[string]*string) {
	for k, v := range before {
		put(t, k, v)
	}
}

func (m *mapMachine) Cut(max int) ([][]byte, bool) {
	defer m.enter()()
	if !m.leads {
		panic("Cut while not serving")
	}
	cut := m.ledger.Begin()
	if len(m.dirty) == 0 {
		m.ledger.Empty(cut)
		return nil, false
	}
	after := make(map[string]*string)
	for k := range m.dirty {
		after[k] = get(m.table, k)
	}
	raw, err := json.Marshal(after)
	if err != nil {
		panic(err)
	}
	parts := slices.Collect(slices.Chunk(raw, max))
	m.ledger.Add(cut, &mapUndo{m, m.dirty, after})
	m.ledger.Encoded(parts)
	m.dirty = map[string]*string{}
	return parts, true
}

func (m *mapMachine) Committed(int64) {}

func (m *mapMachine) Now() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.base + int64(time.Since(m.since))
}

func (m *mapMachine) Snapshot() (Snapshot, error) {
	defer m.enter()()
	return mapSnapshot{maps.Clone(m.shadow), m.persist, m.refuse}, nil
}

func (m *mapMachine) Restore(r io.Reader, clock int64) error {
	defer m.enter()()
	var t map[string]string
	if err := json.NewDecoder(r).Decode(&t); err != nil {
		return err
	}
	m.table, m.shadow, m.base = t, maps.Clone(t), clock
	m.restores++
	return nil
}

// mapSnapshot is a copy of a committed table.
type mapSnapshot struct {
	table map[string]string
	gate  chan struct{}
	err   func() error
}

func (s mapSnapshot) Persist(w io.Writer) error {
	if s.err != nil {
		if err := s.err(); err != nil {
			return err
		}
	}
	if s.gate != nil {
		<-s.gate
		<-s.gate
	}
	return json.NewEncoder(w).Encode(s.table)
}

func (s mapSnapshot) Release() {}
