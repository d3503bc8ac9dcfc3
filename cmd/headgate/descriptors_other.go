//go:build !unix

package main

import (
	"log/slog"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

// checkDescriptors does nothing: this system has no such limit.
func checkDescriptors(*slog.Logger, *config.Config) {}
