package engine

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/ledger"
	"github.com/headgate-io/headgate/shard"
)

// A snapshot is a sequence of chunks, ended by a length of 0. A chunk is its length, a
// uvarint, and a payload as in effects.go without deletions. The system records come
// first.
const (
	// snapshotChunk is the approximate size of a chunk.
	snapshotChunk = 256 << 10
	// snapshotMost bounds a chunk that is read. The largest record is below 1.2 MiB: a
	// string of MaxValueLen, or the wire form of a collection, under the longest key. A
	// state of that length in varints would be below 1.4 MiB.
	snapshotMost = 2 << 20
)

// errRestored is returned by Persist if Restore has replaced the table since the snapshot
// was begun: the shards would be of two tables.
var errRestored = errors.New("another snapshot was restored meanwhile")

// Snapshot writes the committed state of a replica's table.
type Snapshot struct {
	r       *Replica
	epoch   uint64 // of the table
	formats effects.Formats
}

// Snapshot returns at once. Persist may include effects that are committed while it runs.
// That is harmless: replaying the log over the snapshot gives each key its last state.
func (r *Replica) Snapshot() *Snapshot { return &Snapshot{r, r.epoch.Load(), r.formats} }

// Persist writes the snapshot to w, one shard at a time. After each shard it pauses for
// as long as the shard took, so decisions keep half of a processor and of the disk. It
// fails if Restore replaces the table meanwhile.
func (s *Snapshot) Persist(w io.Writer) error {
	bw := bufio.NewWriterSize(w, snapshotChunk)
	begin := time.Now()
	err := s.each(func(chunks [][]byte) error {
		for _, chunk := range chunks {
			if err := writeChunk(bw, chunk); err != nil {
				return err
			}
		}
		time.Sleep(time.Since(begin))
		begin = time.Now()
		return nil
	})
	if err == nil {
		err = writeChunk(bw, nil)
	}
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	return bw.Flush()
}

// each calls fn with the chunks of the snapshot, one shard at a time.
func (s *Snapshot) each(fn func(chunks [][]byte) error) error {
	now := s.r.e.passed()
	// Restore raises the epoch before it changes anything.
	write := func(chunks [][]byte) error {
		if s.r.epoch.Load() != s.epoch {
			return errRestored
		}
		return fn(chunks)
	}
	if err := write(s.r.committedSystem(s.formats)); err != nil {
		return err
	}
	for i := range s.r.e.table.Shards() {
		if err := write(s.r.committed(i, s.formats, now)); err != nil {
			return err
		}
	}
	return write(s.end())
}

// end returns the chunk with the clock of the last batch that may be in the snapshot.
func (s *Snapshot) end() [][]byte {
	enc := effects.NewEncoder(s.r.e.limits, s.formats, snapshotChunk, 0)
	enc.Included(s.r.given.Load())
	return enc.Finish()
}

func writeChunk(w io.Writer, chunk []byte) error {
	var length [binary.MaxVarintLen64]byte
	if _, err := w.Write(length[:binary.PutUvarint(length[:], uint64(len(chunk)))]); err != nil {
		return err
	}
	_, err := w.Write(chunk)
	return err
}

// committedSystem encodes the committed system records.
func (r *Replica) committedSystem(f effects.Formats) [][]byte {
	enc := effects.NewEncoder(r.e.limits, f, snapshotChunk, 0)
	r.eachCommitted(enc.System)
	return enc.Finish()
}

// eachCommitted calls fn with the committed system records.
func (r *Replica) eachCommitted(fn func(k effects.SystemKey, value []byte)) {
	token := r.gate.RLock() // as in committed
	defer r.gate.RUnlock(token)
	r.ledger.Flights(func(flights []ledger.Flight) {
		undos := make([]systemUndo, len(flights))
		for i := range flights {
			undos[i] = undoOf(&flights[i]).system
		}
		r.e.system.committed(undos, fn)
	})
}

