package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/headgate-io/headgate/cmd/headgate/config"
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
// until a part of it fails. When the server is ready, serve calls onReady with a context that
// ends when the server stops.
func serve(ctx context.Context, c config.Config, stderr io.Writer, onReady func(context.Context, *listeners)) error {
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
	files, err := openFiles(&c, stderr, log)
	if err != nil {
		return err
	}
	defer files.told.Close()
	// Open all ports before any part runs. A port in use is the most common mistake.
	// Clients that connect from now on wait instead of being refused.
	ports, err := listen(&c, files.reloaders, log)
	if err != nil {
		return err
	}
	defer ports.close()
	if !c.Replicated() {
		log.Info("limits are in memory only: a restart forgets what was consumed; set data-dir to keep it")
	}
	groups, err := groupsOf(ctx, &c, ports, files.reloaders)
	if err != nil {
		return err
	}
	if groups > 1 { // and the parameter may not say so
		c.Groups = groups
	}
	if err := files.makeSecret(&c, log); err != nil {
		return err
	}

	stop, shutdown := context.WithCancel(ctx) // SHUTDOWN calls shutdown
	defer shutdown()
	p, err := makeParts(&c, groups, ports, files, log, shutdown)
	if err != nil {
		return err
	}
	p.store.OnChange(func(c *config.Config) {
		fitMemory(c)
		setLevel(level, c.LogLevel)
		p.configure(c)
	})
	defer func() {
		shutdown()
		p.stopEngine()
		p.offers.Wait() // until shutdown
	}()
	if err := p.start(stop, func() { onReady(stop, ports) }); err != nil {
		return err
	}
	err = p.wait(stop, hangup)
	release()
	if err == nil {
		err = p.leave(p.store.Current().ShutdownDelay)
	}
	return errors.Join(err, p.stop(p.store.Current().ShutdownTimeout))
}
