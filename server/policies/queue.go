package policies

import (
	"bytes"
	"strings"
	"sync"
	"time"

	"github.com/headgate-io/headgate/engine"
)

// queue holds the committed records, and the news: changes of records that are not in the
// view yet.
type queue struct {
	mu      sync.Mutex
	records map[string][]byte // their values before the news
	news    []engine.PolicyRecord
	bytes   int // size of news; 0 for a complete set (anew)
	most    int // bound of bytes
	// anew says that news has all records that exist. folded says that the queue was full,
	// so some news are already in the field records.
	anew, folded bool

	// waits says what is queued. taken says what a goroutine is making into a view.
	// Book.waits has the bits of both.
	waits, taken uint32
	// staged is the staged set of a change that is about to be committed, or nil.
	staged *staged
	// followed reports that a goroutine is bringing the view up to date.
	followed bool
}

// Bits that say what waits to be taken over.
const (
	waitsAny   uint32 = 1 << iota
	waitsTexts        // other records than overrides
	waitsOwn          // the change that this node has staged
	waitsLong         // so much that the next view takes a while to make
)

const (
	// newsMost bounds queue.bytes, in bytes of names and values.
	newsMost = 32 << 20
	// briefNews is the most bytes of news that an event loop may take over: a few policies.
	briefNews = 64 << 10
	// followPause is how long overrides may wait to be taken over if no check needs them.
	followPause = 100 * time.Millisecond
)

// hear queues committed records. complete says that changes has all records that exist, as
// after a snapshot.
func (b *Book) hear(changes []engine.PolicyRecord, complete bool) {
	q := &b.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(changes, complete)
	b.waits.Store(q.waits | q.taken)
	if !q.followed {
		q.followed = true
		go b.follow()
	}
}

// add queues records.
func (q *queue) add(changes []engine.PolicyRecord, complete bool) {
	q.waits |= waitsAny
	if complete {
		q.news, q.bytes, q.anew, q.folded = nil, 0, true, false
		q.waits |= waitsTexts | waitsLong
	}
	q.news = append(q.news, changes...)
	for i := range changes {
		r := &changes[i]
		if !complete { // the complete set does not count: the engine holds it in memory anyway
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

// follow brings the view up to date. It returns when nothing is queued.
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

// heard is a committed record. The field was is the value that the record had before.
type heard struct {
	engine.PolicyRecord
	was []byte
	// If the text is stored in several records, parts has their values in order. over says
	// that a newer version exists, so parts may be missing.
	parts [][]byte
	over  bool
}

// batch holds the records that are taken over together.
type batch struct {
	news   []heard
	anew   bool // no other records exist
	staged *staged
}

// take returns everything in the queue, and moves it to q.records. The result some is
// false if the queue was empty.
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

// done notes that the view contains what was taken.
func (b *Book) done() {
	b.queue.mu.Lock()
	defer b.queue.mu.Unlock()
	b.queue.taken = 0
	b.waits.Store(b.queue.waits)
}

// keep moves the news to q.records, and returns the news. anew says that no other records
// exist.
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

// of returns the value that a record has in q.records. It does not look at the news.
func (q *queue) of(record string) []byte { return q.records[record] }
