package hgtest

import (
	"slices"
	"sync"
	"time"
)

// Beside is what clients of other nodes saw while a leader was killed.
type Beside struct {
	Answers, Degraded int // degraded ones are of the failure policy
	Failures          []error
	P99, Longest      time.Duration
}

// KillBeside kills the leader while clients ask all nodes, and goes on for a moment
// after another node leads. ask sends the n-th question of a client to a node, and
// reports whether the failure policy answered. Each client calls it in a goroutine of
// its own.
func (c *Cluster) KillBeside(clients int, ask func(s *Server, client, n int) (degraded bool, err error)) (*Beside, error) {
	type client struct {
		of    *Server
		waits []time.Duration
		saw   Beside
	}
	all := make([]client, clients)
	stop := make(chan struct{})
	var load sync.WaitGroup
	for i := range all {
		one := &all[i]
		one.of = c.Nodes[i%len(c.Nodes)]
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				began := time.Now()
				degraded, err := ask(one.of, i, n)
				one.waits = append(one.waits, time.Since(began))
				if err != nil {
					one.saw.Failures = append(one.saw.Failures, err)
					time.Sleep(10 * time.Millisecond) // its node may be the one that was killed
				} else if degraded {
					one.saw.Degraded++
				}
			}
		})
	}
	const aMoment = 300 * time.Millisecond
	time.Sleep(aMoment)
	killed, err := c.KillLeader()
	if err == nil {
		_, err = c.Leader()
	}
	time.Sleep(aMoment)
	close(stop)
	load.Wait()
	b := new(Beside)
	var waits []time.Duration
	for _, one := range all {
		if one.of != killed {
			waits = append(waits, one.waits...)
			b.Failures = append(b.Failures, one.saw.Failures...)
			b.Degraded += one.saw.Degraded
		}
	}
	if b.Answers = len(waits); b.Answers > 0 {
		slices.Sort(waits)
		b.P99, b.Longest = waits[len(waits)*99/100], waits[len(waits)-1]
	}
	return b, err
}
