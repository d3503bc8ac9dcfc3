// Command withservers runs a command with three Headgate servers beside it, and
// tells it of them in its environment:
//
//	HGTEST_BIN        the server's executable, for tests that start, kill and restart their own
//	HGTEST_ADDR       host:port of a plain server
//	HGTEST_AUTH_ADDR  host:port of a server with a password
//	HGTEST_PASSWORD   that password
//	HGTEST_TLS_ADDR   host:port of a server that speaks TLS
//	HGTEST_TLS_CA     PEM file of the authority that signed its certificate
//
// HGTEST_BIN must be set. The exit status is the command's, or 1 if a server
// crashed or did not stop in order.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/headgate-io/headgate/internal/hgtest"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "withservers:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	if len(args) == 0 || os.Getenv("HGTEST_BIN") == "" {
		return 2, errors.New("usage: HGTEST_BIN=path withservers command [argument ...]")
	}
	// The command gets the terminal's interrupt itself and ends by it; this
	// process must outlive it to stop the servers. Not signal.Ignore, which
	// the command would inherit.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT)
	defer hgtest.Clean()
	servers, err := hgtest.StartTrio()
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, servers.Stop()) }()

	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(),
		"HGTEST_ADDR="+servers.Plain.Addr,
		"HGTEST_AUTH_ADDR="+servers.Auth.Addr,
		"HGTEST_PASSWORD="+hgtest.Password,
		"HGTEST_TLS_ADDR="+servers.TLS.Addr,
		"HGTEST_TLS_CA="+servers.Cert.CAFile,
	)
	var exit *exec.ExitError
	switch err := cmd.Run(); {
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1), nil
	case err != nil:
		return 1, err
	}
	return 0, nil
}
