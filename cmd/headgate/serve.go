package main

import (
	"context"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate-io/headgate/cmd/headgate/certs"
	"github.com/headgate-io/headgate/cmd/headgate/config"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server"
	hghttp "github.com/headgate-io/headgate/server/http"
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
	limitMemory(log, &c)

	// Before the ports, so that unusable files leave no trace.
	var files *certs.Reloader
	if c.TLS() {
		if files, err = certs.New(tlsFiles(&c), log); err != nil {
			return err
		}
	}

	// All ports before anything runs: a port in use is the commonest mistake,
	// and clients that connect from here on wait instead of being refused.
	ports, err := listen(&c, files)
	if err != nil {
		return err
	}
	defer ports.close()
	checkDescriptors(log, &c)

	// The engine before the server, which decides from its first byte on.
	decisions := engine.New(engine.Config{
		Shards:        c.Shards,
		MaxBytes:      c.MaxMemory,
		Evict:         c.MaxMemoryPolicy == config.EvictReplenished,
		LogMaxEntries: c.LogMaxEntries,
		TopK:          c.TopK,
	})
	engineCtx, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	engineDone := make(chan struct{})
	go func() { defer close(engineDone); decisions.Run(engineCtx) }()
	// After everything that decides has stopped.
	defer func() { stopEngine(); <-engineDone }()

	store := config.NewStore(c)
	store.OnChange(func(c *config.Config) {
		setLevel(level, c.LogLevel)
		decisions.SetMemory(c.MaxMemory, c.MaxMemoryPolicy == config.EvictReplenished)
	})

	latency := hghttp.NewLatency()
	stop, shutdown := context.WithCancel(ctx) // done by SHUTDOWN as well
	defer shutdown()
	frontConfig := serverConfig(&c)
	frontConfig.Logger = log
	frontConfig.Engine = decisions
	frontConfig.Settings = store
	frontConfig.Observe = latency.Observe
	frontConfig.Stop = shutdown
	front, err := server.New(frontConfig)
	if err != nil {
		return err
	}

	// HTTP before the Redis protocol, to tell an orchestrator that waits that
	// the process lives; it says "not ready" until the others serve.
	web := hghttp.New(hghttp.Config{
		Source: &source{front, decisions}, Latency: latency, Version: buildVersion(), Logger: log, Pprof: c.Pprof,
	})
	failed := make(chan error, 4) // one for each port: nobody reads after the first
	run := func(l net.Listener, serve func(net.Listener) error) {
		if l != nil {
			go func() { failed <- serve(l) }()
		}
	}
	run(ports.http, web.Serve)
	run(ports.plain, front.Serve)
	run(ports.unix, front.Serve)
	run(ports.secure, front.ServeStreams)
	// Last, with the addresses: ports may have been chosen by the system.
	web.SetReady(true)
	log.Info("ready", append(ports.attrs(), "version", buildVersion(), "maxmemory", c.MaxMemory)...)

	for waiting := true; waiting; {
		select {
		case <-hangup:
			if files != nil {
				files.Reload()
			}
		case <-stop.Done():
			waiting = false
		case err = <-failed:
			waiting = false
		}
	}

	release()
	timeout := store.Current().ShutdownTimeout
	log.Info("stopping", "timeout", timeout.String())
	// First, so that load balancers look elsewhere.
	web.SetReady(false)
	deadline, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if stopErr := front.Shutdown(deadline); stopErr != nil {
		log.Warn("clients cut off at the shutdown timeout", "error", stopErr)
	}
	// HTTP to the last: it tells how the stop goes.
	webDeadline, cancelWeb := context.WithTimeout(context.Background(), time.Second)
	defer cancelWeb()
	if stopErr := web.Shutdown(webDeadline); stopErr != nil {
		log.Debug("HTTP clients cut off", "error", stopErr)
	}
	log.Info("stopped")
	return err
}
