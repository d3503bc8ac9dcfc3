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

// parts holds the parts of the process that must be stopped in order.
type parts struct {
	front *server.Server
	node  *cluster.Node // nil without replication
	web   *web.Server
	envoy *envoy.Server // nil if the gRPC port is off
	// stopEngine ends the engine's background work, and waits for that.
	stopEngine func()
	log        *slog.Logger
}

// stopGrace is how long a stop may take beyond its timeout. It is longer than the time
// after which the parts together give up on operations that hang.
const stopGrace = 4 * time.Second

// errNotStopped is returned if something hangs, for example a disk or a command that does
// not end.
var errNotStopped = errors.New("a part of the server did not stop in time and was abandoned; committed data is safe")

// stop ends the parts within timeout, or little more. It returns errNotStopped if a part
// does not end; the process must still exit.
func (p *parts) stop(timeout time.Duration) error {
	if !within(timeout+stopGrace, func() { p.inOrder(timeout) }) {
		return errNotStopped
	}
	return nil
}

// within reports whether fn returns within limit. If not, fn continues to run.
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
	// First drain HTTP, so that load balancers choose other nodes. The port still answers
	// meanwhile, but each client must connect again.
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
	// Give up leadership before the clients are disconnected, so that their commands go to
	// the next leader. Half of the time is left for the clients.
	if p.node != nil {
		handover, cancel := context.WithTimeout(deadline, timeout/2)
		if err := p.node.Handover(handover); err != nil {
			p.log.Warn("the next leader has to be elected", "error", err)
		}
		cancel()
	}
	// From now on, HTTP requests get status 503 and are not run.
	drained.Wait()
	if err := p.front.Shutdown(deadline); err != nil {
		p.log.Warn("clients cut off at the shutdown timeout", "error", err)
	}
	// Stop the node after the clients. A node without others decides until then, and here
	// it commits its decisions.
	if p.node != nil {
		if err := p.node.Close(deadline); err != nil {
			p.log.Warn("leave the cluster", "error", err)
		}
	}
	// Stop the engine after all parts that decide.
	p.stopEngine()
	// Stop HTTP last, because it reports the progress of the stop.
	webDeadline, cancelWeb := context.WithTimeout(context.Background(), time.Second)
	defer cancelWeb()
	if err := p.web.Shutdown(webDeadline); err != nil {
		p.log.Debug("HTTP clients cut off", "error", err)
	}
	p.log.Info("stopped")
}
