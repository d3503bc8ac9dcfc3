package policies

import (
	"bytes"
	"strings"
	"sync"
	"time"

	"github.com/headgate-io/headgate/engine"
)

// queue has the committed records, and the records that are not in the view yet.
type queue struct {
	mu      sync.Mutex
	records map[string][]byte // without news
	news    []engine.PolicyRecord
	bytes   int // of news, without those of anew
	most    int // bound of bytes
	// anew is set if only the records in news exist. folded is set if news were too many
	// and are already among the records.
	anew, folded bool

	// waits says what is queued, and taken what is being made into a view. Book.waits has
	// both.
	waits, taken uint32
	// staged is the set of a change that is about to be committed, nil for none.
	staged *staged
	// followed is set while a goroutine brings the view up to date.
	followed bool
}

// What waits to be taken over.
const (
	waitsAny   uint32 = 1 << iota
	waitsTexts        // other records than overrides
	waitsOwn          // the change that this node has staged
	waitsLong         // much: the view takes a while
)

const (
	// newsMost bounds queue.bytes, in bytes of names and values.
	newsMost = 32 << 20
	// briefNews is how many bytes of news an event loop may take over: a few policies.
	briefNews = 64 << 10
	// followPause is how long overrides may wait to be taken over if no check needs them.
	followPause = 100 * time.Millisecond
)

// hear takes committed records. anew says that no other records exist.
func (b *Book) hear(changes []engine.PolicyRecord, anew bool) {
	q := &b.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(changes, anew)
	b.waits.Store(q.waits | q.taken)
	if !q.followed {
		q.followed = true
		go b.follow()
	}
}

// add queues records.
func (q *queue) add(changes []engine.PolicyRecord, anew bool) {
	q.waits |= waitsAny
	if anew {
		q.news, q.bytes, q.anew, q.folded = nil, 0, true, false
		q.waits |= waitsTexts | waitsLong
	}
	q.news = append(q.news, changes...)
	for i := range changes {
		r := &changes[i]
		if !anew { // all records: the engine has them too
			q.bytes += len(r.Name) + len(r.Value)
		}
		if !strings.HasPrefix(r.Name, overridePrefix) {
			q.waits |= waitsTexts
		}
		if q.staged != nil && q.staged.is(r) {
			q.waits |= waitsOwn
		}
	}
	if q.bytes > q.most {
		q.keep()
		q.folded = true
	}
	if q.bytes > briefNews || q.folded {
		q.waits |= waitsLong
	}
}

// follow brings the view up to date. It returns when nothing waits.
func (b *Book) follow() {
	for {
		if b.waits.Load()&waitsTexts == 0 {
			time.Sleep(followPause)
		}
		b.catchUp()
		b.queue.mu.Lock()
		if b.queue.waits == 0 {
			b.queue.followed = false
			b.queue.mu.Unlock()
			return
		}
		b.queue.mu.Unlock()
	}
}

// heard is news of a record. was is the record's earlier value.
type heard struct {
	engine.PolicyRecord
	was []byte
	// parts are the parts of a text that is in parts. over is set if a newer version
	// exists, so that parts may be gone.
	parts [][]byte
	over  bool
}

// batch is what is taken over at once.
type batch struct {
	news   []heard
	anew   bool // no other records exist
	staged *staged
}

// take returns everything in the queue, and moves it to the records. some is false if the
// queue is empty.
func (b *Book) take() (bt batch, some bool) {
	q := &b.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waits == 0 {
		return bt, false
	}
	q.taken, q.waits = q.waits, 0
	bt.staged, q.staged = q.staged, nil
	bt.news, bt.anew = q.keep()
	if q.folded {
		q.folded, bt.anew, bt.news = false, true, bt.news[:0]
		for name, value := range q.records {
			bt.news = append(bt.news, heard{PolicyRecord: engine.PolicyRecord{Name: name, Value: value}})
		}
	}
	for i := range bt.news {
		if r := &bt.news[i]; bytes.HasPrefix(r.Value, inParts) && !strings.HasPrefix(r.Name, internalPrefix) {
			r.parts, r.over = partsOf(r.Name, r.Value, q.of), !bytes.Equal(r.Value, q.of(r.Name))
		}
	}
	return bt, true
}

// done notes that the view has what was taken.
func (b *Book) done() {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	b.queue.taken = 0
	b.waits.Store(b.queue.waits)
}

// keep moves news to the records and returns them. anew is set if no other records exist.
func (q *queue) keep() (news []heard, anew bool) {
	if anew = q.anew; anew {
		clear(q.records)
	}
	news = make([]heard, 0, len(q.news))
	for _, r := range q.news {
		news = append(news, heard{PolicyRecord: r, was: q.records[r.Name]})
		if r.Value == nil {
			delete(q.records, r.Name)
		} else {
			q.records[r.Name] = r.Value
		}
	}
	q.news, q.bytes, q.anew = nil, 0, false
	return news, anew
}

// of returns the value of a record that is taken over.
func (q *queue) of(record string) []byte { return q.records[record] }
