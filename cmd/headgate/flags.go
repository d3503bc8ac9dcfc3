package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

// helpWidth is the width of the help text in columns.
const helpWidth = 100

// helpAll is the flag that shows all parameters.
const helpAll = "help-all"

// helpOf returns the flag that shows all flags of cmd.
func helpOf(cmd *cobra.Command) string {
	if cmd.Flags().Lookup(helpAll) != nil {
		return "--" + helpAll
	}
	return "--help"
}

// addConfigFlags adds a flag for each parameter to cmd. The help text shows the flags that
// cmd already has, and then the most important parameters. With --help-all, it shows all
// parameters by section.
func addConfigFlags(cmd *cobra.Command) {
	own := ""
	if cmd.HasExample() {
		own = "\nExamples:\n" + cmd.Example + "\n"
	}
	if cmd.Flags().HasFlags() {
		own += "\n" + cmd.Flags().FlagUsagesWrapped(helpWidth)
	}
	config.AddFlags(cmd.Flags())
	all := cmd.Flags().Bool(helpAll, false, "show all parameters, by section")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *all {
			return pflag.ErrHelp
		}
		return nil
	}
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		usage := config.FirstUsage(cmd.Flags(), helpWidth) + "\n" + cmd.CommandPath() + " --" + helpAll + " lists the other parameters, by section.\n"
		if *all {
			usage = config.Usage(cmd.Flags(), helpWidth)
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "Usage:\n  %s\n%s\n"+
			"Each parameter is a flag, a key of the YAML file and an environment variable\n"+
			"(--http-listen, http-listen:, HEADGATE_HTTP_LISTEN), in this order of precedence:\n"+
			"flag, environment, file, default.\n\n%s", cmd.UseLine(), own, usage)
		return err
	})
}
