// Command headgate is a rate-limit server that speaks the Redis protocol.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "headgate: %v\n", err)
		os.Exit(1)
	}
}

// run executes the command line args.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	root := &cobra.Command{
		Use:           "headgate",
		Short:         "A rate-limit server that speaks the Redis protocol",
		Long:          "Headgate is a rate-limit server that speaks the Redis protocol.\nWithout a command it serves.",
		Version:       versionText(),
		SilenceErrors: true, // main prints them, once
		SilenceUsage:  true, // an error of the configuration is no reason for pages of usage
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetArgs(withCommand(config.JoinSwitches(args)))
	root.AddCommand(serveCommand(), checkCommand(), clusterCommand(), copyCommand(), scriptsCommand(), policyCommand(), importCommand(), routeCommand(), versionCommand())
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.HasSubCommands() {
			refuseOthers(cmd)
		}
	}
	return root.ExecuteContext(ctx)
}

// refuseOthers makes a word that is none of parent's commands an error. By
// itself cobra prints the help text, as it does when there is no word.
func refuseOthers(parent *cobra.Command) {
	parent.Args = cobra.NoArgs
	parent.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// withCommand puts the default command, serve, in front of arguments that name
// none.
func withCommand(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"serve"}
	case slices.Contains([]string{"-h", "--help", "-v", "--version"}, args[0]):
		return args
	case strings.HasPrefix(args[0], "-"):
		return append([]string{"serve"}, args...)
	}
	return args
}
