package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/headgate-io/headgate/cluster"
	"github.com/headgate-io/headgate/cmd/headgate/certs"
	"github.com/headgate-io/headgate/cmd/headgate/config"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/accept"
	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/envoy"
	"github.com/headgate-io/headgate/server/fronts"
	"github.com/headgate-io/headgate/server/web"
)

// parts holds the parts of the process. They are made, started and stopped in the order in
// which they need each other.
type parts struct {
	log   *slog.Logger
	files *files
	ports *listeners
	store *config.Store
	// maxDescriptors is how many file descriptors the process may have; 0 is any number.
	maxDescriptors int

	engines []*engine.Engine
	node    *cluster.Node // nil without replication
	front   *server.Server
	web     *web.Server
	envoy   *envoy.Server // nil if the gRPC port is off

	failed chan error // of the parts that run; only the first one is read
	// background is the engine's background work. It lasts until stopEngine.
	background sync.WaitGroup
	stopEngine func()
	offers     sync.WaitGroup // of the policies of a file
}

// makeParts makes the parts of a node with so many groups. None of them runs yet. SHUTDOWN
// calls shutdown.
func makeParts(c *config.Config, groups int, ports *listeners, files *files, log *slog.Logger, shutdown func()) (_ *parts, err error) {
	p := &parts{
		log: log, files: files, ports: ports, store: config.NewStore(*c), maxDescriptors: accept.Limit(),
		failed: make(chan error, 8+groups), // room for one error of each part
		// The server needs the engines from the first byte on.
		engines: makeEngines(c, groups),
	}
	// Make the node before an engine's first session. The node makes an engine refuse to
	// decide until the node is leader of its group.
	if c.Replicated() {
		peers := clusterConfig(c, ports, files.reloaders, log, func(err error) { p.failed <- fmt.Errorf("replication: %w", err) })
		peers.Audit = files.audit.logger(log)
		if p.node, err = cluster.New(peers, p.engines); err != nil {
			return nil, err
		}
	}
	fitted := descriptors(c, p.maxDescriptors)
	warnDescriptors(log, c, &fitted, p.maxDescriptors)
	front := serverConfig(&fitted, p.engines, p.node)
	front.Logger, front.Audit, front.Decisions = log, files.audit.logger(log), files.told
	front.Settings, front.Stop = p.store, shutdown
	if ports.secure != nil || c.ClusterListen != "" && c.ClusterTLS() {
		front.HandshakeErrors = ports.clientHandshakeErrors
	}
	if p.front, err = server.New(front); err != nil {
		return nil, err
	}
	asked := fronts.New()
	p.web = web.New(p.webConfig(&fitted, asked))
	if ports.grpc != nil {
		p.envoy = envoy.New(envoyConfig(&fitted, p.front, p.web, asked))
	}
	return p, nil
}

// webConfig returns the configuration of the HTTP front.
func (p *parts) webConfig(c *config.Config, asked *fronts.Counts) web.Config {
	watched := &source{p.front, p.engines, p.node, p.files.audit, p.ports, p.files.reloaders}
	wc := web.Config{
		Source: watched, View: &view{watched, c.Node()}, Version: buildVersion(), Logger: p.log, Pprof: c.Pprof, Console: c.Console, Busy: p.front.Busy,
		Decider: p.front.Caller(), Memory: p.front.TakeMemory, Events: p.front.Events(), Fronts: asked,
		TrustedProxies: c.TrustedProxies, MaxClients: c.HTTPMaxClients, Local: config.Loopback(c.HTTPListen),
	}
	if p.node != nil {
		wc.Fit = p.node.Fit
	}
	return wc
}

// configure puts changed parameters into force.
func (p *parts) configure(c *config.Config) {
	p.engines[0].SetMemory(c.MaxMemory, c.MaxMemoryPolicy == config.EvictReplenished) // of all
	fitted := descriptors(c, p.maxDescriptors)
	p.front.Configure(runtimeConfig(&fitted))
	if p.node != nil {
		p.node.SetSettings(alike(c))
	}
}

// start lets the parts run until stop is done. It calls ready when the server is ready.
func (p *parts) start(stop context.Context, ready func()) error {
	background, cancel := context.WithCancel(context.WithoutCancel(stop))
	p.stopEngine = cancel
	p.background.Go(func() { p.engines[0].Run(background) }) // for all

	// A node without others loads its policies before its ports answer, because no call may
	// miss them. A node of a cluster gets the policies when there is a leader.
	if p.node == nil {
		if err := p.files.policies.offer(stop, p.front); err != nil {
			return err
		}
	}
	p.offers.Go(func() { p.files.policies.run(stop, p.front) })

	// Serve HTTP before the Redis protocol, so that an orchestrator that waits sees a
	// running process. /readyz reports "not ready" until the other ports serve.
	p.run(p.ports.http, p.web.Serve)
	if p.envoy != nil {
		p.run(p.ports.grpc, p.envoy.Serve)
	}
	p.run(p.ports.plain, p.front.Serve)
	p.run(p.ports.unix, p.front.Serve)
	p.run(p.ports.secure, p.front.ServeStreams)
	p.run(p.ports.cluster, p.front.ServeCluster)
	if p.node != nil {
		for i := range p.engines {
			p.run(p.node.Group(i).Forwarded(), p.front.ServeForwarded)
		}
	}
	// Log the addresses, because the system may have chosen the ports.
	p.log.Info("listening", append(p.ports.attrs(), "version", buildVersion(), "maxmemory", config.HumanSize(p.store.Current().MaxMemory))...)
	served := func() {
		p.web.SetReady(true)
		p.log.Info("ready")
		ready()
	}
	if p.node == nil {
		served()
	} else if err := p.node.Start(clusterFronts(p.front)); err != nil {
		// Join the cluster after the ports serve. Until there is a leader, clients get an
		// error that says so.
		p.failed <- err
	} else {
		go func() {
			if p.node.Ready(stop) == nil {
				served()
			}
		}()
	}
	return nil
}

// run serves a port that is on.
func (p *parts) run(l net.Listener, serve func(net.Listener) error) {
	if l != nil {
		go func() { p.failed <- serve(l) }()
	}
}

// wait returns when stop is done, or with the error of a part that fails. On SIGHUP it reads
// the files again.
func (p *parts) wait(stop context.Context, hangup <-chan os.Signal) error {
	daily := time.NewTicker(24 * time.Hour)
	defer daily.Stop()
	for {
		select {
		case <-daily.C:
			p.files.each((*certs.Reloader).Warn)
		case <-hangup:
			p.files.reload()
		case <-stop.Done():
			return nil
		case err := <-p.failed:
			return err
		}
	}
}

// leave lets clients and load balancers that ask for readiness leave for the time of delay.
// All parts still answer. It returns earlier with the error of a part that fails.
func (p *parts) leave(delay time.Duration) error {
	if delay == 0 {
		return nil
	}
	p.web.SetReady(false)
	p.log.Info("stopping soon", "delay", delay.String())
	select {
	case <-time.After(delay):
		return nil
	case err := <-p.failed:
		return err
	}
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
	p.background.Wait()
	// Stop HTTP last, because it reports the progress of the stop.
	webDeadline, cancelWeb := context.WithTimeout(context.Background(), time.Second)
	defer cancelWeb()
	if err := p.web.Shutdown(webDeadline); err != nil {
		p.log.Debug("HTTP clients cut off", "error", err)
	}
	p.log.Info("stopped")
}
