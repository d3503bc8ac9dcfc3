package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/headgate-io/headgate/cluster"
	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/envoy"
	"github.com/headgate-io/headgate/server/web"
)

// parts are what has to be stopped in order.
type parts struct {
	front *server.Server
	node  *cluster.Node // nil without replication
	web   *web.Server
	envoy *envoy.Server // nil if it is off
	// stopEngine ends what the engine does in the background, and waits.
	stopEngine func()
	log        *slog.Logger
}

// stopGrace is how long a stop may take beyond its timeout. It is more than the
// parts take together to give up what hangs.
const stopGrace = 4 * time.Second

// errNotStopped is returned when something hangs, such as a disk, or a command
// that does not end.
var errNotStopped = errors.New("a part of the server did not stop in time and was abandoned; committed data is safe")

// stop ends the parts within timeout, or little more. It returns errNotStopped
// when one does not end: the process is to end all the same.
func (p *parts) stop(timeout time.Duration) error {
	if !within(timeout+stopGrace, func() { p.inOrder(timeout) }) {
		return errNotStopped
	}
	return nil
}

// within reports whether fn returns within limit; otherwise it leaves fn
// running.
func within(limit time.Duration, fn func()) bool {
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

func (p *parts) inOrder(timeout time.Duration) {
	p.log.Info("stopping", "timeout", timeout.String())
	deadline, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	// First, so that load balancers look elsewhere. It answers all the while, and
	// what asks again does so by a new connection.
	var drained sync.WaitGroup
	drained.Go(func() { p.web.Drain(deadline) })
	if p.envoy != nil {
		drained.Go(func() {
			calls, cancel := context.WithTimeout(deadline, timeout/2)
			defer cancel()
			if err := p.envoy.Shutdown(calls); err != nil {
				p.log.Debug("gRPC clients cut off", "error", err)
			}
		})
	}
	// Leadership before the clients: their commands go to the next leader
	// while they are still connected. Half of the time is left for them.
	if p.node != nil {
		handover, cancel := context.WithTimeout(deadline, timeout/2)
		if err := p.node.Handover(handover, ""); err != nil {
			p.log.Warn("the next leader has to be elected", "error", err)
		}
		cancel()
	}
	// From here on HTTP requests get 503, and are not run.
	drained.Wait()
	if err := p.front.Shutdown(deadline); err != nil {
		p.log.Warn("clients cut off at the shutdown timeout", "error", err)
	}
	// After the clients: a node on its own decides until then, and commits its
	// decisions here.
	if p.node != nil {
		if err := p.node.Close(deadline); err != nil {
			p.log.Warn("leave the cluster", "error", err)
		}
	}
	// After everything that decides has stopped.
	p.stopEngine()
	// HTTP last: it reports the progress of the stop.
	webDeadline, cancelWeb := context.WithTimeout(context.Background(), time.Second)
	defer cancelWeb()
	if err := p.web.Shutdown(webDeadline); err != nil {
		p.log.Debug("HTTP clients cut off", "error", err)
	}
	p.log.Info("stopped")
}
