package config

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Print writes the configuration as a file that Load would read: defaults as
// comments, other values with their origin. Secrets are replaced by stars.
func (l *Loaded) Print(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := range Params {
		p := &Params[i]
		value := p.Value(&l.Config).String()
		if p.Secret && value != "" {
			value = "********"
		}
		if value == "" || strings.ContainsAny(value, ":#*\"' ") {
			value = strconv.Quote(value)
		}
		if from, ok := l.Sources[p.Name]; ok {
			fmt.Fprintf(out, "%s: %s\t# %s\n", p.Name, value, from)
		} else {
			fmt.Fprintf(out, "# %s: %s\n", p.Name, value)
		}
	}
	return out.Flush()
}
