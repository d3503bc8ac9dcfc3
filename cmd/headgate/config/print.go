package config

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Print writes the configuration in the form of a file that Load can read. Default values
// are in comments. After other values, a comment says where they come from. The value of a
// secret is left out, and its line is a comment. If a value is a percentage of the memory,
// the comment says its size.
func (l *Loaded) Print(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := range Params {
		p := &Params[i]
		parsed := p.Value(&l.Config)
		value := parsed.String()
		if p.Secret && value != "" {
			fmt.Fprintf(out, "# %s:\t# %s; its value is not shown, write it in\n", p.Name, l.Sources[p.Name])
			continue
		}
		if value == "" || strings.ContainsAny(value, ":#*\"' ") {
			value = strconv.Quote(value)
		}
		var notes []string
		if s, ok := parsed.(size); ok && s.inBytes() > 0 && !strings.HasSuffix(value, "b") {
			notes = append(notes, HumanSize(s.inBytes()))
		}
		if from, ok := l.Sources[p.Name]; ok {
			notes = append(notes, from)
		} else {
			fmt.Fprint(out, "# ")
		}
		fmt.Fprintf(out, "%s: %s", p.Name, value)
		if len(notes) > 0 {
			fmt.Fprint(out, "\t# ", strings.Join(notes, ", "))
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}
