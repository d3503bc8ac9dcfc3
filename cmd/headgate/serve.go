package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

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

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server (the default)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := config.Load(cmd.Flags(), os.Environ())
			if err != nil {
				return err
			}
			return serve(cmd.Context(), loaded.Config, cmd.ErrOrStderr())
		},
	}
	addConfigFlags(cmd)
	return cmd
}

// serve runs a server until ctx is done, a signal or SHUTDOWN asks it to stop,
// or a part of it fails. It starts what the next part needs, and stops in the
// reverse order.
func serve(ctx context.Context, c config.Config, stderr io.Writer) (err error) {
	// First, since a signal that comes before this line ends the process
	// where nothing needs to be put in order yet. After the first signal,
	// release gives the second its default effect: to end the process at once.
	ctx, release := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer release()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	// A log that nobody reads any more must not end the server.
	signal.Ignore(syscall.SIGPIPE)

	log, level := newLogger(stderr, &c)
	fitMemory := limitMemory(log, &c)
	spareProcessors(&c)

	// Before the ports, so that unusable files leave no trace.
	files, err := portFiles(&c, log)
	if err != nil {
		return err
	}
	policies, err := openPolicies(&c, log)
	if err != nil {
		return err
	}
	audit, err := openAudit(&c, log)
	if err != nil {
		return err
	}

	told, toldFile, err := openDecisions(&c, stderr, log)
	if err != nil {
		return err
	}
	defer told.Close()

	// All ports before anything runs: a port in use is the commonest mistake,
	// and clients that connect from here on wait instead of being refused.
	ports, err := listen(&c, files, log)
	if err != nil {
		return err
	}
	defer ports.close()
	if !c.Replicated() {
		log.Info("limits are in memory only: a restart forgets what was consumed; set data-dir to keep it")
	}
	limit := accept.Limit()
	fitted := descriptors(&c, limit)
	warnDescriptors(log, &c, &fitted, limit)
	if err := files.makeSecret(&c, log); err != nil {
		return err
	}

	failed := make(chan error, 8) // one for each part: nobody reads after the first

	// The engine before the server, which decides from its first byte on.
	decisions := engine.New(engine.Config{
		Shards:        c.Shards,
		MaxBytes:      c.MaxMemory,
		Evict:         c.MaxMemoryPolicy == config.EvictReplenished,
		LogMaxEntries: c.LogMaxEntries,
		LeaseShare:    engine.LeaseShare(c.LeaseShare),
		TopK:          c.TopK,
	})
	// The node before the first session of the engine, which then refuses to
	// decide until the node leads.
	var node *cluster.Node
	if c.Replicated() {
		peers := clusterConfig(&c, ports, files, log, func(err error) {
			failed <- fmt.Errorf("replication: %w", err)
		})
		peers.Audit = audit.logger(log)
		node, err = cluster.New(peers, decisions)
		if err != nil {
			return err
		}
	}
	engineCtx, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEngine() // the stop waits for it; an error before does not
	engineDone := make(chan struct{})
	go func() { defer close(engineDone); decisions.Run(engineCtx) }()

	store := config.NewStore(c)
	stop, shutdown := context.WithCancel(ctx) // done by SHUTDOWN as well
	defer shutdown()
	frontConfig := serverConfig(&fitted, node)
	frontConfig.Logger, frontConfig.Audit = log, audit.logger(log)
	frontConfig.Engine, frontConfig.Decisions = decisions, told
	frontConfig.Settings = store
	frontConfig.Stop = shutdown
	if ports.secure != nil {
		frontConfig.HandshakeErrors = ports.clientHandshakeErrors
	}
	front, err := server.New(frontConfig)
	if err != nil {
		return err
	}
	store.OnChange(func(c *config.Config) {
		fitMemory(c)
		setLevel(level, c.LogLevel)
		decisions.SetMemory(c.MaxMemory, c.MaxMemoryPolicy == config.EvictReplenished)
		now := descriptors(c, limit)
		front.Configure(runtimeConfig(&now))
		if node != nil {
			node.SetSettings(alike(c))
		}
	})

	// The policies of a node on its own before its ports answer: no call may miss
	// them. Those of a cluster come to it when it has a leader.
	if node == nil {
		if err := policies.offer(ctx, front); err != nil {
			return err
		}
	}
	var offers sync.WaitGroup
	offering, stopOffering := context.WithCancel(stop)
	defer offers.Wait()
	defer stopOffering()
	offers.Go(func() { policies.run(offering, front) })

	// HTTP before the Redis protocol, so that a waiting orchestrator sees a live
	// process. It reports "not ready" until the others serve.
	watched, asked := &source{front, decisions, node, audit, ports, files}, fronts.New()
	webConfig := web.Config{
		Source: watched, View: &view{watched, c.Node()}, Version: buildVersion(), Logger: log, Pprof: c.Pprof, Busy: front.Busy,
		Decider: front.Caller(), Memory: front.TakeMemory, Events: front.Events(), Fronts: asked, TrustedProxies: c.TrustedProxies, MaxClients: fitted.HTTPMaxClients, Local: config.Loopback(c.HTTPListen),
	}
	if node != nil {
		webConfig.Fit = node.Fit
	}
	webFront := web.New(webConfig)
	run := func(l net.Listener, serve func(net.Listener) error) {
		if l != nil {
			go func() { failed <- serve(l) }()
		}
	}
	run(ports.http, webFront.Serve)
	var gateways *envoy.Server
	if ports.grpc != nil {
		gateways = envoy.New(envoyConfig(&fitted, front, webFront, asked))
		run(ports.grpc, gateways.Serve)
	}
	run(ports.plain, front.Serve)
	run(ports.unix, front.Serve)
	run(ports.secure, front.ServeStreams)
	if node != nil {
		run(node.Forwarded(), front.ServeForwarded)
	}
	// With the addresses: ports may have been chosen by the system.
	log.Info("listening", append(ports.attrs(), "version", buildVersion(), "maxmemory", config.HumanSize(c.MaxMemory))...)
	ready := func() {
		webFront.SetReady(true)
		log.Info("ready")
		suggest(stderr, &c, ports.plain)
	}
	if node == nil {
		ready()
	} else if err := node.Start(front.Partition()); err != nil {
		// After the ports: until there is a leader, clients get an error that says
		// so.
		failed <- err
	} else {
		go func() {
			if node.Ready(stop) == nil {
				ready()
			}
		}()
	}

	daily := time.NewTicker(24 * time.Hour)
	defer daily.Stop()
	for waiting := true; waiting; {
		select {
		case <-daily.C:
			files.each((*certs.Reloader).Warn)
		case <-hangup:
			files.reload()
			policies.reload()
			audit.reload()
			toldFile.reload()
		case <-stop.Done():
			waiting = false
		case err = <-failed:
			waiting = false
		}
	}
	release()
	if delay := store.Current().ShutdownDelay; err == nil && delay > 0 {
		// All parts still answer: clients and load balancers that ask for readiness
		// leave first.
		webFront.SetReady(false)
		log.Info("stopping soon", "delay", delay.String())
		select {
		case <-time.After(delay):
		case err = <-failed:
		}
	}
	all := parts{front, node, webFront, gateways, func() { stopEngine(); <-engineDone }, log}
	return errors.Join(err, all.stop(store.Current().ShutdownTimeout))
}
