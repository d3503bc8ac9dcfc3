package main

import (
	"fmt"
	"io"
	"net"
	"os"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

// suggest prints on a terminal what to type next. The log of a service gets no such line:
// nobody types there, and programs that read the log expect only log lines. So suggest does
// nothing unless stderr is a terminal and the log is not JSON.
func suggest(stderr io.Writer, c *config.Config, plain net.Listener) {
	f, ok := stderr.(*os.File)
	if !ok || plain == nil || c.LogFormat == config.FormatJSON {
		return
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return
	}
	host, port, _ := net.SplitHostPort(plain.Addr().String())
	at := "-p " + port
	if ip := net.ParseIP(host); !ip.IsUnspecified() && host != "127.0.0.1" {
		at = "-h " + host + " " + at
	}
	if c.RequirePass != "" {
		at = "--askpass " + at
	}
	// An error means that the terminal has gone; the log then fails too.
	_, _ = fmt.Fprintf(f, "try: redis-cli %s RL.LIMIT user:42 10 1s\n", at)
}
