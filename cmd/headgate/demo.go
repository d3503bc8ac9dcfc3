package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headgate-io/headgate/cmd/headgate/config"
	"github.com/headgate-io/headgate/cmd/headgate/demo"
)

func demoCommand() *cobra.Command {
	var listen, http string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a server with policies and simulated traffic, to look at",
		Long: `A server for this machine alone, with three policies: an API with free and pro tiers,
logins, and tokens of a language model. Simulated callers send some 100 calls per second:
steady customers, a noisy neighbour, an import each minute, and somebody who tries stolen
passwords. Ctrl-C ends it. It reads no configuration and writes nothing to the disk.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDemo(cmd.Context(), listen, http, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:7379", "`address` of the Redis protocol, on the loopback interface")
	cmd.Flags().StringVar(&http, "http-listen", "127.0.0.1:7380", "`address` of HTTP and of the page, on the loopback interface")
	return cmd
}

// runDemo runs a server and the traffic until a signal stops it.
func runDemo(ctx context.Context, listen, http string, out, stderr io.Writer) error {
	flags := pflag.NewFlagSet("demo", pflag.ContinueOnError)
	config.AddFlags(flags)
	for name, value := range map[string]string{"listen": listen, "http-listen": http, "maxmemory": "64mb", "log-level": "warn"} {
		if err := flags.Set(name, value); err != nil {
			return err
		}
	}
	if !config.Loopback(listen) || !config.Loopback(http) {
		return errors.New("a demo is for this machine alone: --listen and --http-listen must be on the loopback interface, such as 127.0.0.1:7379")
	}
	loaded, err := config.Load(flags, nil)
	if err != nil {
		return err
	}
	err = serve(ctx, loaded.Config, stderr, func(ctx context.Context, ports *listeners) {
		redis, page := ports.plain.Addr().String(), ports.http.Addr().String()
		go func() {
			if err := demo.Load(ctx, redis); err != nil {
				fmt.Fprintf(stderr, "headgate: the demo has no policies: %v\n", err)
				return
			}
			printDemo(out, redis, page)
			demo.Traffic(ctx, redis)
		}()
	})
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w\nanother server has the port: choose others with --listen and --http-listen", err)
	}
	return err
}

// printDemo says where the page is and what to try.
func printDemo(out io.Writer, redis, page string) {
	top, cli := "headgate top", "redis-cli"
	if page != "127.0.0.1:7380" {
		top += " --url http://" + page
	}
	if host, port, _ := net.SplitHostPort(redis); host == "127.0.0.1" {
		cli += " -p " + port
	} else {
		cli += " -h " + host + " -p " + port
	}
	fmt.Fprintf(out, `Headgate decides about simulated callers now:

  http://%s/

Try in another terminal:

  %s
  %s RL.CHECK api customer you tier free
  curl -s 'http://%s/v1/explain?policy=login&attributes.user=user1&attributes.ip=203.0.113.66'

Ctrl-C ends it. Nothing stays on the disk.
`, page, top, cli, page)
}
