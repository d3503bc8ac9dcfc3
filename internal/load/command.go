package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// flags are the command line of `headgate bench`, as far as Config does not
// hold them already.
type flags struct {
	cfg        Config
	command    string
	hot        bool
	zipf       float64
	useTLS     bool
	tlsCA      string
	skipVerify bool
	format     string
}

// NewCommand returns the `bench` subcommand.
func NewCommand() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Load a server and measure its throughput and latency",
		Long: `Load a server that speaks the Redis protocol and measure it.

Without --rate every connection sends as fast as replies arrive (closed loop).
With --rate commands arrive at a fixed rate whatever the server does, and
latency counts from the moment a command was due (open loop).

Each __rand__ in --command is replaced by a 12-digit key number.`,
		Example: `  headgate bench --pipeline 16
  headgate bench --rate 20000 --duration 30s
  headgate bench --hot --command "RL.LIMIT login:__rand__ 5 1m ALGORITHM sliding"
  headgate bench --addr 127.0.0.1:6379 --command PING`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.cfg.Addr, "addr", "127.0.0.1:7379", "server `host:port`")
	fl.IntVarP(&f.cfg.Clients, "clients", "c", 50, "connections")
	fl.IntVarP(&f.cfg.Pipeline, "pipeline", "P", 1, "commands written at once")
	fl.Uint64VarP(&f.cfg.Keys, "keys", "k", 1_000_000, "distinct keys")
	fl.Float64Var(&f.cfg.Rate, "rate", 0, "commands per second over all connections; 0 = as fast as possible")
	fl.DurationVarP(&f.cfg.Duration, "duration", "d", 10*time.Second, "length of the measurement")
	fl.DurationVar(&f.cfg.Warmup, "warmup", time.Second, "time before the measurement starts")
	fl.Uint64Var(&f.cfg.Seed, "seed", 1, "seed of the key sequence")
	fl.StringVar(&f.command, "command", "CL.THROTTLE key:__rand__ 15 30 60", "command to send")
	fl.BoolVar(&f.hot, "hot", false, "use one key only")
	fl.Float64Var(&f.zipf, "zipf", 0, "draw keys by Zipf's law with this exponent, above 1; 0 = evenly")
	fl.StringVar(&f.cfg.Password, "password", os.Getenv("REDISCLI_AUTH"), "password for AUTH; default $REDISCLI_AUTH")
	fl.Lookup("password").DefValue = "" // the help text must not show the environment's secret
	fl.BoolVar(&f.useTLS, "tls", false, "connect with TLS")
	fl.StringVar(&f.tlsCA, "tls-ca", "", "PEM `file` of the authorities to trust instead of the system's")
	fl.BoolVar(&f.skipVerify, "tls-skip-verify", false, "accept any server certificate")
	fl.StringVar(&f.format, "format", "text", "text or json")
	return cmd
}

func (f *flags) run(ctx context.Context, stdout, stderr io.Writer) error {
	if f.format != "text" && f.format != "json" {
		return fmt.Errorf("format: %q is neither text nor json", f.format)
	}
	f.cfg.Command = strings.Fields(f.command)
	if err := f.distribution(); err != nil {
		return err
	}
	if err := f.encrypt(); err != nil {
		return err
	}
	// JSON on standard output stays alone there.
	out := stdout
	if f.format == "json" {
		out = stderr
	}
	p := newProgress(out, isTerminal(out))
	f.cfg.Progress = p.show
	if err := f.cfg.validate(); err != nil {
		return err
	}
	p.title(&f.cfg)
	res, err := Run(ctx, f.cfg)
	p.done()
	if res == nil {
		return err
	}
	if errors.Is(err, context.Canceled) { // an interrupt ends a run like any other end
		err = nil
	}
	return errors.Join(err, f.print(stdout, res))
}

func (f *flags) print(w io.Writer, res *Result) error {
	if f.format == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(res)
	}
	return writeText(w, res)
}

func (f *flags) distribution() error {
	switch {
	case f.hot && f.zipf != 0:
		return errors.New("hot and zipf exclude each other")
	case f.hot:
		f.cfg.Distribution = Hot
	case f.zipf != 0:
		f.cfg.Distribution, f.cfg.ZipfS = Zipf, f.zipf
	}
	return nil
}

func (f *flags) encrypt() error {
	if !f.useTLS {
		if f.tlsCA != "" || f.skipVerify {
			return errors.New("tls-ca and tls-skip-verify need tls")
		}
		return nil
	}
	host, _, err := net.SplitHostPort(f.cfg.Addr)
	if err != nil {
		return fmt.Errorf("addr: %w", err)
	}
	conf := &tls.Config{ServerName: host, InsecureSkipVerify: f.skipVerify, MinVersion: tls.VersionTLS12}
	if f.tlsCA != "" {
		pem, err := os.ReadFile(f.tlsCA)
		if err != nil {
			return fmt.Errorf("tls-ca: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("tls-ca: no certificate in %s", f.tlsCA)
		}
	}
	f.cfg.TLS = conf
	return nil
}
