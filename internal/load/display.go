package load

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// progress shows a run's seconds: on a terminal one line that is redrawn,
// elsewhere one line a second.
type progress struct {
	w     io.Writer
	tty   bool
	total time.Duration
	drawn bool
}

func newProgress(w io.Writer, tty bool) *progress { return &progress{w: w, tty: tty} }

// isTerminal reports whether w is a character device.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (p *progress) title(cfg *Config) {
	p.total = cfg.Warmup + cfg.Duration
	mode := "closed loop"
	if cfg.Rate > 0 {
		mode = "open loop, " + groupDigits(cfg.Rate) + "/s"
	}
	fmt.Fprintf(p.w, "%s  to %s\n%d clients, pipeline %d, %s keys (%s), %s, %s\n\n",
		strings.Join(cfg.Command, " "), cfg.Addr, cfg.Clients, cfg.Pipeline,
		groupDigits(float64(cfg.Keys)), cfg.Distribution, mode, cfg.Duration)
}

func (p *progress) show(s Progress) {
	line := fmt.Sprintf("%4.0fs %11s/s  ", s.Elapsed.Seconds(), groupDigits(s.Rate))
	switch {
	case s.Warmup:
		line += "warm-up"
	case s.P99 == 0:
		line += "no reply"
	default:
		line += fmt.Sprintf("p50 %s  p99 %s", millis(s.P50), millis(s.P99))
	}
	if s.Errors > 0 {
		line += fmt.Sprintf("  errors %d", s.Errors)
	}
	if !p.tty {
		fmt.Fprintln(p.w, line)
		return
	}
	p.drawn = true
	fmt.Fprintf(p.w, "\r\x1b[K%s %s", bar(s.Elapsed, p.total), line)
}

// done ends the redrawn line.
func (p *progress) done() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func bar(elapsed, total time.Duration) string {
	const width = 20
	full := min(int(width*elapsed/max(total, 1)), width)
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", width-full) + "]"
}

// writeText prints a result for people.
func writeText(w io.Writer, r *Result) error {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s"+format+"\n", append([]any{name}, args...)...)
	}
	row("throughput", "%s/s over %.1f s", groupDigits(r.Rate), r.Duration.Seconds())
	if r.Offered > 0 {
		row("offered", "%s/s, %s never sent, %s without a reply",
			groupDigits(r.Offered), groupDigits(float64(r.Unsent)), groupDigits(float64(r.Unanswered)))
	}
	if decided := r.Allowed + r.Denied; decided > 0 {
		row("decisions", "%s allowed, %s denied (%.1f %%)", groupDigits(float64(r.Allowed)),
			groupDigits(float64(r.Denied)), 100*float64(r.Denied)/float64(decided))
	}
	l := r.Latency
	row("latency", "mean %s  p50 %s  p90 %s  p99 %s", millis(l.Mean), millis(l.P50), millis(l.P90), millis(l.P99))
	row("", "p99.9 %s  p99.99 %s  max %s", millis(l.P999), millis(l.P9999), millis(l.Max))
	kinds := make([]string, 0, len(r.Errors))
	for kind := range r.Errors {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		row("errors", "%s %d, the first: %s", kind, r.Errors[kind], r.Causes[kind])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// millis prints a latency in milliseconds with three decimals below 10 ms.
func millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	decimals := 3
	if ms >= 10 {
		decimals = 1
	}
	return strconv.FormatFloat(ms, 'f', decimals, 64) + " ms"
}

// groupDigits prints a rounded number with spaces between thousands.
func groupDigits(v float64) string {
	s := strconv.FormatInt(int64(math.Round(v)), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}
