package scenario

import (
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
)

// calm is one server that nothing happens to.
func calm(r *Run) error { return standalone(r, 0) }

// switchover kills one server after the other.
func switchover(r *Run) error { return standalone(r, r.Rounds) }

func standalone(r *Run, kills int) error {
	s, err := cluster.NewSwitchover(r.Bin, r.Dir, kills+1)
	if err != nil {
		return err
	}
	defer s.Close()
	keys := limits(r.Rate)
	dial := func(int) string {
		if p := s.Leader(); p != nil {
			return p.Addr
		}
		return ""
	}
	var load offered
	if kills == 0 {
		load, err = r.offerData(much, keys, 1, dial, chargeAndPeek(keys))
	} else {
		load = r.offer(keys, len(s.Servers), dial, chargeAndPeek(keys)) // no server knows the scripts of the other servers
	}
	if err != nil {
		return err
	}
	for range kills {
		r.wait(3 * time.Second)
		p := s.Leader()
		r.note("kill %s", p.Name)
		if err := p.Kill(); err != nil {
			return err
		}
	}
	r.wait(3 * time.Second)
	return r.end(load, keys, func() error {
		if r.data == nil {
			return nil
		}
		return r.readData(s.Leader().Addr)
	})
}
