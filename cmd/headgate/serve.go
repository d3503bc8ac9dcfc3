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
			return serveGroups(cmd.Context(), loaded.Config, cmd.ErrOrStderr(), func(_ context.Context, ports *listeners) {
				suggest(cmd.ErrOrStderr(), &loaded.Config, ports.plain)
			})
		},
	}
	addConfigFlags(cmd)
	return cmd
}

// serve runs a server until ctx is done, until a signal or SHUTDOWN asks it to stop, or
// until a part of it fails. It starts the parts in the order in which they need each other,
// and stops them in the reverse order. When the server is ready, serve calls onReady with a
// context that ends when the server stops.
func serve(ctx context.Context, c config.Config, stderr io.Writer, onReady func(context.Context, *listeners)) (err error) {
	// Do this first: a signal that arrives earlier ends the process, which has nothing to
	// put in order yet. After the first signal, release restores the default effect of the
	// second signal: it ends the process at once.
	ctx, release := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer release()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	// If nobody reads the log any more, the server must still continue.
	signal.Ignore(syscall.SIGPIPE)

	log, level := newLogger(stderr, &c)
	fitMemory := limitMemory(log, &c)
	spareProcessors(&c)

	// Load the files before the ports open, so that a start with unusable files leaves
	// nothing behind.
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

	// Open all ports before any part runs. A port in use is the most common mistake.
	// Clients that connect from now on wait instead of being refused.
	ports, err := listen(&c, files, log)
	if err != nil {
		return err
	}
	defer ports.close()
	if !c.Replicated() {
		log.Info("limits are in memory only: a restart forgets what was consumed; set data-dir to keep it")
	}
	groups, err := groupsOf(ctx, &c, ports, files)
	if err != nil {
		return err
	}
	if groups > 1 { // and the parameter may not say so
		c.Groups = groups
	}
	limit := accept.Limit()
	fitted := descriptors(&c, limit)
	warnDescriptors(log, &c, &fitted, limit)
	if err := files.makeSecret(&c, log); err != nil {
		return err
	}

	failed := make(chan error, 8+groups) // room for one error of each part, because only the first is read

	// Make the engines before the server, which needs them from the first byte on.
	engines := makeEngines(&c, groups)
	// Make the node before an engine's first session. The node makes an engine refuse to
	// decide until the node is leader of its group.
	var node *cluster.Node
	if c.Replicated() {
		peers := clusterConfig(&c, ports, files, log, func(err error) {
			failed <- fmt.Errorf("replication: %w", err)
		})
		peers.Audit = audit.logger(log)
		node, err = cluster.New(peers, engines)
		if err != nil {
			return err
		}
	}
	engineCtx, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	defer stopEngine() // stop waits for this; a return before the parts run does not
	var running sync.WaitGroup
	running.Go(func() { engines[0].Run(engineCtx) }) // for all

	store := config.NewStore(c)
	stop, shutdown := context.WithCancel(ctx) // SHUTDOWN calls shutdown
	defer shutdown()
	frontConfig := serverConfig(&fitted, engines, node)
	frontConfig.Logger, frontConfig.Audit = log, audit.logger(log)
	frontConfig.Decisions = told
	frontConfig.Settings = store
	frontConfig.Stop = shutdown
	if ports.secure != nil || c.ClusterListen != "" && c.ClusterTLS() {
		frontConfig.HandshakeErrors = ports.clientHandshakeErrors
	}
	front, err := server.New(frontConfig)
	if err != nil {
		return err
	}
	store.OnChange(func(c *config.Config) {
		fitMemory(c)
		setLevel(level, c.LogLevel)
		engines[0].SetMemory(c.MaxMemory, c.MaxMemoryPolicy == config.EvictReplenished) // of all
		now := descriptors(c, limit)
		front.Configure(runtimeConfig(&now))
		if node != nil {
			node.SetSettings(alike(c))
		}
	})

	// A node without others loads its policies before its ports answer, because no call may
	// miss them. A node of a cluster gets the policies when there is a leader.
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

	// Serve HTTP before the Redis protocol, so that an orchestrator that waits sees a
	// running process. /readyz reports "not ready" until the other ports serve.
	watched, asked := &source{front, engines, node, audit, ports, files}, fronts.New()
	webConfig := web.Config{
		Source: watched, View: &view{watched, c.Node()}, Version: buildVersion(), Logger: log, Pprof: c.Pprof, Console: c.Console, Busy: front.Busy,
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
	run(ports.cluster, front.ServeCluster)
	if node != nil {
		for i := range groups {
			run(node.Group(i).Forwarded(), front.ServeForwarded)
		}
	}
	// Log the addresses, because the system may have chosen the ports.
	log.Info("listening", append(ports.attrs(), "version", buildVersion(), "maxmemory", config.HumanSize(c.MaxMemory))...)
	ready := func() {
		webFront.SetReady(true)
		log.Info("ready")
		onReady(stop, ports)
	}
	if node == nil {
		ready()
	} else if err := node.Start(clusterFronts(front)); err != nil {
		// Join the cluster after the ports serve. Until there is a leader, clients get an
		// error that says so.
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
		// All parts still answer. Clients and load balancers that ask for readiness can
		// leave first.
		webFront.SetReady(false)
		log.Info("stopping soon", "delay", delay.String())
		select {
		case <-time.After(delay):
		case err = <-failed:
		}
	}
	all := parts{front, node, webFront, gateways, func() { stopEngine(); running.Wait() }, log}
	return errors.Join(err, all.stop(store.Current().ShutdownTimeout))
}
