package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/headgate-io/headgate/cmd/headgate/sizing"
)

func sizeCommand() *cobra.Command {
	load := sizing.Load{Keys: 1e6, Rate: 100e3}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "size",
		Short: "Calculate the nodes, cores, memory, disk and network that a load needs",
		Long: `size calculates with coefficients that were measured on one machine, and asks no server.
It prints each figure with its formula. A node of the plan is half busy.`,
		Example: `  headgate size --keys 10M --rate 2M --groups 12
  headgate size --keys 1M --rate 300k --nodes 1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, err := sizing.Size(load)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), struct {
					*sizing.Estimate
					Cores    int           `json:"planned_cores"`
					Plan     []sizing.Line `json:"plan"`
					Formulas []sizing.Line `json:"formulas"`
				}{e, e.Cores(), e.Plan(), e.Formulas()})
			}
			return printSize(cmd.OutOrStdout(), e)
		},
	}
	flags := cmd.Flags()
	flags.Var((*amount)(&load.Keys), "keys", "`number` of keys at a time, such as 10M")
	flags.Var((*amount)(&load.Rate), "rate", "`decisions` per second at the busiest time")
	flags.IntVar(&load.KeyBytes, "key-bytes", 20, "length of a key's name")
	flags.IntVar(&load.Pipeline, "pipeline", 16, "`calls` that a client sends together; 1 without pipelines")
	flags.StringVar(&load.Algorithm, "algorithm", "token", strings.Join(sizing.Algorithms(), ", ")+" (of up to 4 entries)")
	flags.IntVar(&load.Nodes, "nodes", 3, "nodes of a cluster: 3 or 5; 1 is a single server")
	flags.IntVar(&load.Groups, "groups", 1, "groups of a cluster")
	flags.BoolVar(&load.Sync, "sync", false, "durability sync: replies wait for the commit")
	flags.IntVar(&load.Cores, "cores", 8, "most cores of a machine; what needs more is divided between clusters")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printSize(out io.Writer, e *sizing.Estimate) error {
	for i, lines := range [][]sizing.Line{e.Plan(), e.Formulas()} {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, []string{"PLAN\t\tBECAUSE", "\nCALCULATED\t\tFORMULA"}[i])
		for _, l := range lines {
			fmt.Fprintf(w, "%s\t%s\t%s\n", l.Name, l.Value, l.How)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "\n%s\n", sizing.Measured)
	return err
}

// amount is a number as people write it: 10M, 2.5k or 1000.
type amount float64

func (a *amount) Type() string { return "number" }

func (a *amount) String() string {
	s := strconv.FormatFloat(float64(*a), 'f', -1, 64)
	for _, u := range []struct{ zeros, unit string }{{"000000", "M"}, {"000", "k"}} {
		if n, ok := strings.CutSuffix(s, u.zeros); ok && n != "" {
			return n + u.unit
		}
	}
	return s
}

func (a *amount) Set(s string) error {
	number, unit := s, 1.0
	for suffix, by := range map[string]float64{"k": 1e3, "m": 1e6, "g": 1e9} {
		if n, ok := strings.CutSuffix(strings.ToLower(s), suffix); ok {
			number, unit = n, by
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return fmt.Errorf("want a number such as 1000, 250k or 10M")
	}
	*a = amount(v * unit)
	return nil
}
