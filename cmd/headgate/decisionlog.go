package main

import (
	"io"
	"log/slog"
	"os"

	"github.com/headgate-io/headgate/cmd/headgate/config"
	"github.com/headgate-io/headgate/server/decisions"
)

// openDecisions opens the decision log. It returns a nil Log if none is configured, and a
// nil file if the log does not go to a file.
func openDecisions(c *config.Config, stderr io.Writer, log *slog.Logger) (*decisions.Log, *lineFile, error) {
	dc := decisions.Config{Logger: log, Plain: c.DecisionLogPlain, Key: []byte(c.DecisionLogHashKey)}
	var file *lineFile
	switch c.DecisionLog {
	case "":
		return nil, nil, nil
	case config.Stdout:
		dc.Out = os.Stdout
	case config.Stderr:
		dc.Out = stderr
	default:
		var err error
		if file, err = openLines("decision-log", c.DecisionLog, log); err != nil {
			return nil, nil, err
		}
		dc.Out = file
	}
	return decisions.New(dc), file, nil
}
