package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
)

// scriptsTimeout bounds the time to connect and the time to answer of headgate scripts.
const scriptsTimeout = 10 * time.Second

func scriptsCommand() *cobra.Command {
	var url string
	var count int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "scripts",
		Short: "Show which Lua scripts clients send, and Headgate's own commands for them",
		Long: `Show the answer of RL.SCRIPTS: the scripts that ran most, how often and for
how long, Headgate's own command for each, if there is one, and
counters that never expire.

Each node counts for itself. In a cluster scripts run on the leader: ask that.`,
		Example: `  headgate scripts
  headgate scripts --url redis://:secret@headgate-1:7379 --count 50 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), scriptsTimeout)
			defer cancel()
			return runScripts(ctx, url, count, asJSON, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&url, "url", "redis://127.0.0.1:7379", "`URL` of the server: redis://[user:password@]host:port, or rediss:// for TLS")
	flags.IntVar(&count, "count", 10, "how many scripts to show")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func runScripts(ctx context.Context, url string, count int, asJSON bool, out io.Writer) error {
	o, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	o.Protocol, o.MaxRetries = 3, -1
	o.ReadTimeout, o.WriteTimeout = scriptsTimeout, scriptsTimeout
	c := redis.NewClient(o)
	defer c.Close()
	var told scriptsTold
	reply, err := c.Do(ctx, "RL.SCRIPTS", "COUNT", count).Result()
	if err != nil {
		return err
	}
	if err := told.read(reply); err != nil {
		return err
	}
	role, err := c.Do(ctx, "ROLE").Slice()
	if err != nil {
		return err
	}
	if len(role) > 2 && role[0] == "slave" {
		told.Leader = fmt.Sprint(role[1], ":", role[2])
	}
	if asJSON {
		return printJSON(out, &told)
	}
	return told.print(out)
}

// scriptsTold is the reply of RL.SCRIPTS.
type scriptsTold struct {
	// Leader is the node that runs the scripts, if the reply is from another node.
	Leader string `json:"leader,omitempty"`
	Known  int64  `json:"known"`
	scriptTold
	Scripts            []scriptTold  `json:"scripts"`
	KeysLookedAt       int64         `json:"keys_looked_at"`
	Counters           int64         `json:"counters"`
	CountersWithoutTTL int64         `json:"counters_without_ttl"`
	WithoutTTL         []endlessTold `json:"without_ttl"`
}

// scriptTold holds the counts of one script, or of all scripts.
type scriptTold struct {
	SHA1        string `json:"sha1,omitempty"`
	Library     string `json:"library,omitempty"`
	Text        string `json:"text,omitempty"`
	Instead     string `json:"instead,omitempty"`
	Runs        int64  `json:"runs"`
	Native      int64  `json:"native"`
	Interpreted int64  `json:"interpreted"`
	Moved       int64  `json:"moved"`
	Errors      int64  `json:"errors"`
	Ended       int64  `json:"ended"`
	MeanNS      int64  `json:"mean_ns"`
	MaxNS       int64  `json:"max_ns"`
	TotalMS     int64  `json:"total_ms"`
}

// endlessTold is a counter that never expires.
type endlessTold struct {
	Database int64  `json:"database"`
	Key      string `json:"key"`
	Value    int64  `json:"value"`
}

var errScriptsReply = errors.New("the server's answer to RL.SCRIPTS cannot be read; is it of another version?")

// read reads the reply, which must be in RESP3.
func (t *scriptsTold) read(reply any) error {
	m, ok := reply.(map[any]any)
	if !ok {
		return errScriptsReply
	}
	t.scriptTold.read(m)
	number(m, "known", &t.Known)
	number(m, "keys_looked_at", &t.KeysLookedAt)
	number(m, "counters", &t.Counters)
	number(m, "counters_without_ttl", &t.CountersWithoutTTL)
	scripts, ok1 := m["scripts"].([]any)
	endless, ok2 := m["without_ttl"].([]any)
	if !ok1 || !ok2 {
		return errScriptsReply
	}
	t.Scripts, t.WithoutTTL = make([]scriptTold, len(scripts)), make([]endlessTold, len(endless))
	for i, s := range scripts {
		m, ok := s.(map[any]any)
		if !ok {
			return errScriptsReply
		}
		t.Scripts[i].read(m)
	}
	for i, k := range endless {
		e := &t.WithoutTTL[i]
		parts, ok := k.([]any)
		if !ok || len(parts) != 3 {
			return errScriptsReply
		}
		e.Database, _ = parts[0].(int64)
		e.Key, _ = parts[1].(string)
		e.Value, _ = parts[2].(int64)
	}
	return nil
}

func (t *scriptTold) read(m map[any]any) {
	t.SHA1, _ = m["sha1"].(string)
	t.Library, _ = m["library"].(string)
	t.Text, _ = m["text"].(string)
	t.Instead, _ = m["instead"].(string)
	for name, to := range map[string]*int64{"runs": &t.Runs, "native": &t.Native, "interpreted": &t.Interpreted, "moved": &t.Moved,
		"errors": &t.Errors, "ended": &t.Ended, "mean_ns": &t.MeanNS, "max_ns": &t.MaxNS, "total_ms": &t.TotalMS} {
		number(m, name, to)
	}
}

// number reads a number in a map. If the map lacks it, to becomes 0.
func number(m map[any]any, name string, to *int64) { *to, _ = m[name].(int64) }

// print writes a line about all scripts, a table of the scripts with the most runs, and
// advice.
func (t *scriptsTold) print(out io.Writer) error {
	if t.Leader != "" {
		fmt.Fprintf(out, "This node does not lead: scripts run on the leader, at %s. The numbers below are of this node.\n", t.Leader)
	}
	fmt.Fprintf(out, "%d scripts known; %d runs: %d native, %d in Lua, %d moved to a worker, %d errors, %d ended at their bounds\n",
		t.Known, t.Runs, t.Native, t.Interpreted, t.Moved, t.Errors, t.Ended)
	if len(t.Scripts) > 0 {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "\nSHA1\tRUNS\tNATIVE\tMEAN\tMAX\tTOTAL\tMOVED\tERRORS\tENDED\tSCRIPT")
		for i := range t.Scripts {
			s := &t.Scripts[i]
			fmt.Fprintf(w, "%.12s\t%d\t%s\t%v\t%v\t%v\t%d\t%d\t%d\t%s\n", dash(s.SHA1), s.Runs, percent(s.Native, s.Runs), measured(s.MeanNS), measured(s.MaxNS),
				time.Duration(s.TotalMS)*time.Millisecond, s.Moved, s.Errors, s.Ended, s.name())
		}
		if err := w.Flush(); err != nil {
			return err
		}
		t.printInstead(out)
	}
	return t.printEndless(out)
}

// name returns the name of a script for the table.
func (t *scriptTold) name() string {
	if t.Library != "" {
		return t.Library
	}
	return dash(t.Text)
}

// printInstead writes the Headgate commands that can replace the scripts.
func (t *scriptsTold) printInstead(out io.Writer) {
	title, told := "\nThe same in one call of Headgate:\n", map[string]bool{}
	for i := range t.Scripts {
		s := &t.Scripts[i]
		if s.Instead == "" || told[s.Library] {
			continue
		}
		told[s.Library] = true
		fmt.Fprintf(out, "%s  %s: %s\n", title, s.Library, s.Instead)
		title = ""
	}
}

// printEndless writes the counters that never expire.
func (t *scriptsTold) printEndless(out io.Writer) error {
	fmt.Fprintf(out, "\n%d of %d counters never expire, of %d keys looked at\n", t.CountersWithoutTTL, t.Counters, t.KeysLookedAt)
	for _, k := range t.WithoutTTL {
		fmt.Fprintf(out, "  db %d  %s = %d\n", k.Database, strings.ToValidUTF8(fmt.Sprintf("%q", k.Key), "?"), k.Value)
	}
	if t.CountersWithoutTTL > 0 {
		fmt.Fprintln(out, "If such a counter is a rate limit, its client lost the EXPIRE after the first INCR. INCREX key EX 60 ENX counts and sets the time to live in one step.")
	}
	return nil
}

// percent returns part as a percentage of all; "-" if all is 0.
func percent(part, all int64) string {
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%d%%", 100*part/all)
}

// measured returns a time in ns as text; "-" if there is none.
func measured(ns int64) string {
	if ns == 0 {
		return "-"
	}
	return time.Duration(ns).Round(100 * time.Nanosecond).String()
}
