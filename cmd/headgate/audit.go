package main

import (
	"log/slog"
	"sync/atomic"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

// auditFile is the file of audit-log. A nil auditFile means that there is none; the lines
// then go to the log.
type auditFile struct {
	lines  *lineFile
	failed atomic.Uint64 // lines that could not be written
}

// openAudit opens the audit log's file, if c has one.
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

// logger returns a logger that writes lines of JSON into the file. If there is no file, it
// returns log.
func (a *auditFile) logger(log *slog.Logger) *slog.Logger {
	if a == nil {
		return log.With("audit", true)
	}
	return slog.New(slog.NewJSONHandler(a, nil))
}

// Write implements io.Writer. If a line does not fit on the disk, Write logs the line
// instead.
func (a *auditFile) Write(line []byte) (int, error) {
	n, err := a.lines.Write(line)
	if err != nil {
		a.failed.Add(1)
		a.lines.log.Error("a change is not in audit-log", "error", err, "line", string(line))
	}
	return n, err
}

// lost returns how many lines since the start are not in the file.
func (a *auditFile) lost() uint64 {
	if a == nil {
		return 0
	}
	return a.failed.Load()
}

// reload closes the file and opens it again.
func (a *auditFile) reload() {
	if a != nil {
		a.lines.reload()
	}
}
