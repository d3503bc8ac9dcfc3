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

// KillBeside kills the leader while clients ask the other nodes, and goes on for a
// moment when another one leads. ask asks a node the n-th question of a client; it is
// called by a goroutine for each, and tells whether the failure policy has answered.
func (c *Cluster) KillBeside(clients int, ask func(s *Server, client, n int) (degraded bool, err error)) (*Beside, error) {
	leader, err := c.Leader()
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var waits []time.Duration
	b := new(Beside)
	stop := make(chan struct{})
	var load sync.WaitGroup
	for client := range clients {
		s := c.Nodes[client%len(c.Nodes)]
		if s == leader {
			continue
		}
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				began := time.Now()
				degraded, err := ask(s, client, n)
				mu.Lock()
				waits = append(waits, time.Since(began))
				if err != nil {
					b.Failures = append(b.Failures, err)
				} else if degraded {
					b.Degraded++
				}
				mu.Unlock()
			}
		})
	}
	const aMoment = 300 * time.Millisecond
	time.Sleep(aMoment)
	if _, err = c.KillLeader(); err == nil {
		_, err = c.Leader()
	}
	time.Sleep(aMoment)
	close(stop)
	load.Wait()
	if b.Answers = len(waits); b.Answers > 0 {
		slices.Sort(waits)
		b.P99, b.Longest = waits[len(waits)*99/100], waits[len(waits)-1]
	}
	return b, err
}
