package main

import (
	"log/slog"
	"sync/atomic"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

// auditFile is the file of audit-log, nil for none: lines go to the log then.
type auditFile struct {
	lines  *lineFile
	failed atomic.Uint64 // lines
}

// openAudit opens the file of c.
func openAudit(c *config.Config, log *slog.Logger) (*auditFile, error) {
	if c.AuditLog == "" {
		return nil, nil
	}
	lines, err := openLines("audit-log", c.AuditLog, log)
	if err != nil {
		return nil, err
	}
	return &auditFile{lines: lines}, nil
}

// logger returns a logger that writes lines of JSON into the file, or log.
func (a *auditFile) logger(log *slog.Logger) *slog.Logger {
	if a == nil {
		return log.With("audit", true)
	}
	return slog.New(slog.NewJSONHandler(a, nil))
}

// Write implements io.Writer. It logs a line that does not fit on the disk.
func (a *auditFile) Write(line []byte) (int, error) {
	n, err := a.lines.Write(line)
	if err != nil {
		a.failed.Add(1)
		a.lines.log.Error("a change is not in audit-log", "error", err, "line", string(line))
	}
	return n, err
}

// lost returns how many lines are not in the file since the start.
func (a *auditFile) lost() uint64 {
	if a == nil {
		return 0
	}
	return a.failed.Load()
}

// reload opens the file anew.
func (a *auditFile) reload() {
	if a != nil {
		a.lines.reload()
	}
}
