package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/headgate-io/headgate/cmd/headgate/top"
)

// envSeeToken is the variable of the parameter http-see-token, for a client.
const envSeeToken = "HEADGATE_HTTP_SEE_TOKEN"

func topCommand() *cobra.Command {
	var url, token string
	var once bool
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show in the terminal what a node does now",
		Long: `Shows decisions per second by outcome, latency, connections, keys and memory with bars
of the last minutes, the keys and limits that deny most, and events. Each line of bars is
scaled to its highest value; a bar stands for 5 s. WOULD/s is what shadow and soft limits
would deny. q or Ctrl-C ends it.

top asks one node, over its HTTP port. In a cluster only the leader decides.`,
		Example: `  headgate top
  HEADGATE_HTTP_SEE_TOKEN=… headgate top --url https://limits.example.com:7380
  headgate top --once`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if token == "" {
				token = os.Getenv(envSeeToken)
			}
			c, err := top.NewClient(url, token)
			if err != nil {
				return fmt.Errorf("--url %q: %w", url, err)
			}
			ctx, release := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer release()
			if once {
				return hinted(top.Once(ctx, c, cmd.OutOrStdout()))
			}
			return hinted(top.Run(ctx, c, os.Stdin, os.Stdout))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&url, "url", "http://127.0.0.1:7380", "`URL` of the node's HTTP port")
	flags.StringVar(&token, "token", "", "`token` with the right to see, or a password; other users of this machine do not see the variable "+envSeeToken)
	flags.BoolVar(&once, "once", false, "print one frame after a second, without colours, and end")
	return cmd
}

// hinted adds to the error of a first reading what the user can do about it.
func hinted(err error) error {
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: no server has this port; give --url, or start a server with headgate serve or headgate demo", err)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: is this the HTTP port of a Headgate server?", err)
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: name the authority's certificate in the variable SSL_CERT_FILE", err)
	}
	return err
}
