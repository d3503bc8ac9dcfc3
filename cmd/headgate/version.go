package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/headgate-io/headgate/cluster"
)

// The linker sets version and commit in a build by make.
var version, commit string

// buildVersion returns the version of this binary. It is the version that the linker has
// set, the module's version (go install …@v1.2.3), or "devel".
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

func versionText() string {
	return fmt.Sprintf("headgate %s (%s, %s/%s)", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// build is the output of version --json.
type build struct {
	Version string `json:"version"`
	// Commit is "" if neither make nor go build knew it.
	Commit string `json:"commit"`
	Go     string `json:"go"`
	// FeatureLevel is the highest feature level of clusters in which this build can run.
	FeatureLevel int `json:"feature_level"`
}

func thisBuild() build {
	b := build{Version: buildVersion(), Commit: commit, Go: runtime.Version(), FeatureLevel: cluster.FeatureLevel()}
	if info, ok := debug.ReadBuildInfo(); ok && commit == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Commit = s.Value
			}
		}
	}
	return b
}

func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return printJSON(cmd.OutOrStdout(), thisBuild())
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print version, commit, Go version and feature level as JSON")
	return cmd
}
