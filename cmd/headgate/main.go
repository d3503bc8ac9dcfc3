// Command headgate is a rate-limit server that speaks the Redis protocol.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headgate-io/headgate/cmd/headgate/config"
	"github.com/headgate-io/headgate/policy"
)

func main() {
	logging.Disable() // commands report errors of go-redis themselves
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
		SilenceErrors: true, // main prints errors, once
		SilenceUsage:  true, // long usage texts would hide an error of the configuration
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetArgs(withCommand(config.JoinSwitches(args)))
	root.AddCommand(serveCommand(), checkCommand(), clusterCommand(), copyCommand(), scriptsCommand(), policyCommand(), importCommand(), routeCommand(), sizeCommand(), demoCommand(), topCommand(), versionCommand())
	root.InitDefaultCompletionCmd()
	root.SetFlagErrorFunc(explainFlag)
	refuseOthers(root)
	for _, cmd := range root.Commands() {
		if cmd.HasSubCommands() {
			refuseOthers(cmd)
		}
	}
	return root.ExecuteContext(ctx)
}

// refuseOthers makes parent return an error for a word that is not one of its commands.
// Without a word, parent prints its help text.
func refuseOthers(parent *cobra.Command) {
	parent.Args = unknownCommand
	parent.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// unknownCommand returns an error if there are words after parent.
func unknownCommand(parent *cobra.Command, words []string) error {
	if len(words) == 0 {
		return nil
	}
	var names []string
	for _, cmd := range parent.Commands() {
		names = append(names, cmd.Name())
	}
	return fmt.Errorf("unknown command %q for %q%s", words[0], parent.CommandPath(), policy.Nearest(words[0], names))
}

// explainFlag adds the flag that was probably meant to the error for an unknown flag. If a
// command is misspelt, that is reported instead, because it makes all flags after it
// unknown.
func explainFlag(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() {
		if err := unknownCommand(cmd, cmd.Flags().Args()); err != nil {
			return err
		}
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	near := policy.Nearest("--"+unknown.GetSpecifiedName(), names)
	return fmt.Errorf("%w%s", err, cmp.Or(near, "; "+cmd.CommandPath()+" "+helpOf(cmd)+" lists the flags"))
}

// withCommand inserts the default command, serve, if the arguments do not begin with a
// command.
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
