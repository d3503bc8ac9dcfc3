package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

func checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check-config",
		Short: "Check flags, environment and configuration file, and print the result",
		Long: `check-config resolves the configuration as serve would. It loads the TLS files, the
secret and the policies, and starts nothing. It prints every parameter with the place
that its value comes from; defaults are comments.

What it prints is a configuration file. The values of secrets are left out: write them
in before you use it.`,
		Example: `  headgate check-config --data-dir /var/lib/headgate > headgate.yaml
  headgate serve --config headgate.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := config.Load(cmd.Flags(), os.Environ())
			if err != nil {
				return err
			}
			if _, err := portFiles(&loaded.Config, slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))); err != nil {
				return err
			}
			if _, err := checkedPolicies(loaded.Policies, len(loaded.TrustedProxies) == 0); err != nil {
				return err
			}
			return loaded.Print(cmd.OutOrStdout())
		},
	}
	addConfigFlags(cmd)
	return cmd
}
