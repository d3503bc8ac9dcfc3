package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/headgate-io/headgate/cmd/headgate/cluster"
	"github.com/headgate-io/headgate/server"
	hghttp "github.com/headgate-io/headgate/server/http"
)

// parts are what has to be stopped in order.
type parts struct {
	front *server.Server
	node  *cluster.Node // nil without replication
	web   *hghttp.Server
	log   *slog.Logger
}

// stop ends the parts within timeout, or little more.
func (p *parts) stop(timeout time.Duration) {
	p.log.Info("stopping", "timeout", timeout.String())
	deadline, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	// First, so that load balancers look elsewhere.
	p.web.SetReady(false)
	// Leadership before the clients: their commands go to the next leader
	// while they are still connected. Half of the time is left for them.
	if p.node != nil {
		handover, cancel := context.WithTimeout(deadline, timeout/2)
		if err := p.node.Handover(handover, ""); err != nil {
			p.log.Warn("the next leader has to be elected", "error", err)
		}
		cancel()
	}
	if err := p.front.Shutdown(deadline); err != nil {
		p.log.Warn("clients cut off at the shutdown timeout", "error", err)
	}
	// After the clients: a node on its own decides to the last, and what it
	// has decided is committed here.
	if p.node != nil {
		if err := p.node.Close(deadline); err != nil {
			p.log.Warn("leave the cluster", "error", err)
		}
	}
	// HTTP to the last: it tells how the stop goes.
	webDeadline, cancelWeb := context.WithTimeout(context.Background(), time.Second)
	defer cancelWeb()
	if err := p.web.Shutdown(webDeadline); err != nil {
		p.log.Debug("HTTP clients cut off", "error", err)
	}
	p.log.Info("stopped")
}
