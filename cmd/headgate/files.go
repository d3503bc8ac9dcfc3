package main

import (
	"io"
	"log/slog"

	"github.com/headgate-io/headgate/cmd/headgate/config"
	"github.com/headgate-io/headgate/server/decisions"
)

// files holds the files of a server that SIGHUP reads or opens again.
type files struct {
	reloaders
	policies *policiesFile
	audit    *auditFile     // nil without audit-log
	told     *decisions.Log // nil without decision-log
	toldFile *lineFile      // nil if told does not go to a file
}

// openFiles opens the files that c names.
func openFiles(c *config.Config, stderr io.Writer, log *slog.Logger) (f *files, err error) {
	f = new(files)
	if f.reloaders, err = portFiles(c, log); err != nil {
		return nil, err
	}
	if f.policies, err = openPolicies(c, log); err != nil {
		return nil, err
	}
	if f.audit, err = openAudit(c, log); err != nil {
		return nil, err
	}
	if f.told, f.toldFile, err = openDecisions(c, stderr, log); err != nil {
		return nil, err
	}
	return f, nil
}

// reload reads all files again. If one is invalid, what was read before stays.
func (f *files) reload() {
	f.reloaders.reload()
	f.policies.reload()
	f.audit.reload()
	f.toldFile.reload()
}
