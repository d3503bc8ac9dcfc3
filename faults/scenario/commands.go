package scenario

import (
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/history"
)

// commands flushes all keys, and then kills leaders, under a load of every command that changes state. What a counter
// models is judged exactly, the rest by bounds; transactions and scripts are all or nothing at every moment.
func commands(r *Run) error {
	if err := r.start(cluster.Config{}); err != nil {
		return err
	}
	keys := mixed(r.Rate)
	l, err := r.offerData(audited, keys, 3, r.dial, mixedCalls(keys))
	if err != nil {
		return err
	}
	r.wait(2 * time.Second)
	if err = r.flushAll(); err == nil {
		err = r.rounds(r.killLeader)
	}
	return r.finish(l, keys, err)
}

// flushAll deletes all keys under load. The call's times are those of the whole flush.
func (r *Run) flushAll() error {
	n, err := r.leader()
	if err != nil {
		return err
	}
	r.note("flush all keys")
	c := history.Call{Kind: history.Reset, Start: r.now(), Outcome: history.Admitted, Node: uint8(n.Index)}
	_, err = r.once(n, "FLUSHALL")
	c.End = r.now()
	r.flushed = c
	r.note("flushed")
	return err
}

// forgetFlushed adds a flush to the history: a reset of every key that was called before it ended. Which of a key's calls
// came before it only a model of the whole history can tell.
func (r *Run) forgetFlushed() {
	h, flush := &r.history, r.flushed
	called := make([]bool, len(h.Keys))
	for i := range h.Calls {
		if c := &h.Calls[i]; c.Start <= flush.End && !c.Kind.Double() {
			called[c.Key] = true
		}
	}
	var rec history.Recorder
	for k := range called {
		if called[k] {
			flush.Key = uint32(k)
			flush.Due = flush.Start
			rec.Add(flush)
			h.Keys[k].Free = true
		}
	}
	h.Merge(&rec)
}