// committed encodes the committed state of shard i: its table without uncommitted
// changes.
func (r *Replica) committed(i int, f effects.Formats, now int64) [][]byte {
	enc := effects.NewEncoder(r.e.limits, f, snapshotChunk, 0)
	// No Cut may run between taking a shard's undo records and putting them into the
	// ledger. No flight may be committed in between.
	token := r.gate.RLock()
	defer r.gate.RUnlock(token)
	r.ledger.Flights(func(flights []ledger.Flight) { r.unchanged(i, flights, enc, now) })
	return enc.Finish()
}

// unchanged encodes shard i as it was before the flights and the dirty changes.
func (r *Replica) unchanged(i int, flights []ledger.Flight, enc *effects.Encoder, now int64) {
	sh := r.e.table.Shard(i)
	sh.Lock()
	defer sh.Unlock()

	// A key's oldest record is its committed state; it is walked last. States after a
	// flush that is not committed do not count.
	each := sh.Each
	var before [algo.Spaces]map[string]*shard.Image
	keep := func(im shard.Image, present bool) {
		if before[im.Space] == nil {
			before[im.Space] = make(map[string]*shard.Image)
		}
		before[im.Space][string(im.Key)] = nil
		if present {
			before[im.Space][string(im.Key)] = &im
		}
	}
	back := func(u shard.Undo) {
		u.Walk(keep)
		if c := u.Contents(); c != nil {
			clear(before[:])
			each = c.Each
			c.Undo().Walk(keep)
		}
	}
	if int(r.undone.Load()) <= i {
		back(sh.Pending())
		for j := len(flights) - 1; j >= 0; j-- {
			for _, u := range undoOf(&flights[j]).shards {
				if u.shard == i {
					back(u.undo)
				}
			}
		}
	}
	each(func(ent shard.Entry) {
		db := r.e.limits.get(ent.Meta()).Limit.DB
		if _, dirty := before[db][string(ent.Key())]; !dirty && !ent.Expired(now) {
			enc.Put(ent.Image())
		}
	})
	for _, keys := range before {
		for _, im := range keys {
			if im != nil && im.Deadline >= now {
				enc.Put(*im)
			}
		}
	}
}

// Restore replaces the table by a snapshot. clock is the cluster clock of the last
// applied entry.
func (r *Replica) Restore(src io.Reader, clock int64) error {
	r.epoch.Add(1)
	r.e.table.Reset()
	// The clock of a batch passes only when the whole batch is applied, also if its first
	// parts are before the snapshot.
	r.e.table.Pass(0)
	r.e.system.reset()
	r.e.clock.Set(clock)
	r.snapshotEnd, r.applied = 0, nil
	defer func() { r.give(r.snapshotEnd) }() // for its own snapshots
	if err := ReadSnapshot(src, func(payload []byte) error { return r.apply(payload, clock) }); err != nil {
		return err
	}
	r.e.publish(r.takeApplied(), true)
	return nil
}

// ReadSnapshot calls fn with the payloads of a snapshot, in order.
func ReadSnapshot(src io.Reader, fn func(payload []byte) error) error {
	br := bufio.NewReaderSize(src, snapshotChunk)
	for {
		n, err := binary.ReadUvarint(br)
		if err != nil {
			return fmt.Errorf("read snapshot: %w", noEOF(err))
		}
		if n == 0 {
			return nil
		}
		if n > snapshotMost {
			return fmt.Errorf("read snapshot: %w: chunk of %d bytes", effects.ErrEffects, n)
		}
		chunk := make([]byte, n)
		if _, err := io.ReadFull(br, chunk); err != nil {
			return fmt.Errorf("read snapshot: %w", noEOF(err))
		}
		if err := fn(chunk); err != nil {
			return fmt.Errorf("read snapshot: %w", err)
		}
	}
}

// noEOF turns an early end of a snapshot into io.ErrUnexpectedEOF.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
