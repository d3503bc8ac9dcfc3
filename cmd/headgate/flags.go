package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

// helpWidth is the width of the help text in columns.
const helpWidth = 100

// addConfigFlags gives cmd a flag for each parameter, shown by section after
// the flags that cmd has already.
func addConfigFlags(cmd *cobra.Command) {
	own := ""
	if cmd.Flags().HasFlags() {
		own = "\n" + cmd.Flags().FlagUsagesWrapped(helpWidth)
	}
	config.AddFlags(cmd.Flags())
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "Usage:\n  %s\n"+own+"\n"+
			"Each parameter is a flag, a key of the YAML file and an environment variable\n"+
			"(--http-listen, http-listen:, HEADGATE_HTTP_LISTEN), in this order of precedence:\n"+
			"flag, environment, file, default.\n\n%s", cmd.UseLine(), config.Usage(cmd.Flags(), helpWidth))
		return err
	})
}
