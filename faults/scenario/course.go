package scenario

import (
	"fmt"
	"strings"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/faults/load"
	"github.com/headgate-io/headgate/faults/oracle"
)

// rounds lets some time pass, compares the tables and does f, as often as was asked for.
func (r *Run) rounds(f func() error) error {
	for range r.Rounds {
		r.wait(time.Second)
		if err := r.compareUnderWay(); err != nil {
			return err
		}
		r.wait(time.Second)
		if err := f(); err != nil {
			return err
		}
	}
	r.wait(2 * time.Second)
	return nil
}

// compareUnderWay has the load pause for a moment and compares what the nodes have made of it so far.
func (r *Run) compareUnderWay() error {
	if r.load == nil {
		return nil
	}
	r.load.Pause()
	r.checks.pause()
	r.bills.pause()
	r.gateways.pause()
	r.marks.paused.Store(true)
	defer r.load.Resume()
	defer r.checks.resume()
	defer r.bills.resume()
	defer r.gateways.resume()
	defer r.marks.paused.Store(false)
	if err := r.cluster.AwaitSettled(recovery); err != nil {
		return err
	}
	f, err := r.compareTables(10 * time.Second)
	if err != nil {
		return err
	}
	if !f.OK {
		f.Check = "under way"
		r.add(f)
	}
	r.compared++
	return nil
}

// finish ends a load, compares the tables and judges the history; err is what has gone wrong so far.
func (r *Run) finish(l offered, keys *load.Keyspace, err error) error {
	return r.end(l, keys, func() error {
		if err == nil {
			err = r.settle()
		}
		if err != nil || r.data == nil {
			return err
		}
		n, err := r.leader()
		if err != nil {
			return err
		}
		return r.readData(n.Addr)
	})
}

// end ends a load, has what is left of it looked at, and judges the history.
func (r *Run) end(l offered, keys *load.Keyspace, look func() error) error {
	r.audits.stop()
	r.checks.stop()
	r.bills.stop()
	r.gateways.stop()
	r.stop(l, keys)
	if r.flushed.End > 0 {
		r.forgetFlushed()
	}
	err := look()
	r.tableFaults()
	r.judge()
	if a := r.audits; a != nil {
		r.expect(a.wrong == 0 && a.done > 0, "transactions", "%d audits of two keys, %d of half of a transaction or a script; %s", a.done, a.wrong, a.text)
	}
	return err
}

// settle ends a scenario: nothing is offered any more, all links work, and all nodes must come to have the same table.
func (r *Run) settle() error {
	r.marks.close()
	r.cluster.Heal()
	if err := r.cluster.AwaitSettled(recovery); err != nil {
		return err
	}
	leader, err := r.leader()
	if err != nil {
		return err
	}
	if r.lossTimes, err = r.marks.losses(leader); err != nil {
		return err
	}
	f, err := r.compareTables(15 * time.Second)
	if err != nil {
		return err
	}
	r.tables = "equal"
	if !f.OK {
		r.tables = "**differ**"
	}
	if r.compared > 0 {
		f.Text += fmt.Sprintf(", and the same on all at %d times under way", r.compared)
	}
	r.add(f)
	return nil
}

// compareTables compares the tables of all nodes, as of one time of the cluster's clock, until they are the same.
func (r *Run) compareTables(patience time.Duration) (oracle.Finding, error) {
	f := oracle.Finding{Check: "tables"}
	for deadline := time.Now().Add(patience); !f.OK && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		digests, err := r.cluster.Digests()
		if err != nil {
			return f, err
		}
		f.OK, f.Text = true, fmt.Sprintf("the same %d keys on every node, digest %.16s", digests[0].Keys, digests[0].Sum)
		for _, d := range digests {
			if d.Sum != digests[0].Sum {
				f.OK, f.Text = false, fmt.Sprintf("they differ: %+v", digests)
			}
		}
	}
	return f, nil
}

// differs is what a node says, and ends with, whose table is not what the log makes of it.
var differs, _, _ = strings.Cut(engine.ErrBase.Error(), ";")

// tableFaults adds a finding for each node that has said so.
func (r *Run) tableFaults() {
	if r.cluster == nil {
		return
	}
	for _, n := range r.cluster.Nodes {
		if said, err := n.Logged(0, differs); said || err != nil {
			r.expect(false, "tables", "%s said %q: %v, %v", n.Name, differs, said, err)
		}
	}
}
